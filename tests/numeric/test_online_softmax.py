"""The running maximum, the running sum and the rescales that connect them."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest
import torch

from gpusim.numeric import Rescaling, execute, inputs_for, row_statistics
from gpusim.schedules import SCHEDULES, FlashChoices, KvOuterChoices
from gpusim.taskgraph import Loop, TaskGraph
from gpusim.workloads import AttentionWorkload

WORKLOAD = AttentionWorkload(batch=1, heads=2, seqlen_q=13, seqlen_k=10, head_dim=4, save_lse=True)
FLASH = ["flash1", "flash2"]


def flash(name: str, workload: AttentionWorkload = WORKLOAD, tile: int = 4) -> TaskGraph:
    """A FlashAttention graph with square tiles; FA-1 keeps wide partial sums."""
    choices = {
        "flash1": KvOuterChoices(tile_q=tile, tile_kv=tile, partials="fp32"),
        "flash2": FlashChoices(tile_q=tile, tile_kv=tile),
    }
    return SCHEDULES[name].build(workload, choices[name], {})


def rising_scores(maxima: list[float]) -> dict[str, np.ndarray]:
    """One head, one query of 1, d = 1: score j is K[j]."""
    keys = np.array(maxima).reshape(1, -1, 1)
    return {"Q": np.ones((1, 1, 1)), "K": keys, "V": np.arange(keys.size, dtype=float).reshape(1, -1, 1)}


def rescales_of(name: str, scores: list[float], tile: int) -> list[Rescaling]:
    """Rescales of one query row whose scores are these."""
    workload = AttentionWorkload(batch=1, heads=1, seqlen_q=1, seqlen_k=len(scores), head_dim=1)
    found: list[Rescaling] = []
    execute(flash(name, workload, tile), rising_scores(scores), on_rescale=found.append)
    return found


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
@pytest.mark.parametrize("name", FLASH)
def test_m_and_l_end_as_the_rows_maximum_and_sum(name: str, seed: int | None) -> None:
    """When a tile is normalised, m is the true maximum of the row's scores and ℓ the sum of e^(score − m)."""
    inputs = inputs_for(WORKLOAD, seed=7)
    maxima, sums = (np.full((2, 13), np.nan) for _ in range(2))

    def note(head: int, first: int, m: np.ndarray, total: np.ndarray) -> None:
        maxima[head, first : first + len(m)] = m[: 13 - first]
        sums[head, first : first + len(total)] = total[: 13 - first]

    rng = None if seed is None else random.Random(seed)
    execute(flash(name), inputs, rng=rng, on_statistics=note)
    true_maxima, true_sums = row_statistics(inputs["Q"], inputs["K"])
    np.testing.assert_allclose(maxima, true_maxima, rtol=0, atol=1e-12)
    np.testing.assert_allclose(sums, true_sums, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", FLASH)
def test_the_saved_log_sum_exp_is_torchs(name: str) -> None:
    """LSE of every row equals torch.logsumexp of its scaled scores."""
    inputs = inputs_for(WORKLOAD, seed=8)
    lse = execute(flash(name), inputs, rng=random.Random(8))["LSE"]
    q, k = (torch.from_numpy(inputs[which]) for which in "QK")
    expected = torch.logsumexp(q @ k.transpose(1, 2) / math.sqrt(4), dim=-1, keepdim=True).numpy()
    np.testing.assert_allclose(lse, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", FLASH)
def test_every_rescale_factor_is_e_to_the_old_minus_the_new_maximum(name: str) -> None:
    """The factor of each record follows from its two maxima, and the maximum only grows."""
    found: list[Rescaling] = []
    execute(flash(name), inputs_for(WORKLOAD, seed=9), on_rescale=found.append)
    assert found
    for rescale in found:
        assert rescale.old_max < rescale.new_max
        assert math.exp(rescale.old_max - rescale.new_max) == pytest.approx(rescale.factor, rel=1e-14)


@pytest.mark.parametrize("name", FLASH)
def test_the_records_are_the_rows_whose_tile_maximum_grew(name: str) -> None:
    """Counted from the definition: a row is rescaled at each K/V tile whose maximum exceeds all before it."""
    inputs = inputs_for(WORKLOAD, seed=10)
    found: list[Rescaling] = []
    execute(flash(name), inputs, on_rescale=found.append)
    scores = inputs["Q"] @ inputs["K"].swapaxes(1, 2) / 2
    tile_maxima = np.stack([scores[..., start : start + 4].max(-1) for start in (0, 4, 8)])
    running = np.maximum.accumulate(tile_maxima)
    expected = {(head, row) for _, head, row in np.argwhere(running[1:] > running[:-1])}
    assert np.count_nonzero(running[1:] > running[:-1]) == len(found)
    assert expected == {(rescale.head, rescale.row) for rescale in found}


@pytest.mark.parametrize("name", FLASH)
def test_maxima_that_rise_tile_by_tile_rescale_at_every_tile_but_the_first(name: str) -> None:
    """Scores 1, 2, 3, 4 in tiles of one: three rescales, each by e^−1."""
    found = rescales_of(name, [1.0, 2.0, 3.0, 4.0], tile=1)
    assert [(1.0, 2.0), (2.0, 3.0), (3.0, 4.0)] == [(rescale.old_max, rescale.new_max) for rescale in found]
    assert [math.exp(-1)] * 3 == pytest.approx([rescale.factor for rescale in found], rel=1e-15)


@pytest.mark.parametrize("name", FLASH)
@pytest.mark.parametrize(
    ("scores", "count"), [([4.0, 3.0, 2.0, 1.0], 0), ([2.0, 2.0, 2.0, 2.0], 0), ([1.0, 3.0, 2.0, 5.0], 2)]
)
def test_falling_or_equal_maxima_do_not_rescale(name: str, scores: list[float], count: int) -> None:
    """Only a new maximum rescales: none when scores fall or stay, two for 1, 3, 2, 5."""
    assert count == len(rescales_of(name, scores, tile=1))


@pytest.mark.parametrize("name", FLASH)
def test_one_tile_never_rescales(name: str) -> None:
    """With all keys in one tile there is nothing to correct."""
    assert [] == rescales_of(name, [1.0, 2.0, 3.0, 4.0], tile=4)


def test_leaving_out_the_rescale_gives_another_output() -> None:
    """Scores 1, 2 and values 1, 0: the first weight is e^−1/(1 + e^−1), and e times that without its rescale."""
    inputs = rising_scores([1.0, 2.0]) | {"V": np.array([[[1.0], [0.0]]])}
    workload = AttentionWorkload(batch=1, heads=1, seqlen_q=1, seqlen_k=2, head_dim=1)
    graph = flash("flash2", workload, 1)
    (kernel,) = graph.kernels
    program = tuple(
        replace(node, body=tuple(task for task in node.body if task.name != "rescale O"))
        if isinstance(node, Loop)
        else node
        for node in kernel.program
    )
    right, wrong = math.exp(-1) / (1 + math.exp(-1)), 1 / (1 + math.exp(-1))
    assert right == pytest.approx(execute(graph, inputs)["O"].item(), rel=1e-15)
    spoiled = TaskGraph((replace(kernel, program=program),))
    assert wrong == pytest.approx(execute(spoiled, inputs)["O"].item(), rel=1e-15)
