"""Bytes of single kernels, by hand: what their tiles and passes must ask for on an A100 with 108 SMs."""

import pytest

from gpusim.analytic import kernel_work
from gpusim.implementations import parse_request, plan
from gpusim.specs import load_gpu
from gpusim.workloads import (
    CacheReadWorkload,
    ChaseWorkload,
    GemmWorkload,
    RowsWorkload,
    StreamWorkload,
    Workload,
)

A100 = load_gpu("a100_sxm4_40gb")
TILES = {"name": "torch_matmul", "tile_m": 128, "tile_n": 128}
MATRIX_BYTES = 1024 * 512 * 2


def moved(written: object, workload: Workload) -> tuple[int, int]:
    """Bytes that the one kernel of a request reads and writes."""
    (kernel,) = plan(parse_request(written, "test"), A100, workload).graph.kernels
    work = kernel_work(kernel)
    return work.read_bytes, work.write_bytes


def test_a_product_reads_its_operands_once_a_tile_of_the_other_side() -> None:
    """Two rows and two columns of 128 × 128 tiles: A and B twice, C once."""
    a_bytes = b_bytes = 256 * 64 * 2
    assert (2 * a_bytes + 2 * b_bytes, 256 * 256 * 2) == moved(TILES, GemmWorkload(m=256, n=256, k=64))


def test_a_split_product_writes_its_parts_in_fp32_and_reads_them_again() -> None:
    """Each of 4 parts reads a quarter of A and of B, twice; their sums are 4 matrices of 4-byte numbers."""
    choices = TILES | {"split_k": 4}
    product, reduce = plan(parse_request(choices, "test"), A100, GemmWorkload(m=256, n=256, k=4096)).graph.kernels
    operands, parts = 2 * (256 * 4096 + 4096 * 256) * 2, 4 * 256 * 256 * 4
    done, summed = kernel_work(product), kernel_work(reduce)
    assert (operands, parts) == (done.read_bytes, done.write_bytes)
    assert (parts, 256 * 256 * 2) == (summed.read_bytes, summed.write_bytes)
    assert (2 * 256 * 256 * 4096, 0) == (done.flops, summed.flops)


def test_a_cluster_asks_l2_once_for_the_operand_it_shares() -> None:
    """256 × 256 in 128 × 128 tiles: each column of tiles reads its half of B once for both of its rows."""
    a_bytes = b_bytes = 256 * 64 * 2
    product = GemmWorkload(m=256, n=256, k=64)
    assert (2 * a_bytes + b_bytes, 256 * 256 * 2) == moved(TILES | {"cluster": 2}, product)


def test_ragged_tiles_move_what_lies_inside_the_matrices() -> None:
    """200 × 72 by 72 × 136, three times: still two tiles a side, and no byte of padding."""
    a_bytes, b_bytes, c_bytes = 200 * 72 * 2, 72 * 136 * 2, 200 * 136 * 2
    assert (3 * 2 * (a_bytes + b_bytes), 3 * c_bytes) == moved(TILES, GemmWorkload(batch=3, m=200, n=136, k=72))


def test_a_product_of_fp32_moves_twice_the_bytes() -> None:
    """The same tiles, four bytes a number."""
    half, full = (moved(TILES, GemmWorkload(m=512, n=256, k=128, dtype=dtype)) for dtype in ("fp16", "fp32"))
    assert (2 * half[0], 2 * half[1]) == full


@pytest.mark.parametrize(("cols", "reads"), [(512, 1), (1024, 1), (1025, 3), (4096, 3)])
def test_short_rows_of_a_softmax_are_read_once_and_long_ones_three_times(cols: int, reads: int) -> None:
    """Up to 1,024 columns a row stays in registers; above it passes for maximum, sum and result."""
    row_bytes = 2 * 1000 * cols
    assert (reads * row_bytes, row_bytes) == moved("torch_softmax", RowsWorkload(rows=1000, cols=cols))


@pytest.mark.parametrize("name", ["torch_elementwise", "torch_strided_copy", "torch_transpose_copy"])
def test_a_pass_reads_and_writes_every_number_once(name: str) -> None:
    """Whatever the order."""
    assert (MATRIX_BYTES, MATRIX_BYTES) == moved(name, RowsWorkload(rows=1024, cols=512))


def test_every_cta_group_of_a_broadcast_add_reads_the_row_again() -> None:
    """Groups of 8 rows: 128 times the row of 512 numbers, beside the matrix."""
    request = {"name": "torch_broadcast_add", "group_rows": 8}
    assert (MATRIX_BYTES + 128 * 512 * 2, MATRIX_BYTES) == moved(request, RowsWorkload(rows=1024, cols=512))


@pytest.mark.parametrize(("loads", "stores"), [(1, 0), (1, 1), (2, 1), (5, 1), (0, 1)])
def test_a_stream_moves_whole_tiles_of_8_bytes_a_thread(loads: int, stores: int) -> None:
    """216 resident CTAs of 1,024 threads; 2 · 216 · 1,024 elements are two tiles each, and no byte is added."""
    elements = 2 * 216 * 1024
    asked = StreamWorkload(elements=elements, loads=loads, stores=stores)
    assert (8 * loads * elements, 8 * stores * elements) == moved("stream", asked)


def test_a_stream_is_rounded_up_to_as_many_tiles_in_every_cta() -> None:
    """100,001 elements are 1,042 tiles of 96; three CTAs an SM take four each, so 261 CTAs have 1,044 tiles."""
    asked = StreamWorkload(elements=100_001, loads=1, stores=0, threads_per_cta=96, ctas_per_sm=3)
    assert (261 * 4 * 96 * 8, 0) == moved("stream", asked)


def test_a_short_stream_has_fewer_ctas() -> None:
    """3,000 elements fill three CTAs of 1,024 threads and no more."""
    (kernel,) = plan(
        parse_request("stream", "test"), A100, StreamWorkload(elements=3000, loads=1, stores=1)
    ).graph.kernels
    assert (3, 3 * 1024 * 8) == (kernel.ctas, kernel_work(kernel).read_bytes)


@pytest.mark.parametrize("footprint_bytes", [128, 200 * 128, 1 << 30])
def test_a_hop_of_a_chase_asks_for_one_line(footprint_bytes: int) -> None:
    """500 hops are 64,000 bytes, however often the set is walked."""
    assert (500 * 128, 0) == moved("pointer_chase", ChaseWorkload(footprint_bytes=footprint_bytes, hops=500))


@pytest.mark.parametrize(("lines", "touched", "weight"), [(64, 64, 1), (100, 100, 1), (800, 100, 8), (850, 100, 8)])
def test_lines_of_a_large_set_stand_for_others(lines: int, touched: int, weight: int) -> None:
    """100 hops touch at most 100 lines; of 800 each stands for eight, and 850 are rounded to that."""
    workload = ChaseWorkload(footprint_bytes=lines * 128, hops=100)
    (kernel,) = plan(parse_request("pointer_chase", "test"), A100, workload).graph.kernels
    assert (touched, weight, "random") == (kernel.loaded()[0].rows, kernel.line_weight, kernel.access)


def test_every_cta_reads_its_part_every_round() -> None:
    """108 CTAs on six parts: 18 share one of 391 lines, three times."""
    asked = CacheReadWorkload(footprint_bytes=300_000, part_bytes=50_000, rounds=3, ctas_per_sm=1)
    assert (3 * 18 * 6 * 391 * 128, 0) == moved("cache_read", asked)


@pytest.mark.parametrize(("parts", "sharers", "ctas"), [(108, 1, 108), (60, 1, 108), (50, 2, 108), (10, 10, 100)])
def test_parts_are_cut_so_that_ctas_have_work(parts: int, sharers: int, ctas: int) -> None:
    """At 60 parts two CTAs cannot share each: there are 108 parts, and the set stays as large."""
    asked = CacheReadWorkload(footprint_bytes=parts * 54_000, part_bytes=54_000, rounds=1, ctas_per_sm=1)
    (kernel,) = plan(parse_request("cache_read", "test"), A100, asked).graph.kernels
    (shared,) = kernel.loaded()
    assert (ctas, ctas // sharers) == (kernel.ctas, shared.heads)
    assert 0 <= shared.size_bytes - parts * 54_000 < 128 * shared.heads
