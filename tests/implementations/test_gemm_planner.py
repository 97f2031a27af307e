"""Which output tile a GEMM takes, by arithmetic."""

import math

import pytest

from gpusim.dtypes import DType
from gpusim.implementations import parse_request, plan
from gpusim.implementations.gemm_planner import TILES, GemmShape, GemmTile, quickest_kernel, quickest_tile, step_of
from gpusim.specs import GpuSpec, load_gpu
from gpusim.taskgraph import KernelCost
from gpusim.workloads import AttentionWorkload

A100 = load_gpu("a100_sxm4_40gb")
A100_COST = KernelCost(matmul_efficiency=0.947, entry_cycles=1200, epilogue_cycles_per_element=0.20)


def one_sm() -> GpuSpec:
    """An A100 with a single SM, so that every CTA is a wave."""
    return A100.model_copy(update={"sm": A100.sm.model_copy(update={"count": 1})})


@pytest.mark.parametrize(
    ("rows", "cols", "efficiency"),
    [
        (128, 256, 1.0),  # 128·256/384 = 85.3, more than 64
        (256, 128, 1.0),
        (128, 128, 1.0),  # 128·128/256 = 64, just enough
        (64, 128, (2 / 3) ** 0.5),  # 64·128/192 = 42.7 of 64
        (128, 64, (2 / 3) ** 0.5),
        (64, 64, 0.5**0.5),  # 64·64/128 = 32 of 64
    ],
)
def test_flat_tiles_reach_a_share_of_the_rate(rows: int, cols: int, efficiency: float) -> None:
    """The square root of rows·cols/(rows + cols) in 64ths, at most 1."""
    assert (rows, cols) in TILES
    assert efficiency == pytest.approx(GemmTile(rows, cols).efficiency, rel=1e-12)


def test_an_a100_takes_128_x_256_for_qk() -> None:
    """1,024 × 1,024 × 64 in 128 heads on 108 SMs: a CTA of 128 × 256 takes 1,200 + 4,194,304/(2,048 · 0.947) + 6,553.6
    = 9,916 clocks and there are 4,096 of them, 38 waves: 376,816 clocks. 256 × 128 takes the same and is listed later;
    128 × 128 takes 5,558 clocks in 76 waves: 422,416."""
    large = math.ceil(8 * 4 * 128 / 108) * (1200 + 2 * 128 * 256 * 64 / (2048 * 0.947) + 0.20 * 128 * 256)
    square = math.ceil(8 * 8 * 128 / 108) * (1200 + 2 * 128 * 128 * 64 / (2048 * 0.947) + 0.20 * 128 * 128)
    assert (376_816, 422_416) == (round(large), round(square))
    assert GemmTile(128, 256) == quickest_tile(A100, A100_COST, GemmShape(1024, 1024, 64, 128, DType.FP16))


@pytest.mark.parametrize(("m", "n", "tile"), [(256, 256, (128, 256)), (256, 128, (256, 128)), (128, 256, (128, 256))])
def test_the_first_listed_wins_a_tie(m: int, n: int, tile: tuple[int, int]) -> None:
    """On one SM 256 × 256 takes two tiles of 128 × 256 or of 256 × 128; where one of them covers more than the output,
    the other is quicker."""
    assert GemmTile(*tile) == quickest_tile(one_sm(), A100_COST, GemmShape(m, n, 64, 1, DType.FP16))


@pytest.mark.parametrize(
    ("m", "n", "tile"),
    [(1024, 64, (128, 64)), (64, 1024, (64, 128)), (64, 64, (64, 64))],
)
def test_no_tile_is_wider_than_it_pays(m: int, n: int, tile: tuple[int, int]) -> None:
    """PV at head dim 64 computes 64 columns; a tile of 128 would compute as many for nothing. Entry costs nothing."""
    cost = A100_COST.model_copy(update={"entry_cycles": 0.0})
    assert GemmTile(*tile) == quickest_tile(one_sm(), cost, GemmShape(m, n, 1024, 1, DType.FP16))


@pytest.mark.parametrize(("overlaps", "tile"), [(False, (128, 128)), (True, (64, 128))])
def test_an_overlapped_epilogue_hides_the_main_loop(overlaps: bool, tile: tuple[int, int]) -> None:
    """1,088 × 128 × 1,024 on one SM: an element costs 1 clock of main loop, √1.5 = 1.22 in flat tiles, and 2 of
    epilogue. In turn 9 tiles of 128 × 128 take 1,152 · 128 · 3 and 17 of 64 × 128 take 1,088 · 128 · 3.22, more;
    overlapped 1,152 · 128 · 2 and 1,088 · 128 · 2, less."""
    assert 1152 * 3 < 1088 * (1.5**0.5 + 2)
    cost = KernelCost(epilogue_cycles_per_element=2.0, epilogue_overlaps=overlaps)
    assert GemmTile(*tile) == quickest_tile(one_sm(), cost, GemmShape(1088, 128, 1024, 1, DType.FP16))


A100_FP32 = KernelCost(matmul_efficiency=0.95, epilogue_cycles_per_element=0.062)
H100 = load_gpu("h100_sxm5_80gb")
H100_FP32 = KernelCost(matmul_efficiency=0.80, epilogue_cycles_per_element=0.30)


@pytest.mark.parametrize(
    ("spec", "cost", "cols", "tile"),
    [
        (A100, A100_FP32, 1024, (128, 128)),
        (A100, A100_FP32, 64, (128, 128)),  # nothing narrower is known
        (A100, A100_FP32, 16, (128, 128)),
        (H100, H100_FP32, 1024, (128, 128)),
        (H100, H100_FP32, 64, (128, 64)),
        (H100, H100_FP32, 32, (128, 32)),
        (H100, H100_FP32, 16, (128, 32)),
    ],
)
def test_fp32_has_tiles_of_its_own(spec: GpuSpec, cost: KernelCost, cols: int, tile: tuple[int, int]) -> None:
    """4,096 rows in 64 heads: as narrow as the output, where the GPU has it."""
    assert GemmTile(*tile) == quickest_tile(spec, cost, GemmShape(4096, cols, 1024, 64, DType.FP32))


@pytest.mark.parametrize(("dtype", "step"), [(DType.FP16, 64), (DType.BF16, 64), (DType.FP32, 32)])
def test_a_step_of_the_main_loop_is_a_line_a_row(dtype: DType, step: int) -> None:
    """128 bytes."""
    assert step == step_of(dtype)


def test_a_long_inner_dimension_is_split() -> None:
    """256 × 256 × 16,384 on A100: without a split 16 tiles at most run, each 16,384 columns long."""
    assert 1 < quickest_kernel(A100, A100_COST, GemmShape(256, 256, 16384, 1, DType.BF16)).split


@pytest.mark.parametrize("shape", [(4096, 4096, 4096, 1), (256, 256, 16384, 2), (256, 256, 1024, 1)])
def test_full_grids_batches_and_short_products_are_not_split(shape: tuple[int, int, int, int]) -> None:
    """512 tiles of 128 × 256 have work for 108 SMs; only one product is split, and into parts of 1,024 or more."""
    assert 1 == quickest_kernel(A100, A100_COST, GemmShape(*shape, DType.BF16)).split


FA1 = AttentionWorkload(batch=16, heads=8, seqlen_q=1024, seqlen_k=1024, head_dim=64)


def test_a_plan_takes_the_quickest_tiles() -> None:
    """QK as above; PV computes 64 columns in tiles of 128 × 64, which reach √(2/3) of the rate."""
    made = plan(parse_request("pytorch_naive", "test"), A100, FA1)
    asked = made.choices
    assert (128, 256, 128, 64) == (asked.tile_q, asked.tile_kv, asked.pv_tile_q, asked.pv_tile_d)
    efficiency = {kernel.name: kernel.cost.matmul_efficiency for kernel in made.graph.kernels}
    assert 0.947 == efficiency["qk"]
    assert pytest.approx(0.947 * (2 / 3) ** 0.5) == efficiency["pv"]


@pytest.mark.parametrize(
    ("spec", "head_dim", "efficiency"),
    [
        (A100, 128, 0.95),
        (A100, 64, 0.95 * 64 / 128),
        (A100, 16, 0.95 * 16 / 128),
        (H100, 128, 0.80),
        (H100, 64, 0.80 * (2 / 3) ** 0.5),  # 128 · 64/192 = 42.7 of 64
        (H100, 32, 0.80 * (25.6 / 64) ** 0.5),
        (H100, 16, 0.80 * (25.6 / 64) ** 0.5 * 16 / 32),
    ],
)
def test_fp32_lanes_compute_whole_tiles(spec: GpuSpec, head_dim: int, efficiency: float) -> None:
    """PV of 64 columns in tiles of 128 works half for nothing, beside what flat tiles lose."""
    asked = FA1.model_copy(update={"head_dim": head_dim, "head_dim_v": head_dim, "dtype": DType.FP32})
    (pv,) = (k for k in plan(parse_request("pytorch_naive", "test"), spec, asked).graph.kernels if k.name == "pv")
    assert efficiency == pytest.approx(pv.cost.matmul_efficiency)


@pytest.mark.parametrize("spec", [A100, H100])
@pytest.mark.parametrize("head_dim", [16, 40, 64, 128, 256])
def test_fp32_stages_of_one_cta_fit_shared_memory(spec: GpuSpec, head_dim: int) -> None:
    """A line of each row a stage, two stages; PV advances by 32 keys."""
    asked = FA1.model_copy(update={"head_dim": head_dim, "head_dim_v": head_dim, "dtype": DType.FP32})
    made = plan(parse_request("pytorch_naive", "test"), spec, asked)
    assert (32 if head_dim % 32 == 0 else head_dim, 32) == (made.choices.qk_step, made.choices.pv_step)
    assert {1} == {kernel.ctas_per_sm for kernel in made.graph.kernels if kernel.name in ("qk", "pv")}


def test_a_stated_tile_wins() -> None:
    """Stating tile_q leaves the rest to the planner."""
    asked = plan(parse_request({"name": "pytorch_naive", "tile_q": 64}, "test"), A100, FA1).choices
    assert (64, 256, 128, 64) == (asked.tile_q, asked.tile_kv, asked.pv_tile_q, asked.pv_tile_d)
