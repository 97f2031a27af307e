"""A recorder for runs of any size: it keeps the events of a few SMs and a stretch of time, and counts everything.

Times are in integer picoseconds from the first event. Counters are of the whole GPU and the whole run; so is the time
of every kernel and what its slots spent it on. What is not kept is counted by the reason why.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from gpusim.trace import Span, Stall, Transfer, Work

HOST = "host"  # the track of kernel launches
MOST_EVENTS = 60_000  # kept; about 6 MB of trace
MOST_BINS = 1_000
_FIRST_BIN_PS = 1_000
_SM = re.compile(r"sm\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class Window:
    """What is kept: events of these SMs that overlap start to end, in ps from the first event, and at most so many."""

    sms: tuple[int, ...]
    start_ps: int
    end_ps: int
    most_events: int = MOST_EVENTS


@dataclass(frozen=True, slots=True)
class CtaLife:
    """One CTA, or one warpgroup of it, on its track: from the end of its launch to the end of its last wait."""

    track: str
    kernel: str
    cta: tuple[int, ...]
    start_ps: int
    end_ps: int


@dataclass(frozen=True, slots=True)
class KernelTime:
    """One kernel on the whole GPU, from its first launch to its last accepted store, and what all slots spent it on.

    Idle slots report nothing, so `spent_ps` holds no idle time.
    """

    name: str
    start_ps: int
    end_ps: int
    spent_ps: dict[Stall, int]


@dataclass(slots=True)
class Bins:
    """An amount over time in at most MOST_BINS bins that double in width as time goes on; nothing is lost."""

    width_ps: int = _FIRST_BIN_PS
    amounts: list[int] = field(default_factory=list)

    def add(self, start_ps: int, end_ps: int, amount: int) -> None:
        """Spreads an amount evenly over a stretch of time; at a point in time it goes into one bin."""
        last_ps = max(start_ps, end_ps - 1)
        while last_ps // self.width_ps >= MOST_BINS:
            self._widen()
        first, last = start_ps // self.width_ps, last_ps // self.width_ps
        self.amounts.extend([0] * (last + 1 - len(self.amounts)))
        done = 0
        for place in range(first, last):
            share = amount * ((place + 1) * self.width_ps - start_ps) // (end_ps - start_ps)
            self.amounts[place] += share - done
            done = share
        self.amounts[last] += amount - done

    def _widen(self) -> None:
        pairs = [sum(self.amounts[place : place + 2]) for place in range(0, len(self.amounts), 2)]
        self.width_ps, self.amounts = 2 * self.width_ps, pairs


@dataclass(frozen=True, slots=True)
class Counters:
    """Bytes over time on the whole GPU.

    HBM bytes stand where they keep HBM busy; bytes asked of L2 (of HBM where there is no L2) are spread from the
    request to the arrival. `in_flight` is the product of bytes and the picoseconds that they are under way.
    """

    hbm: Bins = field(default_factory=Bins)
    read: Bins = field(default_factory=Bins)
    written: Bins = field(default_factory=Bins)
    in_flight: Bins = field(default_factory=Bins)

    def add(self, transfer: Transfer, size_bytes: int, origin_ps: int) -> None:
        """Counts one load or store; its times are counted from `origin_ps`."""
        asked_ps, end_ps = transfer.asked_ps - origin_ps, transfer.end_ps - origin_ps
        asked = self.read if transfer.direction == "read" else self.written
        asked.add(asked_ps, end_ps, size_bytes)
        self.in_flight.add(asked_ps, end_ps, size_bytes * (end_ps - asked_ps))
        if transfer.hbm_bytes:
            self.hbm.add(transfer.bus_start_ps - origin_ps, transfer.bus_end_ps - origin_ps, transfer.hbm_bytes)


@dataclass(slots=True)
class LeftOut:
    """Events that were not kept: of other SMs, outside the window, and beyond the most events, from `full_ps` on."""

    of_other_sms: int = 0
    outside: int = 0
    beyond: int = 0
    full_ps: int | None = None


@dataclass(frozen=True, slots=True)
class Timeline:
    """What was recorded, times in ps from the first event; tasks that take no time are not in it.

    `idle_sms` are those of the window that ran no CTA at any time.
    """

    window: Window
    end_ps: int
    launches: tuple[Span, ...]
    kernels: tuple[KernelTime, ...]
    ctas: tuple[CtaLife, ...]
    spans: tuple[Span, ...]
    works: tuple[Work, ...]
    transfers: tuple[Transfer, ...]
    counters: Counters
    left_out: LeftOut
    idle_sms: tuple[int, ...]

    def tracks(self, sm: int) -> list[str]:
        """Tracks of one SM, in order of their numbers."""
        found = {span.track for span in self.spans} | {transfer.track for transfer in self.transfers}
        found |= {work.track for work in self.works}
        of_sm = [track for track in found if sm_of(track) == sm]
        return sorted(of_sm, key=lambda track: [int(number) for number in re.findall(r"\d+", track)])


def sm_of(track: str) -> int | None:
    """The number of the SM that a track belongs to; None for the host."""
    found = _SM.match(track)
    return None if found is None else int(found[1])


@dataclass(slots=True)
class _OpenCta:
    """A CTA whose end is not known yet."""

    kernel: str
    cta: tuple[int, ...]
    start_ps: int
    end_ps: int
    is_kept: bool = False


@dataclass(slots=True)
class _OpenKernel:
    """A kernel whose end is not known yet."""

    name: str
    start_ps: int
    end_ps: int
    spent_ps: dict[Stall, int] = field(default_factory=dict)


class WindowRecorder:
    """Hears of everything, as a Recorder; `size_bytes` says how many bytes a load or store asks for."""

    def __init__(self, window: Window, size_bytes: Callable[[Transfer], int]) -> None:
        self._window = window
        self._size_bytes = size_bytes
        self._origin_ps: int | None = None
        self._is_shown: dict[str, bool] = {}
        self._open: dict[str, _OpenCta] = {}
        self._free_ps: dict[str, int] = {}
        self._launches: list[Span] = []
        self._kernels: list[_OpenKernel] = []
        self._is_new_kernel = True
        self._ctas: list[CtaLife] = []
        self._spans: list[Span] = []
        self._works: list[Work] = []
        self._transfers: list[Transfer] = []
        self._counters = Counters()
        self._left_out = LeftOut()
        self._busy_sms: set[int | None] = set()

    def span(self, track: str, kernel: str, kind: Stall, start_ps: int, end_ps: int) -> None:
        """Counts one span, and keeps it where it is asked for."""
        origin_ps = self._origin(start_ps)
        start_ps, end_ps = start_ps - origin_ps, end_ps - origin_ps
        if track == HOST:
            self._launches.append(Span(track, kernel, kind, start_ps, end_ps))
            self._is_new_kernel = True
            return
        spent_ps = self._running(kernel, start_ps, end_ps).spent_ps
        spent_ps[kind] = spent_ps.get(kind, 0) + end_ps - start_ps
        if not self._shows(track):
            return
        if kind is Stall.LAUNCH:
            self._close(track, end_ps)
        elif track in self._open:
            self._open[track].end_ps = max(self._open[track].end_ps, end_ps)
        if self._keeps(track, start_ps, end_ps):
            self._spans.append(Span(track, kernel, kind, start_ps, end_ps))

    def transfer(self, transfer: Transfer) -> None:
        """Counts one load or store, and keeps it where it is asked for."""
        origin_ps = self._origin(transfer.asked_ps)
        asked_ps, end_ps = transfer.asked_ps - origin_ps, transfer.end_ps - origin_ps
        self._running(transfer.kernel, asked_ps, end_ps if transfer.direction == "write" else asked_ps)
        self._counters.add(transfer, self._size_bytes(transfer), origin_ps)
        if not self._shows(transfer.track):
            return
        self._at(transfer.track, transfer.kernel, transfer.cta, asked_ps, asked_ps)
        if self._keeps(transfer.track, asked_ps, end_ps):
            bus_start_ps, bus_end_ps = transfer.bus_start_ps - origin_ps, transfer.bus_end_ps - origin_ps
            moved = replace(
                transfer, asked_ps=asked_ps, bus_start_ps=bus_start_ps, bus_end_ps=bus_end_ps, end_ps=end_ps
            )
            self._transfers.append(moved)

    def work(self, work: Work) -> None:
        """Keeps one task where it is asked for."""
        origin_ps = self._origin(work.start_ps)
        takes_time = work.end_ps > work.start_ps
        if not self._shows(work.track, is_event=takes_time):
            return
        start_ps, end_ps = work.start_ps - origin_ps, work.end_ps - origin_ps
        self._running(work.kernel, start_ps, end_ps)
        self._at(work.track, work.kernel, work.cta, start_ps, end_ps)
        if takes_time and self._keeps(work.track, start_ps, end_ps):
            self._works.append(replace(work, start_ps=start_ps, end_ps=end_ps))

    def timeline(self) -> Timeline:
        """Everything that was kept and counted."""
        self._close_all()
        return Timeline(
            window=self._window,
            end_ps=max((kernel.end_ps for kernel in self._kernels), default=0),
            launches=tuple(self._launches),
            kernels=tuple(KernelTime(k.name, k.start_ps, k.end_ps, k.spent_ps) for k in self._kernels),
            ctas=tuple(self._ctas),
            spans=tuple(self._spans),
            works=tuple(self._works),
            transfers=tuple(self._transfers),
            counters=self._counters,
            left_out=self._left_out,
            idle_sms=tuple(sm for sm in self._window.sms if sm not in self._busy_sms),
        )

    def _origin(self, start_ps: int) -> int:
        """The time that all others count from: of everything, what is reported first began first."""
        if self._origin_ps is None:
            self._origin_ps = start_ps
        return self._origin_ps

    def _running(self, kernel: str, start_ps: int, end_ps: int) -> _OpenKernel:
        """The kernel that runs, whose end moves on to `end_ps`."""
        if self._is_new_kernel or self._kernels[-1].name != kernel:
            self._close_all()
            self._free_ps.clear()
            self._kernels.append(_OpenKernel(kernel, start_ps, end_ps))
            self._is_new_kernel = False
        running = self._kernels[-1]
        if end_ps > running.end_ps:
            running.end_ps = end_ps
        return running

    def _shows(self, track: str, *, is_event: bool = True) -> bool:
        """Whether a track is of an SM that is shown; else an event on it is counted."""
        if track not in self._is_shown:
            self._is_shown[track] = sm_of(track) in self._window.sms
        is_shown = self._is_shown[track]
        if is_event and not is_shown:
            self._left_out.of_other_sms += 1
        return is_shown

    def _at(self, track: str, kernel: str, cta: tuple[int, ...], start_ps: int, end_ps: int) -> None:
        """Says which CTA a track is at; without a launch in between it begins where the one before ends."""
        current = self._open.get(track)
        if current is None or (current.kernel, current.cta) != (kernel, cta):
            if current is not None:
                self._close(track, min(current.end_ps, start_ps))
            self._busy_sms.add(sm_of(track))
            begin_ps = min(self._free_ps.get(track, start_ps), start_ps)
            self._open[track] = current = _OpenCta(kernel, cta, begin_ps, end_ps)
        current.end_ps = max(current.end_ps, end_ps)

    def _close(self, track: str, free_ps: int) -> None:
        """Ends the CTA of a track, which is free for another from `free_ps` on."""
        done = self._open.pop(track, None)
        self._free_ps[track] = free_ps
        if done is not None and done.is_kept:
            end_ps = min(done.end_ps, free_ps)
            self._ctas.append(CtaLife(track, done.kernel, done.cta, done.start_ps, end_ps))

    def _close_all(self) -> None:
        for track, cta in list(self._open.items()):
            self._close(track, cta.end_ps)

    def _keeps(self, track: str, start_ps: int, end_ps: int) -> bool:
        """Whether an event on a track that is shown is kept; else it is counted by the reason why not."""
        if start_ps >= self._window.end_ps or end_ps <= self._window.start_ps:
            self._left_out.outside += 1
        elif len(self._spans) + len(self._works) + len(self._transfers) >= self._window.most_events:
            self._left_out.beyond += 1
            if self._left_out.full_ps is None:
                self._left_out.full_ps = start_ps
        else:
            if track in self._open:
                self._open[track].is_kept = True
            return True
        return False
