"""Measured rows against the simulation of each under its own conditions: errors, baselines and counter checks.

Error is simulated / measured − 1. Two baselines stand beside it on the same rows: the plain roofline, and the roofline
times one constant for every series, fitted to that series (its median ratio): what a spreadsheet could do.
"""

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from gpusim.engine import Mode
from gpusim.errors import InputError, MeasuredError
from gpusim.implementations import ScheduleRequest, implementations
from gpusim.measured import MeasuredFile, MeasuredRow, SkippedRow, read_all, verdict
from gpusim.point import Point
from gpusim.results import PointResult
from gpusim.specs import GpuSpec, load_gpu
from gpusim.sweep import run_sweep
from gpusim.units import MIB


class SeriesKey(NamedTuple):
    """What the rows of a series share; `file` is the measured file's name without its folder."""

    file: str
    gpu: str
    kernel: str
    pass_: str
    dtype: str
    head_dim: int
    causal: bool


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """A measured row, its simulation, and what the trust list says about it."""

    row: MeasuredRow
    result: PointResult
    is_trusted: bool
    trust_reason: str

    @property
    def error(self) -> float | None:
        """simulated / measured − 1; None where the row has no latency."""
        if self.row.latency_ms is None or self.result.latency_ms is None:
            return None
        return self.result.latency_ms / self.row.latency_ms - 1

    @property
    def roofline_error(self) -> float | None:
        """The plain roofline's error on the same row."""
        if self.row.latency_ms is None or self.result.roofline_ms is None:
            return None
        return self.result.roofline_ms / self.row.latency_ms - 1

    @property
    def is_above_ceiling(self) -> bool:
        """Whether the row claims more than the GPU's dense peak at its clock: a suspect row, or another clock."""
        measured, ceiling = self.row.latency_ms, self.result.ceiling_ms
        return measured is not None and ceiling is not None and measured < ceiling

    def checks(self) -> dict[str, dict[str, float]]:
        """Measured and simulated values of every counter the row has."""
        return {
            metric: {"measured": measured, "simulated": simulated, "error": simulated / measured - 1}
            for metric, measured in self.row.counters.items()
            if (simulated := _counter(self.result, metric)) is not None and measured
        }


def _counter(result: PointResult, metric: str) -> float | None:
    match metric:
        case "dram_bytes" if result.hbm_read_bytes is not None and result.hbm_write_bytes is not None:
            return result.hbm_read_bytes + result.hbm_write_bytes
        case "l2_read_bytes":
            return result.l2_read_bytes
        case "l2_write_bytes":
            return result.l2_write_bytes
        case "l2_hit_rate_pct" if result.l2_hit_rate is not None:
            return 100 * result.l2_hit_rate
        case "memory_mb" if result.peak_memory_bytes is not None:
            return result.peak_memory_bytes / MIB
        case _:
            return None


@dataclass(frozen=True, slots=True)
class ErrorFigures:
    """Figures of a set of rows, in percent: mean, median and largest absolute error, and bias."""

    n: int
    mape_pct: float
    median_ape_pct: float
    bias_pct: float
    max_ape_pct: float
    roofline_mape_pct: float
    constant_efficiency_mape_pct: float


@dataclass(frozen=True, slots=True)
class SeriesFigures:
    """Figures of the rows of one file, GPU, kernel, pass, dtype, head dim and mask; `trusted` counts trusted rows only.

    `role` is "fitted" where constants of the implementation were fitted to rows of this file, else "held_out".
    """

    key: SeriesKey
    role: str
    every: ErrorFigures
    trusted: ErrorFigures | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """All rows that were simulated, all that were not with the reason, and every assumption with its count.

    `wall_s` is the time of every simulated point in seconds, `steps` the loop steps of all of them, and `failed` how
    many points ended in an error.
    """

    compared: tuple[ComparedRow, ...]
    skipped: tuple[SkippedRow, ...]
    assumed: Mapping[str, int]
    extra_columns: Mapping[str, tuple[str, ...]]
    unreadable: tuple[MeasuredError, ...]
    wall_s: tuple[float, ...]
    steps: int
    failed: int
    was_interrupted: bool

    @property
    def rows(self) -> int:
        """How many measured rows there are, simulated or skipped."""
        return len(self.compared) + len(self.skipped)

    def figures(self) -> ErrorFigures | None:
        """Figures over every simulated row with a latency; None if there is none."""
        return _figures(self.compared)

    def trusted_figures(self) -> ErrorFigures | None:
        """Figures over the rows that the trust list counts."""
        return _figures([item for item in self.compared if item.is_trusted])

    def series(self) -> list[SeriesFigures]:
        """Figures by series, in order of first appearance."""
        groups: dict[SeriesKey, list[ComparedRow]] = {}
        for item in self.compared:
            if item.error is not None:
                groups.setdefault(_series_key(item), []).append(item)
        return [_series_figures(key, items) for key, items in groups.items()]


def _series_key(item: ComparedRow) -> SeriesKey:
    workload = item.row.workload
    return SeriesKey(
        file=Path(item.row.file).name,
        gpu=item.result.gpu,
        kernel=item.row.kernel,
        pass_=workload.pass_,
        dtype=workload.dtype,
        head_dim=workload.head_dim,
        causal=workload.causal,
    )


def _series_figures(key: SeriesKey, items: Sequence[ComparedRow]) -> SeriesFigures:
    role = implementations()[items[0].row.implementation].role_of(key.file)
    every = _figures(items)
    assert every is not None
    return SeriesFigures(key, role, every, _figures([item for item in items if item.is_trusted]))


def _figures(items: Sequence[ComparedRow]) -> ErrorFigures | None:
    with_latency = [item for item in items if item.error is not None]
    errors = [item.error for item in with_latency if item.error is not None]
    roofline = [item.roofline_error for item in with_latency if item.roofline_error is not None]
    if not errors:
        return None
    sizes = [abs(error) for error in errors]
    return ErrorFigures(
        n=len(errors),
        mape_pct=100 * statistics.fmean(sizes),
        median_ape_pct=100 * statistics.median(sizes),
        bias_pct=100 * statistics.fmean(errors),
        max_ape_pct=100 * max(sizes),
        roofline_mape_pct=100 * statistics.fmean(abs(error) for error in roofline),
        constant_efficiency_mape_pct=100 * _constant_efficiency_error(with_latency),
    )


def _constant_efficiency_error(items: Sequence[ComparedRow]) -> float:
    """Mean absolute error of the roofline divided by each series' median roofline / measured ratio."""
    ratios: dict[SeriesKey, list[float]] = {}
    for item in items:
        if item.roofline_error is not None:
            ratios.setdefault(_series_key(item), []).append(1 + item.roofline_error)
    errors = [abs(ratio / statistics.median(group) - 1) for group in ratios.values() for ratio in group]
    return statistics.fmean(errors)


def compare(
    paths: Sequence[Path],
    *,
    spec_of: Callable[[str], GpuSpec | None] = load_gpu,
    workers: int | None = None,
    mode: Mode = "auto",
    force: bool = False,
    on_start: Callable[[int], None] = lambda count: None,
    on_done: Callable[[], None] = lambda: None,
) -> Comparison:
    """Simulates every measured row that has a model.

    `spec_of` gives the GPU to simulate a preset's rows on, None to leave them out; `on_start` learns how many points
    there are. Raises MeasuredError when no file can be read.
    """
    files, unreadable = read_all(paths)
    if not files:
        raise MeasuredError("compare", [problem for error in unreadable for problem in str(error).splitlines()])
    rows = [row for file in files for row in file.rows]
    skipped = [skip for file in files for skip in file.skipped]
    points: dict[tuple[object, ...], Point] = {}
    keys: list[tuple[MeasuredRow, tuple[object, ...]]] = []
    for row in rows:
        point, reason = _point_of(row, spec_of)
        if point is None:
            skipped.append(SkippedRow(row.file, row.line, reason))
            continue
        key: tuple[object, ...] = (row.gpu, row.implementation, row.version, row.workload, row.conditions)
        points[key] = point
        keys.append((row, key))
    on_start(len(points))
    sweep = run_sweep(list(points.values()), workers=workers, mode=mode, force=force, on_done=on_done)
    point_keys = list(points)
    results = {point_keys[item.number]: item.result for item in sweep.finished}
    compared = []
    for row, key in keys:
        result = results.get(key)
        if result is not None and result.status == "ok":
            trust = verdict(row)
            compared.append(ComparedRow(row, result, trust.counts, trust.reason))
        else:
            skipped.append(SkippedRow(row.file, row.line, _why_not(result)))
    return Comparison(
        compared=tuple(compared),
        skipped=tuple(sorted(skipped, key=lambda skip: (skip.file, skip.line))),
        assumed=_total_assumed(files),
        extra_columns={str(file.path): file.extra_columns for file in files if file.extra_columns},
        unreadable=tuple(unreadable),
        wall_s=tuple(item.wall_s for item in sweep.finished),
        steps=sum(item.steps for item in sweep.finished),
        failed=sum(item.result.status == "error" for item in sweep.finished),
        was_interrupted=sweep.was_interrupted,
    )


def _why_not(result: PointResult | None) -> str:
    return "interrupted" if result is None else f"{result.status}: {result.reason}"


def _total_assumed(files: Sequence[MeasuredFile]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for file in files:
        total.update(file.assumed)
    return dict(sorted(total.items()))


def _point_of(row: MeasuredRow, spec_of: Callable[[str], GpuSpec | None]) -> tuple[Point | None, str]:
    """The point that simulates a row under its own conditions, or None and the reason there is none."""
    known = implementations()
    if row.implementation not in known:
        return None, f"no model of {row.implementation} yet"
    versions = known[row.implementation].versions
    if row.version is not None and row.version not in versions:
        listed = f"; known are {', '.join(versions)}" if versions else ""
        return None, f"no table for version {row.version} of {row.implementation}{listed}"
    try:
        spec = spec_of(row.gpu)
    except InputError as error:
        return None, error.problems[0]
    if spec is None:
        return None, f"{row.gpu} is not among the GPUs asked for"
    return Point(spec, ScheduleRequest(row.implementation, row.version), row.workload, row.conditions), ""
