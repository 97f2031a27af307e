"""The FA-1 order's traffic against the closed form of its paper: Θ(N²d²/M) with SRAM for M numbers.

Bc = M/(4d) and Br = min(Bc, d), as the paper sets them, without asking whether they fit. T = N/Bc blocks of K and V. In
each, Q is read and O written; O, m and ℓ are read in every block but the first, which starts them on chip, and m and ℓ
are written in every block but the last, which writes the normalised O.
"""

import itertools

import pytest

from gpusim.analytic import kernel_work
from gpusim.schedules import SCHEDULES, KvOuterChoices
from gpusim.taskgraph import Kernel
from gpusim.workloads import AttentionWorkload

N, D = 16384, 64
SIZES = [2**15, 2**16, 2**17]


def flash1(tile_q: int, tile_kv: int, accumulators: str = "registers") -> Kernel:
    """The FA-1 order as one kernel, every number 2 bytes."""
    workload = AttentionWorkload(batch=1, heads=1, seqlen_q=N, seqlen_k=N, head_dim=D)
    choices = KvOuterChoices(tile_q=tile_q, tile_kv=tile_kv, accumulators=accumulators, accumulator_bytes=2)
    (kernel,) = SCHEDULES["flash1"].build(workload, choices, {}).kernels
    return kernel


def moved_numbers(kernel: Kernel) -> int:
    """Numbers read and written, whatever level they come from."""
    work = kernel_work(kernel)
    return (work.read_bytes + work.write_bytes) // 2


def paper_tiles(size: int) -> tuple[int, int]:
    """Br and Bc that the paper sets for SRAM of `size` numbers."""
    tile_kv = size // (4 * D)
    return min(tile_kv, D), tile_kv


@pytest.mark.parametrize("size", SIZES)
def test_the_order_moves_exactly_its_closed_form(size: int) -> None:
    """2Nd for K and V, TNd for Q, TNd for O out, (T−1)Nd for O back in, 4(T−1)N for m and ℓ both ways."""
    tile_q, tile_kv = paper_tiles(size)
    blocks = N // tile_kv
    closed = 2 * N * D + blocks * N * D + blocks * N * D + (blocks - 1) * N * D + 4 * (blocks - 1) * N
    assert closed == moved_numbers(flash1(tile_q, tile_kv))


@pytest.mark.parametrize("size", SIZES)
def test_io_times_m_over_n2d2_is_12_and_a_quarter(size: int) -> None:
    """3TNd + 4TN with T = 4Nd/M is N²d²/M times 12 + 16/d = 12.25; the first and last block change it by under 4 %."""
    ratio = moved_numbers(flash1(*paper_tiles(size))) * size / (N**2 * D**2)
    assert 12.25 == pytest.approx(ratio, rel=0.04)


def test_more_sram_means_less_traffic() -> None:
    """With the largest square tiles that fit M numbers, 4Bd + B² + 2B ≤ M, the bytes fall at every doubling of M."""
    moved = []
    for size in (2**power for power in range(12, 18)):
        tile = max(b for b in range(1, 512) if 4 * b * D + b * b + 2 * b <= size)
        kernel = flash1(tile, tile, "smem")
        assert kernel.smem_bytes <= 2 * size
        moved.append(moved_numbers(kernel))
    assert all(less < more for more, less in itertools.pairwise(moved))
