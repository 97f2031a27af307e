"""Points and errors as tables for a terminal; in a pipe the same text without colours.

Times are in ms, in µs below 0.1 ms and in s from 10 s; sizes in KiB, MiB and GiB; three significant digits.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from gpusim.report.series import series_names
from gpusim.results import PointResult, Status
from gpusim.units import GIB, KIB, MIB

_SECONDS_FROM_MS = 10_000.0
_MICROSECONDS_BELOW_MS = 0.1
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


@dataclass(frozen=True)
class SeriesError:
    """Errors of the simulation over one series of measurements, in percent of the measured latency.

    `n` counts the measurements. `bias_pct` is the mean of the signed errors, `roofline_mape_pct` the mean |error| that
    a plain roofline makes on the same rows. `role` is "fitted" or "held_out".
    """

    file: str
    gpu: str
    kernel: str
    pass_: str
    dtype: str
    head_dim: int
    causal: bool
    n: int
    mape_pct: float
    bias_pct: float
    max_ape_pct: float
    roofline_mape_pct: float | None
    role: str


def points_table(points: Sequence[PointResult], measured_ms: Mapping[int, float], *, width: int = 100) -> Table:
    """One row a point, in the given order; `measured_ms` maps positions in `points` to measured latencies in ms.

    `width` is that of the terminal in characters; below 100 the columns stand closer.
    """
    table = _table(width)
    table.add_column("implementation", min_width=10, overflow="fold")
    for heading in ("N", "latency", "measured", "error %", "TFLOP/s", "HBM", "bound"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("bottleneck", min_width=8, overflow="fold")
    for index, (point, name) in enumerate(zip(points, series_names(points), strict=True)):
        table.add_row(*_point_cells(point, name, measured_ms.get(index)))
    return table


def refusal_lines(points: Sequence[PointResult]) -> list[str]:
    """Why points have no latency and what would change that; lengths with one and the same answer share a line."""
    lengths: dict[tuple[str, Status, str, str], list[int]] = {}
    for point, name in zip(points, series_names(points), strict=True):
        if point.status != "ok":
            key = (name, point.status, point.reason or "no reason given", point.fix or "")
            lengths.setdefault(key, []).append(point.seqlen_k)
    return [_refusal_line(*key, found) for key, found in lengths.items()]


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


def human_bytes(size_bytes: float) -> str:
    """A size in the largest of B, KiB, MiB and GiB that leaves at least 1, to three significant digits."""
    for unit_bytes, unit in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size_bytes >= unit_bytes:
            return f"{_significant(size_bytes / unit_bytes)} {unit}"
    return f"{size_bytes:.0f} B"


def human_time(duration_ms: float, *, scale_ms: float | None = None) -> str:
    """A duration in µs, ms or s, whichever suits `scale_ms` (by default the duration itself)."""
    scale_ms = duration_ms if scale_ms is None else scale_ms
    if scale_ms < _MICROSECONDS_BELOW_MS:
        return f"{_significant(duration_ms * 1e3)} µs"
    if scale_ms >= _SECONDS_FROM_MS:
        return f"{_significant(duration_ms / 1e3)} s"
    return f"{_significant(duration_ms)} ms"


def _table(width: int) -> Table:
    padding = (0, 1, 0, 0) if width >= _FULL_WIDTH else 0
    return Table(box=box.SIMPLE_HEAD, padding=padding, pad_edge=False, show_edge=False, header_style="bold")


def _error_rows(widths: Sequence[int], cells: Sequence[Sequence[Text]], *, show_header: bool) -> Table:
    """A piece of the table of errors; all pieces have the same columns."""
    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False, show_edge=False, show_header=show_header)
    for heading, column_width in zip(_ERROR_HEADINGS, widths, strict=True):
        is_text = heading in ("kernel", "case", "role")
        table.add_column(heading, justify="left" if is_text else "right", width=column_width, overflow="fold")
    for row in cells:
        table.add_row(*row)
    return table


def _folded(kernel_width: int, case_width: int, *, spare: int) -> tuple[int, int]:
    """Widths of the kernel and case columns in `spare` characters; cases, which are words, are folded first."""
    if kernel_width + case_width <= spare:
        return kernel_width, case_width
    case_width = min(case_width, max(spare - kernel_width, spare // 2, _LEAST_WIDTH))
    return max(spare - case_width, _LEAST_WIDTH), case_width


def _point_cells(point: PointResult, name: str, measured_ms: float | None) -> list[Text]:
    latency_ms = point.latency_ms
    scale_ms = measured_ms if latency_ms is None else latency_ms
    return [
        Text(name),
        Text(_length(point)),
        Text(_time(latency_ms, scale_ms)) if point.status == "ok" else _status(point.status),
        Text(_time(measured_ms, scale_ms)),
        Text(_error(latency_ms, measured_ms)),
        Text(_ABSENT if point.tflops is None else _significant(point.tflops)),
        Text(_hbm(point)),
        Text(_time(point.bound_ms, scale_ms)),
        Text(point.bottleneck or _ABSENT),
    ]


def _error_cells(row: SeriesError) -> list[Text]:
    causal = " causal" if row.causal else ""
    return [
        Text(f"  {row.kernel}"),
        Text(f"{row.pass_} {row.dtype} d={row.head_dim}{causal}"),
        Text(f"{row.n:,}"),
        Text(f"{row.mape_pct:.1f}", style="bold"),
        Text(f"{row.bias_pct:+.1f}"),
        Text(f"{row.max_ape_pct:.1f}"),
        Text(_ABSENT if row.roofline_mape_pct is None else f"{row.roofline_mape_pct:.1f}"),
        Text(row.role.replace("_", " ")),
    ]


def _refusal_line(name: str, status: Status, reason: str, fix: str, lengths: Sequence[int]) -> str:
    where = ", ".join(f"{length:,}" for length in dict.fromkeys(lengths))
    return f"{name}, N = {where}: {_STATUS_TEXT[status]}: {reason}" + (f"; {fix}" if fix else "")


def _length(point: PointResult) -> str:
    if point.seqlen_q == point.seqlen_k:
        return f"{point.seqlen_k:,}"
    return f"{point.seqlen_q:,}×{point.seqlen_k:,}"


def _status(status: Status) -> Text:
    words = "OOM" if status == "out_of_memory" else _STATUS_TEXT[status]
    return Text(words, style="red" if status == "error" else "yellow")


def _time(duration_ms: float | None, scale_ms: float | None) -> str:
    return _ABSENT if duration_ms is None else human_time(duration_ms, scale_ms=scale_ms)


def _error(latency_ms: float | None, measured_ms: float | None) -> str:
    if latency_ms is None or measured_ms is None:
        return _ABSENT
    return f"{(latency_ms / measured_ms - 1) * 100:+.1f}"


def _hbm(point: PointResult) -> str:
    if point.hbm_read_bytes is None or point.hbm_write_bytes is None:
        return _ABSENT
    return human_bytes(point.hbm_read_bytes + point.hbm_write_bytes)


def _significant(value: float) -> str:
    """Three significant digits, or all of the integer part where that is longer."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    digits = 2 - math.floor(math.log10(abs(value)))
    rounded = round(value, digits)
    decimals = max(0, 2 - math.floor(math.log10(abs(rounded))))
    return f"{value:,.{decimals}f}"
