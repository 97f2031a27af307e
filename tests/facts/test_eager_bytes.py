"""Bytes that eager PyTorch's passes over the scores move: in fp16 2 bytes a number and 4 while the mask is fp32."""

from functools import cache

import pytest

from gpusim.analytic import KernelWork, kernel_work
from gpusim.dtypes import DType
from gpusim.implementations import parse_request, plan
from gpusim.point import Point, run_point
from gpusim.specs import load_gpu
from gpusim.workloads import AttentionWorkload, Conditions

N, D = 1024, 64
GPUS = ["a100_sxm4_40gb", "h100_sxm5_80gb"]
MASK_PASSES = {"mask_fill": (0, 4), "mask_triangle": (4, 4), "mask_cast": (4, 2)}
OVER_SCORES = {"qk", "divide", "add_mask", "softmax", "pv", *MASK_PASSES}


def attention(heads: int, *, causal: bool = False) -> AttentionWorkload:
    """Self-attention of N = 1,024 at head dim 64."""
    return AttentionWorkload(batch=1, heads=heads, seqlen_q=N, seqlen_k=N, head_dim=D, causal=causal)


@cache
def works(gpu: str, stack: str | None, heads: int = 4, *, causal: bool = False) -> dict[str, KernelWork]:
    """Work of every kernel by name."""
    planned = plan(parse_request("pytorch_naive", "test"), load_gpu(gpu), attention(heads, causal=causal), stack)
    return {kernel.name: kernel_work(kernel) for kernel in planned.graph.kernels}


def score_bytes(work: dict[str, KernelWork], heads: int = 4) -> dict[str, tuple[float, float]]:
    """Bytes read and written a score by the kernels that read or write scores; of the GEMMs only their N×N side."""
    scores = heads * N * N
    passes = {
        name: (work[name].read_bytes / scores, work[name].write_bytes / scores)
        for name in ("divide", "add_mask", "softmax")
        if name in work
    }
    v_and_o = 2 * heads * N * D * 2
    return passes | {
        "qk": (0.0, work["qk"].write_bytes / scores),
        "pv": ((work["pv"].operand_bytes - v_and_o) / scores, 0.0),
    }


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("stack", [None, "flash_attn_bench", "xformers_bench"])
def test_a_plain_forward_moves_8_bytes_a_score(gpu: str, stack: str | None) -> None:
    """QK writes 2, the softmax reads 2 and writes 2, PV reads 2."""
    found = score_bytes(works(gpu, stack))
    assert {"qk": (0, 2), "softmax": (2, 2), "pv": (2, 0)} == found
    assert 8 == sum(map(sum, found.values()))


@pytest.mark.parametrize("gpu", GPUS)
def test_dividing_the_scores_adds_4(gpu: str) -> None:
    """fxmarty's benchmark reads and writes them once more."""
    found = score_bytes(works(gpu, "fxmarty"))
    assert (2, 2) == found["divide"]
    assert 12 == sum(map(sum, found.values()))


@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("gpu", GPUS)
def test_adding_the_causal_mask_reads_and_writes_every_score(gpu: str, heads: int) -> None:
    """4 bytes of scores, and 2 of the mask that each head asks L2 for; masked scores are computed like others."""
    found = score_bytes(works(gpu, None, heads, causal=True), heads)
    assert {"qk": (0, 2), "add_mask": (2 + 2, 2), "softmax": (2, 2), "pv": (2, 0)} == found


@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("gpu", GPUS)
def test_the_mask_is_one_tensor_for_all_heads(gpu: str, heads: int) -> None:
    """As an operand of the addition it counts once: 4 bytes a score and 2·N² of the mask."""
    assert 4 * heads * N * N + 2 * N * N == works(gpu, None, heads, causal=True)["add_mask"].operand_bytes


@pytest.mark.parametrize("heads", [1, 4, 32])
@pytest.mark.parametrize("gpu", GPUS)
def test_building_the_mask_does_not_depend_on_the_heads(gpu: str, heads: int) -> None:
    """N² numbers: fill writes fp32, the triangle reads and writes fp32, the conversion reads fp32 and writes fp16."""
    work = works(gpu, None, heads, causal=True)
    assert MASK_PASSES == {name: (work[name].read_bytes / N**2, work[name].write_bytes / N**2) for name in MASK_PASSES}


@pytest.mark.parametrize("stack", [None, "flash_attn_bench", "xformers_bench", "fxmarty"])
def test_every_pass_over_q_k_or_v_reads_and_writes_it_once(stack: str | None) -> None:
    """2 · 4 · 1,024 · 64 bytes each way, transposed or not."""
    prepared = {name: work for name, work in works(GPUS[0], stack).items() if name not in OVER_SCORES}
    assert 3 <= len(prepared)
    for work in prepared.values():
        assert (2 * 4 * N * D, 2 * 4 * N * D) == (work.read_bytes, work.write_bytes)


CS336 = {  # read and written a score of 4 bytes
    "qk": (0, 4),
    "divide": (4, 4),
    "where": (4, 4),
    "row_max": (4, 0),
    "subtract_max": (4, 4),
    "exp": (4, 4),
    "row_sum": (4, 0),
    "divide_by_sum": (4, 4),
    "pv": (4, 0),
}
ROW_VALUES = {"row_max": (0, 1), "subtract_max": (1, 0), "row_sum": (0, 1), "divide_by_sum": (1, 0)}


@pytest.mark.parametrize("gpu", GPUS)
def test_the_cs336_chain_moves_56_bytes_a_score_in_fp32(gpu: str) -> None:
    """Nine kernels; of the GEMMs only the N×N side. A maximum and a sum are 4 bytes a row."""
    heads = 8
    asked = attention(heads, causal=True).model_copy(update={"dtype": DType.FP32})
    graph = plan(parse_request("pytorch_naive", "test"), load_gpu(gpu), asked, "cs336").graph
    scores, row_bytes, matrix_bytes = heads * N * N, 4 * heads * N, 4 * heads * N * D
    assert list(CS336) == [kernel.name for kernel in graph.kernels]
    assert 56 == sum(map(sum, CS336.values()))
    for kernel in graph.kernels:
        read, written = CS336[kernel.name]
        rows_read, rows_written = ROW_VALUES.get(kernel.name, (0, 0))
        beside = {"qk": 2 * matrix_bytes, "pv": 2 * matrix_bytes, "where": N * N}.get(kernel.name, 0)
        expected = (read + written) * scores + (rows_read + rows_written) * row_bytes + beside
        assert expected == kernel_work(kernel).operand_bytes


@pytest.mark.parametrize("gpu", GPUS)
def test_a_boolean_mask_is_a_byte_a_score_for_each_head(gpu: str) -> None:
    """Of 8 heads each asks L2 for 4 + 1 bytes a score and writes 4."""
    heads = 8
    asked = attention(heads, causal=True).model_copy(update={"dtype": DType.FP32})
    graph = plan(parse_request("pytorch_naive", "test"), load_gpu(gpu), asked, "cs336").graph
    (where,) = (kernel for kernel in graph.kernels if kernel.name == "where")
    assert ((4 + 1) * heads * N * N, 4 * heads * N * N) == (
        kernel_work(where).read_bytes,
        kernel_work(where).write_bytes,
    )


def test_the_mask_comes_from_hbm_at_most_once() -> None:
    """A mask of 2 MiB stays in 40 MiB of L2, where every head finds it: at 32 heads 64 MiB of requests are hits."""
    spec, heads = load_gpu(GPUS[0]), 32
    request, conditions = parse_request("pytorch_naive", "test"), Conditions(timing="ncu")
    kernels = run_point(Point(spec, request, attention(heads, causal=True), conditions)).kernels
    (add,) = (kernel for kernel in kernels if kernel.name == "add_mask")
    assert add.l2_read_bytes == 4 * heads * N * N
    assert add.hbm_read_bytes <= 2 * heads * N * N + 2 * N * N
