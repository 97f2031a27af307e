"""Device memory beyond inputs and outputs: its growth over N, and the N at which naive attention stops running."""

import pytest

from gpusim.analytic import check_memory, footprint
from gpusim.errors import OutOfMemoryError
from gpusim.implementations import parse_request, plan
from gpusim.point import Point, run_point
from gpusim.specs import GpuSpec, load_gpu
from gpusim.taskgraph import TaskGraph
from gpusim.workloads import AttentionWorkload, Conditions

A100 = load_gpu("a100_sxm4_40gb")
SEQLENS = (128, 256, 512, 1024, 2048, 4096)


def graph_of(schedule: str, seqlen: int, *, save_lse: bool = False, spec: GpuSpec = A100) -> TaskGraph:
    """The planned graph of 6 heads at d = 64."""
    workload = AttentionWorkload(batch=2, heads=3, seqlen_q=seqlen, seqlen_k=seqlen, head_dim=64, save_lse=save_lse)
    return plan(parse_request(schedule, "test"), spec, workload).graph


def fa1_setting(seqlen: int) -> AttentionWorkload:
    """The FlashAttention-1 paper's batch, heads and head dim."""
    return AttentionWorkload(batch=16, heads=8, seqlen_q=seqlen, seqlen_k=seqlen, head_dim=64)


@pytest.mark.parametrize("seqlen", SEQLENS)
def test_naive_keeps_s_and_p(seqlen: int) -> None:
    """While the softmax runs both N×N tensors are alive: 2·B·H·N² numbers of 2 bytes."""
    assert 2 * 6 * seqlen**2 * 2 == footprint(graph_of("naive", seqlen)).extra_bytes


def test_naive_quadruples_when_n_doubles() -> None:
    """The growth law of N², exactly."""
    extra = [footprint(graph_of("naive", seqlen)).extra_bytes for seqlen in SEQLENS]
    assert [4 * small for small in extra[:-1]] == extra[1:]


@pytest.mark.parametrize("seqlen", SEQLENS)
def test_flash2_keeps_log_sum_exp_only_when_asked(seqlen: int) -> None:
    """4 bytes a row and head with `save_lse`, nothing without."""
    assert 4 * 6 * seqlen == footprint(graph_of("flash2", seqlen, save_lse=True)).extra_bytes
    assert 0 == footprint(graph_of("flash2", seqlen)).extra_bytes


def test_flash1_keeps_its_travelling_rows() -> None:
    """Two K/V blocks of 256 at N = 512: fp32 O, m and ℓ travel, 4·(d + 2) bytes a row and head."""
    assert 4 * (64 + 2) * 6 * 512 == footprint(graph_of("flash1", 512)).extra_bytes


def test_flash1_in_one_block_keeps_nothing() -> None:
    """At N = 128 one K/V block holds everything, and nothing travels."""
    assert 0 == footprint(graph_of("flash1", 128)).extra_bytes


@pytest.mark.parametrize("schedule", ["flash1", "flash2"])
def test_save_lse_adds_four_bytes_a_row_to_writes_and_memory(schedule: str) -> None:
    """On against off: 4·B·H·N bytes more written, kept, and counted in the peak."""
    points = [
        run_point(Point(A100, parse_request(schedule, "test"), workload, Conditions(timing="ncu")))
        for workload in (
            AttentionWorkload(batch=1, heads=2, seqlen_q=300, seqlen_k=300, head_dim=64, save_lse=save)
            for save in (False, True)
        )
    ]
    rows = 4 * 2 * 300
    for field in ("l2_write_bytes", "extra_memory_bytes", "peak_memory_bytes"):
        assert rows == getattr(points[1], field) - getattr(points[0], field)


@pytest.mark.parametrize("schedule", ["naive", "pytorch_naive"])
def test_the_fa1_setting_fits_an_a100_40_at_8k(schedule: str) -> None:
    """Batch 16, 8 heads, d = 64, N = 8,192: S and P are 34.4 GB, below the 42.4 GB of the board."""
    graph = plan(parse_request(schedule, "test"), A100, fa1_setting(8192)).graph
    check_memory(graph, A100)
    assert 34_359_738_368 <= footprint(graph).peak_bytes <= A100.memory.hbm.capacity_bytes


@pytest.mark.parametrize(("schedule", "tensors"), [("naive", 4), ("pytorch_naive", 5)])
def test_the_fa1_setting_is_out_of_memory_at_16k(schedule: str, tensors: int) -> None:
    """At N = 16,384 S and P alone are 137.4 GB; the answer states the bytes needed and the bytes there are.

    Beside S and P there are Q, K, V and O, and with eager PyTorch the copy of V that PV still has to read.
    """
    workload = fa1_setting(16384)
    peak = 2 * 128 * (tensors * 16384 * 64 + 2 * 16384**2)
    result = run_point(Point(A100, parse_request(schedule, "test"), workload, Conditions()))
    assert ("out_of_memory", None) == (result.status, result.latency_ms)
    assert f"{peak:,} B" in result.reason
    assert "42,406,903,808 B" in result.reason
    assert peak == result.peak_memory_bytes


def test_naive_peak_at_16k_is_inputs_output_s_and_p() -> None:
    """The number in the message, by hand: 4·B·H·N·d + 2·B·H·N² numbers of 2 bytes."""
    graph = plan(parse_request("naive", "test"), A100, fa1_setting(16384)).graph
    heads, n, d = 128, 16384, 64
    with pytest.raises(OutOfMemoryError, match=f"{2 * heads * (4 * n * d + 2 * n * n):,} B"):
        check_memory(graph, A100)
