"""Attention to a task graph: what is supported, tiles of the table or the largest that fit, and masks that are kept.

On a GPU without a register file no table applies: accumulators in shared memory, one stage, one warp, and the largest
square tile that fits.
"""

from collections.abc import Mapping

from gpusim.dtypes import DType
from gpusim.errors import DoesNotFitError, UnsupportedError
from gpusim.implementations.choosing import (
    NOTHING_FITS,
    check_graph_fits,
    check_kernels,
    check_residency,
    over_table,
    validated,
)
from gpusim.implementations.gemm_planner import GemmShape, GemmTile, quickest_tile, shaped, step_of
from gpusim.implementations.request import ScheduleRequest
from gpusim.implementations.table import Implementation, implementations, stacks
from gpusim.schedules import MASK_PASSES, Choices, FlashChoices, NaiveChoices, Schedule, WarpgroupChoices
from gpusim.schedules.kv_cache import with_cache_write
from gpusim.specs import GpuSpec
from gpusim.taskgraph import KernelCost, TaskGraph
from gpusim.workloads import AttentionWorkload

_SIDES = ("tile_q", "tile_kv")
_TILES = frozenset(_SIDES)
_GEMM_TILES = "gemm_tiles"  # in a table: the library picks its tiles by itself
GEMM_STAGES = 2


def plan_attention(
    request: ScheduleRequest, spec: GpuSpec, workload: AttentionWorkload, stack: str | None
) -> tuple[Choices, TaskGraph]:
    """Choices and graph; `stack` is the software around the kernels, which may add passes.

    Raises UnsupportedError where no model or table covers the case, and DoesNotFitError, naming a tile that fits, where
    a CTA exceeds the SM.
    """
    implementation, schedule = implementations()[request.name], request.schedule
    check_supported(workload, implementation, schedule, spec)
    costs: dict[str, KernelCost] = {}
    if spec.sm.register_file is not None:
        costs = implementation.kernel_costs(spec, workload, stack, request.version)
    values = _choices(request, implementation, spec, workload, stack)
    if values.pop(_GEMM_TILES, None):
        values, costs = _with_quickest_tiles(values, costs, spec, workload)
    choices = _completed(schedule, values, spec, workload)
    _check_masked(choices, workload)
    _check_compiled(choices, workload)
    graph = schedule.build(workload, choices, costs)
    check_graph_fits(graph, schedule, choices, spec, workload, _SIDES)
    if "ctas_per_sm" in request.choices:
        check_residency(graph, spec)
    return choices, _in_stack(graph, workload, stack)


def _in_stack(graph: TaskGraph, workload: AttentionWorkload, stack: str | None) -> TaskGraph:
    """The graph with the kernels that the software around it runs before."""
    around = None if stack is None else stacks().get(stack)
    write = None if around is None else around.kv_cache_write
    if write is None:
        return graph
    if workload.seqlen_q != workload.seqlen_k:
        raise UnsupportedError(
            f"{stack} writes the new keys alone into its cache, and there is no model yet for seqlen_q = "
            f"{workload.seqlen_q} new ones of seqlen_k = {workload.seqlen_k}",
            "ask for as many queries as keys, or leave the stack out",
        )
    return with_cache_write(
        graph,
        warps=write.warps(workload),
        ctas_per_row=write.ctas_per_row(workload),
        cost=KernelCost(hbm_efficiency=write.hbm_share, cta_ns=write.cta_ns),
    )


def check_supported(
    workload: AttentionWorkload, implementation: Implementation, schedule: Schedule, spec: GpuSpec
) -> None:
    """Raises UnsupportedError where no model covers the workload or the GPU lacks the implementation's instructions."""
    is_square = workload.seqlen_q == workload.seqlen_k
    is_eager = schedule.choices is NaiveChoices
    is_grouped = workload.kv_heads != workload.heads
    missing = [
        what
        for what, is_asked in (
            (f"pass {workload.pass_}", workload.pass_ != "fwd"),
            ("a causal mask", workload.causal and "causal" not in implementation.masks),
            ("a causal mask with seqlen_q ≠ seqlen_k", workload.causal and is_eager and not is_square),
            (f"dropout {workload.dropout:g}", workload.dropout > 0),
            (f"mask '{workload.mask}'", workload.mask not in ("none", *implementation.masks)),
            ("a sliding window", workload.window is not None),
            ("grouped K/V heads (kv_heads below heads)", is_grouped and not implementation.grouped_kv_heads),
        )
        if is_asked
    ]
    if missing:
        raise UnsupportedError(f"no model yet for {', '.join(missing)}", "ask for a forward pass without that")
    if schedule.choices is WarpgroupChoices and "wgmma" not in spec.sm.tensor_paths:
        raise UnsupportedError(
            f"{implementation.name} multiplies with wgmma but {spec.name} has only {', '.join(spec.sm.tensor_paths)}",
            "use flash2, or a Hopper GPU",
        )
    if workload.dtype not in implementation.dtypes:
        known = ", ".join(implementation.dtypes)
        raise UnsupportedError(f"{implementation.name} has no model for dtype {workload.dtype}", f"use {known}")


def _check_masked(choices: Choices, workload: AttentionWorkload) -> None:
    """Eager attention masks in a pass of its own; one left out, or one nobody asked for, would be another answer."""
    if not isinstance(choices, NaiveChoices):
        return
    asked = [
        mask for mask, is_asked in (("causal", workload.causal), ("padding", workload.mask == "padding")) if is_asked
    ]
    for mask in choices.masks:
        if mask not in asked:
            stated = [name for name in choices.score_passes if name in MASK_PASSES[mask]]
            raise UnsupportedError(
                f"score_passes = {list(choices.score_passes)} masks, but the workload has no {mask} mask",
                f"leave {' and '.join(stated)} out, or ask for the mask",
            )
    for mask in asked:
        if mask not in choices.masks and choices.accumulators == "smem":
            raise UnsupportedError(
                f"no model yet for a {mask} mask with accumulators in shared memory",
                "ask for a forward pass without that",
            )
        if mask not in choices.masks:
            raise UnsupportedError(
                f"a {mask} mask, but score_passes = {list(choices.score_passes)} adds none",
                f"add {' or '.join(MASK_PASSES[mask])} to score_passes, or ask for a forward pass without the mask",
            )


def _check_compiled(choices: Choices, workload: AttentionWorkload) -> None:
    """A kernel compiled for fewer columns than the head dim would compute something else."""
    compiled = choices.compiled_head_dim if isinstance(choices, FlashChoices) else None
    if compiled is not None and compiled < workload.head_dim:
        raise UnsupportedError(
            f"a kernel with compiled_head_dim = {compiled} cannot compute head_dim = {workload.head_dim}",
            f"state at least {workload.head_dim}, or leave compiled_head_dim out",
        )


def _choices(
    request: ScheduleRequest,
    implementation: Implementation,
    spec: GpuSpec,
    workload: AttentionWorkload,
    stack: str | None,
) -> dict[str, object]:
    """Choices of the table and, over them, those that were stated; on a GPU without registers the latter alone."""
    machine: dict[str, object] = {"accumulator_bytes": spec.sm.accumulator_bytes}
    if spec.sm.register_file is None:
        if request.choices.get("accumulators") == "registers":
            raise UnsupportedError(f"{spec.name} has no register file for accumulators", "use accumulators: smem")
        return machine | {"accumulators": "smem", "stages": 1, "warps": 1} | dict(request.choices)
    values = machine | over_table(implementation.choices(spec, workload, stack, request.version), request.choices)
    if _GEMM_TILES not in values and not _TILES <= values.keys():
        raise UnsupportedError(
            f"{implementation.name} has no tile table for {spec.architecture} (compute capability "
            f"{spec.compute_capability}) with head_dim {workload.head_dim}",
            f"state tiles, as in {{name: {implementation.name}, tile_q: 64, tile_kv: 64}}, or choose another schedule",
        )
    return values


def _completed(schedule: Schedule, values: Mapping[str, object], spec: GpuSpec, workload: AttentionWorkload) -> Choices:
    return validated(schedule, values) if _TILES <= values.keys() else _largest_square(schedule, values, spec, workload)


def _with_quickest_tiles(
    values: dict[str, object], costs: dict[str, KernelCost], spec: GpuSpec, workload: AttentionWorkload
) -> tuple[dict[str, object], dict[str, KernelCost]]:
    """GEMM tiles as the library's heuristic picks them, with the share of the rate that their shape reaches.

    Operands arrive two stages ahead, a line of each row of A at a time; PV takes two where they fit shared memory.
    Stated choices win.
    """
    heads, n_q, n_k = workload.batch * workload.heads, workload.seqlen_q, workload.seqlen_k
    d, d_v, dtype = workload.head_dim, workload.head_dim_v, workload.dtype
    cost, step = costs.get("gemm", KernelCost()), step_of(dtype)
    qk = quickest_tile(spec, cost, GemmShape(n_q, n_k, d, heads, dtype))
    pv = quickest_tile(spec, cost, GemmShape(n_q, d_v, n_k, heads, dtype))
    qk, pv = _as_stated(qk, values, "tile_q", "tile_kv"), _as_stated(pv, values, "pv_tile_q", "pv_tile_d")
    tiles: dict[str, object] = {
        "tile_q": qk.rows,
        "tile_kv": qk.cols,
        "qk_step": step if d % step == 0 else d,
        "pv_tile_q": pv.rows,
        "pv_tile_d": min(pv.cols, d_v),
        "pv_step": _pv_step(pv, spec, workload),
        "stages": GEMM_STAGES,
    }
    costs_of_tiles = {"qk": shaped(cost, qk), "pv": shaped(cost, pv, _computed_for_use(pv, d_v, dtype))}
    return tiles | values, costs | costs_of_tiles


def _as_stated(tile: GemmTile, values: Mapping[str, object], rows: str, cols: str) -> GemmTile:
    """The planned tile with the sides that were stated."""
    sides = (values.get(rows, tile.rows), values.get(cols, tile.cols))
    return GemmTile(*(side for side in sides if isinstance(side, int)))


def _computed_for_use(tile: GemmTile, cols: int, dtype: DType) -> float:
    """Share of a tile that is output: kernels on the FP32 lanes compute whole tiles, however few columns there are."""
    return min(1.0, cols / tile.cols) if dtype is DType.FP32 else 1.0


def _pv_step(tile: GemmTile, spec: GpuSpec, workload: AttentionWorkload) -> int:
    step = 2 * step_of(workload.dtype)
    stage_bytes = step * (tile.rows + min(tile.cols, workload.head_dim_v)) * workload.dtype.size_bytes
    return step if GEMM_STAGES * stage_bytes <= spec.sm.smem_per_cta_max_bytes else step // 2


def _largest_square(
    schedule: Schedule, fixed: Mapping[str, object], spec: GpuSpec, workload: AttentionWorkload
) -> Choices:
    largest = max(workload.seqlen_q, workload.seqlen_k)
    size = 1 << (largest - 1).bit_length()
    while True:
        choices = validated(schedule, {"tile_q": size, "tile_kv": size} | dict(fixed))
        try:
            check_kernels(schedule.build(workload, choices, {}), spec)
        except DoesNotFitError as error:
            if size == 1:
                raise DoesNotFitError(error.reason, NOTHING_FITS) from None
            size //= 2
        else:
            return choices
