"""Numbers as people read them: three significant digits, a unit always, a real minus sign."""

from collections.abc import Sequence
from math import floor, log10

_SECONDS_FROM_MS, _MICROSECONDS_BELOW_MS = 10_000.0, 0.1
_SIZES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))  # 10⁹ bytes are 1 GB


def significant(value: float, digits: int = 3) -> str:
    """`digits` significant digits, thousands parted, never as a power of ten: 0.0123, 1.20, 12,345."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")
    decimals = max(0, digits - 1 - floor(log10(abs(rounded))))
    return f"{rounded if abs(value) < 1000 else value:,.{decimals}f}".replace("-", "−")


def duration(latency_ms: float) -> str:
    """A time in µs, ms or s."""
    if latency_ms >= _SECONDS_FROM_MS:
        return f"{significant(latency_ms / 1e3)} s"
    if latency_ms < _MICROSECONDS_BELOW_MS:
        return f"{significant(1e3 * latency_ms)} µs"
    return f"{significant(latency_ms)} ms"


def traffic(size_bytes: float) -> str:
    """Bytes in decimal units."""
    for unit, name in _SIZES:
        if size_bytes >= unit:
            return f"{significant(size_bytes / unit)} {name}"
    return f"{significant(size_bytes)} B"


def percent(share: float, *, signed: bool = False) -> str:
    """A share in percent with one decimal."""
    return f"{100 * share:{'+' if signed else ''}.1f} %".replace("-", "−")


def listed(items: Sequence[str]) -> str:
    """a; a and b; a, b and c."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}" if items else ""
