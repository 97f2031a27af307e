"""Grouped K/V heads: query heads of a group share K and V through L2, as hardware counters show."""

import random

import numpy as np
import pytest
import torch

from gpusim import AttentionWorkload, Conditions, Point, load_gpu, parse_request, plan, run_point
from gpusim.engine import simulate
from gpusim.numeric import execute, inputs_for

FLASH2 = parse_request("flash2", "test")
A30 = load_gpu("a30")


def grouped(seqlen: int) -> AttentionWorkload:
    """The shape that was profiled: 32 query heads on 8 K/V heads, d = 128."""
    return AttentionWorkload(batch=1, heads=32, kv_heads=8, seqlen_q=seqlen, seqlen_k=seqlen, head_dim=128)


@pytest.mark.parametrize(("heads", "kv_heads"), [(6, 2), (4, 1), (4, 4)])
def test_it_is_torch_attention_with_grouped_heads(heads: int, kv_heads: int) -> None:
    """Two batch entries, ragged lengths, any legal order."""
    shape = {"batch": 2, "heads": heads, "kv_heads": kv_heads, "seqlen_q": 21, "seqlen_k": 37, "head_dim": 16}
    workload = AttentionWorkload.model_validate(shape)
    request = parse_request({"name": "flash2", "tile_q": 16, "tile_kv": 16}, "test")
    graph = plan(request, A30, workload).graph
    inputs = inputs_for(workload, seed=2)
    q, k, v = (torch.from_numpy(inputs[name]).unflatten(0, (2, -1)) for name in "QKV")
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True).flatten(0, 1).numpy()
    for rng in (None, random.Random(1)):
        np.testing.assert_allclose(execute(graph, inputs, rng=rng)["O"], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("seqlen", "counted"), [(512, 37_782_848), (1024, 142_757_376)])
def test_bytes_asked_of_l2_are_those_of_the_counters(seqlen: int, counted: int) -> None:
    """Nsight Compute on an A30 (JakeFlasher/benchmark_flash_attention 1a61222a): within 0.2 %.

    Q once, and K and V once a query tile of 128 rows and query head: 32·N·128·2 B · (1 + 2·N/128).
    """
    graph = plan(FLASH2, A30, grouped(seqlen)).graph
    kernels = simulate(graph, A30, Conditions(timing="ncu", cache="cold")).kernels
    asked = sum(kernel.hbm_read_bytes + kernel.l2_hit_bytes for kernel in kernels)
    assert 32 * seqlen * 128 * 2 * (1 + 2 * seqlen // 128) == asked
    assert counted == pytest.approx(asked, rel=0.002)
    result = run_point(Point(A30, FLASH2, grouped(seqlen), Conditions(timing="ncu", cache="cold")))
    assert asked == result.l2_read_bytes


def test_a_flushed_cache_reads_the_compulsory_bytes() -> None:
    """N = 512: Q of 32 heads, K and V of 8 are 6.29 MB; the counter says 6,299,200 B."""
    result = run_point(Point(A30, FLASH2, grouped(512), Conditions(timing="ncu", cache="cold")))
    assert (32 + 2 * 8) * 512 * 128 * 2 == result.hbm_read_bytes
    assert 6_299_200 == pytest.approx(result.hbm_read_bytes + result.hbm_write_bytes, rel=0.002)


def test_both_engines_agree_on_groups() -> None:
    """Exhaustive and compiled, bit for bit."""
    graph = plan(FLASH2, A30, grouped(512)).graph
    exhaustive, compiled = (simulate(graph, A30, mode=mode) for mode in ("exhaustive", "compiled"))
    assert exhaustive.kernels == compiled.kernels
    assert exhaustive.latency_ps == compiled.latency_ps
