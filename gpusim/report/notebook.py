"""What a notebook shows of results: a table of points, the facts of one point, and pictures that display themselves."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from matplotlib.figure import Figure

from gpusim.report import chart
from gpusim.report.files import write_whole
from gpusim.report.plots import latency_figure
from gpusim.report.series import MeasuredPoint, axis_of, series_names
from gpusim.report.states import STATES
from gpusim.report.wording import duration, percent, significant, traffic
from gpusim.results import KernelResult, PointResult
from gpusim.trace import Stall

_MOST_ROWS = 60
_MOST_KERNELS = 12
_LETTERS_ON_ONE_LINE = 40
_US_PER_MS = 1e3
_HEADINGS = ("series", "size", "status", "latency", "TFLOP/s", "HBM bytes", "bound", "bottleneck")


@dataclass(frozen=True, slots=True)
class Picture:
    """A plot that a notebook shows by itself; `figure` draws it anew, to be changed at will."""

    draw: Callable[[], Figure]

    @property
    def figure(self) -> Figure:
        """The figure of matplotlib behind it."""
        return self.draw()

    def save(self, path: Path | str) -> None:
        """Writes it as a PNG of 1,200 × 800 pixels."""
        write_whole(Path(path), self._repr_png_())

    def _repr_png_(self) -> bytes:
        return chart.png(self.draw)


def latency_picture(points: Sequence[PointResult], measured: Sequence[MeasuredPoint] = ()) -> Picture:
    """Latency against size, with measured points where there are any."""
    return Picture(lambda: latency_figure(points, measured, {}))


def time_picture(point: PointResult) -> Picture:
    """Where the time of one point goes, kernel by kernel."""
    return Picture(lambda: time_figure(point))


def time_figure(point: PointResult) -> Figure:
    """The figure behind `time_picture`: a bar a kernel, as long as it runs, cut by what its slots spend it on.

    A point that was not simulated has no bars; its reason stands in the plot.
    """
    answer = point.status if point.latency_ms is None else f"latency {duration(point.latency_ms)}"
    figure, axes = chart.plain_frame("Where the time goes", f"{point.machine} · {point.implementation} · {answer}")
    if not point.kernels:
        axes.set_axis_off()
        note = axes.text(0.0, 1.0, f"{point.reason}\nfix: {point.fix}", color=chart.INK, fontsize=13, wrap=True)
        note.set(transform=axes.transAxes, va="top")
        return figure
    kernels = sorted(point.kernels, key=lambda kernel: -kernel.latency_ms)[:_MOST_KERNELS]
    for row, kernel in enumerate(kernels):
        begin_us = 0.0
        for kind, state in STATES.items():
            width_us = kernel.stalls.get(kind, 0.0) * kernel.latency_ms * _US_PER_MS
            axes.barh(row, width_us, left=begin_us, height=0.6, facecolor=state.face, edgecolor=state.edge)
            axes.patches[-1].set(hatch=state.hatch, linewidth=0.6)
            begin_us += width_us
    axes.set_yticks(range(len(kernels)), [kernel.name for kernel in kernels])
    axes.set_ylim(max(len(kernels), 3) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(_time_label(point.kernels), color=chart.INK, fontsize=13)
    handles = [STATES[kind].patch() for kind in _seen(kernels)]
    figure.legend(handles=handles, loc="outside lower left", ncols=4, fontsize=11, frameon=False)
    return figure


def _time_label(kernels: Sequence[KernelResult]) -> str:
    beyond = len(kernels) - _MOST_KERNELS
    return "time of the kernel, µs" + (f"; {beyond} shorter kernels are not shown" if beyond > 0 else "")


def _seen(kernels: Sequence[KernelResult]) -> list[Stall]:
    return [kind for kind in STATES if any(kernel.stalls.get(kind) for kernel in kernels)]


def points_html(points: Sequence[PointResult]) -> str:
    """A table with one row a point, of the first points of many."""
    axis, names = axis_of(points), series_names(points)
    rows = [
        (name, f"{axis.value(point):,}", *_answer(point))
        for point, name in list(zip(points, names, strict=True))[:_MOST_ROWS]
    ]
    more = len(points) - len(rows)
    note = f"<p>and {more:,} more points</p>" if more else ""
    return _table([_HEADINGS, *rows]) + note


def point_html(point: PointResult) -> str:
    """What was asked and what came out, one fact a row."""
    facts = [("GPU", point.machine), ("implementation", point.implementation), ("size", f"{point.size:,}")]
    facts += [
        (name, value) for name, value in zip(_HEADINGS[2:], _answer(point), strict=True) if value not in ("", "–")
    ]
    if point.fix is not None:
        facts.append(("fix", point.fix))
    if point.stalls is not None:
        spent = [f"{percent(share)} {STATES[kind].name}" for kind, share in point.stalls.items() if share >= 0.0005]
        facts.append(("slots' time", ", ".join(spent)))
    return _table(facts, has_heading=False)


def _answer(point: PointResult) -> tuple[str, ...]:
    if point.latency_ms is None:
        return (f"{point.status}: {point.reason}", *["–"] * (len(_HEADINGS) - 3))
    moved = (point.hbm_read_bytes or 0) + (point.hbm_write_bytes or 0)
    return (
        point.status,
        duration(point.latency_ms),
        "–" if point.tflops is None else significant(point.tflops),
        traffic(moved),
        "–" if point.bound_ms is None else duration(point.bound_ms),
        point.bottleneck or "–",
    )


def _table(rows: Sequence[Sequence[str]], *, has_heading: bool = True) -> str:
    lines = []
    for number, row in enumerate(rows):
        is_heading = has_heading and number == 0
        first = "th" if is_heading or not has_heading else "td"
        tags = [first, *["th" if is_heading else "td"] * (len(row) - 1)]
        cells = [_cell(tag, text) for tag, text in zip(tags, row, strict=True)]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table>{''.join(lines)}</table>"


def _cell(tag: str, text: str) -> str:
    """One cell, in which numbers and names stay on one line."""
    wrap = "normal" if len(text) > _LETTERS_ON_ONE_LINE else "nowrap"
    return f'<{tag} style="text-align:left;white-space:{wrap}">{escape(text)}</{tag}>'
