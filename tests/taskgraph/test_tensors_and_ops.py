"""Sizes of tensors, tiles and buffers, and the work of an operation, by hand."""

import pytest

from gpusim.dtypes import DType
from gpusim.taskgraph import (
    Add,
    Buffer,
    Copy,
    Exponential,
    Fill,
    KeepAboveDiagonal,
    Load,
    LogSumExp,
    MatMul,
    Normalise,
    OnlineSoftmax,
    Op,
    Rescale,
    Role,
    RowReduce,
    RowSoftmax,
    Scale,
    Space,
    Store,
    SubtractRows,
    Tensor,
    Where,
)
from gpusim.taskgraph.ops import reads, work, writes

RAGGED = Tensor("R", 2, 10, 7, DType.FP16, Role.INPUT, 4, 3)


def buffer(name: str, rows: int, cols: int) -> Buffer:
    """A buffer of 4-byte numbers."""
    return Buffer(name, rows, cols, 4, Space.REGISTERS)


S, OUT, Q, K = buffer("S", 4, 8), buffer("O", 4, 6), buffer("Q", 4, 5), buffer("K", 8, 5)
M, L, ALPHA = buffer("m", 4, 1), buffer("l", 4, 1), buffer("alpha", 4, 1)


def test_a_tensor_is_all_its_matrices() -> None:
    """2 matrices of 10 × 7 numbers of 2 bytes."""
    assert 280 == RAGGED.size_bytes


def test_a_mask_takes_one_byte_a_number() -> None:
    """2 matrices of 10 × 7 ones and zeros, whatever format they are computed in."""
    for dtype in DType:
        assert 140 == Tensor("mask", 2, 10, 7, dtype, Role.INPUT, 4, 3, is_mask=True).size_bytes


def test_the_last_tile_of_each_axis_is_ragged() -> None:
    """10 rows in tiles of 4, 7 columns in tiles of 3."""
    assert (3, 3) == (RAGGED.row_tiles, RAGGED.col_tiles)
    assert (4, 4, 2) == RAGGED.tile().row_extents()
    assert (3, 3, 1) == RAGGED.tile().col_extents()


def test_a_block_of_tiles_is_ragged_as_a_whole() -> None:
    """Blocks of two tiles down: 8 rows, then the 2 that are left."""
    block = RAGGED.tile(row="m", row_tiles=2, col_tiles=3)
    assert (8, 9) == (block.rows, block.cols)
    assert (8, 2) == block.row_extents()
    assert (7,) == block.col_extents()


def test_a_buffer_counts_its_stages_or_the_rows_it_really_holds() -> None:
    """4 × 8 numbers of 2 bytes, three stages; with 1 resident row a quarter of it; with none nothing."""
    assert 192 == Buffer("b", 4, 8, 2, Space.SMEM, stages=3).size_bytes
    assert 48 == Buffer("b", 4, 8, 2, Space.SMEM, stages=3, resident_rows=1).size_bytes
    assert 0 == Buffer("b", 4, 8, 2, Space.SMEM, resident_rows=0).size_bytes


@pytest.mark.parametrize(
    ("op", "flops", "exps", "fp32_ops"),
    [
        (MatMul(Q, K, S, transpose_b=True), 2 * 4 * 5 * 8, 0, 0),
        (MatMul(S, buffer("V", 8, 6), OUT, accumulate=True), 2 * 4 * 8 * 6, 0, 0),
        (OnlineSoftmax(S, M, L, ALPHA), 0, 32 + 4, 3.5 * 32),
        (RowSoftmax(S), 0, 32, 3.5 * 32),
        (Rescale(OUT, ALPHA), 0, 0, 24),
        (Normalise(OUT, L), 0, 0, 24),
        (Scale(Q, 2.0), 0, 0, 20),
        (Copy(Q, buffer("T", 5, 4), transpose=True), 0, 0, 20),
        (Add(Q, buffer("R", 4, 5)), 0, 0, 20),
        (KeepAboveDiagonal(buffer("R", 4, 3), RAGGED.tile()), 0, 0, 12),
        (Where(Q, buffer("R", 4, 5), 0.0), 0, 0, 20),
        (RowReduce(Q, M, "max"), 0, 0, 20),
        (RowReduce(Q, L, "sum"), 0, 0, 20),
        (SubtractRows(Q, M), 0, 0, 20),
        (Exponential(Q), 0, 20, 20),
        (LogSumExp(M, L, buffer("lse", 4, 1)), 0, 0, 4),
        (Load(RAGGED.tile(), buffer("R", 4, 3)), 0, 0, 0),
        (Store(buffer("R", 4, 3), RAGGED.tile()), 0, 0, 0),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, int | float) else "",
)
def test_work_of_an_operation(op: Op, flops: int, exps: int, fp32_ops: float) -> None:
    """Two FLOPs a multiply-add, an exponential a score (and a row's factor), 3.5 FP32 instructions a score.

    e^x is 2^x of a multiple of x: an instruction beside the exponential.
    """
    done = work(op)
    assert (flops, exps, fp32_ops) == (done.flops, done.exps, done.fp32_ops)


@pytest.mark.parametrize(
    ("op", "read", "written"),
    [
        (MatMul(Q, K, S, transpose_b=True), (Q, K), (S,)),
        (MatMul(S, K, OUT, accumulate=True), (S, K, OUT), (OUT,)),
        (OnlineSoftmax(S, M, L, ALPHA), (S, M, L), (S, M, L, ALPHA)),
        (Rescale(OUT, ALPHA), (OUT, ALPHA), (OUT,)),
        (Fill(OUT, 0.0), (), (OUT,)),
        (Normalise(OUT, L), (OUT, L), (OUT,)),
        (Add(OUT, S), (OUT, S), (OUT,)),
        (KeepAboveDiagonal(S, RAGGED.tile()), (S,), (S,)),
        (Where(S, OUT, 0.0), (S, OUT), (S,)),
        (RowReduce(S, M, "max"), (S,), (M,)),
        (SubtractRows(S, M), (S, M), (S,)),
        (Exponential(S), (S,), (S,)),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, tuple) else "",
)
def test_what_an_operation_reads_and_writes(op: Op, read: tuple[Buffer, ...], written: tuple[Buffer, ...]) -> None:
    """The dependencies of every schedule follow from these."""
    assert (read, written) == (reads(op), writes(op))
