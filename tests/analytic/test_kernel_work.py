"""Bytes and operations of tiny kernels, counted by hand."""

import pytest

from gpusim.analytic import graph_operand_bytes, kernel_work, smem_read_bytes, smem_write_bytes
from gpusim.dtypes import DType
from gpusim.taskgraph import (
    Buffer,
    Guard,
    Kernel,
    KernelBuilder,
    MatMul,
    OnlineSoftmax,
    Role,
    Scale,
    Space,
    TaskGraph,
    Tensor,
)

# 3 heads of 10 × 6 numbers of 2 bytes, cut into tiles of 4 × 6: 48, 48 and 24 bytes.
X = Tensor("X", 3, 10, 6, DType.FP16, Role.INPUT, 4, 6)
Y = Tensor("Y", 3, 10, 6, DType.FP16, Role.OUTPUT, 4, 6)
HEAD_BYTES = 10 * 6 * 2


def builder(grid: list[tuple[str, int]], warps: int = 1) -> KernelBuilder:
    """An empty fp16 kernel."""
    return KernelBuilder("tiny", grid=grid, warps=warps, compute_dtype=DType.FP16)


def loop_kernel(guard: Guard | None, *, trips: int = 4) -> Kernel:
    """for j: for i: load X[i]; double it under the guard; store Y[i] under the guard."""
    cta = builder([("head", 3)])
    tile = cta.buffer("tile", 4, 6)
    with cta.loop("j", trips), cta.loop("i", 3):
        cta.load(X.tile(row="i"), tile)
        cta.do("double", Scale(tile, 2.0), guard)
        cta.store(tile, Y.tile(row="i"), guard)
    return cta.build()


def test_a_grid_over_tiles_moves_the_tensor_once() -> None:
    """Ragged tiles move their true bytes: 120 a head."""
    cta = builder([("m", 3), ("head", 3)])
    tile = cta.buffer("tile", 4, 6)
    cta.load(X.tile(row="m"), tile)
    cta.store(tile, Y.tile(row="m"))
    work = kernel_work(cta.build())
    assert (3 * HEAD_BYTES, 3 * HEAD_BYTES) == (work.read_bytes, work.write_bytes)


@pytest.mark.parametrize(("when", "runs"), [(None, 4), ("first", 1), ("not_first", 3), ("last", 1), ("not_last", 3)])
def test_a_guard_on_the_outer_loop_counts_its_iterations(when: str | None, runs: int) -> None:
    """Loads run in all 4 outer iterations, stores and arithmetic (on whole tiles: 3 × 24 numbers) in `runs` of them."""
    work = kernel_work(loop_kernel(None if when is None else Guard("j", when)))
    assert 4 * 3 * HEAD_BYTES == work.read_bytes
    assert runs * 3 * HEAD_BYTES == work.write_bytes
    assert runs * 3 * 3 * 24 == work.fp32_ops


@pytest.mark.parametrize(
    ("when", "head_bytes", "tiles"), [("first", 48, 1), ("not_first", 72, 2), ("last", 24, 1), ("not_last", 96, 2)]
)
def test_a_guard_on_the_tile_index_chooses_tiles(when: str, head_bytes: int, tiles: int) -> None:
    """The last tile holds 2 of 4 rows, so which iterations run decides which bytes move."""
    work = kernel_work(loop_kernel(Guard("i", when)))
    assert 3 * 4 * head_bytes == work.write_bytes
    assert 3 * 4 * tiles * 24 == work.fp32_ops


def test_a_tile_that_ignores_an_index_is_loaded_again_for_each_value() -> None:
    """Each of 5 CTAs of a head loads the first tile: 5 · 48 bytes."""
    cta = builder([("m", 5), ("head", 3)])
    cta.load(X.tile(row=0), cta.buffer("tile", 4, 6))
    assert 3 * 5 * 48 == kernel_work(cta.build()).read_bytes


def test_columns_and_rows_multiply() -> None:
    """Z, 5 × 7 in tiles of 2 × 3, walked by rows and columns moves 5·7 numbers, though its corner tile is 1 × 1."""
    z = Tensor("Z", 1, 5, 7, DType.FP32, Role.INPUT, 2, 3)
    cta = builder([("m", 3), ("n", 3), ("head", 1)])
    cta.load(z.tile(row="m", col="n"), cta.accumulator("tile", 2, 3))
    assert 5 * 7 * 4 == kernel_work(cta.build()).read_bytes


def test_operands_count_each_tensor_once_however_often_it_moves() -> None:
    """X is read 4 times and Y written 4 times; as operands each counts once."""
    kernel = loop_kernel(None)
    assert 2 * 3 * HEAD_BYTES == kernel_work(kernel).operand_bytes
    assert 4 * 3 * HEAD_BYTES == graph_operand_bytes(TaskGraph((kernel, kernel)))


def test_a_load_writes_shared_memory_and_a_store_reads_it() -> None:
    """The bytes inside the tensor, once each; scaling reads and writes the whole tile of 48 bytes."""
    work = kernel_work(loop_kernel(None, trips=1))
    assert 3 * (HEAD_BYTES + 3 * 48) == work.smem_write_bytes
    assert 3 * (HEAD_BYTES + 3 * 48) == work.smem_read_bytes


def smem(name: str, rows: int, cols: int) -> Buffer:
    """A buffer of 2-byte numbers in shared memory."""
    return Buffer(name, rows, cols, 2, Space.SMEM)


@pytest.mark.parametrize(("warps", "owners"), [(1, 1), (2, 2), (4, 4), (8, 4)])
def test_each_warp_reads_all_of_the_right_operand(warps: int, owners: int) -> None:
    """64 rows are four bands of 16: up to four warps read all 32 × 16 numbers of K; the left operand is read once."""
    op = MatMul(smem("Q", 64, 16), smem("K", 32, 16), Buffer("S", 64, 32, 4, Space.REGISTERS), transpose_b=True)
    assert 2 * 64 * 16 + owners * 2 * 32 * 16 == smem_read_bytes(op, warps)
    assert 0 == smem_write_bytes(op)


@pytest.mark.parametrize(
    ("warp_tile", "a_reads", "b_reads"),
    [((64, 64), 4, 2), ((64, 256), 1, 2), ((128, 256), 1, 1), ((128, 48), 6, 1)],
)
def test_warps_side_by_side_read_their_rows_and_columns(warp_tile: tuple[int, int], a_reads: int, b_reads: int) -> None:
    """128 × 256 sums in warp tiles of 64 × 64 are 2 × 4: four of them read the same rows of A, two the same columns of
    B. A warpgroup that takes all columns reads its rows of A alone; 256 columns in parts of 48 are six."""
    a, b, sums = smem("A", 128, 32), smem("B", 32, 256), Buffer("C", 128, 256, 4, Space.REGISTERS)
    op = MatMul(a, b, sums, accumulate=True, warp_tile=warp_tile)
    assert a_reads * 2 * 128 * 32 + b_reads * 2 * 32 * 256 == smem_read_bytes(op, 8)


def test_sums_in_shared_memory_are_read_and_written() -> None:
    """An accumulating product with its sum in shared memory: 4 × 4 numbers three times read, once written."""
    op = MatMul(smem("P", 4, 4), smem("V", 4, 4), smem("O", 4, 4), accumulate=True)
    assert 3 * 32 == smem_read_bytes(op, 1)
    assert 32 == smem_write_bytes(op)


def test_rows_that_stream_through_registers_cost_no_shared_memory() -> None:
    """The softmax kernel of eager attention holds its row in registers: `resident_rows` is 0."""
    rows = Buffer("rows", 4, 64, 2, Space.SMEM, resident_rows=0)
    assert 0 == smem_read_bytes(Scale(rows, 2.0), 4)


def test_flops_and_exponentials_of_a_flash_step() -> None:
    """Two products of 2·4·4·4 FLOPs a step and 16 + 4 exponentials, over 3 iterations, 2 CTAs and 3 heads."""
    cta = builder([("m", 2), ("head", 3)])
    q, s = cta.buffer("q", 4, 4), cta.accumulator("s", 4, 4)
    m, total, alpha = (cta.register(name, 4) for name in ("m", "l", "alpha"))
    with cta.loop("j", 3):
        cta.do("scores", MatMul(q, q, s, transpose_b=True))
        cta.do("softmax", OnlineSoftmax(s, m, total, alpha))
        cta.do("sums", MatMul(s, q, s))
    work = kernel_work(cta.build())
    assert 3 * 6 * 2 * 128 == work.flops
    assert 3 * 6 * 20 == work.exps
