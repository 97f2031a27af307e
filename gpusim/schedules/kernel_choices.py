"""What the schedules of single kernels leave open; `choices.py` has what those of attention do."""

from typing import Literal

from pydantic import BaseModel

from gpusim.strict_yaml import STRICT, PositiveWhole


class GemmChoices(BaseModel):
    """Choices of a tiled matrix product.

    `tile_m` × `tile_n` is an output tile, whose main loop advances by `tile_k` of the inner dimension with `stages`
    buffers of each operand. `ctas_per_sm` pins the residency of a library's kernel. A warp, or a warpgroup of wgmma,
    computes 64 rows and `warp_cols` columns of the tile. `split_k` CTAs share the inner dimension of a tile; a second
    kernel adds their sums. A cluster of `cluster` CTAs down the grid reads its tile of B once and multicasts it. CTAs
    start in bands of `band` tiles across, as in CUTLASS' threadblock swizzle; None is row after row.
    """

    model_config = STRICT

    tile_m: PositiveWhole
    tile_n: PositiveWhole
    tile_k: PositiveWhole
    warps: PositiveWhole = 8
    stages: PositiveWhole = 2
    ctas_per_sm: PositiveWhole | None = None
    warp_cols: PositiveWhole = 64
    split_k: Literal[1, 2, 4, 8] = 1
    cluster: Literal[1, 2] = 1
    band: PositiveWhole | None = None


class RowSoftmaxChoices(BaseModel):
    """Choices of a row softmax.

    A CTA takes `cta_rows` at once, and an SM holds `ctas_per_sm` of them; `grain` CTAs stand behind one of the graph.
    `row_reads` says how often a row is read: once, or for its maximum, its sum and its result.
    """

    model_config = STRICT

    cta_rows: PositiveWhole
    ctas_per_sm: PositiveWhole
    grain: PositiveWhole = 1
    row_reads: Literal[1, 3] = 1


Pattern = Literal["contiguous", "broadcast", "strided", "transposed"]


class ElementwiseChoices(BaseModel):
    """Choices of a pass over a matrix: how it addresses memory, and rows in a CTA group.

    "contiguous" halves every number, "broadcast" adds one row to all, "strided" copies, "transposed" copies Xᵀ.
    """

    model_config = STRICT

    pattern: Pattern
    group_rows: PositiveWhole


class StreamChoices(BaseModel):
    """A stream leaves nothing open; `num_sms` is the machine's."""

    model_config = STRICT

    num_sms: PositiveWhole


class ChaseChoices(BaseModel):
    """A pointer chase leaves nothing open."""

    model_config = STRICT


class CacheReadChoices(BaseModel):
    """Choices of reads over and over: bytes and buffers of a tile in flight; `num_sms` is the machine's."""

    model_config = STRICT

    num_sms: PositiveWhole
    tile_bytes: PositiveWhole = 16384
    stages: PositiveWhole = 2
