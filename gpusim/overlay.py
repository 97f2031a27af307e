"""Measured points that belong over a scenario's simulated curves, errors where both exist, and what fits nowhere."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from gpusim.implementations import implementations
from gpusim.measured import MeasuredFile, MeasuredRow, find_measured, read_measured
from gpusim.point import Point
from gpusim.report import Axis, MeasuredPoint, Measurement, axis_of, series_names
from gpusim.report.tables import SeriesError
from gpusim.results import PointResult
from gpusim.workloads import AttentionWorkload, Workload


@dataclass(frozen=True, slots=True)
class Overlay:
    """What the scenario's measured files say about its points.

    `matched` are measurements of simulated points, `drawn` those and what else lies on a curve. `measured_ms` maps
    point numbers to measured latencies in ms; `errors` maps the names of curves to mean absolute error in percent and
    the number of points behind it. `used` says file by file how many rows match, and why where none does.
    """

    drawn: tuple[MeasuredPoint, ...]
    matched: tuple[Measurement, ...]
    measured_ms: Mapping[int, float]
    errors: Mapping[str, tuple[float, int]]
    series: tuple[SeriesError, ...]
    used: tuple[str, ...]


def overlay(points: Sequence[Point], results: Sequence[PointResult], measured: Sequence[str]) -> Overlay:
    """Rows of the measured files that have the GPU, implementation and shape of a curve, apart from what it varies.

    Raises UnknownNameError or MeasuredError for a file that is not there or cannot be read.
    """
    names, axis = series_names(results), axis_of(results)
    curves: dict[str, list[Point]] = {}
    for name, point in zip(names, points, strict=True):
        curves.setdefault(name, []).append(point)
    drawn: list[MeasuredPoint] = []
    of_points: list[Measurement] = []
    measured_ms: dict[int, float] = {}
    series: list[SeriesError] = []
    errors: dict[str, tuple[float, int]] = {}
    used: list[str] = []
    for file in measured:
        table = read_measured(find_measured(file))
        rows = table.rows
        matching: set[int] = set()
        for curve, members in curves.items():
            on_curve = [row for row in rows if row.latency_ms is not None and _same_curve(row, members, axis)]
            drawn.extend(
                MeasuredPoint(curve, file, place, row.latency_ms, row.counters.get("dram_bytes"))
                for row in on_curve
                for place in (getattr(row.workload, axis.field),)
            )
            of_row = {
                number: (row, row.latency_ms)
                for number, name in enumerate(names)
                for row in on_curve
                if name == curve and row.latency_ms is not None and row.workload == points[number].workload
            }
            matched = {number: latency_ms for number, (_, latency_ms) in of_row.items()}
            measured_ms |= matched
            matching |= {row.line for row in on_curve if any(row.workload == member.workload for member in members)}
            role = _role(members[0], file)
            of_points.extend(
                Measurement(number, latency_ms, file, role, row.source) for number, (row, latency_ms) in of_row.items()
            )
            found = _series_error(file, members[0], results, matched)
            if found is not None:
                series.append(found)
                errors.setdefault(curve, (found.mape_pct, found.n))
        used.append(_used_text(file, table, len(matching), points))
    return Overlay(tuple(drawn), tuple(of_points), measured_ms, errors, tuple(series), tuple(used))


def _used_text(file: str, table: MeasuredFile, matching: int, points: Sequence[Point]) -> str:
    """How many rows of a file match a point, which cannot be used, and what keeps the nearest from matching."""
    text = f"{file}: {matching} of {len(table.rows) + len(table.skipped)} rows match a point"
    if table.skipped:
        first = table.skipped[0]
        text += f"; {len(table.skipped)} cannot be used (line {first.line}: {first.reason})"
    if not matching and table.rows and points:
        line, differences = min(
            ((row.line, _differences(row, point)) for row in table.rows for point in points),
            key=lambda found: len(found[1]),
        )
        text += f"; the nearest, line {line}, has {', '.join(differences)}"
    return text


def _differences(row: MeasuredRow, point: Point) -> list[str]:
    """What keeps a row from matching a point, field by field."""
    asked = point.request
    pairs: dict[str, tuple[object, object]] = {
        "gpu": (row.gpu, point.spec.name),
        "kernel": (row.implementation, asked.label),
        "version": (row.version, row.version if asked.version is None else asked.version),
    }
    if type(row.workload) is type(point.workload):
        simulated = point.workload.model_dump(by_alias=True)
        pairs |= {name: (value, simulated[name]) for name, value in row.workload.model_dump(by_alias=True).items()}
    else:
        pairs["kind"] = (type(row.workload).__name__, type(point.workload).__name__)
    found = [
        f"{name} {_word(has)} where the point has {_word(wanted)}"
        for name, (has, wanted) in pairs.items()
        if has != wanted
    ]
    return found + (["no latency"] if row.latency_ms is None else [])


def _word(value: object) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case _:
            return str(value)


def _same_curve(row: MeasuredRow, points: Sequence[Point], axis: Axis) -> bool:
    """Whether a row is one of these points of one curve, or differs from the first in its place on the axis alone."""
    point = points[0]
    is_kernel = (
        row.gpu == point.spec.name
        and row.implementation == point.request.label
        and point.request.version in (None, row.version)
    )
    is_point = any(row.workload == other.workload for other in points)
    return is_kernel and (is_point or _is_on_line(row.workload, point.workload, axis))


def _is_on_line(workload: Workload, other: Workload, axis: Axis) -> bool:
    if not isinstance(workload, AttentionWorkload):
        return workload.model_copy(update={axis.field: 1}) == other.model_copy(update={axis.field: 1})
    lengths = {"seqlen_q": 1, "seqlen_k": 1}
    is_square = workload.seqlen_q == workload.seqlen_k
    return is_square and workload.model_copy(update=lengths) == other.model_copy(update=lengths)


def _series_error(
    file: str, example: Point, results: Sequence[PointResult], matched: Mapping[int, float]
) -> SeriesError | None:
    pairs = [
        (latency_ms / measured_ms - 1, roofline_ms / measured_ms - 1)
        for number, measured_ms in matched.items()
        if (latency_ms := results[number].latency_ms) is not None
        and (roofline_ms := results[number].roofline_ms) is not None
    ]
    if not pairs:
        return None
    errors = [error for error, _ in pairs]
    name = example.request.name
    return SeriesError(
        file=file,
        gpu=example.spec.name,
        kernel=name,
        case=_case(example.workload),
        n=len(pairs),
        mape_pct=100 * statistics.fmean(abs(error) for error in errors),
        bias_pct=100 * statistics.fmean(errors),
        max_ape_pct=100 * max(abs(error) for error in errors),
        roofline_mape_pct=100 * statistics.fmean(abs(roofline) for _, roofline in pairs),
        role=_role(example, file),
    )


def _role(point: Point, file: str) -> Literal["fitted", "held_out"]:
    """Whether the rows of a file were held out of the fits of a point's implementation and GPU."""
    return "fitted" if point.spec.is_fitted_to(file) else implementations()[point.request.name].role_of(file)


def _case(workload: Workload) -> str:
    if not isinstance(workload, AttentionWorkload):
        return workload.dtype
    return f"{workload.pass_} {workload.dtype} d={workload.head_dim}{' causal' if workload.causal else ''}"
