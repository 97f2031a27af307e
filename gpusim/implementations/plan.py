"""From a name in a scenario to a task graph: which schedule, with which tiles and constants, on this GPU and shape.

A bare name is a released implementation with the choices of its table. A mapping is the schedule with the choices it
states; what it leaves out comes from the table, and the point is reported as "custom". On a GPU without a register
file no table applies: accumulators in shared memory, one stage, one warp, and the largest square tile that fits.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from pydantic import ValidationError

from gpusim.analytic import check_fits, occupancy
from gpusim.errors import DoesNotFitError, ScenarioError, UnknownNameError, UnsupportedError
from gpusim.implementations.gemm_planner import GemmShape, GemmTile, quickest_tile
from gpusim.implementations.table import Implementation, implementations
from gpusim.schedules import MASK_PASSES, SCHEDULES, Choices, NaiveChoices, Schedule
from gpusim.specs import GpuSpec
from gpusim.strict_yaml import problems_from
from gpusim.taskgraph import KernelCost, TaskGraph
from gpusim.workloads import AttentionWorkload

CUSTOM = "custom"
_MACHINE_CHOICES = ("accumulator_bytes",)
_TILES = frozenset({"tile_q", "tile_kv"})
_GEMM_TILES = "gemm_tiles"  # in a table: the library picks its tiles by itself
GEMM_STEP, GEMM_STAGES = 64, 2
_PINS = ("ctas_per_sm", "grain")
_NOTHING_FITS = "no smaller tile fits; lower head_dim or seqlen, or choose another schedule"


@dataclass(frozen=True, slots=True)
class ScheduleRequest:
    """What a user asked for: a name, a version or None, and the choices of a mapping."""

    name: str
    version: str | None = None
    choices: Mapping[str, object] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The implementation a result reports: the name, or "custom" where choices were stated."""
        return CUSTOM if self.choices else self.name


@dataclass(frozen=True, slots=True)
class Plan:
    """A graph ready to be read, and what it was made from."""

    schedule: str
    implementation: str
    version: str | None
    choices: Choices
    graph: TaskGraph


def parse_request(written: object, where: str) -> ScheduleRequest:
    """A schedule as written in a scenario: "flash2", "flash1@2022-05" or {name: flash2, tile_q: 4, …}.

    Raises ScenarioError or UnknownNameError.
    """
    if isinstance(written, Mapping):
        choices = dict(written)
        name = choices.pop("name", None)
        if not isinstance(name, str):
            raise ScenarioError(where, [f"schedule: {dict(written)} needs a name, one of {', '.join(_names())}"])
    elif isinstance(written, str):
        choices, name = {}, written
    else:
        raise ScenarioError(where, [f"schedule: got {written!r}, expected a name or a mapping with a name"])
    name, _, version = name.partition("@")
    if name not in implementations():
        raise UnknownNameError("schedule", name, _names())
    _check_version(name, version, where)
    _check_choices(name, choices, where)
    return ScheduleRequest(name, version or None, choices)


def _names() -> list[str]:
    return list(implementations())


def _check_version(name: str, version: str, where: str) -> None:
    known = implementations()[name].versions
    if version and version not in known:
        listed = f"it knows {', '.join(known)}" if known else "it has one version; leave @ out"
        raise ScenarioError(where, [f"schedule: {name} has no version '{version}'; {listed}"])


def _check_choices(name: str, choices: Mapping[str, object], where: str) -> None:
    """Types and ranges of the stated choices, before any GPU is known."""
    model = SCHEDULES[implementations()[name].schedule].choices
    stated = _with_tuples(choices)
    placeholders = {key: 1 for key, info in model.model_fields.items() if info.is_required() and key not in stated}
    problems = [f"{key}: the machine states it; leave it out" for key in _MACHINE_CHOICES if key in stated]
    stated = {key: value for key, value in stated.items() if key not in _MACHINE_CHOICES}
    try:
        model.model_validate(placeholders | stated)
    except ValidationError as error:
        problems.extend(problems_from(error, model))
    if problems:
        raise ScenarioError(where, [f"schedule {name}, {problem}" for problem in problems])


def plan(request: ScheduleRequest, spec: GpuSpec, workload: AttentionWorkload, stack: str | None = None) -> Plan:
    """The graph of a request on a GPU; `stack` is the software around the kernels, which may add passes.

    Raises UnsupportedError where no model or table covers the case, and DoesNotFitError, naming a tile that fits, where
    a CTA exceeds the SM.
    """
    implementation = implementations()[request.name]
    _check_supported(workload, implementation)
    schedule = SCHEDULES[implementation.schedule]
    costs: dict[str, KernelCost] = {}
    if spec.sm.register_file is not None:
        costs = implementation.kernel_costs(spec, workload)
    values = _choices(request, implementation, spec, workload, stack)
    if values.pop(_GEMM_TILES, None):
        values, costs = _with_quickest_tiles(values, costs, spec, workload)
    choices = _completed(schedule, values, spec, workload)
    _check_masked(choices, workload)
    graph = schedule.build(workload, choices, costs)
    _check_graph_fits(graph, schedule, choices, spec, workload)
    if "ctas_per_sm" in request.choices:
        _check_residency(graph, spec)
    return Plan(schedule.name, request.label, request.version, choices, graph)


def _check_supported(workload: AttentionWorkload, implementation: Implementation) -> None:
    is_grouped = workload.kv_heads != workload.heads
    missing = [
        what
        for what, is_asked in (
            (f"pass {workload.pass_}", workload.pass_ != "fwd"),
            ("a causal mask", workload.causal and "causal" not in implementation.masks),
            ("a causal mask with seqlen_q ≠ seqlen_k", workload.causal and workload.seqlen_q != workload.seqlen_k),
            (f"dropout {workload.dropout:g}", workload.dropout > 0),
            (f"mask '{workload.mask}'", workload.mask not in ("none", *implementation.masks)),
            ("a sliding window", workload.window is not None),
            ("grouped K/V heads (kv_heads below heads)", is_grouped and not implementation.grouped_kv_heads),
        )
        if is_asked
    ]
    if missing:
        raise UnsupportedError(f"no model yet for {', '.join(missing)}", "ask for a forward pass without that")
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
            raise UnsupportedError(
                f"score_passes = {list(choices.score_passes)} masks, but the workload has no {mask} mask",
                f"leave {MASK_PASSES[mask]} out, or ask for the mask",
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
                f"add {MASK_PASSES[mask]} to score_passes, or ask for a forward pass without the mask",
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
    table = implementation.choices(spec, workload, stack)
    if request.choices:
        table = {name: value for name, value in table.items() if name not in _PINS or name in request.choices}
    values = machine | table | dict(request.choices)
    if _GEMM_TILES not in values and not _TILES <= values.keys():
        raise UnsupportedError(
            f"{implementation.name} has no tile table for {spec.architecture} (compute capability "
            f"{spec.compute_capability}) with head_dim {workload.head_dim}",
            f"state tiles, as in {{name: {implementation.name}, tile_q: 64, tile_kv: 64}}, or choose another schedule",
        )
    return values


def _completed(schedule: Schedule, values: Mapping[str, object], spec: GpuSpec, workload: AttentionWorkload) -> Choices:
    return (
        _validated(schedule, values) if _TILES <= values.keys() else _largest_square(schedule, values, spec, workload)
    )


def _with_quickest_tiles(
    values: dict[str, object], costs: dict[str, KernelCost], spec: GpuSpec, workload: AttentionWorkload
) -> tuple[dict[str, object], dict[str, KernelCost]]:
    """GEMM tiles as the library's heuristic picks them, with the share of the rate that their shape reaches.

    Operands arrive two stages ahead. PV advances by 128 keys where that fits shared memory, else by 64. Stated choices
    win.
    """
    heads, n_q, n_k = workload.batch * workload.heads, workload.seqlen_q, workload.seqlen_k
    d, d_v, dtype = workload.head_dim, workload.head_dim_v, workload.dtype
    cost = costs.get("gemm", KernelCost())
    qk = quickest_tile(spec, cost, GemmShape(n_q, n_k, d, heads, dtype))
    pv = quickest_tile(spec, cost, GemmShape(n_q, d_v, n_k, heads, dtype))
    qk, pv = _as_stated(qk, values, "tile_q", "tile_kv"), _as_stated(pv, values, "pv_tile_q", "pv_tile_d")
    tiles: dict[str, object] = {
        "tile_q": qk.rows,
        "tile_kv": qk.cols,
        "qk_step": GEMM_STEP if d % GEMM_STEP == 0 else d,
        "pv_tile_q": pv.rows,
        "pv_tile_d": min(pv.cols, d_v),
        "pv_step": _pv_step(pv, spec, workload),
        "stages": GEMM_STAGES,
    }
    shaped = {"qk": _shaped(cost, qk), "pv": _shaped(cost, pv)}
    return tiles | values, costs | shaped


def _as_stated(tile: GemmTile, values: Mapping[str, object], rows: str, cols: str) -> GemmTile:
    """The planned tile with the sides that were stated."""
    sides = (values.get(rows, tile.rows), values.get(cols, tile.cols))
    return GemmTile(*(side for side in sides if isinstance(side, int)))


def _pv_step(tile: GemmTile, spec: GpuSpec, workload: AttentionWorkload) -> int:
    step = 2 * GEMM_STEP
    stage_bytes = step * (tile.rows + min(tile.cols, workload.head_dim_v)) * workload.dtype.size_bytes
    return step if GEMM_STAGES * stage_bytes <= spec.sm.smem_per_cta_max_bytes else GEMM_STEP


def _shaped(cost: KernelCost, tile: GemmTile) -> KernelCost:
    return cost.model_copy(update={"matmul_efficiency": cost.matmul_efficiency * tile.efficiency})


def _validated(schedule: Schedule, values: Mapping[str, object]) -> Choices:
    """`values` were checked when the request was parsed, but not together with those of the table."""
    try:
        return schedule.choices.model_validate(_with_tuples(values))
    except ValidationError as error:
        raise ScenarioError(f"schedule {schedule.name}", problems_from(error, schedule.choices)) from None


def _with_tuples(values: Mapping[str, object]) -> dict[str, object]:
    """YAML has lists; choices hold tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def _largest_square(
    schedule: Schedule, fixed: Mapping[str, object], spec: GpuSpec, workload: AttentionWorkload
) -> Choices:
    largest = max(workload.seqlen_q, workload.seqlen_k)
    size = 1 << (largest - 1).bit_length()
    while True:
        choices = _validated(schedule, {"tile_q": size, "tile_kv": size} | dict(fixed))
        try:
            _check_kernels(schedule.build(workload, choices, {}), spec)
        except DoesNotFitError as error:
            if size == 1:
                raise DoesNotFitError(error.reason, _NOTHING_FITS) from None
            size //= 2
        else:
            return choices


def _check_kernels(graph: TaskGraph, spec: GpuSpec) -> None:
    for kernel in graph.kernels:
        check_fits(kernel, spec)


def _check_graph_fits(
    graph: TaskGraph, schedule: Schedule, choices: Choices, spec: GpuSpec, workload: AttentionWorkload
) -> None:
    try:
        _check_kernels(graph, spec)
    except DoesNotFitError as error:
        smaller = _fitting(schedule, choices, spec, workload)
        if smaller is None:
            raise DoesNotFitError(error.reason, _NOTHING_FITS) from None
        fits = f"tile_q: {smaller.tile_q}, tile_kv: {smaller.tile_kv}, stages: {smaller.stages} fits"
        raise DoesNotFitError(error.reason, f"{error.fix}; {fits}") from None


def _check_residency(graph: TaskGraph, spec: GpuSpec) -> None:
    """A residency that a user states is no more than the SM holds; one in a table may stand for loads in flight."""
    for kernel in graph.kernels:
        found = occupancy(replace(kernel, ctas_per_sm=None), spec)
        if kernel.ctas_per_sm is not None and kernel.ctas_per_sm > found.ctas_per_sm:
            raise DoesNotFitError(
                f"{kernel.name}: ctas_per_sm is {kernel.ctas_per_sm} but an SM of {spec.name} holds "
                f"{found.ctas_per_sm}, limited by {found.limited_by}",
                f"state at most {found.ctas_per_sm}, or lower the tiles",
            )


def _fitting(schedule: Schedule, choices: Choices, spec: GpuSpec, workload: AttentionWorkload) -> Choices | None:
    """The largest tile, no side or stage count larger than asked, that fits."""
    for update in _smaller(choices):
        candidate = choices.model_copy(update=update)
        try:
            _check_kernels(schedule.build(workload, candidate, {}), spec)
        except DoesNotFitError:
            continue
        return candidate
    return None


def _smaller(choices: Choices) -> Iterator[dict[str, int]]:
    sizes = [
        (tile_q, tile_kv, stages)
        for tile_q in _halves(choices.tile_q)
        for tile_kv in _halves(choices.tile_kv)
        for stages in range(choices.stages, 0, -1)
    ]
    sizes.sort(key=lambda size: (-size[0] * size[1], abs(size[0] - size[1]), -size[2]))
    for tile_q, tile_kv, stages in sizes:
        yield {"tile_q": tile_q, "tile_kv": tile_kv, "stages": stages}


def _halves(size: int) -> list[int]:
    return [size >> shift for shift in range(size.bit_length())]
