"""Which output tile a GEMM library takes: the quickest of the usual ones, which is what its heuristic approximates.

A CTA costs its prologue, its main loop and its epilogue; where the epilogue overlaps the next tile's main loop, the
longer of the two. A grid costs whole waves of one CTA an SM. Flat tiles re-use less: they reach (h / 64)^½ of the rate
for h = rows · cols / (rows + cols) below 64 (fitted in the modelling study on bf16 GEMMs of M ≥ 256, A100 and H100).

fp32 kernels run on the FP32 lanes and have tiles of their own: on A100 one of 128 × 128 explains the batched GEMMs of
NeuSight, 64 output columns taking as long as 128 and 196 rows as long as 256; on H100 there are narrower ones, and its
GEMMs of 32 output columns take half the time of those of 64.
"""

from dataclasses import dataclass

from gpusim.analytic import matmul_flop_per_clk
from gpusim.dtypes import DType
from gpusim.specs import GpuSpec
from gpusim.taskgraph import KernelCost
from gpusim.taskgraph.tensors import ceil_div

TILES = ((128, 256), (256, 128), (128, 128), (64, 128), (128, 64), (64, 64))
FP32_TILES = {"8.0": ((128, 128),), "9.0": ((128, 128), (128, 64), (128, 32))}  # by compute capability
LINE_BYTES = 128
FULL_RATE_REUSE = 64


@dataclass(frozen=True, slots=True)
class GemmShape:
    """`batch` products of m × k by k × n numbers of one format."""

    m: int
    n: int
    k: int
    batch: int
    dtype: DType


@dataclass(frozen=True, slots=True)
class GemmTile:
    """An output tile."""

    rows: int
    cols: int

    @property
    def efficiency(self) -> float:
        """Share of the library's matrix rate that this shape reaches."""
        return float(min(1.0, (self.rows * self.cols / (self.rows + self.cols)) / FULL_RATE_REUSE) ** 0.5)


def quickest_tile(spec: GpuSpec, cost: KernelCost, shape: GemmShape) -> GemmTile:
    """The tile with which the products are done first; the first listed wins a tie."""
    listed = FP32_TILES.get(spec.compute_capability, TILES) if shape.dtype is DType.FP32 else TILES
    return min((GemmTile(*tile) for tile in listed), key=lambda tile: _cycles(tile, spec, cost, shape))


def step_of(dtype: DType) -> int:
    """Columns of the left operand that a step of the main loop takes: one line of memory a row."""
    return LINE_BYTES // dtype.size_bytes


def shaped(cost: KernelCost, tile: GemmTile, useful: float = 1.0) -> KernelCost:
    """The library's constants with the share of its matrix rate that this tile reaches, `useful` of it for output."""
    return cost.model_copy(update={"matmul_efficiency": cost.matmul_efficiency * tile.efficiency * useful})


def _cycles(tile: GemmTile, spec: GpuSpec, cost: KernelCost, shape: GemmShape) -> float:
    elements = tile.rows * tile.cols
    rate = matmul_flop_per_clk(spec.sm, shape.dtype) * cost.matmul_efficiency * tile.efficiency
    main, epilogue = 2 * elements * shape.k / rate, elements * cost.epilogue_cycles_per_element
    busy = max(main, epilogue) if cost.epilogue_overlaps else main + epilogue
    tiles = ceil_div(shape.m, tile.rows) * ceil_div(shape.n, tile.cols) * shape.batch
    return ceil_div(tiles, spec.sm.count) * (cost.entry_cycles + busy)
