"""Explanations of hand-made points: the named cause, and what a change saves at most, worked out in the test."""

import pytest

from gpusim import (
    AttentionWorkload,
    Conditions,
    KernelResult,
    Point,
    PointResult,
    Stall,
    apply_overrides,
    load_gpu,
    parse_request,
    run_point,
)
from gpusim.explain import Explanation, explain

H100 = load_gpu("h100_sxm5_80gb")
STREAM_SHARE = H100.timings().hbm.stream_bandwidth_bytes_per_s / H100.memory.hbm.peak_bandwidth_bytes_per_s
IDLE_BUSY = dict.fromkeys(("pipe", "tensor", "sfu", "fp32", "smem", "hbm", "l2"), 0.0)


def kernel(stalls: dict[Stall, float], busy: dict[str, float], **fields: object) -> KernelResult:
    """One kernel of 1 ms with one CTA an SM and ten waves; shares that are not given are 0."""
    counted = dict.fromkeys(
        (
            *("operand_bytes", "l2_read_bytes", "l2_write_bytes", "l2_hit_rate", "hbm_read_bytes", "hbm_write_bytes"),
            *("smem_read_bytes", "smem_write_bytes", "executed_flops", "smem_bytes_per_cta", "registers_per_thread"),
        ),
        0,
    )
    values: dict[str, object] = {
        "name": "forward",
        "latency_ms": 1.0,
        "ctas": 1320,
        "ctas_per_sm": 1,
        "limited_by": "registers",
        "waves": 10.0,
        "bottleneck": "latency",
        "sustained_clock_mhz": 1980.0,
        "power_w": None,
    }
    stalls = dict.fromkeys(Stall, 0.0) | stalls
    assert 1 == pytest.approx(sum(stalls.values()))
    return KernelResult.model_validate(counted | values | {"stalls": stalls, "busy": IDLE_BUSY | busy} | fields)


def point(*kernels: KernelResult, **fields: object) -> PointResult:
    """A point of these kernels and nothing around them; the bottleneck is the longest kernel's."""
    longest = max(kernels, key=lambda item: item.latency_ms)
    values: dict[str, object] = {
        "gpu": H100.name,
        "schedule": "flash2",
        "implementation": "flash2",
        "version": None,
        "dtype": "fp16",
        "batch": 1,
        "heads": 1,
        "seqlen_q": 4096,
        "seqlen_k": 4096,
        "head_dim": 128,
        "causal": False,
        "sm_clock_mhz": None,
        "timing": "event",
        "cache": "cold",
        "stack": None,
        "status": "ok",
        "latency_ms": sum(item.latency_ms for item in kernels),
        "tile_q": 128,
        "tile_kv": 64,
        "stages": 1,
        "order": "ascending",
        "scheduler": "hardware",
        "bottleneck": longest.bottleneck,
        "stalls": longest.stalls,
        "kernels": kernels,
    }
    return PointResult.model_validate(values | fields)


def told(result: PointResult) -> Explanation:
    """The explanation of a point on the H100."""
    found = explain(result, H100)
    assert found is not None
    return found


def test_a_kernel_at_the_rate_of_hbm_wants_bandwidth() -> None:
    """HBM at all it reaches, 90 % waiting for tiles; beside it the pipe needs 10 % and L2 30 %: at most 70 % less."""
    starved = kernel(
        {Stall.COMPUTE: 0.1, Stall.LOAD: 0.9}, {"pipe": 0.1, "l2": 0.3, "hbm": STREAM_SHARE}, bottleneck="hbm"
    )
    found = told(point(starved))
    moved = H100.timings().hbm.stream_bandwidth_bytes_per_s / 1e9
    assert found.bound.startswith(f"HBM bandwidth: {moved:,.0f} GB/s is 100.0 % of what streams reach")
    assert "1.00 ms = 0.100 ms at the compute pipe + 0.900 ms waiting for tiles" == found.time
    assert "70.0 % with more HBM bandwidth, or fewer bytes" == found.change


def test_a_kernel_at_the_port_of_l2_wants_fewer_reads() -> None:
    """L2 is busy 80 % of the time and 50 % is waits, half of it for writes; the pipe needs 40 %."""
    stalls = {Stall.COMPUTE: 0.5, Stall.LOAD: 0.25, Stall.STORE: 0.25}
    found = told(point(kernel(stalls, {"pipe": 0.4, "l2": 0.8}, bottleneck="l2")))
    assert found.bound.startswith("L2 bandwidth: its port is busy 80.0 % of the time")
    assert found.change.startswith("50.0 % with more L2 bandwidth, or fewer reads by a larger tile_q than 128")


def test_one_cta_on_132_sms_leaves_the_rest_idle() -> None:
    """131 of 132 slots are empty. The CTA's own time is all that counts: the millisecond is its work at the pipe."""
    stalls = {Stall.COMPUTE: 1 / 132, Stall.IDLE: 131 / 132}
    found = told(point(kernel(stalls, {"pipe": 1 / 132}, ctas=1, waves=1 / 132)))
    assert "1 CTA for 132 slots, 99.2 % of whose time is idle, and a CTA spends 100.0 % of its time" in found.bound
    assert "1.00 ms = 1.00 ms at the compute pipe" == found.time
    assert found.change == (
        "99.2 % with a smaller tile_q than 128 or a larger batch or more heads, for the CTA slots left empty"
    )


def test_loads_that_nothing_hides_want_stages() -> None:
    """One stage: three quarters of every step are a wait. Without it a step takes the remaining quarter."""
    found = told(point(kernel({Stall.COMPUTE: 0.25, Stall.LOAD: 0.75}, {"pipe": 0.25, "l2": 0.1})))
    assert found.bound.endswith("the longest wait is 75.0 % waiting for tiles")
    assert found.exposed.startswith("75.0 % waiting for tiles (10.0 waves of 132 CTAs)")
    assert "moving all data alone takes 0.100 ms at L2 and 0 µs at HBM" in found.exposed
    assert "75.0 % with more stages than 1 or more CTAs an SM than 1 (limit: registers), for the waits for tiles" == (
        found.change
    )


def test_no_wait_saves_what_the_busiest_unit_needs_all_the_same() -> None:
    """Loads are half of the slots' time, but the pipe is held 80 % of it by one of two CTAs: 20 % at most."""
    stalls = {Stall.COMPUTE: 0.4, Stall.PIPE: 0.1, Stall.LOAD: 0.5}
    found = told(point(kernel(stalls, {"pipe": 0.8}, ctas_per_sm=2, bottleneck="compute pipe")))
    assert found.bound.startswith("the compute pipe of the SMs, held 80.0 % of the time")
    assert found.change.startswith("20.0 % with more stages than 1 or more CTAs an SM than 2")


def test_waits_are_counted_over_the_time_in_which_slots_hold_a_cta() -> None:
    """Half of the time is idle; of a CTA's own time the 0.1 of waiting is a fifth, and that is what it can save."""
    found = told(point(kernel({Stall.COMPUTE: 0.4, Stall.LOAD: 0.1, Stall.IDLE: 0.5}, {"pipe": 0.4})))
    assert "50.0 % with a smaller tile_q than 128, for the idle tail; 20.0 % with more stages than 1" in found.change


def test_a_throttled_clock_is_named_with_the_power_limit() -> None:
    """1,485 of 1,980 MHz: work at the pipe, all of a CTA's time, would take 25 % less."""
    busy = {"pipe": 0.9, "tensor": 0.6, "sfu": 0.3}
    stalls = {Stall.COMPUTE: 0.9, Stall.IDLE: 0.1}
    found = told(point(kernel(stalls, busy, bottleneck="compute pipe", sustained_clock_mhz=1485.0, power_w=690.0)))
    first, *_ = found.change.split("; ")
    assert "25.0 % with a clock of 1,980 MHz instead of the 1,485 that the power limit of 700 W leaves" == first
    assert "at peak rates matrix units 60.0 % and exponentials 30.0 % of it would do" in found.bound
    assert "softmax" not in found.change


def test_a_locked_clock_is_named_as_what_it_is() -> None:
    """990 MHz is half of the boost clock."""
    locked = kernel({Stall.COMPUTE: 1.0}, {"pipe": 1.0}, bottleneck="compute pipe", sustained_clock_mhz=990.0)
    found = told(point(locked, sm_clock_mhz=990.0))
    assert "50.0 % with a clock of 1,980 MHz instead of the 990 where it is locked" == found.change


def test_softmax_beside_matrix_work_is_named_where_the_pipe_is_held_for_both() -> None:
    """The pipe is always held, matrix units need 60 % of it: 40 % at most."""
    found = told(
        point(kernel({Stall.COMPUTE: 1.0}, {"pipe": 1.0, "tensor": 0.6, "sfu": 0.4}, bottleneck="compute pipe"))
    )
    assert "40.0 % with softmax, rescaling and masks wholly hidden by matrix work at its peak" == found.change


@pytest.mark.parametrize(
    ("choices", "what"),
    [
        ({"causal": True}, "the order longest_first or a smaller tile_q than 128"),
        ({"causal": True, "scheduler": "static"}, "a scheduler that hands CTAs out as slots free up"),
        ({"causal": True, "order": "longest_first"}, "a smaller tile_q than 128, for the idle tail"),
        ({"causal": False}, "a smaller tile_q than 128, for the idle tail"),
    ],
)
def test_a_tail_wants_another_order_where_ctas_differ_in_length(choices: dict[str, object], what: str) -> None:
    """18 % of the slots' time is idle in 1.3 waves, and that is what a perfect balance saves."""
    tail = kernel(
        {Stall.COMPUTE: 0.5, Stall.SYNC: 0.32, Stall.IDLE: 0.18},
        {"pipe": 0.5},
        waves=1.3,
        ctas=172,
        bottleneck="latency",
    )
    savings = told(point(tail, **choices)).change.split("; ")
    assert any(saving.startswith(f"18.0 % with {what}") for saving in savings)


def test_latency_of_steps_is_the_named_cause_where_it_is_the_longest_wait() -> None:
    """Half of the time; larger tiles take fewer steps."""
    found = told(point(kernel({Stall.COMPUTE: 0.4, Stall.LOAD: 0.1, Stall.SYNC: 0.5}, {"pipe": 0.4})))
    assert found.bound.endswith("the longest wait is 50.0 % in latency of steps and prologues")
    assert found.change.startswith("50.0 % with a larger tile_kv than 64 or more CTAs an SM")


@pytest.mark.parametrize(
    ("lengths", "fields", "never"),
    [
        ({"seqlen_k": 64}, {"schedule": "flash2"}, "a larger tile_kv"),  # one tile is all of K
        ({"seqlen_k": 64}, {"schedule": "flash2"}, "more stages"),
        ({"seqlen_q": 128}, {"schedule": "flash1"}, "more stages"),  # FA-1 streams Q tiles, here one
        ({}, {"schedule": "flash1"}, "a smaller tile_q"),  # it has a CTA a head
        ({}, {"schedule": "flash2", "tile_q": 16}, "a smaller tile_q"),  # of a matrix instruction
        ({}, {"schedule": "flash3", "tile_q": 64}, "a smaller tile_q"),  # of a warpgroup
    ],
)
def test_no_advice_is_given_that_cannot_help(lengths: dict[str, int], fields: dict[str, object], never: str) -> None:
    """A quarter of the time each for loads, steps and the tail: all three are told, but not by such a change."""
    stalls = {Stall.COMPUTE: 0.25, Stall.LOAD: 0.25, Stall.SYNC: 0.25, Stall.IDLE: 0.25}
    shape = {"seqlen_q": 4096, "seqlen_k": 4096, "causal": False}
    found = told(point(kernel(stalls, {"pipe": 0.25}), **(shape | lengths | fields)))
    for cause in ("for the waits for tiles", "for the latency of steps", "for the idle tail"):
        assert cause in found.change
    assert never not in found.change


def test_hbm_is_among_the_units_at_their_peak_rates() -> None:
    """The pipe is held all the time; at its peak HBM would need half of it."""
    busy = {"pipe": 1.0, "tensor": 0.4, "hbm": 0.5}
    found = told(point(kernel({Stall.COMPUTE: 1.0}, busy, bottleneck="compute pipe")))
    assert "at peak rates HBM 50.0 % and matrix units 40.0 % of it would do" in found.bound


def test_launches_are_a_fixed_cost() -> None:
    """1 ms of kernel in a call of 4 ms."""
    work = kernel({Stall.COMPUTE: 1.0}, {"pipe": 1.0}, bottleneck="compute pipe")
    found = told(point(work, latency_ms=4.0, bottleneck="launch"))
    assert "launches: 75.0 % of the latency is the fixed cost of 1 kernel" == found.bound
    assert "4.00 ms = 1.00 ms at the compute pipe + 3.00 ms fixed (launches, host)" == found.time
    assert found.change.startswith("75.0 % with a CUDA graph, or fewer kernels, for the launches")


def test_of_several_kernels_the_longest_is_explained_with_its_weight() -> None:
    """3 of 4 ms are the softmax, whose pipe is always held; half of the other kernel is waiting: 0.5 ms of 4."""
    longest = kernel({Stall.COMPUTE: 1.0}, {"pipe": 1.0}, name="softmax", latency_ms=3.0, bottleneck="compute pipe")
    other = kernel({Stall.COMPUTE: 0.5, Stall.LOAD: 0.5}, {"pipe": 0.5}, name="qk")
    found = told(point(longest, other))
    assert found.bound.startswith("softmax, the longest of 2 kernels with 75.0 % of the time: the compute pipe")
    assert "4.00 ms = 3.50 ms at the compute pipe + 0.500 ms waiting for tiles" == found.time
    assert "nothing above 1.0 % but less work for the compute pipe" == found.change


def test_padding_and_masked_scores_are_work_that_nobody_asked_for() -> None:
    """110 FLOPs executed for 88: a fifth of the pipe's time."""
    padded = kernel({Stall.COMPUTE: 1.0}, {"pipe": 1.0}, bottleneck="compute pipe", executed_flops=110)
    assert told(point(padded, flops=88, executed_flops=110)).change.startswith("20.0 % with tiles that fit the shape")


def test_what_was_not_simulated_has_no_explanation() -> None:
    """A refusal carries its own reason and fix."""
    workload = AttentionWorkload(batch=1, heads=1, seqlen_q=8, seqlen_k=8, head_dim=4)
    canvas = load_gpu("canvas")
    refused = run_point(
        Point(canvas, parse_request({"name": "flash2", "tile_q": 8, "tile_kv": 8}, "t"), workload, Conditions())
    )
    assert "refused" == refused.status
    assert explain(refused, canvas) is None


SMALL = AttentionWorkload(batch=1, heads=8, seqlen_q=64, seqlen_k=64, head_dim=4)


def simulated(**changes: str) -> Explanation:
    """FlashAttention-2 on canvas, whose single SM takes one CTA of one stage at a time, with some numbers changed."""
    spec = apply_overrides(load_gpu("canvas"), {path.replace("__", "."): value for path, value in changes.items()})
    request = parse_request({"name": "flash2", "tile_q": 4, "tile_kv": 4}, "test")
    result = run_point(Point(spec, request, SMALL, Conditions(timing="ncu")))
    found = explain(result, spec)
    assert found is not None
    return found


def test_a_starved_memory_is_found_in_a_simulation() -> None:
    """A hundredth of canvas' bandwidth: HBM is busy nearly all the time."""
    slow = simulated(memory__hbm__peak_bandwidth_bytes_per_s="1e7", memory__hbm__stream_bandwidth_bytes_per_s="1e7")
    assert slow.bound.startswith("HBM bandwidth")
    assert "with more HBM bandwidth, or fewer bytes by a larger tile_q than 4" in slow.change


def test_a_long_latency_behind_one_stage_is_found_in_a_simulation() -> None:
    """100 µs a load and one buffer: a CTA waits for nearly all of its time, and no unit is busy."""
    far = simulated(memory__hbm__near_latency_ns="1e5", memory__hbm__far_latency_ns="1e5")
    assert far.bound.startswith("latency, no unit")
    assert "waiting for tiles" in far.bound
    assert "with more stages than 1" in far.change
