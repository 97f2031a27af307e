"""One CTA slot of an SM: takes CTAs from the kernel's queue and walks their phases.

A slot is one SimPy process for the whole kernel. It waits at most once for the loads a phase needs and once for its
turn on the compute pipe; loads and stores are booked, not waited for one by one.
"""

from collections.abc import Generator, Iterator
from typing import Any

import simpy

from gpusim.engine.clock import Environment
from gpusim.engine.lower import AccessTable, Block, LoweredKernel, MainLoop, OuterLoop, Straight
from gpusim.hardware import Machine, book, read_tiles, write_tiles
from gpusim.trace import Recorder, Stall

Process = Generator[simpy.Event, Any, None]


class CtaSlot:
    """State of one slot: where its time went, and what its current CTA still waits for."""

    __slots__ = (
        "_accesses",
        "_env",
        "_indices",
        "_kernel_name",
        "_launch_ps",
        "_machine",
        "_pending_ps",
        "_record",
        "_sm",
        "_store_queue_ps",
        "_track",
        "accepted_ps",
        "spent_ps",
    )

    def __init__(
        self,
        env: Environment,
        machine: Machine,
        sm: int,
        accesses: tuple[AccessTable, ...],
        *,
        track: str,
        kernel_name: str,
        launch_ps: int,
        store_queue_ps: int,
        recorder: Recorder | None,
    ) -> None:
        self._env = env
        self._machine = machine
        self._sm = sm
        self._accesses = accesses
        self._track = track
        self._kernel_name = kernel_name
        self._launch_ps = launch_ps
        self._store_queue_ps = store_queue_ps
        self._record = None if recorder is None else recorder.span
        self._indices: list[int] = []
        self._pending_ps = 0  # when everything loaded outside an inner loop has arrived
        self.accepted_ps = 0  # when every store so far is accepted
        self.spent_ps = dict.fromkeys(Stall, 0)

    def run(self, queue: Iterator[tuple[int, ...]], lowered: LoweredKernel) -> Process:
        """Runs CTAs until the queue, which all slots share, is empty."""
        env = self._env
        for coordinates in queue:
            now = env.now
            started = book(self._machine.launcher_free_ps, 0, now, self._launch_ps)
            yield env.timeout(started - now)
            self._note(Stall.LAUNCH, now, started)
            self.spent_ps[Stall.LAUNCH] += started - now
            self._indices = [0, *coordinates, *(0,) * (lowered.num_slots - 1 - len(coordinates))]
            yield from self._walk(lowered.blocks)
            yield from self._drain()

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
        env, indices, slot, trips = self._env, self._indices, loop.slot, loop.trips
        timeout, record, pipes, sm = env.timeout, self._record, self._machine.pipe_free_ps, self._sm
        load, store, note = self._load, self._store, self._note
        accesses = [streamed.access for streamed in loop.loads]
        stages = [streamed.stages for streamed in loop.loads]
        ready = [[0] * count for count in stages]
        for ahead in range(max(stages, default=0)):
            for number, access in enumerate(accesses):
                if ahead < stages[number]:
                    indices[slot] = ahead
                    ready[number][ahead] = load(access)
        earliest = max(self._pending_ps, env.now)
        entry_ps, step_ps, phases = loop.entry_ps, loop.step_ps, loop.phases
        load_ps = pipe_ps = compute_ps = sync_ps = 0
        for trip in range(trips):
            for phase in phases:
                now = arrived = env.now
                for number in phase.waits:
                    when = ready[number][trip % stages[number]]
                    if when > arrived:
                        arrived = when
                start = arrived if arrived > earliest else earliest
                if entry_ps:
                    start += entry_ps
                    entry_ps = 0
                if start > now:
                    yield timeout(start - now)
                    load_ps += arrived - now
                    sync_ps += start - arrived
                    if record is not None:
                        note(Stall.LOAD, now, arrived)
                        note(Stall.SYNC, arrived, start)
                use_ps = phase.use_ps
                if use_ps:
                    end = book(pipes, sm, start, use_ps)
                    yield timeout(end - start)
                    compute_ps += use_ps
                    pipe_ps += end - start - use_ps
                    if record is not None:
                        note(Stall.PIPE, start, end - use_ps)
                        note(Stall.COMPUTE, end - use_ps, end)
                indices[slot] = trip
                for access in phase.stores:
                    store(access)
                for number in phase.issues:
                    following = trip + stages[number]
                    if following < trips:
                        indices[slot] = following
                        ready[number][trip % stages[number]] = load(accesses[number])
            earliest = env.now + step_ps
        self._pending_ps = earliest
        self.spent_ps[Stall.LOAD] += load_ps
        self.spent_ps[Stall.PIPE] += pipe_ps
        self.spent_ps[Stall.COMPUTE] += compute_ps
        self.spent_ps[Stall.SYNC] += sync_ps

    def _load(self, access: int) -> int:
        """Asks for every tile of an access now; returns when the last is usable."""
        table, indices = self._accesses[access], self._indices
        block = (
            (indices[table.row_slot] + table.first_row) * table.col_blocks + indices[table.col_slot] + table.first_col
        )
        return read_tiles(
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

    def _store(self, access: int) -> None:
        table, indices = self._accesses[access], self._indices
        block = (
            (indices[table.row_slot] + table.first_row) * table.col_blocks + indices[table.col_slot] + table.first_col
        )
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
        self.accepted_ps = max(self.accepted_ps, accepted)

    def _note(self, kind: Stall, start_ps: int, end_ps: int) -> None:
        if self._record is not None and end_ps > start_ps:
            self._record(self._track, self._kernel_name, kind, start_ps, end_ps)
