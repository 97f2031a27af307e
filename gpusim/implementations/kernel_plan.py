"""Single kernels to a task graph: tiles of a matrix product, rows in flight, and the SMs that a resident grid fills.

What passes by passes through registers, so a GPU without a register file runs none of them.
"""

from collections.abc import Mapping

from gpusim.dtypes import DType
from gpusim.errors import DoesNotFitError, OutOfMemoryError, UnsupportedError
from gpusim.implementations.choosing import check_graph_fits, check_residency, over_table, validated
from gpusim.implementations.gemm_planner import (
    SPLITS,
    GemmShape,
    GemmTile,
    cluster_of,
    quickest_kernel,
    shaped,
    step_of,
)
from gpusim.implementations.request import ScheduleRequest
from gpusim.implementations.table import Implementation, implementations
from gpusim.schedules import Choices, RowSoftmaxChoices
from gpusim.schedules.rowwise import GROUPS_PER_SM
from gpusim.specs import GpuSpec
from gpusim.specs.sm import WARP_THREADS
from gpusim.taskgraph import KernelCost, TaskGraph
from gpusim.taskgraph.tensors import ceil_div
from gpusim.units import KIB
from gpusim.workloads import CacheReadWorkload, ChaseWorkload, GemmWorkload, RowsWorkload, StreamWorkload, Workload

GEMM_STAGES = {"8.0": 3, "9.0": 4}  # by compute capability; cuBLAS' tensor-core kernels are named ..._64x3 and ..._64x4
OTHER_GEMM_STAGES = 2
VECTOR_BYTES = 16  # a thread's widest load
LARGEST_BLOCK = 1024  # threads
TWO_ROWS_A_WARP_COLS = 128  # up to this many columns a warp takes two rows at once
WARPS_OF_SHORT_ROWS = 4
LEAST_WAVES_OF_GROUPS = 8  # as many as that, how a group starts and ends no longer shows
PASS_BYTES_PER_SM = 32 * KIB  # 2,048 threads with a vector each
_GEMM_SIDES = ("tile_m", "tile_n")
_GEMM_TILES = "gemm_tiles"  # in a table: the library picks its tiles by itself

Values = dict[str, object]


def plan_kernel(request: ScheduleRequest, spec: GpuSpec, workload: Workload) -> tuple[Choices, TaskGraph]:
    """Choices and graph of a workload that is not attention.

    Raises UnsupportedError where no model or table covers the case, DoesNotFitError where a CTA exceeds the SM, and
    OutOfMemoryError where a pointer chase has a set beyond device memory.
    """
    implementation, schedule = implementations()[request.name], request.schedule
    _check_supported(implementation, spec, workload)
    costs = implementation.kernel_costs(spec, workload)
    values = over_table(implementation.choices(spec, workload), request.choices)
    match workload:
        case GemmWorkload():
            values, costs = _with_gemm_tiles(values, costs, implementation, spec, workload)
        case RowsWorkload() if schedule.choices is RowSoftmaxChoices:
            values = _softmax_ctas(values, spec, workload) | values
        case RowsWorkload():
            values = {"group_rows": _pass_rows(spec, workload)} | values
        case ChaseWorkload():
            _check_set_fits(spec, workload)
        case StreamWorkload():
            _check_resident(spec, workload.ctas_per_sm, workload.threads_per_cta)
            values["num_sms"] = spec.sm.count
        case CacheReadWorkload():
            _check_resident(spec, workload.ctas_per_sm, LARGEST_BLOCK)
            _check_parts(spec, workload)
            values["num_sms"] = spec.sm.count
    choices = validated(schedule, values)
    graph = schedule.build(workload, choices, costs)
    if isinstance(workload, GemmWorkload):
        check_graph_fits(graph, schedule, choices, spec, workload, _GEMM_SIDES)
        if "ctas_per_sm" in request.choices:
            check_residency(graph, spec)
    return choices, graph


def _check_supported(implementation: Implementation, spec: GpuSpec, workload: Workload) -> None:
    if workload.dtype not in implementation.dtypes:
        known = ", ".join(implementation.dtypes)
        raise UnsupportedError(f"{implementation.name} has no model for dtype {workload.dtype}", f"use {known}")
    if spec.sm.register_file is None:
        raise UnsupportedError(
            f"{spec.name} has no register file, and what {implementation.name} reads passes through registers",
            "choose a GPU with registers",
        )


def _with_gemm_tiles(
    values: Values, costs: dict[str, KernelCost], implementation: Implementation, spec: GpuSpec, workload: GemmWorkload
) -> tuple[Values, dict[str, KernelCost]]:
    """The tile that the library's heuristic picks, with the share of the rate that its shape reaches.

    Stated choices win. Operands arrive a few stages ahead, a line of each row of A at a time.
    """
    picks = values.pop(_GEMM_TILES, None)
    _check_split(values, workload)
    if not picks and not set(_GEMM_SIDES) <= values.keys():
        raise UnsupportedError(
            f"{implementation.name} has no tile table for {spec.architecture} (compute capability "
            f"{spec.compute_capability})",
            f"state tiles, as in {{name: {implementation.name}, tile_m: 128, tile_n: 128}}",
        )
    cost = costs.get("gemm", KernelCost())
    shape = GemmShape(workload.m, workload.n, workload.k, workload.batch, workload.dtype)
    cluster, split = _side(values, "cluster", 1), values.get("split_k")
    quickest = quickest_kernel(
        spec, cost, shape, splits=(split,) if isinstance(split, int) else SPLITS if picks else (1,), cluster=cluster
    )
    tile = GemmTile(_side(values, "tile_m", quickest.tile.rows), _side(values, "tile_n", quickest.tile.cols))
    step = min(step_of(workload.dtype), workload.k)
    has_stated = any(side in values for side in _GEMM_SIDES)
    planned: Values = {
        "tile_m": tile.rows,
        "tile_n": tile.cols,
        "tile_k": step,
        "stages": OTHER_GEMM_STAGES if has_stated else _gemm_stages(tile, step, spec, workload.dtype),
        "split_k": quickest.split,
    }
    return planned | values | {"cluster": cluster_of(tile, workload.m, cluster)}, costs | {"gemm": shaped(cost, tile)}


def _check_split(values: Mapping[str, object], workload: GemmWorkload) -> None:
    split = _side(values, "split_k", 1)
    if split > 1 and (workload.batch > 1 or workload.k % split):
        raise UnsupportedError(
            f"split_k is {split}, but there are {workload.batch:,} products of k = {workload.k:,}",
            "split one product, and by a divisor of k",
        )


def _gemm_stages(tile: GemmTile, step: int, spec: GpuSpec, dtype: DType) -> int:
    most = OTHER_GEMM_STAGES
    if dtype is not DType.FP32:
        most = GEMM_STAGES.get(spec.compute_capability, OTHER_GEMM_STAGES)
    stage_bytes = (tile.rows + tile.cols) * step * dtype.size_bytes
    return max(1, min(most, spec.sm.smem_per_cta_max_bytes // stage_bytes))


def _side(values: Mapping[str, object], name: str, planned: int) -> int:
    stated = values.get(name, planned)
    return stated if isinstance(stated, int) else planned


def _softmax_ctas(values: Mapping[str, object], spec: GpuSpec, workload: RowsWorkload) -> Values:
    """CTAs of a row softmax: four warps with a row or two each, or one row where it is read more than once.

    The threads of a long row are a power of two, so that about half of them or more start with a vector of their own
    (pytorch aten/src/ATen/native/cuda/SoftMax.cu, SoftMax_getBlockSize). Of many waves of CTAs, groups stand for
    several.
    """
    if values.get("row_reads", 1) == 1:
        threads = WARPS_OF_SHORT_ROWS * WARP_THREADS
        cta_rows = WARPS_OF_SHORT_ROWS * (2 if workload.cols <= TWO_ROWS_A_WARP_COLS else 1)
    else:
        vectors = workload.cols // (VECTOR_BYTES // workload.dtype.size_bytes)
        halved = max(min(vectors, LARGEST_BLOCK) // 2, WARP_THREADS)
        threads, cta_rows = 1 << (halved - 1).bit_length(), 1
    ctas = min(spec.sm.max_threads // threads, spec.sm.max_ctas)
    waves = workload.rows // (cta_rows * ctas * spec.sm.count)
    grain = max(1, min(ctas // GROUPS_PER_SM, waves // LEAST_WAVES_OF_GROUPS))
    return {"cta_rows": cta_rows, "ctas_per_sm": ctas, "grain": grain}


def _pass_rows(spec: GpuSpec, workload: RowsWorkload) -> int:
    """Rows that fill an SM's threads with a vector each, in the CTA groups of a pass."""
    row_bytes = workload.cols * workload.dtype.size_bytes
    return _group_rows(PASS_BYTES_PER_SM // (row_bytes * GROUPS_PER_SM), spec, workload)


def _group_rows(rows: int, spec: GpuSpec, workload: RowsWorkload) -> int:
    """Rows of a CTA group that has at most `rows`: of the larger half, what spreads them evenly over SMs.

    Real CTAs are handed out one by one and leave no SM much behind; groups of many rows would.
    """
    most = min(max(1, rows), ceil_div(workload.rows, spec.sm.count))

    def rows_of_fullest_sm(group_rows: int) -> int:
        return group_rows * ceil_div(ceil_div(workload.rows, group_rows), spec.sm.count)

    return min(range(most, most // 2, -1), key=rows_of_fullest_sm)


def _check_resident(spec: GpuSpec, ctas_per_sm: int, threads_per_cta: int) -> None:
    sm = spec.sm
    if threads_per_cta > sm.max_threads_per_cta:
        raise DoesNotFitError(
            f"threads_per_cta is {threads_per_cta:,} but a CTA on {spec.name} has at most {sm.max_threads_per_cta:,}",
            "lower threads_per_cta",
        )
    warps = ceil_div(threads_per_cta, WARP_THREADS)
    most = min(sm.max_ctas, sm.max_threads // (warps * WARP_THREADS))
    if ctas_per_sm > most:
        raise DoesNotFitError(
            f"ctas_per_sm is {ctas_per_sm} but an SM of {spec.name} holds {most} CTAs of {threads_per_cta:,} threads",
            f"ask for at most {most}",
        )


def _check_set_fits(spec: GpuSpec, workload: ChaseWorkload) -> None:
    """The graph holds the lines that are hopped on; device memory has to hold the set."""
    need, limit = workload.footprint_bytes, spec.memory.hbm.capacity_bytes
    if need > limit:
        raise OutOfMemoryError(
            f"the set has {need:,} B but {spec.name} has {limit:,} B of device memory", "lower footprint_bytes"
        )


def _check_parts(spec: GpuSpec, workload: CacheReadWorkload) -> None:
    ctas = spec.sm.count * workload.ctas_per_sm
    parts = ceil_div(workload.footprint_bytes, workload.part_bytes)
    if parts > ctas:
        raise UnsupportedError(
            f"the set of {workload.footprint_bytes:,} B has {parts:,} parts of {workload.part_bytes:,} B, but "
            f"{spec.name} has {ctas} CTAs to read them",
            f"ask for part_bytes of at least {ceil_div(workload.footprint_bytes, ctas):,}",
        )
