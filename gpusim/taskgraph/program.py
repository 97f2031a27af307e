"""Tasks, loops, kernels and graphs: a schedule as data."""

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from gpusim.dtypes import DType
from gpusim.taskgraph.cost import KernelCost
from gpusim.taskgraph.ops import Load, Op, Store
from gpusim.taskgraph.tensors import HEAD as HEAD
from gpusim.taskgraph.tensors import Buffer, Role, Space, Tensor, ceil_div

Accumulators = Literal["smem", "registers"]
Access = Literal["streamed", "random"]


@dataclass(frozen=True, slots=True)
class Guard:
    """Restricts a task to the first, or to all but the first, the last, or all but the last value of a loop index."""

    index: str
    when: Literal["first", "not_first", "last", "not_last"]

    def holds(self, value: int, trips: int) -> bool:
        """Whether the task runs when the index, of `trips` values, is `value`."""
        match self.when:
            case "first":
                return value == 0
            case "not_first":
                return value > 0
            case "last":
                return value == trips - 1
            case "not_last":
                return value < trips - 1


@dataclass(frozen=True, slots=True)
class Task:
    """One operation of a CTA's program."""

    name: str
    op: Op
    guard: Guard | None = None


@dataclass(frozen=True, slots=True)
class Loop:
    """`body` repeated `trips` times with `index` = 0, 1, …"""

    index: str
    trips: int
    body: tuple["Node", ...]


Node = Task | Loop


@dataclass(frozen=True, slots=True)
class Kernel:
    """A grid of CTAs running one program.

    `grid` lists (index, count), the first varying fastest: the dispatch order. With a `band`, the first two indices
    are walked in bands of so many values of the first, so that CTAs side by side in time form a block. `program` is
    in program order; the dependencies follow from it (see `unroll.py`). `warps` a CTA; `grain` real CTAs stand behind
    one CTA of the graph; `ctas_per_sm`, where a table pins it, replaces the occupancy that limits would give.
    `compute_dtype` is the format matrix units multiply in. `access` "random" is a kernel that loads single cache
    lines, such as a pointer chase: each of its tiles is one line that stands for `line_weight` lines in the capacity
    of L2.
    """

    name: str
    grid: tuple[tuple[str, int], ...]
    program: tuple[Node, ...]
    buffers: tuple[Buffer, ...]
    warps: int
    compute_dtype: DType
    accumulators: Accumulators = "registers"
    cost: KernelCost = field(default_factory=KernelCost)
    grain: int = 1
    ctas_per_sm: int | None = None
    access: Access = "streamed"
    line_weight: int = 1
    band: int | None = None

    @property
    def ctas(self) -> int:
        """CTAs of the grid as the graph groups them; times `grain` is what the GPU launches."""
        return math.prod(extent for _, extent in self.grid)

    def coordinates(self) -> Iterator[tuple[int, ...]]:
        """Grid coordinates of every CTA in dispatch order."""
        extents = [extent for _, extent in self.grid]
        if self.band is None:
            for values in itertools.product(*(range(extent) for extent in reversed(extents))):
                yield values[::-1]
            return
        across, down, *others = extents
        for outer in itertools.product(*(range(extent) for extent in reversed(others))):
            for first in range(0, across, self.band):
                for second in range(down):
                    for value in range(first, min(first + self.band, across)):
                        yield (value, second, *outer[::-1])

    @property
    def smem_bytes(self) -> int:
        """Shared memory a CTA holds, in bytes."""
        return sum(buffer.size_bytes for buffer in self.buffers if buffer.space is Space.SMEM)

    @property
    def accumulator_registers_per_thread(self) -> int:
        """Registers a thread holds for the accumulator tiles (matrices; m, ℓ are in the working registers)."""
        matrices = (b for b in self.buffers if b.space is Space.REGISTERS and b.cols > 1)
        return ceil_div(sum(buffer.size_bytes for buffer in matrices), 4 * 32 * self.warps)

    def tasks(self) -> Iterator[Task]:
        """Every task of the program once, in program order."""
        return _tasks(self.program)

    def trips(self) -> Mapping[str, int]:
        """Number of values of every grid and loop index."""
        return dict(self.grid) | {loop.index: loop.trips for loop in _loops(self.program)}

    def loaded(self) -> tuple[Tensor, ...]:
        """Tensors the kernel reads, each once."""
        return _unique(task.op.tile.tensor for task in self.tasks() if isinstance(task.op, Load))

    def stored(self) -> tuple[Tensor, ...]:
        """Tensors the kernel writes, each once."""
        return _unique(task.op.tile.tensor for task in self.tasks() if isinstance(task.op, Store))


def _tasks(nodes: tuple[Node, ...]) -> Iterator[Task]:
    for node in nodes:
        if isinstance(node, Loop):
            yield from _tasks(node.body)
        else:
            yield node


def _loops(nodes: tuple[Node, ...]) -> Iterator[Loop]:
    for node in nodes:
        if isinstance(node, Loop):
            yield node
            yield from _loops(node.body)


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
