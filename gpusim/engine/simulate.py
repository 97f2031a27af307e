"""Runs a graph on a machine: kernels one after another, CTA slots side by side, counters at the end.

`timing` says what the result includes. "graph" and "event" add a gap before each kernel, that of a CUDA graph's nodes
or of a stream, from the end of the kernel before to the launch of the first CTA: how a kernel drains and the next one
fills the GPU is simulated and not in it. "host" is as "event", with an isolated launch in front; on top of it and of a
graph comes what the software around takes besides; "ncu" is kernels alone. `cache: warm` runs the graph twice and
reports the second run, unless its tensors are many times the L2: then little of the first run is left, neither tiles to
hit nor written bytes to push out. Where energies are known, kernels that mix matrix and softmax work run as fast as the
power limit lets them, and products at the clock they are known to sustain; single kernels under a profiler (ncu) are
not throttled.
"""

from dataclasses import dataclass
from typing import Literal

from gpusim.analytic import (
    KernelWork,
    check_dtype,
    check_memory,
    footprint,
    kernel_work,
    matmul_flop_per_clk,
    occupancy,
)
from gpusim.dtypes import DType
from gpusim.engine.clock import Environment
from gpusim.engine.compiled import has_numba
from gpusim.engine.cta import Process
from gpusim.engine.keys import first_keys, most_l2_nodes, num_keys
from gpusim.engine.lower import lower
from gpusim.engine.power import power_budget
from gpusim.engine.slots import SlotOutcome, SlotTask, run_compiled, run_on_simpy
from gpusim.errors import UnsupportedError
from gpusim.extras import install_command
from gpusim.hardware import (
    HBM_READ_BYTES,
    HBM_WRITE_BYTES,
    HIT_BYTES,
    build_machine,
    dirty_bytes,
    repeated_in_array,
    repeated_in_list,
    start_kernel,
)
from gpusim.specs import GpuSpec
from gpusim.specs.sm import WARP_THREADS
from gpusim.specs.timings import Timings
from gpusim.taskgraph import Kernel, Loop, TaskGraph, check_graph
from gpusim.taskgraph.program import Node
from gpusim.trace import Recorder, Stall
from gpusim.units import PS_PER_MS, PS_PER_S, ps_from_ns
from gpusim.workloads import Conditions

Mode = Literal["auto", "exhaustive", "compiled"]
RunMode = Literal["exhaustive", "compiled"]

WARM_WITHIN_L2S = 16  # tensors together; beyond, what a run leaves behind changes the next by a few percent at most
COMPILED_FROM_STEPS = 8_000  # loop steps; below, SimPy is done before numba is loaded


@dataclass(frozen=True, slots=True)
class KernelRun:
    """What one kernel did. Times in ps, traffic in bytes; `busy` maps a unit to its share of the elapsed time.

    `sustained_hz` is the SM clock its main loop held; `power_w` the board's mean power, of its arithmetic and idling,
    None where energies are unknown and for kernels without both matrix and softmax work.
    """

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
    sustained_hz: float
    power_w: float | None

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
    mode: RunMode


def simulate(
    graph: TaskGraph,
    spec: GpuSpec,
    conditions: Conditions | None = None,
    recorder: Recorder | None = None,
    mode: Mode = "auto",
) -> Simulation:
    """Simulates every CTA of the graph on the GPU.

    `mode` "exhaustive" runs everything on SimPy, "compiled" runs CTAs in machine code with the same result; "auto"
    compiles where numba is installed, nothing is recorded and the run is long enough to gain from it.

    Raises GraphError for an illegal graph, DoesNotFitError, OutOfMemoryError or UnsupportedError where the GPU cannot
    run it, or where the GPU is fit-only.
    """
    conditions = Conditions() if conditions is None else conditions
    check_graph(graph)
    for kernel in graph.kernels:
        check_dtype(kernel, spec)
        occupancy(kernel, spec)
    check_memory(graph, spec)
    locked = spec.at_clock(conditions.sm_clock_mhz)
    return _Run(graph, locked, conditions, recorder, run_mode(graph, mode, recorder)).result()


def run_mode(graph: TaskGraph, mode: Mode, recorder: Recorder | None = None) -> RunMode:
    """How a graph would run. Raises UnsupportedError where mode "compiled" is asked for and cannot be had."""
    if mode == "compiled":
        if not has_numba():
            raise UnsupportedError("mode compiled needs numba, which is not installed", install_command("fast"))
        if recorder is not None:
            raise UnsupportedError("mode compiled records no timeline", "use mode exhaustive with a recorder")
    wants_speed = mode == "auto" and recorder is None and estimated_steps(graph) >= COMPILED_FROM_STEPS
    return "compiled" if mode == "compiled" or (wants_speed and has_numba()) else "exhaustive"


def estimated_steps(graph: TaskGraph) -> int:
    """Loop iterations and CTAs the engine will walk: what a run costs, before it runs."""
    return sum(kernel.ctas * _steps(kernel.program) for kernel in graph.kernels)


def _steps(nodes: tuple[Node, ...]) -> int:
    return 1 + sum(node.trips * _steps(node.body) for node in nodes if isinstance(node, Loop))


class _Run:
    """One simulation from an idle machine to the last kernel's end."""

    def __init__(
        self, graph: TaskGraph, spec: GpuSpec, conditions: Conditions, recorder: Recorder | None, mode: RunMode
    ) -> None:
        self._graph = graph
        self._mode = mode
        self.spec = spec
        self.timings = spec.timings()
        self._conditions = conditions
        self._recorder = recorder
        self.env = Environment()
        self.bases = first_keys(graph)
        repeated = repeated_in_array if mode == "compiled" else repeated_in_list
        num_nodes = most_l2_nodes(graph, spec.memory.l2)
        self.machine = build_machine(spec, num_keys(graph), num_nodes, repeated)
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
        dirty = dirty_bytes(self.machine.memory)
        launch_ps = self._launch_ps + latency_ps - gpu_ps
        return Simulation(latency_ps, launch_ps, tuple(self._runs), dirty, self._mode)

    def _is_warm_visible(self) -> bool:
        l2 = self.spec.memory.l2
        may_stay = l2 is not None and footprint(self._graph).peak_bytes <= WARM_WITHIN_L2S * l2.size_bytes
        return self._conditions.cache == "warm" and may_stay

    def _with_host(self, gpu_ps: int) -> int:
        conditions = self._conditions
        if conditions.timing in ("host", "graph"):
            gpu_ps += round((conditions.host_overhead_ms or 0.0) * PS_PER_MS)
        if conditions.timing in ("event", "host"):
            return max(gpu_ps, round((conditions.host_floor_ms or 0.0) * PS_PER_MS))
        return gpu_ps

    @property
    def is_in_a_loop(self) -> bool:
        """Whether the call is repeated until the power limit lowers the clock; kernels under a profiler are not."""
        return self._conditions.timing != "ncu"

    def _gap_ps(self, number: int) -> int:
        """Time before kernel number `number` in which nothing runs."""
        launch, timing = self.timings.launch, self._conditions.timing
        gap_ns = {"graph": launch.graph_ns, "event": launch.stream_ns, "host": launch.stream_ns, "ncu": 0.0}[timing]
        return ps_from_ns(launch.isolated_ns if timing == "host" and number == 0 else gap_ns)

    def _kernels(self, recorder: Recorder | None) -> Process:
        env = self.env
        for number, kernel in enumerate(self._graph.kernels):
            begin, gap_ps = env.now, self._gap_ps(number)
            yield env.timeout(gap_ps)
            self._launch_ps += gap_ps
            if recorder is not None and gap_ps:
                recorder.span("host", kernel.name, Stall.LAUNCH, begin, env.now)
            running = _KernelOnMachine(kernel, self)
            if self._mode == "compiled":
                outcome = yield from run_compiled(env, running.task)
            else:
                outcome = yield from run_on_simpy(env, running.task, recorder)
            yield env.timeout(max(0, outcome.accepted_ps - env.now))
            self._runs.append(running.finished(outcome, env.now))


class _KernelOnMachine:
    """One kernel in flight, and the counters at its start."""

    def __init__(self, kernel: Kernel, run: _Run) -> None:
        spec = run.spec
        self._kernel = kernel
        self._spec = spec
        self._timings = run.timings
        self._memory = run.machine.memory
        self._start_ps = run.env.now
        self._work = kernel_work(kernel)
        self._clock_hz = spec.sm.clock_hz
        is_mixed = self._work.flops > 0 and self._work.exps > 0  # energies are those of both works together
        self._budget = power_budget(spec, kernel.compute_dtype, kernel.ctas) if is_mixed else None
        is_limited = self._budget is not None and run.is_in_a_loop
        if self._work.flops and kernel.compute_dtype is not DType.FP32 and run.is_in_a_loop and not is_limited:
            self._clock_hz = min(self._clock_hz, spec.sm.tensor_clock_hz)
        self._occupancy = occupancy(kernel, spec)
        self._before = self._counters()
        start_kernel(
            self._memory,
            run.timings.hbm,
            efficiency=kernel.cost.hbm_efficiency,
            fill_bytes_per_s=spec.sm.l2_fill_bytes_per_clk * self._clock_hz,
            footprint_bytes=sum(tensor.size_bytes for tensor in TaskGraph((kernel,)).tensors()),
            is_random=kernel.access == "random",
            line_weight=kernel.line_weight,
        )
        self.task = SlotTask(
            kernel,
            lower(kernel, spec.sm, self._clock_hz, run.bases, self._budget if is_limited else None),
            run.machine,
            spec.sm.count,
            self._occupancy.ctas_per_sm,
            round(kernel.grain * PS_PER_S * self._cta_interval_s(run.timings)),
            ps_from_ns(spec.memory.hbm.write_queue_ns),
        )

    def _cta_interval_s(self, timings: Timings) -> float:
        """From one real CTA's start to the next one's: the launcher's, or that at which resident CTAs leave.

        Where a CTA stays for `cta_ns` it also waits for what it loads, at the rate of HBM even from L2, as `cta_ns` was
        fitted; stores are posted.
        """
        sm, kernel, launch_s = self._spec.sm, self._kernel, 1 / timings.launch.ctas_per_s
        if not kernel.cost.cta_ns:
            return launch_s
        resident = max(1, min(sm.max_threads // (WARP_THREADS * kernel.warps), sm.max_ctas))
        stays_s = ps_from_ns(kernel.cost.cta_ns) / PS_PER_S / (sm.count * resident)
        bytes_per_s = timings.hbm.stream_bandwidth_bytes_per_s * kernel.cost.hbm_efficiency
        return max(launch_s, stays_s + self._work.read_bytes / (kernel.ctas * kernel.grain * bytes_per_s))

    def _counters(self) -> tuple[int, int, int]:
        counts = self._memory.counts
        return int(counts[HBM_READ_BYTES]), int(counts[HBM_WRITE_BYTES]), int(counts[HIT_BYTES])

    def finished(self, outcome: SlotOutcome, now_ps: int) -> KernelRun:
        """The record of the kernel, now that its last store is accepted."""
        read, write, hit = (after - before for after, before in zip(self._counters(), self._before, strict=True))
        elapsed = now_ps - self._start_ps
        spent = dict(outcome.spent_ps)
        return KernelRun(
            name=self._kernel.name,
            start_ps=self._start_ps,
            end_ps=now_ps,
            ctas=round(self._kernel.ctas * self._kernel.grain),
            ctas_per_sm=self._occupancy.ctas_per_sm,
            limited_by=self._occupancy.limited_by,
            waves=self._kernel.ctas / self.task.num_resident,
            work=self._work,
            hbm_read_bytes=read,
            hbm_write_bytes=write,
            l2_hit_bytes=hit,
            stall_ps=spent | {Stall.IDLE: elapsed * self.task.num_slots - sum(spent.values())},
            busy=self._busy(elapsed, read + write, spent[Stall.COMPUTE]),
            sustained_hz=self.task.lowered.sustained_hz,
            power_w=self._power_w(elapsed),
        )

    def _power_w(self, elapsed_ps: int) -> float | None:
        power = self._spec.power
        if self._budget is None or power is None or power.energy is None:
            return None
        energy_j = self._budget.energy_j(self._work.flops, self._work.exps, self.task.lowered.sustained_hz)
        return power.energy.idle_w + energy_j * PS_PER_S / elapsed_ps

    def _busy(self, elapsed_ps: int, hbm_bytes: int, compute_ps: int) -> dict[str, float]:
        """Share of the elapsed time each unit needs at its own peak, and that SM pipes are held; none exceeds 1."""
        sm, hbm, work = self._spec.sm, self._spec.memory.hbm, self._work
        clocks = elapsed_ps / PS_PER_S * self._clock_hz * sm.count
        seconds = elapsed_ps / PS_PER_S
        flop_per_clk = matmul_flop_per_clk(sm, self._kernel.compute_dtype, self._kernel.tensor_path)
        busy = {
            "pipe": compute_ps / (elapsed_ps * sm.count),
            "tensor": work.flops / (flop_per_clk * clocks),
            "sfu": work.exps / (sm.sfu_ops_per_clk * clocks),
            "fp32": work.fp32_ops / (sm.fp32_lanes * clocks),
            "smem": (work.smem_read_bytes + work.smem_write_bytes) / (sm.smem_bandwidth_bytes_per_clk * clocks),
            "hbm": hbm_bytes / (hbm.peak_bandwidth_bytes_per_s * seconds),
        }
        l2 = self._timings.l2
        if l2 is not None:
            port_s = work.read_bytes / l2.bandwidth_bytes_per_s + work.write_bytes / l2.write_bandwidth_bytes_per_s
            busy["l2"] = port_s / seconds
        return busy
