"""One warpgroup's place on an SM: takes CTAs from the kernel's queue and walks their phases.

A slot is one SimPy process for the whole kernel: a CTA, or one of its consumer warpgroups. It waits at most once for
the loads a phase needs and once for its turn on the compute pipe; loads and stores are booked, not waited for one by
one. Warpgroups of a CTA share what an innermost loop loads: the first to get there asks for it, a stage is free when
the last has read it, and who finds a tile not yet asked for sleeps until it is.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Literal

import simpy

from gpusim.engine.clock import Environment
from gpusim.engine.lower import AccessTable, Block, LoweredKernel, MainLoop, OuterLoop, Part, Straight
from gpusim.hardware import HBM_READ_BYTES, HBM_WRITE_BYTES, LAST_FREE_PS, Machine, book, read_tiles, write_tiles
from gpusim.taskgraph import Kernel
from gpusim.trace import Recorder, Stall, Transfer, Work

Process = Generator[simpy.Event, Any, None]


class WorkQueue:
    """Numbers of a kernel's CTAs in dispatch order: to whoever asks first, or by the stride of a static grid."""

    def __init__(self, kernel: Kernel, num_resident: int) -> None:
        self.kernel = kernel
        self._stride = num_resident if kernel.scheduler == "static" else 0
        self._next = 0

    def take(self, place: int, taken: int) -> int | None:
        """The next CTA of place number `place`, which has taken so many; None when there is none left."""
        number = place + taken * self._stride if self._stride else self._next
        self._next += 1
        return number if number < self.kernel.ctas else None


class Stream:
    """One load of an innermost loop as the warpgroups of a CTA share it; tiles are counted from the kernel's start."""

    def __init__(self, access: int, stages: int, num_warpgroups: int) -> None:
        self.access = access
        self.stages = stages
        self.asked = 0
        self.ready_ps = [0] * stages
        self.released = [0] * num_warpgroups

    def may_ask(self, end: int) -> bool:
        """Whether the next tile, of `end` so far, has a free stage."""
        return self.asked < end and self.asked < min(self.released) + self.stages


class SharedLoop:
    """An innermost loop of a resident CTA: its streams, and the CTA that its foremost warpgroup is at.

    Tiles `begin` to `end` are that CTA's; `entered` counts those of the CTAs each warpgroup has begun.
    """

    def __init__(self, loop: MainLoop, num_warpgroups: int) -> None:
        self.streams = [Stream(load.access, load.stages, num_warpgroups) for load in loop.loads]
        self.slot = loop.slot
        self.entered = [0] * num_warpgroups
        self.front: CtaSlot | None = None
        self.begin = self.end = 0

    def enter(self, who: "CtaSlot", trips: int) -> int:
        """The number of a warpgroup's first tile; the first to come asks for as many as have a free stage."""
        first = self.entered[who.warpgroup]
        self.entered[who.warpgroup] += trips
        if first == self.end:
            self.front, self.begin, self.end = who, first, first + trips
            for ahead in range(max((stream.stages for stream in self.streams), default=0)):
                for stream in self.streams:
                    if ahead < stream.stages:
                        self.ask(stream)
        return first

    def ask(self, stream: Stream) -> None:
        """Asks for a stream's next tile, if its stage is free, and wakes who waits for one."""
        if self.front is None or not stream.may_ask(self.end):
            return
        stream.ready_ps[stream.asked % stream.stages] = self.front.load_for_all(
            stream.access, self.slot, stream.asked - self.begin
        )
        stream.asked += 1
        self.front.cta.wake_all()


@dataclass(frozen=True, slots=True)
class Item:
    """A CTA of the grid as it came to a resident CTA, and when it started."""

    number: int
    started_ps: int


class ResidentCta:
    """What the warpgroups of one resident CTA share: the CTAs taken so far, and the streams of its loops."""

    def __init__(self, env: Environment, machine: Machine, queue: WorkQueue, place: int, launch_ps: int) -> None:
        self._env = env
        self._machine = machine
        self._queue = queue
        self._place = place
        self._launch_ps = launch_ps
        warpgroups = queue.kernel.warpgroups_per_cta
        self._ended = [0] * warpgroups
        self._waits_for_all = warpgroups > 1 and queue.kernel.scheduler == "hardware"
        self._items: list[Item] = []
        self._loops: dict[int, SharedLoop] = {}
        self._sleeping: dict[int, simpy.Event] = {}

    def end(self, warpgroup: int, count: int) -> None:
        """A warpgroup is through with `count` CTAs; others may have waited for that."""
        self._ended[warpgroup] = count
        if self._waits_for_all:
            self.wake_all()

    def may_take(self, count: int) -> bool:
        """Whether CTA number `count` may be taken: hardware launches none before all of the last one has ended."""
        return not self._waits_for_all or min(self._ended) >= count

    def item(self, count: int) -> Item | None:
        """CTA number `count` of this place, taken and launched by whichever warpgroup gets there first."""
        if count == len(self._items):
            number = self._queue.take(self._place, count)
            if number is None:
                return None
            started, is_launched = self._env.now, count == 0 or self._queue.kernel.scheduler == "hardware"
            if is_launched:
                started = book(self._machine.launcher_free_ps, 0, started, self._launch_ps)
            self._items.append(Item(number, started))
        return self._items[count]

    def coordinates(self, item: Item, warpgroup: int) -> tuple[int, ...]:
        """Grid coordinates of one warpgroup of a CTA."""
        kernel = self._queue.kernel
        first = kernel.cta_coordinates(item.number)
        if kernel.warpgroups is None:
            return first
        split = kernel.warpgroups[0]
        return tuple(
            value + (warpgroup if index == split else 0) for (index, _), value in zip(kernel.grid, first, strict=True)
        )

    def shared(self, loop: MainLoop) -> SharedLoop:
        """The state of a loop of the program."""
        if id(loop) not in self._loops:
            self._loops[id(loop)] = SharedLoop(loop, self._queue.kernel.warpgroups_per_cta)
        return self._loops[id(loop)]

    def sleep(self, warpgroup: int) -> simpy.Event:
        """An event that comes when the next tile is asked for."""
        self._sleeping[warpgroup] = simpy.Event(self._env)
        return self._sleeping[warpgroup]

    def wake_all(self) -> None:
        """Wakes every warpgroup that waits for a tile to be asked for, the first of the CTA first."""
        for warpgroup in sorted(self._sleeping):
            self._sleeping.pop(warpgroup).succeed()


class CtaSlot:
    """State of one slot: where its time went, and what its current CTA still waits for."""

    __slots__ = (
        "_accesses",
        "_coordinates",
        "_env",
        "_indices",
        "_kernel_name",
        "_machine",
        "_pending_ps",
        "_record",
        "_recorder",
        "_sm",
        "_store_queue_ps",
        "_track",
        "accepted_ps",
        "cta",
        "spent_ps",
        "warpgroup",
    )

    def __init__(
        self,
        env: Environment,
        machine: Machine,
        sm: int,
        accesses: tuple[AccessTable, ...],
        cta: ResidentCta,
        warpgroup: int,
        *,
        track: str,
        kernel_name: str,
        store_queue_ps: int,
        recorder: Recorder | None,
    ) -> None:
        self._env = env
        self._machine = machine
        self._sm = sm
        self._accesses = accesses
        self.cta = cta
        self.warpgroup = warpgroup
        self._track = track
        self._kernel_name = kernel_name
        self._store_queue_ps = store_queue_ps
        self._recorder = recorder
        self._record = None if recorder is None else recorder.span
        self._coordinates: tuple[int, ...] = ()
        self._indices: list[int] = []
        self._pending_ps = 0  # when everything loaded outside an inner loop has arrived
        self.accepted_ps = 0  # when every store so far is accepted
        self.spent_ps = dict.fromkeys(Stall, 0)

    def run(self, lowered: LoweredKernel) -> Process:
        """Runs CTAs until none is left."""
        env, count = self._env, 0
        while (item := self.cta.item(count)) is not None:
            now, count = env.now, count + 1
            started = max(now, item.started_ps)
            coordinates = self._coordinates = self.cta.coordinates(item, self.warpgroup)
            yield env.timeout(started - now)
            self._note(Stall.LAUNCH, now, started)
            self.spent_ps[Stall.LAUNCH] += started - now
            self._indices = [0, *coordinates, *(0,) * (lowered.num_slots - 1 - len(coordinates))]
            yield from self._walk(lowered.blocks)
            yield from self._drain()
            self.cta.end(self.warpgroup, count)
            while not self.cta.may_take(count):
                yield self.cta.sleep(self.warpgroup)

    def _walk(self, blocks: tuple[Block, ...]) -> Process:
        for block in blocks:
            match block:
                case Straight():
                    yield from self._straight(block)
                case MainLoop():
                    yield from self._main_loop(block)
                case OuterLoop(slot=slot, bodies=bodies):
                    for value, body in enumerate(bodies):
                        self._indices[slot] = value
                        yield from self._walk(body)

    def _drain(self) -> Process:
        """A CTA may retire while its last stores are still in the write queue."""
        retire = self.accepted_ps - self._store_queue_ps
        now = self._env.now
        if retire > now:
            yield self._env.timeout(retire - now)
            self.spent_ps[Stall.STORE] += retire - now
            self._note(Stall.STORE, now, retire)

    def _straight(self, block: Straight) -> Process:
        for access in block.loads:
            self._pending_ps = max(self._pending_ps, self._load(access))
        if block.use_ps or block.stores:
            yield from self._await_loads(self._pending_ps)
        if block.use_ps:
            yield from self._hold_pipe(block.use_ps)
        self._note_work(block.parts, block.use_ps)
        for access in block.stores:
            self._store(access)

    def _await_loads(self, ready_ps: int) -> Process:
        now = self._env.now
        if ready_ps > now:
            yield self._env.timeout(ready_ps - now)
            self.spent_ps[Stall.LOAD] += ready_ps - now
            self._note(Stall.LOAD, now, ready_ps)

    def _hold_pipe(self, use_ps: int) -> Process:
        now = self._env.now
        end = book(self._machine.pipe_free_ps, self._sm, now, use_ps)
        yield self._env.timeout(end - now)
        self.spent_ps[Stall.PIPE] += end - use_ps - now
        self.spent_ps[Stall.COMPUTE] += use_ps
        self._note(Stall.PIPE, now, end - use_ps)
        self._note(Stall.COMPUTE, end - use_ps, end)

    def _main_loop(self, loop: MainLoop) -> Process:
        """The hot path: everything it touches every phase is a local."""
        env, indices, slot, warpgroup = self._env, self._indices, loop.slot, self.warpgroup
        timeout, record, pipes, sm = env.timeout, self._record, self._machine.pipe_free_ps, self._sm
        store, note, sleep = self._store, self._note, self.cta.sleep
        shared, trips = self.cta.shared(loop), self._trips(loop)
        streams, ask = shared.streams, shared.ask
        first = shared.enter(self, trips)
        earliest = max(self._pending_ps, env.now)
        entry_ps, step_ps, phases = loop.entry_ps, loop.step_ps, loop.phases
        load_ps = pipe_ps = compute_ps = sync_ps = 0
        for trip in range(trips):
            tile, has_mask = first + trip, trip >= trips - loop.num_last
            for phase in phases:
                now = arrived = env.now
                for number in phase.waits:
                    stream = streams[number]
                    while stream.asked <= tile:
                        yield sleep(warpgroup)
                    when = stream.ready_ps[tile % stream.stages]
                    if when > arrived:
                        arrived = when
                awake = env.now
                arrived = max(arrived, awake)
                start = arrived if arrived > earliest else earliest
                if entry_ps:
                    start += entry_ps
                    entry_ps = 0
                if start > awake:
                    yield timeout(start - awake)
                if start > now:
                    load_ps += arrived - now
                    sync_ps += start - arrived
                    if record is not None:
                        note(Stall.LOAD, now, arrived)
                        note(Stall.SYNC, arrived, start)
                use_ps = phase.last_use_ps if has_mask else phase.use_ps
                if use_ps:
                    end = book(pipes, sm, start, use_ps)
                    yield timeout(end - start)
                    compute_ps += use_ps
                    pipe_ps += end - start - use_ps
                    if record is not None:
                        note(Stall.PIPE, start, end - use_ps)
                        note(Stall.COMPUTE, end - use_ps, end)
                if record is not None:
                    self._note_work(phase.last_parts if has_mask else phase.parts, use_ps)
                indices[slot] = trip
                for access in phase.stores:
                    store(access)
                for number in phase.issues:
                    streams[number].released[warpgroup] += 1
                    ask(streams[number])
            earliest = env.now + step_ps
        self._pending_ps = earliest
        self.spent_ps[Stall.LOAD] += load_ps
        self.spent_ps[Stall.PIPE] += pipe_ps
        self.spent_ps[Stall.COMPUTE] += compute_ps
        self.spent_ps[Stall.SYNC] += sync_ps

    def _trips(self, loop: MainLoop) -> int:
        """Iterations of a loop that the current CTA does."""
        if loop.diagonal is None:
            return loop.trips
        return loop.diagonal.trips(self._indices[loop.diagonal_slot], loop.trips)

    def load_for_all(self, access: int, slot: int, trip: int) -> int:
        """Asks for the tile that this warpgroup's CTA needs in iteration `trip`, for all of its warpgroups."""
        self._indices[slot] = trip
        return self._load(access)

    def _load(self, access: int) -> int:
        """Asks for every tile of an access now; returns when the last is usable."""
        table, indices = self._accesses[access], self._indices
        block = (
            (indices[table.row_slot] + table.first_row) * table.col_blocks + indices[table.col_slot] + table.first_col
        )
        if table.total[block] == 0:
            return self._env.now
        before = None if self._recorder is None else self._hbm_progress()
        usable = read_tiles(
            self._machine.memory,
            self._env.now,
            self._sm,
            table.base + indices[table.head_slot] // table.heads_per_matrix * table.head_stride,
            table.offsets,
            table.sizes,
            table.begin[block],
            table.begin[block + 1],
            table.total[block],
            table.shared_by,
        )
        if before is not None:
            self._note_transfer(table, "read", before, usable)
        return usable

    def _store(self, access: int) -> None:
        table, indices = self._accesses[access], self._indices
        block = (
            (indices[table.row_slot] + table.first_row) * table.col_blocks + indices[table.col_slot] + table.first_col
        )
        if table.total[block] == 0:
            return
        before = None if self._recorder is None else self._hbm_progress()
        accepted = write_tiles(
            self._machine.memory,
            self._env.now,
            table.base + indices[table.head_slot] // table.heads_per_matrix * table.head_stride,
            table.offsets,
            table.sizes,
            table.begin[block],
            table.begin[block + 1],
            table.total[block],
        )
        if before is not None:
            self._note_transfer(table, "write", before, accepted)
        self.accepted_ps = max(self.accepted_ps, accepted)

    def _note(self, kind: Stall, start_ps: int, end_ps: int) -> None:
        if self._record is not None and end_ps > start_ps:
            self._record(self._track, self._kernel_name, kind, start_ps, end_ps)

    def _note_work(self, parts: tuple[Part, ...], use_ps: int) -> None:
        """Tasks of a hold of the pipe that ends now."""
        if self._recorder is None:
            return
        start_ps = begin_ps = self._env.now - use_ps
        for part in parts:
            end_ps = begin_ps + part.end_ps
            self._recorder.work(Work(self._track, self._kernel_name, self._coordinates, part.task, start_ps, end_ps))
            start_ps = end_ps

    def _hbm_progress(self) -> tuple[int, int]:
        """Bytes HBM has moved so far, and when its last booked transfer ends."""
        counts = self._machine.memory.counts
        return int(counts[HBM_READ_BYTES] + counts[HBM_WRITE_BYTES]), int(counts[LAST_FREE_PS])

    def _note_transfer(
        self, table: AccessTable, direction: Literal["read", "write"], before: tuple[int, int], end_ps: int
    ) -> None:
        """A load or store asked for now, with what HBM has done for it since `before`."""
        if self._recorder is None:
            return
        indices, now = self._indices, self._env.now
        bytes_before, free_before_ps = before
        bytes_after, free_after_ps = self._hbm_progress()
        start_ps = max(free_before_ps, now)
        self._recorder.transfer(
            Transfer(
                track=self._track,
                kernel=self._kernel_name,
                cta=self._coordinates,
                direction=direction,
                tensor=table.tensor,
                head=indices[table.head_slot] // table.heads_per_matrix,
                row=indices[table.row_slot] + table.first_row,
                col=indices[table.col_slot] + table.first_col,
                asked_ps=now,
                bus_start_ps=start_ps,
                bus_end_ps=max(free_after_ps, start_ps) if bytes_after > bytes_before else start_ps,
                end_ps=end_ps,
                hbm_bytes=bytes_after - bytes_before,
            )
        )
