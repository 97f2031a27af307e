"""Which output tile a GEMM library takes: the quickest of the usual ones, which is what its heuristic approximates.

A CTA costs its prologue, its main loop and its epilogue; where the epilogue overlaps the next tile's main loop, the
longer of the two. A grid costs whole waves of one CTA an SM. Flat tiles re-use less: they reach (h / 64)^½ of the rate
for h = rows · cols / (rows + cols) below 64 (fitted in the modelling study on bf16 GEMMs of M ≥ 256, A100 and H100).
"""

from dataclasses import dataclass

from gpusim.analytic import matmul_flop_per_clk
from gpusim.dtypes import DType
from gpusim.specs import GpuSpec
from gpusim.taskgraph import KernelCost
from gpusim.taskgraph.tensors import ceil_div

TILES = ((128, 256), (256, 128), (128, 128), (64, 128), (128, 64), (64, 64))
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
    return min((GemmTile(*tile) for tile in TILES), key=lambda tile: _cycles(tile, spec, cost, shape))


def _cycles(tile: GemmTile, spec: GpuSpec, cost: KernelCost, shape: GemmShape) -> float:
    elements = tile.rows * tile.cols
    rate = matmul_flop_per_clk(spec.sm, shape.dtype) * cost.matmul_efficiency * tile.efficiency
    main, epilogue = 2 * elements * shape.k / rate, elements * cost.epilogue_cycles_per_element
    busy = max(main, epilogue) if cost.epilogue_overlaps else main + epilogue
    tiles = ceil_div(shape.m, tile.rows) * ceil_div(shape.n, tile.cols) * shape.batch
    return ceil_div(tiles, spec.sm.count) * (cost.entry_cycles + busy)
