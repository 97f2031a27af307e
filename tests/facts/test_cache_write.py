"""Serving frameworks copy new keys and values into their cache before attention."""

import pytest

from gpusim import load_gpu
from gpusim.analytic import kernel_work
from gpusim.engine import simulate
from gpusim.errors import UnsupportedError
from gpusim.implementations import parse_request, plan, stacks
from gpusim.taskgraph import TaskGraph
from gpusim.workloads import AttentionWorkload, Conditions


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


A100, H100 = load_gpu("a100_sxm4_80gb"), load_gpu("h100_sxm5_80gb")


@pytest.mark.parametrize(("kv_heads", "threads"), [(1, 128), (2, 256), (8, 512)])
def test_vllm_writes_a_token_a_cta(kv_heads: int, threads: int) -> None:
    """65,536 tokens of head dim 128 on the 108 SMs of an A100: as many CTAs as 2,048 threads hold leave every `cta_ns`.

    And each waits for the keys and values that it reads at its share of the stream rate; writing goes on meanwhile.
    """
    write_of_stack = stacks()["vllm_graph"].kv_cache_write
    assert write_of_stack is not None
    workload = AttentionWorkload(batch=32, heads=8, kv_heads=kv_heads, seqlen_q=2048, seqlen_k=2048, head_dim=128)
    graph = plan(parse_request("flash2", "test"), A100, workload, "vllm_graph").graph
    (write,) = simulate(TaskGraph(graph.kernels[:1]), A100, Conditions(timing="ncu", cache="cold")).kernels
    stays_ns = write_of_stack.cta_ns / (108 * (2048 // threads))
    bytes_per_s = write_of_stack.hbm_share * A100.memory.hbm.stream_bandwidth_bytes_per_s
    reads_ns = 2 * kv_heads * 128 * 2 / bytes_per_s * 1e9
    assert threads == 32 * graph.kernels[0].warps
    assert 65536 == write.ctas
    assert 65536 * (stays_ns + reads_ns) / 1000 == pytest.approx((write.end_ps - write.start_ps) / 1e6, rel=0.03)


@pytest.mark.parametrize(("seqlen", "batch"), [(1, 64), (129, 8), (2048, 1)])
def test_only_real_tokens_have_ctas(seqlen: int, batch: int) -> None:
    """Ragged tiles of 128 rows: still one CTA of vLLM's a token."""
    workload = AttentionWorkload(batch=batch, heads=8, seqlen_q=seqlen, seqlen_k=seqlen, head_dim=128)
    graph = plan(parse_request("flash2", "test"), A100, workload, "vllm_graph").graph
    (write,) = simulate(TaskGraph(graph.kernels[:1]), A100, Conditions(timing="ncu", cache="cold")).kernels
    assert batch * seqlen == write.ctas


def test_new_keys_of_a_longer_past_are_refused() -> None:
    """Only what is new is written, which has no model yet."""
    workload = AttentionWorkload(batch=1, heads=8, seqlen_q=1, seqlen_k=4096, head_dim=128)
    with pytest.raises(UnsupportedError, match="vllm_graph writes the new keys alone"):
        plan(parse_request("flash2", "test"), A100, workload, "vllm_graph")
    assert 1 == len(plan(parse_request("flash2", "test"), A100, workload).graph.kernels)


def test_sglang_writes_as_fast_as_memory_takes_it() -> None:
    """32 K/V heads: a gigabyte is read and written at a share of what HBM gives a copy; CTAs are not in the way."""
    write_of_stack = stacks()["sglang_graph"].kv_cache_write
    assert write_of_stack is not None
    workload = AttentionWorkload(batch=32, heads=32, seqlen_q=2048, seqlen_k=2048, head_dim=128, causal=True)
    graph = plan(parse_request("flash3", "test"), H100, workload, "sglang_graph").graph
    (write,) = simulate(TaskGraph(graph.kernels[:1]), H100, Conditions(timing="ncu", cache="cold")).kernels
    hbm = H100.memory.hbm
    key_bytes = 32 * 32 * 2048 * 128 * 2
    copy_s = 4 * key_bytes / (write_of_stack.hbm_share * hbm.stream_bandwidth_bytes_per_s * (1 - hbm.mix_loss))
    assert key_bytes // 2048 == write.ctas
    assert copy_s == pytest.approx((write.end_ps - write.start_ps) / 1e12, rel=0.05)


def test_kernels_of_serving_frameworks_are_others() -> None:
    """Pages: on A100 vLLM takes the split-KV kernel, 64 query rows a CTA; on H100 heads of a group lie in one tile."""
    shape = {"batch": 1, "heads": 32, "kv_heads": 8, "seqlen_q": 2048, "seqlen_k": 2048, "head_dim": 128}
    workload = AttentionWorkload.model_validate(shape)
    paged = plan(parse_request("flash2", "test"), A100, workload, "vllm_graph").graph.kernels[1]
    assert (2048 // 64, 32) == paged.cta_grid
    for stack, heads in (("vllm_graph", 8), ("sglang_graph", 8), (None, 32)):
        kernel = plan(parse_request("flash3", "test"), H100, workload, stack).graph.kernels[-1]
        assert (heads, 2048 // 128 * 32 // heads) == (dict(kernel.grid)["head"], dict(kernel.grid)["m"] // 2)


def test_without_a_serving_stack_nothing_is_written() -> None:
    """Attention alone."""
    workload = AttentionWorkload(batch=1, heads=1, seqlen_q=512, seqlen_k=512, head_dim=64)
    graph = plan(parse_request("flash2", "test"), load_gpu("a100_sxm4_80gb"), workload).graph
    assert ["flash2_forward"] == [kernel.name for kernel in graph.kernels]
