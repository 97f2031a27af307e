"""CTAs per SM for each limiter, by hand on the A100's numbers (CUDA Programming Guide, compute capability 8.0).

167,936 B of shared memory, 1,024 B reserved a CTA, 128 B granularity; 65,536 registers, 256 a warp granularity, at most
255 a thread, 48 beside the accumulators; 2,048 threads, 64 warps and 32 CTAs.
"""

import pytest

from gpusim.analytic import Occupancy, check_fits, occupancy, registers_per_thread
from gpusim.dtypes import DType
from gpusim.errors import DoesNotFitError
from gpusim.implementations import parse_request, plan
from gpusim.specs import GpuSpec, load_gpu
from gpusim.taskgraph import Kernel, KernelBuilder
from gpusim.workloads import AttentionWorkload

A100 = load_gpu("a100_sxm4_40gb")


def kernel(*, warps: int, smem_bytes: int = 0, registers: int = 0, ctas_per_sm: int | None = None) -> Kernel:
    """A kernel that holds so many bytes of shared memory and accumulator registers a thread."""
    cta = KernelBuilder("k", grid=[("head", 1)], warps=warps, compute_dtype=DType.FP16)
    if smem_bytes:
        cta.buffer("smem", smem_bytes // 2, 1)
    if registers:
        cta.accumulator("sums", 32 * warps, registers)
    return cta.build(ctas_per_sm=ctas_per_sm)


@pytest.mark.parametrize(
    ("smem_bytes", "ctas"),
    [
        (166_912, 1),  # + 1,024 reserved = all there is
        (82_944, 2),  # 82,944 + 1,024 = 83,968 = 167,936 / 2
        (82_946, 1),  # rounded up to 83,072: 84,096 twice is too much
        (54_912, 3),  # 55,936 three times is 167,808
        (54_914, 2),  # rounded up to 55,040: 56,064 three times is 168,192
    ],
)
def test_shared_memory_with_its_reserve_and_granularity(smem_bytes: int, ctas: int) -> None:
    """Each CTA is charged its bytes rounded up to 128 and 1,024 more."""
    assert Occupancy(ctas, "shared memory") == occupancy(kernel(warps=1, smem_bytes=smem_bytes), A100)


@pytest.mark.parametrize(
    ("warps", "registers", "ctas"),
    [
        (4, 192, 2),  # 240 a thread: 7,680 a warp, 30,720 a CTA
        (4, 80, 4),  # 128 a thread: 4,096 a warp, 16,384 a CTA
        (4, 81, 3),  # 129 a thread: 4,128, rounded up to 4,352 a warp, 17,408 a CTA
        (8, 207, 1),  # 255 a thread: 8,160, rounded up to 8,192 a warp, 65,536 a CTA
    ],
)
def test_registers_with_their_granularity(warps: int, registers: int, ctas: int) -> None:
    """Accumulators plus 48 working registers, rounded up to 256 a warp."""
    assert Occupancy(ctas, "registers") == occupancy(kernel(warps=warps, registers=registers), A100)


@pytest.mark.parametrize("gpu", ["rtx_3090", "rtx_a5000", "a10", "a10g", "rtx_4090", "l4", "l40s"])
@pytest.mark.parametrize(
    ("head_dim", "smem_bytes", "ctas"),
    [
        (64, 49_152, 2),  # (128 + 2·128)·64·2 B; twice 50,176 is within 102,400
        (96, 49_152, 2),  # (128 + 2·64)·96·2 B
        (128, 49_152, 2),  # (128 + 2·32)·128·2 B: the launch template takes 48 KB to have two CTAs an SM
        (192, 98_304, 1),  # (128 + 2·64)·192·2 B
        (256, 98_304, 1),  # (64 + 2·64)·256·2 B, the one choice within 99 KiB
    ],
)
def test_released_flash2_tiles_on_an_sm_of_100_kib(gpu: str, head_dim: int, smem_bytes: int, ctas: int) -> None:
    """CTAs per SM that the comments of flash_fwd_launch_template.h state for sm86 and sm89, or that its sizes give."""
    spec = load_gpu(gpu)
    workload = AttentionWorkload(batch=1, heads=1, seqlen_q=512, seqlen_k=512, head_dim=head_dim)
    (flash2,) = plan(parse_request("flash2", "test"), spec, workload).graph.kernels
    assert (smem_bytes, ctas) == (flash2.smem_bytes, occupancy(flash2, spec).ctas_per_sm)


def test_the_compiler_caps_registers_at_255() -> None:
    """230 accumulators and 48 working registers would be 278; the kernel gets 255."""
    assert 255 == registers_per_thread(kernel(warps=4, registers=230), A100.sm)
    assert 0 == registers_per_thread(kernel(warps=1, registers=230), load_gpu("canvas").sm)


def test_accumulators_alone_may_fill_the_registers_but_not_exceed_them() -> None:
    """255 registers of accumulators pass, 256 are refused."""
    check_fits(kernel(warps=4, registers=255), A100)
    with pytest.raises(DoesNotFitError, match="256 registers"):
        check_fits(kernel(warps=4, registers=256), A100)


def test_cta_slots() -> None:
    """One warp, 48 registers a thread (1,536 a warp: 42 would fit), no shared memory but the reserve: 32 slots."""
    assert Occupancy(32, "CTA slots") == occupancy(kernel(warps=1), A100)


def test_warps() -> None:
    """16 warps of 32 threads: 64 / 16 = 4 CTAs with few enough registers."""
    sm = A100.sm.model_copy(
        update={"register_file": A100.sm.register_file.model_copy(update={"working_registers_per_thread": 16})}
    )
    roomy = A100.model_copy(update={"sm": sm})
    assert Occupancy(4, "warps") == occupancy(kernel(warps=16), roomy)


def test_threads() -> None:
    """With 1,024 threads an SM, two CTAs of 16 warps fit where 64 warps would allow four."""
    sm = A100.sm.model_copy(update={"max_threads": 1024})
    assert Occupancy(2, "threads") == occupancy(kernel(warps=16), A100.model_copy(update={"sm": sm}))


def test_a_pinned_residency_wins() -> None:
    """What a released kernel's table states replaces the limits."""
    assert Occupancy(2, "table") == occupancy(kernel(warps=1, ctas_per_sm=2), A100)


def test_shared_memory_above_the_limit_is_refused_with_both_numbers() -> None:
    """166,914 B against 166,912 B."""
    with pytest.raises(DoesNotFitError, match=r"166,914 B .* 166,912 B"):
        occupancy(kernel(warps=1, smem_bytes=166_914), A100)


def test_no_cta_at_all_is_refused_with_the_limiter() -> None:
    """32 warps of 255 registers need four times the register file."""
    with pytest.raises(DoesNotFitError, match="limited by registers"):
        occupancy(kernel(warps=32, registers=207), A100)


H100 = load_gpu("h100_sxm5_80gb")


@pytest.mark.parametrize(
    ("spec", "head_dim", "ctas"),
    [(A100, 64, 2), (A100, 128, 2), (A100, 192, 1), (A100, 256, 1), (H100, 64, 2), (H100, 128, 2), (H100, 256, 2)],
    ids=lambda value: value.name if isinstance(value, GpuSpec) else str(value),
)
def test_flash2_tiles_have_their_published_residency(spec: GpuSpec, head_dim: int, ctas: int) -> None:
    """The comments of flash_fwd_launch_template.h say how many CTAs each tile leaves on an SM."""
    workload = AttentionWorkload(batch=1, heads=1, seqlen_q=1024, seqlen_k=1024, head_dim=head_dim)
    (only,) = plan(parse_request("flash2", "test"), spec, workload).graph.kernels
    assert ctas == occupancy(only, spec).ctas_per_sm
