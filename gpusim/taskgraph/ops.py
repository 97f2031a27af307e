"""The closed set of operations. Each says which buffers it reads and writes, and how much work it is.

Work is counted as tensor FLOPs (2 a multiply-add), exponentials, and FP32 instructions an element; the counts
of the softmax are those of the FlashAttention forward inner loop: a maximum, a fused scale-subtract, an add and half
a conversion a score. Time is not here.
"""

from dataclasses import dataclass
from typing import Literal

from gpusim.taskgraph.tensors import Buffer, Tile

FP32_OPS_PER_SCORE = 3.5
FP32_OPS_PER_MASKED_SCORE = 2  # a compare and a select


@dataclass(frozen=True, slots=True)
class Load:
    """Asynchronous copy of a tile from device memory into a buffer.

    The `shared_by` CTAs of a thread-block cluster that read the same tile each ask for their part of it and multicast
    it to the others (TMA): L2 gives the tile once.
    """

    tile: Tile
    into: Buffer
    shared_by: int = 1


@dataclass(frozen=True, slots=True)
class Store:
    """Posted copy of a buffer to a tile in device memory."""

    buffer: Buffer
    tile: Tile


@dataclass(frozen=True, slots=True)
class MatMul:
    """out (+)= scale · a · b, or a · bᵀ. Operands are rounded to the workload's format, sums stay wide.

    `warp_tile` is the rows × columns of `out` that one warp or warpgroup computes, from its rows of `a` and its columns
    of `b`; None where each warp owns bands of 16 rows, as attention needs it.
    """

    a: Buffer
    b: Buffer
    out: Buffer
    transpose_b: bool = False
    accumulate: bool = False
    scale: float = 1.0
    warp_tile: tuple[int, int] | None = None

    @property
    def flops(self) -> int:
        """FLOPs of whole tiles: padding is computed and paid for."""
        return 2 * self.a.rows * self.a.cols * self.out.cols


@dataclass(frozen=True, slots=True)
class Scale:
    """buffer *= factor."""

    buffer: Buffer
    factor: float


@dataclass(frozen=True, slots=True)
class Fill:
    """buffer = value everywhere."""

    buffer: Buffer
    value: float


@dataclass(frozen=True, slots=True)
class Copy:
    """dst = src, or its transpose; the elementwise pass of the copy kernels."""

    src: Buffer
    dst: Buffer
    transpose: bool = False
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Add:
    """buffer += other, element by element."""

    buffer: Buffer
    other: Buffer


@dataclass(frozen=True, slots=True)
class KeepAboveDiagonal:
    """Zeroes what lies on or below the diagonal of the matrix that `tile` is cut from; `buffer` holds that tile."""

    buffer: Buffer
    tile: Tile


@dataclass(frozen=True, slots=True)
class Where:
    """buffer = otherwise wherever `mask`, a matrix of zeros and ones, is zero."""

    buffer: Buffer
    mask: Buffer
    otherwise: float


@dataclass(frozen=True, slots=True)
class MaskCausal:
    """scores = −∞ where the key comes after the query: key > query + `shift`.

    `scores` is block (indices[row], indices[col]) of the score matrix, which has `packed` rows a query.
    """

    scores: Buffer
    row: str
    col: str
    shift: int
    packed: int = 1


@dataclass(frozen=True, slots=True)
class MaskKeys:
    """scores = −∞ where the key, of block indices[col], lies behind the sequence.

    That has so many keys as `length` says: all sequences the same number, or each what its row of a buffer holds.
    """

    scores: Buffer
    length: Buffer | int
    col: str


@dataclass(frozen=True, slots=True)
class RowReduce:
    """out = the maximum or the sum of each row."""

    src: Buffer
    out: Buffer
    kind: Literal["max", "sum"]


@dataclass(frozen=True, slots=True)
class SubtractRows:
    """buffer -= m, row by row."""

    buffer: Buffer
    m: Buffer


@dataclass(frozen=True, slots=True)
class Exponential:
    """buffer = e^buffer, element by element."""

    buffer: Buffer


@dataclass(frozen=True, slots=True)
class OnlineSoftmax:
    """One tile of the running softmax, in place: m' = max(m, rowmax S); S ← e^(S − m'); ℓ ← ℓ·e^(m − m') + rowsum S.

    `alpha` receives e^(m − m'), the factor that the running output still has to be multiplied with.
    """

    scores: Buffer
    m: Buffer
    l: Buffer  # noqa: E741 - ℓ is the paper's name
    alpha: Buffer


@dataclass(frozen=True, slots=True)
class Rescale:
    """out *= alpha, row by row."""

    out: Buffer
    alpha: Buffer


@dataclass(frozen=True, slots=True)
class Normalise:
    """out /= l, row by row."""

    out: Buffer
    l: Buffer  # noqa: E741


@dataclass(frozen=True, slots=True)
class LogSumExp:
    """lse = m + log l, row by row."""

    m: Buffer
    l: Buffer  # noqa: E741
    lse: Buffer


@dataclass(frozen=True, slots=True)
class RowSoftmax:
    """Softmax of whole rows, in place."""

    scores: Buffer


Op = (
    Load
    | Store
    | MatMul
    | Scale
    | Fill
    | Copy
    | Add
    | KeepAboveDiagonal
    | Where
    | MaskCausal
    | MaskKeys
    | RowReduce
    | SubtractRows
    | Exponential
    | OnlineSoftmax
    | Rescale
    | Normalise
    | LogSumExp
    | RowSoftmax
)


@dataclass(frozen=True, slots=True)
class Work:
    """Work of one op on whole tiles: FLOPs, exponentials, FP32 instructions."""

    flops: int = 0
    exps: int = 0
    fp32_ops: float = 0.0


def reads(op: Op) -> tuple[Buffer, ...]:
    """Buffers whose content the op needs."""
    match op:
        case Load() | Fill():
            return ()
        case Store(buffer=buffer) | Scale(buffer=buffer) | KeepAboveDiagonal(buffer=buffer):
            return (buffer,)
        case Exponential(buffer=buffer):
            return (buffer,)
        case Where(buffer=buffer, mask=mask):
            return (buffer, mask)
        case MaskCausal(scores=scores):
            return (scores,)
        case MaskKeys(scores=scores, length=length):
            return (scores,) if isinstance(length, int) else (scores, length)
        case RowReduce(src=src):
            return (src,)
        case SubtractRows(buffer=buffer, m=m):
            return (buffer, m)
        case Add(buffer=buffer, other=other):
            return (buffer, other)
        case MatMul(a=a, b=b, out=out, accumulate=accumulate):
            return (a, b, out) if accumulate else (a, b)
        case Copy(src=src):
            return (src,)
        case OnlineSoftmax(scores=scores, m=m, l=l_):
            return (scores, m, l_)
        case Rescale(out=out, alpha=alpha):
            return (out, alpha)
        case Normalise(out=out, l=l_):
            return (out, l_)
        case LogSumExp(m=m, l=l_):
            return (m, l_)
        case RowSoftmax(scores=scores):
            return (scores,)


def writes(op: Op) -> tuple[Buffer, ...]:
    """Buffers whose content the op changes."""
    match op:
        case Load(into=into):
            return (into,)
        case Store():
            return ()
        case MatMul(out=out) | Rescale(out=out) | Normalise(out=out):
            return (out,)
        case Scale(buffer=buffer) | Fill(buffer=buffer) | Add(buffer=buffer) | KeepAboveDiagonal(buffer=buffer):
            return (buffer,)
        case Where(buffer=buffer) | SubtractRows(buffer=buffer) | Exponential(buffer=buffer):
            return (buffer,)
        case MaskCausal(scores=scores) | MaskKeys(scores=scores):
            return (scores,)
        case RowReduce(out=out):
            return (out,)
        case Copy(dst=dst):
            return (dst,)
        case OnlineSoftmax(scores=scores, m=m, l=l_, alpha=alpha):
            return (scores, m, l_, alpha)
        case LogSumExp(lse=lse):
            return (lse,)
        case RowSoftmax(scores=scores):
            return (scores,)


def work(op: Op) -> Work:
    """FLOPs, exponentials and FP32 instructions of one op on whole tiles."""
    match op:
        case MatMul():
            return Work(flops=op.flops)
        case Scale(buffer=buffer) | Fill(buffer=buffer) | Add(buffer=buffer) | KeepAboveDiagonal(buffer=buffer):
            return Work(fp32_ops=buffer.rows * buffer.cols)
        case Where(buffer=buffer) | SubtractRows(buffer=buffer):
            return Work(fp32_ops=buffer.rows * buffer.cols)
        case MaskCausal(scores=scores) | MaskKeys(scores=scores):
            return Work(fp32_ops=FP32_OPS_PER_MASKED_SCORE * scores.rows * scores.cols)
        case Copy(src=src) | RowReduce(src=src):
            return Work(fp32_ops=src.rows * src.cols)
        case Exponential(buffer=buffer):
            count = buffer.rows * buffer.cols
            return Work(exps=count, fp32_ops=count)
        case OnlineSoftmax(scores=scores):
            count = scores.rows * scores.cols
            return Work(exps=count + scores.rows, fp32_ops=FP32_OPS_PER_SCORE * count)
        case RowSoftmax(scores=scores):
            count = scores.rows * scores.cols
            return Work(exps=count, fp32_ops=FP32_OPS_PER_SCORE * count)
        case Rescale(out=out) | Normalise(out=out):
            return Work(fp32_ops=out.rows * out.cols)
        case LogSumExp(lse=lse):
            return Work(fp32_ops=lse.rows)
        case Load() | Store():
            return Work()
