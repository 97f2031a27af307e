"""From the name in a scenario to a task graph: requests, tables, refusals."""

from collections.abc import Mapping

import pytest

from gpusim.errors import DoesNotFitError, InputError, ScenarioError, UnknownNameError, UnsupportedError
from gpusim.implementations import ScheduleRequest, implementations, names_that_compute, parse_request, plan
from gpusim.schedules import SCHEDULES, Choices
from gpusim.specs import load_gpu
from gpusim.taskgraph import KernelCost, MatMul
from gpusim.workloads import AttentionWorkload

ATTENTION = names_that_compute(AttentionWorkload)
A100, H100, CANVAS = load_gpu("a100_sxm4_40gb"), load_gpu("h100_sxm5_80gb"), load_gpu("canvas")


def attention(seqlen: int = 512, head_dim: int = 64, **options: object) -> AttentionWorkload:
    """Four heads of self-attention."""
    shape = {"batch": 1, "heads": 4, "seqlen_q": seqlen, "seqlen_k": seqlen, "head_dim": head_dim}
    return AttentionWorkload.model_validate(shape | options)


def choices(written: object, gpu: str = "a100_sxm4_40gb", **shape: int) -> Choices:
    """What the plan of a request uses."""
    return plan(parse_request(written, "test"), load_gpu(gpu), attention(**shape)).choices


def refusal(written: object) -> str:
    """The message that parsing this request raises."""
    with pytest.raises(InputError) as caught:
        parse_request(written, "here")
    return str(caught.value)


def test_a_bare_name_is_a_released_implementation() -> None:
    """No choices, no version, reported under its name."""
    request = parse_request("flash2", "test")
    assert (ScheduleRequest("flash2"), "flash2") == (request, request.label)


@pytest.mark.parametrize("version", ["2022-05", "2022-12"])
def test_a_version_follows_an_at_sign(version: str) -> None:
    """flash1 has two published versions; a mapping may name one too."""
    assert ScheduleRequest("flash1", version) == parse_request(f"flash1@{version}", "test")
    stated = parse_request({"name": f"flash1@{version}", "tile_q": 16}, "test")
    assert ("flash1", version, {"tile_q": 16}) == (stated.name, stated.version, dict(stated.choices))


def test_the_plan_carries_the_version() -> None:
    """What was asked is what the result reports."""
    assert "2022-05" == plan(parse_request("flash1@2022-05", "test"), A100, attention()).version


def test_a_mapping_with_choices_is_custom() -> None:
    """The schedule with stated tiles is no released kernel any more."""
    request = parse_request({"name": "flash2", "tile_q": 64, "tile_kv": 32}, "test")
    assert "custom" == request.label == plan(request, A100, attention()).implementation


def test_what_a_mapping_leaves_out_comes_from_the_table() -> None:
    """Stating tile_kv keeps the released tile_q of 128, 4 warps and 1 stage at head dim 64."""
    asked = choices({"name": "flash2", "tile_kv": 32})
    assert (128, 32, 4, 1) == (asked.tile_q, asked.tile_kv, asked.warps, asked.stages)


def test_pins_of_the_released_kernel_do_not_bind_a_custom_one() -> None:
    """flash1's table pins 2 CTAs an SM and a grain of 16; other tiles drop both unless they are stated."""
    released, custom = choices("flash1"), choices({"name": "flash1", "tile_q": 32})
    assert (2, 16) == (released.ctas_per_sm, released.grain)
    assert (None, 1) == (custom.ctas_per_sm, custom.grain)
    assert 8 == choices({"name": "flash1", "tile_q": 32, "grain": 8}).grain


@pytest.mark.parametrize(
    ("gpu", "head_dim", "tiles"),
    [
        ("a100_sxm4_40gb", 64, (128, 128, 4)),
        ("a100_sxm4_40gb", 128, (128, 64, 4)),
        ("a100_sxm4_40gb", 160, (128, 32, 4)),
        ("a100_sxm4_40gb", 161, (128, 64, 8)),
        ("a100_sxm4_40gb", 192, (128, 64, 8)),
        ("a100_sxm4_40gb", 256, (128, 64, 8)),
        ("h100_sxm5_80gb", 256, (64, 64, 4)),
        ("a30", 128, (128, 64, 4)),
        ("rtx_a5000", 64, (128, 128, 4)),
        ("rtx_3090", 96, (128, 64, 4)),
        ("a10", 128, (128, 32, 4)),
        ("l40s", 128, (128, 32, 4)),
        ("rtx_4090", 192, (128, 64, 8)),
        ("l4", 256, (64, 64, 4)),
    ],
)
def test_flash2_has_the_tiles_of_its_launch_template(gpu: str, head_dim: int, tiles: tuple[int, int, int]) -> None:
    """kBlockM, kBlockN and warps of flash_fwd_launch_template.h."""
    asked = choices("flash2", gpu, head_dim=head_dim)
    assert tiles == (asked.tile_q, asked.tile_kv, asked.warps)


@pytest.mark.parametrize(("seqlen", "tile_kv"), [(128, 128), (129, 256), (4096, 256)])
def test_flash1_takes_wider_blocks_beyond_128_keys(seqlen: int, tile_kv: int) -> None:
    """fmha_fwd_hdim64.cu launches 128 columns up to N = 128 and 256 beyond."""
    assert tile_kv == choices("flash1", seqlen=seqlen).tile_kv


PREPARED = {
    None: ["scale_k", "copy_q", "transpose_k", "copy_v"],
    "fa1_paper": ["scale_k", "copy_q", "transpose_k", "copy_v"],
    "flash_attn_bench": ["copy_q", "transpose_k", "copy_v"],
    "xformers_bench": ["copy_q", "copy_k", "copy_v", "scale_q"],
    "fxmarty": ["copy_q", "transpose_k", "copy_v"],
}
MASK = ["mask_fill", "mask_triangle", "mask_cast", "add_mask"]


def kernel_names(stack: str | None, **options: object) -> list[str]:
    """The kernels of eager PyTorch under a software stack."""
    graph = plan(parse_request("pytorch_naive", "test"), A100, attention(**options), stack).graph
    return [kernel.name for kernel in graph.kernels]


@pytest.mark.parametrize("stack", PREPARED)
def test_the_pass_list_is_that_of_the_stack(stack: str | None) -> None:
    """Passes over Q, K and V, then QK, softmax and PV; fxmarty's benchmark divides the scores between them."""
    divide = ["divide"] if stack == "fxmarty" else []
    assert [*PREPARED[stack], "qk", *divide, "softmax", "pv"] == kernel_names(stack)


@pytest.mark.parametrize("stack", [None, "fa1_paper", "flash_attn_bench", "xformers_bench"])
def test_a_causal_mask_is_built_and_added_every_call(stack: str | None) -> None:
    """Filled, cut to a triangle, converted and added, between QK and the softmax."""
    assert [*PREPARED[stack], "qk", *MASK, "softmax", "pv"] == kernel_names(stack, causal=True)


WRITTEN_OUT = ["row_max", "subtract_max", "exp", "row_sum", "divide_by_sum"]


@pytest.mark.parametrize("gpu", ["a100_sxm4_40gb", "h100_sxm5_80gb"])
@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32"])
@pytest.mark.parametrize("causal", [False, True])
def test_the_cs336_benchmark_writes_its_softmax_out(gpu: str, dtype: str, causal: bool) -> None:
    """Nine kernels, no copies: a division, a mask that exists before the call, and five passes for the softmax."""
    asked = attention(dtype=dtype, causal=causal)
    graph = plan(parse_request("pytorch_naive", "test"), load_gpu(gpu), asked, "cs336").graph
    where = ["where"] if causal else []
    assert ["qk", "divide", *where, *WRITTEN_OUT, "pv"] == [kernel.name for kernel in graph.kernels]


def test_passes_over_rows_are_broadcasts_and_the_others_contiguous() -> None:
    """0.771 clocks a score where an operand has another shape; reductions and e^x wait for memory."""
    asked = attention(dtype="fp32", causal=True)
    graph = plan(parse_request("pytorch_naive", "test"), H100, asked, "cs336").graph
    cycles = {kernel.name: kernel.cost.elementwise_cycles_per_element for kernel in graph.kernels}
    broadcast = dict.fromkeys(("where", "subtract_max", "divide_by_sum"), 0.771)
    contiguous = dict.fromkeys(("divide", "row_max", "exp", "row_sum"))
    assert broadcast | contiguous == {name: cycles[name] for name in broadcast | contiguous}
    efficiency = {k.name: k.cost.hbm_efficiency for k in graph.kernels if k.name not in ("qk", "pv")}
    assert dict.fromkeys(broadcast | contiguous, 0.957) == efficiency


@pytest.mark.parametrize(
    ("gpu", "efficiency", "epilogue"), [("a100_sxm4_80gb", 0.95, 0.062), ("h100_sxm5_80gb", 0.80, 0.30)]
)
def test_fp32_has_constants_of_its_own(gpu: str, efficiency: float, epilogue: float) -> None:
    """GEMMs on the FP32 lanes, without prologue or overlap of tensor kernels, and a softmax bound by memory."""
    graph = plan(parse_request("pytorch_naive", "test"), load_gpu(gpu), attention(4096, dtype="fp32")).graph
    costs = {kernel.name: kernel.cost for kernel in graph.kernels}
    assert (
        KernelCost(matmul_efficiency=efficiency, epilogue_cycles_per_element=epilogue, hbm_efficiency=0.954)
        == costs["qk"]
    )
    assert KernelCost(hbm_efficiency=0.957) == costs["softmax"]


@pytest.mark.parametrize(
    ("stack", "scaled", "cycles"),
    [("xformers_bench", "scale_q", None), ("fa1_paper", "scale_k", 0.70), (None, "scale_k", 0.70)],
)
def test_scaling_what_a_copy_wrote_is_contiguous(stack: str | None, scaled: str, cycles: float | None) -> None:
    """xformers' benchmark scales Q after its copy, FlashAttention's scales the strided view of K before it."""
    graph = plan(parse_request("pytorch_naive", "test"), A100, attention(), stack).graph
    (scale,) = (kernel for kernel in graph.kernels if kernel.name == scaled)
    assert cycles == scale.cost.elementwise_cycles_per_element


@pytest.mark.parametrize(("gpu", "warp_tile"), [("a100_sxm4_80gb", (64, 64)), ("h100_sxm5_80gb", (64, 256))])
def test_warps_of_a_gemm_stand_side_by_side(gpu: str, warp_tile: tuple[int, int]) -> None:
    """Tensor kernels of A100 in warp tiles of 64 × 64; a warpgroup of Hopper's wgmma takes all columns."""
    graph = plan(parse_request("pytorch_naive", "test"), load_gpu(gpu), attention()).graph
    products = [task.op for kernel in graph.kernels for task in kernel.tasks() if isinstance(task.op, MatMul)]
    assert [warp_tile, warp_tile] == [product.warp_tile for product in products]


@pytest.mark.parametrize("stack", PREPARED)
def test_k_is_transposed_except_under_xformers(stack: str | None) -> None:
    """Where a pass wrote Kᵀ, QK multiplies by it as it is; xformers' GEMM reads K itself, row by row."""
    graph = plan(parse_request("pytorch_naive", "test"), A100, attention(), stack).graph
    (qk,) = (kernel for kernel in graph.kernels if kernel.name == "qk")
    (product,) = (task.op for task in qk.tasks() if isinstance(task.op, MatMul))
    assert product.transpose_b == (stack == "xformers_bench")
    k = next(tensor for tensor in qk.loaded() if tensor.name.startswith("K"))
    assert ((512, 64) if stack == "xformers_bench" else (64, 512)) == (k.rows, k.cols)


@pytest.mark.parametrize("name", ["naive", "flash1", "flash2"])
def test_canvas_gets_the_textbook_and_the_largest_tile_that_fits(name: str) -> None:
    """No register file: accumulators in shared memory, one stage, one warp; of 8, 4, 2 and 1 rows, 4 fit 96 numbers."""
    asked = choices(name, "canvas", seqlen=8, head_dim=4)
    assert ("smem", 1, 1, 2) == (asked.accumulators, asked.stages, asked.warps, asked.accumulator_bytes)
    assert 4 == asked.tile_q


def test_constants_of_the_real_kernel_do_not_apply_to_canvas() -> None:
    """A toy without registers runs on ideal units."""
    (kernel,) = plan(parse_request("flash2", "test"), CANVAS, attention(8, 4)).graph.kernels
    (real,) = plan(parse_request("flash2", "test"), A100, attention()).graph.kernels
    assert (None, 0.081) == (kernel.cost.softmax_cycles_per_score, real.cost.softmax_cycles_per_score)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"dropout": 0.1}, "dropout 0.1"),
        ({"mask": "alibi"}, "mask 'alibi'"),
        ({"window": 256}, "a sliding window"),
        ({"pass": "bwd"}, "pass bwd"),
        ({"pass": "fwd_bwd"}, "pass fwd_bwd"),
    ],
)
@pytest.mark.parametrize("name", ATTENTION)
def test_what_no_model_covers_is_unsupported_by_name(name: str, options: Mapping[str, object], named: str) -> None:
    """Nothing is silently ignored: the refusal names the option, and says what to ask for."""
    with pytest.raises(UnsupportedError) as caught:
        plan(parse_request(name, "test"), A100, attention(**options))
    assert named in caught.value.reason
    assert "ask for a forward pass without that" == caught.value.fix


GROUPED = ("flash2", "flash3")


@pytest.mark.parametrize("name", [name for name in ATTENTION if name not in GROUPED])
def test_grouped_heads_are_only_in_the_newer_flash_kernels(name: str) -> None:
    """The matrix products of the others read one K/V head for each query head."""
    for grouped in GROUPED:
        plan(parse_request(grouped, "test"), H100, attention(kv_heads=2))
    with pytest.raises(UnsupportedError) as caught:
        plan(parse_request(name, "test"), H100, attention(kv_heads=2))
    assert "grouped K/V heads" in caught.value.reason


@pytest.mark.parametrize("name", [name for name in ATTENTION if name != "pytorch_naive"])
def test_a_dtype_without_a_model_is_unsupported(name: str) -> None:
    """No constants for fp32; the fix lists the formats that have them."""
    with pytest.raises(UnsupportedError, match="has no model for dtype fp32") as caught:
        plan(parse_request(name, "test"), H100, attention(dtype="fp32"))
    assert "use fp16, bf16" == caught.value.fix


@pytest.mark.parametrize("name", ["naive", "flash1"])
def test_textbook_attention_and_flash1_have_no_causal_mask(name: str) -> None:
    """No model of it, on real GPUs and on the toy alike; flash2 has one on both."""
    for spec in (A100, CANVAS):
        with pytest.raises(UnsupportedError, match="no model yet for a causal mask"):
            plan(parse_request(name, "test"), spec, attention(8, 4, causal=True))
        plan(parse_request("flash2", "test"), spec, attention(8, 4, causal=True))


def test_a_causal_mask_of_unequal_lengths_is_unsupported_in_eager_attention() -> None:
    """The scripts that were modelled build square masks; fused kernels align the last query with the last key."""
    asked = attention(512, seqlen_k=256, causal=True)
    with pytest.raises(UnsupportedError, match="a causal mask with seqlen_q ≠ seqlen_k"):
        plan(parse_request("pytorch_naive", "test"), A100, asked)
    for name in ("flash2", "flash3"):
        plan(parse_request(name, "test"), H100, asked)


def test_flash3_needs_wgmma() -> None:
    """The refusal names the instruction, what the GPU has instead, and what to do."""
    with pytest.raises(UnsupportedError) as caught:
        plan(parse_request("flash3", "test"), A100, attention())
    assert "flash3 multiplies with wgmma but a100_sxm4_40gb has only mma_sync" == caught.value.reason
    assert "use flash2, or a Hopper GPU" == caught.value.fix


@pytest.mark.parametrize(
    ("version", "head_dim", "causal", "tiles"),
    [
        (None, 64, False, (192, 192, 1, "ascending")),
        ("2024-07", 64, False, (192, 128, 1, "ascending")),
        (None, 64, True, (192, 128, 1, "longest_first")),
        ("2024-07", 64, True, (192, 128, 1, "ascending")),
        (None, 96, False, (192, 144, 1, "ascending")),
        (None, 128, False, (128, 176, 2, "ascending")),
        (None, 128, True, (128, 128, 1, "longest_first")),
        (None, 192, False, (128, 112, 2, "ascending")),
        (None, 256, False, (128, 80, 2, "ascending")),
        (None, 256, True, (128, 80, 1, "longest_first")),
    ],
)
def test_flash3_has_the_tiles_of_its_version(
    version: str | None, head_dim: int, causal: bool, tiles: tuple[int, int, int, str]
) -> None:
    """kBlockM, kBlockN and cluster of the launch template of 2024-07 or tile_size.h of 2025, and who goes first."""
    asked = plan(ScheduleRequest("flash3", version), H100, attention(head_dim=head_dim, causal=causal)).choices
    assert tiles == (asked.tile_q, asked.tile_kv, asked.cluster, asked.order)


def test_a_name_without_a_version_means_the_default_one() -> None:
    """flash3 is that of 2025, and the result says so; flash2 has one version and none to report."""
    assert "2025" == plan(parse_request("flash3", "test"), H100, attention()).version
    assert plan(parse_request("flash2", "test"), H100, attention()).version is None


@pytest.mark.parametrize("tile_q", [1, 32, 100])
def test_a_tile_of_flash3_is_whole_warpgroups(tile_q: int) -> None:
    """A consumer warpgroup multiplies 64 rows."""
    assert f"schedule flash3, tile_q: got {tile_q}, expected" in refusal({"name": "flash3", "tile_q": tile_q})


@pytest.mark.parametrize(
    ("written", "gpu", "stack", "said"),
    [
        ("pytorch_naive", "canvas", None, "no model yet for a causal mask with accumulators in shared memory"),
        ("pytorch_naive", "a100_sxm4_40gb", "fxmarty", "score_passes = ['divide'] adds none"),
        ({"name": "pytorch_naive", "score_passes": []}, "a100_sxm4_40gb", None, "score_passes = [] adds none"),
    ],
)
def test_causal_attention_without_its_mask_is_refused(written: object, gpu: str, stack: str | None, said: str) -> None:
    """Where no pass would add the mask the graph would compute something else, and take another time."""
    with pytest.raises(UnsupportedError) as caught:
        plan(parse_request(written, "test"), load_gpu(gpu), attention(8, 4, causal=True), stack)
    assert said in caught.value.reason


def test_a_mask_nobody_asked_for_is_refused() -> None:
    """A stated mask pass belongs to a causal workload; with one it runs."""
    request = parse_request({"name": "pytorch_naive", "score_passes": ["add_causal_mask"]}, "test")
    with pytest.raises(UnsupportedError, match="masks, but the workload has no causal mask"):
        plan(request, A100, attention())
    assert "add_mask" in [kernel.name for kernel in plan(request, A100, attention(causal=True)).graph.kernels]


def test_a_mask_nobody_asked_for_is_named_with_its_pass() -> None:
    """The passes to leave out are those that were stated."""
    request = parse_request({"name": "pytorch_naive", "score_passes": ["where_causal"]}, "test")
    with pytest.raises(UnsupportedError) as caught:
        plan(request, A100, attention())
    assert "leave where_causal out, or ask for the mask" == caught.value.fix


def test_the_passes_that_would_mask_are_named() -> None:
    """Either of them makes the workload causal."""
    request = parse_request({"name": "pytorch_naive", "score_passes": []}, "test")
    with pytest.raises(UnsupportedError) as caught:
        plan(request, A100, attention(causal=True))
    assert caught.value.fix.startswith("add add_causal_mask or where_causal to score_passes")


def test_eager_attention_masks_padding_in_a_pass_of_its_own() -> None:
    """The pass stands between QKᵀ and the softmax; a fused kernel has no model for it."""
    names = [
        k.name for k in plan(parse_request("pytorch_naive", "test"), A100, attention(mask="padding")).graph.kernels
    ]
    assert ["qk", "mask_keys", "softmax", "pv"] == names[-4:]
    with pytest.raises(UnsupportedError, match="mask 'padding'"):
        plan(parse_request("megatron_fused_softmax", "test"), A100, attention(mask="padding"))


def test_several_uncovered_options_are_named_together() -> None:
    """One answer for all of them."""
    with pytest.raises(UnsupportedError, match=r"pass bwd, a causal mask, dropout 0\.2"):
        plan(parse_request("flash1", "test"), A100, attention(causal=True, dropout=0.2, **{"pass": "bwd"}))


def test_a_gpu_without_a_tile_table_says_so_and_how_to_state_tiles() -> None:
    """flash1 was released for Ampere; on Hopper stated tiles work."""
    with pytest.raises(UnsupportedError) as caught:
        plan(parse_request("flash1", "test"), H100, attention())
    assert "flash1 has no tile table for hopper (compute capability 9.0) with head_dim 64" == caught.value.reason
    assert "{name: flash1, tile_q: 64, tile_kv: 64}" in caught.value.fix
    plan(parse_request({"name": "flash1", "tile_q": 64, "tile_kv": 64}, "test"), H100, attention())


@pytest.mark.parametrize(
    ("name", "gpu", "architecture"),
    [
        ("flash1", "rtx_3090", "ampere (compute capability 8.6)"),
        ("pytorch_naive", "a10", "ampere (compute capability 8.6)"),
        ("pytorch_naive", "l40s", "ada (compute capability 8.9)"),
        ("flash2", "t4", "turing (compute capability 7.5)"),
        ("flash2", "v100_sxm2_16gb", "volta (compute capability 7.0)"),
    ],
)
def test_a_table_of_the_a100_is_not_stretched_to_other_sms(name: str, gpu: str, architecture: str) -> None:
    """An Ampere SM of 100 KiB is not one of 164: pinned CTAs per SM and constants of 8.0 would be wrong there."""
    with pytest.raises(UnsupportedError) as caught:
        plan(parse_request(name, "test"), load_gpu(gpu), attention())
    assert f"{name} has no tile table for {architecture} with head_dim 64" == caught.value.reason


def flash2_cost(gpu: str) -> KernelCost:
    """Constants of flash2 on a GPU."""
    (kernel,) = plan(parse_request("flash2", "test"), load_gpu(gpu), attention()).graph.kernels
    return kernel.cost


@pytest.mark.parametrize(("gpu", "fitted_on"), [("a30", "a100_sxm4_40gb"), ("h800_sxm5_80gb", "h100_sxm5_80gb")])
def test_constants_go_with_the_sm_they_were_fitted_on(gpu: str, fitted_on: str) -> None:
    """The A30 has the A100's SM and the H800 the H100's."""
    assert KernelCost() != flash2_cost(gpu) == flash2_cost(fitted_on)


@pytest.mark.parametrize("gpu", ["a10", "l40s"])
def test_where_nothing_was_fitted_units_are_ideal(gpu: str) -> None:
    """No constants for compute capabilities 8.6 and 8.9."""
    assert KernelCost() == flash2_cost(gpu)


def test_a_head_dim_beyond_the_table_is_unsupported() -> None:
    """flash2 goes up to 256."""
    with pytest.raises(UnsupportedError, match="head_dim 512"):
        plan(parse_request("flash2", "test"), A100, attention(head_dim=512))


def test_a_tile_that_fits_is_named_with_its_stages() -> None:
    """Six stages need (128 + 6·2·128)·64·2 = 212,992 B of 166,912 B and five 180,224 B; four, 147,456 B, are the
    largest count that fits."""
    with pytest.raises(DoesNotFitError) as caught:
        plan(parse_request({"name": "flash2", "tile_q": 128, "tile_kv": 128, "stages": 6}, "test"), A100, attention())
    assert "212,992 B" in caught.value.reason
    assert caught.value.fix.endswith("tile_q: 128, tile_kv: 128, stages: 4 fits")


def test_an_unknown_name_lists_the_known_ones() -> None:
    """Nothing falls back to another schedule."""
    with pytest.raises(UnknownNameError) as caught:
        parse_request("flash9", "here")
    listed = ", ".join(implementations())
    assert f"schedule: 'flash9' is not known; choose one of: {listed}" == str(caught.value)
    assert listed.startswith("naive, pytorch_naive, megatron_fused_softmax, flash1, flash2, flash3, triton")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("flash1@1999", "flash1 has no version '1999'; it knows 2022-05, 2022-12"),
        ("flash2@2023", "flash2 has no version '2023'; it has one version; leave @ out"),
        ({"tile_q": 4}, "needs a name, one of naive, pytorch_naive, megatron_fused_softmax, flash1, flash2"),
        ({"name": 5}, "needs a name"),
        (7, "got 7, expected a name or a mapping with a name"),
        ({"name": "flash2", "tile_q": 0}, "schedule flash2, tile_q: got 0, expected a whole number greater than 0"),
        ({"name": "flash2", "tile_q": "64"}, "tile_q: got '64', expected a whole number"),
        ({"name": "flash2", "tile_qq": 4}, "tile_qq: unknown key; did you mean tile_q"),
        ({"name": "flash1", "partials": "fp64"}, "partials: got 'fp64', expected one of output, fp32"),
        ({"name": "flash1", "order": "longest_first"}, "order: got 'longest_first', expected one of ascending"),
        ({"name": "flash1", "scheduler": "static"}, "scheduler: got 'static', expected one of hardware"),
        ({"name": "flash2", "accumulator_bytes": 2}, "accumulator_bytes: the machine states it; leave it out"),
    ],
)
def test_a_bad_request_is_refused_in_words(written: object, said: str) -> None:
    """The value, the rule, and what would be right."""
    assert said in refusal(written)


@pytest.mark.parametrize("choice", [{"grain": 2}, {"partials": "fp32"}])
@pytest.mark.parametrize("name", ["flash2", "flash3", "triton", "gpusim_cuda", "gpusim_cuda_flash3"])
def test_what_only_the_fa1_order_reads_is_unknown_to_the_others(name: str, choice: dict[str, object]) -> None:
    """Every K/V block of FA-1 steps through Q and keeps O in between; the FA-2 and FA-3 orders do neither."""
    (field,) = choice
    assert f"schedule {name}, {field}: unknown key; known keys here: tile_q" in refusal({"name": name} | choice)
    for fa1 in ("flash1", "gpusim_cuda_flash1"):
        assert choice == parse_request({"name": fa1} | choice, "here").choices


def test_all_problems_of_a_mapping_arrive_together() -> None:
    """Three bad choices, three lines."""
    lines = refusal({"name": "flash2", "tile_q": 0, "warps": -1, "stage": 2}).splitlines()
    assert 3 == len(lines)


def test_a_pass_list_can_be_stated() -> None:
    """`prepare: [scale_k]` in a scenario is a list of passes."""
    graph = plan(parse_request({"name": "naive", "prepare": ["scale_k"]}, "test"), A100, attention()).graph
    assert ["scale_k", "qk", "softmax", "pv"] == [kernel.name for kernel in graph.kernels]


def test_an_accumulator_size_of_zero_is_refused_like_any_other() -> None:
    """The machine states it, whatever the value written."""
    with pytest.raises(ScenarioError, match="accumulator_bytes: the machine states it"):
        parse_request({"name": "flash2", "accumulator_bytes": 0}, "test")


@pytest.mark.parametrize("name", implementations())
def test_choices_belong_to_the_schedule(name: str) -> None:
    """Every table key is a choice of its schedule, or has the library pick its tiles, so no row is dead."""
    implementation = implementations()[name]
    known = {"gemm_tiles"} | set(SCHEDULES[implementation.schedule].choices.model_fields)
    assert {key for row in implementation.tiles for key in row.choices} <= known


def test_a_stated_residency_is_no_more_than_the_sm_holds() -> None:
    """(128 + 2·64)·128·2 B = 64 KiB and 1 KiB reserved: two CTAs in 164 KiB, not 64."""
    tiles = {"name": "flash2", "tile_q": 128, "tile_kv": 64}
    with pytest.raises(DoesNotFitError) as caught:
        plan(parse_request(tiles | {"ctas_per_sm": 64}, "test"), A100, attention(head_dim=128))
    assert caught.value.reason.endswith(
        "ctas_per_sm is 64 but an SM of a100_sxm4_40gb holds 2, limited by shared memory"
    )
    assert "state at most 2, or lower the tiles" == caught.value.fix
    (kernel,) = plan(parse_request(tiles | {"ctas_per_sm": 2}, "test"), A100, attention(head_dim=128)).graph.kernels
    assert 2 == kernel.ctas_per_sm
