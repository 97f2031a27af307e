"""What no GPU can do is marked, on GPUs without timings too; what L2 or a lower clock explains is not."""

import pytest

from gpusim.dtypes import DType
from gpusim.measured import MeasuredRow
from gpusim.measured.ceiling import Claim, above_ceiling, claims_too_much
from gpusim.specs import load_gpu
from gpusim.workloads import AttentionWorkload, Conditions, GemmWorkload, StreamWorkload, Workload

MIB = 2**20
# 2 · 1024³ FLOPs at 2,048 FLOP a clock on 108 SMs of 1.41 GHz.
GEMM, GEMM_MS = GemmWorkload(m=1024, n=1024, k=1024), 1e3 * 2 * 1024**3 / (2048 * 108 * 1.41e9)
# 100 MiB read on a machine with 40 MiB of L2 and 1,555 GB/s.
READ, READ_MS = StreamWorkload(elements=100 * MIB // 8, loads=1, stores=0), 1e3 * 60 * MIB / 1.555e12


def row(workload: Workload, latency_ms: float | None, *, kernel: str = "k", **conditions: object) -> MeasuredRow:
    """A row of an A100 40 GB."""
    return MeasuredRow(
        file="rows.csv",
        line=2,
        source="by hand",
        kernel=kernel,
        gpu="a100_sxm4_40gb",
        implementation="k",
        version=None,
        workload=workload,
        conditions=Conditions.model_validate(conditions),
        latency_ms=latency_ms,
        counters={},
        note="",
        extra={},
    )


@pytest.mark.parametrize(("workload", "limit_ms", "what"), [(GEMM, GEMM_MS, "FLOPs"), (READ, READ_MS, "bytes")])
def test_a_latency_below_the_ceiling_is_marked(workload: Workload, limit_ms: float, what: str) -> None:
    """A thousandth below the time of its FLOPs, or of the bytes that L2 cannot hold; with both numbers."""
    spec = load_gpu("a100_sxm4_40gb")
    assert above_ceiling(row(workload, 1.001 * limit_ms), spec) is None
    told = above_ceiling(row(workload, 0.999 * limit_ms), spec)
    assert told is not None
    assert f"{0.999 * limit_ms:.4g} ms is shorter than {limit_ms:.4g} ms, its {what}" in told


def test_a_rate_that_l2_can_give_is_no_miracle() -> None:
    """32 MiB read in a nanosecond is absurd, but HBM is not what forbids it."""
    assert (
        above_ceiling(row(StreamWorkload(elements=4 * MIB, loads=1, stores=0), 1e-6), load_gpu("a100_sxm4_40gb"))
        is None
    )


def test_the_ceiling_follows_the_clock() -> None:
    """At half the clock the same latency is too short."""
    spec = load_gpu("a100_sxm4_40gb")
    assert above_ceiling(row(GEMM, 1.5 * GEMM_MS), spec) is None
    assert above_ceiling(row(GEMM, 1.5 * GEMM_MS, sm_clock_mhz=705), spec)


def test_flops_that_are_skipped_bind_nobody() -> None:
    """Block-sparse attention and a sliding window count all scores by convention and compute some of them."""
    spec = load_gpu("a100_sxm4_40gb")
    dense = AttentionWorkload(batch=16, heads=8, seqlen_q=4096, seqlen_k=4096, head_dim=64)
    assert above_ceiling(row(dense, 0.5), spec)
    assert above_ceiling(row(dense, 0.5, kernel="flash1_block_sparse"), spec) is None
    assert above_ceiling(row(dense.model_copy(update={"window": 128}), 0.5), spec) is None


def test_a_row_without_latency_or_rate_claims_nothing() -> None:
    """Counters alone, and a format that the GPU has no rate for."""
    bf16 = AttentionWorkload(batch=1, heads=1, seqlen_q=64, seqlen_k=64, head_dim=64, dtype="bf16")
    assert above_ceiling(row(GEMM, None), load_gpu("a100_sxm4_40gb")) is None
    assert above_ceiling(row(bf16, 1e-9), load_gpu("t4")) is None


@pytest.mark.parametrize(
    ("dtype", "tflops", "is_marked"),
    [
        # RTX 4090: 512 FLOP a clock · 128 SMs · 2.52 GHz = 165 TFLOP/s; fp8 twice that; fp32 2 · 128 lanes: 82.6.
        (DType.FP16, 475.19, True),
        (DType.FP16, 165.0, False),
        (DType.FP16, 165.3, True),
        (None, 330.0, False),
        (None, 331.0, True),
        (DType.FP32, 82.0, False),
        (DType.FP32, 83.0, True),
    ],
)
def test_a_bare_rate_is_held_against_the_peak_of_its_format(
    dtype: DType | None, tflops: float, is_marked: bool
) -> None:
    """A format that is not modelled against the highest peak that the GPU has."""
    told = claims_too_much(Claim("rtx_4090", dtype, tflops), load_gpu("rtx_4090"))
    assert is_marked == (told is not None)
    assert not is_marked or "peak of rtx_4090" in str(told)


def test_a_format_without_a_rate_is_not_judged() -> None:
    """A T4 has no bf16."""
    assert claims_too_much(Claim("t4", DType.BF16, 1e6), load_gpu("t4")) is None
