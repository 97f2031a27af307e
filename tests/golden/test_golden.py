"""The model drifts only on purpose: kept latencies, and the errors over shipped rows that count."""

from pathlib import Path

import pytest

from gpusim.compare import compare
from gpusim.measured import find_measured, measured_names, read_measured
from gpusim.workloads import AttentionWorkload
from validation.golden import GoldenRow, golden_rows

ROOT = Path(__file__).parents[2]
DRIFT = 0.005
RENEW = "if it is meant, python -m validation golden renews the list"
ALLOWED_RISE = 0.5  # percent points


def last_mape_pct(*names: str) -> float:
    """The mean absolute error in percent of the first row of validation/README.md that starts with these cells."""
    lines = (ROOT / "validation" / "README.md").read_text(encoding="utf-8").splitlines()
    tables = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    header = next(cells for cells in tables if "mean abs error" in cells)
    row = next(cells for cells in tables if (*names,) == (*cells[: len(names)],))
    return float(row[header.index("mean abs error")].removesuffix("%"))


@pytest.mark.parametrize("row", golden_rows(), ids=str)
def test_latency_and_bytes_stay_within_half_a_percent(row: GoldenRow) -> None:
    """A change that moves a kept point further has to renew the list."""
    now = row.simulated()
    assert row.latency_ms == pytest.approx(now.latency_ms, rel=DRIFT), RENEW
    assert row.hbm_bytes == pytest.approx(now.hbm_bytes, rel=DRIFT), RENEW


def test_the_error_over_all_attention_rows_that_count_does_not_rise() -> None:
    """At most half a point above what validation/README.md says."""
    files = [find_measured(name) for name in measured_names()]
    attention = [file for file in files if isinstance(read_measured(file).rows[0].workload, AttentionWorkload)]
    figures = compare(attention, workers=2).trusted_figures()
    assert figures is not None
    assert figures.mape_pct <= last_mape_pct("all") + ALLOWED_RISE


@pytest.mark.parametrize("name", ["gpu_benches_l2_bandwidth", "gpu_benches_latency"])
def test_the_errors_of_the_memory_benchmarks_do_not_rise(name: str) -> None:
    """Nor those of the single kernels that are simulated in seconds, series by series."""
    for series in compare([find_measured(name)], workers=2).series():
        assert series.trusted is not None
        assert series.trusted.mape_pct <= last_mape_pct(name, series.key.gpu) + ALLOWED_RISE, series.key
