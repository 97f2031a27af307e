"""Which kernel a GEMM library takes: the quickest of the usual output tiles, which is what its heuristic approximates.

A CTA costs its prologue, its main loop and its epilogue; where the epilogue overlaps the next tile's main loop, the
longer of the two. The main loop takes as long as its products or as its operands on their way from L2, whichever is
longer. A grid costs whole waves of one CTA an SM, or what its operands take from device memory. Flat tiles re-use less:
they reach (h / 64)^½ of the rate for h = rows · cols / (rows + cols) below 64 (fitted in the modelling study on bf16
GEMMs of M ≥ 256, A100 and H100). One product of a long inner dimension may be split over CTAs, whose sums a second
kernel adds.

fp32 kernels run on the FP32 lanes and have tiles of their own: on A100 one of 128 × 128 explains the batched GEMMs of
NeuSight, 64 output columns taking as long as 128 and 196 rows as long as 256; on H100 there are narrower ones, and its
GEMMs of 32 output columns take half the time of those of 64.
"""

import itertools
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
LARGEST_REUSE = 128 * 256 / (128 + 256)
L2_SHARE = 0.6  # of L2, up to which operands and output stay there from one product to the next; same study, section 4
SPLITS = (1, 2, 4, 8)
# Read off the splits that bf16 GEMMs of ai-dynamo/aiconfigurator must have, going by their times on A100 (M >= 256):
LEAST_SPLIT_K = 1024  # columns of the left operand that a CTA of a split product keeps
LEAST_SPLIT_K_OF_FULL_GRIDS = 4096  # the same where there are tiles for every SM without a split
PREFERENCE = 1.1  # how much more products of flat tiles count: (LARGEST_REUSE / h) to this power, unless split
PART_BYTES = 4  # a sum of a part, in fp32


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
    def reuse(self) -> float:
        """Multiply-adds for a number that is loaded: rows · cols / (rows + cols)."""
        return self.rows * self.cols / (self.rows + self.cols)

    @property
    def efficiency(self) -> float:
        """Share of the library's matrix rate that this shape reaches."""
        return float(min(1.0, self.reuse / FULL_RATE_REUSE) ** 0.5)


@dataclass(frozen=True, slots=True)
class GemmKernel:
    """An output tile and the CTAs that share its inner dimension."""

    tile: GemmTile
    split: int


def quickest_tile(spec: GpuSpec, cost: KernelCost, shape: GemmShape) -> GemmTile:
    """The tile with which the products are done first, loads left out; the first listed wins a tie."""
    return min(_listed(spec, shape), key=lambda tile: _busy_seconds(GemmKernel(tile, 1), spec, cost, shape))


def quickest_kernel(
    spec: GpuSpec, cost: KernelCost, shape: GemmShape, *, splits: tuple[int, ...] = SPLITS, cluster: int = 1
) -> GemmKernel:
    """The tile and split with which the products are done first; the first listed wins a tie.

    `cluster` CTAs down the grid, where there are as many, share their operand of columns. Where the product need not be
    split, the library's liking for large tiles has its say before a split is considered. All of that was read off
    single products on tensor cores; for several, and in fp32, the quickest tile is taken.
    """
    if splits == (1,) or shape.batch > 1 or shape.dtype is DType.FP32:
        return GemmKernel(quickest_tile(spec, cost, shape), 1 if 1 in splits else splits[0])
    tiles = _listed(spec, shape)

    def seconds(kernel: GemmKernel) -> float:
        return _seconds(kernel, spec, cost, shape, cluster)

    kernels = [
        GemmKernel(tile, split)
        for split, tile in itertools.product(splits, tiles)
        if split > 1 and (1 not in splits or _may_split(tile, split, shape, spec))
    ]
    if 1 in splits:
        whole = (GemmKernel(tile, 1) for tile in tiles)
        kernels.insert(0, min(whole, key=lambda kernel: _seconds(kernel, spec, cost, shape, cluster, PREFERENCE)))
    return min(kernels, key=seconds)


def _listed(spec: GpuSpec, shape: GemmShape) -> list[GemmTile]:
    listed = FP32_TILES.get(spec.compute_capability, TILES) if shape.dtype is DType.FP32 else TILES
    return [GemmTile(*tile) for tile in listed]


def cluster_of(tile: GemmTile, rows: int, cluster: int) -> int:
    """CTAs of a cluster: as many as asked for where the row tiles are a multiple of them, else one."""
    return cluster if ceil_div(rows, tile.rows) % cluster == 0 else 1


def step_of(dtype: DType) -> int:
    """Columns of the left operand that a step of the main loop takes: one line of memory a row."""
    return LINE_BYTES // dtype.size_bytes


def shaped(cost: KernelCost, tile: GemmTile, useful: float = 1.0) -> KernelCost:
    """The library's constants with the share of its matrix rate that this tile reaches, `useful` of it for output."""
    return cost.model_copy(update={"matmul_efficiency": cost.matmul_efficiency * tile.efficiency * useful})


def _tiles(tile: GemmTile, shape: GemmShape) -> int:
    return ceil_div(shape.m, tile.rows) * ceil_div(shape.n, tile.cols) * shape.batch


def _may_split(tile: GemmTile, split: int, shape: GemmShape, spec: GpuSpec) -> bool:
    """A split is for one product whose parts are whole steps and still long."""
    part, rest = divmod(shape.k, split)
    least = LEAST_SPLIT_K if _tiles(tile, shape) < spec.sm.count else LEAST_SPLIT_K_OF_FULL_GRIDS
    return shape.batch == 1 and part >= least and rest == 0 and part % step_of(shape.dtype) == 0


def _seconds(
    kernel: GemmKernel, spec: GpuSpec, cost: KernelCost, shape: GemmShape, cluster: int, preference: float = 0.0
) -> float:
    """Time of one product; products of flat tiles count for more where the library has a preference."""
    ctas = _tiles(kernel.tile, shape) * kernel.split
    loads = _load_cycles(kernel, spec, shape, cluster, ctas, _clock_hz(spec, shape))
    weight = max(1.0, LARGEST_REUSE / kernel.tile.reuse) ** preference
    seconds = max(_busy_seconds(kernel, spec, cost, shape, loads, weight), _memory_seconds(spec, shape))
    return seconds + _reduce_seconds(spec, shape, kernel.split)


def _busy_seconds(
    kernel: GemmKernel,
    spec: GpuSpec,
    cost: KernelCost,
    shape: GemmShape,
    load_cycles: float = 0.0,
    weight: float = 1.0,
) -> float:
    """Waves of CTAs whose main loop is the longer of `weight` times its products and its loads."""
    tile = kernel.tile
    elements = tile.rows * tile.cols
    rate = matmul_flop_per_clk(spec.sm, shape.dtype) * cost.matmul_efficiency * tile.efficiency
    main = max(weight * 2 * elements * (shape.k // kernel.split) / rate, load_cycles)
    epilogue = elements * cost.epilogue_cycles_per_element
    busy = max(main, epilogue) if cost.epilogue_overlaps else main + epilogue
    waves = ceil_div(_tiles(tile, shape) * kernel.split, spec.sm.count)
    return waves * (cost.entry_cycles + busy) / _clock_hz(spec, shape)


def _clock_hz(spec: GpuSpec, shape: GemmShape) -> float:
    return spec.sm.clock_hz if shape.dtype is DType.FP32 else min(spec.sm.clock_hz, spec.sm.tensor_clock_hz)


def _load_cycles(
    kernel: GemmKernel, spec: GpuSpec, shape: GemmShape, cluster: int, ctas: int, clock_hz: float
) -> float:
    """Clocks in which the operands of a tile reach its SM: through its own port, and through that of L2 with others."""
    tile, l2 = kernel.tile, spec.memory.l2
    line = shape.k // kernel.split * shape.dtype.size_bytes
    fill = (tile.rows + tile.cols) * line / spec.sm.l2_fill_bytes_per_clk
    if l2 is None or l2.bandwidth_bytes_per_s is None:
        return fill
    asked = (tile.rows + tile.cols / cluster_of(tile, shape.m, cluster)) * line
    return max(fill, min(ctas, spec.sm.count) * asked * clock_hz / l2.bandwidth_bytes_per_s)


def _memory_seconds(spec: GpuSpec, shape: GemmShape) -> float:
    """Time in which device memory gives the operands and takes the output, none where all of it stays in L2."""
    numbers = shape.m * shape.k + shape.k * shape.n + shape.m * shape.n
    size_bytes = numbers * shape.batch * shape.dtype.size_bytes
    l2_bytes = 0 if spec.memory.l2 is None else spec.memory.l2.size_bytes
    return 0.0 if size_bytes < L2_SHARE * l2_bytes else size_bytes / spec.memory.hbm.peak_bandwidth_bytes_per_s


def _reduce_seconds(spec: GpuSpec, shape: GemmShape, split: int) -> float:
    """A second launch and the parts that L2 takes and gives, where the product is split."""
    if split == 1:
        return 0.0
    l2, launch_ns = spec.memory.l2, spec.launch.graph_ns or 0.0
    size_bytes = split * shape.m * shape.n * PART_BYTES
    rates = () if l2 is None else (l2.write_bandwidth_bytes_per_s, l2.bandwidth_bytes_per_s)
    return launch_ns * 1e-9 + sum(size_bytes / rate for rate in rates if rate is not None)
