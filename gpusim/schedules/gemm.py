"""Matrix-multiply kernels: one CTA an output tile, or one operand stationary in shared memory.

`build` is the schedule of a single product. Where CTAs split a long inner dimension, each sums up its part in fp32 and
a second kernel adds the parts.
"""

import math
from collections.abc import Mapping
from typing import Literal

from gpusim.dtypes import DType
from gpusim.schedules.kernel_choices import GemmChoices
from gpusim.specs.sm import TensorPath
from gpusim.taskgraph import Add, Fill, Kernel, KernelBuilder, KernelCost, MatMul, Role, TaskGraph, Tensor
from gpusim.taskgraph.tensors import ceil_div
from gpusim.workloads import GemmWorkload

REDUCE_ROWS = 4  # rows of an output tile in a CTA that adds the parts of a split product
WARP_ROWS = 64  # rows of an output tile that a warp, or a warpgroup of wgmma, computes; CUTLASS' usual warp tile


def build(workload: GemmWorkload, choices: GemmChoices, costs: Mapping[str, KernelCost]) -> TaskGraph:
    """C = A B; `costs` may hold constants under "gemm" and, where the inner dimension is split, "reduce".

    Split, one product becomes `split_k`: A is held as that many blocks of columns and B as blocks of rows.
    """
    split, dtype = choices.split_k, workload.dtype
    m, n, k, heads = workload.m, workload.n, workload.k // split, workload.batch * split
    tile_m, tile_n, tile_k = choices.tile_m, choices.tile_n, choices.tile_k
    a = Tensor("A", heads, m, k, dtype, Role.INPUT, tile_m, tile_k)
    b = Tensor("B", heads, k, n, dtype, Role.INPUT, tile_k, tile_n)
    out_rows = tile_m if split == 1 else math.gcd(tile_m, REDUCE_ROWS)
    c = Tensor("C", workload.batch, m, n, dtype, Role.OUTPUT, out_rows, tile_n)
    parts = Tensor("C_parts", heads, m, n, DType.FP32, Role.TEMPORARY, out_rows, tile_n)
    kernel = tiled_gemm(
        "gemm",
        a,
        b,
        c if split == 1 else parts,
        tile_rows=tile_m,
        tile_cols=tile_n,
        step=tile_k,
        transpose_b=False,
        warps=choices.warps,
        stages=choices.stages,
        cost=costs.get("gemm"),
        ctas_per_sm=choices.ctas_per_sm,
        warp_cols=choices.warp_cols,
        cluster=choices.cluster,
        band=choices.band,
    )
    if split == 1:
        return TaskGraph((kernel,))
    return TaskGraph((kernel, sum_of_parts("reduce", parts, c, cost=costs.get("reduce"))))


def sum_of_parts(name: str, parts: Tensor, out: Tensor, *, cost: KernelCost | None) -> Kernel:
    """out = the sum of all matrices of `parts`, tile by tile; sums stream through registers."""
    cta = KernelBuilder(
        name, grid=[("n", out.col_tiles), ("m", out.row_tiles), ("head", 1)], warps=4, compute_dtype=out.dtype
    )
    shape = out.tile_rows, out.tile_cols
    part = cta.accumulator("part", *shape, stages=parts.heads, resident_rows=0)
    sums = cta.accumulator("sums", *shape, resident_rows=0)
    cta.do("sums = 0", Fill(sums, 0.0))
    with cta.loop("part", parts.heads):
        cta.load(parts.tile(row="m", col="n", head="part"), part)
        cta.do("sums += part", Add(sums, part))
    cta.store(sums, out.tile(row="m", col="n"))
    return cta.build(cost=cost)


def tiled_gemm(
    name: str,
    a: Tensor,
    b: Tensor,
    out: Tensor,
    *,
    tile_rows: int,
    tile_cols: int,
    step: int,
    transpose_b: bool,
    scale: float = 1.0,
    warps: int,
    stages: int,
    cost: KernelCost | None,
    ctas_per_sm: int | None,
    warp_cols: int = WARP_ROWS,
    tensor_path: TensorPath | None = None,
    cluster: int = 1,
    band: int | None = None,
) -> Kernel:
    """out = scale · a · b (or a · bᵀ): a grid of tile_rows × tile_cols output tiles, a loop over the inner dimension.

    The loop advances by `step` columns of `a`. Tiles are whole tiles of the tensors; a warp computes 64 × `warp_cols`.
    `cluster` row tiles share their tile of `b`; the grid is walked in bands of `band` column tiles.
    """
    cta = KernelBuilder(
        name,
        grid=[("n", ceil_div(out.cols, tile_cols)), ("m", ceil_div(out.rows, tile_rows)), ("head", out.heads)],
        warps=warps,
        compute_dtype=a.dtype,
    )
    steps = ceil_div(a.cols, step)
    stages = min(stages, steps)
    a_shape = tile_rows // a.tile_rows, step // a.tile_cols
    b_rows, b_cols = (tile_cols, step) if transpose_b else (step, tile_cols)
    b_shape = b_rows // b.tile_rows, b_cols // b.tile_cols
    a_buffer = cta.buffer("A", tile_rows, step, stages=stages)
    b_buffer = cta.buffer("B", b_rows, b_cols, stages=stages)
    sums = cta.accumulator("C", tile_rows, tile_cols)
    warp_tile = (WARP_ROWS, warp_cols)
    if steps > 1:
        cta.do("C = 0", Fill(sums, 0.0))
    with cta.loop("k", steps):
        cta.load(a.tile("m", "k", *a_shape), a_buffer)
        row, col = ("n", "k") if transpose_b else ("k", "n")
        cta.load(b.tile(row, col, *b_shape), b_buffer, shared_by=cluster)
        product = MatMul(a_buffer, b_buffer, sums, transpose_b, steps > 1, scale, warp_tile)
        cta.do("C += A B", product)
    cta.store(
        sums,
        out.tile(row="m", col="n", row_tiles=tile_rows // out.tile_rows, col_tiles=tile_cols // out.tile_cols),
    )
    return cta.build(cost=cost, ctas_per_sm=ctas_per_sm, band=band, tensor_path=tensor_path)


def stationary_gemm(
    name: str,
    a: Tensor,
    b: Tensor,
    out: Tensor,
    *,
    transpose_b: bool,
    scale: float,
    warps: int,
    accumulators: Literal["smem", "registers"],
    accumulator_bytes: int,
) -> Kernel:
    """out = scale · a · b (or a · bᵀ) with the whole of `b` held in shared memory and row tiles of `a` passing by."""
    cta = KernelBuilder(
        name,
        grid=[("head", out.heads)],
        warps=warps,
        compute_dtype=out.dtype,
        accumulators=accumulators,
        accumulator_bytes=accumulator_bytes,
    )
    b_buffer = cta.buffer("B", b.rows, b.cols)
    a_buffer = cta.buffer("A", a.tile_rows, a.cols)
    sums = cta.accumulator("C", out.tile_rows, out.cols)
    cta.load(b.tile(row_tiles=b.row_tiles, col_tiles=b.col_tiles), b_buffer)
    with cta.loop("m", a.row_tiles):
        cta.load(a.tile(row="m", col_tiles=a.col_tiles), a_buffer)
        cta.do("C = A B", MatMul(a_buffer, b_buffer, sums, transpose_b, scale=scale))
        cta.store(sums, out.tile(row="m", col_tiles=out.col_tiles))
    return cta.build()
