"""Every GPU with every implementation on small shapes: an answer that adds up, or a refusal that says why."""

import json
from functools import cache

import kernel_shapes
import pytest
from kernel_shapes import ATTENTION, SINGLE_KERNELS

from gpusim.analytic import kernel_work
from gpusim.engine import simulate
from gpusim.implementations import implementations, parse_request, plan
from gpusim.point import Point, run_point
from gpusim.results import PointResult
from gpusim.specs import gpu_names, load_gpu
from gpusim.trace import Stall
from gpusim.workloads import AttentionWorkload, Conditions, Workload

SHAPES: dict[str, Workload] = {
    "tiny": AttentionWorkload(batch=1, heads=1, seqlen_q=8, seqlen_k=8, head_dim=4),
    "ragged": AttentionWorkload(batch=1, heads=3, seqlen_q=333, seqlen_k=200, head_dim=64),
    "wide": AttentionWorkload(batch=2, heads=2, seqlen_q=128, seqlen_k=256, head_dim=128, save_lse=True),
    "causal": AttentionWorkload(batch=1, heads=2, seqlen_q=200, seqlen_k=200, head_dim=64, causal=True),
    "widest": AttentionWorkload(batch=1, heads=1, seqlen_q=64, seqlen_k=64, head_dim=256, dtype="bf16"),
}
SHAPES_OF = dict.fromkeys(ATTENTION, SHAPES) | kernel_shapes.SHAPES
ALL = [(gpu, name, shape) for gpu in gpu_names() for name in implementations() for shape in SHAPES_OF[name]]


@cache
def result(gpu: str, name: str, shape: str, timing: str = "ncu", cache: str = "cold") -> PointResult:
    """The point's result, simulated once."""
    conditions = Conditions(timing=timing, cache=cache)
    return run_point(Point(load_gpu(gpu), parse_request(name, "test"), SHAPES_OF[name][shape], conditions))


RUNS = [case for case in ALL if result(*case).status == "ok"]


# What has to run, and on which shapes: RUNS alone would only shrink if one of them came to be refused.
A100_LIKE = ("a100_pcie_40gb", "a100_pcie_80gb", "a100_sxm4_40gb", "a100_sxm4_80gb", "a30")
H100_LIKE = ("h100_pcie_80gb", "h100_sxm5_80gb", "h200_sxm_141gb", "h800_sxm5_80gb")
MUST_RUN = {
    "naive": {
        A100_LIKE + H100_LIKE: ("tiny", "ragged", "wide", "widest"),
        ("l40s",): ("tiny", "ragged"),
        ("canvas",): ("tiny",),
    },
    "pytorch_naive": {A100_LIKE + H100_LIKE: tuple(SHAPES), ("canvas",): ("tiny",)},
    "megatron_fused_softmax": {
        A100_LIKE + H100_LIKE: ("tiny", "ragged", "wide", "widest"),
        ("canvas",): ("tiny",),
    },
    "flash1": {A100_LIKE: ("tiny", "ragged", "wide"), ("canvas",): ("tiny",)},
    "flash2": {(*A100_LIKE, *H100_LIKE, "l40s"): tuple(SHAPES), ("canvas",): ("tiny",)},
    "flash3": {H100_LIKE: tuple(SHAPES)},
}
SIMULATED = [gpu for gpu in gpu_names() if not load_gpu(gpu).missing_for_simulation()]


def test_most_of_them_run() -> None:
    """Canvas, without wgmma, runs the tiny shape with all other attention, the others all their tables cover, fit-only
    GPUs nothing."""
    assert {(gpu, name) for gpu in SIMULATED for name in ("naive", "flash2")} <= {case[:2] for case in RUNS}
    assert set(SIMULATED) == {gpu for gpu, _, _ in RUNS}
    by_warpgroups = {name for name in ATTENTION if implementations()[name].schedule == "flash3"}
    assert {name for gpu, name, shape in RUNS if (gpu, shape) == ("canvas", "tiny")} == set(ATTENTION) - by_warpgroups


def test_what_has_to_run_runs() -> None:
    """Every implementation, with the GPUs and shapes it must not refuse."""
    must = {
        (gpu, name, shape)
        for name, table in MUST_RUN.items()
        for gpus, shapes in table.items()
        for gpu in gpus
        for shape in shapes
    }
    assert set() == must - set(RUNS)


def test_single_kernels_run_wherever_there_are_registers() -> None:
    """On ideal units where nothing was fitted; tiles of a matrix product are those of A100 and H100 alone."""
    with_registers = [gpu for gpu in SIMULATED if gpu != "canvas"]
    for name in SINGLE_KERNELS:
        gpus = A100_LIKE + H100_LIKE if name == "torch_matmul" else with_registers
        ran = {(gpu, shape) for gpu, ran_name, shape in RUNS if ran_name == name}
        assert {(gpu, shape) for gpu in gpus for shape in SHAPES_OF[name]} == ran


def test_what_has_a_causal_mask_runs_causal_wherever_it_runs() -> None:
    """Every GPU that the tables of eager PyTorch, FlashAttention-2, -3 and other such kernels cover; the rest has no
    model of a causal mask."""
    masked = {name for name in ATTENTION if "causal" in implementations()[name].masks}
    assert {"pytorch_naive", "flash2", "flash3"} <= masked
    causal = {(gpu, name) for gpu, name, shape in RUNS if shape == "causal"}
    assert {(gpu, name) for gpu, name, shape in RUNS if name in masked and shape == "ragged"} == causal


@pytest.mark.parametrize(("gpu", "name", "shape"), ALL)
def test_it_answers_or_says_why_not(gpu: str, name: str, shape: str) -> None:
    """Status "ok" comes without a reason; anything else has a typed status, a reason, a fix and no latency."""
    answer = result(gpu, name, shape)
    if answer.status == "ok":
        assert (None, None) == (answer.reason, answer.fix)
    else:
        assert answer.status in ("refused", "out_of_memory", "unsupported")
        assert answer.reason
        assert answer.fix
        assert answer.latency_ms is None


@pytest.mark.parametrize(("gpu", "name", "shape"), RUNS)
def test_no_time_beats_the_bound(gpu: str, name: str, shape: str) -> None:
    """The closed-form lower bound is positive and not above the latency, cold or warm."""
    for cache_ in ("cold", "warm"):
        answer = result(gpu, name, shape, cache=cache_)
        assert 0 < answer.bound_ms <= answer.latency_ms


@pytest.mark.parametrize(("gpu", "name", "shape"), RUNS)
def test_no_unit_is_busier_than_the_time(gpu: str, name: str, shape: str) -> None:
    """Every busy share of every kernel is at most 1."""
    for kernel in result(gpu, name, shape).kernels:
        assert {} == {unit: share for unit, share in kernel.busy.items() if not 0 <= share <= 1}


@pytest.mark.parametrize("timing", ["ncu", "event"])
@pytest.mark.parametrize(("gpu", "name", "shape"), RUNS)
def test_stall_shares_add_up(gpu: str, name: str, shape: str, timing: str) -> None:
    """Shares of the closed list of reasons, none negative, sum 1, for the point and each kernel."""
    answer = result(gpu, name, shape, timing)
    for stalls in (answer.stalls, *(kernel.stalls for kernel in answer.kernels)):
        assert set(Stall) == set(stalls)
        assert min(stalls.values()) >= 0
        assert 1 == pytest.approx(sum(stalls.values()), abs=1e-9)


@pytest.mark.parametrize(("gpu", "name", "shape"), RUNS)
def test_simulated_traffic_is_the_closed_form(gpu: str, name: str, shape: str) -> None:
    """What the machine counts kernel by kernel is what the program asks for: in HBM without an L2, hits beside it with.

    The point reports the same bytes as asked of L2.
    """
    spec = load_gpu(gpu)
    graph = plan(parse_request(name, "test"), spec, SHAPES_OF[name][shape]).graph
    works = [kernel_work(kernel) for kernel in graph.kernels]
    bare = spec.model_copy(update={"memory": spec.memory.model_copy(update={"l2": None})})
    cold = Conditions(timing="ncu", cache="cold")
    without, with_l2 = (simulate(graph, machine, cold).kernels for machine in (bare, spec))
    assert [(w.read_bytes, w.write_bytes) for w in works] == [(k.hbm_read_bytes, k.hbm_write_bytes) for k in without]
    assert [w.read_bytes for w in works] == [k.hbm_read_bytes + k.l2_hit_bytes for k in with_l2]
    answer = result(gpu, name, shape)
    assert sum(work.read_bytes for work in works) == answer.l2_read_bytes
    assert sum(work.write_bytes for work in works) == answer.l2_write_bytes


def output_bytes(workload: Workload) -> int:
    """What every schedule of it writes; log-sum-exp is kept by some."""
    if isinstance(workload, AttentionWorkload):
        return workload.model_copy(update={"save_lse": False}).output_bytes
    return workload.output_bytes


@pytest.mark.parametrize(("gpu", "name", "shape"), RUNS)
def test_bytes_are_conserved(gpu: str, name: str, shape: str) -> None:
    """Cold: inputs cross HBM, hits are the rest of what was asked; what is written is in HBM or dirty in L2."""
    workload, answer = SHAPES_OF[name][shape], result(gpu, name, shape)
    assert workload.input_bytes <= answer.hbm_read_bytes <= answer.l2_read_bytes
    hit_rate = 0 if answer.l2_hit_rate is None else answer.l2_hit_rate
    assert answer.l2_read_bytes - answer.hbm_read_bytes == pytest.approx(hit_rate * answer.l2_read_bytes)
    assert (answer.l2_hit_rate is None) == (workload.input_bytes == 0)
    written = answer.hbm_write_bytes + answer.l2_dirty_bytes
    assert output_bytes(workload) <= written <= answer.l2_write_bytes


@pytest.mark.parametrize(("gpu", "name", "shape"), ALL)
def test_the_record_is_json(gpu: str, name: str, shape: str) -> None:
    """A point goes through JSON unchanged and spells `pass` as users write it."""
    record = result(gpu, name, shape).record()
    assert record == json.loads(json.dumps(record, allow_nan=False))
    asked_pass = "fwd" if name in ATTENTION else None
    assert (asked_pass, gpu, name) == (record["pass"], record["gpu"], record["implementation"])


@pytest.mark.parametrize(("gpu", "name", "shape"), RUNS)
def test_kernels_and_gaps_make_the_latency(gpu: str, name: str, shape: str) -> None:
    """Under the profiler the kernels' times add up; a stream has its gap before each where a graph has its own."""
    answer = result(gpu, name, shape)
    assert answer.latency_ms == pytest.approx(sum(kernel.latency_ms for kernel in answer.kernels), rel=1e-12)
    launch = load_gpu(gpu).launch
    longer_ms = len(answer.kernels) * (launch.stream_ns - launch.graph_ns) * 1e-6
    in_a_graph, in_a_stream = (result(gpu, name, shape, timing).latency_ms for timing in ("graph", "event"))
    assert in_a_graph + longer_ms == pytest.approx(in_a_stream, rel=1e-9)
