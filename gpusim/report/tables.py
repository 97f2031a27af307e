"""Points and errors as tables for a terminal; in a pipe the same text without colours.

Times are in ms, in µs below 0.1 ms and in s from 10 s; sizes in KiB, MiB and GiB; three significant digits. Where a
terminal is too narrow words are folded, then whole columns are left out, but no number is cut.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from gpusim.report.series import Axis, axis_of, series_names
from gpusim.report.wording import binary_size, duration, significant
from gpusim.results import PointResult, Status
from gpusim.workloads import AttentionWorkload, ChaseWorkload, GemmWorkload

_STATUS_TEXT: dict[Status, str] = {
    "ok": "ok",
    "refused": "refused",
    "out_of_memory": "out of memory",
    "unsupported": "unsupported",
    "error": "error",
}
_ABSENT = "-"
_FULL_WIDTH = 100
_ERROR_HEADINGS = ("kernel", "case", "n", "|error| %", "bias %", "worst %", "roofline %", "role")
_LEAST_WIDTH = 8
_FLOP_UNITS = {"TFLOP/s": 1.0, "GFLOP/s": 1e3, "MFLOP/s": 1e6}  # of each in one TFLOP/s
_GB_PER_S, _NS_PER_HOP = "GB/s", "ns/hop"
_LEAST_PLAIN = 1e-3  # smaller numbers are written as 3.1e-04
_WORDS = ("implementation", "bottleneck")
_SIZE = "size"
_HEADINGS = {
    "seqlen_k": "N",
    **dict.fromkeys(("m", "n", "k"), "M×N×K"),
    **dict.fromkeys(("rows", "cols"), "rows×cols"),
    "footprint_bytes": "footprint",
    "part_bytes": "part",
    "threads_per_cta": "threads/CTA",
    "ctas_per_sm": "CTAs/SM",
}
_LEFT_OUT_FIRST = {"rate": "whole words", "bound": "whole words", "bottleneck": "folded", "HBM": "folded"}


@dataclass(frozen=True)
class SeriesError:
    """Errors of the simulation over one series of measurements, in percent of the measured latency.

    `case` says in words what its measurements share; `n` counts them. `bias_pct` is the mean of the signed errors,
    `roofline_mape_pct` the mean |error| that a plain roofline makes on the same rows. `role` is "fitted" or "held_out".
    """

    file: str
    gpu: str
    kernel: str
    case: str
    n: int
    mape_pct: float
    bias_pct: float
    max_ape_pct: float
    roofline_mape_pct: float | None
    role: str


def points_table(points: Sequence[PointResult], measured_ms: Mapping[int, float], *, width: int = 100) -> Table:
    """One row a point, all of one kind and in the given order.

    `measured_ms` maps positions in `points` to measured latencies in ms.
    `width` is that of the terminal in characters. Columns for measurements are there when a point has one; in a narrow
    terminal columns stand closer, and first the rate, then the bound is left out.
    """
    rate_unit, axis = _rate_unit(points), axis_of(points)
    rows = [
        _point_cells(point, name, measured_ms.get(index), rate_unit, axis)
        for index, (point, name) in enumerate(zip(points, series_names(points), strict=True))
    ]
    headings = ["implementation", _SIZE, "latency", "measured", "error %", "rate", "HBM", "bound", "bottleneck"]
    if not any(index in measured_ms for index in range(len(points))):
        headings = [heading for heading in headings if heading not in ("measured", "error %")]
    shown = {"rate": rate_unit, _SIZE: _size_heading(axis)}
    columns = {heading: [Text(shown.get(heading, heading))] for heading in headings}
    for heading, column in columns.items():
        column += [row[heading] for row in rows]
    return _points_table({heading: max(map(len, column)) for heading, column in columns.items()}, columns, width)


def place_text(point: PointResult, axis: Axis) -> str:
    """Where a point stands on an axis, as "N = 4,096"."""
    return f"{_size_heading(axis)} = {_size(point, axis)}"


def refusal_lines(points: Sequence[PointResult]) -> list[str]:
    """Why points have no latency and what would change that; sizes with one and the same answer share a line."""
    axis = axis_of(points)
    sizes: dict[tuple[str, Status, str, str], list[str]] = {}
    for point, name in zip(points, series_names(points), strict=True):
        if point.status != "ok":
            key = (name, point.status, point.reason or "no reason given", point.fix or "")
            size = f"{axis.value(point):,}" if axis.field == "seqlen_k" else _size(point, axis)
            sizes.setdefault(key, []).append(size)
    return [_refusal_line(*key, _size_heading(axis), found) for key, found in sizes.items()]


def errors_table(rows: Sequence[SeriesError], *, width: int = 100) -> Group:
    """One row a series, under a line with the file and GPU that it belongs to; all errors in percent.

    "|error| %" and "roofline %" are means of absolute errors: the simulation's, and a plain roofline's on these rows.
    `width` is that of the terminal in characters; kernels and cases are folded where it is too small.
    """
    cells = [_error_cells(row) for row in rows]
    widths = [max(len(text) for text in column) for column in zip(_ERROR_HEADINGS, *cells, strict=True)]
    widths[:2] = _folded(widths[0], widths[1], spare=width - sum(widths[2:]) - len(widths) + 1)
    parts: list[Table | Text] = [_error_rows(widths, [], show_header=True)]
    for (file, gpu), group in groupby(zip(rows, cells, strict=True), key=lambda pair: (pair[0].file, pair[0].gpu)):
        parts.append(Text(f"{file}, {gpu}", style="dim", overflow="fold"))
        parts.append(_error_rows(widths, [found for _, found in group], show_header=False))
    return Group(*parts)


def _table(width: int) -> Table:
    padding = (0, 1, 0, 0) if width >= _FULL_WIDTH else 0
    return Table(box=box.SIMPLE_HEAD, padding=padding, pad_edge=False, show_edge=False, header_style="bold")


def _points_table(widths: dict[str, int], columns: Mapping[str, Sequence[Text]], width: int) -> Table:
    """A table of `columns`, each a heading and its cells, as far as they fit; `widths` are those of their texts.

    The first two left out make room for whole words, the others only for folded ones.
    """
    gap = 2 if width >= _FULL_WIDTH else 1
    longest = {name: max(len(word) for text in columns[name] for word in text.plain.split()) for name in _WORDS}
    for heading, words in _LEFT_OUT_FIRST.items():
        least = longest if words == "whole words" else dict.fromkeys(_WORDS, _LEAST_WIDTH)
        if sum(least.get(name, size) + gap for name, size in widths.items()) > width:
            widths = {name: size for name, size in widths.items() if name != heading}
    numbers = sum(size for name, size in widths.items() if name not in _WORDS)
    folded = _folded(widths["implementation"], widths.get("bottleneck", 0), spare=width - numbers - gap * len(widths))
    widths |= {name: size for name, size in zip(_WORDS, folded, strict=True) if name in widths}
    table = _table(width)
    for name, size in widths.items():
        justify: Literal["left", "right"] = "left" if name in _WORDS else "right"
        table.add_column(columns[name][0], justify=justify, width=size, overflow="fold")
    for cells in zip(*(columns[name][1:] for name in widths), strict=True):
        table.add_row(*cells)
    return table


def _error_rows(widths: Sequence[int], cells: Sequence[Sequence[Text]], *, show_header: bool) -> Table:
    """A piece of the table of errors; all pieces have the same columns."""
    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False, show_edge=False, show_header=show_header)
    for heading, column_width in zip(_ERROR_HEADINGS, widths, strict=True):
        is_text = heading in ("kernel", "case", "role")
        table.add_column(heading, justify="left" if is_text else "right", width=column_width, overflow="fold")
    for row in cells:
        table.add_row(*row)
    return table


def _folded(name_width: int, words_width: int, *, spare: int) -> tuple[int, int]:
    """Widths of a column of names and one of words in `spare` characters; the words are folded first."""
    if name_width + words_width <= spare:
        return name_width, words_width
    words_width = min(words_width, max(spare - name_width, spare // 2, _LEAST_WIDTH))
    return max(spare - words_width, _LEAST_WIDTH), words_width


def _point_cells(
    point: PointResult, name: str, measured_ms: float | None, rate_unit: str, axis: Axis
) -> dict[str, Text]:
    latency_ms = point.latency_ms
    scale_ms = measured_ms if latency_ms is None else latency_ms
    return {
        "implementation": Text(name),
        _SIZE: Text(_size(point, axis)),
        "latency": Text(_time(latency_ms, scale_ms)) if point.status == "ok" else _status(point.status),
        "measured": Text(_time(measured_ms, scale_ms)),
        "error %": Text(_error(latency_ms, measured_ms)),
        "rate": Text(_rate(point, rate_unit)),
        "HBM": Text(_hbm(point)),
        "bound": Text(_time(point.bound_ms, scale_ms)),
        "bottleneck": Text(point.bottleneck or _ABSENT),
    }


def _rate_unit(points: Sequence[PointResult]) -> str:
    """The largest unit in which the fastest point is at least 0.1; bytes or hops where nothing is computed."""
    kind = points[0].kind if points else AttentionWorkload
    if kind is ChaseWorkload:
        return _NS_PER_HOP
    if kind not in (AttentionWorkload, GemmWorkload):
        return _GB_PER_S
    fastest = max((point.tflops for point in points if point.tflops), default=1.0)
    return next((unit for unit, scale in _FLOP_UNITS.items() if fastest * scale >= 0.1), "MFLOP/s")


def _rate(point: PointResult, unit: str) -> str:
    value = {_NS_PER_HOP: point.latency_per_hop_ns, _GB_PER_S: point.gb_per_s}.get(unit, point.tflops)
    return _ABSENT if value is None else _plain(value * _FLOP_UNITS.get(unit, 1.0))


def _error_cells(row: SeriesError) -> list[Text]:
    return [
        Text(f"  {row.kernel}"),
        Text(row.case),
        Text(f"{row.n:,}"),
        Text(f"{row.mape_pct:.1f}", style="bold"),
        Text(f"{row.bias_pct:+.1f}"),
        Text(f"{row.max_ape_pct:.1f}"),
        Text(_ABSENT if row.roofline_mape_pct is None else f"{row.roofline_mape_pct:.1f}"),
        Text(row.role.replace("_", " ")),
    ]


def _refusal_line(name: str, status: Status, reason: str, fix: str, heading: str, sizes: Sequence[str]) -> str:
    where = ", ".join(dict.fromkeys(sizes))
    return f"{name}, {heading} = {where}: {_STATUS_TEXT[status]}: {reason}" + (f"; {fix}" if fix else "")


def _size_heading(axis: Axis) -> str:
    return _HEADINGS.get(axis.field, axis.field)


def _size(point: PointResult, axis: Axis) -> str:
    """The point's place on the axis, with the other sides of its shape."""
    match axis.field:
        case "seqlen_k" if point.seqlen_q != point.seqlen_k:
            sides = [point.seqlen_q, point.seqlen_k]
        case "m" | "n" | "k":
            sides = [point.m, point.n, point.k]
        case "rows" | "cols":
            sides = [point.rows, point.cols]
        case "footprint_bytes" | "part_bytes":
            return binary_size(axis.value(point))
        case _:
            sides = [axis.value(point)]
    return "×".join(f"{side:,}" for side in sides)


def _status(status: Status) -> Text:
    words = "OOM" if status == "out_of_memory" else _STATUS_TEXT[status]
    return Text(words, style="red" if status == "error" else "yellow")


def _time(duration_ms: float | None, scale_ms: float | None) -> str:
    return _ABSENT if duration_ms is None else duration(duration_ms, scale_ms=scale_ms)


def _error(latency_ms: float | None, measured_ms: float | None) -> str:
    if latency_ms is None or measured_ms is None:
        return _ABSENT
    return f"{(latency_ms / measured_ms - 1) * 100:+.1f}"


def _hbm(point: PointResult) -> str:
    if point.hbm_read_bytes is None or point.hbm_write_bytes is None:
        return _ABSENT
    return binary_size(point.hbm_read_bytes + point.hbm_write_bytes)


def _plain(value: float) -> str:
    return f"{value:.1e}" if 0 < value < _LEAST_PLAIN else significant(value)
