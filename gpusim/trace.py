"""What happened when: spans of simulated time, the closed list of what a CTA's time goes into, transfers and tasks.

Components report facts through a recorder; tables, pictures and traces are made from them afterwards.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, Protocol


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


@dataclass(frozen=True, slots=True)
class Transfer:
    """A block of a tensor on its way between device memory and a CTA; times in integer picoseconds.

    `cta` are the grid coordinates; the block is number (`row`, `col`) of matrix `head`, counted in blocks of its own
    size. Asked for at `asked_ps`, its `hbm_bytes` keep HBM busy from `bus_start_ps` to `bus_end_ps` (a point in time
    where nothing reached HBM; with an L2 a request may also push other tiles out). `end_ps` is when a load is usable or
    a store accepted.
    """

    track: str
    kernel: str
    cta: tuple[int, ...]
    direction: Literal["read", "write"]
    tensor: str
    head: int
    row: int
    col: int
    asked_ps: int
    bus_start_ps: int
    bus_end_ps: int
    end_ps: int
    hbm_bytes: int


@dataclass(frozen=True, slots=True)
class Work:
    """One task's share of a hold of an SM's compute pipe, in integer picoseconds; free tasks take no time.

    What a kernel's constants add behind its last task is called "epilogue".
    """

    track: str
    kernel: str
    cta: tuple[int, ...]
    task: str
    start_ps: int
    end_ps: int


class Recorder(Protocol):
    """Receives spans and work as they end, transfers as they are asked for."""

    def span(self, track: str, kernel: str, kind: Stall, start_ps: int, end_ps: int) -> None:
        """Takes note of one span."""

    def transfer(self, transfer: Transfer) -> None:
        """Takes note of one load or store."""

    def work(self, work: Work) -> None:
        """Takes note of one task."""


@dataclass(slots=True)
class TimelineRecorder:
    """Keeps everything in the order it was reported."""

    spans: list[Span] = field(default_factory=list)
    transfers: list[Transfer] = field(default_factory=list)
    works: list[Work] = field(default_factory=list)

    def span(self, track: str, kernel: str, kind: Stall, start_ps: int, end_ps: int) -> None:
        """Appends one span."""
        self.spans.append(Span(track, kernel, kind, start_ps, end_ps))

    def transfer(self, transfer: Transfer) -> None:
        """Appends one load or store."""
        self.transfers.append(transfer)

    def work(self, work: Work) -> None:
        """Appends one task."""
        self.works.append(work)
