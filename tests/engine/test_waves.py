"""CTAs on slots: waves, shared pipes and launches come out of the simulation, they are no formula in it."""

import math

import pytest

from gpusim.dtypes import DType
from gpusim.engine import Simulation, estimated_steps, simulate
from gpusim.schedules import SCHEDULES, FlashChoices
from gpusim.specs import GpuSpec, load_gpu
from gpusim.taskgraph import Fill, KernelBuilder, Scale, TaskGraph
from gpusim.trace import Stall
from gpusim.workloads import AttentionWorkload, Conditions

ONE = 16_000  # ps: 16 numbers at one a clock of 1 GHz


def toy(sms: int, slots: int, *, ctas_per_s: float = 1e15) -> GpuSpec:
    """`sms` SMs with room for `slots` CTAs each; CTAs launch in no time unless said otherwise."""
    canvas = load_gpu("canvas")
    sm = canvas.sm.model_copy(
        update={
            "count": sms,
            "max_ctas": slots,
            "max_warps": slots,
            "max_threads": 32 * slots,
            "smem_bandwidth_bytes_per_clk": 1_000_000,
            "smem_bytes": 100_000,
        }
    )
    launch = canvas.launch.model_copy(update={"ctas_per_s": ctas_per_s})
    return canvas.model_copy(update={"sm": sm, "launch": launch})


def run(ctas: int, spec: GpuSpec) -> Simulation:
    """`ctas` CTAs of 16 clocks of arithmetic each, no memory."""
    cta = KernelBuilder("equal", grid=[("head", ctas)], warps=1, compute_dtype=DType.FP16)
    tile = cta.buffer("tile", 4, 4)
    cta.do("start", Fill(tile, 1.0))
    cta.do("double", Scale(tile, 2.0))
    return simulate(TaskGraph((cta.build(),)), spec, Conditions(timing="ncu"))


@pytest.mark.parametrize("sms", [1, 3, 4])
@pytest.mark.parametrize("ctas", [1, 3, 4, 5, 12, 13])
def test_equal_ctas_take_whole_waves(ctas: int, sms: int) -> None:
    """k CTAs on n slots take ⌈k/n⌉ times one CTA."""
    done = run(ctas, toy(sms, 1))
    assert math.ceil(ctas / sms) * ONE == done.latency_ps
    assert ctas / sms == done.kernels[0].waves


def test_two_slots_of_an_sm_share_its_compute_pipe() -> None:
    """Arithmetic alone gains nothing from a second slot: six CTAs take six times one, and each waits its turn."""
    done = run(6, toy(1, 2))
    assert 6 * ONE == done.latency_ps
    stalls = done.kernels[0].stall_ps
    assert 6 * ONE == stalls[Stall.COMPUTE]
    assert 5 * ONE == stalls[Stall.PIPE]  # all but the very first wait for one other CTA
    assert ONE == stalls[Stall.IDLE]  # the slot that runs out of CTAs first


def test_ctas_are_launched_one_after_another() -> None:
    """One launch every 2,000 ps for the whole GPU: the third SM starts at 6,000."""
    assert 3 * 2_000 + ONE == run(3, toy(3, 1, ctas_per_s=5e8)).latency_ps


def test_a_launch_rate_can_be_the_limit() -> None:
    """A launch every 20,000 ps is slower than three SMs need: five CTAs start at 20,000 … 100,000."""
    assert 5 * 20_000 + ONE == run(5, toy(3, 1, ctas_per_s=5e7)).latency_ps


def test_idle_slots_are_counted_as_idle() -> None:
    """One CTA on four SMs: three slots idle for the whole kernel."""
    stalls = run(1, toy(4, 1)).kernels[0].stall_ps
    assert (ONE, 3 * ONE) == (stalls[Stall.COMPUTE], stalls[Stall.IDLE])
    assert 4 * ONE == sum(stalls.values())


def test_steps_are_counted_before_the_run() -> None:
    """4 Q tiles × 6 heads CTAs of one prologue and 8 K/V tiles each: 24 · 9 steps."""
    workload = AttentionWorkload(batch=2, heads=3, seqlen_q=64, seqlen_k=128, head_dim=16)
    graph = SCHEDULES["flash2"].build(workload, FlashChoices(tile_q=16, tile_kv=16), {})
    assert 24 * 9 == estimated_steps(graph)
