"""Released kernels are compiled for a few head dims; others run in the next one, whose columns they fill with zeros."""

import pytest

from gpusim import AttentionWorkload, Conditions, load_gpu, parse_request, plan
from gpusim.analytic import kernel_work
from gpusim.engine import simulate
from gpusim.errors import UnsupportedError
from gpusim.fit import fit_tiles
from gpusim.schedules import FlashChoices
from gpusim.specs import GpuSpec

A100, H100 = load_gpu("a100_sxm4_80gb"), load_gpu("h100_sxm5_80gb")


def attention(head_dim: int) -> AttentionWorkload:
    """Sixteen heads of 1,024 tokens."""
    return AttentionWorkload(batch=1, heads=16, seqlen_q=1024, seqlen_k=1024, head_dim=head_dim)


@pytest.mark.parametrize(
    ("gpu", "name", "head_dim", "compiled"),
    [
        (A100, "flash2", 40, 64),
        (A100, "flash2", 80, 96),
        (A100, "flash2", 100, 128),
        (A100, "flash2", 129, 160),
        (A100, "flash1", 40, 64),
        (A100, "flash1", 65, 128),
        (A100, "triton", 80, 128),
        (H100, "flash3", 72, 96),
        (H100, "flash3", 136, 192),
    ],
)
def test_a_head_dim_computes_like_the_next_compiled_one(gpu: GpuSpec, name: str, head_dim: int, compiled: int) -> None:
    """Shared memory, registers and matrix FLOPs are those of the compiled head dim; fewer bytes take no longer."""
    asked, padded = (plan(parse_request(name, "test"), gpu, attention(d)).graph for d in (head_dim, compiled))
    (short,), (long,) = asked.kernels, padded.kernels
    assert long.smem_bytes == short.smem_bytes
    assert long.accumulator_registers_per_thread == short.accumulator_registers_per_thread
    assert kernel_work(long).flops == kernel_work(short).flops
    took, most = (simulate(graph, gpu, Conditions(timing="ncu", cache="cold")).latency_ps for graph in (asked, padded))
    assert took <= most


@pytest.mark.parametrize(("gpu", "name"), [(A100, "flash2"), (A100, "triton"), (H100, "flash3")])
@pytest.mark.parametrize("head_dim", [40, 100])
def test_bytes_are_those_of_the_tensors(gpu: GpuSpec, name: str, head_dim: int) -> None:
    """Columns of zeros are not moved: Q, K, V and O of 16 heads, 1,024 tokens and d numbers of 2 bytes."""
    graph = plan(parse_request(name, "test"), gpu, attention(head_dim)).graph
    assert 4 * 16 * 1024 * head_dim * 2 == kernel_work(graph.kernels[0]).operand_bytes


def test_fit_answers_for_the_compiled_head_dim() -> None:
    """d = 40: Q of 128 rows and K and V of 128, 64 columns of two bytes: 48 KiB as at d = 64."""
    (fit,) = fit_tiles(A100, "flash2", head_dim=40, tiles_q=[128], tiles_kv=[128], stages=[1], warps=[4])
    assert 3 * 128 * 64 * 2 == fit.smem_bytes_per_cta


def test_v_is_padded_to_a_compiled_head_dim_too() -> None:
    """flash3, d = 72 and d_v = 71 run as 96 and 96; DeepSeek's 192 and 128 are compiled as they are, tiles of 128."""
    shape = {"batch": 1, "heads": 16, "seqlen_q": 1024, "seqlen_k": 1024}
    odd, even = (
        AttentionWorkload.model_validate(shape | {"head_dim": d, "head_dim_v": d_v}) for d, d_v in ((72, 71), (96, 96))
    )
    request = parse_request("flash3", "test")
    (ragged,), (whole,) = (plan(request, H100, workload).graph.kernels for workload in (odd, even))
    assert kernel_work(whole).flops == kernel_work(ragged).flops
    deepseek = AttentionWorkload.model_validate(shape | {"head_dim": 192, "head_dim_v": 128})
    choices = plan(request, H100, deepseek).choices
    assert isinstance(choices, FlashChoices)
    assert (128, 128) == (choices.tile_q, choices.tile_kv)


def test_too_narrow_a_kernel_is_refused() -> None:
    """32 columns do not hold a head dim of 64."""
    narrow = parse_request({"name": "flash2", "compiled_head_dim": 32}, "test")
    with pytest.raises(UnsupportedError, match="compiled_head_dim = 32 cannot compute head_dim = 64"):
        plan(narrow, A100, attention(64))
