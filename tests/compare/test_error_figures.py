"""Errors and baselines, with every figure worked out by hand from made-up latencies."""

from dataclasses import replace
from pathlib import Path

import pytest

from gpusim.compare import ComparedRow, Comparison, series_key
from gpusim.compare_page import comparison_json
from gpusim.implementations import ScheduleRequest, implementations
from gpusim.measured import MeasuredRow, SkippedRow, find_measured, read_measured
from gpusim.overlay import overlay
from gpusim.point import Point
from gpusim.results import PointResult
from gpusim.specs import load_gpu
from gpusim.workloads import (
    AttentionWorkload,
    CacheReadWorkload,
    ChaseWorkload,
    Conditions,
    GemmWorkload,
    RowsWorkload,
    StreamWorkload,
    Workload,
)

MIB = 2**20
WORKLOAD = AttentionWorkload(batch=1, heads=1, seqlen_q=64, seqlen_k=64, head_dim=64)


def compared(
    measured_ms: float | None,
    simulated_ms: float,
    roofline_ms: float = 1.0,
    *,
    kernel: str = "flash2",
    file: str = "rows.csv",
    counters: dict[str, float] | None = None,
    is_trusted: bool = True,
    **simulated: float,
) -> ComparedRow:
    """A row with a measured and a simulated latency in ms."""
    row = MeasuredRow(
        file=file,
        line=2,
        source="by hand",
        kernel=kernel,
        gpu="canvas",
        implementation=kernel,
        version=None,
        workload=WORKLOAD,
        conditions=Conditions(),
        latency_ms=measured_ms,
        counters=counters or {},
        note="",
        extra={},
    )
    names = {"gpu": "canvas", "schedule": kernel, "implementation": kernel, "version": None, "stack": None}
    times = {"latency_ms": simulated_ms, "roofline_ms": roofline_ms}
    timing = {"sm_clock_mhz": None, "timing": "event", "cache": "cold"}
    result = PointResult.model_validate(
        WORKLOAD.model_dump(mode="json") | names | timing | {"status": "ok"} | times | simulated
    )
    return ComparedRow(row, result, is_trusted, "" if is_trusted else "not trusted")


def comparison(*rows: ComparedRow, skipped: tuple[SkippedRow, ...] = ()) -> Comparison:
    """These rows and nothing else."""
    return Comparison(rows, skipped, {}, {}, (), (), 0, 0, False)


# flash2: errors +10 %, −10 %, 0; roofline/measured 0.5, 0.4, 0.5. flash1, not trusted: error +50 %, ratio 0.25.
SERIES = (compared(1.0, 1.1, 0.5), compared(2.0, 1.8, 0.8), compared(4.0, 4.0, 2.0))
OTHER = compared(10.0, 15.0, 2.5, kernel="flash1", is_trusted=False)


def test_the_error_is_simulated_over_measured_less_1() -> None:
    """5 ms for 4 ms measured is +25 %; a roofline of 1 ms is −75 %."""
    row = compared(4.0, 5.0, 1.0)
    assert (0.25, -0.75) == (row.error, row.roofline_error)


def test_figures_of_one_series() -> None:
    """|errors| 10, 10, 0; the roofline misses by 50, 60, 50; scaled by its median ratio 0.5 by 0, 20, 0."""
    figures = comparison(*SERIES).figures()
    assert 3 == figures.n
    assert pytest.approx(20 / 3) == figures.mape_pct
    assert pytest.approx(10) == figures.median_ape_pct
    assert pytest.approx(0, abs=1e-9) == figures.bias_pct
    assert pytest.approx(10) == figures.max_ape_pct
    assert pytest.approx(160 / 3) == figures.roofline_mape_pct
    assert pytest.approx(20 / 3) == figures.constant_efficiency_mape_pct


def test_figures_over_series_weigh_every_row_alike() -> None:
    """10, 10, 0 and 50; each series has a constant of its own, so the second's is exact."""
    figures = comparison(*SERIES, OTHER).figures()
    assert pytest.approx(17.5) == figures.mape_pct
    assert pytest.approx(10) == figures.median_ape_pct
    assert pytest.approx(12.5) == figures.bias_pct
    assert pytest.approx(50) == figures.max_ape_pct
    assert pytest.approx((50 + 60 + 50 + 75) / 4) == figures.roofline_mape_pct
    assert pytest.approx(20 / 4) == figures.constant_efficiency_mape_pct


def test_the_trust_list_leaves_rows_out() -> None:
    """Three of four rows count."""
    figures = comparison(*SERIES, OTHER).trusted_figures()
    assert (3, pytest.approx(20 / 3)) == (figures.n, figures.mape_pct)


def test_a_series_per_kernel_in_order_of_appearance() -> None:
    """Its figures are those of its own rows; one without trusted rows has no trusted figures."""
    first, second = comparison(OTHER, *SERIES).series()
    assert ("flash1", 1, None) == (first.key.kernel, first.every.n, first.trusted)
    assert ("flash2", 3, 3) == (second.key.kernel, second.every.n, second.trusted.n)


def test_no_row_has_no_figures() -> None:
    """None, and null in the document."""
    assert comparison().figures() is None
    assert comparison_json(comparison(), "0")["mape_pct"] is None


def test_a_row_with_counters_only_has_checks_and_no_error() -> None:
    """HBM 1,000 + 600 of 2,000 measured bytes is −20 %; a hit rate of 60 for 80 % −25 %; 3 MiB for 2 +50 %."""
    row = compared(
        None,
        1.0,
        counters={"dram_bytes": 2000, "l2_hit_rate_pct": 80.0, "memory_mb": 2.0},
        hbm_read_bytes=1000,
        hbm_write_bytes=600,
        l2_hit_rate=0.6,
        peak_memory_bytes=3 * MIB,
    )
    assert row.error is None
    assert comparison(row).figures() is None
    assert {"dram_bytes": -0.2, "l2_hit_rate_pct": -0.25, "memory_mb": 0.5} == {
        name: pytest.approx(check["error"]) for name, check in row.checks().items()
    }
    assert {"measured": 2000, "simulated": 1600, "error": pytest.approx(-0.2)} == row.checks()["dram_bytes"]


@pytest.mark.parametrize("kernel", ["flash1", "flash2", "pytorch_naive", "megatron_fused_softmax"])
def test_a_series_is_fitted_where_constants_were_fitted_to_its_file(kernel: str) -> None:
    """And held out everywhere else."""
    fitted_to = implementations()[kernel].fitted_to[0]
    fitted = compared(1.0, 1.0, kernel=kernel, file=f"{fitted_to}.csv")
    other = compared(1.0, 1.0, kernel=kernel, file="somewhere_else.csv")
    assert ["fitted", "held_out"] == [series.role for series in comparison(fitted, other).series()]


def test_a_curve_is_fitted_to_a_file_given_by_its_path() -> None:
    """The folder of a scenario's measured file says nothing; a pytorch_naive row on a point of its own shape."""
    file = find_measured("fa1_paper_a100_fwd")
    rows = [row for row in read_measured(file).rows if row.implementation == "pytorch_naive" and row.latency_ms]
    row = next(row for row in rows if not row.workload.dropout and row.workload.mask == "none")
    point = Point(load_gpu(row.gpu), ScheduleRequest(row.implementation, None), row.workload, row.conditions)
    names = {"gpu": row.gpu, "schedule": "naive", "implementation": row.implementation, "version": None, "stack": None}
    figures = {"status": "ok", "latency_ms": 1.0, "roofline_ms": 1.0, "sm_clock_mhz": None}
    timing = {"timing": "event", "cache": "cold"}
    result = PointResult.model_validate(row.workload.model_dump(mode="json") | names | figures | timing)
    assert ["fitted"] == [series.role for series in overlay([point], [result], [str(file)]).series]


def test_the_document_has_the_keys_of_the_contract() -> None:
    """Top level, series, points and checks; `out` is added when it is printed."""
    skip = SkippedRow("rows.csv", 7, "why")
    row = compared(4.0, 5.0, counters={"memory_mb": 1.0}, peak_memory_bytes=MIB)
    document = comparison_json(comparison(row, skipped=(skip,)), "0")
    figures = {"mape_pct", "median_ape_pct", "bias_pct", "max_ape_pct", "baseline_mape_pct"}
    added = {"gpusim", "unreadable", "trusted", "suspects", "checks", "counters_only"}
    assert {"rows", "simulated", "skipped", "assumed", "series", "points"} | figures | added == set(document)
    assert [{"file": "rows.csv", "line": 7, "reason": "why"}] == document["skipped"]
    assert {"roofline", "constant_efficiency"} == set(document["baseline_mape_pct"])
    (series,) = document["series"]
    names = {"file", "gpu", "kernel", "pass", "dtype", "head_dim", "causal", "case"}
    assert names | {"n", "role", "trusted"} | figures == set(series)
    (check,) = document["checks"]
    assert names | {"metric", "n", "mape_pct", "bias_pct", "max_ape_pct"} == set(check)
    (point,) = document["points"]
    own = {"file", "line", "kernel", "measured_latency_ms", "error", "checks", "trusted", "trust_reason"} | {
        "above_ceiling"
    }
    assert own | set(row.result.record()) == set(point)
    assert {"memory_mb": {"measured": 1.0, "simulated": 1.0, "error": 0.0}} == point["checks"]
    assert 0.25 == point["error"]
    assert Path(point["file"]).name == point["file"]


def test_counters_have_figures_by_series() -> None:
    """Errors −20 and +10 % of HBM bytes: 15 % in the mean, −5 % biased, 20 % at worst. One row does not count."""
    rows = [
        compared(None, 1.0, counters={"dram_bytes": 1000}, hbm_read_bytes=800, hbm_write_bytes=0),
        compared(None, 1.0, counters={"dram_bytes": 1000}, hbm_read_bytes=1000, hbm_write_bytes=100),
        compared(None, 1.0, counters={"dram_bytes": 1}, hbm_read_bytes=9, hbm_write_bytes=0, is_trusted=False),
    ]
    (counted,) = comparison(*rows).checks(trusted=True)
    assert ("dram_bytes", 2) == (counted.metric, counted.n)
    assert pytest.approx((15, -5, 20)) == (counted.mape_pct, counted.bias_pct, counted.max_ape_pct)
    assert 3 == comparison(*rows).checks()[0].n


@pytest.mark.parametrize(
    ("workload", "shared", "case"),
    [
        (WORKLOAD, ("fwd", "fp16", 64, False), "fwd fp16 d=64"),
        (WORKLOAD.model_copy(update={"causal": True}), ("fwd", "fp16", 64, True), "fwd fp16 d=64 causal"),
        (GemmWorkload(m=1, n=1, k=1, dtype="bf16"), (None, "bf16", None, None), "bf16"),
        (RowsWorkload(rows=1, cols=1, dtype="fp32"), (None, "fp32", None, None), "fp32"),
        (StreamWorkload(elements=1, loads=1, stores=1), (None, None, None, None), ""),
        (ChaseWorkload(footprint_bytes=1), (None, None, None, None), ""),
        (CacheReadWorkload(footprint_bytes=1, part_bytes=1), (None, None, None, None), ""),
    ],
)
def test_a_series_names_what_its_kind_has(workload: Workload, shared: tuple[object, ...], case: str) -> None:
    """What a workload does not have is None, null in JSON, and not in the words for it."""
    key = series_key(replace(compared(1.0, 1.0).row, workload=workload), "canvas")
    assert ("rows.csv", "canvas", "flash2", *shared) == key
    assert case == key.case


def test_attention_and_single_kernels_are_told_apart() -> None:
    """A comparison can be cut down to either; what was skipped stays."""
    item = compared(1.0, 1.0)
    gemm = replace(item, row=replace(item.row, workload=GemmWorkload(m=1, n=1, k=1)))
    done = comparison(item, gemm)
    assert ((item,), (gemm,)) == (done.only(attention=True).compared, done.only(attention=False).compared)
