"""A lowered kernel as flat arrays: the same tables that SimPy walks, numbered for a compiled loop."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpusim.engine.lower import Block, LoweredKernel, MainLoop, OuterLoop, Straight
from gpusim.taskgraph import Kernel

Ints = npt.NDArray[np.int64]

# Rows of `Tables.program`: an operation, then its operands.
OPERATION = 0
STRAIGHT, MAIN_LOOP, OUTER_LOOP, NEXT_TRIP, END = range(5)
FIRST_LOAD, END_LOAD, USE_PS, FIRST_STORE, END_STORE = range(1, 6)  # of STRAIGHT
LOOP = 1  # of MAIN_LOOP: its row in `Tables.loops`
OUTER_SLOT, OUTER_TRIPS, FIRST_BODY, MIDDLE_BODY, LAST_BODY, AFTER = range(1, 7)  # of OUTER_LOOP: program rows
OUTER_ROW = 1  # of NEXT_TRIP: the row of its OUTER_LOOP
PROGRAM_COLUMNS = 7

# Columns of `Tables.loops`, `loads`, `phases` and `accesses`. FIRST and END bound a half-open range.
(
    LOOP_SLOT,
    LOOP_TRIPS,
    LOOP_ENTRY_PS,
    LOOP_STEP_PS,
    LOOP_FIRST_LOAD,
    LOOP_END_LOAD,
    LOOP_FIRST_PHASE,
    LOOP_END_PHASE,
    LOOP_NUM_LAST,
    LOOP_DIAGONAL_SLOT,
    LOOP_DIAGONAL_ROWS,
    LOOP_DIAGONAL_COLS,
    LOOP_DIAGONAL_SHIFT,
    LOOP_DIAGONAL_GROUP,
    LOOP_DIAGONAL_PACKED,
    LOOP_COLUMNS,
) = range(16)
LOAD_ACCESS, LOAD_STAGES, LOAD_READY, LOAD_COLUMNS = range(4)
(
    PHASE_USE_PS,
    PHASE_LAST_USE_PS,
    PHASE_FIRST_WAIT,
    PHASE_END_WAIT,
    PHASE_FIRST_ISSUE,
    PHASE_END_ISSUE,
    PHASE_FIRST_STORE,
    PHASE_END_STORE,
    PHASE_COLUMNS,
) = range(9)
(
    ACCESS_BASE,
    ACCESS_HEAD_SLOT,
    ACCESS_HEADS_PER_MATRIX,
    ACCESS_HEAD_STRIDE,
    ACCESS_ROW_SLOT,
    ACCESS_FIRST_ROW,
    ACCESS_COL_SLOT,
    ACCESS_FIRST_COL,
    ACCESS_COL_BLOCKS,
    ACCESS_FIRST_BLOCK,
    ACCESS_SHARED_BY,
    ACCESS_COLUMNS,
) = range(12)


class Tables(NamedTuple):
    """Everything a compiled loop needs to walk one kernel.

    `refs` holds the lists of access and load numbers that ranges of other tables point into. `LOAD_READY` is a load's
    first place among the arrival times of a CTA, of which there are `num_ready`; a CTA has `num_slots` index values.
    `grid` counts CTAs; index `split` of it (−1: none) counts `warpgroups` for each.
    """

    program: Ints
    loops: Ints
    loads: Ints
    phases: Ints
    refs: Ints
    accesses: Ints
    begin: Ints  # by block of all accesses: its first tile; an access has one entry more than blocks
    total: Ints  # by block, aligned with `begin`: bytes
    offsets: Ints  # by tile: key, counted from the first of its matrix
    sizes: Ints  # by tile: bytes
    grid: Ints
    descending: Ints  # by grid index: whether it runs from its last value down
    band: int  # values of the first index that are walked before the second moves on
    split: int
    warpgroups: int
    stride: int  # of a static persistent grid, 0 where CTAs are taken from a counter
    is_launched: bool  # every CTA is launched, not only the first of a persistent grid
    num_slots: int
    num_ready: int


def flatten(lowered: LoweredKernel, kernel: Kernel, num_resident: int) -> Tables:
    """The tables of a lowered kernel, of which the GPU holds `num_resident` CTAs at once."""
    return _Flattener(lowered, kernel, num_resident).tables()


class _Flattener:
    def __init__(self, lowered: LoweredKernel, kernel: Kernel, num_resident: int) -> None:
        self._lowered = lowered
        self._kernel = kernel
        self._num_resident = num_resident
        self._program: list[list[int]] = []
        self._loops: list[list[int]] = []
        self._loads: list[list[int]] = []
        self._phases: list[list[int]] = []
        self._refs: list[int] = []
        self._num_ready = 0

    def tables(self) -> Tables:
        self._add_blocks(self._lowered.blocks)
        self._program.append([END])
        accesses, begin, total, offsets, sizes = self._access_tables()
        kernel = self._kernel
        names = [index for index, _ in kernel.grid]
        return Tables(
            _rows(self._program, PROGRAM_COLUMNS),
            _rows(self._loops, LOOP_COLUMNS),
            _rows(self._loads, LOAD_COLUMNS),
            _rows(self._phases, PHASE_COLUMNS),
            np.array(self._refs, dtype=np.int64),
            accesses,
            begin,
            total,
            offsets,
            sizes,
            np.array(kernel.cta_grid, dtype=np.int64),
            np.array([name in kernel.descending for name in names], dtype=np.int64),
            kernel.cta_grid[0] if kernel.band is None else kernel.band,
            -1 if kernel.warpgroups is None else names.index(kernel.warpgroups[0]),
            kernel.warpgroups_per_cta,
            self._num_resident if kernel.scheduler == "static" else 0,
            kernel.scheduler == "hardware",
            self._lowered.num_slots,
            self._num_ready,
        )

    def _listed(self, numbers: Sequence[int]) -> tuple[int, int]:
        first = len(self._refs)
        self._refs.extend(numbers)
        return first, len(self._refs)

    def _add_blocks(self, blocks: Sequence[Block]) -> None:
        for block in blocks:
            match block:
                case Straight():
                    loads, stores = self._listed(block.loads), self._listed(block.stores)
                    self._program.append([STRAIGHT, *loads, block.use_ps, *stores])
                case MainLoop():
                    self._program.append([MAIN_LOOP, len(self._loops)])
                    self._loops.append(self._main_loop(block))
                case OuterLoop():
                    self._add_outer_loop(block)

    def _main_loop(self, loop: MainLoop) -> list[int]:
        first_load, first_phase = len(self._loads), len(self._phases)
        for load in loop.loads:
            self._loads.append([load.access, load.stages, self._num_ready])
            self._num_ready += load.stages
        for phase in loop.phases:
            waits = self._listed([first_load + number for number in phase.waits])
            issues = self._listed([first_load + number for number in phase.issues])
            self._phases.append([phase.use_ps, phase.last_use_ps, *waits, *issues, *self._listed(phase.stores)])
        loads, phases = (first_load, len(self._loads)), (first_phase, len(self._phases))
        row = [loop.slot, loop.trips, loop.entry_ps, loop.step_ps, *loads, *phases, loop.num_last]
        if (diagonal := loop.diagonal) is not None:
            row += [loop.diagonal_slot, diagonal.rows, diagonal.cols, diagonal.shift, diagonal.group, diagonal.packed]
        return row

    def _add_outer_loop(self, loop: OuterLoop) -> None:
        """Bodies that are the same are written once; the first, a middle and the last iteration may differ."""
        row = len(self._program)
        self._program.append([OUTER_LOOP])
        starts: dict[int, int] = {}
        bodies = (loop.bodies[0], loop.bodies[min(1, len(loop.bodies) - 1)], loop.bodies[-1])
        for body in bodies:
            if id(body) not in starts:
                starts[id(body)] = len(self._program)
                self._add_blocks(body)
                self._program.append([NEXT_TRIP, row])
        self._program[row] += [loop.slot, len(loop.bodies), *(starts[id(body)] for body in bodies), len(self._program)]

    def _access_tables(self) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        rows, begins, totals, num_tiles, num_blocks = [], [], [], 0, 0
        for table in self._lowered.accesses:
            rows.append([table.base, table.head_slot, table.heads_per_matrix, table.head_stride])
            rows[-1] += [table.row_slot, table.first_row, table.col_slot, table.first_col, table.col_blocks, num_blocks]
            rows[-1].append(table.shared_by)
            begins.append(np.array(table.begin, dtype=np.int64) + num_tiles)
            totals.append(np.array([*table.total, 0], dtype=np.int64))
            num_tiles += len(table.offsets)
            num_blocks += len(table.begin)
        offsets = [np.array(table.offsets, dtype=np.int64) for table in self._lowered.accesses]
        sizes = [np.array(table.sizes, dtype=np.int64) for table in self._lowered.accesses]
        return _rows(rows, ACCESS_COLUMNS), _joined(begins), _joined(totals), _joined(offsets), _joined(sizes)


def _rows(rows: Sequence[Sequence[int]], width: int) -> Ints:
    table = np.zeros((len(rows), width), dtype=np.int64)
    for number, row in enumerate(rows):
        table[number, : len(row)] = row
    return table


def _joined(parts: Sequence[Any]) -> Ints:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
