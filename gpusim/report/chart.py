"""What all plots share: looks of series, axes, the strip for points that were not run, the legend, PNG bytes."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from textwrap import wrap
from typing import Literal

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from gpusim.report.series import Axis, MeasuredPoint, Series
from gpusim.results import PointResult, Status
from gpusim.workloads import AttentionWorkload

INK, MUTED, RULE, GRID = "#16191d", "#565e68", "#cdd2d8", "#e3e6ea"

_SIZE_INCHES, _PAD_INCHES, _DPI = (12.0, 8.0), 0.15, 100
_DOT_SIZE, _LONE_DOT_SIZE, _MARK_SIZE, _HOLLOW_SIZE, _STATUS_SIZE = 4.5, 7.0, 7.5, 10.0, 10.0

# Baseline in ink, one grey, one accent; then hues of Okabe and Ito, darkened to 3:1 on white. Colour is never the only
# sign: each has its own shape.
_COLOURS = (INK, "#6a737d", "#a8104f", "#0072b2", "#c25700", "#008663", "#9a5ca8", "#8a7600")
_MARKERS = ("s", "o", "^", "D", "v", "P", "p", "X")
_DASHES: tuple[tuple[float, ...], ...] = ((), (4, 2), (1.2, 1.2), (5, 1.5, 1.2, 1.5), (8, 2), (3, 1, 1, 1, 1, 1))
Fill = Literal["full", "bottom", "left", "top", "right"]
_FILLS: tuple[Fill, ...] = ("full", "bottom", "left", "top", "right")  # hollow is for measured values

_STATUS_MARKS: dict[Status, tuple[str, str]] = {
    "out_of_memory": ("x", "out of memory"),
    "refused": (r"$\oslash$", "refused: does not fit"),
    "unsupported": (r"$\boxminus$", "unsupported"),
    "error": (r"$\boxtimes$", "error"),
}
_LARGE_LEGEND_SERIES = 8
_LETTERS_OF_A_HEADING = 104
_MOST_LETTERS_OF_A_LINE = 150
# Columns and letters in points, the first that fits; small letters start at the third.
_LEGEND_LAYOUTS = ((2, 12.0), (2, 10.0), (3, 8.5), (2, 8.5), (1, 8.5))
_FIRST_SMALL_LAYOUT = 2
_WIDTH_OF_A_LETTER = 0.57  # of its height, DejaVu Sans on average
_LINE_SAMPLE, _MARK_SAMPLE, _LEGEND_GAPS = 4.5, 1.5, 2.8  # widths in a legend, in heights of a letter
_LARGE_STRIP_ROWS = 6
_HEADING_LINE = 0.034  # height of one line of the heading, as a share of the figure
_NAMED_SOURCES = 2
_MOST_TICKS = 12


@dataclass(frozen=True)
class Look:
    """Colour, shape and dash pattern (in line widths, empty for solid) of a series.

    `fill` is the coloured part of its marks where they stand without a line.
    """

    colour: str
    marker: str
    dash: tuple[float, ...]
    fill: Fill = "full"


def looks_of(lines: Sequence[Series], measured: Sequence[MeasuredPoint]) -> dict[str, Look]:
    """Colour and shape by implementation, dash by variant, so that one series looks the same in every plot.

    Measured series without a simulated line take the next colours.
    """
    named = [(line.name, line.family, line.variant) for line in lines]
    named += [(point.series, point.series, "") for point in measured]
    return _looks(named)


def looks_on_gpus(names: Sequence[str]) -> dict[str, Look]:
    """Colour and shape by implementation, fill by GPU, for series named "implementation gpu"."""
    parts = [(name, *name.rpartition(" ")[::2]) for name in names]
    return _looks([(name, family or gpu, gpu if family else "") for name, family, gpu in parts])


def _looks(named: Sequence[tuple[str, str, str]]) -> dict[str, Look]:
    """Looks by name from (name, family, variant); where colours repeat, shapes move on by one."""
    looks: dict[str, Look] = {}
    families: dict[str, int] = {}
    variants: dict[str, int] = {}
    for name, family, variant in named:
        if name not in looks:
            turn, colour = divmod(families.setdefault(family, len(families)), len(_COLOURS))
            marker = (colour + turn) % len(_MARKERS)
            place = variants.setdefault(variant, len(variants))
            dash, fill = _DASHES[place % len(_DASHES)], _FILLS[place % len(_FILLS)]
            looks[name] = Look(_COLOURS[colour], _MARKERS[marker], dash, fill)
    return looks


def frame(title: str, lines: Sequence[Series], axis: Axis) -> tuple[Figure, Axes, Axes | None]:
    """A titled figure with axes for data and, if a point was not run, a strip above them with a row for each series."""
    figure = titled_figure(title, _setting([point for line in lines for point in line.points], axis))
    rows = sum(1 for line in lines if _not_run(line))
    if rows == 0:
        axes, strip = figure.subplots(), None
    else:
        strip, axes = figure.subplots(2, 1, sharex=True, height_ratios=(rows, max(18, 2 * rows)))
    style_axes(axes)
    return figure, axes, strip


def plain_frame(title: str, subtitle: str) -> tuple[Figure, Axes]:
    """A figure with two lines of heading and axes for data."""
    figure = titled_figure(title, subtitle)
    axes = figure.subplots()
    style_axes(axes)
    return figure, axes


def titled_figure(title: str, subtitle: str) -> Figure:
    """A figure with two lines of heading and nothing under them yet."""
    layout = ConstrainedLayoutEngine(w_pad=_PAD_INCHES, h_pad=_PAD_INCHES, hspace=0.0)
    figure = Figure(figsize=_SIZE_INCHES, dpi=_DPI, layout=layout, facecolor="white")
    _write_heading(figure, title, subtitle)
    return figure


def draw_line(axes: Axes, look: Look, *, lengths: Sequence[int], values: Sequence[float], label: str) -> Line2D:
    """Draws a simulated line with a small mark at every point, and returns it for the legend."""
    size = _DOT_SIZE if len(lengths) > 1 else _LONE_DOT_SIZE
    (line,) = axes.plot(lengths, values, color=look.colour, marker=look.marker, markersize=size, linewidth=2.0)
    line.set_label(label)
    if look.dash:
        line.set_dashes(look.dash)
    return line


def draw_marks(axes: Axes, look: Look, x: Sequence[float], y: Sequence[float], *, label: str) -> Line2D:
    """Draws marks without a line, and returns a legend entry."""
    (marks,) = axes.plot(
        x, y, linestyle="", marker=look.marker, markersize=_MARK_SIZE, fillstyle=look.fill, clip_on=False
    )
    marks.set(color=look.colour, alpha=0.8, markerfacecoloralt="white", label=label)
    return marks


def draw_measured(
    axes: Axes,
    looks: Mapping[str, Look],
    measured: Sequence[tuple[MeasuredPoint, float]],
    *,
    simulated: Collection[str],
) -> list[Line2D]:
    """Draws measured values as hollow marks.

    Returns legend entries: one for each series that has no simulated line, and one that names who measured.
    """
    if not measured:
        return []
    for point, value in measured:
        axes.add_line(_hollow(looks[point.series], [point.place], [value]))
    unsimulated = dict.fromkeys(point.series for point, _ in measured if point.series not in simulated)
    entries = [_hollow(looks[name], label=f"{name}: measured only") for name in unsimulated]
    sources = _sources([point for point, _ in measured])
    return [*entries, _hollow(Look(MUTED, "o", ()), label=f"hollow: measured, {sources}")]


def draw_not_run(strip: Axes | None, lines: Sequence[Series], looks: Mapping[str, Look], axis: Axis) -> list[Line2D]:
    """Marks every point that was not run in the strip, and returns a legend entry for each status that occurs."""
    if strip is None:
        return []
    rows = [line for line in lines if _not_run(line)]
    scale = min(1.0, _LARGE_STRIP_ROWS / len(rows))
    for row, line in enumerate(rows):
        for point in _not_run(line):
            marker, _ = _STATUS_MARKS[point.status]
            mark = Line2D([axis.value(point)], [row], linestyle="", marker=marker, markersize=scale * _STATUS_SIZE)
            mark.set_color(looks[line.name].colour)
            strip.add_line(mark)
    strip.set_ylim(len(rows) - 0.5, -0.5)
    strip.set_yticks(range(len(rows)), [line.name for line in rows])
    for label, line in zip(strip.get_yticklabels(), rows, strict=True):
        label.set_color(looks[line.name].colour)
    strip.tick_params(axis="both", length=0, labelsize=11 * scale)
    strip.grid(axis="y", color=GRID, linewidth=0.8)
    strip.spines[:].set_visible(False)
    occurring = {point.status for line in rows for point in _not_run(line)}
    return [_status_entry(status) for status in _STATUS_MARKS if status in occurring]


def length_axis(axes: Axes, lengths: Sequence[int], *, label: str) -> None:
    """A logarithmic axis of sizes with a tick at each power of two."""
    axes.set_xscale("log", base=2)
    axes.set_xlabel(label, color=INK, fontsize=13)
    low, high = (min(lengths), max(lengths)) if lengths else (1024, 1024)
    margin = 3.0 if low == high else (high / low) ** 0.04
    axes.set_xlim(low / margin, high * margin)
    exponents = range(math.ceil(math.log2(low / margin)), math.floor(math.log2(high * margin)) + 1)
    step = math.ceil(len(exponents) / _MOST_TICKS)
    axes.xaxis.set_major_locator(FixedLocator([2.0**exponent for exponent in exponents[::step]]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda length, _: short_length(round(length))))


def value_axis(
    axes: Axes,
    values: Sequence[float],
    *,
    label: str,
    text: Callable[[float], str],
    side: Literal["x", "y"] = "y",
    nothing: str = "nothing to show here: no point has a value",
) -> None:
    """A logarithmic axis between round numbers; without a value to show, the sentence `nothing` stands in the plot."""
    axis = axes.xaxis if side == "x" else axes.yaxis
    axes.set(**{f"{side}scale": "log"})
    axis.set_label_text(label, color=INK, fontsize=13)
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
    if not values:
        axis.set_major_locator(NullLocator())
        note = axes.text(0.5, 0.5, nothing, transform=axes.transAxes, color=MUTED, fontsize=13)
        note.set(ha="center", va="center", bbox={"facecolor": "white", "edgecolor": "none", "pad": 8})
        return
    ticks = _round_numbers(min(values), max(values))
    axes.set(**{f"{side}lim": (ticks[0], ticks[-1])})
    if len(ticks) > _MOST_TICKS:
        ticks = [tick for tick in ticks if math.log10(tick).is_integer()]
    axis.set_major_locator(FixedLocator(ticks))


def legend(figure: Figure, entries: Sequence[Line2D], *, num_series: int, title: str | None = None) -> None:
    """A legend under the axes, where it covers no data; smaller letters for many series and for long labels."""
    if not entries:
        return
    sample = _MARK_SAMPLE if all(entry.get_linestyle() == "None" for entry in entries) else _LINE_SAMPLE
    longest = max(len(str(entry.get_label())) for entry in entries)
    columns, size = _legend_layout(longest, sample, is_large=num_series <= _LARGE_LEGEND_SERIES)
    figure.legend(
        handles=list(entries),
        loc="outside lower left",
        ncols=columns,
        fontsize=size,
        title=title,
        title_fontproperties={"size": size},
        alignment="left",
        frameon=False,
        labelcolor=INK,
        handlelength=sample,
    )


def _legend_layout(longest: int, sample: float, *, is_large: bool) -> tuple[int, float]:
    layouts = _LEGEND_LAYOUTS[0 if is_large else _FIRST_SMALL_LAYOUT :]
    ems = longest * _WIDTH_OF_A_LETTER + sample + _LEGEND_GAPS
    width_points = 72 * (_SIZE_INCHES[0] - 2 * _PAD_INCHES)
    return next((layout for layout in layouts if layout[0] * layout[1] * ems <= width_points), layouts[-1])


def short_length(length: int) -> str:
    """A size as people say it: 512, 1k, 16k, 1M, 1G (powers of 1,024)."""
    for size, suffix in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "k")):
        if length >= size and length % size == 0:
            return f"{length // size}{suffix}"
    return str(length)


def png(draw: Callable[[], Figure]) -> bytes:
    """The figure that `draw` makes as PNG bytes, the same whatever matplotlib settings the user has."""
    content = BytesIO()
    with style.context({}, after_reset=True):
        draw().savefig(content, format="png", dpi=_DPI, metadata={"Software": None})
    return content.getvalue()


def _write_heading(figure: Figure, title: str, setting: str) -> None:
    """Two lines; the layout leaves room for a suptitle only, so its empty second line keeps the place of the text.

    A long setting is written smaller, and a very long one on several lines.
    """
    x, y = _PAD_INCHES / _SIZE_INCHES[0], 1 - _PAD_INCHES / _SIZE_INCHES[1]
    heading = figure.suptitle(f"{title}\n", x=x, ha="left", color=INK, fontsize=14, linespacing=1.5)
    heading.set_fontweight("bold")
    lines = wrap(setting, _MOST_LETTERS_OF_A_LINE, break_long_words=False, break_on_hyphens=False)
    size = 14 * min(1.0, _LETTERS_OF_A_HEADING / max(map(len, lines)))
    figure.text(x, y - _HEADING_LINE, "\n".join(lines), va="top", color=MUTED, fontsize=size)


def style_axes(axes: Axes) -> None:
    """Quiet spines, grid and ticks."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("bottom", "left"):
        axes.spines[side].set_color(RULE)
    axes.grid(color=GRID, linewidth=0.8)
    axes.tick_params(colors=MUTED, labelsize=12)
    axes.set_axisbelow(True)


def _not_run(line: Series) -> list[PointResult]:
    return [point for point in line.points if point.status != "ok"]


def _hollow(look: Look, lengths: Sequence[int] = (), values: Sequence[float] = (), *, label: str = "") -> Line2D:
    mark = Line2D(lengths, values, linestyle="", marker=look.marker, markersize=_HOLLOW_SIZE, label=label)
    mark.set(markerfacecolor="none", markeredgecolor=look.colour, markeredgewidth=1.6)
    return mark


def _status_entry(status: Status) -> Line2D:
    marker, words = _STATUS_MARKS[status]
    return Line2D([], [], linestyle="", marker=marker, markersize=_STATUS_SIZE, color=MUTED, label=words)


def _sources(measured: Sequence[MeasuredPoint]) -> str:
    labels = list(dict.fromkeys(point.label for point in measured))
    return " and ".join(labels) if len(labels) <= _NAMED_SOURCES else f"{len(labels)} sources"


def _setting(points: Sequence[PointResult], axis: Axis) -> str:
    """GPU and shape as one line of text; what differs between points is listed or given as a range."""
    if not points:
        return "no points"
    if points[0].kind is AttentionWorkload:
        return " · ".join(_attention_setting(points))
    kind = points[0].kind.model_fields
    dtype = [_listed(points, "dtype")] if "dtype" in kind else []
    fields = [field for field in kind if field not in ("dtype", axis.field)]
    shape = [f"{field.removesuffix('_bytes').replace('_', ' ')} {_range(points, field)}" for field in fields]
    return " · ".join([_machines(points), *dtype, *shape])


def _attention_setting(points: Sequence[PointResult]) -> list[str]:
    parts = [
        _machines(points),
        f"{_listed(points, 'pass_')} {_listed(points, 'dtype')}",
        f"batch {_range(points, 'batch')}",
        f"heads {_range(points, 'heads')}",
    ]
    if any(point.kv_heads != point.heads for point in points):
        parts.append(f"K/V heads {_range(points, 'kv_heads')}")
    parts.append(f"head dim {_range(points, 'head_dim')}")
    parts.append(" and ".join(sorted({"causal" if point.causal else "not causal" for point in points})))
    if any(point.seqlen_q != point.seqlen_k for point in points):
        parts.append(f"query length {_range(points, 'seqlen_q')}")
    return parts


def _machines(points: Sequence[PointResult]) -> str:
    """The GPU with what was set on it; of several the names alone, since the lines say the rest."""
    is_one = len({point.machine for point in points}) == 1
    return points[0].machine if is_one else _listed(points, "gpu")


def _listed(points: Sequence[PointResult], field: str) -> str:
    return ", ".join(dict.fromkeys(str(getattr(point, field)) for point in points))


def _range(points: Sequence[PointResult], field: str) -> str:
    values = [getattr(point, field) for point in points]
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _round_numbers(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten, from the last below `low` to the first above `high`."""
    exponents = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
    grid = [float(f"{digit}e{exponent}") for exponent in exponents for digit in (1, 2, 5)]
    first = max(index for index, value in enumerate(grid) if value < low)
    last = min(index for index, value in enumerate(grid) if value > high)
    return grid[first : last + 1]
