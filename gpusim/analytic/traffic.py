"""Exact bytes and operations of a kernel, from its program alone.

Loads and stores move the bytes that lie inside the tensor; arithmetic is done on whole tiles, as real kernels pad.
Shared-memory traffic: a load writes its bytes once; a matrix product reads its left operand once and its right operand
once a warp, since each warp owns rows of 16 (the m16 shape of mma.sync) and needs all columns. Where warps stand side
by side as well, each reads its rows of the left and its columns of the right operand. wgmma takes both operands of a
warpgroup's 64 rows from shared memory once. A tile that is multicast to the CTAs of a cluster is asked of L2 once.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from gpusim.specs.sm import TensorPath
from gpusim.taskgraph import Buffer, Guard, Kernel, Load, Loop, MatMul, Space, Store, Task, TaskGraph, Tile
from gpusim.taskgraph.ops import Op, reads, work, writes
from gpusim.taskgraph.program import Node
from gpusim.taskgraph.tensors import ceil_div

MMA_ROWS: dict[TensorPath | None, int] = {None: 16, "mma_sync": 16, "wgmma": 64}  # of the left operand


@dataclass(frozen=True, slots=True)
class KernelWork:
    """Totals of one kernel: bytes asked of L2 or, without one, of HBM; operations; shared-memory bytes.

    `operand_bytes` counts each tensor the kernel reads and each it writes once.
    """

    read_bytes: int
    write_bytes: int
    operand_bytes: int
    flops: int
    exps: int
    fp32_ops: float
    smem_read_bytes: int
    smem_write_bytes: int


def kernel_work(kernel: Kernel) -> KernelWork:
    """Totals of one kernel over its whole grid."""
    read = write = flops = exps = smem_read = smem_write = 0
    fp32_ops = 0.0
    for task, loops in _with_loops(kernel.program):
        cases = list(_cases(kernel, loops))
        match task.op:
            case Load(tile=tile, into=buffer, shared_by=shared_by):
                moved = sum(_tile_bytes(tile, task.guard, values) for values in cases)
                moved //= kernel.warpgroups_per_cta if _is_innermost(loops) else 1
                read += moved // shared_by
                smem_write += moved if _is_in_smem(buffer) else 0
            case Store(tile=tile, buffer=buffer):
                moved = sum(_tile_bytes(tile, task.guard, values) for values in cases)
                write += moved
                smem_read += moved if _is_in_smem(buffer) else 0
            case op:
                runs, done = sum(_runs(task.guard, values) for values in cases), work(op)
                flops += runs * done.flops
                exps += runs * done.exps
                fp32_ops += runs * done.fp32_ops
                smem_read += runs * smem_read_bytes(op, kernel.warps, kernel.tensor_path)
                smem_write += runs * smem_write_bytes(op)
    return KernelWork(read, write, _operand_bytes(kernel), flops, exps, fp32_ops, smem_read, smem_write)


def graph_operand_bytes(graph: TaskGraph) -> int:
    """Each kernel's inputs once and outputs once, in bytes."""
    return sum(_operand_bytes(kernel) for kernel in graph.kernels)


def _operand_bytes(kernel: Kernel) -> int:
    return sum(tensor.size_bytes for tensor in (*kernel.loaded(), *kernel.stored()))


def smem_read_bytes(op: Op, warps: int, path: TensorPath | None = None) -> int:
    """Shared-memory bytes one arithmetic op reads."""
    match op:
        case MatMul(a=a, b=b, out=out, accumulate=accumulate):
            a_reads, b_reads = _operand_reads(op, warps, path)
            sums = _smem_size(out) if accumulate else 0
            return a_reads * _smem_size(a) + b_reads * _smem_size(b) + sums
        case _:
            return sum(_smem_size(buffer) for buffer in reads(op))


def _operand_reads(op: MatMul, warps: int, path: TensorPath | None) -> tuple[int, int]:
    """How often a CTA reads the left and the right operand of a product from shared memory."""
    if op.warp_tile is None:
        return 1, min(warps, ceil_div(op.a.rows, MMA_ROWS[path]))
    rows, cols = op.warp_tile
    return ceil_div(op.out.cols, cols), ceil_div(op.out.rows, rows)


def smem_write_bytes(op: Op) -> int:
    """Shared-memory bytes one arithmetic op writes."""
    return sum(_smem_size(buffer) for buffer in writes(op))


def _is_in_smem(buffer: Buffer) -> bool:
    """Whether a buffer lives in shared memory; rows that stream through registers do not."""
    return buffer.space is Space.SMEM and buffer.resident_rows != 0


def _smem_size(buffer: Buffer) -> int:
    """Bytes of one stage of a buffer that lives in shared memory, else 0."""
    return buffer.rows * buffer.cols * buffer.element_bytes if _is_in_smem(buffer) else 0


Values = Mapping[str, range]


def _with_loops(nodes: tuple[Node, ...], around: tuple[Loop, ...] = ()) -> Iterator[tuple[Task, tuple[Loop, ...]]]:
    for node in nodes:
        if isinstance(node, Loop):
            yield from _with_loops(node.body, (*around, node))
        else:
            yield node, around


def _is_innermost(loops: tuple[Loop, ...]) -> bool:
    """Whether the last of the loops around a task has no other in it."""
    return bool(loops) and not any(isinstance(node, Loop) for node in loops[-1].body)


def _cases(kernel: Kernel, loops: tuple[Loop, ...]) -> Iterator[Values]:
    """Values of every index, grid and loops: one case, or one a query tile where a loop ends on its diagonal."""
    grid = {index: range(extent) for index, extent in kernel.grid}
    diagonals = [loop.diagonal.index for loop in loops if loop.diagonal is not None]
    if not diagonals:
        yield grid | {loop.index: range(loop.trips) for loop in loops}
        return
    (index,) = dict.fromkeys(diagonals)
    for value in grid[index]:
        trips = {loop.index: range(loop.trips_at({index: value})) for loop in loops}
        yield grid | {index: range(value, value + 1)} | trips


def _allowed(index: str, guard: Guard | None, values: Values) -> list[int]:
    if guard is None or guard.index != index:
        return list(values[index])
    return [value for value in values[index] if guard.holds(value, len(values[index]))]


def _runs(guard: Guard | None, values: Values) -> int:
    """How often a task runs."""
    return prod(len(_allowed(index, guard, values)) for index in values)


def _tile_bytes(tile: Tile, guard: Guard | None, values: Values) -> int:
    """Bytes one access moves: a product, since rows and columns follow different indices."""
    row_total = _extent_total(tile.row, tile.row_extents(), guard, values)
    col_total = _extent_total(tile.col, tile.col_extents(), guard, values)
    others = (index for index in values if index not in (tile.row, tile.col))
    repeats = prod(len(_allowed(index, guard, values)) for index in others)
    return row_total * col_total * repeats * tile.tensor.element_bytes


def _extent_total(axis: str | int, extents: tuple[int, ...], guard: Guard | None, values: Values) -> int:
    """Rows or columns of all blocks together; blocks behind the tensor, of warpgroups without work, are empty."""
    blocks = _allowed(axis, guard, values) if isinstance(axis, str) else [axis]
    return sum(extents[block] for block in blocks if block < len(extents))
