"""Latency and HBM traffic against size, and errors against measured latency, as PNGs of 1,200 × 800 pixels.

Size is the sequence length of attention and what `series.axis_of` says of other workloads.

Lines with small marks are simulated; hollow marks are measured. Colour and shape name the implementation, the dash (or
the fill of a mark without a line) names the GPU or what else differs. What was not run is marked in a strip above the
data. Equal input, equal bytes.
"""

import statistics
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter

from gpusim.report import chart
from gpusim.report.chart import Look
from gpusim.report.series import Axis, MeasuredPoint, Series, axis_of, series_of
from gpusim.results import PointResult

_ERROR_LIMIT_PCT, _ERROR_EDGE_PCT = 100, 109  # room for the arrows of what lies beyond
_ERROR_BANDS_PCT = (10, 25)


def latency_png(
    points: Sequence[PointResult],
    measured: Sequence[MeasuredPoint],
    errors: Mapping[str, tuple[float, int]],
) -> bytes:
    """Latency in ms against size, both logarithmic, as a PNG.

    `errors` maps names from `series_names` to (mean |error| in percent, number of measurements).
    """
    return chart.png(lambda: latency_figure(points, measured, errors))


def traffic_png(
    points: Sequence[PointResult],
    measured: Sequence[MeasuredPoint],
    *,
    compulsory: Mapping[int, int] | None = None,
) -> bytes:
    """HBM bytes (read + written) against size, both logarithmic, as a PNG.

    `compulsory` maps sizes to the bytes that no schedule can avoid.
    """
    return chart.png(lambda: traffic_figure(points, measured, compulsory=compulsory))


def latency_figure(
    points: Sequence[PointResult],
    measured: Sequence[MeasuredPoint],
    errors: Mapping[str, tuple[float, int]],
) -> Figure:
    """The figure behind `latency_png`."""
    lines, axis = series_of(points), axis_of(points)
    looks = chart.looks_of(lines, measured)
    hollow = [(point, point.latency_ms) for point in measured if point.latency_ms is not None]
    figure, axes, strip = chart.frame(f"Latency against {axis.title}", lines, axis)
    entries: list[Line2D] = []
    values = [latency_ms for _, latency_ms in hollow]
    for line in lines:
        found = [(axis.value(point), point.latency_ms) for point in line.points if point.latency_ms is not None]
        entries += _draw_line(axes, looks[line.name], found, label=_with_error(line.name, errors))
        values += _draw_band(axes, looks[line.name], line, axis) + [latency_ms for _, latency_ms in found]
    entries += _draw_marks(axes, strip, lines, axis, looks=looks, hollow=hollow)
    _size_axis(axes, lines, axis, [point.place for point, _ in hollow])
    chart.value_axis(axes, values, label="latency, ms", text=lambda latency_ms: f"{latency_ms:,.12g}")
    chart.legend(figure, entries, num_series=len(looks))
    return figure


def traffic_figure(
    points: Sequence[PointResult],
    measured: Sequence[MeasuredPoint],
    *,
    compulsory: Mapping[int, int] | None = None,
) -> Figure:
    """The figure behind `traffic_png`."""
    lines, axis = series_of(points), axis_of(points)
    looks = chart.looks_of(lines, measured)
    hollow = [(point, point.hbm_bytes) for point in measured if point.hbm_bytes]
    floor = sorted((compulsory or {}).items())
    figure, axes, strip = chart.frame(f"HBM traffic against {axis.title}", lines, axis)
    entries: list[Line2D] = []
    values = [size for _, size in hollow] + [float(size) for _, size in floor]
    zeros: list[tuple[int, Look]] = []
    for line in lines:
        found = _hbm_bytes(line, axis)
        above_zero = [(length, float(size)) for length, size in found if size]
        entries += _draw_line(axes, looks[line.name], above_zero, label=line.name)
        values += [size for _, size in above_zero]
        zeros += [(length, looks[line.name]) for length, size in found if not size]
    entries += _draw_compulsory(axes, floor) + _draw_zeros(axes, zeros)
    entries += _draw_marks(axes, strip, lines, axis, looks=looks, hollow=hollow)
    _size_axis(axes, lines, axis, [point.place for point, _ in hollow] + [place for place, _ in floor])
    chart.value_axis(axes, values, label="HBM bytes, read + written", text=EngFormatter(unit="B"))
    chart.legend(figure, entries, num_series=len(looks))
    return figure


def error_png(series: Mapping[str, Sequence[tuple[float, float]]]) -> bytes:
    """Relative errors in percent against measured latency (logarithmic), as a PNG.

    `series` maps names, "implementation gpu", to pairs (measured latency in ms, simulated / measured − 1).
    """
    return chart.png(lambda: error_figure(series))


def error_figure(series: Mapping[str, Sequence[tuple[float, float]]]) -> Figure:
    """The figure behind `error_png`."""
    errors_pct = {name: [100 * error for _, error in pairs] for name, pairs in series.items() if pairs}
    looks = chart.looks_on_gpus(list(errors_pct))
    figure, axes = chart.plain_frame("Error of the simulated latency", _overall(errors_pct))
    measured_ms = [latency_ms for pairs in series.values() for latency_ms, _ in pairs]
    _error_axis(axes)
    entries = [
        _draw_errors(axes, looks[name], [latency_ms for latency_ms, _ in series[name]], found, name=name)
        for name, found in errors_pct.items()
    ]
    entries += _draw_beyond(axes, looks, series)
    chart.value_axis(
        axes,
        measured_ms,
        label="measured latency, ms",
        text=lambda latency_ms: f"{latency_ms:,.12g}",
        side="x",
        nothing="no row was simulated",
    )
    chart.legend(figure, entries, num_series=len(looks), title="mean |error| over n rows")
    return figure


def _overall(errors_pct: Mapping[str, Sequence[float]]) -> str:
    every = [error_pct for found in errors_pct.values() for error_pct in found]
    if not every:
        return "simulated / measured − 1"
    mape_pct, bias_pct = statistics.fmean(abs(error_pct) for error_pct in every), statistics.fmean(every)
    return (
        f"simulated / measured − 1 · {len(every):,} measured rows · mean |error| {mape_pct:.1f} % · "
        f"bias {_signed(bias_pct, 1)} %"
    )


def _error_axis(axes: Axes) -> None:
    """A linear axis with a tick every 25 %, a zero line and bands of small errors."""
    axes.set_ylabel("error, % of measured latency", color=chart.INK, fontsize=13)
    axes.set_ylim(-_ERROR_EDGE_PCT, _ERROR_EDGE_PCT)
    ticks = range(-_ERROR_LIMIT_PCT, _ERROR_LIMIT_PCT + 1, 25)
    axes.set_yticks(ticks, [_signed(tick) for tick in ticks])
    axes.axhline(0, color=chart.INK, linewidth=1.2, zorder=1.5)
    for band_pct in _ERROR_BANDS_PCT:
        axes.axhspan(-band_pct, band_pct, color=chart.MUTED, alpha=0.1, linewidth=0, zorder=0.5)
        axes.text(
            1.007,
            band_pct,
            f"±{band_pct} %",
            transform=axes.get_yaxis_transform(),
            va="center",
            color=chart.MUTED,
            fontsize=11,
        )


def _draw_errors(
    axes: Axes, look: Look, measured_ms: Sequence[float], errors_pct: Sequence[float], *, name: str
) -> Line2D:
    """Draws a mark a row, errors beyond the limit at the limit, and returns the legend entry."""
    mape_pct = statistics.fmean(abs(error_pct) for error_pct in errors_pct)
    label = f"{name}: {mape_pct:.1f} %, n {len(errors_pct):,}"
    return chart.draw_marks(axes, look, measured_ms, [_within_limit(error) for error in errors_pct], label=label)


def _draw_beyond(
    axes: Axes, looks: Mapping[str, Look], series: Mapping[str, Sequence[tuple[float, float]]]
) -> list[Line2D]:
    """Draws an arrow outside every mark that stands at the limit and belongs beyond it."""
    count = 0
    for name, pairs in series.items():
        for latency_ms, error in pairs:
            if abs(100 * error) > _ERROR_LIMIT_PCT:
                edge_pct, arrow = (105, "^") if error > 0 else (-105, "v")
                axes.plot(latency_ms, edge_pct, marker=arrow, markersize=5, color=looks[name].colour)
                count += 1
    if not count:
        return []
    label = f"arrow: beyond ±{_ERROR_LIMIT_PCT} %, drawn at the edge ({count:,})"
    return [Line2D([], [], linestyle="", marker="^", markersize=5, color=chart.MUTED, label=label)]


def _within_limit(error_pct: float) -> float:
    return max(-_ERROR_LIMIT_PCT, min(_ERROR_LIMIT_PCT, error_pct))


def _signed(value: float, decimals: int = 0) -> str:
    return f"{value:+.{decimals}f}".replace("-", "−") if value else "0"


def _draw_line(axes: Axes, look: Look, found: Sequence[tuple[int, float]], *, label: str) -> list[Line2D]:
    if not found:
        return []
    lengths, values = zip(*found, strict=True)
    return [chart.draw_line(axes, look, lengths=lengths, values=values, label=label)]


def _draw_band(axes: Axes, look: Look, line: Series, axis: Axis) -> list[float]:
    """Tints the error band of a series where it has one, and returns the band's edges in ms."""
    band = [
        (axis.value(point), point.latency_lo_ms, point.latency_hi_ms)
        for point in line.points
        if point.latency_lo_ms is not None and point.latency_hi_ms is not None
    ]
    if not band:
        return []
    lengths, low_ms, high_ms = zip(*band, strict=True)
    axes.fill_between(lengths, low_ms, high_ms, color=look.colour, alpha=0.12, linewidth=0)
    return [*low_ms, *high_ms]


def _draw_compulsory(axes: Axes, floor: Sequence[tuple[int, int]]) -> list[Line2D]:
    if not floor:
        return []
    lengths, sizes = zip(*floor, strict=True)
    label = "compulsory: inputs once, output once"
    return axes.plot(lengths, sizes, color=chart.MUTED, linewidth=1.0, linestyle=(0, (4, 4)), label=label)


def _draw_zeros(axes: Axes, zeros: Sequence[tuple[int, Look]]) -> list[Line2D]:
    """Marks points that a warm cache keeps from HBM at the lower edge, as a logarithmic axis has no zero."""
    for length, look in zeros:
        axes.plot(
            length, 0.0, transform=axes.get_xaxis_transform(), marker=7, markersize=9, color=look.colour, clip_on=False
        )
    if not zeros:
        return []
    return [Line2D([], [], linestyle="", marker=7, markersize=9, color=chart.MUTED, label="at the edge: 0 bytes")]


def _draw_marks(
    axes: Axes,
    strip: Axes | None,
    lines: Sequence[Series],
    axis: Axis,
    *,
    looks: Mapping[str, Look],
    hollow: Sequence[tuple[MeasuredPoint, float]],
) -> list[Line2D]:
    simulated = {line.name for line in lines}
    measured = chart.draw_measured(axes, looks, hollow, simulated=simulated)
    return measured + chart.draw_not_run(strip, lines, looks, axis)


def _hbm_bytes(line: Series, axis: Axis) -> list[tuple[int, int]]:
    return [
        (axis.value(point), point.hbm_read_bytes + point.hbm_write_bytes)
        for point in line.points
        if point.hbm_read_bytes is not None and point.hbm_write_bytes is not None
    ]


def _with_error(name: str, errors: Mapping[str, tuple[float, int]]) -> str:
    if name in errors:
        mape_pct, count = errors[name]
        return f"{name}: mean |error| {mape_pct:.1f} % over {count:,}"
    return f"{name}: not measured" if errors else name


def _size_axis(axes: Axes, lines: Sequence[Series], axis: Axis, others: Sequence[int]) -> None:
    points = [point for line in lines for point in line.points]
    is_square = all(point.seqlen_q == point.seqlen_k for point in points)
    label = axis.label if axis.field != "seqlen_k" or is_square else "K/V sequence length, tokens"
    chart.length_axis(axes, [axis.value(point) for point in points] + list(others), label=label)
