"""Rows about a single kernel: each kind's cells become a workload, its conditions and a latency in ms."""

from pathlib import Path

import pytest

from gpusim.measured import MeasuredFile, MeasuredRow, read_measured
from gpusim.workloads import (
    CacheReadWorkload,
    ChaseWorkload,
    GemmWorkload,
    RowsWorkload,
    StreamWorkload,
    Workload,
)

A100 = "A100-SXM4-80GB"  # 108 SMs
STREAM = {"gpu": A100, "block_size": 256, "threads_total": 27648}  # 108 SMs × 1 CTA × 256 threads
CHASE = {"gpu": A100, "clock_mhz": 1410, "data_kb": 1024, "latency_ns": 150}
SMALL = {"gpu": A100, "mode": "cuda graph", "elements": 4096, "us_per_kernel": 1.3}
L2 = {"gpu": A100, "per_block_kb": 512, "data_kb": 9216, "gb_per_s": 5000}


def read(folder: Path, **cells: object) -> MeasuredFile:
    """A file with one row of these cells, read back."""
    path = folder / "t.csv"
    text = ",".join(f'"{cell}"' for cell in cells.values())
    path.write_text(f"{','.join(cells)}\n{text}\n", encoding="utf-8")
    return read_measured(path)


def only_row(folder: Path, **cells: object) -> MeasuredRow:
    """The row of these cells; it was not skipped."""
    file = read(folder, **cells)
    assert () == file.skipped
    return file.rows[0]


def reason(folder: Path, **cells: object) -> str:
    """Why these cells give no row."""
    file = read(folder, **cells)
    assert () == file.rows
    return file.skipped[0].reason


CASES: dict[str, tuple[dict[str, object], str, Workload, float]] = {
    # 2 · 256 · 512 · 1024 FLOPs = 268,435,456; at 100 TFLOP/s 2.68435456 µs.
    "GEMM by rate": (
        {"gpu": A100, "kernel": "torch_matmul", "dtype": "bf16", "M": 256, "N": 512, "K": 1024, "tflops": 100},
        "torch_matmul",
        GemmWorkload(m=256, n=512, k=1024, dtype="bf16"),
        2.68435456e-3,
    ),
    "GEMM in microseconds": (
        {"gpu": A100, "kernel": "cublas", "dtype": "fp16", "M": 64, "N": 64, "K": 64, "latency_us": 8.5},
        "torch_matmul",
        GemmWorkload(m=64, n=64, k=64),
        8.5e-3,
    ),
    "batched GEMM": (
        {"gpu": A100, "kernel": "cublas", "dtype": "fp16", "batch": 4, "M": 64, "N": 64, "K": 64, "latency_ms": 0.01},
        "torch_matmul",
        GemmWorkload(batch=4, m=64, n=64, k=64),
        0.01,
    ),
    "scores of NeuSight": (
        {"gpu": A100, "kernel": "torch_bmm_qk", "dtype": "fp32", "batch": 16, "seqlen": 384, "head_dim": 64}
        | {"latency_ms": 0.2},
        "torch_matmul",
        GemmWorkload(batch=16, m=384, n=384, k=64, dtype="fp32"),
        0.2,
    ),
    "outputs of NeuSight": (
        {"gpu": A100, "kernel": "torch_bmm_pv", "dtype": "fp32", "batch": 16, "seqlen": 384, "head_dim": 64}
        | {"latency_ms": 0.2},
        "torch_matmul",
        GemmWorkload(batch=16, m=384, n=64, k=384, dtype="fp32"),
        0.2,
    ),
    # 2 · 4096 · 1024 · 4 B = 33,554,432 B, read and written once; at 1,000 GB/s 33.554432 µs.
    "softmax by rate": (
        {"gpu": A100, "kernel": "torch_softmax", "dtype": "fp32", "rows": 4096, "cols": 1024, "gb_per_s": 1000},
        "torch_softmax",
        RowsWorkload(rows=4096, cols=1024, dtype="fp32"),
        0.033554432,
    ),
    "softmax written m × n": (
        {"gpu": A100, "kernel": "torch_softmax", "dtype": "fp16", "M": 4096, "N": 32, "K": "", "latency_ms": 0.013},
        "torch_softmax",
        RowsWorkload(rows=4096, cols=32),
        0.013,
    ),
    "GELU of a flat array": (
        {"gpu": A100, "kernel": "torch_gelu", "dtype": "fp16", "M": 1 << 20, "N": "", "K": "", "latency_ms": 0.048},
        "torch_elementwise",
        RowsWorkload(rows=1024, cols=1024),
        0.048,
    ),
    "GELU of an odd array": (
        {"gpu": A100, "kernel": "torch_gelu", "dtype": "fp16", "M": 3000, "gb_per_s": 12},
        "torch_elementwise",
        RowsWorkload(rows=375, cols=8),  # 3,000 = 375 · 2³
        1e-3,  # 2 · 3,000 · 2 B at 12 GB/s
    ),
    # A hop of 150 ns, 4,096 hops: 0.6144 ms.
    "pointer chase": (CHASE, "pointer_chase", ChaseWorkload(footprint_bytes=1 << 20), 0.6144),
    # 18 parts for 216 CTAs: 12 share one. 8 rounds · 12 · 9 MiB = 905,969,664 B; at 5,000 GB/s 0.1811939328 ms.
    "L2 bandwidth": (
        L2,
        "cache_read",
        CacheReadWorkload(footprint_bytes=9 << 20, part_bytes=1 << 19),
        0.1811939328,
    ),
    "small kernel": (SMALL, "stream", StreamWorkload(elements=4096, loads=1, stores=1), 1.3e-3),
    # (2 + 1) · 2²⁵ · 8 B = 805,306,368 B; at 1.7 TB/s 0.47370963 ms.
    "BabelStream": (
        {"gpu": A100, "kernel": "babelstream_triad", "tb_per_s": 1.7},
        "stream",
        StreamWorkload(elements=1 << 25, loads=2, stores=1),
        0.805306368 / 1.7,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_cells_become_a_workload_and_its_latency(tmp_path: Path, case: str) -> None:
    """The implementation that models it, its sizes, and what the source's rate means in ms."""
    cells, implementation, workload, latency_ms = CASES[case]
    row = only_row(tmp_path, **cells)
    assert (implementation, workload) == (row.implementation, row.workload)
    assert pytest.approx(latency_ms, rel=1e-12) == row.latency_ms


@pytest.mark.parametrize(
    ("kernel", "loads", "stores"),
    [("stream_init", 0, 1), ("stream_read", 1, 0), ("stream_scale", 1, 1), ("stream_triad", 2, 1)],
)
def test_a_stream_row_states_a_rate_and_an_occupancy(tmp_path: Path, kernel: str, loads: int, stores: int) -> None:
    """One CTA of 256 threads an SM; the bytes of gpu-benches' 2²⁷ numbers an array over 1,000 GB/s."""
    file = read(tmp_path, **STREAM, kernel=kernel, gb_per_s=1000)
    (row,) = file.rows
    occupancy = {"threads_per_cta": 256, "ctas_per_sm": 1}
    assert StreamWorkload(elements=1 << 27, loads=loads, stores=stores, **occupancy) == row.workload
    assert pytest.approx((loads + stores) * 8 * (1 << 27) / 1e9) == row.latency_ms
    assert 1 == file.assumed["elements"]


def test_two_ctas_an_sm(tmp_path: Path) -> None:
    """108 SMs with two CTAs of 128 threads are 27,648 threads as well."""
    row = only_row(tmp_path, **STREAM | {"block_size": 128}, kernel="stream_read", gb_per_s=1000)
    assert (128, 2) == (row.workload.threads_per_cta, row.workload.ctas_per_sm)


@pytest.mark.parametrize(
    ("case", "source", "timing", "cache"),
    [
        ("GEMM by rate", "my laptop", "event", "warm"),
        ("GEMM by rate", "PrincetonUniversity/LLMCompass 2e015fd2", "host", "warm"),
        ("scores of NeuSight", "sitar-lab/NeuSight 6945927d", "event", "warm"),
        ("softmax by rate", "Triton docs tutorial 02", "event", "cold"),
        ("pointer chase", "s", "ncu", "warm"),
        ("L2 bandwidth", "s", "ncu", "warm"),
        ("small kernel", "s", "graph", "warm"),
        ("BabelStream", "s", "event", "warm"),
    ],
)
def test_conditions_by_source_and_kind(tmp_path: Path, case: str, source: str, timing: str, cache: str) -> None:
    """A source says how it timed; a bandwidth or a latency a hop has no launch in it."""
    conditions = only_row(tmp_path, **CASES[case][0], source=source).conditions
    assert (timing, cache, None) == (conditions.timing, conditions.cache, conditions.sm_clock_mhz)


def test_vllm_replays_graphs(tmp_path: Path) -> None:
    """Several products a replay: graph timing, what fits stays in L2, and neither is assumed."""
    cells = CASES["GEMM by rate"][0] | {"kernel": "vllm_default_gemm"}
    file = read(tmp_path, **cells)
    conditions = file.rows[0].conditions
    assert ("graph", "warm") == (conditions.timing, conditions.cache)
    assert {"sm_clock_mhz": 1} == file.assumed


def test_stated_conditions_win(tmp_path: Path) -> None:
    """Columns of the row beat source and kind."""
    cells = CASES["softmax by rate"][0] | {"source": "Triton docs", "timing": "ncu", "cache": "warm"}
    row = only_row(tmp_path, **cells, sm_clock_mhz=1005)
    assert ("ncu", "warm", 1005) == (row.conditions.timing, row.conditions.cache, row.conditions.sm_clock_mhz)


@pytest.mark.parametrize(("mode", "timing"), [("stream launches", "event"), ("cuda graph", "graph")])
def test_launch_modes_are_series_of_their_own(tmp_path: Path, mode: str, timing: str) -> None:
    """The mode names the series and the timer, so no timer is assumed."""
    file = read(tmp_path, **SMALL | {"mode": mode})
    (row,) = file.rows
    assert (f"small_kernels ({mode})", timing) == (row.kernel, row.conditions.timing)
    assert "timing" not in file.assumed


@pytest.mark.parametrize(("clock_mhz", "locked"), [(1410, None), (1395, 1395)])
def test_a_clock_is_a_condition_where_it_is_not_the_boost_clock(
    tmp_path: Path, clock_mhz: int, locked: int | None
) -> None:
    """1,410 MHz is the boost clock of an A100; either way the clock was stated."""
    file = read(tmp_path, **CHASE | {"clock_mhz": clock_mhz})
    assert locked == file.rows[0].conditions.sm_clock_mhz
    assert {"cache", "timing"} == set(file.assumed)


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        (CHASE | {"data_kb": 256}, "may lie in L1, which is not modelled"),
        (L2 | {"data_kb": 217 * 512}, "more parts than a100_sxm4_80gb has CTAs (216)"),
        (STREAM | {"kernel": "stream_3pt", "gb_per_s": 1}, "reads its neighbours through L1"),
        (STREAM | {"kernel": "stream_1pt", "gb_per_s": 1}, "reads its neighbours through L1"),
        (STREAM | {"kernel": "my_stream", "gb_per_s": 1}, "does not say which arrays it reads"),
        (STREAM | {"kernel": "stream_read", "threads_total": 1000, "gb_per_s": 1}, "is no multiple of block_size"),
        (SMALL | {"mode": "by hand"}, "mode = 'by hand' is not one of stream launches, cuda graph"),
        (SMALL | {"us_per_kernel": 0}, "us_per_kernel = '0' is zero"),
        ({"gpu": A100, "data_kb_per_sm": 2, "gb_per_s": 18000}, "through its L1, which is not modelled"),
        ({"gpu": A100, "kernel": "triton_fused_softmax", "rows": 1, "cols": 1, "gb_per_s": 1}, "Triton's"),
        ({"gpu": A100, "kernel": "cudnn_rms_norm", "rows": 1, "cols": 1, "fwd_ms": 1}, "RMS norms"),
        ({"gpu": A100, "kernel": "torch_layernorm", "M": 1, "N": 1, "latency_ms": 1}, "layer norms"),
        ({"gpu": A100, "kernel": "torch_softmax", "rows": 8, "cols": 8, "latency_ms": ""}, "nothing measured"),
        ({"gpu": A100, "kernel": "torch_softmax", "rows": 8, "cols": 8, "tflops": 9}, "gives no latency"),
        ({"gpu": A100, "kernel": "torch_softmax", "rows": 8, "latency_ms": 9}, "cols is missing"),
        ({"gpu": A100, "kernel": "cublas", "M": 1.5, "N": 1, "K": 1, "tflops": 9}, "m = '1.5' is not a whole"),
        ({"gpu": A100, "kernel": "cublas", "dtype": "fp8", "M": 1, "N": 1, "K": 1, "tflops": 9}, "fp8"),
        ({"gpu": "H200", "source": "te42kyfo/gpu-benches", **CHASE} | {"gpu": "H200"}, "GH200"),
        ({"gpu": "", "kernel": "cublas", "M": 1, "N": 1, "K": 1, "tflops": 9}, "gpu is blank"),
    ],
)
def test_what_has_no_model_is_skipped_with_the_reason(tmp_path: Path, cells: dict[str, object], why: str) -> None:
    """One clause says what is missing."""
    assert why in reason(tmp_path, **cells)


def test_a_kernel_without_an_alias_is_its_own_implementation(tmp_path: Path) -> None:
    """Triton's GEMM is read; that there is no model of it is for compare to say."""
    row = only_row(tmp_path, gpu=A100, kernel="triton", dtype="fp16", M=256, N=256, K=256, latency_us=8)
    assert "triton" == row.implementation
