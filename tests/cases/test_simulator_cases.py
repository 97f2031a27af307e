"""Public cases about simulators, their counters and their reports, named after their number in the case list."""

import csv
import io
import json
from pathlib import Path

import pytest

from gpusim import AttentionWorkload, Conditions, Point, PointResult, load_gpu, parse_request, run_point
from gpusim.compare import compare
from gpusim.compare_page import comparison_json
from gpusim.gpu_page import gpu_text
from gpusim.report import results_csv
from gpusim.report.metrics import METRICS
from gpusim.results import KernelResult
from gpusim.specs import GpuSpec, apply_overrides
from gpusim.workloads import StreamWorkload, Workload

COLD = Conditions(timing="ncu", cache="cold")
SMALL = AttentionWorkload(batch=2, heads=4, seqlen_q=1024, seqlen_k=1024, head_dim=64)
MIB = 1 << 20
ONE_EACH = 108 * 2 * 1024  # a number for every resident thread of an A100: two CTAs of 1,024 an SM


def ok(name: object, workload: Workload, spec: GpuSpec, conditions: Conditions = COLD) -> PointResult:
    """The result of a point that can be simulated."""
    result = run_point(Point(spec, parse_request(name, "case"), workload, conditions))
    assert (None, "ok") == (result.reason, result.status)
    return result


@pytest.mark.parametrize("name", ["pytorch_naive", "flash1", "flash2"])
def test_E08_l2_size_is_one_plain_field_and_more_of_it_never_adds_hbm_bytes(name: str) -> None:
    """`--set memory.l2.size_bytes=…` doubles it; from 0.5 to 64 MiB nothing crashes and HBM bytes never rise."""
    sizes = [MIB // 2 << doubling for doubling in range(8)]
    specs = [apply_overrides(load_gpu("a100_sxm4_40gb"), {"memory.l2.size_bytes": str(size)}) for size in sizes]
    results = [ok(name, SMALL, spec) for spec in specs]
    moved = [(result.hbm_read_bytes or 0) + (result.hbm_write_bytes or 0) for result in results]
    assert moved == sorted(moved, reverse=True)
    assert moved[0] > moved[-1]


def test_E09_every_counter_has_a_unit_a_scope_and_its_nsight_name() -> None:
    """A sum over 68 SMs cannot be taken for a value of one: each number says what it counts, and over what."""
    numbers = {name for model in (PointResult, KernelResult) for name in model.model_fields if name.endswith("_bytes")}
    for name in numbers:
        assert "bytes" == METRICS[name].unit
        assert METRICS[name].scope in ("whole GPU", "one CTA")
    assert "dram__bytes_read.sum" == METRICS["hbm_read_bytes"].nsight
    assert "lts__t_sectors_srcunit_tex_op_read.sum × 32 B" == METRICS["l2_read_bytes"].nsight


def test_E09_bytes_are_sums_of_kernels_and_whole_sectors() -> None:
    """480,475 read sectors of 32 B are 15,375,200 bytes: HBM traffic of aligned tiles is whole sectors."""
    result = ok("flash2", SMALL, load_gpu("a100_sxm4_40gb"))
    assert 0 == (result.hbm_read_bytes or 1) % 32
    assert sum(kernel.hbm_read_bytes for kernel in result.kernels) == result.hbm_read_bytes


def test_E10_a_streaming_read_reaches_most_of_the_configured_bandwidth() -> None:
    """265 MB read once: 85 to 97 % of the 1,555 GB/s in the file, and GB/s is bytes over seconds.

    Upper end: hardware reaches 1,503 GB/s, 96.7 %.
    """
    spec = load_gpu("a100_sxm4_40gb")
    workload = StreamWorkload(elements=150 * ONE_EACH, loads=1, stores=0)
    result = ok("stream", workload, spec)
    assert result.latency_ms is not None
    moved = 150 * 8 * ONE_EACH
    assert moved / result.latency_ms / 1e6 == pytest.approx(result.operand_gb_per_s)
    assert 0.85 <= moved / (result.latency_ms / 1e3) / spec.memory.hbm.peak_bandwidth_bytes_per_s <= 0.97


def test_E11_l2_starts_cold_and_its_hit_rate_counts_reads_only() -> None:
    """A stream of writes to fresh lines has no read, so no hit rate to spoil, and nothing was in L2 before."""
    spec = load_gpu("a100_sxm4_40gb")
    written = ok("stream", StreamWorkload(elements=5 * ONE_EACH, loads=0, stores=1), spec)
    assert (0, 0) == (written.hbm_read_bytes, written.l2_read_bytes)
    assert 40 * ONE_EACH == written.l2_write_bytes == (written.hbm_write_bytes or 0) + (written.l2_dirty_bytes or 0)
    read = ok("stream", StreamWorkload(elements=5 * ONE_EACH, loads=1, stores=0), spec, Conditions(timing="ncu"))
    assert (40 * ONE_EACH, 0.0) == (read.hbm_read_bytes, read.l2_hit_rate)
    assert "read sectors hit / read sectors" in METRICS["l2_hit_rate"].meaning


def test_E14_a_validation_report_has_mean_bias_worst_and_count(tmp_path: Path) -> None:
    """A correlation of 0.97 hid an error of 30 %: each series and the total state n, mean, bias and worst."""
    rows = [
        "source,gpu,kernel,pass,dtype,batch,heads,seqlen_q,seqlen_k,head_dim,latency_ms",
        *(f"case E14,a100_sxm4_40gb,flash2,fwd,fp16,1,16,{n},{n},64,{ms}" for n, ms in ((512, 0.02), (1024, 0.05))),
    ]
    file = tmp_path / "e14.csv"
    file.write_text("\n".join(rows) + "\n")
    document = comparison_json(compare([file], workers=1), "0")
    (series,) = document["series"]
    assert 2 == series["n"]
    for figures in (document, series):
        assert {"mape_pct", "median_ape_pct", "bias_pct", "max_ape_pct"} <= figures.keys()
        assert None not in (figures["mape_pct"], figures["bias_pct"], figures["max_ape_pct"])
        assert abs(figures["bias_pct"]) <= figures["mape_pct"] <= figures["max_ape_pct"]


def test_E15_no_cell_is_blank_and_every_column_has_unit_and_scope() -> None:
    """What a point does not have is "n/a"; every column stands in the list of metrics with its unit and scope."""
    result = ok("flash2", SMALL, load_gpu("a100_sxm4_40gb"))
    header, row = csv.reader(io.StringIO(results_csv([result])))
    assert [] == [name for name, cell in zip(header, row, strict=True) if not cell]
    assert [] == [name for name in header if name not in METRICS]
    assert [] == [name for name in header if not (METRICS[name].unit and METRICS[name].scope)]


def test_E18_sram_size_decides_what_fits_and_how_many_bytes_move() -> None:
    """SRAM from 96 to 1,024 numbers of 2 B: larger tiles fit, and FlashAttention reads K and V less often."""
    workload = AttentionWorkload(batch=1, heads=1, seqlen_q=16, seqlen_k=16, head_dim=4)
    tiles, moved = [], []
    for size in (96, 192, 384, 1024, 2048):
        limits = {"sm.smem_bytes": str(size), "sm.smem_per_cta_max_bytes": str(size)}
        result = ok("flash2", workload, apply_overrides(load_gpu("canvas"), limits))
        tiles.append(result.tile_q)
        moved.append((result.hbm_read_bytes or 0) + (result.hbm_write_bytes or 0))
    assert [2, 4, 4, 8, 16] == tiles
    assert moved == sorted(moved, reverse=True)


def test_E18_bandwidth_is_in_bytes_per_second_and_stalls_are_shares_of_time() -> None:
    """No words per cycle: SRAM in KiB, HBM in TB/s; and where nothing was simulated there are no stalls."""
    refused = run_point(
        Point(load_gpu("t4"), parse_request("flash2", "case"), SMALL, COLD),
    )
    assert (None, None) == (refused.stalls, refused.latency_ms)
    page = gpu_text(load_gpu("a100_sxm4_40gb"))
    for size_or_rate in ("164.0 KiB", "40.0 MiB", "1.555 TB/s", "128 B/clk"):
        assert size_or_rate in page
    simulated = ok("flash2", SMALL, load_gpu("a100_sxm4_40gb"))
    assert 1 == pytest.approx(sum((simulated.stalls or {}).values()))


def test_E24_the_roofline_names_its_pipe_and_the_ridge_is_that_of_the_matching_peak() -> None:
    """A100-80: tensor fp16 312 TFLOP/s / 2.039 TB/s = 153 FLOP/B; FP32 lanes 19.5 / 2.039 = 9.6, near Nsight's 9.73."""
    page = gpu_text(load_gpu("a100_sxm4_80gb"))
    assert "tensor fp16, dense               311.9 TFLOP/s  ridge 153 FLOP/B" in page
    assert "fp32 lanes                       19.49 TFLOP/s  ridge 9.56 FLOP/B" in page
    large = AttentionWorkload(batch=1, heads=16, seqlen_q=4096, seqlen_k=4096, head_dim=128)
    assert "tensor fp16" == ok("flash2", large, load_gpu("a100_sxm4_80gb")).bound_by


def test_C10_a_row_above_the_ceiling_is_marked_although_the_gpu_cannot_be_simulated(tmp_path: Path) -> None:
    """475 and 223 TFLOP/s on an RTX 4090, whose dense fp16 peak is about 165: the timing was broken."""
    rows = [
        "source,gpu,kernel,pass,dtype,batch,heads,seqlen_q,seqlen_k,head_dim,tflops",
        "Dao-AILab/flash-attention#477,RTX 4090,pytorch_naive,fwd,fp16,16,32,1024,1024,16,475.19",
        "Dao-AILab/flash-attention#477,RTX 4090,flash1,fwd,fp16,64,32,256,256,16,222.97",
        "Dao-AILab/flash-attention#477,RTX 4090,flash1,fwd,fp16,64,32,256,256,16,60",
    ]
    file = tmp_path / "c10.csv"
    file.write_text("\n".join(rows) + "\n")
    document = json.loads(json.dumps(comparison_json(compare([file], workers=1), "0")))
    assert [2, 3] == [row["line"] for row in document["suspects"]]
