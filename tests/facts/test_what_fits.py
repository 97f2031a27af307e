"""Shared memory and registers of a tile set, and the refusal when they do not fit."""

import pytest

from gpusim.analytic import check_fits, registers_per_thread
from gpusim.dtypes import DType
from gpusim.errors import DoesNotFitError, ScenarioError, UnknownNameError, UnsupportedError
from gpusim.fit import fit_tiles, implementations_that_fit
from gpusim.implementations import parse_request, plan
from gpusim.point import Point, run_point
from gpusim.results import PointResult
from gpusim.schedules import SCHEDULES, FlashChoices
from gpusim.specs import load_gpu
from gpusim.taskgraph import Kernel
from gpusim.workloads import AttentionWorkload, Conditions


def attention(seqlen: int, head_dim: int) -> AttentionWorkload:
    """One head of self-attention."""
    return AttentionWorkload(batch=1, heads=1, seqlen_q=seqlen, seqlen_k=seqlen, head_dim=head_dim)


def flash2(workload: AttentionWorkload, **choices: object) -> Kernel:
    """The FA-2 kernel with these choices."""
    (kernel,) = SCHEDULES["flash2"].build(workload, FlashChoices(**choices), {}).kernels
    return kernel


def canvas_point(tile: int) -> PointResult:
    """FlashAttention with square tiles on canvas."""
    request = parse_request({"name": "flash2", "tile_q": tile, "tile_kv": tile}, "test")
    return run_point(Point(load_gpu("canvas"), request, attention(8, 4), Conditions(timing="ncu")))


@pytest.mark.parametrize(("tile", "numbers"), [(4, 88), (2, 40), (8, 208)])
@pytest.mark.parametrize("schedule", ["flash1", "flash2"])
def test_the_textbook_tile_set_needs_4bd_plus_b2_plus_2b_numbers(schedule: str, tile: int, numbers: int) -> None:
    """Q, K, V, O tiles, the scores, m and ℓ in shared memory: 88, 40 and 208 numbers at d = 4."""
    found = SCHEDULES[schedule]
    choices = found.choices(tile_q=tile, tile_kv=tile, warps=1, accumulators="smem", accumulator_bytes=2)
    (kernel,) = found.build(attention(8, 4), choices, {}).kernels
    assert numbers == 4 * tile * 4 + tile**2 + 2 * tile
    assert numbers * 2 == kernel.smem_bytes


@pytest.mark.parametrize(("tile", "numbers"), [(4, 88), (2, 40)])
def test_canvas_runs_tiles_of_4_and_of_2(tile: int, numbers: int) -> None:
    """88 and 40 of 96 numbers fit, and the point reports their bytes."""
    result = canvas_point(tile)
    assert ("ok", numbers * 2) == (result.status, result.smem_bytes_per_cta)


def test_canvas_refuses_tiles_of_8_with_both_numbers_the_knob_and_a_tile_that_fits() -> None:
    """208 numbers against 96: the answer names tile_q and tile_kv and the tiles of 4 that fit."""
    result = canvas_point(8)
    assert "refused" == result.status
    assert "208 numbers" in result.reason
    assert "96 numbers" in result.reason
    assert "lower tile_q, tile_kv" in result.fix
    assert "tile_q: 4, tile_kv: 4" in result.fix


@pytest.mark.parametrize(
    ("tile_q", "tile_kv", "stages", "head_dim", "smem_bytes"),
    [
        (128, 128, 1, 64, 49_152),  # (128 + 2·128)·64·2
        (128, 64, 1, 128, 65_536),  # (128 + 2·64)·128·2
        (128, 64, 2, 128, 98_304),  # (128 + 2·2·64)·128·2
        (64, 128, 3, 32, 53_248),  # (64 + 3·2·128)·32·2
    ],
)
def test_with_registers_shared_memory_is_q_and_the_kv_stages(
    tile_q: int, tile_kv: int, stages: int, head_dim: int, smem_bytes: int
) -> None:
    """S, O, m and ℓ are in registers; shared memory holds one Q tile and `stages` of K and of V."""
    kernel = flash2(attention(512, head_dim), tile_q=tile_q, tile_kv=tile_kv, stages=stages)
    assert smem_bytes == kernel.smem_bytes


def test_square_tiles_of_128_at_head_dim_128_need_256_registers_on_four_warps() -> None:
    """S and O are 2·128·128·4 bytes over 128 threads: 256 registers against 255, refused by name and number."""
    request = parse_request({"name": "flash2", "tile_q": 128, "tile_kv": 128}, "test")
    result = run_point(Point(load_gpu("a100_sxm4_40gb"), request, attention(1024, 128), Conditions()))
    assert "refused" == result.status
    assert "256 registers" in result.reason
    assert "255" in result.reason
    assert "raise warps" in result.fix


def test_eight_warps_hold_the_same_tiles_in_128_registers() -> None:
    """Twice the threads halve the accumulators of each; the kernel fits."""
    kernel = flash2(attention(1024, 128), tile_q=128, tile_kv=128, warps=8)
    assert 128 == kernel.accumulator_registers_per_thread
    check_fits(kernel, load_gpu("a100_sxm4_40gb"))


def test_the_tile_that_the_refusal_names_does_fit() -> None:
    """Following the advice of the refusal leads to a point that runs."""
    spec, workload = load_gpu("a100_sxm4_40gb"), attention(256, 256)
    asked = {"name": "flash2", "tile_q": 256, "tile_kv": 256, "warps": 8}
    with pytest.raises(DoesNotFitError) as caught:
        plan(parse_request(asked, "test"), spec, workload)
    advice = caught.value.fix.partition("; ")[2].removesuffix(" fits")
    stated = {name: int(value) for name, value in (part.split(": ") for part in advice.split(", "))}
    assert {"tile_q", "tile_kv", "stages"} == set(stated)
    plan(parse_request(asked | stated, "test"), spec, workload)


def test_more_threads_than_a_cta_may_have_are_refused() -> None:
    """33 warps are 1,056 threads against 1,024."""
    kernel = flash2(attention(256, 64), tile_q=128, tile_kv=128, warps=33)
    with pytest.raises(DoesNotFitError, match=r"1056 threads .* 1024"):
        check_fits(kernel, load_gpu("a100_sxm4_40gb"))


@pytest.mark.parametrize(
    ("head_dim", "tile_q", "tile_kv", "warps", "registers", "smem_bytes"),
    [
        (64, 192, 192, 16, 160, 122_880),  # (192 + 2·2·192)·64·2; three consumer warpgroups and a producer
        (128, 128, 176, 12, 240, 212_992),  # (128 + 2·2·176)·128·2; two and a producer
    ],
)
def test_the_released_tiles_of_flash3_are_among_those_tried_and_fit(
    head_dim: int, tile_q: int, tile_kv: int, warps: int, registers: int, smem_bytes: int
) -> None:
    """Of warpgroups of 64 rows, with the registers that the kernel sets itself; one CTA fills the SM."""
    rows = fit_tiles(load_gpu("h100_sxm5_80gb"), "flash3", head_dim=head_dim, stages=[2])
    assert {64, 128, 192} == {row.tile_q for row in rows}
    (row,) = [row for row in rows if (tile_q, tile_kv) == (row.tile_q, row.tile_kv)]
    assert (warps, registers, smem_bytes) == (row.warps, row.registers_per_thread, row.smem_bytes_per_cta)
    assert (True, 1) == (row.fits, row.ctas_per_sm)


@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize("name", implementations_that_fit())
def test_what_fit_says_of_the_released_tile_is_what_runs(name: str, head_dim: int) -> None:
    """The tile of the table is tried without being asked for, with the same memory and registers as in a run."""
    spec = load_gpu("a100_sxm4_80gb" if "flash1" in name else "h100_sxm5_80gb")
    ran = plan(parse_request(name, "test"), spec, attention(4096, head_dim))
    (kernel,) = ran.graph.kernels
    sizes = [ran.choices.tile_q, ran.choices.tile_kv, ran.choices.stages, ran.choices.warps]
    found = [
        row
        for row in fit_tiles(spec, name, head_dim=head_dim)
        if sizes == [row.tile_q, row.tile_kv, row.stages, row.warps]
    ]
    assert [(True, kernel.smem_bytes, registers_per_thread(kernel, spec.sm))] == [
        (row.fits, row.smem_bytes_per_cta, row.registers_per_thread) for row in found
    ]


def test_fit_is_about_attention_in_one_kernel() -> None:
    """Eager attention has a tile a kernel, a product no Q; both are refused with the names that are fitted."""
    assert {"flash1", "flash2", "flash3", "triton", "gpusim_cuda"} <= set(implementations_that_fit())
    for name in ("pytorch_naive", "torch_matmul"):
        with pytest.raises(
            ScenarioError, match=f"{name} is not attention in one kernel.* one of: flash1, flash2, flash3"
        ):
            fit_tiles(load_gpu("a100_sxm4_80gb"), name, head_dim=64)
    with pytest.raises(UnknownNameError, match="'flash9' is not known; choose one of: flash1, flash2, flash3"):
        fit_tiles(load_gpu("a100_sxm4_80gb"), "flash9", head_dim=64)


def test_a_size_that_the_schedule_does_not_have_is_refused() -> None:
    """A warpgroup has 64 rows, and warps follow from them."""
    spec = load_gpu("h100_sxm5_80gb")
    with pytest.raises(ScenarioError, match=r"tile_q: got 100, expected .* a multiple of 64"):
        fit_tiles(spec, "flash3", head_dim=64, tiles_q=[64, 100])
    with pytest.raises(ScenarioError, match=r"warps = 8, but tile_q = 128 takes .* 12 warps; leave warps out"):
        fit_tiles(spec, "flash3", head_dim=64, tiles_q=[128], warps=[8])


def test_missing_instructions_come_before_a_size_that_no_smaller_tile_would_cure() -> None:
    """512 x 512 at d = 256 fits no SM, but flash3 runs on no A100 at any size."""
    with pytest.raises(UnsupportedError, match="multiplies with wgmma but a100_sxm4_80gb has only mma_sync"):
        fit_tiles(load_gpu("a100_sxm4_80gb"), "flash3", head_dim=256, tiles_q=[512], tiles_kv=[512])


def refusal(asked: dict[str, object], *, gpu: str = "a100_sxm4_40gb", head_dim: int = 128) -> DoesNotFitError:
    """Why a plan is refused, and the fix."""
    with pytest.raises(DoesNotFitError) as caught:
        plan(parse_request(asked, "test"), load_gpu(gpu), attention(1024, head_dim))
    return caught.value


@pytest.mark.parametrize(
    ("warps", "tile_q", "tile_kv", "fix"),
    [
        (33, 128, 64, "lower warps to 8"),  # 1,056 threads; no smaller tile would help
        (4, 128, 128, "raise warps to 8, or lower tile_q, tile_kv; tile_q: 128, tile_kv: 64, stages: 1 fits"),
    ],
)
def test_a_fix_that_names_warps_is_accepted(warps: int, tile_q: int, tile_kv: int, fix: str) -> None:
    """Eight warps have a matrix instruction's 16 rows of 128 each; that is 256 threads with half the sums of four."""
    asked = {"name": "flash2", "tile_q": tile_q, "tile_kv": tile_kv, "stages": 1, "warps": warps}
    assert fix == refusal(asked).fix
    plan(parse_request(asked | {"warps": 8}, "test"), load_gpu("a100_sxm4_40gb"), attention(1024, 128))


def test_no_tile_is_named_where_none_is_accepted() -> None:
    """64 rows of O at d = 512 are 256 registers of the 128 threads of a warpgroup, which takes neither fewer rows nor
    more warps."""
    error = refusal({"name": "flash3", "tile_q": 64, "tile_kv": 32}, gpu="h100_sxm5_80gb", head_dim=512)
    assert "allows 255" in error.reason
    assert "no smaller tile fits; lower head_dim, or choose another schedule" == error.fix


def test_a_fix_of_warpgroups_has_whole_ones() -> None:
    """Half of 192 rows is no number of warpgroups; two of them are."""
    asked = {"name": "flash3", "tile_q": 192, "tile_kv": 256, "stages": 2}
    advice = refusal(asked, gpu="h100_sxm5_80gb").fix.partition("; ")[2].removesuffix(" fits")
    stated = {name: int(value) for name, value in (part.split(": ") for part in advice.split(", "))}
    assert 128 == stated["tile_q"]
    plan(parse_request(asked | stated, "test"), load_gpu("h100_sxm5_80gb"), attention(1024, 128))


@pytest.mark.parametrize(
    ("name", "gpu", "tile_q", "tile_kv", "named"),
    [
        ("flash2", "a100_sxm4_40gb", 8, 8, (16, 16)),
        ("flash2", "a100_sxm4_40gb", 100, 50, (96, 48)),
        ("flash2", "a100_sxm4_40gb", 64, 40, (64, 32)),
        ("flash1", "a100_sxm4_40gb", 8, 64, (16, 64)),
        ("triton", "h100_sxm5_80gb", 64, 8, (64, 16)),
        ("naive", "a100_sxm4_40gb", 8, 64, (16, 64)),
        ("flash3", "h100_sxm5_80gb", 64, 24, (64, 16)),
    ],
)
def test_a_tile_is_whole_matrix_instructions(
    name: str, gpu: str, tile_q: int, tile_kv: int, named: tuple[int, int]
) -> None:
    """m16n8k16 takes 16 rows of Q, and as the depth of PV 16 keys; the nearest tile is named and accepted."""
    asked = {"name": name, "tile_q": tile_q, "tile_kv": tile_kv, "stages": 1}
    error = refusal(asked, gpu=gpu, head_dim=64)
    wrong = [f"{side} = {size}" for side, size in (("tile_q", tile_q), ("tile_kv", tile_kv)) if size % 16]
    assert all(f"{side} is no multiple of 16" in error.reason for side in wrong)
    assert f"use such multiples; tile_q: {named[0]}, tile_kv: {named[1]}, stages: 1 fits" == error.fix
    accepted = asked | {"tile_q": named[0], "tile_kv": named[1]}
    plan(parse_request(accepted, "test"), load_gpu(gpu), attention(1024, 64))


def test_fp32_is_multiplied_without_matrix_instructions() -> None:
    """On the FP32 lanes tiles may have any size."""
    workload = attention(1024, 64).model_copy(update={"dtype": DType.FP32})
    plan(parse_request({"name": "pytorch_naive", "tile_q": 40}, "test"), load_gpu("a100_sxm4_40gb"), workload)


def test_fit_refuses_what_is_less_than_a_matrix_instruction() -> None:
    """As a run does, with its reason; the smallest tile of 16 x 16 fits."""
    rows = fit_tiles(load_gpu("a100_sxm4_80gb"), "flash2", head_dim=64, tiles_q=[8, 16], tiles_kv=[16], warps=[4])
    assert {(8, False, "matrix instructions"), (16, True)} == {
        (row.tile_q, row.fits) if row.fits else (row.tile_q, row.fits, row.limited_by) for row in rows
    }
    assert all("tile_q = 8 is no multiple of 16" in str(row.reason) for row in rows if not row.fits)


@pytest.mark.parametrize(
    ("gpu", "dtype", "reason"),
    [
        ("t4", "bf16", "multiplies in bf16 but t4 states no matrix rate for it"),
        ("v100_sxm2_16gb", "bf16", "multiplies in bf16 but v100_sxm2_16gb states no matrix rate for it"),
        ("a100_sxm4_80gb", "fp32", "flash2 has no model for dtype fp32"),
    ],
)
def test_fit_has_no_tiles_for_a_number_format_that_does_not_run(gpu: str, dtype: str, reason: str) -> None:
    """Tensor cores before Ampere take fp16 alone, and FlashAttention takes no fp32."""
    with pytest.raises(UnsupportedError, match=reason):
        fit_tiles(load_gpu(gpu), "flash2", head_dim=64, dtype=DType(dtype))
