"""Each term of the lower bound, and the plain roofline, by hand."""

import pytest

from gpusim.analytic import Bound, footprint, lower_bound, matmul_flop_per_clk, roofline_ms
from gpusim.dtypes import DType
from gpusim.engine import simulate
from gpusim.implementations import parse_request, plan
from gpusim.specs import GpuSpec, load_gpu
from gpusim.taskgraph import KernelBuilder, Role, TaskGraph, Tensor
from gpusim.units import ms_from_ps
from gpusim.workloads import AttentionWorkload, Conditions

CANVAS = load_gpu("canvas")  # 1 SM at 1 GHz, 8 FLOP, 1 exponential a clock, 1 GB/s, no L2
PROBLEM = AttentionWorkload(batch=1, heads=1, seqlen_q=1000, seqlen_k=1000, head_dim=10)


def canvas(sm: dict[str, object] | None = None, hbm: dict[str, object] | None = None) -> GpuSpec:
    """Canvas with some numbers of its SM and its memory changed."""
    memory = CANVAS.memory.model_copy(update={"hbm": CANVAS.memory.hbm.model_copy(update=hbm or {})})
    return CANVAS.model_copy(update={"sm": CANVAS.sm.model_copy(update=sm or {}), "memory": memory})


def close(ms: float, resource: str) -> Bound:
    """A bound of this resource, equal but for the last bits."""
    return Bound(pytest.approx(ms, rel=1e-12), resource)


def test_matrix_units() -> None:
    """4·N²·d = 40 MFLOP at 8 GFLOP/s are 5 ms; the other terms are 1 ms and 0.08 ms."""
    assert close(5.0, "tensor fp16") == lower_bound(PROBLEM, CANVAS, "cold")


@pytest.mark.parametrize(
    ("gpu", "path", "flop_per_clk"),
    [
        ("a100_sxm4_40gb", None, 2048),
        ("a100_sxm4_40gb", "mma_sync", 2048),
        ("h100_sxm5_80gb", None, 4096),
        ("h100_sxm5_80gb", "wgmma", 4096),
        ("h100_sxm5_80gb", "mma_sync", 4096 * 0.629),
    ],
)
def test_mma_sync_reaches_a_share_of_hoppers_rate(gpu: str, path: str | None, flop_per_clk: float) -> None:
    """62.9 % of wgmma's (arXiv 2402.13499); before Hopper mma.sync is all there is."""
    assert flop_per_clk == pytest.approx(matmul_flop_per_clk(load_gpu(gpu).sm, DType.FP16, path), rel=1e-12)


def test_multiply_adds_on_the_fp32_lanes_have_no_path() -> None:
    """128 lanes, 2 FLOP each, whatever the instruction of the tensor cores."""
    assert 256 == matmul_flop_per_clk(load_gpu("h100_sxm5_80gb").sm, DType.FP32, "mma_sync")


def test_special_functions() -> None:
    """With 800 FLOP a clock, N² = 10⁶ exponentials at 10⁹ a second take 1 ms."""
    spec = canvas(sm={"tensor_flop_per_clk": {"fp16": 800}})
    assert close(1.0, "special functions") == lower_bound(PROBLEM, spec, "cold")


@pytest.mark.parametrize(
    ("seqlen_q", "seqlen_k", "visible"),
    [(4, 4, 10), (2, 4, 7), (1, 4, 4), (4, 2, 3), (4, 1, 1), (1, 1, 1)],
)
def test_a_causal_mask_shows_a_triangle(seqlen_q: int, seqlen_k: int, visible: int) -> None:
    """1 + 2 + 3 + 4 scores; 3 + 4 of two queries; 1 + 2 of the last two of four queries; for each of six heads."""
    shape = {"batch": 2, "heads": 3, "seqlen_q": seqlen_q, "seqlen_k": seqlen_k, "head_dim": 5, "head_dim_v": 8}
    full, causal = (AttentionWorkload.model_validate(shape | {"causal": causal}) for causal in (False, True))
    assert (6 * seqlen_q * seqlen_k, 6 * visible) == (full.visible_scores, causal.visible_scores)
    assert (full.visible_scores, causal.visible_scores) == (full.exps, causal.exps)
    assert full.flops == full.least_flops == 2 * 6 * seqlen_q * seqlen_k * 13
    assert min(full.flops // 2, 2 * 6 * visible * 13) == causal.least_flops


def test_rows_without_keys_are_no_work() -> None:
    """1,000 causal queries and 100 keys: 5,050 of 100,000 scores are visible, 4·10 FLOPs each. At 8 GFLOP/s that is
    25.25 µs; a fast HBM is out of the way."""
    problem = PROBLEM.model_copy(update={"seqlen_k": 100, "causal": True})
    spec = canvas(hbm={"peak_bandwidth_bytes_per_s": 1e12})
    assert close(0.02525, "tensor fp16") == lower_bound(problem, spec, "cold")


@pytest.mark.parametrize(("gpu", "name"), [("a100_sxm4_80gb", "flash2"), ("h100_sxm5_80gb", "flash3")])
@pytest.mark.parametrize(("seqlen_q", "seqlen_k"), [(8192, 512), (512, 8192), (2048, 2048)])
def test_no_causal_run_beats_the_bound(gpu: str, name: str, seqlen_q: int, seqlen_k: int) -> None:
    """Where most queries see no key, the released kernels take less time than half of all scores would."""
    spec = load_gpu(gpu)
    shape = {"batch": 4, "heads": 16, "seqlen_q": seqlen_q, "seqlen_k": seqlen_k, "head_dim": 128, "causal": True}
    problem = AttentionWorkload.model_validate(shape)
    graph = plan(parse_request(name, "test"), spec, problem).graph
    run = simulate(graph, spec, Conditions(timing="ncu"))
    assert lower_bound(problem, spec, "cold").ms <= ms_from_ps(run.latency_ps)


def test_hbm() -> None:
    """Four matrices of 20,000 B at 10 MB/s take 8 ms."""
    spec = canvas(hbm={"peak_bandwidth_bytes_per_s": 1e7, "stream_bandwidth_bytes_per_s": 1e7})
    assert close(8.0, "HBM") == lower_bound(PROBLEM, spec, "cold")


def test_outputs_may_stay_in_l2_and_inputs_in_a_warm_one() -> None:
    """L2 of 30,000 B: cold 60,000 B of input must cross (O stays); warm 80,000 − 30,000 B."""
    slow = canvas(hbm={"peak_bandwidth_bytes_per_s": 1e7, "stream_bandwidth_bytes_per_s": 1e7})
    l2 = load_gpu("a100_sxm4_40gb").memory.l2.model_copy(update={"size_bytes": 30_000})
    spec = slow.model_copy(update={"memory": slow.memory.model_copy(update={"l2": l2})})
    assert close(6.0, "HBM") == lower_bound(PROBLEM, spec, "cold")
    assert close(5.0, "tensor fp16") == lower_bound(PROBLEM, spec, "warm")
    small = spec.model_copy(
        update={"memory": slow.memory.model_copy(update={"l2": l2.model_copy(update={"size_bytes": 10_000})})}
    )
    assert close(7.0, "HBM") == lower_bound(PROBLEM, small, "cold")


def test_more_sms_and_faster_clocks_shorten_compute() -> None:
    """Four SMs at 2 GHz do 5 ms of matrix work in 0.625 ms."""
    assert close(0.625, "tensor fp16") == lower_bound(PROBLEM, canvas(sm={"count": 4, "clock_hz": 2e9}), "cold")


def test_a100_peak_is_312_tflops() -> None:
    """The published dense fp16 peak of an A100: 312 TFLOP/s, so 4·8192²·128·16 FLOP take 1.76 ms."""
    problem = AttentionWorkload(batch=1, heads=16, seqlen_q=8192, seqlen_k=8192, head_dim=128)
    bound = lower_bound(problem, load_gpu("a100_sxm4_40gb"), "cold")
    assert 4 * 8192**2 * 128 * 16 / 312e12 * 1e3 == pytest.approx(bound.ms, rel=1e-3)


def test_roofline_is_the_larger_of_flops_and_operands() -> None:
    """5 ms of FLOPs against 3 MB or 8 MB at 1 GB/s."""
    assert 5.0 == pytest.approx(roofline_ms(PROBLEM, 3_000_000, CANVAS), rel=1e-12)
    assert 8.0 == pytest.approx(roofline_ms(PROBLEM, 8_000_000, CANVAS), rel=1e-12)


def tensor(name: str, role: Role, rows: int) -> Tensor:
    """A column of 2-byte numbers in one tile."""
    return Tensor(name, 1, rows, 1, DType.FP16, role, rows, 1)


def test_a_temporary_lives_from_its_first_to_its_last_kernel() -> None:
    """X(1) → A(10) → B(100) → A is gone → Y(1): the peak holds A and B, then B and C(50), whichever is larger."""
    sizes = {"X": 1, "A": 10, "B": 100, "C": 50, "Y": 1}
    roles = {"X": Role.INPUT, "Y": Role.OUTPUT}
    tensors = {name: tensor(name, roles.get(name, Role.TEMPORARY), rows) for name, rows in sizes.items()}
    kernels = []
    for src, dst in (("X", "A"), ("A", "B"), ("B", "C"), ("C", "Y")):
        cta = KernelBuilder(f"{src}{dst}", grid=[("head", 1)], warps=1, compute_dtype=DType.FP16)
        cta.load(tensors[src].tile(), cta.buffer("in", sizes[src], 1))
        cta.store(cta.buffer("out", sizes[dst], 1), tensors[dst].tile())
        kernels.append(cta.build())
    memory = footprint(TaskGraph(tuple(kernels)))
    assert (2 * (100 + 50), 2 * (1 + 1 + 100 + 50)) == (memory.extra_bytes, memory.peak_bytes)
