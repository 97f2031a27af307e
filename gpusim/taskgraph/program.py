"""Tasks, loops, kernels and graphs: a schedule as data."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from gpusim.dtypes import DType
from gpusim.specs.sm import TensorPath
from gpusim.taskgraph.cost import KernelCost
from gpusim.taskgraph.ops import Load, Op, Store
from gpusim.taskgraph.tensors import HEAD as HEAD
from gpusim.taskgraph.tensors import Buffer, Role, Space, Tensor, ceil_div

Accumulators = Literal["smem", "registers"]
Access = Literal["streamed", "random"]
Scheduler = Literal["hardware", "dynamic", "static"]


@dataclass(frozen=True, slots=True)
class Guard:
    """Restricts a task to the first or last `count` values of a loop index, or to all but those."""

    index: str
    when: Literal["first", "not_first", "last", "not_last"]
    count: int = 1

    def holds(self, value: int, trips: int) -> bool:
        """Whether the task runs when the index, of `trips` values, is `value`."""
        match self.when:
            case "first":
                return value < self.count
            case "not_first":
                return value >= self.count
            case "last":
                return value >= trips - self.count
            case "not_last":
                return value < trips - self.count


@dataclass(frozen=True, slots=True)
class Task:
    """One operation of a CTA's program."""

    name: str
    op: Op
    guard: Guard | None = None


@dataclass(frozen=True, slots=True)
class Diagonal:
    """Ends a loop over key tiles of `cols` keys behind the last one that a causal mask shows to a CTA.

    The CTA's query rows are block ⌊value / group⌋ of `rows` rows, where value is that of grid index `index`; row r is
    one of the `packed` rows of query ⌊r / packed⌋, which sees the keys up to itself + `shift`. At least one tile is
    computed, as a CTA without keys still writes its zeros.
    """

    index: str
    rows: int
    cols: int
    shift: int
    group: int = 1
    packed: int = 1

    def trips(self, value: int, most: int) -> int:
        """Iterations of a CTA, of `most` without a mask."""
        queries = ceil_div((value // self.group + 1) * self.rows, self.packed)
        return max(1, min(most, ceil_div(queries + self.shift, self.cols)))


@dataclass(frozen=True, slots=True)
class Loop:
    """`body` repeated with `index` = 0, 1, …, `trips` times or, before that, up to a diagonal."""

    index: str
    trips: int
    body: tuple["Node", ...]
    diagonal: Diagonal | None = None

    def trips_at(self, indices: Mapping[str, int]) -> int:
        """Iterations of a CTA with these grid indices."""
        if self.diagonal is None:
            return self.trips
        return self.diagonal.trips(indices[self.diagonal.index], self.trips)


Node = Task | Loop


@dataclass(frozen=True, slots=True)
class Kernel:
    """A grid of CTAs running one program.

    `grid` lists (index, count), the first varying fastest: the dispatch order; `descending` indices run from their last
    value down. With a `band`, the first two indices are walked in bands of so many values of the first, so that CTAs
    side by side in time form a block. The `scheduler` is the hardware's queue, or a persistent grid whose CTAs take
    work items from a counter ("dynamic") or with the stride of the grid ("static").

    `warpgroups` names a grid index of which so many neighbouring values are the consumer warpgroups of one CTA, each
    running the program. What an innermost loop loads is loaded once for all of them and its buffer is free again when
    the last has read it; other loads are each warpgroup's own. `producer_warps` of the CTA only issue loads.
    `registers_per_thread`, where a table pins it, replaces what accumulators and working values would need; producers
    have `producer_registers_per_thread`.

    `program` is in program order; the dependencies follow from it (see `unroll.py`). `warps` a CTA; `grain` real CTAs
    stand behind one of the graph, on average; `ctas_per_sm`, where a table pins it, replaces the occupancy that limits
    would give. `compute_dtype` is the format matrix units multiply in, `tensor_path` by which instructions (None: the
    fastest the GPU has). `access` "random" is a kernel that loads single cache lines, such as a pointer chase: each of
    its tiles is one line that stands for `line_weight` lines in the capacity of L2.
    """

    name: str
    grid: tuple[tuple[str, int], ...]
    program: tuple[Node, ...]
    buffers: tuple[Buffer, ...]
    warps: int
    compute_dtype: DType
    accumulators: Accumulators = "registers"
    cost: KernelCost = field(default_factory=KernelCost)
    grain: int | Fraction = 1
    ctas_per_sm: int | None = None
    access: Access = "streamed"
    line_weight: int = 1
    band: int | None = None
    descending: tuple[str, ...] = ()
    scheduler: Scheduler = "hardware"
    warpgroups: tuple[str, int] | None = None
    producer_warps: int = 0
    registers_per_thread: int | None = None
    producer_registers_per_thread: int = 0
    tensor_path: TensorPath | None = None

    @property
    def warpgroups_per_cta(self) -> int:
        """How many times a CTA runs the program."""
        return 1 if self.warpgroups is None else self.warpgroups[1]

    @property
    def cta_grid(self) -> tuple[int, ...]:
        """Extents of the grid counted in CTAs."""
        split, count = self.warpgroups or ("", 1)
        return tuple(extent // count if index == split else extent for index, extent in self.grid)

    @property
    def ctas(self) -> int:
        """CTAs of the grid as the graph groups them; times `grain` is what the GPU launches."""
        return math.prod(self.cta_grid)

    def cta_coordinates(self, number: int) -> tuple[int, ...]:
        """Grid coordinates of the CTA with this number in dispatch order, those of its first warpgroup."""
        extents = self.cta_grid
        values = []
        for extent in extents:
            values.append(number % extent)
            number //= extent
        if self.band is not None:
            values[:2] = _in_bands(values[0] + values[1] * extents[0], extents[0], extents[1], self.band)
        split, count = self.warpgroups or ("", 1)
        for i, (index, _) in enumerate(self.grid):
            if index in self.descending:
                values[i] = extents[i] - 1 - values[i]
            if index == split:
                values[i] *= count
        return tuple(values)

    def coordinates(self) -> Iterator[tuple[int, ...]]:
        """Grid coordinates of every run of the program, CTAs in dispatch order."""
        split = None if self.warpgroups is None else [index for index, _ in self.grid].index(self.warpgroups[0])
        for number in range(self.ctas):
            first = self.cta_coordinates(number)
            for warpgroup in range(self.warpgroups_per_cta):
                yield tuple(value + (warpgroup if i == split else 0) for i, value in enumerate(first))

    @property
    def smem_bytes(self) -> int:
        """Shared memory a CTA holds, in bytes."""
        return sum(buffer.size_bytes for buffer in self.buffers if buffer.space is Space.SMEM)

    @property
    def accumulator_registers_per_thread(self) -> int:
        """Registers a thread holds for the accumulator tiles (matrices; m, ℓ are in the working registers)."""
        matrices = (b for b in self.buffers if b.space is Space.REGISTERS and b.cols > 1)
        threads = 32 * (self.warps - self.producer_warps)
        return ceil_div(sum(buffer.size_bytes for buffer in matrices), 4 * threads)

    def tasks(self) -> Iterator[Task]:
        """Every task of the program once, in program order."""
        return _tasks(self.program)

    def trips(self) -> Mapping[str, int]:
        """Number of values of every grid and loop index."""
        return dict(self.grid) | {loop.index: loop.trips for loop in loops(self.program)}

    def loaded(self) -> tuple[Tensor, ...]:
        """Tensors the kernel reads, each once."""
        return _unique(task.op.tile.tensor for task in self.tasks() if isinstance(task.op, Load))

    def stored(self) -> tuple[Tensor, ...]:
        """Tensors the kernel writes, each once."""
        return _unique(task.op.tile.tensor for task in self.tasks() if isinstance(task.op, Store))


def _in_bands(number: int, across: int, down: int, band: int) -> tuple[int, int]:
    """Coordinates of a number that counts a plane of across × down band by band."""
    first = number // (band * down) * band
    second, within = divmod(number - first * down, min(band, across - first))
    return first + within, second


def _tasks(nodes: tuple[Node, ...]) -> Iterator[Task]:
    for node in nodes:
        if isinstance(node, Loop):
            yield from _tasks(node.body)
        else:
            yield node


def loops(nodes: tuple[Node, ...]) -> Iterator[Loop]:
    """Every loop of a program, outer before inner."""
    for node in nodes:
        if isinstance(node, Loop):
            yield node
            yield from loops(node.body)


def _unique(tensors: Iterator[Tensor]) -> tuple[Tensor, ...]:
    return tuple(dict.fromkeys(tensors))


@dataclass(frozen=True, slots=True)
class TaskGraph:
    """Kernels that run one after another."""

    kernels: tuple[Kernel, ...]

    def tensors(self) -> tuple[Tensor, ...]:
        """Every tensor once, in order of first use."""
        return _unique(tensor for kernel in self.kernels for tensor in (*kernel.loaded(), *kernel.stored()))

    def with_role(self, role: Role) -> tuple[Tensor, ...]:
        """Tensors of one role, in order of first use."""
        return tuple(tensor for tensor in self.tensors() if tensor.role is role)
