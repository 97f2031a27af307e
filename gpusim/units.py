"""Units and the one conversion rule: simulated time is integer picoseconds, rounded once per duration.

Sizes count in powers of two here; vendors' GB are 10**9 bytes. Durations round up, so nothing is ever faster than its
rate allows.
"""

import math

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
PS_PER_NS = 10**3
PS_PER_MS = 10**9
PS_PER_S = 10**12
J_PER_PJ = 1e-12


def ps_from_cycles(cycles: float, clock_hz: float) -> int:
    """Duration in ps of `cycles` clock cycles at `clock_hz`."""
    return math.ceil(cycles * PS_PER_S / clock_hz)


def ps_from_ns(duration_ns: float) -> int:
    """Duration in ps of `duration_ns` nanoseconds."""
    return round(duration_ns * PS_PER_NS)


def ps_per_byte(bandwidth_bytes_per_s: float) -> float:
    """Picoseconds one byte occupies a link of this bandwidth; multiply by whole transfers, then round."""
    return PS_PER_S / bandwidth_bytes_per_s


def ms_from_ps(duration_ps: int) -> float:
    """Duration in milliseconds of `duration_ps` picoseconds."""
    return duration_ps / PS_PER_MS
