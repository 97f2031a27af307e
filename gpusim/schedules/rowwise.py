"""Row softmax and elementwise passes: a tile is read once, worked on and written once."""

from collections.abc import Callable
from typing import Literal

from gpusim.taskgraph import (
    Add,
    Buffer,
    Copy,
    Exponential,
    Fill,
    KeepAboveDiagonal,
    Kernel,
    KernelBuilder,
    KernelCost,
    Normalise,
    Op,
    RowReduce,
    RowSoftmax,
    SubtractRows,
    Tensor,
    Tile,
    Where,
)

GROUPS_PER_SM = 2  # CTA groups resident on an SM: one loads while the other computes


def softmax_groups(name: str, scores: Tensor, probabilities: Tensor, *, cost: KernelCost | None) -> Kernel:
    """Row softmax, one CTA a row, `tile_rows` of the tensor in a CTA group. Rows stream through registers."""
    cta = KernelBuilder(
        name,
        grid=[("m", scores.row_tiles), ("head", scores.heads)],
        warps=4,
        compute_dtype=scores.dtype,
    )
    rows = cta.buffer("rows", scores.tile_rows, scores.col_tiles * scores.tile_cols, resident_rows=0)
    _softmax(cta, rows, scores, probabilities)
    return cta.build(cost=cost, grain=scores.tile_rows, ctas_per_sm=GROUPS_PER_SM)


def softmax_tiles(
    name: str,
    scores: Tensor,
    probabilities: Tensor,
    *,
    accumulators: Literal["smem", "registers"],
    accumulator_bytes: int,
) -> Kernel:
    """Row softmax of one head a CTA: row tiles pass through shared memory."""
    cta = KernelBuilder(
        name,
        grid=[("head", scores.heads)],
        warps=1,
        compute_dtype=scores.dtype,
        accumulators=accumulators,
        accumulator_bytes=accumulator_bytes,
    )
    rows = cta.accumulator("rows", scores.tile_rows, scores.col_tiles * scores.tile_cols)
    with cta.loop("m", scores.row_tiles):
        _softmax(cta, rows, scores, probabilities)
    return cta.build()


def _softmax(cta: KernelBuilder, rows: Buffer, scores: Tensor, probabilities: Tensor) -> None:
    cta.load(scores.tile(row="m", col_tiles=scores.col_tiles), rows)
    cta.do("softmax", RowSoftmax(rows))
    cta.store(rows, probabilities.tile(row="m", col_tiles=probabilities.col_tiles))


def copy_pass(
    name: str, src: Tensor, dst: Tensor, *, transpose: bool = False, scale: float = 1.0, cost: KernelCost | None
) -> Kernel:
    """dst = scale · src or its transpose, one CTA group a row of tiles of `src`."""
    cta = _pass(name, src)
    shape = (src.tile_rows, src.col_tiles * src.tile_cols)
    source = _streamed(cta, "in", shape)
    target = _streamed(cta, "out", (shape[1], shape[0]) if transpose else shape)
    cta.load(_row(src), source)
    cta.do("copy", Copy(source, target, transpose, scale))
    cta.store(target, dst.tile(col="m", row_tiles=dst.row_tiles) if transpose else _row(dst))
    return cta.build(cost=cost, ctas_per_sm=GROUPS_PER_SM)


def fill_pass(name: str, dst: Tensor, value: float, *, cost: KernelCost | None) -> Kernel:
    """dst = value everywhere."""
    cta = _pass(name, dst)
    rows = _streamed(cta, "rows", (dst.tile_rows, dst.col_tiles * dst.tile_cols))
    cta.do("fill", Fill(rows, value))
    cta.store(rows, _row(dst))
    return cta.build(cost=cost, ctas_per_sm=GROUPS_PER_SM)


def triangle_pass(name: str, src: Tensor, dst: Tensor, *, cost: KernelCost | None) -> Kernel:
    """dst = src above the diagonal, zero elsewhere."""
    cta = _pass(name, src)
    rows = _streamed(cta, "rows", (src.tile_rows, src.col_tiles * src.tile_cols))
    cta.load(_row(src), rows)
    cta.do("keep above diagonal", KeepAboveDiagonal(rows, _row(src)))
    cta.store(rows, _row(dst))
    return cta.build(cost=cost, ctas_per_sm=GROUPS_PER_SM)


def exp_pass(name: str, src: Tensor, dst: Tensor, *, cost: KernelCost | None) -> Kernel:
    """dst = e^src."""
    cta = _pass(name, src)
    rows = _streamed(cta, "rows", (src.tile_rows, src.col_tiles * src.tile_cols))
    cta.load(_row(src), rows)
    cta.do("exp", Exponential(rows))
    cta.store(rows, _row(dst))
    return cta.build(cost=cost, ctas_per_sm=GROUPS_PER_SM)


def reduce_pass(name: str, src: Tensor, dst: Tensor, kind: Literal["max", "sum"], *, cost: KernelCost | None) -> Kernel:
    """dst, one number a row, = the maximum or the sum of each row."""
    cta = _pass(name, src)
    rows = _streamed(cta, "rows", (src.tile_rows, src.col_tiles * src.tile_cols))
    reduced = _streamed(cta, kind, (src.tile_rows, 1))
    cta.load(_row(src), rows)
    cta.do(f"row {kind}", RowReduce(rows, reduced, kind))
    cta.store(reduced, _row(dst))
    return cta.build(cost=cost, ctas_per_sm=GROUPS_PER_SM)


def subtract_pass(name: str, src: Tensor, subtrahend: Tensor, dst: Tensor, *, cost: KernelCost | None) -> Kernel:
    """dst = src - subtrahend, which is one number a row."""
    return _broadcast_pass(name, src, subtrahend, dst, SubtractRows, cost=cost)


def quotient_pass(name: str, src: Tensor, divisor: Tensor, dst: Tensor, *, cost: KernelCost | None) -> Kernel:
    """dst = src / divisor, which is one number a row."""
    return _broadcast_pass(name, src, divisor, dst, Normalise, cost=cost)


def where_pass(
    name: str, src: Tensor, mask: Tensor, dst: Tensor, otherwise: float, *, cost: KernelCost | None
) -> Kernel:
    """dst = src where `mask`, which may be one matrix for all heads, is one, elsewhere `otherwise`."""

    def where(rows: Buffer, ones: Buffer) -> Op:
        return Where(rows, ones, otherwise)

    return _broadcast_pass(name, src, mask, dst, where, cost=cost)


def add_pass(name: str, src: Tensor, addend: Tensor, dst: Tensor, *, cost: KernelCost | None) -> Kernel:
    """dst = src + addend, where `addend` may be one matrix for all heads, or one row for all rows."""
    return _broadcast_pass(name, src, addend, dst, Add, cost=cost)


def _broadcast_pass(
    name: str, src: Tensor, other: Tensor, dst: Tensor, op: Callable[[Buffer, Buffer], Op], *, cost: KernelCost | None
) -> Kernel:
    """dst = op(src, other), where `other` may have fewer heads, one row or one column."""
    cta = _pass(name, src)
    rows = _streamed(cta, "rows", (src.tile_rows, src.col_tiles * src.tile_cols))
    operand = _streamed(cta, "other", (other.tile_rows, other.col_tiles * other.tile_cols))
    cta.load(_row(src), rows)
    cta.load(_row(other) if other.rows > 1 else other.tile(col_tiles=other.col_tiles), operand)
    cta.do(name, op(rows, operand))
    cta.store(rows, _row(dst))
    return cta.build(cost=cost, ctas_per_sm=GROUPS_PER_SM)


def _pass(name: str, tensor: Tensor) -> KernelBuilder:
    return KernelBuilder(
        name, grid=[("m", tensor.row_tiles), ("head", tensor.heads)], warps=4, compute_dtype=tensor.dtype
    )


def _streamed(cta: KernelBuilder, name: str, shape: tuple[int, int]) -> Buffer:
    """Rows that pass through registers and hold nothing that limits occupancy."""
    return cta.buffer(name, *shape, resident_rows=0)


def _row(tensor: Tensor) -> Tile:
    return tensor.tile(row="m", col_tiles=tensor.col_tiles)
