"""One point: whatever is asked, one result with inputs, status, and an answer or a reason."""

import pytest

from gpusim.analytic import lower_bound
from gpusim.implementations import parse_request
from gpusim.point import STEPS_PER_CTA, Point, run_point
from gpusim.results import PointResult
from gpusim.specs import load_gpu
from gpusim.trace import Stall
from gpusim.workloads import (
    AttentionWorkload,
    CacheReadWorkload,
    ChaseWorkload,
    Conditions,
    GemmWorkload,
    RowsWorkload,
    StreamWorkload,
    Workload,
)

A100 = load_gpu("a100_sxm4_40gb")


def attention(seqlen: int = 256, **options: object) -> AttentionWorkload:
    """Four heads of self-attention at d = 64."""
    shape = {"batch": 1, "heads": 4, "seqlen_q": seqlen, "seqlen_k": seqlen, "head_dim": 64}
    return AttentionWorkload.model_validate(shape | options)


def point(schedule: object = "flash2", *, seqlen: int = 256, options: object = (), **conditions: object) -> Point:
    """A point on an A100-40."""
    workload = attention(seqlen, **dict(options))
    return Point(A100, parse_request(schedule, "test"), workload, Conditions(**conditions))


def test_a_result_states_what_was_asked() -> None:
    """Inputs first, as written."""
    result = run_point(point("flash1@2022-05", timing="ncu", sm_clock_mhz=1200.0))
    asked = ("a100_sxm4_40gb", "flash1", "flash1", "2022-05", 1200.0, "ncu", "cold", "ok")
    assert asked == (
        result.gpu,
        result.schedule,
        result.implementation,
        result.version,
        result.sm_clock_mhz,
        result.timing,
        result.cache,
        result.status,
    )


def test_stated_choices_are_reported_as_custom_with_what_was_used() -> None:
    """The schedule's own name stays; tiles are those stated, the rest those of the table."""
    result = run_point(point({"name": "flash2", "tile_q": 64, "tile_kv": 32}))
    assert ("flash2", "custom") == (result.schedule, result.implementation)
    assert (64, 32, 1, 4, "registers") == (
        result.tile_q,
        result.tile_kv,
        result.stages,
        result.warps,
        result.accumulators,
    )


def test_flops_and_throughput_follow_the_convention() -> None:
    """4·B·H·N²·d FLOPs, and TFLOP/s from the latency."""
    result = run_point(point())
    flops = 4 * 4 * 256**2 * 64
    assert flops == result.flops
    assert flops / (result.latency_ms * 1e-3) / 1e12 == pytest.approx(result.tflops, rel=1e-12)


def test_executed_flops_count_padding() -> None:
    """N = 130 in tiles of 128 computes 256 × 256 scores a head."""
    result = run_point(point(seqlen=130))
    assert (4 * 4 * 130**2 * 64, 4 * 4 * 256**2 * 64) == (result.flops, result.executed_flops)


def test_the_bound_is_that_of_the_stated_clock() -> None:
    """At a locked clock the peak is lower and the bound higher."""
    locked = run_point(point(sm_clock_mhz=705.0, seqlen=1024))
    assert 2 == pytest.approx(locked.bound_ms / lower_bound(attention(1024), A100, "cold").ms, rel=1e-12)
    assert run_point(point(seqlen=1024)).latency_ms < locked.latency_ms


def test_a_stack_brings_its_host_floor() -> None:
    """The FlashAttention-1 paper's loop takes 0.08 ms a call of flash1, however small; a stated floor wins."""
    assert 0.08 == run_point(point("flash1", seqlen=128, stack="fa1_paper")).latency_ms
    assert 0.5 == run_point(point("flash1", seqlen=128, stack="fa1_paper", host_floor_ms=0.5)).latency_ms
    assert run_point(point("flash2", seqlen=128, stack="fa1_paper")).latency_ms < 0.08


def test_waiting_for_the_host_is_launch_time() -> None:
    """A floor ten times the kernel: launches are the bottleneck and most of the stall shares."""
    result = run_point(point(seqlen=128, host_floor_ms=1.0))
    assert "launch" == result.bottleneck
    assert result.stalls[Stall.LAUNCH] > 0.9


@pytest.mark.parametrize(
    "options",
    [
        {"dropout": 0.1},
        {"mask": "alibi"},
        {"window": 64},
        {"pass": "bwd"},
        {"dtype": "fp32"},
    ],
    ids=str,
)
def test_what_is_not_modelled_yet_is_answered_unsupported(options: dict[str, object]) -> None:
    """Status, reason and fix; no number is made up, and the request is reported as it was."""
    result = run_point(point(options=options))
    assert "unsupported" == result.status
    assert result.reason
    assert result.fix
    assert (None, None, None, ()) == (result.latency_ms, result.hbm_read_bytes, result.bound_ms, result.kernels)
    record = result.record()
    assert {name: record[name] for name in options} == options


def test_a_large_point_is_refused_before_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """8 CTAs of 1 + 2 steps and more are above a guard of 20; the answer says how to force it."""
    monkeypatch.setattr("gpusim.point.SIZE_GUARD_STEPS", 20)
    result = run_point(point())
    assert ("refused", None) == (result.status, result.latency_ms)
    assert "size guard" in result.reason
    assert "--force" in result.fix
    assert 128 == result.tile_q


def test_forcing_runs_the_same_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """With `force` the answer is that of an unguarded run."""
    unguarded = run_point(point())
    monkeypatch.setattr("gpusim.point.SIZE_GUARD_STEPS", 20)
    assert unguarded == run_point(point(), force=True)


def test_the_guard_allows_exactly_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """4 heads × 2 Q tiles are 8 CTAs of 1 + 2 steps, each counted as STEPS_PER_CTA more."""
    size = 8 * (3 + STEPS_PER_CTA)
    monkeypatch.setattr("gpusim.point.SIZE_GUARD_STEPS", size)
    assert "ok" == run_point(point()).status
    monkeypatch.setattr("gpusim.point.SIZE_GUARD_STEPS", size - 1)
    assert "refused" == run_point(point()).status


def test_the_guard_refuses_millions_of_ctas_of_one_step() -> None:
    """12 million heads of one query and one key are 24 million steps, which it would allow, of 12 million CTAs."""
    result = run_point(point(options={"batch": 120_000, "heads": 100, "seqlen_q": 1, "seqlen_k": 1}))
    assert "refused" == result.status
    assert "24,000,000 loop steps of 12,000,000 CTAs" in str(result.reason)


TILE_CHOICES = [(tile, stages) for tile in (8, 512) for stages in (1, 2)]


def test_refused_points_report_the_choices_that_were_stated() -> None:
    """Tiles that do not fit stay apart in a table; what was not stated is not made up."""
    asked = [{"name": "flash2", "tile_q": tile, "tile_kv": 512, "stages": stages} for tile, stages in TILE_CHOICES]
    results = [run_point(point(schedule)) for schedule in asked]
    assert {"refused"} == {result.status for result in results}
    assert TILE_CHOICES == [(result.tile_q, result.stages) for result in results]
    assert {(512, None)} == {(result.tile_kv, result.warps) for result in results}


def test_an_unsupported_point_reports_the_choices_that_were_stated() -> None:
    """flash3 runs on no A100, whatever its tiles."""
    result = run_point(point({"name": "flash3", "tile_q": 128, "tile_kv": 64, "order": "longest_first"}))
    assert ("unsupported", 128, 64, "longest_first") == (result.status, result.tile_q, result.tile_kv, result.order)


def test_a_chased_set_has_to_fit_device_memory() -> None:
    """The A100-40 has 42,406,903,808 B; a set of as many is chased, one byte more is out of memory."""
    capacity = A100.memory.hbm.capacity_bytes
    assert 42_406_903_808 == capacity
    request = parse_request("pointer_chase", "test")
    fitting, beyond = (
        run_point(Point(A100, request, ChaseWorkload(footprint_bytes=size, hops=64), Conditions()))
        for size in (capacity, capacity + 1)
    )
    assert "ok" == fitting.status
    assert ("out_of_memory", None, False) == (beyond.status, beyond.latency_ms, beyond.validated)
    assert "42,406,903,809 B" in str(beyond.reason)
    assert "lower footprint_bytes" == beyond.fix


@pytest.mark.parametrize(
    ("schedule", "seqlen", "batch", "other"),
    [
        ("naive", 16384, 16, ", or use a schedule that keeps nothing between kernels"),  # Q, K, V and O are 1 GiB
        ("naive", 16384, 1024, ""),  # 64 GiB
        ("flash2", 16384, 1024, ""),
    ],
)
def test_another_schedule_is_named_where_inputs_and_outputs_alone_fit(
    schedule: str, seqlen: int, batch: int, other: str
) -> None:
    """4·B·H·N·d numbers of 2 bytes against 39.5 GiB; no schedule does without them."""
    result = run_point(point(schedule, options={"batch": batch, "heads": 8, "seqlen_q": seqlen, "seqlen_k": seqlen}))
    assert "out_of_memory" == result.status
    assert f"lower batch, heads or seqlen{other}" == result.fix


def test_a_refused_point_still_knows_its_memory() -> None:
    """Out of memory is an answer with the bytes that would be needed."""
    workload = AttentionWorkload(batch=16, heads=8, seqlen_q=16384, seqlen_k=16384, head_dim=64)
    result = run_point(Point(A100, parse_request("naive", "test"), workload, Conditions()))
    assert "out_of_memory" == result.status
    assert 2 * 128 * (4 * 16384 * 64 + 2 * 16384**2) == result.peak_memory_bytes


def test_a_record_holds_every_field() -> None:
    """All fields of the interface, with `pass` spelled as users write it."""
    record = run_point(point()).record()
    fields = {("pass" if name == "pass_" else name) for name in PointResult.model_fields}
    assert fields == set(record)
    assert "pass_" not in record


def test_a_fit_only_gpu_without_a_tile_table_is_fit_only_first() -> None:
    """Turing has no tiles for flash2; stating some would only lead to a second refusal."""
    result = run_point(Point(load_gpu("t4"), parse_request("flash2", "test"), attention(), Conditions()))
    assert "unsupported" == result.status
    assert result.reason
    assert result.reason.startswith("t4 is fit-only; simulation needs memory.l2.bandwidth_bytes_per_s")
    assert "state them in your own config with base: t4, or use gpusim fit" == result.fix


@pytest.mark.parametrize("clock_mhz", [300.0, 1200.0])
def test_every_ceiling_is_at_the_clock_of_the_point(clock_mhz: float) -> None:
    """4·4·4,096²·64 FLOPs at 108 SMs of 2,048 FLOP a clock: roofline and ceiling agree where matrix units decide."""
    result = run_point(point(seqlen=4096, sm_clock_mhz=clock_mhz))
    seconds = 4 * 4 * 4096**2 * 64 / (108 * 2048 * clock_mhz * 1e6)
    assert pytest.approx(1e3 * seconds, rel=1e-12) == result.roofline_ms == result.ceiling_ms


def test_stacks_of_the_base_add_no_pass_to_a_fused_softmax() -> None:
    """Megatron's one kernel scales and exponentiates: no pass over the scores, whatever the stack divides elsewhere."""
    for stack in ("fxmarty", "fa1_paper"):
        names = [kernel.name for kernel in run_point(point("megatron_fused_softmax", stack=stack)).kernels]
        assert "divide" not in names
        assert 1 == names.count("softmax")


WARM = Conditions(timing="ncu", cache="warm")


def kernel(name: str, workload: Workload, conditions: Conditions = WARM) -> PointResult:
    """The result of a single kernel on an A100-40."""
    return run_point(Point(A100, parse_request(name, "test"), workload, conditions))


def test_a_product_reports_its_sides_and_tile_and_nothing_of_attention() -> None:
    """2·m·n·k FLOPs a product of the batch; operands are A, B and C once."""
    result = kernel("torch_matmul", GemmWorkload(batch=2, m=512, n=256, k=64))
    assert (2, 512, 256, 64, "fp16") == (result.batch, result.m, result.n, result.k, result.dtype)
    assert (None, None, None, None, None) == (
        result.pass_,
        result.seqlen_q,
        result.causal,
        result.tile_q,
        result.rows,
    )
    assert result.tile_m
    operand_bytes = 2 * 2 * (512 * 64 + 64 * 256 + 512 * 256)
    assert (2 * 2 * 512 * 256 * 64, operand_bytes) == (result.flops, result.operand_bytes)
    assert operand_bytes / result.latency_ms / 1e6 == pytest.approx(result.operand_gb_per_s, rel=1e-12)
    assert ("m", 512) == (result.kind.size_field, result.size)


def test_a_pass_has_a_rate_in_bytes_and_none_in_flops() -> None:
    """The matrix once in and once out."""
    result = kernel("torch_softmax", RowsWorkload(rows=512, cols=2048))
    assert (None, 0, 2 * 512 * 2048 * 2) == (result.tflops, result.flops, result.operand_bytes)
    assert 2 * 512 * 2048 * 2 / result.latency_ms / 1e6 == pytest.approx(result.gb_per_s, rel=1e-12)


def test_a_chase_has_a_latency_a_hop() -> None:
    """256 hops; a warm set of 32 KiB stays in L2, and nothing is its time in bytes or FLOPs."""
    result = kernel("pointer_chase", ChaseWorkload(footprint_bytes=1 << 15, hops=256))
    assert 1e6 * result.latency_ms / 256 == pytest.approx(result.latency_per_hop_ns, rel=1e-12)
    assert (0, 1.0) == (result.hbm_read_bytes, result.l2_hit_rate)
    assert 0 < result.bound_ms < result.latency_ms


def test_reads_of_a_cache_are_rated_by_all_that_is_read() -> None:
    """Eight rounds of 108 · 2 CTAs on 16 parts: 13 share one, so 13 · 8 times the set."""
    result = kernel("cache_read", CacheReadWorkload(footprint_bytes=1 << 20, part_bytes=1 << 16))
    assert 13 * 8 * (1 << 20) == result.l2_read_bytes
    assert 13 * 8 * (1 << 20) / result.latency_ms / 1e6 == pytest.approx(result.gb_per_s, rel=1e-12)


def test_what_reads_nothing_has_no_hit_rate() -> None:
    """A fill."""
    result = kernel("stream", StreamWorkload(elements=4096, loads=0, stores=1))
    assert ("ok", None, 4096 * 8) == (result.status, result.l2_hit_rate, result.l2_write_bytes)


def test_the_wrong_kind_of_workload_is_unsupported() -> None:
    """An answer with a fix, as for everything that has no model."""
    result = kernel("flash2", ChaseWorkload(footprint_bytes=4096))
    assert ("unsupported", "flash2 computes attention, not a pointer chase") == (result.status, result.reason)
    assert ("use one of pointer_chase", 4096) == (result.fix, result.footprint_bytes)


def test_what_does_not_fit_memory_says_which_field_to_lower() -> None:
    """Six arrays of 8 GB on 40 GB."""
    result = kernel("stream", StreamWorkload(elements=10**9, loads=5, stores=1))
    assert ("out_of_memory", "lower elements") == (result.status, result.fix)


def test_a_fit_only_gpu_says_so_before_anything_about_a_kernel() -> None:
    """Turing's SM holds 1,024 threads; fewer would lead to a second refusal."""
    copy = StreamWorkload(elements=1000, loads=1, stores=1)
    result = run_point(Point(load_gpu("t4"), parse_request("stream", "test"), copy, Conditions()))
    assert "unsupported" == result.status
    assert "t4 is fit-only" in (result.reason or "")
