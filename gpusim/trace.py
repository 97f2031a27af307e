"""What happened when: spans of simulated time, and the closed list of what a CTA's time goes into.

Components report facts through a recorder; tables, pictures and traces are made from them afterwards.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class Stall(StrEnum):
    """Where the time of a CTA slot goes; the shares of a result add up to 1."""

    COMPUTE = "compute"  # holding the SM's compute pipe
    PIPE = "pipe"  # waiting for another CTA of the SM to leave the compute pipe
    LOAD = "load"  # waiting for tiles to arrive
    SYNC = "sync"  # per-step and per-loop latency that occupies no unit
    STORE = "store"  # waiting for posted writes to be accepted
    LAUNCH = "launch"  # kernel launches, and CTA launches
    IDLE = "idle"  # no CTA left for the slot: waves and tails


@dataclass(frozen=True, slots=True)
class Span:
    """One stretch of time on one track, such as "sm[3].slot[1]", in integer picoseconds."""

    track: str
    kernel: str
    kind: Stall
    start_ps: int
    end_ps: int


class Recorder(Protocol):
    """Receives spans as they end."""

    def span(self, track: str, kernel: str, kind: Stall, start_ps: int, end_ps: int) -> None:
        """Takes note of one span."""


@dataclass(slots=True)
class TimelineRecorder:
    """Keeps every span, in the order they ended."""

    spans: list[Span] = field(default_factory=list)

    def span(self, track: str, kernel: str, kind: Stall, start_ps: int, end_ps: int) -> None:
        """Appends one span."""
        self.spans.append(Span(track, kernel, kind, start_ps, end_ps))
