"""Runs a graph on a machine: kernels one after another, CTA slots side by side, counters at the end.

`timing` says what the result includes. "event" and "graph" add the gap between dependent kernels before each kernel,
and "event" cannot beat the rate at which a stream issues launches; "host" adds one isolated launch; "ncu" is kernels
alone. `cache: warm` runs the graph twice and reports the second run, when everything it touches could fit
twice into L2; beyond that, least-recently-used tiles of the first run are gone before they are asked for again.
"""

from dataclasses import dataclass

import simpy

from gpusim.analytic import KernelWork, check_memory, footprint, kernel_work, occupancy
from gpusim.engine.clock import Environment
from gpusim.engine.cta import CtaSlot, Process
from gpusim.engine.lower import lower, matmul_flop_per_clk
from gpusim.errors import UnsupportedError
from gpusim.hardware import build_machine
from gpusim.specs import GpuSpec
from gpusim.taskgraph import Kernel, Loop, TaskGraph, check_graph
from gpusim.taskgraph.program import Node
from gpusim.trace import Recorder, Stall
from gpusim.units import PS_PER_MS, PS_PER_S, ps_from_ns
from gpusim.workloads import Conditions


@dataclass(frozen=True, slots=True)
class KernelRun:
    """What one kernel did. Times in ps, traffic in bytes; `busy` maps a unit to its share of the elapsed time."""

    name: str
    start_ps: int
    end_ps: int
    ctas: int
    ctas_per_sm: int
    limited_by: str
    waves: float
    work: KernelWork
    hbm_read_bytes: int
    hbm_write_bytes: int
    l2_hit_bytes: int
    stall_ps: dict[Stall, int]
    busy: dict[str, float]

    @property
    def elapsed_ps(self) -> int:
        """From the start of the first CTA's launch to the last accepted store."""
        return self.end_ps - self.start_ps


@dataclass(frozen=True, slots=True)
class Simulation:
    """A whole run: latency in ps as `timing` defines it, kernels in order, and dirty bytes left in L2."""

    latency_ps: int
    launch_ps: int
    kernels: tuple[KernelRun, ...]
    l2_dirty_bytes: int


def simulate(
    graph: TaskGraph, spec: GpuSpec, conditions: Conditions | None = None, recorder: Recorder | None = None
) -> Simulation:
    """Simulates every CTA of the graph on the GPU.

    Raises GraphError for an illegal graph, DoesNotFitError, OutOfMemoryError or UnsupportedError where the GPU cannot
    run it.
    """
    conditions = Conditions() if conditions is None else conditions
    check_graph(graph)
    for kernel in graph.kernels:
        _check_dtype(kernel, spec)
        occupancy(kernel, spec)
    check_memory(graph, spec)
    return _Run(graph, _at_clock(spec, conditions), conditions, recorder).result()


def _check_dtype(kernel: Kernel, spec: GpuSpec) -> None:
    known = [*spec.sm.tensor_flop_per_clk, "fp32"]
    if kernel.compute_dtype not in known:
        raise UnsupportedError(
            f"{kernel.name} multiplies in {kernel.compute_dtype} but {spec.name} states no matrix rate for it",
            f"use one of {', '.join(known)}",
        )


def _at_clock(spec: GpuSpec, conditions: Conditions) -> GpuSpec:
    """The spec with a locked SM clock in place of the boost clock; what tensor kernels sustain still limits them."""
    if conditions.sm_clock_mhz is None:
        return spec
    sm = spec.sm.model_copy(update={"clock_hz": conditions.sm_clock_mhz * 1e6})
    return spec.model_copy(update={"sm": sm})


def estimated_steps(graph: TaskGraph) -> int:
    """Loop iterations and CTAs the engine will walk: what a run costs, before it runs."""
    return sum(kernel.ctas * _steps(kernel.program) for kernel in graph.kernels)


def _steps(nodes: tuple[Node, ...]) -> int:
    return 1 + sum(node.trips * _steps(node.body) for node in nodes if isinstance(node, Loop))


class _Run:
    """One simulation from an idle machine to the last kernel's end."""

    def __init__(self, graph: TaskGraph, spec: GpuSpec, conditions: Conditions, recorder: Recorder | None) -> None:
        self._graph = graph
        self.spec = spec
        self._conditions = conditions
        self._recorder = recorder
        self.env = Environment()
        self.machine = build_machine(spec)
        self.bases = _first_keys(graph)
        self.store_queue_ps = ps_from_ns(spec.memory.hbm.write_queue_ns)
        self._launch_ps = 0
        self._runs: list[KernelRun] = []

    def result(self) -> Simulation:
        replays = 2 if self._is_warm_visible() else 1
        for replay in range(replays):
            is_last = replay == replays - 1
            begin_ps = self.env.now
            self._launch_ps, self._runs = 0, []
            self.env.run(self.env.process(self._kernels(self._recorder if is_last else None)))
        gpu_ps = self.env.now - begin_ps
        latency_ps = self._with_host(gpu_ps)
        l2 = self.machine.memory.l2
        return Simulation(
            latency_ps,
            self._launch_ps + latency_ps - gpu_ps,
            tuple(self._runs),
            0 if l2 is None else l2.dirty_bytes,
        )

    def _is_warm_visible(self) -> bool:
        l2 = self.spec.memory.l2
        fits = l2 is not None and footprint(self._graph).peak_bytes <= 2 * l2.size_bytes
        return self._conditions.cache == "warm" and fits

    def _with_host(self, gpu_ps: int) -> int:
        launch, timing = self.spec.launch, self._conditions.timing
        if timing == "event":
            gpu_ps = max(gpu_ps, len(self._graph.kernels) * ps_from_ns(launch.stream_ns))
        if timing == "host":
            gpu_ps += ps_from_ns(launch.isolated_ns)
        if timing in ("event", "host") and self._conditions.host_floor_ms is not None:
            gpu_ps = max(gpu_ps, round(self._conditions.host_floor_ms * PS_PER_MS))
        return gpu_ps

    def _kernels(self, recorder: Recorder | None) -> Process:
        gap_ps = 0 if self._conditions.timing == "ncu" else ps_from_ns(self.spec.launch.graph_ns)
        for kernel in self._graph.kernels:
            begin = self.env.now
            yield self.env.timeout(gap_ps)
            self._launch_ps += gap_ps
            if recorder is not None and gap_ps:
                recorder.span("host", kernel.name, Stall.LAUNCH, begin, self.env.now)
            done = self.env.event()
            running = _KernelOnMachine(kernel, self, recorder, done)
            yield done
            yield self.env.timeout(running.drain_ps(self.env.now))
            self._runs.append(running.finished(self.env.now))


def _first_keys(graph: TaskGraph) -> dict[str, int]:
    """A range of cache keys for every tensor: one key a tile."""
    bases, following = {}, 0
    for tensor in graph.tensors():
        bases[tensor.name] = following
        following += tensor.heads * tensor.row_tiles * tensor.col_tiles
    return bases


class _KernelOnMachine:
    """One kernel in flight: its slots, its queue of CTAs, and counters at its start."""

    def __init__(self, kernel: Kernel, run: _Run, recorder: Recorder | None, done: simpy.Event) -> None:
        spec, machine = run.spec, run.machine
        self._kernel = kernel
        self._spec = spec
        self._memory = machine.memory
        self._env = run.env
        self._done = done
        self._start_ps = run.env.now
        self._accepted_ps = 0
        self._work = kernel_work(kernel)
        self._clock_hz = spec.sm.clock_hz
        if self._work.flops:
            self._clock_hz = min(self._clock_hz, spec.sm.tensor_clock_hz)
        self._occupancy = occupancy(kernel, spec)
        self._before = self._counters()
        self._memory.hbm.start_kernel(spec.memory.hbm, kernel.cost.hbm_efficiency)
        lowered = lower(kernel, spec.sm, self._clock_hz, run.bases)
        launch_ps = round(kernel.grain * PS_PER_S / spec.launch.ctas_per_s)
        queue = kernel.coordinates()
        self._slots = [
            CtaSlot(
                run.env,
                machine,
                sm,
                track=f"sm[{sm.number}].slot[{number}]",
                kernel_name=kernel.name,
                launch_ps=launch_ps,
                store_queue_ps=run.store_queue_ps,
                recorder=recorder,
            )
            for number in range(self._occupancy.ctas_per_sm)
            for sm in machine.sms
        ]
        self._running = len(self._slots)
        for slot in self._slots:
            run.env.process(slot.run(queue, lowered, self._slot_done))

    def _slot_done(self, accepted_ps: int) -> None:
        self._accepted_ps = max(self._accepted_ps, accepted_ps)
        self._running -= 1
        if self._running == 0:
            self._done.succeed()

    def _counters(self) -> tuple[int, int, int]:
        memory = self._memory
        return memory.hbm.read_bytes, memory.hbm.write_bytes, memory.hit

    def drain_ps(self, now_ps: int) -> int:
        """How long the last accepted store outlasts the last CTA."""
        return max(0, self._accepted_ps - now_ps)

    def finished(self, now_ps: int) -> KernelRun:
        read, write, hit = (after - before for after, before in zip(self._counters(), self._before, strict=True))
        elapsed = now_ps - self._start_ps
        slots = self._spec.sm.count * self._occupancy.ctas_per_sm
        return KernelRun(
            name=self._kernel.name,
            start_ps=self._start_ps,
            end_ps=now_ps,
            ctas=self._kernel.ctas * self._kernel.grain,
            ctas_per_sm=self._occupancy.ctas_per_sm,
            limited_by=self._occupancy.limited_by,
            waves=self._kernel.ctas / slots,
            work=self._work,
            hbm_read_bytes=read,
            hbm_write_bytes=write,
            l2_hit_bytes=hit,
            stall_ps=self._stalls(elapsed),
            busy=self._busy(elapsed, read + write, sum(slot.compute_ps for slot in self._slots)),
        )

    def _stalls(self, elapsed_ps: int) -> dict[Stall, int]:
        totals = {
            Stall.COMPUTE: sum(slot.compute_ps for slot in self._slots),
            Stall.PIPE: sum(slot.pipe_ps for slot in self._slots),
            Stall.LOAD: sum(slot.load_ps for slot in self._slots),
            Stall.SYNC: sum(slot.sync_ps for slot in self._slots),
            Stall.STORE: sum(slot.store_ps for slot in self._slots),
            Stall.LAUNCH: sum(slot.launch_ps for slot in self._slots),
        }
        return totals | {Stall.IDLE: elapsed_ps * len(self._slots) - sum(totals.values())}

    def _busy(self, elapsed_ps: int, hbm_bytes: int, compute_ps: int) -> dict[str, float]:
        """Share of the elapsed time each unit needs at its own peak, and that SM pipes are held; none exceeds 1."""
        sm, memory, work = self._spec.sm, self._spec.memory, self._work
        clocks = elapsed_ps / PS_PER_S * self._clock_hz * sm.count
        seconds = elapsed_ps / PS_PER_S
        flop_per_clk = matmul_flop_per_clk(sm, self._kernel.compute_dtype)
        busy = {
            "pipe": compute_ps / (elapsed_ps * sm.count),
            "tensor": work.flops / (flop_per_clk * clocks),
            "sfu": work.exps / (sm.sfu_ops_per_clk * clocks),
            "fp32": work.fp32_ops / (sm.fp32_lanes * clocks),
            "smem": (work.smem_read_bytes + work.smem_write_bytes) / (sm.smem_bandwidth_bytes_per_clk * clocks),
            "hbm": hbm_bytes / (memory.hbm.peak_bandwidth_bytes_per_s * seconds),
        }
        if memory.l2 is not None:
            busy["l2"] = (work.read_bytes + work.write_bytes) / (memory.l2.bandwidth_bytes_per_s * seconds)
        return busy
