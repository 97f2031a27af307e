"""Serving frameworks copy new keys and values into their cache before attention."""

import pytest

from gpusim import load_gpu
from gpusim.analytic import kernel_work
from gpusim.implementations import parse_request, plan
from gpusim.workloads import AttentionWorkload


@pytest.mark.parametrize("stack", ["vllm_graph", "sglang_graph"])
@pytest.mark.parametrize(
    ("gpu", "name"),
    [
        ("a100_sxm4_80gb", "flash2"),
        ("a100_sxm4_80gb", "pytorch_naive"),
        ("h100_sxm5_80gb", "flash3"),
        ("h100_sxm5_80gb", "pytorch_naive"),
    ],
)
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_the_cache_write_copies_k_and_v_once(gpu: str, name: str, stack: str, head_dim: int) -> None:
    """Batch 2, heads of K and V 4, N = 500, two bytes a number: reads and writes 2 · 2 · 4 · 500 · d · 2 bytes each."""
    workload = AttentionWorkload(batch=2, heads=4, seqlen_q=500, seqlen_k=500, head_dim=head_dim)
    graph = plan(parse_request(name, "test"), load_gpu(gpu), workload, stack).graph
    work = kernel_work(graph.kernels[0])
    assert "kv_cache_write" == graph.kernels[0].name
    assert 2 * 2 * 4 * 500 * head_dim * 2 == work.read_bytes == work.write_bytes


def test_without_a_serving_stack_nothing_is_written() -> None:
    """Attention alone."""
    workload = AttentionWorkload(batch=1, heads=1, seqlen_q=512, seqlen_k=512, head_dim=64)
    graph = plan(parse_request("flash2", "test"), load_gpu("a100_sxm4_80gb"), workload).graph
    assert ["flash2_forward"] == [kernel.name for kernel in graph.kernels]
