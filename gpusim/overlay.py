"""Measured points that belong over a scenario's simulated curves, and the errors where both exist."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpusim.implementations import implementations
from gpusim.measured import MeasuredRow, find_measured, read_measured
from gpusim.point import Point
from gpusim.report import MeasuredPoint, series_names
from gpusim.report.tables import SeriesError
from gpusim.results import PointResult


@dataclass(frozen=True, slots=True)
class Overlay:
    """What the scenario's measured files say about its points.

    `measured_ms` maps point numbers to measured latencies in ms; `errors` maps the names of curves to mean absolute
    error in percent and the number of points behind it.
    """

    drawn: tuple[MeasuredPoint, ...]
    measured_ms: Mapping[int, float]
    errors: Mapping[str, tuple[float, int]]
    series: tuple[SeriesError, ...]


def overlay(points: Sequence[Point], results: Sequence[PointResult], measured: Sequence[str]) -> Overlay:
    """Rows of the measured files that have the GPU, implementation and shape of a curve, sequence length aside.

    Raises UnknownNameError or MeasuredError for a file that is not there or cannot be read.
    """
    names = series_names(results)
    curves: dict[str, Point] = {}
    for name, point in zip(names, points, strict=True):
        curves.setdefault(name, point)
    drawn: list[MeasuredPoint] = []
    measured_ms: dict[int, float] = {}
    series: list[SeriesError] = []
    errors: dict[str, tuple[float, int]] = {}
    for file in measured:
        rows = read_measured(find_measured(file)).rows
        for curve, example in curves.items():
            on_curve = [row for row in rows if row.latency_ms is not None and _same_curve(row, example)]
            drawn.extend(
                MeasuredPoint(curve, file, row.workload.seqlen_k, row.latency_ms, row.counters.get("dram_bytes"))
                for row in on_curve
            )
            matched = {
                number: row.latency_ms
                for number, name in enumerate(names)
                for row in on_curve
                if name == curve and row.latency_ms is not None and row.workload == points[number].workload
            }
            measured_ms |= matched
            found = _series_error(file, example, results, matched)
            if found is not None:
                series.append(found)
                errors.setdefault(curve, (found.mape_pct, found.n))
    return Overlay(tuple(drawn), measured_ms, errors, tuple(series))


def _same_curve(row: MeasuredRow, point: Point) -> bool:
    lengths = {"seqlen_q": 1, "seqlen_k": 1}
    return (
        row.gpu == point.spec.name
        and row.implementation == point.request.label
        and point.request.version in (None, row.version)
        and row.workload.model_copy(update=lengths) == point.workload.model_copy(update=lengths)
        and row.workload.seqlen_q == row.workload.seqlen_k
    )


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
    workload, name = example.workload, example.request.name
    return SeriesError(
        file=file,
        gpu=example.spec.name,
        kernel=name,
        pass_=workload.pass_,
        dtype=workload.dtype,
        head_dim=workload.head_dim,
        causal=workload.causal,
        n=len(pairs),
        mape_pct=100 * statistics.fmean(abs(error) for error in errors),
        bias_pct=100 * statistics.fmean(errors),
        max_ape_pct=100 * max(abs(error) for error in errors),
        roofline_mape_pct=100 * statistics.fmean(abs(roofline) for _, roofline in pairs),
        role=implementations()[name].role_of(file),
    )
