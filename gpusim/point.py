"""One point of a study: a GPU, a schedule, a workload and conditions in; one result out, whatever the answer is."""

from collections.abc import Mapping
from dataclasses import dataclass

from gpusim.analytic import (
    ceiling_ms,
    check_memory,
    footprint,
    graph_operand_bytes,
    lower_bound,
    registers_per_thread,
    roofline_ms,
)
from gpusim.bands import band_of
from gpusim.engine import KernelRun, Mode, Simulation, estimated_steps, run_mode, simulate
from gpusim.errors import DoesNotFitError, OutOfMemoryError, PointError, UnsupportedError
from gpusim.implementations import Plan, ScheduleRequest, plan, stacks
from gpusim.report.shown import ShownResult
from gpusim.results import KernelResult
from gpusim.specs import GpuSpec
from gpusim.taskgraph import Kernel
from gpusim.trace import Recorder, Stall
from gpusim.units import ms_from_ps
from gpusim.workloads import AttentionWorkload, ChaseWorkload, Conditions, Workload

SIZE_GUARD_STEPS = 10_000_000  # loop steps on SimPy; about a minute of simulation
STEPS_PER_CTA = 16  # loop steps that take as long as starting and ending a CTA; half as many on SimPy
COMPILED_STEPS_PER_SIMPY_STEP = 20  # what machine code walks while SimPy walks one, at the least
REPORTED_CHOICES = {
    *("tile_q", "tile_kv", "tile_m", "tile_n", "tile_k"),
    *("stages", "warps", "accumulators", "order", "scheduler"),
}
BUSY_SHARE = 0.6  # from this share of the time on, a resource is called the bottleneck


@dataclass(frozen=True, slots=True)
class Point:
    """What to simulate."""

    spec: GpuSpec
    request: ScheduleRequest
    workload: Workload
    conditions: Conditions


def run_point(
    point: Point, *, mode: Mode = "auto", force: bool = False, recorder: Recorder | None = None
) -> ShownResult:
    """Simulates a point. A refusal becomes a result with its status, reason and fix; nothing is raised for it.

    Without `force`, a point that would walk more than SIZE_GUARD_STEPS loop steps is refused; a CTA counts as
    STEPS_PER_CTA of them beside its own.
    """
    try:
        planned = _planned(point)
    except PointError as error:
        return answer(point, status=error.status, reason=error.reason, fix=error.fix)
    try:
        _check_memory(point, planned)
        if not force:
            _guard_size(point.workload, planned, run_mode(planned.graph, mode, recorder))
        run = simulate(planned.graph, point.spec, _with_host(point), recorder, mode)
    except PointError as error:
        return answer(point, status=error.status, reason=error.reason, fix=error.fix, **_plan_fields(planned))
    fields = _plan_fields(planned) | _simulated_fields(point, planned, run)
    return answer(point, status="ok", **fields)


def _planned(point: Point) -> Plan:
    """The plan; where a fit-only GPU has none, what is missing is its timings, and nothing else would help.

    A tile of attention that does not fit is an answer all the same.
    """
    try:
        return plan(point.request, point.spec, point.workload, point.conditions.stack)
    except PointError as error:
        if isinstance(error, UnsupportedError) or not isinstance(point.workload, AttentionWorkload):
            point.spec.timings()
        raise


def _check_memory(point: Point, planned: Plan) -> None:
    try:
        check_memory(planned.graph, point.spec)
    except OutOfMemoryError as error:
        if isinstance(point.workload, AttentionWorkload):
            raise
        raise OutOfMemoryError(error.reason, f"lower {_what_to_lower(point.workload)}") from None


def _guard_size(workload: Workload, planned: Plan, mode: str) -> None:
    steps, ctas = estimated_steps(planned.graph), sum(kernel.ctas for kernel in planned.graph.kernels)
    size = steps + STEPS_PER_CTA * ctas
    limit = SIZE_GUARD_STEPS * (COMPILED_STEPS_PER_SIMPY_STEP if mode == "compiled" else 1)
    if size > limit:
        raise DoesNotFitError(
            f"size guard: the point walks {steps:,} loop steps of {ctas:,} CTAs, about {size / limit:.1f} times the "
            f"minute that the guard allows ({limit:,} steps, a CTA counted as {STEPS_PER_CTA} more)",
            f"pass --force to simulate it all the same, or lower {_what_to_lower(workload)}",
        )


def _what_to_lower(workload: Workload) -> str:
    return "batch, heads or seqlen" if isinstance(workload, AttentionWorkload) else workload.size_field


def _with_host(point: Point) -> Conditions:
    """Conditions with the host times of the software stack that the measurement does not state itself."""
    conditions = point.conditions
    if conditions.stack not in stacks():
        return conditions
    stack = stacks()[conditions.stack]
    floor_ms = stack.host_floor_ms.get(point.request.name)
    overhead_ms = stack.host_overhead_ms
    if conditions.timing == "graph":
        overhead_ms = stack.graph_overhead_ms.get(point.spec.architecture)
    times = {"host_floor_ms": floor_ms, "host_overhead_ms": overhead_ms}
    return conditions.model_copy(update={name: ms for name, ms in times.items() if getattr(conditions, name) is None})


def answer(point: Point, **fields: object) -> ShownResult:
    """A result with the point's inputs, the choices that were stated among them, and the given fields."""
    workload, conditions = point.workload, point.conditions
    stated = {name: value for name, value in point.request.choices.items() if name in REPORTED_CHOICES}
    inputs = {
        "gpu": point.spec.name,
        "schedule": point.request.schedule.name,
        "implementation": point.request.label,
        "version": point.request.effective_version,
        "dtype": workload.dtype,
        "sm_clock_mhz": conditions.sm_clock_mhz,
        "timing": conditions.timing,
        "cache": conditions.cache,
        "stack": conditions.stack,
        "overrides": point.spec.overrides,
        "flops": workload.flops,
    }
    return ShownResult.model_validate(workload.model_dump() | inputs | stated | fields)


def _plan_fields(planned: Plan) -> dict[str, object]:
    """What is known without simulating: choices and memory."""
    memory = footprint(planned.graph)
    return planned.choices.model_dump(include=REPORTED_CHOICES) | {
        "operand_bytes": graph_operand_bytes(planned.graph),
        "extra_memory_bytes": memory.extra_bytes,
        "peak_memory_bytes": memory.peak_bytes,
    }


def _simulated_fields(point: Point, planned: Plan, run: Simulation) -> dict[str, object]:
    workload, spec = point.workload, point.spec.at_clock(point.conditions.sm_clock_mhz)
    pairs = list(zip(planned.graph.kernels, run.kernels, strict=True))
    kernels = tuple(_kernel_result(kernel, done, spec) for kernel, done in pairs)
    longest = max(range(len(kernels)), key=lambda number: run.kernels[number].elapsed_ps)
    main = kernels[longest]
    latency_ms = ms_from_ps(run.latency_ps)
    bound = lower_bound(workload, spec, point.conditions.cache)
    operand_bytes = graph_operand_bytes(planned.graph)
    asked = sum(done.work.read_bytes for done in run.kernels)
    launch_share = run.launch_ps / run.latency_ps
    return {
        "latency_ms": latency_ms,
        **_band_fields(point, latency_ms),
        "tflops": workload.flops / latency_ms / 1e9 if workload.flops else None,
        "operand_gb_per_s": operand_bytes / latency_ms / 1e6,
        "latency_per_hop_ns": 1e6 * latency_ms / workload.hops if isinstance(workload, ChaseWorkload) else None,
        "l2_read_bytes": asked,
        "l2_write_bytes": sum(done.work.write_bytes for done in run.kernels),
        "l2_hit_rate": sum(done.l2_hit_bytes for done in run.kernels) / asked if asked else None,
        "l2_dirty_bytes": run.l2_dirty_bytes,
        "hbm_read_bytes": sum(done.hbm_read_bytes for done in run.kernels),
        "hbm_write_bytes": sum(done.hbm_write_bytes for done in run.kernels),
        "smem_read_bytes": sum(done.work.smem_read_bytes for done in run.kernels),
        "smem_write_bytes": sum(done.work.smem_write_bytes for done in run.kernels),
        "executed_flops": sum(done.work.flops for done in run.kernels),
        "smem_bytes_per_cta": max(kernel.smem_bytes_per_cta for kernel in kernels),
        "registers_per_thread": max(kernel.registers_per_thread for kernel in kernels),
        "ctas": main.ctas,
        "ctas_per_sm": main.ctas_per_sm,
        "waves": main.waves,
        "bound_ms": bound.ms,
        "bound_by": bound.resource,
        "ceiling_ms": ceiling_ms(workload, spec),
        "roofline_ms": roofline_ms(workload, operand_bytes, spec),
        "sustained_clock_mhz": main.sustained_clock_mhz,
        "power_w": main.power_w,
        "bottleneck": "launch" if launch_share >= BUSY_SHARE else main.bottleneck,
        "stalls": _stall_shares(run, launch_share),
        "mode": run.mode,
        "kernels": kernels,
    }


def _band_fields(point: Point, latency_ms: float) -> dict[str, object]:
    """The error band where measurements under the point's own conditions give one, else why there is none."""
    request = point.request
    found = band_of(point.spec, request.label, request.effective_version, point.workload, point.conditions, latency_ms)
    if isinstance(found, str):
        return {"validation": found}
    low_ms, high_ms = found.limits_ms(latency_ms)
    return {
        "validated": found.band,
        "latency_lo_ms": low_ms,
        "latency_hi_ms": high_ms,
        "validation": found.basis(),
    }


def _stall_shares(run: Simulation, launch_share: float) -> dict[Stall, float]:
    """Shares of slot time, kernels weighted by their length; launches and host time count in full."""
    elapsed_ps = sum(done.elapsed_ps for done in run.kernels)
    shares = dict.fromkeys(Stall, 0.0)
    for done in run.kernels:
        slot_ps = sum(done.stall_ps.values())
        weight = (1 - launch_share) * done.elapsed_ps / elapsed_ps
        for kind, spent_ps in done.stall_ps.items():
            shares[kind] += weight * spent_ps / slot_ps
    shares[Stall.LAUNCH] += launch_share
    return shares


def _kernel_result(kernel: Kernel, done: KernelRun, spec: GpuSpec) -> KernelResult:
    slot_ps = sum(done.stall_ps.values())
    return KernelResult(
        name=done.name,
        latency_ms=ms_from_ps(done.elapsed_ps),
        operand_bytes=done.work.operand_bytes,
        l2_read_bytes=done.work.read_bytes,
        l2_write_bytes=done.work.write_bytes,
        l2_hit_rate=done.l2_hit_bytes / done.work.read_bytes if done.work.read_bytes else 0.0,
        hbm_read_bytes=done.hbm_read_bytes,
        hbm_write_bytes=done.hbm_write_bytes,
        smem_read_bytes=done.work.smem_read_bytes,
        smem_write_bytes=done.work.smem_write_bytes,
        executed_flops=done.work.flops,
        smem_bytes_per_cta=kernel.smem_bytes,
        registers_per_thread=registers_per_thread(kernel, spec.sm),
        ctas=done.ctas,
        ctas_per_sm=done.ctas_per_sm,
        limited_by=done.limited_by,
        waves=done.waves,
        bottleneck=_bottleneck(done.busy, spec),
        stalls={kind: spent_ps / slot_ps for kind, spent_ps in done.stall_ps.items()},
        busy=done.busy,
        sustained_clock_mhz=done.sustained_hz / 1e6,
        power_w=done.power_w,
    )


def _bottleneck(busy: Mapping[str, float], spec: GpuSpec) -> str:
    """The resource that is busy most of the time, against the rate it can really reach; else "latency"."""
    stream_bandwidth = spec.timings().hbm.stream_bandwidth_bytes_per_s
    reached = spec.memory.hbm.peak_bandwidth_bytes_per_s / stream_bandwidth
    shares = {"hbm": busy["hbm"] * reached, "compute pipe": busy["pipe"], "l2": busy.get("l2", 0.0)}
    busiest = max(shares, key=lambda name: shares[name])
    return busiest if shares[busiest] >= BUSY_SHARE else "latency"
