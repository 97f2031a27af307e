"""A dependency that is missing shows as a wrong number; the whole set never does."""

import random
from collections.abc import Callable

import numpy as np
import pytest

from gpusim.numeric import attention_reference, execute, inputs_for
from gpusim.schedules import SCHEDULES, FlashChoices, KvOuterChoices
from gpusim.taskgraph import Kernel, Load, Step, TaskGraph, UnrolledCta, unroll
from gpusim.workloads import AttentionWorkload

WORKLOAD = AttentionWorkload(batch=1, heads=1, seqlen_q=4, seqlen_k=16, head_dim=4)
ORDERS = 20
Pair = tuple[str, str]


def without(pair: Pair) -> Callable[[Kernel, tuple[int, ...]], UnrolledCta]:
    """An unroller that forgets every direct edge from a task called `pair[0]` to one called `pair[1]`."""

    def unroller(kernel: Kernel, coordinates: tuple[int, ...]) -> UnrolledCta:
        whole = unroll(kernel, coordinates)
        named = {edge: (whole.steps[edge[0]].task.name, whole.steps[edge[1]].task.name) for edge in whole.edges}
        kept = frozenset(edge for edge, names in named.items() if names != pair)
        assert kept < whole.edges, f"no edge from {pair[0]} to {pair[1]}"
        return UnrolledCta(whole.steps, kept)

    return unroller


def wrong_orders(graph: TaskGraph, unroller: Callable[[Kernel, tuple[int, ...]], UnrolledCta]) -> int:
    """How many of the same random orders end in another number than attention (NaN included)."""
    inputs = inputs_for(WORKLOAD, seed=11)
    expected = attention_reference(*inputs.values())
    outputs = [execute(graph, inputs, rng=random.Random(seed), unroller=unroller)["O"] for seed in range(ORDERS)]
    return sum(not np.allclose(output, expected, rtol=0, atol=1e-12) for output in outputs)


def flash(name: str, **choices: object) -> TaskGraph:
    """The schedule with tiles of 4 and these choices."""
    return SCHEDULES[name].build(WORKLOAD, FlashChoices(tile_q=4, tile_kv=4, **choices), {})


# A read-after-write, a write-after-read and a write-after-write edge at least; only direct edges matter, since the
# pairs were chosen so that no other path connects them.
FLASH2_PAIRS = [
    ("S = Q Kᵀ", "load K"),  # write after read: the next K tile would overwrite this one
    ("O += P V", "load V"),  # the same for V
    ("load V", "O += P V"),  # read after write: V would be read before it is there
    ("load K", "S = Q Kᵀ"),
    ("load Q", "S = Q Kᵀ"),
    ("S = Q Kᵀ", "online softmax"),
    ("online softmax", "rescale O"),
    ("rescale O", "O += P V"),
    ("O += P V", "O / ℓ"),
    ("O / ℓ", "store O"),
]


@pytest.mark.parametrize("pair", FLASH2_PAIRS, ids=" → ".join)
def test_a_removed_edge_makes_some_order_wrong(pair: Pair) -> None:
    """Of 20 random orders at least one is wrong without the edge, and none is with it."""
    graph = flash("flash2")
    assert 0 == wrong_orders(graph, unroll)
    assert 0 < wrong_orders(graph, without(pair))


@pytest.mark.parametrize("pair", [("store O", "load O"), ("store m", "load m")], ids=" → ".join)
def test_an_edge_through_device_memory_matters_too(pair: Pair) -> None:
    """FA-1 stores O, m and ℓ and loads them again: without that order a block sums onto something else."""
    workload = WORKLOAD.model_copy(update={"seqlen_q": 12})
    graph = SCHEDULES["flash1"].build(workload, KvOuterChoices(tile_q=4, tile_kv=4, stages=2), {})
    inputs = inputs_for(workload, seed=12)
    expected = attention_reference(*inputs.values())

    def count(unroller: Callable[[Kernel, tuple[int, ...]], UnrolledCta]) -> int:
        outputs = [execute(graph, inputs, rng=random.Random(s), unroller=unroller)["O"] for s in range(ORDERS)]
        return sum(not np.allclose(output, expected, rtol=0, atol=1e-12) for output in outputs)

    assert 0 == count(unroll)
    assert 0 < count(without(pair))


def test_with_two_stages_the_next_load_need_not_wait() -> None:
    """K₁ goes into the other stage, so only K₂ waits for the product that reads K₀."""
    whole = unroll(flash("flash2", stages=2).kernels[0], (0, 0))

    def numbers(matches: Callable[[Step], bool]) -> list[int]:
        return [step.number for step in whole.steps if matches(step)]

    loads = numbers(lambda step: isinstance(step.task.op, Load) and step.task.name == "load K")
    products = numbers(lambda step: step.task.name == "S = Q Kᵀ")
    assert (products[0], loads[1]) not in whole.edges
    assert (products[0], loads[2]) in whole.edges
