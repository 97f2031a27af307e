"""Writes a kernel's program the way one would write the kernel: load, multiply, loop, store."""

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction

from gpusim.dtypes import DType
from gpusim.specs.sm import TensorPath
from gpusim.taskgraph.cost import KernelCost
from gpusim.taskgraph.ops import Load, Op, Store
from gpusim.taskgraph.program import Access, Accumulators, Diagonal, Guard, Kernel, Loop, Node, Scheduler, Task
from gpusim.taskgraph.tensors import Buffer, Space, Tile


class KernelBuilder:
    """Collects buffers and tasks in program order; `build` returns the kernel.

    >>> from gpusim.taskgraph import Role, Tensor
    >>> x, y = (Tensor(n, 1, 8, 4, DType.FP16, r, 4, 4) for n, r in (("x", Role.INPUT), ("y", Role.OUTPUT)))
    >>> k = KernelBuilder("copy", grid=[("m", 2), ("head", 1)], warps=1, compute_dtype=DType.FP16)
    >>> tile = k.buffer("tile", 4, 4)
    >>> k.load(x.tile(row="m"), tile)
    >>> k.store(tile, y.tile(row="m"))
    >>> k.build().smem_bytes
    32
    """

    def __init__(
        self,
        name: str,
        *,
        grid: list[tuple[str, int]],
        warps: int,
        compute_dtype: DType,
        accumulators: Accumulators = "registers",
        accumulator_bytes: int = 4,
    ) -> None:
        self._name = name
        self._grid = tuple(grid)
        self._warps = warps
        self._compute_dtype = compute_dtype
        self._accumulators = accumulators
        self._accumulator_bytes = accumulator_bytes
        self._buffers: list[Buffer] = []
        self._open: list[list[Node]] = [[]]

    def buffer(self, name: str, rows: int, cols: int, *, stages: int = 1, resident_rows: int | None = None) -> Buffer:
        """A shared-memory buffer in the workload's format."""
        size = self._compute_dtype.size_bytes
        return self._add(Buffer(name, rows, cols, size, Space.SMEM, stages, resident_rows))

    def accumulator(
        self, name: str, rows: int, cols: int, *, stages: int = 1, resident_rows: int | None = None
    ) -> Buffer:
        """A buffer for running sums: fp32 registers, or shared memory when accumulators live there."""
        space = Space.REGISTERS if self._accumulators == "registers" else Space.SMEM
        return self._add(Buffer(name, rows, cols, self._accumulator_bytes, space, stages, resident_rows))

    def register(self, name: str, rows: int) -> Buffer:
        """One working register a row that never goes to shared memory, such as a rescale factor."""
        return self._add(Buffer(name, rows, 1, self._accumulator_bytes, Space.REGISTERS))

    def _add(self, buffer: Buffer) -> Buffer:
        self._buffers.append(buffer)
        return buffer

    @contextmanager
    def loop(self, index: str, trips: int, diagonal: Diagonal | None = None) -> Iterator[None]:
        """Repeats what is written inside it with `index` = 0 … trips − 1, or up to the diagonal of a causal mask."""
        self._open.append([])
        yield
        body = tuple(self._open.pop())
        self._open[-1].append(Loop(index, trips, body, diagonal))

    def do(self, name: str, op: Op, guard: Guard | None = None) -> None:
        """Appends one task."""
        self._open[-1].append(Task(name, op, guard))

    def load(self, tile: Tile, into: Buffer, guard: Guard | None = None, *, shared_by: int = 1) -> None:
        """Appends an asynchronous load, multicast to `shared_by` CTAs."""
        self.do(f"load {tile.tensor.name}", Load(tile, into, shared_by), guard)

    def store(self, buffer: Buffer, tile: Tile, guard: Guard | None = None) -> None:
        """Appends a posted store."""
        self.do(f"store {tile.tensor.name}", Store(buffer, tile), guard)

    def build(
        self,
        *,
        cost: KernelCost | None = None,
        grain: int | Fraction = 1,
        ctas_per_sm: int | None = None,
        access: Access = "streamed",
        line_weight: int = 1,
        band: int | None = None,
        descending: tuple[str, ...] = (),
        scheduler: Scheduler = "hardware",
        warpgroups: tuple[str, int] | None = None,
        producer_warps: int = 0,
        registers_per_thread: int | None = None,
        producer_registers_per_thread: int = 0,
        tensor_path: TensorPath | None = None,
    ) -> Kernel:
        """The finished kernel."""
        return Kernel(
            name=self._name,
            grid=self._grid,
            program=tuple(self._open[0]),
            buffers=tuple(self._buffers),
            warps=self._warps,
            compute_dtype=self._compute_dtype,
            accumulators=self._accumulators,
            cost=KernelCost() if cost is None else cost,
            grain=grain,
            ctas_per_sm=ctas_per_sm,
            access=access,
            line_weight=line_weight,
            band=band,
            descending=descending,
            scheduler=scheduler,
            warpgroups=warpgroups,
            producer_warps=producer_warps,
            registers_per_thread=registers_per_thread,
            producer_registers_per_thread=producer_registers_per_thread,
            tensor_path=tensor_path,
        )
