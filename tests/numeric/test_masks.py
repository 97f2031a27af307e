"""Masked attention of the flash schedules equals the definition and PyTorch, in any legal order.

A causal mask is aligned as FlashAttention does since 2.1: the last query sees the last key, and rows without keys give
zeros. Padding hides keys at the end of a sequence.
"""

import random

import numpy as np
import pytest
import torch
from attention_on_numbers import attended, bias, expected_output, repeated

from gpusim.numeric import execute, inputs_for
from gpusim.schedules import SCHEDULES, Choices, FlashChoices, KvOuterChoices, WarpgroupChoices
from gpusim.taskgraph import TaskGraph, check_graph
from gpusim.workloads import AttentionWorkload

CASES: dict[str, tuple[str, Choices]] = {
    "flash2": ("flash2", FlashChoices(tile_q=8, tile_kv=8)),
    "flash2, narrow keys": ("flash2", FlashChoices(tile_q=16, tile_kv=5, stages=3)),
    "flash2, wide keys": ("flash2", FlashChoices(tile_q=4, tile_kv=24, fold_scale=True)),
    "flash2, longest first": ("flash2", FlashChoices(tile_q=8, tile_kv=8, order="longest_first", scheduler="dynamic")),
    "flash2, sums in smem": ("flash2", FlashChoices(tile_q=8, tile_kv=4, accumulators="smem")),
    "flash2, padded head dim": ("flash2", FlashChoices(tile_q=8, tile_kv=8, compiled_head_dim=6, stages=2)),
    "flash3, padded head dim": ("flash3", WarpgroupChoices(tile_q=64, tile_kv=16, compiled_head_dim=8)),
    "flash3, one warpgroup": ("flash3", WarpgroupChoices(tile_q=64, tile_kv=16, stages=2)),
    "flash3, two": ("flash3", WarpgroupChoices(tile_q=128, tile_kv=24, stages=2, fold_scale=True)),
    "flash3, three, longest first": ("flash3", WarpgroupChoices(tile_q=192, tile_kv=40, order="longest_first")),
    "flash3, cluster": ("flash3", WarpgroupChoices(tile_q=64, tile_kv=32, cluster=2, stages=3)),
    "flash3, packed heads": ("flash3", WarpgroupChoices(tile_q=64, tile_kv=16, pack_gqa=True)),
    "flash3, two, packed heads": ("flash3", WarpgroupChoices(tile_q=128, tile_kv=24, stages=2, pack_gqa=True)),
}
FLASH1: dict[str, tuple[str, Choices]] = {
    "flash1": ("flash1", KvOuterChoices(tile_q=8, tile_kv=8)),
    "flash1, padded head dim": ("flash1", KvOuterChoices(tile_q=8, tile_kv=8, compiled_head_dim=8)),
    "flash1, two stages": ("flash1", KvOuterChoices(tile_q=8, tile_kv=5, stages=2, grain=2, partials="fp32")),
}
SHAPES = {"square": (40, 40), "ragged": (37, 45), "more queries": (45, 12), "one query": (1, 33), "one key": (30, 1)}
LONG = {"square": (130, 130), "more keys": (70, 200), "more queries": (200, 70), "one query": (1, 150)}
CAUSAL, PADDING, BOTH = {"causal": True}, {"mask": "padding"}, {"causal": True, "mask": "padding"}


def workload(shape: tuple[int, int], **options: object) -> AttentionWorkload:
    """Two batch entries of two heads."""
    sizes = {"batch": 2, "heads": 2, "seqlen_q": shape[0], "seqlen_k": shape[1], "head_dim": 4}
    return AttentionWorkload.model_validate(sizes | options)


def graph_of(named: tuple[str, Choices], problem: AttentionWorkload) -> TaskGraph:
    """The legal graph of a schedule with its choices."""
    graph = SCHEDULES[named[0]].build(problem, named[1], {})
    check_graph(graph)
    return graph


def assert_attention(named: tuple[str, Choices], problem: AttentionWorkload, seed: int) -> None:
    """In program order and in a random legal order of CTAs and steps."""
    graph, inputs = graph_of(named, problem), inputs_for(problem, seed)
    expected = expected_output(problem, inputs)
    for rng in (None, random.Random(seed)):
        np.testing.assert_allclose(attended(graph, named[1], problem, inputs, rng), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("masks", [CAUSAL, PADDING, BOTH], ids=["causal", "padding", "both"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("case", CASES)
def test_masked_attention_is_the_definition(case: str, shape: str, masks: dict[str, object]) -> None:
    """Whole and ragged tiles, more and fewer queries than keys, one of either."""
    assert_attention(CASES[case], workload(SHAPES[shape], **masks), seed=1)


@pytest.mark.parametrize("shape", LONG)
@pytest.mark.parametrize("case", [case for case in CASES if case.startswith("flash3")])
def test_several_ctas_of_warpgroups_are_the_definition(case: str, shape: str) -> None:
    """Warpgroups that see other numbers of keys than their CTA, and some without queries."""
    assert_attention(CASES[case], workload(LONG[shape], causal=True, batch=1), seed=2)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("case", FLASH1)
def test_padding_in_the_fa1_order_is_the_definition(case: str, shape: str) -> None:
    """A block of keys that is padding altogether leaves the travelling sums as they are."""
    assert_attention(FLASH1[case], workload(SHAPES[shape], **PADDING), seed=3)


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("masks", [{}, CAUSAL, BOTH], ids=["no mask", "causal", "both"])
@pytest.mark.parametrize("case", CASES)
def test_grouped_heads_and_masks_go_together(case: str, masks: dict[str, object], kv_heads: int) -> None:
    """Four query heads on one, two or four K/V heads."""
    assert_attention(CASES[case], workload((37, 45), heads=4, kv_heads=kv_heads, **masks), seed=4)


@pytest.mark.parametrize("shape", LONG)
def test_a_group_that_does_not_divide_the_tile_is_the_definition(shape: str) -> None:
    """Seven heads a K/V head: rows of one query lie in two CTAs, and a diagonal cuts inside a query's rows."""
    problem = workload(LONG[shape], heads=7, kv_heads=1, causal=True, batch=1)
    assert_attention(CASES["flash3, two, packed heads"], problem, seed=9)


@pytest.mark.parametrize(("seqlen_q", "seqlen_k"), [(40, 40), (24, 40), (40, 24)])
@pytest.mark.parametrize("case", ["flash2", "flash2, narrow keys", "flash3, two", "flash3, three, longest first"])
def test_a_causal_mask_is_that_of_torch(case: str, seqlen_q: int, seqlen_k: int) -> None:
    """scaled_dot_product_attention in float64 with the lower right triangle; rows without keys are zero instead."""
    problem = workload((seqlen_q, seqlen_k), causal=True, heads=4, kv_heads=2)
    inputs = inputs_for(problem, seed=5)
    output = execute(graph_of(CASES[case], problem), inputs, rng=random.Random(5))["O"]
    q, k, v = (torch.from_numpy(inputs[name]).unflatten(0, (2, -1)) for name in "QKV")
    triangle = torch.ones(seqlen_q, seqlen_k, dtype=torch.bool).tril(seqlen_k - seqlen_q)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=triangle, enable_gqa=True)
    without_keys = max(0, seqlen_q - seqlen_k)
    np.testing.assert_allclose(
        output[:, without_keys:], expected.flatten(0, 1).numpy()[:, without_keys:], rtol=0, atol=1e-12
    )
    np.testing.assert_array_equal(output[:, :without_keys], 0.0)


def test_a_square_causal_mask_is_that_of_torch_with_is_causal() -> None:
    """N_q = N_k: both corners are the same."""
    problem = workload((33, 33), causal=True)
    inputs = inputs_for(problem, seed=6)
    q, k, v = (torch.from_numpy(inputs[name]) for name in "QKV")
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).numpy()
    output = execute(graph_of(CASES["flash2"], problem), inputs)["O"]
    np.testing.assert_allclose(output, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("masks", [CAUSAL, PADDING], ids=["causal", "padding"])
@pytest.mark.parametrize("case", ["flash2", "flash2, narrow keys", "flash3, two", "flash3, packed heads"])
def test_log_sum_exp_is_that_of_the_visible_scores(case: str, masks: dict[str, object]) -> None:
    """log Σ e^score over the keys a row sees; −∞ where it sees none."""
    problem = workload((45, 30), heads=4, kv_heads=2, save_lse=True, **masks)
    inputs = inputs_for(problem, seed=7)
    q, k, _ = repeated(problem, inputs)
    scores = q @ np.swapaxes(k, -1, -2) / 2 + bias(problem, inputs)
    with np.errstate(divide="ignore"):
        expected = np.log(np.exp(scores).sum(axis=-1, keepdims=True))
    lse = attended(graph_of(CASES[case], problem), CASES[case][1], problem, inputs, random.Random(7), "LSE")
    np.testing.assert_allclose(lse, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("case", ["flash2", "flash3, two"])
def test_without_its_masks_a_schedule_computes_something_else(case: str) -> None:
    """The comparison can fail: the same schedule without the mask differs by more than a hundredth."""
    problem = workload((40, 40), causal=True)
    inputs = inputs_for(problem, seed=8)
    unmasked = graph_of(CASES[case], problem.model_copy(update={"causal": False}))
    assert np.abs(execute(unmasked, inputs)["O"] - expected_output(problem, inputs)).max() > 0.01
