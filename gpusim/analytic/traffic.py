"""Exact bytes and operations of a kernel, from its program alone.

Loads and stores move the bytes that lie inside the tensor; arithmetic is done on whole tiles, as real kernels pad.
Shared-memory traffic: a load writes its bytes once; a matrix product reads its left operand once and its right operand
once a warp, since each warp owns rows of 16 (the m16 shape of mma.sync) and needs all columns. Where warps stand side
by side as well, each reads its rows of the left and its columns of the right operand. A tile that is multicast to the
CTAs of a cluster is asked of L2 once.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from gpusim.taskgraph import Buffer, Guard, Kernel, Load, Loop, MatMul, Space, Store, Task, TaskGraph, Tile
from gpusim.taskgraph.ops import Op, reads, work, writes
from gpusim.taskgraph.program import Node
from gpusim.taskgraph.tensors import ceil_div

MMA_ROWS = 16


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
    trips = dict(kernel.trips())
    for task, indices in _with_indices(kernel.program, tuple(index for index, _ in kernel.grid)):
        runs = _runs(task, indices, trips)
        match task.op:
            case Load(tile=tile, into=buffer, shared_by=shared_by):
                moved = _tile_bytes(tile, task.guard, indices, trips)
                read += moved // shared_by
                smem_write += moved if _is_in_smem(buffer) else 0
            case Store(tile=tile, buffer=buffer):
                moved = _tile_bytes(tile, task.guard, indices, trips)
                write += moved
                smem_read += moved if _is_in_smem(buffer) else 0
            case op:
                done = work(op)
                flops += runs * done.flops
                exps += runs * done.exps
                fp32_ops += runs * done.fp32_ops
                smem_read += runs * smem_read_bytes(op, kernel.warps)
                smem_write += runs * smem_write_bytes(op)
    return KernelWork(read, write, _operand_bytes(kernel), flops, exps, fp32_ops, smem_read, smem_write)


def graph_operand_bytes(graph: TaskGraph) -> int:
    """Each kernel's inputs once and outputs once, in bytes."""
    return sum(_operand_bytes(kernel) for kernel in graph.kernels)


def _operand_bytes(kernel: Kernel) -> int:
    return sum(tensor.size_bytes for tensor in (*kernel.loaded(), *kernel.stored()))


def smem_read_bytes(op: Op, warps: int) -> int:
    """Shared-memory bytes one arithmetic op reads."""
    match op:
        case MatMul(a=a, b=b, out=out, accumulate=accumulate):
            a_reads, b_reads = _operand_reads(op, warps)
            sums = _smem_size(out) if accumulate else 0
            return a_reads * _smem_size(a) + b_reads * _smem_size(b) + sums
        case _:
            return sum(_smem_size(buffer) for buffer in reads(op))


def _operand_reads(op: MatMul, warps: int) -> tuple[int, int]:
    """How often a CTA reads the left and the right operand of a product from shared memory."""
    if op.warp_tile is None:
        return 1, min(warps, ceil_div(op.a.rows, MMA_ROWS))
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


def _with_indices(nodes: tuple[Node, ...], indices: tuple[str, ...]) -> Iterator[tuple[Task, tuple[str, ...]]]:
    for node in nodes:
        if isinstance(node, Loop):
            yield from _with_indices(node.body, (*indices, node.index))
        else:
            yield node, indices


def _allowed(index: str, guard: Guard | None, trips: dict[str, int]) -> list[int]:
    values = range(trips[index])
    if guard is None or guard.index != index:
        return list(values)
    return [value for value in values if guard.holds(value, trips[index])]


def _runs(task: Task, indices: tuple[str, ...], trips: dict[str, int]) -> int:
    """How often a task runs over the whole grid."""
    return prod(len(_allowed(index, task.guard, trips)) for index in indices)


def _tile_bytes(tile: Tile, guard: Guard | None, indices: tuple[str, ...], trips: dict[str, int]) -> int:
    """Bytes one access moves over the whole grid: a product, since rows and columns follow different indices."""
    row_total = _extent_total(tile.row, tile.row_extents(), guard, trips)
    col_total = _extent_total(tile.col, tile.col_extents(), guard, trips)
    others = (index for index in indices if index not in (tile.row, tile.col))
    repeats = prod(len(_allowed(index, guard, trips)) for index in others)
    return row_total * col_total * repeats * tile.tensor.element_bytes


def _extent_total(axis: str | int, extents: tuple[int, ...], guard: Guard | None, trips: dict[str, int]) -> int:
    blocks = _allowed(axis, guard, trips) if isinstance(axis, str) else [axis]
    return sum(extents[block] for block in blocks)
