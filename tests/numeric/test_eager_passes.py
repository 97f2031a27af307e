"""Every pass list of eager PyTorch computes attention, with its causal mask where it adds one."""

import random

import numpy as np
import pytest
import torch

from gpusim.dtypes import DType
from gpusim.numeric import execute, inputs_for
from gpusim.schedules import SCHEDULES, NaiveChoices
from gpusim.taskgraph import TaskGraph
from gpusim.workloads import AttentionWorkload

PASSES = {
    "no pass": {},
    "fa1_paper": {"prepare": ("scale_k", "copy_q", "transpose_k", "copy_v")},
    "flash_attn_bench": {"prepare": ("copy_q", "transpose_k", "copy_v")},
    "xformers_bench": {"prepare": ("copy_q", "copy_k", "copy_v", "scale_q")},
    "fxmarty": {"prepare": ("copy_q", "transpose_k", "copy_v"), "score_passes": ("divide",)},
}
# Scores are tiled 8 × 4 by QK, and the head dims 8 and 6 in several steps and columns of PV.
TILES = {
    "one step": {},
    "QK in steps": {"qk_step": 4},
    "QK in ragged steps": {"qk_step": 3},
    "PV in steps": {"pv_step": 2},
    "PV in ragged steps": {"pv_step": 3},
    "PV in columns": {"pv_tile_d": 4},
    "all of them, three stages": {"qk_step": 3, "pv_step": 2, "pv_tile_q": 4, "pv_tile_d": 2, "stages": 3},
}
SEQLENS = [1, 2, 8, 13, 24]


def workload(seqlen: int, *, causal: bool = True, dtype: DType = DType.FP16) -> AttentionWorkload:
    """Two heads with head dims 8 and 6."""
    shape = {"batch": 1, "heads": 2, "seqlen_q": seqlen, "seqlen_k": seqlen, "head_dim": 8, "head_dim_v": 6}
    return AttentionWorkload.model_validate(shape | {"causal": causal, "dtype": dtype})


def eager(problem: AttentionWorkload, passes: str, tiles: str = "one step") -> TaskGraph:
    """The graph of a pass list; a causal mask is its last pass over the scores."""
    listed = dict(PASSES[passes])
    if problem.causal:
        listed["score_passes"] = (*listed.get("score_passes", ()), "add_causal_mask")
    choices = NaiveChoices.model_validate({"tile_q": 8, "tile_kv": 4, "softmax_rows": 4} | listed | TILES[tiles])
    return SCHEDULES["naive"].build(problem, choices, {})


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tiles", TILES)
@pytest.mark.parametrize("passes", PASSES)
@pytest.mark.parametrize("seqlen", SEQLENS)
def test_every_pass_list_is_torch_attention(
    torch_attention, seqlen: int, passes: str, tiles: str, causal: bool
) -> None:
    """Float64, whole tiles and ragged ones, in program order."""
    problem = workload(seqlen, causal=causal)
    inputs = inputs_for(problem, seed=seqlen)
    output = execute(eager(problem, passes, tiles), inputs)["O"]
    np.testing.assert_allclose(output, torch_attention(inputs, causal=causal), rtol=0, atol=1e-12)


@pytest.mark.parametrize("tiles", TILES)
@pytest.mark.parametrize("passes", PASSES)
def test_any_legal_order_is_causal_attention(torch_attention, passes: str, tiles: str) -> None:
    """Four random orders of CTAs and steps, ragged tiles."""
    problem = workload(13)
    graph, inputs = eager(problem, passes, tiles), inputs_for(problem, seed=1)
    expected = torch_attention(inputs, causal=True)
    for seed in range(4):
        output = execute(graph, inputs, rng=random.Random(seed))["O"]
        np.testing.assert_allclose(output, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("passes", PASSES)
def test_no_key_after_the_query_matters(passes: str) -> None:
    """Other keys and values from position 7 on leave the first seven rows as they are, to the last bit."""
    problem = workload(13)
    graph, inputs = eager(problem, passes), inputs_for(problem, seed=2)
    other = inputs_for(problem, seed=3)
    changed = inputs | {name: np.concatenate([inputs[name][:, :7], other[name][:, 7:]], axis=1) for name in "KV"}
    before, after = execute(graph, inputs)["O"], execute(graph, changed)["O"]
    np.testing.assert_array_equal(before[:, :7], after[:, :7])
    assert (before[:, 7:] != after[:, 7:]).all()


HALF_ULP = {DType.FP16: 2.0**-11, DType.BF16: 2.0**-8}  # 10 and 7 bits of mantissa, rounded to nearest
SCORE_ROUNDINGS = 3  # scaled Q or K, S as QK writes it, S divided; adding a zero rounds nothing


def rounding_bound(inputs: dict[str, np.ndarray], dtype: DType) -> np.ndarray:
    """How far each output may be from exact arithmetic on the same inputs.

    A score is off by a half ulp of Σ|q·k|/√d at each rounding, so a weight by a factor of e^(twice that): itself and
    its row's sum. P and O are then rounded once each. Sums in float32 err by thousands of times less.
    """
    q, k, v = (np.abs(inputs[name].astype(np.float64)) for name in "QKV")
    scores = (q @ k.swapaxes(1, 2)).max(axis=2, keepdims=True) / np.sqrt(q.shape[2])
    off = HALF_ULP[dtype] * SCORE_ROUNDINGS * scores
    return (np.expm1(2 * off) + 2.01 * HALF_ULP[dtype]) * v.max(axis=1, keepdims=True)


@pytest.mark.parametrize("dtype", HALF_ULP)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("passes", PASSES)
def test_storage_precision_errs_by_its_roundings(torch_attention, passes: str, causal: bool, dtype: DType) -> None:
    """Tensors in fp16 or bf16: a mask of −10,000 still leaves no weight, and errors stay below the bound."""
    problem = workload(13, causal=causal, dtype=dtype)
    inputs = inputs_for(problem, seed=4, precision="storage")
    output = execute(eager(problem, passes), inputs, precision="storage")["O"].astype(np.float64)
    error = np.abs(output - torch_attention(inputs, causal=causal))
    assert 0 < error.max()
    assert (error <= rounding_bound(inputs, dtype)).all()


@pytest.mark.parametrize("passes", PASSES)
def test_padded_keys_do_not_count(passes: str) -> None:
    """A padding mask equals PyTorch's attention with the same additive mask, in any legal order; three sequences."""
    shape = {"batch": 3, "heads": 2, "seqlen_q": 13, "seqlen_k": 30, "head_dim": 8}
    problem = AttentionWorkload.model_validate(shape | {"mask": "padding"})
    inputs = inputs_for(problem, seed=4)
    listed = dict(PASSES[passes])
    listed["score_passes"] = (*listed.get("score_passes", ()), "mask_keys")
    choices = NaiveChoices.model_validate({"tile_q": 8, "tile_kv": 4, "softmax_rows": 4} | listed)
    graph = SCHEDULES["naive"].build(problem, choices, {})
    q, k, v, mask = (torch.from_numpy(inputs[name]) for name in ("Q", "K", "V", "key_mask"))
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask).numpy()
    for rng in (None, random.Random(1), random.Random(2)):
        np.testing.assert_allclose(execute(graph, inputs, rng=rng)["O"], expected, rtol=0, atol=1e-12)


def test_padding_leaves_out_at_most_20_keys_and_never_all() -> None:
    """As the FlashAttention-1 benchmark draws its lengths: N − 20 to N, the same for the heads of a batch entry."""
    shape = {"batch": 50, "heads": 2, "seqlen_q": 4, "seqlen_k": 30, "head_dim": 4, "mask": "padding"}
    mask = inputs_for(AttentionWorkload.model_validate(shape), seed=0)["key_mask"]
    kept = (mask[:, 0, :] == 0).sum(axis=1)
    assert 10 <= kept.min() <= kept.max() <= 30
    np.testing.assert_array_equal(mask[0::2], mask[1::2])
