"""A kernel's program as tables of phases, ready to be walked once a CTA.

Straight-line code becomes loads issued at once, one hold of the compute pipe that waits for them, and posted stores.
An innermost loop becomes a table: a phase waits for the loads it is the first to read, holds the pipe, then issues the
next load into every buffer that it was the last to read. So a buffer with one stage is refilled as soon as it is free,
and a buffer with S stages runs S iterations ahead. The pipe time of a loop iteration is
max(matrix, softmax) + (1 − overlap) · min(matrix, softmax) + the rest, shared out over its phases. Iterations in which
masks cut a tile are the last ones, with times of their own.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpusim.analytic import MMA_ROWS, matmul_flop_per_clk, smem_read_bytes, smem_write_bytes
from gpusim.engine.power import PowerBudget
from gpusim.errors import GraphError
from gpusim.specs import SmSpec
from gpusim.taskgraph import (
    Add,
    Buffer,
    Copy,
    Diagonal,
    Exponential,
    Fill,
    Kernel,
    Load,
    Loop,
    MaskCausal,
    MaskKeys,
    MatMul,
    Normalise,
    OnlineSoftmax,
    Rescale,
    RowSoftmax,
    Scale,
    Store,
    SubtractRows,
    Task,
    Tile,
    Where,
)
from gpusim.taskgraph.ops import Op, reads, work, writes
from gpusim.taskgraph.program import Node
from gpusim.units import ps_from_cycles

ZERO = 0  # the index slot that always holds 0, for fixed block numbers


@dataclass(frozen=True, slots=True)
class AccessTable:
    """The tiles that one load or store touches at each block of its tensor.

    For index values `indices`, block = (indices[row_slot] + first_row) · col_blocks + indices[col_slot] + first_col.
    Its tiles are numbers begin[block] to begin[block + 1], with keys base + ⌊indices[head_slot] / heads_per_matrix⌋ ·
    head_stride + offsets[i] and sizes[i] bytes, total[block] together, of which L2 gives a load 1 / `shared_by`.
    """

    base: int
    head_slot: int
    heads_per_matrix: int
    head_stride: int
    row_slot: int
    first_row: int
    col_slot: int
    first_col: int
    col_blocks: int
    begin: list[int]
    total: list[int]
    offsets: list[int]
    sizes: list[int]
    shared_by: int = 1
    tensor: str = ""  # for recorders


def access_table(
    tile: Tile, base: int, slots: dict[str, int], trips: Mapping[str, int], shared_by: int = 1
) -> AccessTable:
    """The table of one tile address; `base` is its tensor's first cache key.

    `slots` numbers the indices, `trips` counts their values. Blocks behind the tensor, of warpgroups that have nothing
    left to do, are empty.
    """
    tensor, single = tile.tensor, tile.tensor.tile()
    rows, cols = np.arange(tensor.row_tiles), np.arange(tensor.col_tiles)
    col_blocks = len(tile.col_extents())
    block = (rows // tile.row_tiles)[:, None] * col_blocks + (cols // tile.col_tiles)[None, :]
    order = np.argsort(block, axis=None, kind="stable")
    sizes = (np.outer(single.row_extents(), single.col_extents()) * tensor.element_bytes).ravel()[order]
    num_blocks = max(len(tile.row_extents()), trips.get(str(tile.row), 0)) * col_blocks
    counts = np.bincount(block.ravel(), minlength=num_blocks)
    total = np.bincount(block.ravel()[order], weights=sizes, minlength=num_blocks).astype(np.int64)
    return AccessTable(
        base=base,
        head_slot=slots[tile.head],
        heads_per_matrix=tensor.heads_per_matrix(trips[tile.head]),
        head_stride=tensor.row_tiles * tensor.col_tiles,
        row_slot=slots[tile.row] if isinstance(tile.row, str) else ZERO,
        first_row=0 if isinstance(tile.row, str) else tile.row,
        col_slot=slots[tile.col] if isinstance(tile.col, str) else ZERO,
        first_col=0 if isinstance(tile.col, str) else tile.col,
        col_blocks=col_blocks,
        begin=np.concatenate(([0], np.cumsum(counts))).tolist(),
        total=total.tolist(),
        offsets=order.tolist(),
        sizes=sizes.tolist(),
        shared_by=shared_by,
        tensor=tensor.name,
    )


@dataclass(frozen=True, slots=True)
class Part:
    """A task in a hold of the pipe, for recorders; `end_ps` counts from the start of the hold."""

    task: str
    end_ps: int


@dataclass(frozen=True, slots=True)
class Straight:
    """Straight-line code: issue `loads`, wait, hold the pipe for `use_ps`, post `stores`, all by access number."""

    loads: tuple[int, ...]
    use_ps: int
    stores: tuple[int, ...]
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamedLoad:
    """A load of an innermost loop that runs up to `stages` iterations ahead of its reader."""

    access: int
    stages: int


@dataclass(frozen=True, slots=True)
class Phase:
    """One hold of the pipe in an innermost loop; `waits` and `issues` are numbers of streamed loads.

    In the loop's last iterations, those with masks, it takes `last_use_ps` instead of `use_ps`.
    """

    waits: tuple[int, ...]
    use_ps: int
    issues: tuple[int, ...]
    stores: tuple[int, ...]
    last_use_ps: int
    parts: tuple[Part, ...] = ()
    last_parts: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True)
class MainLoop:
    """An innermost loop: its streamed loads and the phases of one iteration.

    `trips` at most, fewer where the CTA's value in index slot `diagonal_slot` meets a `diagonal`; the last `num_last`
    of them have masks.
    """

    slot: int
    trips: int
    loads: tuple[StreamedLoad, ...]
    phases: tuple[Phase, ...]
    entry_ps: int
    step_ps: int
    num_last: int = 0
    diagonal: Diagonal | None = None
    diagonal_slot: int = ZERO


@dataclass(frozen=True, slots=True)
class OuterLoop:
    """A loop around other loops. `bodies` holds the lowered body for every iteration."""

    slot: int
    bodies: tuple[tuple["Block", ...], ...]


Block = Straight | MainLoop | OuterLoop


@dataclass(frozen=True, slots=True)
class LoweredKernel:
    """Blocks of one CTA, the accesses they name by number, and how many index slots they use.

    Slot 0 holds zero; the grid's indices follow in order, then those of loops. `sustained_hz` is the lowest clock to
    which the power limit brings a loop's plain iterations.
    """

    blocks: tuple[Block, ...]
    accesses: tuple[AccessTable, ...]
    num_slots: int
    sustained_hz: float = 0.0


def lower(
    kernel: Kernel, sm: SmSpec, clock_hz: float, bases: dict[str, int], budget: PowerBudget | None = None
) -> LoweredKernel:
    """Tables of phases for one kernel; `bases` gives every tensor's first cache key, `budget` what power allows.

    Raises GraphError.
    """
    return _Lowering(kernel, sm, clock_hz, bases, budget).lowered()


class _Lowering:
    def __init__(
        self, kernel: Kernel, sm: SmSpec, clock_hz: float, bases: dict[str, int], budget: PowerBudget | None
    ) -> None:
        self._kernel = kernel
        self._budget = budget
        self._sustained_hz = clock_hz
        self._bases = bases
        self._clock_hz = clock_hz
        self._cost = PipeCost(kernel, sm)
        self._trips = kernel.trips()
        self._slots = {index: number for number, index in enumerate(self._trips, start=1)}
        self._numbers: dict[tuple[Tile, int], int] = {}
        self._accesses: list[AccessTable] = []

    def lowered(self) -> LoweredKernel:
        blocks = self._blocks(self._kernel.program, {}, at_end=True)
        return LoweredKernel(blocks, tuple(self._accesses), 1 + len(self._slots), self._sustained_hz)

    def _blocks(self, nodes: tuple[Node, ...], outer: dict[str, int], *, at_end: bool) -> tuple[Block, ...]:
        blocks: list[Block] = []
        straight: list[Task] = []
        for node in nodes:
            if isinstance(node, Loop):
                blocks.extend(self._straight(straight))
                straight = []
                blocks.append(self._loop(node, outer))
            elif self._runs(node, outer):
                straight.append(node)
        hidden_ps = _main_loop_ps(blocks) if self._kernel.cost.epilogue_overlaps else 0
        blocks.extend(self._straight(straight, epilogue_hides_ps=hidden_ps if at_end else None))
        return tuple(blocks)

    def _runs(self, task: Task, outer: dict[str, int]) -> bool:
        if task.guard is None:
            return True
        if task.guard.index not in outer:
            raise GraphError(
                f"{self._kernel.name}, {task.name}: a guard on {task.guard.index} must stand inside an inner loop of it"
            )
        return task.guard.holds(outer[task.guard.index], self._trips[task.guard.index])

    def _straight(self, tasks: list[Task], *, epilogue_hides_ps: int | None = None) -> list[Straight]:
        """Splits where a load follows arithmetic or a store, so that nothing is loaded before its turn."""
        groups: list[list[Task]] = [[]]
        for task in tasks:
            if isinstance(task.op, Load) and any(not isinstance(t.op, Load) for t in groups[-1]):
                groups.append([])
            groups[-1].append(task)
        return [self._straight_group(group, epilogue_hides_ps) for group in groups if group]

    def _straight_group(self, tasks: list[Task], epilogue_hides_ps: int | None) -> Straight:
        stores = [task.op for task in tasks if isinstance(task.op, Store)]
        ops = [task.op for task in tasks]
        cycles = self._cost.combined(ops) if self._cost.additive(ops) else 0.0
        use_ps = self._ps(cycles)
        parts = self._parts(tasks, ops, use_ps)
        if epilogue_hides_ps is not None:
            elements = sum(store.buffer.rows * store.buffer.cols for store in stores if store.buffer.cols > 1)
            epilogue_ps = self._ps(elements * self._kernel.cost.epilogue_cycles_per_element)
            if epilogue_ps > epilogue_hides_ps:
                use_ps += epilogue_ps - epilogue_hides_ps
                parts = (*parts, Part("epilogue", use_ps))
        return Straight(
            tuple(self._access(task.op.tile, task.op.shared_by) for task in tasks if isinstance(task.op, Load)),
            use_ps,
            tuple(self._access(store.tile) for store in stores),
            parts,
        )

    def _loop(self, loop: Loop, outer: dict[str, int]) -> Block:
        if any(isinstance(node, Loop) for node in loop.body):
            bodies: dict[tuple[bool, bool], tuple[Block, ...]] = {}
            for value in (0, loop.trips - 1, min(1, loop.trips - 1)):
                kind = value == 0, value == loop.trips - 1
                if kind not in bodies:
                    bodies[kind] = self._blocks(loop.body, outer | {loop.index: value}, at_end=False)
            kinds = ((value == 0, value == loop.trips - 1) for value in range(loop.trips))
            return OuterLoop(self._slots[loop.index], tuple(bodies[kind] for kind in kinds))
        own = [node for node in loop.body if isinstance(node, Task) and _is_guarded_by(node, loop.index)]
        tasks = [node for node in loop.body if isinstance(node, Task) and (node in own or self._runs(node, outer))]
        return self._main_loop(loop, tasks, own)

    def _main_loop(self, loop: Loop, tasks: list[Task], masks: list[Task]) -> MainLoop:
        """`masks` are the tasks that only the last iterations have."""
        num_last = self._num_last(masks)
        loads = [task.op for task in tasks if isinstance(task.op, Load)]
        groups = _phase_groups(tasks, [load.into for load in loads])
        masking = [task.op for task in masks]
        plain_ops = [task.op for task in tasks if task not in masks]
        last_ratio, ratio = self._ratio([task.op for task in tasks]), self._ratio(plain_ops)
        self._sustained_hz = min(self._sustained_hz, self._sustained(plain_ops))
        phases = []
        for number, group in enumerate(groups):
            waits = [i for i, load in enumerate(loads) if _first_reader(groups, load.into) == number]
            issues = [i for i, load in enumerate(loads) if _last_reader(groups, load.into) == number]
            stores = tuple(self._access(op.tile) for op in group if isinstance(op, Store))
            plain = [op for op in group if op not in masking]
            use_ps = self._ps(ratio * self._cost.additive(plain))
            last_use_ps = self._ps(last_ratio * self._cost.additive(group))
            parts, last_parts = self._parts(tasks, plain, use_ps), self._parts(tasks, group, last_use_ps)
            phases.append(Phase(tuple(waits), use_ps, tuple(issues), stores, last_use_ps, parts, last_parts))
        return MainLoop(
            self._slots[loop.index],
            loop.trips,
            tuple(StreamedLoad(self._access(load.tile, load.shared_by), load.into.stages) for load in loads),
            tuple(phases),
            self._ps(self._kernel.cost.entry_cycles),
            self._ps(self._kernel.cost.step_cycles),
            num_last,
            loop.diagonal,
            ZERO if loop.diagonal is None else self._slots[loop.diagonal.index],
        )

    def _num_last(self, masks: list[Task]) -> int:
        guards = {task.guard for task in masks if task.guard is not None}
        if not guards:
            return 0
        (guard,) = guards if len(guards) == 1 else (None,)
        if guard is None or guard.when != "last" or any(isinstance(task.op, Load | Store) for task in masks):
            names = ", ".join(task.name for task in masks)
            raise GraphError(
                f"{self._kernel.name}, {names}: a guard on the innermost loop's own index takes arithmetic, of one and "
                "the same number of last iterations"
            )
        return guard.count

    def _ratio(self, ops: Sequence[Op]) -> float:
        """Pipe time of an iteration over that of its ops one after another at the full clock."""
        additive = self._cost.additive(ops)
        return self._cost.combined(ops) / additive * self._clock_hz / self._sustained(ops) if additive else 1.0

    def _sustained(self, ops: Sequence[Op]) -> float:
        """The clock that an iteration's power allows."""
        if self._budget is None:
            return self._clock_hz
        return self._budget.clock_for(ops, self._cost.combined(ops), self._clock_hz)

    def _parts(self, tasks: list[Task], ops: Sequence[Op], use_ps: int) -> tuple[Part, ...]:
        """The arithmetic of a hold of `use_ps`, each task with its share of the cycles."""
        names = {task.op: task.name for task in tasks}
        done = [op for op in ops if not isinstance(op, Load | Store)]
        ends = list(itertools.accumulate(self._cost.additive([op]) for op in done))
        total = ends[-1] if ends and ends[-1] else 1.0
        return tuple(Part(names[op], round(use_ps * end / total)) for op, end in zip(done, ends, strict=True))

    def _access(self, tile: Tile, shared_by: int = 1) -> int:
        """Number of the access table of a tile address."""
        if (tile, shared_by) not in self._numbers:
            self._numbers[tile, shared_by] = len(self._accesses)
            base = self._bases[tile.tensor.name]
            self._accesses.append(access_table(tile, base, self._slots, self._trips, shared_by))
        return self._numbers[tile, shared_by]

    def _ps(self, cycles: float) -> int:
        return ps_from_cycles(cycles, self._clock_hz)


def _is_guarded_by(task: Task, index: str) -> bool:
    return task.guard is not None and task.guard.index == index


def _main_loop_ps(blocks: Sequence[Block]) -> int:
    """Pipe time of the innermost loops that stand at the top of a program."""
    loops = (block for block in blocks if isinstance(block, MainLoop))
    return sum(loop.trips * sum(phase.use_ps for phase in loop.phases) for loop in loops)


def _phase_groups(tasks: list[Task], loaded: list[Buffer]) -> list[list[Op]]:
    """Arithmetic and stores of one iteration, split before every op that is the first to read a loaded buffer."""
    groups: list[list[Op]] = [[]]
    seen: set[Buffer] = set()
    for task in tasks:
        if isinstance(task.op, Load):
            continue
        fresh = {buffer for buffer in (*reads(task.op), *writes(task.op)) if buffer in loaded} - seen
        if fresh and any(not isinstance(op, Fill) for op in groups[-1]):
            groups.append([])
        seen |= fresh
        groups[-1].append(task.op)
    return groups


def _first_reader(groups: list[list[Op]], buffer: Buffer) -> int:
    return next(number for number, ops in enumerate(groups) if any(buffer in reads(op) for op in ops))


def _last_reader(groups: list[list[Op]], buffer: Buffer) -> int:
    return max(number for number, ops in enumerate(groups) if any(buffer in reads(op) for op in ops))


class PipeCost:
    """Cycles that operations hold an SM's compute pipe: the kernel's constants, else what ideal units need.

    Never less than the busiest unit needs, so no unit is busier than time has passed.
    """

    def __init__(self, kernel: Kernel, sm: SmSpec) -> None:
        self._cost = kernel.cost
        self._warps = kernel.warps
        self._path = kernel.tensor_path
        self._sm = sm
        self._flop_per_clk = matmul_flop_per_clk(sm, kernel.compute_dtype, kernel.tensor_path)

    def combined(self, ops: Sequence[Op]) -> float:
        """Cycles of a step: matrix and softmax work overlap as far as the kernel's `overlap` says."""
        matrix = sum(self._cycles(op) for op in ops if isinstance(op, MatMul))
        softmax = sum(self._cycles(op) for op in ops if isinstance(op, OnlineSoftmax | RowSoftmax))
        rest = self.additive(ops) - matrix - softmax
        step = max(matrix, softmax) + (1 - self._cost.overlap) * min(matrix, softmax) + rest
        return max(step, *self._unit_cycles(ops))

    def additive(self, ops: Sequence[Op]) -> float:
        """Cycles of the ops one after another."""
        return sum(self._cycles(op) for op in ops)

    def _cycles(self, op: Op) -> float:
        cost, done = self._cost, work(op)
        match op:
            case MatMul():
                return done.flops / (self._flop_per_clk * self._matmul_efficiency(op))
            case OnlineSoftmax(scores=scores) | RowSoftmax(scores=scores):
                if cost.softmax_cycles_per_score is not None:
                    return scores.rows * scores.cols * cost.softmax_cycles_per_score
                return max(done.exps / self._sm.sfu_ops_per_clk, done.fp32_ops / self._sm.fp32_lanes)
            case MaskCausal(scores=scores) | MaskKeys(scores=scores) if cost.mask_cycles_per_score is not None:
                return scores.rows * scores.cols * cost.mask_cycles_per_score
            case Rescale() if cost.rescale_cycles_per_element is not None:
                return done.fp32_ops * cost.rescale_cycles_per_element
            case Copy() | Scale() | Add() | Where() | SubtractRows() | Normalise() if (
                cost.elementwise_cycles_per_element is not None
            ):
                return done.fp32_ops * cost.elementwise_cycles_per_element
            case Exponential():
                return max(done.exps / self._sm.sfu_ops_per_clk, done.fp32_ops / self._sm.fp32_lanes)
            case Fill():
                return 0.0
            case _:
                return done.fp32_ops / self._sm.fp32_lanes

    def _matmul_efficiency(self, op: MatMul) -> float:
        """Share of the dense rate: with two mma.sync instructions of rows a warp uses what it read of K or V twice."""
        is_mma_sync = self._path == "mma_sync" or (self._path is None and "wgmma" not in self._sm.tensor_paths)
        is_narrow = is_mma_sync and op.a.rows <= MMA_ROWS["mma_sync"] * self._warps
        return self._cost.matmul_efficiency * (self._cost.narrow_warp_efficiency if is_narrow else 1.0)

    def _unit_cycles(self, ops: Sequence[Op]) -> tuple[float, float, float, float]:
        done = [work(op) for op in ops]
        smem = sum(smem_read_bytes(op, self._warps, self._path) + smem_write_bytes(op) for op in ops)
        return (
            sum(item.flops for item in done) / self._flop_per_clk,
            sum(item.exps for item in done) / self._sm.sfu_ops_per_clk,
            sum(item.fp32_ops for op, item in zip(ops, done, strict=True) if not isinstance(op, Fill))
            / self._sm.fp32_lanes,
            smem / self._sm.smem_bandwidth_bytes_per_clk,
        )
