"""The cs336 benchmark's chain, whose softmax is written out in operators, computes attention."""

import random

import numpy as np
import pytest
import torch

from gpusim.dtypes import DType
from gpusim.numeric import execute, inputs_for
from gpusim.schedules import SCHEDULES, NaiveChoices
from gpusim.taskgraph import TaskGraph
from gpusim.workloads import AttentionWorkload

SEQLENS = [1, 2, 8, 13, 24]
HEAD_DIM = 8
HALF_ULP = 2.0**-24  # fp32 has 23 bits of mantissa, rounded to nearest


def workload(seqlen: int, *, causal: bool = True) -> AttentionWorkload:
    """Three sequences of one head in fp32; V has 6 columns."""
    shape = {"batch": 3, "heads": 1, "seqlen_q": seqlen, "seqlen_k": seqlen, "head_dim": HEAD_DIM, "head_dim_v": 6}
    return AttentionWorkload.model_validate(shape | {"causal": causal, "dtype": DType.FP32})


def chain(problem: AttentionWorkload) -> TaskGraph:
    """Divide, mask, and the softmax in five passes; groups of 4 rows, score tiles of 4 × 4."""
    passes = ("divide", "where_causal") if problem.causal else ("divide",)
    listed = {"score_passes": passes, "softmax": "passes"}
    choices = NaiveChoices.model_validate({"tile_q": 8, "tile_kv": 4, "softmax_rows": 4} | listed)
    return SCHEDULES["naive"].build(problem, choices, {})


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("seqlen", SEQLENS)
def test_the_chain_is_torch_attention(torch_attention, seqlen: int, causal: bool) -> None:
    """Float64, whole tiles and ragged ones, in program order and in two other legal ones."""
    problem = workload(seqlen, causal=causal)
    graph, inputs = chain(problem), inputs_for(problem, seed=seqlen)
    expected = torch_attention(inputs, causal=causal)
    for rng in (None, random.Random(1), random.Random(2)):
        np.testing.assert_allclose(execute(graph, inputs, rng=rng)["O"], expected, rtol=0, atol=1e-12)


def in_torch(inputs: dict[str, np.ndarray], *, causal: bool) -> np.ndarray:
    """The benchmark's own operators in PyTorch, in the format of the inputs."""
    q, k, v = (torch.from_numpy(inputs[name]) for name in "QKV")
    scores = q @ k.transpose(1, 2) / HEAD_DIM**0.5
    if causal:
        scores = torch.where(torch.from_numpy(inputs["causal_mask"]) > 0, scores, float("-inf"))
    weights = torch.exp(scores - torch.max(scores, dim=-1, keepdim=True)[0])
    return (weights / torch.sum(weights, dim=-1, keepdim=True) @ v).numpy()


def rounding_bound(inputs: dict[str, np.ndarray]) -> np.ndarray:
    """How far two ways to run the chain in fp32 may be from each other.

    A score is rounded 8 times in its sum and once each when divided and when the maximum is taken off, by half an ulp
    of Σ|q·k|/√d or less; e^x turns that into a factor on its weight and on its row's sum. The exponential, the sum of N
    weights, the quotient and the sum of N products then round N + N + 4 times, whatever their order. Either way errs.
    """
    q, k, v = (np.abs(inputs[name].astype(np.float64)) for name in "QKV")
    scores = (q @ k.swapaxes(1, 2)).max(axis=2, keepdims=True) / np.sqrt(HEAD_DIM)
    off = HALF_ULP * (HEAD_DIM + 2) * scores
    return 2 * (np.expm1(2 * off) + (2 * k.shape[1] + 4) * HALF_ULP) * v.max(axis=1, keepdims=True)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("seqlen", SEQLENS)
def test_in_fp32_it_is_the_chain_in_torch(seqlen: int, causal: bool) -> None:
    """Tensors in fp32: PyTorch's operators on the same numbers give the same, but for roundings."""
    problem = workload(seqlen, causal=causal)
    inputs = inputs_for(problem, seed=seqlen, precision="storage")
    output = execute(chain(problem), inputs, precision="storage")["O"]
    assert np.float32 == output.dtype
    error = np.abs(output.astype(np.float64) - in_torch(inputs, causal=causal))
    assert (error <= rounding_bound(inputs)).all()


def test_no_key_after_the_query_matters() -> None:
    """Other keys and values from position 7 on leave the first seven rows as they are, to the last bit."""
    problem = workload(13)
    inputs, other = inputs_for(problem, seed=2), inputs_for(problem, seed=3)
    changed = inputs | {name: np.concatenate([inputs[name][:, :7], other[name][:, 7:]], axis=1) for name in "KV"}
    before, after = execute(chain(problem), inputs)["O"], execute(chain(problem), changed)["O"]
    np.testing.assert_array_equal(before[:, :7], after[:, :7])
    assert (before[:, 7:] != after[:, 7:]).all()


def test_large_scores_do_not_overflow(torch_attention) -> None:
    """Scores of several hundred: the row maximum is taken off before e^x."""
    problem = workload(13)
    inputs = inputs_for(problem, seed=6)
    inputs["Q"] = 300 * inputs["Q"]
    output = execute(chain(problem), inputs)["O"]
    np.testing.assert_allclose(output, torch_attention(inputs, causal=True), rtol=0, atol=1e-12)


def test_the_causal_mask_is_one_matrix_of_ones_up_to_the_diagonal() -> None:
    """The same for all sequences and heads."""
    expected = [[[1, 0, 0], [1, 1, 0], [1, 1, 1]]]
    np.testing.assert_array_equal(expected, inputs_for(workload(3), seed=0)["causal_mask"])
