"""Numbers as people read them: three significant digits, a unit always, a real minus sign."""

import re
from collections.abc import Sequence
from math import floor, log10

from gpusim.units import GIB, KIB, MIB

_SECONDS_FROM_MS, _MICROSECONDS_BELOW_MS = 10_000.0, 0.1
_DECIMAL_SIZES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))  # 10⁹ bytes are 1 GB
_BINARY_SIZES = ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB"))
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=%|[TGMk]?B\b|[mµ]?s\b)")


def significant(value: float, digits: int = 3) -> str:
    """`digits` significant digits, thousands parted, never as a power of ten: 0.0123, 1.20, 12,345."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")
    decimals = max(0, digits - 1 - floor(log10(abs(rounded))))
    return f"{rounded if abs(value) < 1000 else value:,.{decimals}f}".replace("-", "−")


def duration(duration_ms: float, *, scale_ms: float | None = None) -> str:
    """A time in µs below 0.1 ms, in s from 10 s, else in ms, as suits `scale_ms` (by default the time itself)."""
    scale_ms = duration_ms if scale_ms is None else scale_ms
    if scale_ms >= _SECONDS_FROM_MS:
        return f"{significant(duration_ms / 1e3)} s"
    if scale_ms < _MICROSECONDS_BELOW_MS:
        return f"{significant(1e3 * duration_ms)} µs"
    return f"{significant(duration_ms)} ms"


def traffic(size_bytes: float) -> str:
    """Bytes in the units of HBM's rate and capacity: kB, MB, GB and TB."""
    return _size(size_bytes, _DECIMAL_SIZES)


def binary_size(size_bytes: float) -> str:
    """Bytes in the units of caches and shared memory: KiB, MiB and GiB."""
    return _size(size_bytes, _BINARY_SIZES)


def _size(size_bytes: float, units: Sequence[tuple[float, str]]) -> str:
    """In the largest unit that leaves at least 1; bytes are whole."""
    for unit, name in units:
        if size_bytes >= unit:
            return f"{significant(size_bytes / unit)} {name}"
    return f"{size_bytes:.0f} B"


def percent(share: float, *, signed: bool = False) -> str:
    """A share in percent with one decimal."""
    return f"{100 * share:{'+' if signed else ''}.1f} %".replace("-", "−")


def listed(items: Sequence[str]) -> str:
    """a; a and b; a, b and c."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}" if items else ""


def unbroken(text: str) -> str:
    """A text for a page, in which no line ends between a number and its unit."""
    return _BEFORE_UNIT.sub("\u00a0", text)
