"""Why a simulated point takes as long as it does, in four lines that are made from its own counters.

Nothing is simulated again. What a change would save is therefore an upper limit, from two facts about the longest
kernel. A CTA that no longer waits for one thing still does all the rest, so the kernel shortens by no more than that
wait's share of the time in which CTA slots hold one. And no change of waits ends it before its busiest unit is done.
Leaves out that CTAs may be dealt out more or less luckily after a change, and that two changes may share their gain.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpusim.analytic import MMA_ROWS
from gpusim.report.wording import duration, listed, percent, significant
from gpusim.results import KernelResult, PointResult
from gpusim.schedules import SCHEDULES, FlashChoices, WarpgroupChoices
from gpusim.schedules.choices import WARPGROUP_ROWS, KvOuterChoices
from gpusim.specs import GpuSpec
from gpusim.trace import Stall
from gpusim.workloads import ChaseWorkload

LEAST_SAVING = 0.01  # of the latency; smaller ones are not told
TOLD_SAVINGS = 3
_AT_PIPE = (Stall.COMPUTE, Stall.PIPE)
_FIXED = (Stall.LAUNCH,)
_IDLE = (Stall.IDLE,)
_SPENT = {
    _AT_PIPE: "at the compute pipe",
    (Stall.LOAD,): "waiting for tiles",
    (Stall.SYNC,): "in latency of steps and prologues",
    (Stall.STORE,): "waiting for writes",
    _FIXED: "fixed (launches, host)",
    _IDLE: "idle",
}
_UNITS = {
    "tensor": "matrix units",
    "sfu": "exponentials",
    "fp32": "FP32 lanes",
    "smem": "shared memory",
    "l2": "L2",
    "hbm": "HBM",
}
_TOLD_UNITS = 3
_LEAST_TOLD = 0.0005  # of the latency; less rounds to 0.0 %


@dataclass(frozen=True, slots=True)
class Explanation:
    """Four lines: what bounds a point, where its time goes, what of it is not hidden, and what would change it."""

    bound: str
    time: str
    exposed: str
    change: str

    def lines(self) -> tuple[str, str, str, str]:
        """The four lines, each behind its heading."""
        return (
            f"Bound by: {self.bound}.",
            f"Time: {self.time}.",
            f"Exposed: {self.exposed}.",
            f"Would save at most: {self.change}.",
        )


@dataclass(frozen=True, slots=True)
class Saving:
    """A change, and the share of the point's latency that it saves at most."""

    share: float
    what: str


def explain(result: PointResult, spec: GpuSpec) -> Explanation | None:
    """The explanation of a point that was simulated on this GPU, as its file states it; None for every other point."""
    if result.status != "ok" or not result.kernels or result.latency_ms is None:
        return None
    account = _Account(result, spec, result.latency_ms)
    return Explanation(account.bound(), account.time(), account.exposed(), account.change())


@dataclass(frozen=True, slots=True)
class _Account:
    """A simulated point and its latency in ms."""

    result: PointResult
    spec: GpuSpec
    latency_ms: float

    @property
    def kernel(self) -> KernelResult:
        """The longest kernel, which is the one to look at."""
        return max(self.result.kernels, key=lambda kernel: kernel.latency_ms)

    @property
    def weight(self) -> float:
        """The longest kernel's share of the latency."""
        return self.kernel.latency_ms / self.latency_ms

    @property
    def slots(self) -> int:
        """CTAs of the longest kernel that the GPU holds at once."""
        return self.spec.sm.count * self.kernel.ctas_per_sm

    def shares(self) -> dict[tuple[Stall, ...], float]:
        """What the CTA slots that get a CTA spend their time on, as shares of the latency, in order of `_SPENT`."""
        shares = dict.fromkeys(_SPENT, 0.0)
        for kernel in self.result.kernels:
            used = min(1.0, kernel.waves)
            for reasons in _SPENT:
                spent = sum(kernel.stalls[reason] for reason in reasons)
                if Stall.IDLE in reasons:
                    spent = max(0.0, spent - (1 - used))
                shares[reasons] += spent / used * kernel.latency_ms / self.latency_ms
        shares[_FIXED] += max(0.0, 1 - sum(kernel.latency_ms for kernel in self.result.kernels) / self.latency_ms)
        return shares

    @property
    def hbm_busy(self) -> float:
        """Share of the kernel's time that HBM needs at the rate that streams reach."""
        hbm = self.spec.memory.hbm
        return self.kernel.busy["hbm"] * hbm.peak_bandwidth_bytes_per_s / self._stream_bytes_per_s

    @property
    def _stream_bytes_per_s(self) -> float:
        return self.spec.timings().hbm.stream_bandwidth_bytes_per_s

    def bound(self) -> str:
        """What sets the latency."""
        count = len(self.result.kernels)
        if self.result.bottleneck == "launch":
            fixed = percent(self.shares()[_FIXED])
            return f"launches: {fixed} of the latency is the fixed cost of {_counted(count, 'kernel')}"
        text = self._bound_of_kernel()
        if count == 1:
            return text
        return f"{self.kernel.name}, the longest of {count} kernels with {percent(self.weight)} of the time: {text}"

    def _bound_of_kernel(self) -> str:
        kernel, pipe = self.kernel, percent(self.kernel.busy["pipe"])
        match kernel.bottleneck:
            case "compute pipe":
                return f"the compute pipe of the SMs, held {pipe} of the time{self._units()}"
            case "hbm":
                moved = kernel.busy["hbm"] * self.spec.memory.hbm.peak_bandwidth_bytes_per_s
                reached = f"{significant(moved / 1e9)} GB/s is {percent(self.hbm_busy)} of what streams reach"
                return f"HBM bandwidth: {reached}; the compute pipe is held {pipe} of the time"
            case "l2":
                return f"L2 bandwidth: its port is busy {percent(kernel.busy['l2'])} of the time, the pipe {pipe}"
            case _:
                return f"latency, no unit: the compute pipe is held {pipe} of the time; {self._longest_wait()}"

    def _units(self) -> str:
        """What units behind the pipe and beside it need of the time."""
        busy = {name: self.kernel.busy.get(unit, 0.0) for unit, name in _UNITS.items()}
        top = sorted((name for name in busy if busy[name] >= LEAST_SAVING), key=lambda name: -busy[name])
        needs = [f"{name} {percent(busy[name])}" for name in top[:_TOLD_UNITS]]
        return f"; at peak rates {listed(needs)} of it would do" if needs else ""

    def _longest_wait(self) -> str:
        kernel = self.kernel
        waits = {reasons: kernel.stalls[reasons[0]] for reasons in _SPENT if reasons != _AT_PIPE}
        longest = max(waits, key=lambda reasons: waits[reasons])
        if longest != _IDLE:
            return f"the longest wait is {percent(waits[longest])} {_SPENT[longest]}"
        if kernel.waves >= 1:
            return (
                f"{percent(waits[longest])} of it CTA slots are idle in the tail of {significant(kernel.waves)} waves"
            )
        most = max((reasons for reasons in _SPENT if reasons != _IDLE), key=self._while_occupied)
        ctas, spends = _counted(kernel.ctas, "CTA"), percent(self._while_occupied(most))
        idle = f"{ctas} for {self.slots:,} slots, {percent(waits[_IDLE])} of whose time is idle"
        return f"{idle}, and a CTA spends {spends} of its time {_SPENT[most]}"

    def time(self) -> str:
        """The latency as a sum."""
        told = {_SPENT[reasons]: share for reasons, share in self.shares().items() if share >= _LEAST_TOLD}
        parts = [f"{duration(share * self.latency_ms)} {words}" for words, share in told.items()]
        return f"{duration(self.latency_ms)} = {' + '.join(parts)}"

    def exposed(self) -> str:
        """Waits that nothing hides, and what moving the data would take were it alone."""
        waits = {reasons: share for reasons, share in self.shares().items() if reasons not in (_AT_PIPE, _FIXED)}
        parts = [f"{percent(share)} {_SPENT[reasons]}" for reasons, share in waits.items() if share >= _LEAST_TOLD]
        kernel = self.kernel
        waves = f"{significant(kernel.waves)} waves of {_counted(self.slots, 'CTA')}"
        moving = f"moving all data alone takes {listed(self._moving())}; what is not named here is hidden"
        return f"{listed(parts) or 'nothing'} ({waves}); {moving}"

    def _moving(self) -> list[str]:
        """Time that each memory needs alone at its peak."""
        kernels, names = self.result.kernels, {"l2": "at L2", "hbm": "at HBM"}
        needed = {unit: sum(kernel.busy.get(unit, 0.0) * kernel.latency_ms for kernel in kernels) for unit in names}
        return [f"{duration(ms)} {names[unit]}" for unit, ms in needed.items() if unit == "hbm" or ms]

    def change(self) -> str:
        """The changes that may save most, each alone."""
        found = sorted(self.savings(), key=lambda saving: -saving.share)
        told = [f"{percent(saving.share)} with {saving.what}" for saving in found if saving.share >= LEAST_SAVING]
        nothing = f"nothing above {percent(LEAST_SAVING)} but less work for the {self.kernel.bottleneck}"
        return "; ".join(told[:TOLD_SAVINGS]) or nothing

    def savings(self) -> Iterator[Saving]:
        """Every change that the counters know a limit of."""
        kernel, is_chase = self.kernel, self.result.kind is ChaseWorkload
        yield Saving(self._clock_share(), self._clock_text())
        yield Saving(self._overlap_share(), "softmax, rescaling and masks wholly hidden by matrix work at its peak")
        if kernel.bottleneck in ("hbm", "l2"):
            waits = self._of_waits(Stall.LOAD, Stall.STORE, faster=kernel.bottleneck)
            yield Saving(waits, self._bandwidth_text())
        else:
            yield Saving(self._of_waits(Stall.LOAD), self._loads_text())
        yield Saving(self._of_waits(Stall.SYNC), self._steps_text())
        if not is_chase:
            idle = min(kernel.stalls[Stall.IDLE], 1 - self._needed())
            yield Saving(self.weight * idle, self._idle_text())
        yield Saving(self.weight * self._while_occupied(_AT_PIPE) * self._waste(), self._waste_text())
        yield Saving(self.shares()[_FIXED], self._launch_text())

    def _while_occupied(self, reasons: tuple[Stall, ...]) -> float:
        """Share of the time in which CTA slots of the longest kernel hold one."""
        stalls = self.kernel.stalls
        occupied = 1 - stalls[Stall.IDLE]
        return sum(stalls[reason] for reason in reasons) / occupied if occupied > 0 else 0.0

    def _needed(self, *, but: str = "") -> float:
        """Share of the longest kernel's time that its busiest unit, `but` one, needs whatever happens to waits."""
        busy = {"compute pipe": self.kernel.busy["pipe"], "hbm": self.hbm_busy, "l2": self.kernel.busy.get("l2", 0.0)}
        return min(1.0, max(share for unit, share in busy.items() if unit != but))

    def _of_waits(self, *reasons: Stall, faster: str = "") -> float:
        """What is saved at most where these waits end, with one unit `faster` than any limit."""
        return self.weight * min(self._while_occupied(reasons), 1 - self._needed(but=faster))

    @property
    def _boost_mhz(self) -> float:
        return self.spec.sm.clock_hz / 1e6

    def _clock_share(self) -> float:
        """Work at the pipe goes with the clock; latencies and memory do not."""
        missing = max(0.0, 1 - self.kernel.sustained_clock_mhz / self._boost_mhz)
        return self.weight * min(self._while_occupied(_AT_PIPE) * missing, 1 - self._needed(but="compute pipe"))

    def _overlap_share(self) -> float:
        """What of the pipe's time neither matrix units nor exponentials need; a throttled clock would fall further."""
        busy, clock_mhz = self.kernel.busy, self.result.sm_clock_mhz or self._boost_mhz
        is_mixed = busy["tensor"] > 0 and busy["sfu"] > 0
        if not is_mixed or self.kernel.sustained_clock_mhz < clock_mhz:
            return 0.0
        other = max(0.0, 1 - max(busy["tensor"], busy["sfu"]) / busy["pipe"])
        needed = self._needed(but="compute pipe")
        return self.weight * min(self._while_occupied(_AT_PIPE) * other, 1 - needed)

    def _clock_text(self) -> str:
        held, locked, power = self.kernel.sustained_clock_mhz, self.result.sm_clock_mhz, self.spec.power
        if locked is not None and held >= locked:
            why = "where it is locked"
        elif power is None or self.kernel.power_w is None:
            why = "that products sustain"
        else:
            why = f"that the power limit of {power.limit_w:g} W leaves"
        return f"a clock of {self._boost_mhz:,.0f} MHz instead of the {held:,.0f} {why}"

    def _bandwidth_text(self) -> str:
        if self.kernel.bottleneck == "l2":
            return f"more L2 bandwidth, or fewer reads{self._larger_tile()}"
        reads = self._larger_tile() if self.spec.memory.l2 is None else ""
        return f"more HBM bandwidth, or fewer bytes{reads}"

    def _larger_tile(self) -> str:
        return "".join(f" by {larger}" for larger in self._larger({"tile_q": "seqlen_q", "tile_m": "m"}))

    def _larger(self, lengths: Mapping[str, str]) -> list[str]:
        """Tile sides that may grow, each with the length that it cuts up: none beyond that."""
        sides = {name: (getattr(self.result, name), getattr(self.result, length)) for name, length in lengths.items()}
        return [f"a larger {name} than {size}" for name, (size, whole) in sides.items() if size and size < whole]

    def _smaller(self) -> list[str]:
        """Tile sides by which there are more CTAs when they shrink; none below a matrix instruction's."""
        least = 1 if self.spec.sm.register_file is None else MMA_ROWS["mma_sync"]
        kind = SCHEDULES[self.result.schedule].choices
        if kind is WarpgroupChoices:
            least = WARPGROUP_ROWS
        names = ("tile_m",) if kind is KvOuterChoices else ("tile_q", "tile_m")  # FA-1 has a CTA a head
        sizes = {name: getattr(self.result, name) for name in names}
        return [f"a smaller {name} than {size}" for name, size in sizes.items() if size and size > least]

    def _loads_text(self) -> str:
        if self.result.kind is ChaseWorkload:
            return "a shorter latency of each load"
        stages = self.result.stages
        ahead = "loads further ahead" if stages is None else f"more stages than {stages}"
        changes = [] if stages is not None and self._streamed_tiles() <= stages else [ahead]
        return f"{self._or_more_ctas(changes) or 'a shorter latency of loads'}, for the waits for tiles"

    def _streamed_tiles(self) -> float:
        """Tiles that pass a CTA of a flash schedule one after another; without end where nothing says how many."""
        result, kind = self.result, SCHEDULES[self.result.schedule].choices
        side, length = (result.tile_q, result.seqlen_q) if kind is KvOuterChoices else (result.tile_kv, result.seqlen_k)
        if not issubclass(kind, FlashChoices) or not side or not length:
            return math.inf
        return math.ceil(length / side)

    def _steps_text(self) -> str:
        larger = self._larger({"tile_kv": "seqlen_k", "tile_k": "k"})
        return f"{self._or_more_ctas(larger) or 'shorter latencies'}, for the latency of steps and prologues"

    def _or_more_ctas(self, changes: list[str]) -> str:
        """Changes, or more CTAs an SM where there are CTAs left for them."""
        kernel = self.kernel
        more = f"more CTAs an SM than {kernel.ctas_per_sm} (limit: {kernel.limited_by})"
        return " or ".join([*changes, more] if kernel.waves > 1 else changes)

    def _idle_text(self) -> str:
        result, kernel = self.result, self.kernel
        smaller = self._smaller()
        if kernel.waves < 1:
            more = [*smaller, "a larger batch or more heads"] if result.heads else [*smaller, "more CTAs"]
            return f"{' or '.join(more)}, for the CTA slots left empty"
        if result.causal and result.scheduler == "static":
            return "a scheduler that hands CTAs out as slots free up, instead of a static stride"
        if result.causal and result.order == "ascending":
            return f"{' or '.join(['the order longest_first', *smaller])}, for the idle tail"
        return f"{' or '.join(smaller or ['smaller CTAs'])}, for the idle tail"

    def _waste(self) -> float:
        """Share of the FLOPs that the schedule computes and nobody asked for."""
        asked, executed = self.result.flops, self.result.executed_flops
        return max(0.0, 1 - asked / executed) if asked and executed and self.kernel.executed_flops else 0.0

    def _waste_text(self) -> str:
        return "tiles that fit the shape and its mask, without their padding and masked scores"

    def _launch_text(self) -> str:
        if self.result.timing in ("graph", "ncu"):
            return "fewer or cheaper kernel launches"
        return "a CUDA graph, or fewer kernels, for the launches"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
