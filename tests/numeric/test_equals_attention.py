"""Every schedule, with every choice that changes its graph, computes attention in any legal order."""

import random

import numpy as np
import pytest
import torch

from gpusim.dtypes import DType
from gpusim.numeric import attention_reference, execute, inputs_for
from gpusim.schedules import SCHEDULES, FlashChoices, KvOuterChoices, NaiveChoices
from gpusim.taskgraph import TaskGraph
from gpusim.workloads import AttentionWorkload

CASES = {
    "flash2": ("flash2", FlashChoices(tile_q=4, tile_kv=4)),
    "flash2, ragged tiles": ("flash2", FlashChoices(tile_q=8, tile_kv=3)),
    "flash2, two stages": ("flash2", FlashChoices(tile_q=4, tile_kv=4, stages=2)),
    "flash2, scale folded into Q": ("flash2", FlashChoices(tile_q=4, tile_kv=4, fold_scale=True)),
    "flash2, accumulators in smem": ("flash2", FlashChoices(tile_q=4, tile_kv=2, accumulators="smem")),
    "flash1": ("flash1", KvOuterChoices(tile_q=4, tile_kv=4)),
    "flash1, two stages": ("flash1", KvOuterChoices(tile_q=4, tile_kv=4, stages=2)),
    "flash1, three stages": ("flash1", KvOuterChoices(tile_q=2, tile_kv=4, stages=3)),
    "flash1, grain of two": ("flash1", KvOuterChoices(tile_q=2, tile_kv=4, grain=2, stages=2)),
    "flash1, fp32 partials": ("flash1", KvOuterChoices(tile_q=4, tile_kv=3, partials="fp32")),
    "flash1, scale folded into Q": ("flash1", KvOuterChoices(tile_q=4, tile_kv=4, fold_scale=True)),
    "flash1, accumulators in smem": ("flash1", KvOuterChoices(tile_q=4, tile_kv=4, accumulators="smem")),
    "naive": ("naive", NaiveChoices(tile_q=4, tile_kv=4, softmax_rows=4)),
    "naive, PV tile of its own": ("naive", NaiveChoices(tile_q=8, tile_kv=4, pv_tile_q=4, softmax_rows=2)),
    "naive, three stages": ("naive", NaiveChoices(tile_q=4, tile_kv=3, stages=3)),
    "naive, scale folded into Q": ("naive", NaiveChoices(tile_q=4, tile_kv=4, fold_scale=True)),
    "naive, PyTorch's passes": (
        "naive",
        NaiveChoices(tile_q=4, tile_kv=4, prepare=("scale_k", "copy_q", "transpose_k", "copy_v")),
    ),
    "naive, Q scaled and K transposed": (
        "naive",
        NaiveChoices(tile_q=4, tile_kv=4, prepare=("scale_q", "transpose_k")),
    ),
    "naive, scale folded beside PyTorch's passes": (
        "naive",
        NaiveChoices(tile_q=4, tile_kv=4, fold_scale=True, prepare=("scale_k", "copy_q", "transpose_k", "copy_v")),
    ),
    "naive, K copied": ("naive", NaiveChoices(tile_q=4, tile_kv=4, prepare=("copy_k",))),
    "naive, accumulators in smem": ("naive", NaiveChoices(tile_q=4, tile_kv=4, stages=1, accumulators="smem")),
}
SHAPES = {"square": (8, 8), "ragged": (13, 10), "one query": (1, 11), "more queries": (9, 3)}

# fp16 has a 10-bit mantissa: rounding to nearest errs by at most 2^-11 = 4.9e-4 of a value. Inputs are standard normal,
# so outputs, averages of V, are mostly below 2 and their last rounding errs by up to 2 · 2^-11 = 1e-3. P is rounded
# once, by up to 2^-11 of numbers that add up to 1 before V: as much again at most. bf16 has a 7-bit mantissa:
# 2^-8 = 3.9e-3 in the same two places, eight times as much.
TOLERANCE = {DType.FP16: 2e-3, DType.BF16: 1.6e-2}
TORCH = {DType.FP16: torch.float16, DType.BF16: torch.bfloat16}


def workload(shape: str, *, dtype: DType = DType.FP16, head_dim_v: int = 4) -> AttentionWorkload:
    """Two heads of the named shape."""
    n_q, n_k = SHAPES[shape]
    return AttentionWorkload(
        batch=2, heads=1, seqlen_q=n_q, seqlen_k=n_k, head_dim=4, head_dim_v=head_dim_v, dtype=dtype
    )


def graph_of(case: str, problem: AttentionWorkload) -> TaskGraph:
    """The graph of the named case."""
    name, choices = CASES[case]
    return SCHEDULES[name].build(problem, choices, {})


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("case", CASES)
def test_program_order_gives_attention(case: str, shape: str) -> None:
    """In float64 the output is the definition's to 1e-12."""
    problem = workload(shape)
    inputs = inputs_for(problem, seed=1)
    output = execute(graph_of(case, problem), inputs)["O"]
    np.testing.assert_allclose(output, attention_reference(*inputs.values()), rtol=0, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_random_legal_orders_give_attention(case: str) -> None:
    """Eight random orders of CTAs and steps, ragged shape: none changes the output."""
    problem = workload("ragged")
    graph, inputs = graph_of(case, problem), inputs_for(problem, seed=2)
    expected = attention_reference(*inputs.values())
    for seed in range(8):
        output = execute(graph, inputs, rng=random.Random(seed))["O"]
        np.testing.assert_allclose(output, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_head_dim_of_v_may_differ(case: str) -> None:
    """V with 6 columns beside Q and K with 4."""
    problem = workload("ragged", head_dim_v=6)
    inputs = inputs_for(problem, seed=3)
    output = execute(graph_of(case, problem), inputs, rng=random.Random(3))["O"]
    assert (2, 13, 6) == output.shape
    np.testing.assert_allclose(output, attention_reference(*inputs.values()), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("case", ["flash2", "flash1, fp32 partials", "naive", "flash2, two stages"])
def test_storage_precision_is_near_torch(torch_attention, case: str, dtype: DType) -> None:
    """Operands rounded to the format and sums in fp32 stay within a few roundings of PyTorch's float64 result."""
    problem = workload("ragged", dtype=dtype)
    inputs = inputs_for(problem, seed=4, precision="storage")
    output = execute(graph_of(case, problem), inputs, precision="storage")["O"]
    np.testing.assert_allclose(output.astype(np.float64), torch_attention(inputs), rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_storage_precision_really_rounds(torch_attention, dtype: DType) -> None:
    """The output is in the workload's format: it differs from float64, and rounding it again changes nothing."""
    problem = workload("ragged", dtype=dtype)
    inputs = inputs_for(problem, seed=4, precision="storage")
    output = execute(graph_of("flash2", problem), inputs, precision="storage")["O"].astype(np.float64)
    rounded = torch.from_numpy(output).to(TORCH[dtype]).to(torch.float64).numpy()
    np.testing.assert_array_equal(rounded, output)
    assert np.abs(output - torch_attention(inputs)).max() > 0


def test_the_reference_is_torch_attention(torch_attention) -> None:
    """The float64 definition that everything is compared with agrees with PyTorch to 1e-14."""
    inputs = inputs_for(workload("ragged"), seed=5)
    np.testing.assert_allclose(attention_reference(*inputs.values()), torch_attention(inputs), rtol=0, atol=1e-14)


@pytest.mark.parametrize("case", ["flash2", "flash1", "flash1, fp32 partials"])
def test_large_scores_do_not_overflow(case: str) -> None:
    """Scores of several hundred: e^score would overflow, e^(score − m) does not."""
    problem = workload("ragged")
    inputs = inputs_for(problem, seed=6)
    inputs["Q"] = 300 * inputs["Q"]
    output = execute(graph_of(case, problem), inputs)["O"]
    np.testing.assert_allclose(output, attention_reference(*inputs.values()), rtol=0, atol=1e-12)


def test_a_wrong_input_shape_is_refused_with_both_shapes() -> None:
    """The message states what came and what the graph needs."""
    problem = workload("square")
    inputs = inputs_for(problem, seed=0) | {"K": np.zeros((2, 7, 4))}
    with pytest.raises(ValueError, match=r"K has shape \(2, 7, 4\), the graph needs \(2, 8, 4\)"):
        execute(graph_of("flash2", problem), inputs)
