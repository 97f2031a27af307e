"""Which tiles of an implementation fit a GPU, and what they cost in shared memory and registers; nothing is simulated.

Whether a tile fits does not depend on sequence length, batch or heads. What is no size, such as the registers that a
released kernel sets, comes from the implementation's table for the GPU and head dim, as in a run outside serving
stacks. Leaves out schedules of several kernels, each of which has tiles of its own.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpusim.analytic import check_dtype, occupancy, registers_per_thread
from gpusim.dtypes import DType
from gpusim.errors import DoesNotFitError, ScenarioError, UnknownNameError
from gpusim.implementations import ScheduleRequest, implementations, names_that_compute, parse_request
from gpusim.implementations.attention_plan import check_supported
from gpusim.implementations.choosing import check_graph_fits, over_table, partial_sides, validated
from gpusim.schedules import SCHEDULES, Choices, FlashChoices, Schedule, WarpgroupChoices
from gpusim.schedules.choices import WARPGROUP_ROWS
from gpusim.specs import GpuSpec
from gpusim.specs.sm import WARP_THREADS
from gpusim.taskgraph import Kernel
from gpusim.workloads import AttentionWorkload

_TILES = (16, 32, 64, 128, 256)
_USUAL: Mapping[str, Sequence[int]] = {"tile_q": _TILES, "tile_kv": _TILES, "stages": (1, 2), "warps": (4, 8)}
_USUAL_WARPGROUPS = (1, 2, 3)
_LONG = 16384  # tables may have other tiles for short sequences


@dataclass(frozen=True, slots=True)
class TileFit:
    """One tile choice on one GPU: shared memory in bytes, registers, CTAs per SM, or why it does not fit.

    `limited_by` is what keeps an SM from holding one CTA more, or any.
    """

    tile_q: int
    tile_kv: int
    stages: int
    warps: int
    accumulators: str
    smem_bytes_per_cta: int
    registers_per_thread: int
    ctas_per_sm: int
    limited_by: str
    reason: str | None

    @property
    def fits(self) -> bool:
        """Whether an SM holds at least one CTA."""
        return self.reason is None


def implementations_that_fit() -> list[str]:
    """Implementations of attention in one kernel, whose tiles are a choice."""
    known = implementations()
    return [
        name
        for name in names_that_compute(AttentionWorkload)
        if issubclass(SCHEDULES[known[name].schedule].choices, FlashChoices)
    ]


def fit_tiles(
    spec: GpuSpec,
    implementation: str,
    *,
    head_dim: int,
    dtype: DType = DType.FP16,
    tiles_q: Sequence[int] = (),
    tiles_kv: Sequence[int] = (),
    stages: Sequence[int] = (),
    warps: Sequence[int] = (),
) -> list[TileFit]:
    """Every combination of the given sizes, in order; of what is left empty, the usual sizes and the released one.

    Raises UnknownNameError, ScenarioError for sizes that the schedule does not take, and UnsupportedError where a run
    would: the GPU lacks its matrix instructions or the number format, or no model covers that.
    """
    request = _request(implementation)
    schedule, shape = request.schedule, {"head_dim": head_dim, "dtype": dtype}
    workload = _workload(shape, _LONG, _LONG)
    table = _table(request, spec, workload)
    stated = {"tile_q": tiles_q, "tile_kv": tiles_kv, "stages": stages, "warps": warps}
    sizes = _usual_sizes(schedule, spec, table) | {name: given for name, given in stated.items() if given}
    combinations = [dict(zip(sizes, values, strict=True)) for values in itertools.product(*sizes.values())]
    tried = [validated(schedule, over_table(table, combination)) for combination in combinations]
    check_supported(workload, implementations()[request.name], schedule, spec)
    return [_fit(spec, schedule, choices, shape) for choices in tried]


def _request(written: str) -> ScheduleRequest:
    name, known = written.partition("@")[0], implementations_that_fit()
    if name not in implementations():
        raise UnknownNameError("schedule", name, known)
    if name not in known:
        problem = f"{name} is not attention in one kernel, which fit is about; choose one of: {', '.join(known)}"
        raise ScenarioError("schedule", [problem])
    return parse_request(written, "command line")


def _table(request: ScheduleRequest, spec: GpuSpec, workload: AttentionWorkload) -> dict[str, object]:
    """What the machine and the released kernel state; no table is meant for a GPU without a register file."""
    machine: dict[str, object] = {"accumulator_bytes": spec.sm.accumulator_bytes}
    if spec.sm.register_file is None:
        return machine | {"accumulators": "smem"}
    return machine | implementations()[request.name].choices(spec, workload, version=request.version)


def _usual_sizes(schedule: Schedule, spec: GpuSpec, table: Mapping[str, object]) -> dict[str, Sequence[int]]:
    """Sizes that are tried where none is given: warps of warpgroups follow from the tile."""
    sizes = dict(_USUAL)
    if spec.sm.register_file is None:
        sizes |= {"stages": (1,), "warps": (1,)}
    if schedule.choices is WarpgroupChoices:
        sizes["tile_q"] = [WARPGROUP_ROWS * number for number in _USUAL_WARPGROUPS]
        del sizes["warps"]
    released = {name: value for name, value in table.items() if isinstance(value, int)}
    return {name: sorted({*usual, released.get(name, usual[0])}) for name, usual in sizes.items()}


def _workload(shape: Mapping[str, object], seqlen_q: int, seqlen_k: int) -> AttentionWorkload:
    lengths = {"seqlen_q": seqlen_q, "seqlen_k": seqlen_k}
    return AttentionWorkload.model_validate({"batch": 1, "heads": 1} | lengths | dict(shape))


def _fit(spec: GpuSpec, schedule: Schedule, choices: Choices, shape: Mapping[str, object]) -> TileFit:
    assert isinstance(choices, FlashChoices)  # as those of every implementation that fits
    workload = _workload(shape, choices.tile_q, 2 * choices.tile_kv)
    graph = schedule.build(workload, choices, {})
    (kernel,) = graph.kernels
    check_dtype(kernel, spec)
    ctas, reason = 0, None
    try:
        check_graph_fits(graph, schedule, choices, spec, workload, ("tile_q", "tile_kv"))
        found = occupancy(kernel, spec)
        ctas, limited_by = found.ctas_per_sm, found.limited_by
    except DoesNotFitError as error:
        limited_by = "matrix instructions" if partial_sides(choices, spec, workload) else _exceeded(kernel, spec)
        reason = f"{error.reason}; {error.fix}"
    return TileFit(
        choices.tile_q,
        choices.tile_kv,
        choices.stages,
        choices.warps,
        choices.accumulators,
        kernel.smem_bytes,
        max(registers_per_thread(kernel, spec.sm), kernel.accumulator_registers_per_thread)
        if spec.sm.register_file is not None
        else 0,
        ctas,
        limited_by,
        reason,
    )


def _exceeded(kernel: Kernel, spec: GpuSpec) -> str:
    if kernel.smem_bytes > spec.sm.smem_per_cta_max_bytes:
        return "shared memory"
    return "threads" if WARP_THREADS * kernel.warps > spec.sm.max_threads_per_cta else "registers"
