"""Latencies of tiny kernels of one CTA on a toy GPU of one SM, worked out step by step in picoseconds."""

from dataclasses import replace

import pytest
from toy_gpu import CLOCK, LATENCY, LAUNCH, MOVE, NCU, SCALE, TILE_BYTES, toy

from gpusim.dtypes import DType
from gpusim.engine import Simulation, simulate
from gpusim.specs import GpuSpec
from gpusim.specs.sm import TensorPath
from gpusim.taskgraph import (
    Exponential,
    Fill,
    KernelBuilder,
    KernelCost,
    MatMul,
    Normalise,
    OnlineSoftmax,
    Role,
    Scale,
    SubtractRows,
    TaskGraph,
    Tensor,
)
from gpusim.trace import Stall, TimelineRecorder
from gpusim.workloads import Conditions

X = Tensor("X", 1, 8, 4, DType.FP16, Role.INPUT, 4, 4)
W = Tensor("W", 1, 4, 4, DType.FP16, Role.INPUT, 4, 4)
Y = Tensor("Y", 1, 8, 4, DType.FP16, Role.OUTPUT, 4, 4)


def builder(name: str = "toy") -> KernelBuilder:
    """An empty kernel of one CTA."""
    return KernelBuilder(name, grid=[("head", 1)], warps=1, compute_dtype=DType.FP16, accumulators="smem")


def streamed(stages: int, cost: KernelCost | None = None) -> TaskGraph:
    """for j in 0, 1: load X[j]; X *= 2; store Y[j]."""
    cta = builder()
    tile = cta.buffer("tile", 4, 4, stages=stages)
    with cta.loop("j", 2):
        cta.load(X.tile(row="j"), tile)
        cta.do("double", Scale(tile, 2.0))
        cta.store(tile, Y.tile(row="j"))
    return TaskGraph((cta.build(cost=cost),))


def product() -> TaskGraph:
    """load X[0], load W; multiply; store."""
    cta = builder()
    x, w, out = cta.buffer("x", 4, 4), cta.buffer("w", 4, 4), cta.accumulator("out", 4, 4)
    cta.load(X.tile(), x)
    cta.load(W.tile(), w)
    cta.do("multiply", MatMul(x, w, out))
    cta.store(out, Y.tile())
    return TaskGraph((cta.build(),))


def latency(graph: TaskGraph, spec: GpuSpec | None = None) -> int:
    """Simulated latency in ps of the kernels alone."""
    return simulate(graph, toy() if spec is None else spec, NCU).latency_ps


def compute_spans(graph: TaskGraph) -> list[tuple[int, int]]:
    """When the compute pipe was held, as (start, end) in ps."""
    recorder = TimelineRecorder()
    simulate(graph, toy(), NCU, recorder)
    return [(span.start_ps, span.end_ps) for span in recorder.spans if span.kind is Stall.COMPUTE]


def test_one_buffer_loads_computes_and_stores_in_turn() -> None:
    """The second load is asked for when the buffer is free, and queues behind the store of the first tile."""
    first_usable = LAUNCH + MOVE + LATENCY
    computed = first_usable + SCALE
    stored = computed + MOVE
    second_usable = stored + MOVE + LATENCY
    recomputed = second_usable + SCALE
    assert recomputed + MOVE == latency(streamed(stages=1))
    assert 361_004 == recomputed + MOVE


def test_two_buffers_load_ahead() -> None:
    """Both loads are asked for at once; the second tile has been there for 500 ps when the first is done."""
    second_usable = LAUNCH + 2 * MOVE + LATENCY
    computed = max(second_usable, LAUNCH + MOVE + LATENCY + SCALE) + SCALE
    assert computed + MOVE == latency(streamed(stages=2))
    assert 213_003 == computed + MOVE


def test_compute_starts_when_the_tile_is_there_and_not_a_tick_before() -> None:
    """The tile is usable at 133,001: the pipe is held from then for 16 clocks; with one buffer again from 313,003."""
    assert [(133_001, 149_001), (313_003, 329_003)] == compute_spans(streamed(stages=1))
    assert [(133_001, 149_001), (165_002, 181_002)] == compute_spans(streamed(stages=2))


def test_entry_and_step_latency_delay_without_holding_the_pipe() -> None:
    """50 clocks before the first step of the loop, 70 after every step; two buffers hide the loads."""
    cost = KernelCost(entry_cycles=50, step_cycles=70)
    start = LAUNCH + MOVE + LATENCY + 50 * CLOCK
    second = start + SCALE + 70 * CLOCK
    spans = [(start, start + SCALE), (second, second + SCALE)]
    assert spans == compute_spans(streamed(2, cost))


def test_a_lower_hbm_efficiency_lengthens_every_transfer() -> None:
    """At half the rate a tile takes 64,001 ps."""
    slow = 2 * TILE_BYTES * 1_000 + 1
    computed = LAUNCH + 2 * slow + LATENCY + SCALE
    assert computed + slow == latency(streamed(2, KernelCost(hbm_efficiency=0.5)))


def with_hbm(**changed: float) -> GpuSpec:
    """The toy GPU, with some numbers of its device memory changed."""
    spec = toy()
    hbm = spec.memory.hbm.model_copy(update=changed)
    return spec.model_copy(update={"memory": spec.memory.model_copy(update={"hbm": hbm})})


@pytest.mark.parametrize(("limit_bytes", "ps_per_byte"), [(128, 1_000), (127, 2_000)])
def test_the_tensors_of_a_kernel_together_are_its_footprint(limit_bytes: int, ps_per_byte: int) -> None:
    """X and Y have 64 B each: with a limit below 128 B every tile moves at the rate of a large footprint."""
    spec = with_hbm(large_footprint_bytes=limit_bytes, large_read_bandwidth_bytes_per_s=0.5e9)
    move = TILE_BYTES * ps_per_byte + 1
    assert LAUNCH + 2 * move + LATENCY + SCALE + move == latency(streamed(2), spec)


@pytest.mark.parametrize(("access", "latency_ps"), [("streamed", LATENCY), ("random", 150_000)])
def test_a_kernel_of_random_loads_has_their_latency(access: str, latency_ps: int) -> None:
    """100 ns in a stream, 150 where the next address is not known; W and X are asked for together."""
    spec = with_hbm(near_latency_ns=150.0, far_latency_ns=170.0)
    (kernel,) = product().kernels
    graph = TaskGraph((replace(kernel, access=access),))
    assert LAUNCH + 2 * MOVE + latency_ps + 16 * CLOCK + MOVE == latency(graph, spec)


def test_straight_code_issues_its_loads_together() -> None:
    """W and X[0] queue at HBM; the product of 128 FLOP at 8 a clock waits for both."""
    assert LAUNCH + 2 * MOVE + LATENCY + 16 * CLOCK + MOVE == latency(product())


def test_an_sm_computes_and_fills_at_the_clock_its_kernel_sustains() -> None:
    """At half the clock 1 B a clock takes 2,000 ps, slower than HBM; a kernel without products keeps the full clock.

    So it is in a loop of calls; a kernel alone under a profiler is not throttled.
    """
    slow = toy(l2_fill_bytes_per_clk=1, tensor_clock_hz=0.5e9)
    fill, in_a_loop = TILE_BYTES * 2_000 + 1, Conditions(timing="graph")
    expected = LAUNCH + 2 * fill + LATENCY + 16 * 2 * CLOCK + MOVE
    assert expected == simulate(product(), slow, in_a_loop).latency_ps
    assert LAUNCH + 2 * (TILE_BYTES * 1_000 + 1) + LATENCY + 16 * CLOCK + MOVE == latency(product(), slow)
    assert latency(streamed(stages=2)) == simulate(streamed(stages=2), slow, in_a_loop).latency_ps


def test_a_product_on_the_fp32_lanes_keeps_the_full_clock() -> None:
    """The clock that tensor cores sustain is not that of a multiply-add a lane: 128 FLOP take 64 clocks of 1,000 ps."""
    cta = KernelBuilder("toy", grid=[("head", 1)], warps=1, compute_dtype=DType.FP32, accumulators="smem")
    x, w, y = (replace(tensor, dtype=DType.FP32) for tensor in (X, W, Y))
    left, right, out = cta.buffer("x", 4, 4), cta.buffer("w", 4, 4), cta.accumulator("out", 4, 4)
    cta.load(x.tile(), left)
    cta.load(w.tile(), right)
    cta.do("multiply", MatMul(left, right, out))
    cta.store(out, y.tile())
    move = 2 * TILE_BYTES * 1_000 + 1
    expected = LAUNCH + 2 * move + LATENCY + 64 * CLOCK + move
    assert expected == latency(TaskGraph((cta.build(),)), toy(tensor_clock_hz=0.5e9))


@pytest.mark.parametrize(("constant", "clocks"), [(None, 16), (3.0, 48)])
@pytest.mark.parametrize("op", [SubtractRows, Normalise])
def test_passes_with_one_number_a_row_take_the_elementwise_constant(
    op: type[SubtractRows | Normalise], constant: float | None, clocks: int
) -> None:
    """16 numbers: one a clock on ideal lanes, else as long as the kernel's constant says."""
    cta = builder()
    tile, rows = cta.buffer("tile", 4, 4), cta.buffer("rows", 4, 1)
    cta.load(X.tile(), tile)
    cta.load(Tensor("R", 1, 4, 1, DType.FP16, Role.INPUT, 4, 1).tile(), rows)
    cta.do("rows", op(tile, rows))
    cta.store(tile, Y.tile())
    graph = TaskGraph((cta.build(cost=KernelCost(elementwise_cycles_per_element=constant)),))
    loads = MOVE + 4 * 2 * 1_000 + 1
    assert LAUNCH + loads + LATENCY + clocks * CLOCK + MOVE == latency(graph)


def test_an_exponential_takes_a_clock_of_the_special_function_unit() -> None:
    """16 exponentials, four a clock, wait for 16 multiplications, one a clock; at one in two clocks they take 32."""
    cta = builder()
    tile = cta.buffer("tile", 4, 4)
    cta.load(X.tile(), tile)
    cta.do("exp", Exponential(tile))
    cta.store(tile, Y.tile())
    graph = TaskGraph((cta.build(),))
    for exps_per_clk, clocks in ((4, 16), (0.5, 32)):
        expected = LAUNCH + MOVE + LATENCY + clocks * CLOCK + MOVE
        assert expected == latency(graph, toy(sfu_ops_per_clk=exps_per_clk))


def test_what_is_loaded_before_a_loop_does_not_delay_the_loads_of_the_loop() -> None:
    """W stays, X streams: both are asked for at the start, as FlashAttention asks for Q and the first K tile."""
    cta = builder()
    x, w, out = cta.buffer("x", 4, 4), cta.buffer("w", 4, 4), cta.accumulator("out", 4, 4)
    cta.load(W.tile(), w)
    cta.do("out = 0", Fill(out, 0.0))
    with cta.loop("j", 1):
        cta.load(X.tile(row="j"), x)
        cta.do("multiply", MatMul(x, w, out, accumulate=True))
    cta.store(out, Y.tile())
    assert LAUNCH + 2 * MOVE + LATENCY + 16 * CLOCK + MOVE == latency(TaskGraph((cta.build(),)))


MATRIX, SOFTMAX = 1024, 512  # clocks: 2·16³ FLOP at 8 a clock; 256 scores at 2 clocks each


@pytest.mark.parametrize(("overlap", "clocks"), [(0.0, 1536), (0.25, 1408), (1.0, 1024)])
def test_overlap_hides_a_share_of_the_smaller_of_matrix_and_softmax(overlap: float, clocks: int) -> None:
    """max + (1 − w)·min: all of the softmax, three quarters of it, nothing of it is added to the product."""
    cta = builder()
    a, s = cta.buffer("a", 16, 16), cta.accumulator("s", 16, 16)
    m, total, alpha = (cta.register(name, 16) for name in ("m", "l", "alpha"))
    for buffer in (a, m, total):
        cta.do("start", Fill(buffer, 0.0))
    cta.do("product", MatMul(a, a, s))
    cta.do("softmax", OnlineSoftmax(s, m, total, alpha))
    kernel = cta.build(cost=KernelCost(softmax_cycles_per_score=SOFTMAX / 256, overlap=overlap))
    spec = toy(fp32_lanes=1_000)
    assert LAUNCH + clocks * CLOCK == latency(TaskGraph((kernel,)), spec)


def test_matrix_efficiency_lengthens_products_only() -> None:
    """Half the tensor rate: 2,048 clocks."""
    cta = builder()
    a, s = cta.buffer("a", 16, 16), cta.accumulator("s", 16, 16)
    cta.do("start", Fill(a, 0.0))
    cta.do("product", MatMul(a, a, s))
    kernel = cta.build(cost=KernelCost(matmul_efficiency=0.5))
    assert LAUNCH + 2 * MATRIX * CLOCK == latency(TaskGraph((kernel,)))


@pytest.mark.parametrize(
    ("rows", "path", "clocks"),
    [(16, "mma_sync", 2 * 1024), (32, "mma_sync", 2048), (16, None, 2 * 1024), (8, "mma_sync", 2 * 512)],
)
def test_warps_of_one_instruction_are_slower(rows: int, path: TensorPath | None, clocks: int) -> None:
    """Half the rate where the one warp has 16 rows or fewer of a product and mma.sync, which the GPU has alone."""
    cta = builder()
    a, b, s = cta.buffer("a", rows, 16), cta.buffer("b", 16, 16), cta.accumulator("s", rows, 16)
    for buffer in (a, b):
        cta.do("start", Fill(buffer, 0.0))
    cta.do("product", MatMul(a, b, s))
    kernel = cta.build(cost=KernelCost(narrow_warp_efficiency=0.5), tensor_path=path)
    spec = toy(tensor_paths=("mma_sync",), mma_sync_share=1.0)
    assert LAUNCH + clocks * CLOCK == latency(TaskGraph((kernel,)), spec)


@pytest.mark.parametrize(
    ("per_element", "overlaps", "clocks"),
    [
        (2, False, 2048 + 512),
        (2, True, 2048),
        (8, False, 2048 + 2048),
        (8, True, 2048),
        (10, False, 2048 + 2560),
        (10, True, 2560),
    ],
)
def test_an_overlapped_epilogue_costs_what_outlasts_the_main_loop(
    per_element: int, overlaps: bool, clocks: int
) -> None:
    """Two products of 1,024 clocks and 256 numbers to write: their sum, or the longer of the two."""
    y = Tensor("Y", 1, 16, 16, DType.FP16, Role.OUTPUT, 16, 16)
    cta = builder()
    a, s = cta.buffer("a", 16, 16), cta.accumulator("s", 16, 16)
    cta.do("start", Fill(a, 0.0))
    cta.do("s = 0", Fill(s, 0.0))
    with cta.loop("k", 2):
        cta.do("product", MatMul(a, a, s, accumulate=True))
    cta.store(s, y.tile())
    cost = KernelCost(epilogue_cycles_per_element=per_element, epilogue_overlaps=overlaps)
    run = simulate(TaskGraph((cta.build(cost=cost),)), toy(), NCU)
    assert clocks * CLOCK == run.kernels[0].stall_ps[Stall.COMPUTE]
    assert LAUNCH + clocks * CLOCK + 512 * 1_000 + 1 == run.latency_ps


def test_a_step_takes_at_least_what_its_busiest_unit_needs() -> None:
    """A softmax declared as nearly free still needs its 256 + 16 exponentials at one a clock."""
    cta = builder()
    s = cta.accumulator("s", 16, 16)
    m, total, alpha = (cta.register(name, 16) for name in ("m", "l", "alpha"))
    for buffer in (s, m, total):
        cta.do("start", Fill(buffer, 0.0))
    cta.do("softmax", OnlineSoftmax(s, m, total, alpha))
    kernel = cta.build(cost=KernelCost(softmax_cycles_per_score=0.001))
    assert LAUNCH + 272 * CLOCK == latency(TaskGraph((kernel,)), toy(fp32_lanes=1_000))


def two_kernels() -> TaskGraph:
    """X doubled into T, T doubled into Y."""
    temporary = Tensor("T", 1, 8, 4, DType.FP16, Role.TEMPORARY, 4, 4)
    kernels = []
    for name, src, dst in (("one", X, temporary), ("two", temporary, Y)):
        cta = builder(name)
        tile = cta.buffer("tile", 4, 4)
        cta.load(src.tile(), tile)
        cta.do("double", Scale(tile, 2.0))
        cta.store(tile, dst.tile())
        kernels.append(cta.build())
    return TaskGraph(tuple(kernels))


def run_with(timing: str, **launch: float) -> Simulation:
    """Two kernels with these launch costs and this timing."""
    spec = toy()
    spec = spec.model_copy(update={"launch": spec.launch.model_copy(update=launch)})
    return simulate(two_kernels(), spec, Conditions(timing=timing))


COPY = LAUNCH + MOVE + LATENCY + SCALE + MOVE  # a tile in, doubled, and out


def test_a_kernel_starts_when_the_one_before_has_written_everything() -> None:
    """Two kernels one after the other under the profiler: nothing between them."""
    run = run_with("ncu", graph_ns=50.0, isolated_ns=70.0)
    assert [(0, COPY), (COPY, 2 * COPY)] == [(kernel.start_ps, kernel.end_ps) for kernel in run.kernels]
    assert 2 * COPY == run.latency_ps


@pytest.mark.parametrize(
    ("timing", "launch", "expected"),
    [
        ("graph", {"graph_ns": 50.0}, 2 * COPY + 2 * 50_000),
        ("event", {"graph_ns": 50.0, "stream_ns": 1_000.0}, 2 * COPY + 2 * 1_000_000),
        ("graph", {"graph_ns": 50.0, "stream_ns": 1_000.0}, 2 * COPY + 2 * 50_000),
        ("host", {"stream_ns": 50.0, "isolated_ns": 70.0}, 2 * COPY + 70_000 + 50_000),
        ("ncu", {"graph_ns": 50.0, "stream_ns": 1_000.0, "isolated_ns": 70.0}, 2 * COPY),
    ],
)
def test_timing_decides_what_the_latency_includes(timing: str, launch: dict[str, float], expected: int) -> None:
    """The gap of a graph or a stream before each kernel; from the host the first launch is an isolated one."""
    assert expected == run_with(timing, **launch).latency_ps


def test_a_host_floor_is_a_floor() -> None:
    """Below it the floor counts, above it the kernels do; a profiler does not see it."""
    for floor_ms, timing, expected in ((1e-2, "event", 10_000_000), (1e-5, "event", 2 * COPY), (1e-2, "ncu", 2 * COPY)):
        conditions = Conditions(timing=timing, host_floor_ms=floor_ms)
        assert expected == simulate(two_kernels(), toy(), conditions).latency_ps


def test_a_host_overhead_is_on_top() -> None:
    """A synchronised call takes 7 ns more; nothing else sees it."""
    for timing, expected in (("host", 2 * COPY + 7_000), ("event", 2 * COPY), ("ncu", 2 * COPY)):
        assert expected == simulate(two_kernels(), toy(), Conditions(timing=timing, host_overhead_ms=7e-6)).latency_ps


def test_a_cta_retires_while_its_last_stores_are_in_the_write_queue() -> None:
    """A queue of 1,000 ns: the slot is free at once, but the kernel ends when the bytes are in memory. Without a queue
    the slot waits for its own store."""
    for queue_ns, waited in ((1_000.0, 0), (0.0, MOVE)):
        spec = toy()
        hbm = spec.memory.hbm.model_copy(update={"write_queue_ns": queue_ns})
        spec = spec.model_copy(update={"memory": spec.memory.model_copy(update={"hbm": hbm})})
        run = simulate(two_kernels(), spec, NCU)
        assert 2 * COPY == run.latency_ps
        assert [waited, waited] == [kernel.stall_ps[Stall.STORE] for kernel in run.kernels]


def test_a_locked_clock_slows_arithmetic_and_not_memory() -> None:
    """At 500 MHz a clock is 2,000 ps; HBM keeps its own."""
    conditions = Conditions(timing="ncu", sm_clock_mhz=500.0)
    computed = LAUNCH + 2 * MOVE + LATENCY + 2 * SCALE
    early = LAUNCH + MOVE + LATENCY + 2 * 2 * SCALE
    assert max(computed, early) + MOVE == simulate(streamed(2), toy(), conditions).latency_ps
