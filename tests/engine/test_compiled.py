"""The compiled engine equals SimPy in every number, runs when it pays, and says which of the two ran."""

import importlib
from dataclasses import replace

import kernel_shapes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_shapes import ATTENTION
from strategies import flash1, flash2, flash3, naive, workloads

from gpusim.dtypes import DType
from gpusim.engine import Simulation, estimated_steps, loop, simulate
from gpusim.engine.compiled import compiled_run_kernel
from gpusim.engine.keys import first_keys, most_l2_nodes, num_keys
from gpusim.engine.loop import NEVER_PS, Shared, Slots, new_slots, replay, run_kernel
from gpusim.engine.lower import lower
from gpusim.engine.tables import Tables, flatten
from gpusim.errors import PointError, UnsupportedError
from gpusim.hardware import Machine, build_machine, repeated_in_array, start_kernel
from gpusim.implementations import parse_request, plan
from gpusim.schedules import SCHEDULES, NaiveChoices, WarpgroupChoices
from gpusim.specs import GpuSpec, load_gpu
from gpusim.taskgraph import (
    Add,
    Copy,
    Fill,
    Guard,
    KernelBuilder,
    KernelCost,
    MatMul,
    Role,
    Scale,
    TaskGraph,
    Tensor,
)
from gpusim.trace import Stall, TimelineRecorder
from gpusim.workloads import AttentionWorkload, Conditions, GemmWorkload

A100 = load_gpu("a100_sxm4_40gb")
GPUS = ["a100_sxm4_40gb", "h100_sxm5_80gb", "canvas"]
CONDITIONS = [Conditions(timing=timing, cache=cache) for timing, cache in (("ncu", "cold"), ("event", "warm"))]
NCU = CONDITIONS[0]
SIMULATE = importlib.import_module("gpusim.engine.simulate")  # the package has a function of this name
many = settings(max_examples=150, derandomize=True, deadline=None, database=None)


def assert_equal(graph: TaskGraph, spec: GpuSpec, conditions: Conditions = NCU) -> Simulation:
    """Both engines give the same run: times, bytes, stalls, shares, and types of numbers."""
    reference = simulate(graph, spec, conditions, mode="exhaustive")
    compiled = simulate(graph, spec, conditions, mode="compiled")
    assert ("exhaustive", "compiled") == (reference.mode, compiled.mode)
    assert reference == replace(compiled, mode="exhaustive")
    assert repr(reference) == repr(replace(compiled, mode="exhaustive"))
    return reference


def shape(gpu: str, seqlen_q: int, seqlen_k: int, head_dim: int) -> AttentionWorkload:
    """Two batches of three heads, fewer on one SM, and ragged tiles in the last one."""
    heads = 1 if gpu == "canvas" else 3
    return AttentionWorkload(batch=2, heads=heads, seqlen_q=seqlen_q, seqlen_k=seqlen_k, head_dim=head_dim)


BIG = [(512, 512, 64), (300, 437, 128), (64, 700, 256), (700, 100, 64), (129, 129, 32)]
TINY = [(16, 16, 4), (7, 13, 3), (1, 9, 4)]
NAMED = [(name, gpu, *sizes) for name in ATTENTION for gpu in GPUS for sizes in (TINY if gpu == "canvas" else BIG)]


def planned(name: str, gpu: str, *sizes: int) -> TaskGraph | None:
    """The graph of an implementation; None where it refuses the GPU or the shape."""
    try:
        return plan(parse_request(name, "test"), load_gpu(gpu), shape(gpu, *sizes)).graph
    except PointError:
        return None


ACCEPTED = [case for case in NAMED if planned(*case) is not None]


def test_the_cases_cover_every_implementation_and_gpu() -> None:
    """What is refused left the list; enough must be left of it."""
    assert set(ATTENTION) == {name for name, *_ in ACCEPTED}
    assert set(GPUS) == {gpu for _, gpu, *_ in ACCEPTED}
    assert {32, 64, 128, 256} <= {head_dim for *_, head_dim in ACCEPTED}


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: "-".join(map(str, case)))
@pytest.mark.parametrize("conditions", CONDITIONS, ids=lambda asked: f"{asked.timing}-{asked.cache}")
def test_every_implementation_runs_the_same(case: tuple[str, str, int, int, int], conditions: Conditions) -> None:
    """Real and toy GPUs, whole and ragged tiles, N_q ≠ N_k, cold and warm caches."""
    assert_equal(planned(*case), load_gpu(case[1]), conditions)


@pytest.mark.parametrize(("name", "shape"), kernel_shapes.CASES)
@pytest.mark.parametrize("gpu", ["a100_sxm4_80gb", "h100_sxm5_80gb"])
def test_single_kernels_run_the_same(name: str, shape: str, gpu: str) -> None:
    """Products, passes, streams, chases and reads of a cache, cold and warm."""
    spec = load_gpu(gpu)
    graph = plan(parse_request(name, "test"), spec, kernel_shapes.SHAPES[name][shape]).graph
    for conditions in CONDITIONS:
        assert_equal(graph, spec, conditions)


@pytest.mark.parametrize(
    ("m", "n", "choices"),
    [
        (512, 1280, {}),
        (384, 1280, {"tile_m": 64, "tile_n": 64}),
        (256, 256, {"split_k": 4}),
        (200, 1300, {"cluster": 1}),
    ],
)
def test_bands_clusters_and_splits_run_the_same(m: int, n: int, choices: dict[str, object]) -> None:
    """More columns of tiles than a band, row tiles in pairs or not, and a product split over CTAs, whole and ragged."""
    spec, workload = load_gpu("h100_sxm5_80gb"), GemmWorkload(m=m, n=n, k=256)
    graph = plan(parse_request({"name": "torch_matmul", **choices}, "test"), spec, workload).graph
    for conditions in CONDITIONS:
        assert_equal(graph, spec, conditions)


BOTH_PATHS = A100.model_copy(
    update={"sm": A100.sm.model_copy(update={"tensor_paths": ("mma_sync", "wgmma"), "mma_sync_share": 0.6})}
)


def with_l2(spec: GpuSpec, size_bytes: int | None) -> GpuSpec:
    """The GPU with an L2 of another size, or with none."""
    l2 = None if size_bytes is None else spec.memory.l2.model_copy(update={"size_bytes": size_bytes})
    return spec.model_copy(update={"memory": spec.memory.model_copy(update={"l2": l2})})


def with_sms(spec: GpuSpec, count: int, *, ctas_per_s: float | None = None, write_queue_ns: float = 0.0) -> GpuSpec:
    """The GPU with few SMs, so that slots take many CTAs, and other launches and stores."""
    hbm = spec.memory.hbm.model_copy(update={"write_queue_ns": write_queue_ns})
    launch = spec.launch if ctas_per_s is None else spec.launch.model_copy(update={"ctas_per_s": ctas_per_s})
    changed = {
        "sm": spec.sm.model_copy(update={"count": count}),
        "memory": spec.memory.model_copy(update={"hbm": hbm}),
        "launch": launch,
    }
    return spec.model_copy(update=changed)


FLASH_REQUESTS: dict[str, object] = {
    "flash2": "flash2",
    "flash2, longest first, on a counter": {"name": "flash2", "order": "longest_first", "scheduler": "dynamic"},
    "flash2, with a stride": {"name": "flash2", "tile_q": 32, "tile_kv": 48, "stages": 3, "scheduler": "static"},
    "flash3": "flash3",
    "flash3 of 2024": "flash3@2024-07",
    "flash3, one warpgroup": {"name": "flash3", "tile_q": 64, "tile_kv": 64, "stages": 4, "registers": 240},
    "flash3, three in clusters": {"name": "flash3", "tile_q": 192, "tile_kv": 32, "cluster": 2, "registers": 160},
    "flash3, with a stride": {"name": "flash3", "tile_kv": 48, "stages": 3, "scheduler": "static"},
    "flash3, packed heads": {"name": "flash3", "pack_gqa": True},
    "flash3, launched one by one": {"name": "flash3", "scheduler": "hardware", "order": "longest_first"},
}
FLASH_SHAPES = [(768, 768, 64), (300, 437, 128), (700, 100, 64), (1, 300, 128)]


@pytest.mark.parametrize("masks", [{}, {"causal": True}, {"causal": True, "mask": "padding"}], ids=str)
@pytest.mark.parametrize("sizes", FLASH_SHAPES, ids=str)
@pytest.mark.parametrize("asked", FLASH_REQUESTS)
def test_warpgroups_orders_and_masks_run_the_same(
    asked: str, sizes: tuple[int, int, int], masks: dict[str, object]
) -> None:
    """One to three warpgroups, clusters, every scheduler and order, causal and padded, grouped heads, N_q ≠ N_k; on
    three SMs, so that every resident CTA takes several."""
    n_q, n_k, d = sizes
    shape = {"batch": 2, "heads": 4, "kv_heads": 2, "seqlen_q": n_q, "seqlen_k": n_k, "head_dim": d, "save_lse": True}
    spec = with_sms(load_gpu("h100_sxm5_80gb"), 3)
    workload = AttentionWorkload.model_validate(shape | masks)
    graph = plan(parse_request(FLASH_REQUESTS[asked], "test"), spec, workload).graph
    for conditions in CONDITIONS:
        assert_equal(graph, spec, conditions)


@pytest.mark.parametrize("sizes", FLASH_SHAPES, ids=str)
def test_padding_in_the_fa1_order_runs_the_same(sizes: tuple[int, int, int]) -> None:
    """A number a sequence that is loaded beside K and V."""
    n_q, n_k, d = sizes
    workload = AttentionWorkload(batch=2, heads=3, seqlen_q=n_q, seqlen_k=n_k, head_dim=d, mask="padding")
    graph = plan(parse_request({"name": "flash1", "tile_q": 32, "tile_kv": 64}, "test"), A100, workload).graph
    assert_equal(graph, with_sms(A100, 2))


def nested(
    trips: tuple[int, int, int] = (3, 2, 5),
    *,
    stages: tuple[int, int] = (1, 3),
    accumulators: str = "smem",
    ctas: int = 4,
    cost: KernelCost | None = None,
) -> TaskGraph:
    """Three nested loops with guards, a second innermost loop beside the third, and a kernel that reads the result.

    Partial sums of the third loop travel through T; W stays, X and P come once an iteration of their loop, Q streams.
    """
    outer, middle, inner = trips
    w, x, p, q = (
        Tensor(name, 2, rows, 16, DType.FP16, Role.INPUT, 16, 16)
        for name, rows in (("W", 16), ("X", 16 * outer), ("P", 16 * middle), ("Q", 16 * inner - 5))
    )
    t = Tensor("T", 2, 16 * inner - 5, 16, DType.FP32, Role.TEMPORARY, 16, 16)
    z = Tensor("Z", 2, 16 * middle, 16, DType.FP16, Role.TEMPORARY, 16, 16)
    y = Tensor("Y", 2, 16 * inner - 5, 16, DType.FP16, Role.OUTPUT, 16, 16)

    cta = KernelBuilder(
        "nested", grid=[("c", ctas), ("head", 2)], warps=4, compute_dtype=DType.FP16, accumulators=accumulators
    )
    buffers = {name: cta.buffer(name, 16, 16) for name in ("w", "x", "p")}
    q_tile = cta.buffer("q", 16, 16, stages=stages[1])
    total = cta.accumulator("total", 16, 16, stages=stages[0])
    cta.load(w.tile(), buffers["w"])
    with cta.loop("a", outer):
        cta.load(x.tile(row="a"), buffers["x"])
        cta.do("X·2", Scale(buffers["x"], 2.0))
        with cta.loop("b", middle):
            cta.load(p.tile(row="b"), buffers["p"])
            cta.do("P·3", Scale(buffers["p"], 3.0), Guard("a", "first"))
            with cta.loop("i", inner):
                cta.load(q.tile(row="i"), q_tile)
                cta.load(t.tile(row="i"), total, Guard("a", "not_first"))
                cta.do("start", Fill(total, 0.0), Guard("a", "first"))
                cta.do("T += Q X", MatMul(q_tile, buffers["x"], total, accumulate=True))
                cta.do("T += Q P", MatMul(q_tile, buffers["p"], total, accumulate=True))
                cta.store(total, t.tile(row="i"), Guard("a", "not_last"))
                cta.store(total, y.tile(row="i"), Guard("a", "last"))
            cta.store(buffers["p"], z.tile(row="b"), Guard("a", "not_last"))
        with cta.loop("k", 2):
            cta.load(q.tile(row="k"), q_tile)
            cta.do("Q W", MatMul(q_tile, buffers["w"], total))
    reader = KernelBuilder("reader", grid=[("k", middle), ("head", 2)], warps=2, compute_dtype=DType.FP16)
    src, dst = reader.buffer("src", 16, 16), reader.buffer("dst", 16, 16)
    out = Tensor("R", 2, 16 * middle, 16, DType.FP16, Role.OUTPUT, 16, 16)
    if outer == 1:
        reader.load(p.tile(row="k"), src)
    else:
        reader.load(z.tile(row="k"), src)
    reader.do("copy", Copy(src, dst))
    reader.store(dst, out.tile(row="k"))
    return TaskGraph((cta.build(cost=cost), reader.build()))


# 1 KiB of L2 is less than one CTA's tiles, 6 KiB less than the tensors, 40 MiB more.
@pytest.mark.parametrize("l2_bytes", [None, 1024, 6 * 1024, 40 << 20])
@pytest.mark.parametrize("trips", [(3, 2, 5), (1, 1, 2), (2, 3, 3), (4, 1, 2)])
@pytest.mark.parametrize("stages", [(1, 1), (2, 4)])
@pytest.mark.parametrize("accumulators", ["smem", "registers"])
def test_nested_loops_with_guards_and_stages_run_the_same(
    trips: tuple[int, int, int], stages: tuple[int, int], accumulators: str, l2_bytes: int | None
) -> None:
    """Every body of an outer loop, first, middle and last, with and without an L2 that evicts."""
    cost = KernelCost(entry_cycles=30, step_cycles=7, hbm_efficiency=0.8, epilogue_cycles_per_element=0.5)
    graph = nested(trips, stages=stages, accumulators=accumulators, cost=cost)
    assert_equal(graph, with_sms(with_l2(A100, l2_bytes), 2))


def test_a_small_l2_evicts_dirty_tiles() -> None:
    """The cases above mean something: beside hits there are re-reads, and partial sums leave before they are final."""
    graph = nested()
    small, large = (assert_equal(graph, with_sms(with_l2(A100, size), 2)).kernels[0] for size in (6 * 1024, 40 << 20))
    assert 0 < small.l2_hit_bytes < large.l2_hit_bytes
    assert small.hbm_read_bytes > large.hbm_read_bytes
    assert small.hbm_write_bytes > large.hbm_write_bytes == 0


@pytest.mark.parametrize("ctas_per_s", [1e15, 1e9])
@pytest.mark.parametrize("write_queue_ns", [0.0, 500.0])
def test_ties_resolve_the_same(ctas_per_s: float, write_queue_ns: float) -> None:
    """CTAs that launch in no time do everything at the same picoseconds; order alone decides who is served first."""
    spec = with_sms(A100, 3, ctas_per_s=ctas_per_s, write_queue_ns=write_queue_ns)
    assert_equal(nested(ctas=20), spec)


def test_ctas_without_memory_run_the_same() -> None:
    """Thirteen equal CTAs of arithmetic alone on four SMs: no access, no tile, no key."""
    cta = KernelBuilder("equal", grid=[("head", 13)], warps=1, compute_dtype=DType.FP16)
    tile = cta.buffer("tile", 4, 4)
    cta.do("start", Fill(tile, 1.0))
    cta.do("double", Scale(tile, 2.0))
    assert_equal(TaskGraph((cta.build(),)), with_sms(A100, 4))


OVERLAPPED = KernelCost(entry_cycles=30, epilogue_cycles_per_element=0.3, epilogue_overlaps=True, hbm_efficiency=0.9)


@pytest.mark.parametrize("spec", [A100, with_sms(A100, 2)], ids=["108 SMs", "2 SMs"])
@pytest.mark.parametrize("per_element", [0.01, 0.3])
def test_overlapped_epilogues_run_the_same(per_element: float, spec: GpuSpec) -> None:
    """Shorter and longer than the main loop, and never slower than one after the other."""
    problem = shape("a100_sxm4_40gb", 300, 200, 64)
    choices = NaiveChoices(tile_q=64, tile_kv=128, qk_step=32, pv_step=64)
    runs = []
    for overlaps in (True, False):
        changed = {"epilogue_cycles_per_element": per_element, "epilogue_overlaps": overlaps}
        cost = OVERLAPPED.model_copy(update=changed)
        graph = SCHEDULES["naive"].build(problem, choices, {"qk": cost, "pv": cost})
        runs.append(assert_equal(graph, spec))
    for overlapped, in_turn in zip(*(run.kernels for run in runs), strict=True):
        reduced = in_turn.stall_ps[Stall.COMPUTE] - overlapped.stall_ps[Stall.COMPUTE]
        assert (reduced > 0) == (overlapped.name != "softmax")


SHARED_TILE_BYTES = [512, 512, 256]  # 40 rows of 16 numbers in tiles of 16


def shared(heads: int) -> TaskGraph:
    """Y = X + W in tiles, with a matrix of X and Y for every head and one W for all of them."""
    x, y = (
        Tensor(name, heads, 40, 16, DType.FP16, role, 16, 16) for name, role in (("X", Role.INPUT), ("Y", Role.OUTPUT))
    )
    w = Tensor("W", 1, 40, 16, DType.FP16, Role.INPUT, 16, 16)
    cta = KernelBuilder("add", grid=[("m", 3), ("head", heads)], warps=1, compute_dtype=DType.FP16)
    rows, other = cta.buffer("rows", 16, 16), cta.buffer("other", 16, 16)
    cta.load(x.tile(row="m"), rows)
    cta.load(w.tile(row="m"), other)
    cta.do("add", Add(rows, other))
    cta.store(rows, y.tile(row="m"))
    return TaskGraph((cta.build(),))


@pytest.mark.parametrize("l2_bytes", [None, 1024, 40 << 20])
@pytest.mark.parametrize("heads", [1, 2, 5])
def test_every_head_after_the_first_finds_a_shared_tile_in_l2(heads: int, l2_bytes: int | None) -> None:
    """An L2 that holds all: W crosses HBM once, and other heads hit. Without one, every head reads it from HBM."""
    (done,) = assert_equal(shared(heads), with_sms(with_l2(A100, l2_bytes), 2)).kernels
    w_bytes = sum(SHARED_TILE_BYTES)
    assert 2 * heads * w_bytes == done.l2_hit_bytes + done.hbm_read_bytes
    if l2_bytes is None:
        assert 0 == done.l2_hit_bytes
    elif l2_bytes > 1024:
        assert (heads - 1) * w_bytes == done.l2_hit_bytes


def test_a_shared_tensor_has_the_keys_of_one_matrix() -> None:
    """Three tiles of W beside three of X and of Y a head; no head reaches beyond them."""
    graph = shared(5)
    assert 15 + 3 + 15 == num_keys(graph)
    lowered = lower(graph.kernels[0], A100.sm, A100.sm.clock_hz, first_keys(graph))
    (straight,) = lowered.blocks
    assert [1, 5] == [lowered.accesses[number].heads_per_matrix for number in straight.loads]


random_costs = st.builds(
    KernelCost,
    epilogue_cycles_per_element=st.sampled_from([0.0, 0.02, 2.0]),
    epilogue_overlaps=st.booleans(),
    entry_cycles=st.sampled_from([0.0, 13.0]),
    step_cycles=st.sampled_from([0.0, 5.0]),
    mask_cycles_per_score=st.sampled_from([None, 0.0, 1.0]),
    overlap=st.sampled_from([0.0, 0.5, 1.0]),
    hbm_efficiency=st.sampled_from([0.5, 1.0]),
)


def with_soft_l2(spec: GpuSpec, partitions: int, knee: float, channels: int) -> GpuSpec:
    """The GPU with another L2, if it has one, and other channels of HBM, so few that small tiles fill them all."""
    l2, hbm = spec.memory.l2, spec.memory.hbm.model_copy(update={"channels": channels, "channel_bytes": 128})
    l2 = None if l2 is None else l2.model_copy(update={"partitions": partitions, "knee": knee})
    return spec.model_copy(update={"memory": spec.memory.model_copy(update={"l2": l2, "hbm": hbm})})


random_gpus = st.builds(
    lambda l2_bytes, shape, sms, ctas_per_s, queue_ns: with_sms(
        with_soft_l2(with_l2(BOTH_PATHS, l2_bytes), *shape), sms, ctas_per_s=ctas_per_s, write_queue_ns=queue_ns
    ),
    st.none() | st.integers(1, 20_000),
    st.tuples(st.integers(1, 2), st.sampled_from([0.0, 0.17, 1.0]), st.sampled_from([1, 4, 32])),
    st.integers(1, 5),
    st.sampled_from([1e8, 1e15]),
    st.sampled_from([0.0, 300.0]),
)
random_nested = st.builds(
    lambda trips, stages, accumulators, ctas, cost: nested(
        trips, stages=stages, accumulators=accumulators, ctas=ctas, cost=cost
    ),
    st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(2, 5)),
    st.tuples(st.integers(1, 3), st.integers(1, 6)),
    st.sampled_from(["smem", "registers"]),
    st.integers(1, 7),
    random_costs,
)
SIZES = {"heads": 3, "seqlen": 60, "head_dim": 20}
MASKS = ("causal", "padding")
SCORE_PASSES = ((), ("divide",), ("add_causal_mask",), ("divide", "add_causal_mask"))
random_flash1 = st.tuples(workloads(**SIZES, masks=("padding",)), flash1(tile=24, stages=4))
random_flash2 = st.tuples(workloads(**SIZES, grouped=True, masks=MASKS), flash2(tile=24, stages=4))
random_flash3 = st.tuples(workloads(**SIZES, grouped=True, masks=MASKS, queries=500), flash3(tile=24, stages=4))
random_naive = st.tuples(workloads(**SIZES), naive(tile=24, stages=4, softmax_rows=16, score_passes=SCORE_PASSES))
KERNELS = ("qk", "softmax", "pv", "copy", "transpose", "elementwise", "broadcast", "forward")
random_attention = st.builds(
    lambda case, cost: SCHEDULES[case[1][0]].build(case[0], case[1][1], dict.fromkeys(KERNELS, cost)),
    random_flash1 | random_flash2 | random_flash3 | random_naive,
    random_costs,
)


@many
@given(random_nested | random_attention, random_gpus, st.sampled_from(CONDITIONS), st.sampled_from([0, 1, 3]))
def test_random_graphs_run_the_same(graph: TaskGraph, spec: GpuSpec, conditions: Conditions, line_weight: int) -> None:
    """Whatever the loops, tiles, stages, caches, channels and SMs, streamed or at random."""
    if line_weight:
        kernels = (replace(kernel, access="random", line_weight=line_weight) for kernel in graph.kernels)
        graph = TaskGraph(tuple(kernels))
    assert_equal(graph, spec, conditions)


SMALL = nested((2, 1, 2), ctas=1)


def test_auto_runs_small_graphs_on_simpy() -> None:
    """A few steps are done before machine code is loaded."""
    assert "exhaustive" == simulate(SMALL, A100).mode


@pytest.mark.parametrize(("more", "mode"), [(0, "compiled"), (1, "exhaustive")])
def test_auto_compiles_from_its_number_of_steps_on(more: int, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At exactly the threshold, and not one step below it."""
    monkeypatch.setattr(SIMULATE, "COMPILED_FROM_STEPS", estimated_steps(SMALL) + more)
    assert mode == simulate(SMALL, A100).mode


def test_a_recorder_keeps_auto_on_simpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only SimPy records a timeline, however long the run."""
    monkeypatch.setattr(SIMULATE, "COMPILED_FROM_STEPS", 0)
    assert "exhaustive" == simulate(SMALL, A100, recorder=TimelineRecorder()).mode


def test_mode_compiled_refuses_a_recorder() -> None:
    """Machine code records nothing; the message says what does."""
    with pytest.raises(UnsupportedError, match="no timeline") as caught:
        simulate(SMALL, A100, recorder=TimelineRecorder(), mode="compiled")
    assert "exhaustive" in caught.value.fix


def test_without_numba_auto_falls_back_and_compiled_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra is optional: auto gives the same answer later, and mode compiled names what to install."""
    monkeypatch.setattr(SIMULATE, "COMPILED_FROM_STEPS", 0)
    monkeypatch.setattr(SIMULATE, "has_numba", lambda: False)
    assert "exhaustive" == simulate(SMALL, A100).mode
    with pytest.raises(UnsupportedError, match="needs numba") as caught:
        simulate(SMALL, A100, mode="compiled")
    assert "pip install -e '.[fast]'" == caught.value.fix


def booked(graph: TaskGraph, spec: GpuSpec, ctas_per_sm: int) -> tuple[Tables, Slots, Machine, Shared]:
    """The first kernel of a graph on an idle machine, ready for `run_kernel`."""
    kernel = graph.kernels[0]
    machine = build_machine(spec, num_keys(graph), most_l2_nodes(graph, spec.memory.l2), repeated_in_array)
    start_kernel(
        machine.memory,
        spec.timings().hbm,
        efficiency=kernel.cost.hbm_efficiency,
        fill_bytes_per_s=spec.sm.l2_fill_bytes_per_clk * spec.sm.clock_hz,
        footprint_bytes=sum(tensor.size_bytes for tensor in TaskGraph((kernel,)).tensors()),
    )
    num_resident = ctas_per_sm * spec.sm.count
    tables = flatten(lower(kernel, spec.sm, spec.sm.clock_hz, first_keys(graph)), kernel, num_resident)
    shared = Shared(
        pipe_free_ps=machine.pipe_free_ps,
        launcher_free_ps=machine.launcher_free_ps,
        next_cta=np.zeros(1, dtype=np.int64),
        next_sequence=np.zeros(1, dtype=np.int64),
        num_ctas=kernel.ctas,
        num_sms=spec.sm.count,
        launch_ps=700,
        store_queue_ps=1_000,
    )
    slots = new_slots(num_resident * kernel.warpgroups_per_cta, spec.sm.count, tables)
    return tables, slots, machine, shared


def by_warpgroups(scheduler: str) -> TaskGraph:
    """Causal FlashAttention-3 by pairs of warpgroups: three CTAs a head, of 2, 4 and 5 tiles."""
    workload = AttentionWorkload(batch=1, heads=3, seqlen_q=300, seqlen_k=300, head_dim=16, causal=True)
    choices = WarpgroupChoices(tile_q=128, tile_kv=64, stages=2, scheduler=scheduler, order="longest_first")
    return SCHEDULES["flash3"].build(workload, choices, {})


WRITTEN = {"nested": nested((2, 2, 3), ctas=5), "dynamic": by_warpgroups("dynamic"), "static": by_warpgroups("static")}


@pytest.mark.parametrize("graph", WRITTEN.values(), ids=WRITTEN)
def test_the_loop_is_plain_python_that_compiling_does_not_change(graph: TaskGraph) -> None:
    """Run as it is written and run as machine code: the same end, and the same state down to every array."""
    spec = with_sms(with_l2(BOTH_PATHS, 6 * 1024), 2)
    ends, states = [], []
    for run in (run_kernel, compiled_run_kernel()):
        tables, slots, machine, shared = booked(graph, spec, 3)
        ends.append(int(run(tables, slots, machine.memory, shared, 123)))
        counters = [machine.pipe_free_ps, machine.launcher_free_ps, shared.next_cta, shared.next_sequence]
        states.append([*slots.places, *slots[1:], *machine.memory, *counters])
    assert ends[0] == ends[1] > 123
    for plain, compiled in zip(*states, strict=True):
        np.testing.assert_array_equal(plain, compiled, strict=True)


@pytest.mark.parametrize("graph", WRITTEN.values(), ids=WRITTEN)
def test_plain_python_gives_what_simpy_gives(graph: TaskGraph) -> None:
    """The same kernel through `simulate` on SimPy: pipe time and waits of all slots."""
    graph, spec = TaskGraph(graph.kernels[:1]), with_sms(with_l2(BOTH_PATHS, 6 * 1024), 2)
    done = simulate(graph, spec, NCU, mode="exhaustive").kernels[0]
    tables, slots, machine, shared = booked(graph, spec, done.ctas_per_sm)
    shared = shared._replace(launch_ps=round(1e12 / spec.launch.ctas_per_s), store_queue_ps=0)
    end = run_kernel(tables, slots, machine.memory, shared, 0)
    assert done.elapsed_ps == max(end, slots.state[:, loop.ACCEPTED_PS].max())
    columns = {Stall.COMPUTE: loop.SPENT_COMPUTE, Stall.PIPE: loop.SPENT_PIPE, Stall.LOAD: loop.SPENT_LOAD}
    assert {kind: done.stall_ps[kind] for kind in columns} == {
        kind: slots.spent_ps[:, column].sum() for kind, column in columns.items()
    }


def contest(*calls: tuple[int, int], slots: Slots | None = None) -> Slots:
    """Slots that wake at these (times, sequence numbers), and their tournament played."""
    tables, *_ = booked(SMALL, A100, 1)
    slots = new_slots(len(calls), len(calls), tables) if slots is None else slots
    for slot, (wakes_ps, sequence) in enumerate(calls):
        slots.wakes_ps[slot], slots.sequence[slot] = wakes_ps, sequence
    for slot in range(len(slots.wakes_ps)):
        replay(slots, slot)
    return slots


@pytest.mark.parametrize(
    ("calls", "winner"),
    [
        ([(5, 0)], 0),
        ([(50, 0), (20, 1), (30, 2)], 1),
        ([(20, 2), (20, 1), (20, 0)], 2),
        ([(20, 4), (30, 0), (20, 3), (40, 1), (20, 5)], 2),
        ([(NEVER_PS, 0), (NEVER_PS, 1), (7, 9)], 2),
    ],
)
def test_the_earliest_slot_wakes_next_and_ties_go_by_sequence(calls: list[tuple[int, int]], winner: int) -> None:
    """The smallest time; among equal times who asked first, whatever the slot's number."""
    assert winner == contest(*calls).tree[1]


def test_a_slot_that_asks_again_plays_its_matches_again() -> None:
    """Five slots of eight leaves: the winner goes to the back, the next follows, until all sleep."""
    slots = contest((10, 0), (30, 1), (20, 2), (20, 3), (10, 4))
    order = []
    while slots.wakes_ps[slots.tree[1]] != NEVER_PS:
        order.append(int(slots.tree[1]))
        slots.wakes_ps[order[-1]] = NEVER_PS
        replay(slots, order[-1])
    assert [0, 4, 2, 3, 1] == order


@many
@given(st.integers(1, 9), st.lists(st.tuples(st.integers(0, 8), st.integers(0, 5)), min_size=1, max_size=30))
def test_the_tournament_is_a_sorted_queue(num_slots: int, changes: list[tuple[int, int]]) -> None:
    """After every change the winner is the minimum of (time, sequence number)."""
    slots = contest(*[(NEVER_PS, 0)] * num_slots)
    for sequence, (slot, wakes_ps) in enumerate(changes):
        slots.wakes_ps[slot % num_slots], slots.sequence[slot % num_slots] = wakes_ps, sequence
        replay(slots, slot % num_slots)
        asked = [(slots.wakes_ps[n], slots.sequence[n], n) for n in range(num_slots) if slots.wakes_ps[n] != NEVER_PS]
        assert min(asked)[2] == slots.tree[1]
