"""Measured rows against the simulation of each under its own conditions: errors, baselines and counter checks.

Error is simulated / measured − 1. Two baselines stand beside it on the same rows: the plain roofline, and the roofline
times one constant for every series, fitted to that series (its median ratio): what a spreadsheet could do. A row that
holds no latency but the memory of a training step is checked by its list of buffers, without simulation. A row that
claims more than its GPU can do is simulated and shown, and stands in no figure.
"""

import difflib
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple, Self

from gpusim.engine import Mode
from gpusim.errors import InputError, MeasuredError
from gpusim.implementations import ScheduleRequest, implementations, names_that_compute
from gpusim.implementations.training_memory import training_footprint
from gpusim.measured import MeasuredFile, MeasuredRow, SkippedRow, read_all, verdict
from gpusim.measured.ceiling import above_ceiling, claims_too_much
from gpusim.point import Point, answer
from gpusim.results import PointResult
from gpusim.specs import GpuSpec, load_gpu
from gpusim.sweep import run_sweep
from gpusim.units import MIB
from gpusim.workloads import AttentionWorkload, GemmWorkload, RowsWorkload

SpecOf = Callable[[str], GpuSpec | None]


class SeriesKey(NamedTuple):
    """What the rows of a series share; `file` is the measured file's name without its folder.

    None stands for what a kind of workload does not have.
    """

    file: str
    gpu: str
    kernel: str
    pass_: str | None
    dtype: str | None
    head_dim: int | None
    causal: bool | None

    @property
    def case(self) -> str:
        """Pass, number format, head dim and mask as tables print them."""
        head_dim = "" if self.head_dim is None else f"d={self.head_dim}"
        return " ".join(filter(None, (self.pass_, self.dtype, head_dim, "causal" if self.causal else "")))


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """A measured row, its simulation, and what the trust list says about it.

    `above_ceiling` says what the row claims that its GPU cannot do; such a row stands in no figure. `is_gpu_fitted` is
    set where constants of the simulated GPU were fitted to rows of the same file.
    """

    row: MeasuredRow
    result: PointResult
    is_trusted: bool
    trust_reason: str
    above_ceiling: str | None = None
    is_gpu_fitted: bool = False

    @property
    def role(self) -> Literal["fitted", "held_out"]:
        """Whether the rows of its file were held out of the fits of its implementation's and its GPU's constants."""
        return "fitted" if self.is_gpu_fitted else implementations()[self.row.implementation].role_of(self.row.file)

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

    `role` is "fitted" where constants of the implementation or of the GPU were fitted to rows of this file, else
    "held_out".
    """

    key: SeriesKey
    role: str
    every: ErrorFigures
    trusted: ErrorFigures | None


@dataclass(frozen=True, slots=True)
class CheckFigures:
    """How far one counter of a series is off, in percent: mean and largest absolute error, and bias."""

    key: SeriesKey
    metric: str
    n: int
    mape_pct: float
    bias_pct: float
    max_ape_pct: float


@dataclass(frozen=True, slots=True)
class Suspect:
    """A data line that claims more than its GPU can do, simulated or not, and what it claims."""

    file: str
    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """All rows that were simulated, all that were not with the reason, and every assumption with its count.

    `compared` holds rows that were checked by a counter alone, too: their point has no latency. `wall_s` is the time of
    every simulated point in seconds, `steps` the loop steps of all of them, and `failed` how many points ended in an
    error.
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
    suspects: tuple[Suspect, ...] = ()

    @property
    def counted(self) -> tuple[ComparedRow, ...]:
        """The rows that stand in figures: all but those that claim more than their GPU can do."""
        return tuple(item for item in self.compared if item.above_ceiling is None)

    @property
    def rows(self) -> int:
        """How many measured rows there are, simulated or skipped."""
        return len(self.compared) + len(self.skipped)

    @property
    def counters_only(self) -> int:
        """How many rows were checked by a counter without a simulation."""
        return sum(item.result.status != "ok" for item in self.compared)

    def only(self, *, attention: bool) -> Self:
        """The same with the simulated rows of attention, or with those of single kernels."""
        kept = (item for item in self.compared if isinstance(item.row.workload, AttentionWorkload) == attention)
        return replace(self, compared=tuple(kept))

    def figures(self) -> ErrorFigures | None:
        """Figures over every simulated row with a latency that counts; None if there is none."""
        return _figures(self.counted)

    def trusted_figures(self) -> ErrorFigures | None:
        """Figures over those that the trust list counts too; it says nothing against rows of files it does not name."""
        return _figures([item for item in self.counted if item.is_trusted])

    def series(self) -> list[SeriesFigures]:
        """Figures by series, in order of first appearance."""
        groups: dict[SeriesKey, list[ComparedRow]] = {}
        for item in self.counted:
            if item.error is not None:
                groups.setdefault(_key_of(item), []).append(item)
        return [_series_figures(key, items) for key, items in groups.items()]

    def worst_rows(self) -> list[ComparedRow]:
        """The row of every series whose latency is furthest off, in order of the series' first appearance."""
        worst: dict[SeriesKey, ComparedRow] = {}
        for item in self.counted:
            key = _key_of(item)
            if item.error is not None and (key not in worst or abs(item.error) > abs(worst[key].error or 0.0)):
                worst[key] = item
        return list(worst.values())

    def checks(self, *, trusted: bool = False) -> list[CheckFigures]:
        """Errors of counters by series and counter, in order of first appearance; `trusted` keeps rows that count."""
        groups: dict[tuple[SeriesKey, str], list[float]] = {}
        for item in self.counted:
            for metric, check in item.checks().items() if item.is_trusted or not trusted else ():
                groups.setdefault((_key_of(item), metric), []).append(check["error"])
        return [_check_figures(key, metric, errors) for (key, metric), errors in groups.items()]


def series_key(row: MeasuredRow, gpu: str) -> SeriesKey:
    """The series of a row that is simulated on a GPU of this name."""
    workload = row.workload
    file, kernel = Path(row.file).name, row.kernel
    match workload:
        case AttentionWorkload():
            return SeriesKey(file, gpu, kernel, workload.pass_, workload.dtype, workload.head_dim, workload.causal)
        case GemmWorkload() | RowsWorkload():
            return SeriesKey(file, gpu, kernel, None, workload.dtype, None, None)
        case _:
            return SeriesKey(file, gpu, kernel, None, None, None, None)


def _key_of(item: ComparedRow) -> SeriesKey:
    return series_key(item.row, item.result.gpu)


def _check_figures(key: SeriesKey, metric: str, errors: Sequence[float]) -> CheckFigures:
    sizes = [abs(error) for error in errors]
    mean, bias = statistics.fmean(sizes), statistics.fmean(errors)
    return CheckFigures(key, metric, len(errors), 100 * mean, 100 * bias, 100 * max(sizes))


def _series_figures(key: SeriesKey, items: Sequence[ComparedRow]) -> SeriesFigures:
    every = _figures(items)
    assert every is not None
    return SeriesFigures(key, items[0].role, every, _figures([item for item in items if item.is_trusted]))


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
            ratios.setdefault(_key_of(item), []).append(1 + item.roofline_error)
    errors = [abs(ratio / statistics.median(group) - 1) for group in ratios.values() for ratio in group]
    return statistics.fmean(errors)


def compare(
    paths: Sequence[Path],
    *,
    spec_of: SpecOf = load_gpu,
    workers: int | None = None,
    mode: Mode = "auto",
    force: bool = False,
    on_start: Callable[[int], None] = lambda count: None,
    on_done: Callable[[], None] = lambda: None,
) -> Comparison:
    """Simulates every measured row that has a model.

    `spec_of` gives the GPU to simulate a preset's rows on, None to leave them out; `on_start` learns how many points
    there are. Raises MeasuredError when no file can be read, or one is given twice.
    """
    files, unreadable = read_all(paths)
    if not files:
        raise MeasuredError("compare", [problem for error in unreadable for problem in str(error).splitlines()])
    spec_of = cache(spec_of)
    rows = [row for file in files for row in file.rows]
    skipped = [skip for file in files for skip in file.skipped]
    suspects = _suspects(rows, skipped, spec_of)
    points: dict[tuple[object, ...], Point] = {}
    keys: list[tuple[MeasuredRow, tuple[object, ...]]] = []
    compared: list[ComparedRow] = []
    for row in rows:
        point, reason = point_of(row, spec_of)
        if point is None:
            skipped.append(SkippedRow(row.file, row.line, reason))
        elif (checked := _training_memory(row, point)) is not None:
            compared.append(_compared(row, point.spec, checked, suspects))
        else:
            key: tuple[object, ...] = (row.gpu, row.implementation, row.version, row.workload, row.conditions)
            points[key] = point
            keys.append((row, key))
    on_start(len(points))
    sweep = run_sweep(list(points.values()), workers=workers, mode=mode, force=force, on_done=on_done)
    point_keys = list(points)
    results = {point_keys[item.number]: item.result for item in sweep.finished}
    for row, key in keys:
        result = results.get(key)
        if result is not None and result.status == "ok":
            compared.append(_compared(row, points[key].spec, result, suspects))
        else:
            skipped.append(SkippedRow(row.file, row.line, _why_not(result)))
    order = {(row.file, row.line): number for number, row in enumerate(rows)}
    return Comparison(
        compared=tuple(sorted(compared, key=lambda item: order[item.row.file, item.row.line])),
        skipped=tuple(sorted(skipped, key=lambda skip: (skip.file, skip.line))),
        assumed=_total_assumed(files),
        extra_columns={str(file.path): file.extra_columns for file in files if file.extra_columns},
        unreadable=tuple(unreadable),
        wall_s=tuple(item.wall_s for item in sweep.finished),
        steps=sum(item.steps for item in sweep.finished),
        failed=sum(item.result.status == "error" for item in sweep.finished),
        was_interrupted=sweep.was_interrupted,
        suspects=tuple(Suspect(*place, reason) for place, reason in sorted(suspects.items())),
    )


Suspicions = Mapping[tuple[str, int], str]


def _suspects(rows: Iterable[MeasuredRow], skipped: Iterable[SkippedRow], spec_of: SpecOf) -> Suspicions:
    """File and line → what the line claims that its GPU cannot do."""
    found: dict[tuple[str, int], str | None] = {}
    for row in rows:
        spec, _ = _spec(row.gpu, spec_of)
        found[row.file, row.line] = above_ceiling(row, spec) if spec else None
    for skip in skipped:
        spec, _ = _spec(skip.claim.gpu, spec_of) if skip.claim else (None, "")
        found[skip.file, skip.line] = claims_too_much(skip.claim, spec) if skip.claim and spec else None
    return {place: reason for place, reason in found.items() if reason}


def is_above_ceiling(row: MeasuredRow, spec: GpuSpec) -> bool:
    """Whether a row claims more than this GPU can do."""
    return above_ceiling(row, spec) is not None


def _compared(row: MeasuredRow, spec: GpuSpec, result: PointResult, suspects: Suspicions) -> ComparedRow:
    trust, too_much = verdict(row), suspects.get((row.file, row.line))
    reason = f"above the ceiling: {too_much}" if too_much else trust.reason
    counts = trust.counts and not too_much
    return ComparedRow(row, result, counts, reason, too_much, is_gpu_fitted=spec.is_fitted_to(row.file))


def _training_memory(row: MeasuredRow, point: Point) -> PointResult | None:
    """The answer to a row that holds the memory of a training step and no latency; None for every other row."""
    workload = row.workload
    if row.latency_ms is not None or not isinstance(workload, AttentionWorkload) or workload.pass_ != "fwd_bwd":
        return None
    memory = training_footprint(row.implementation, workload) if "memory_mb" in row.counters else None
    if memory is None:
        return None
    return answer(
        point,
        status="unsupported",
        reason="no model yet for pass fwd_bwd; its memory is the sum of the buffers that live at once",
        fix="ask for pass fwd to simulate it",
        extra_memory_bytes=memory.extra_bytes,
        peak_memory_bytes=memory.peak_bytes,
    )


def _why_not(result: PointResult | None) -> str:
    return "interrupted" if result is None else f"{result.status}: {result.reason}"


def _total_assumed(files: Sequence[MeasuredFile]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for file in files:
        total.update(file.assumed)
    return dict(sorted(total.items()))


def point_of(row: MeasuredRow, spec_of: SpecOf) -> tuple[Point | None, str]:
    """The point that simulates a row under its own conditions, or None and the reason there is none."""
    known = implementations()
    if row.implementation not in known:
        return None, f"no model of {row.implementation} yet; {_known_text(row)}"
    versions = known[row.implementation].versions
    if row.version is not None and row.version not in versions:
        listed = f"; known are {', '.join(versions)}" if versions else ""
        return None, f"no table for version {row.version} of {row.implementation}{listed}"
    spec, reason = _spec(row.gpu, spec_of)
    if spec is None:
        return None, reason
    return Point(spec, ScheduleRequest(row.implementation, row.version), row.workload, row.conditions), ""


def _known_text(row: MeasuredRow) -> str:
    """The names that this kernel's may be meant to be, or else all that compute what the row is about."""
    known = names_that_compute(type(row.workload))
    close = difflib.get_close_matches(row.implementation.lower(), known)
    return f"{'the nearest known names are' if close else 'known are'} {', '.join(close or known)}"


def _spec(gpu: str, spec_of: SpecOf) -> tuple[GpuSpec | None, str]:
    """The GPU to simulate a preset's rows on, or None and the reason there is none."""
    try:
        spec = spec_of(gpu)
    except InputError as error:
        return None, error.problems[0]
    return spec, "" if spec else f"{gpu} is not among the GPUs asked for"
