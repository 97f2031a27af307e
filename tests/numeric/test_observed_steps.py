"""What `on_step` sees: every step with copies of its buffers, and what nobody needs any more."""

import numpy as np
import pytest

from gpusim.implementations import parse_request, plan
from gpusim.numeric import Executed, execute, inputs_for
from gpusim.specs import load_gpu
from gpusim.taskgraph import unroll
from gpusim.workloads import AttentionWorkload

SHAPE = AttentionWorkload(batch=1, heads=1, seqlen_q=8, seqlen_k=8, head_dim=4)


@pytest.fixture
def inputs() -> dict[str, np.ndarray]:
    """Q, K and V of eight tokens."""
    return inputs_for(SHAPE, seed=1)


@pytest.fixture
def seen(inputs: dict[str, np.ndarray]) -> list[Executed]:
    """Every step of FlashAttention with tiles of 4."""
    steps: list[Executed] = []
    graph = plan(parse_request({"name": "flash2", "tile_q": 4, "tile_kv": 4}, "t"), load_gpu("canvas"), SHAPE).graph
    execute(graph, inputs, on_step=steps.append)
    return steps


def test_it_sees_every_step_in_order(seen: list[Executed]) -> None:
    """Both CTAs, one after the other."""
    (kernel,) = dict.fromkeys(done.kernel for done in seen)
    expected = [step.task.name for cta in kernel.coordinates() for step in unroll(kernel, cta).steps]
    assert expected == [done.step.task.name for done in seen]


def test_it_sees_buffers_as_they_are_after_the_step(seen: list[Executed], inputs: dict[str, np.ndarray]) -> None:
    """The first scores are Q Kᵀ/√d of the first tiles, whatever later steps make of the buffer."""
    scores = next(done for done in seen if done.step.task.name == "S = Q Kᵀ")
    q, k = inputs["Q"][0, :4], inputs["K"][0, :4]
    assert np.allclose(q @ k.T / 2, scores.contents["S", 0])
    assert np.array_equal(k, scores.contents["K", 0])


def test_a_tile_is_spent_after_its_last_reader(seen: list[Executed]) -> None:
    """K after each score tile, P and V after each product, m after the last softmax of each CTA."""
    spent = [(done.step.task.name, slot[0]) for done in seen for slot in done.spent]
    assert 4 == spent.count(("S = Q Kᵀ", "K"))
    assert 4 == spent.count(("O += P V", "S")) == spent.count(("O += P V", "V"))
    assert 2 == spent.count(("online softmax", "m"))
    assert 2 == spent.count(("S = Q Kᵀ", "Q"))
