"""Row softmax and elementwise passes: a tile is read once, worked on and written once."""

from typing import Literal

from gpusim.taskgraph import Buffer, Copy, Kernel, KernelBuilder, KernelCost, RowSoftmax, Tensor

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
    """dst = scale · src or its transpose, one CTA a tile of `src`."""
    cta = KernelBuilder(name, grid=[("m", src.row_tiles), ("head", src.heads)], warps=4, compute_dtype=src.dtype)
    shape = (src.tile_rows, src.col_tiles * src.tile_cols)
    source = cta.buffer("in", *shape, resident_rows=0)
    target = cta.buffer("out", *(reversed(shape) if transpose else shape), resident_rows=0)
    cta.load(src.tile(row="m", col_tiles=src.col_tiles), source)
    cta.do("copy", Copy(source, target, transpose, scale))
    if transpose:
        cta.store(target, dst.tile(col="m", row_tiles=dst.row_tiles))
    else:
        cta.store(target, dst.tile(row="m", col_tiles=dst.col_tiles))
    return cta.build(cost=cost, ctas_per_sm=GROUPS_PER_SM)
