"""Where numbers live: tensors in device memory, the tiles they are cut into, and on-chip buffers.

A tensor is cut into a grid of tiles once, and every access covers whole tiles; the cache model keeps one entry a
tile. The last tile of a row or column may be ragged: its bytes are those inside the tensor.
"""

from dataclasses import dataclass
from enum import StrEnum

from gpusim.dtypes import DType

HEAD = "head"  # the grid index that selects the matrix of every tensor, unless an address names another


class Role(StrEnum):
    """What a tensor is to the caller of the graph."""

    INPUT = "input"
    OUTPUT = "output"
    SAVED = "saved"  # an output kept for the backward pass: counted as extra memory
    TEMPORARY = "temporary"  # lives from the first to the last kernel that names it


class Space(StrEnum):
    """On-chip memory a buffer occupies."""

    SMEM = "smem"
    REGISTERS = "registers"


def ceil_div(numerator: int, denominator: int) -> int:
    """Smallest integer not below numerator / denominator."""
    return -(-numerator // denominator)


@dataclass(frozen=True, slots=True)
class Tensor:
    """`heads` matrices of rows × cols numbers in device memory, cut into tiles of tile_rows × tile_cols.

    A kernel may read a tensor of fewer heads than its grid has: neighbouring heads share a matrix, as query heads share
    the K and V of their group, and all heads a tensor of one head. A mask of ones and zeros takes one byte a number in
    memory, whatever `dtype` it is computed in.
    """

    name: str
    heads: int
    rows: int
    cols: int
    dtype: DType
    role: Role
    tile_rows: int
    tile_cols: int
    is_mask: bool = False

    @property
    def element_bytes(self) -> int:
        """Bytes of one number in device memory."""
        return 1 if self.is_mask else self.dtype.size_bytes

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole tensor."""
        return self.heads * self.rows * self.cols * self.element_bytes

    @property
    def row_tiles(self) -> int:
        """Tiles down one matrix."""
        return ceil_div(self.rows, self.tile_rows)

    @property
    def col_tiles(self) -> int:
        """Tiles across one matrix."""
        return ceil_div(self.cols, self.tile_cols)

    @property
    def num_tiles(self) -> int:
        """Tiles of all matrices together."""
        return self.heads * self.row_tiles * self.col_tiles

    def heads_per_matrix(self, grid_heads: int) -> int:
        """How many neighbouring heads of a grid share one matrix of this tensor."""
        return grid_heads // self.heads

    def tile(
        self, row: str | int = 0, col: str | int = 0, row_tiles: int = 1, col_tiles: int = 1, head: str = HEAD
    ) -> "Tile":
        """The block of row_tiles × col_tiles tiles whose block coordinates are the indices `row` and `col`."""
        return Tile(self, row, col, row_tiles, col_tiles, head)


@dataclass(frozen=True, slots=True)
class Tile:
    """A block of whole tiles. `row` and `col` name a grid or loop index, or are a fixed block number.

    The index `head` selects the matrix.
    """

    tensor: Tensor
    row: str | int
    col: str | int
    row_tiles: int
    col_tiles: int
    head: str = HEAD

    @property
    def rows(self) -> int:
        """Rows of a whole block."""
        return self.row_tiles * self.tensor.tile_rows

    @property
    def cols(self) -> int:
        """Columns of a whole block."""
        return self.col_tiles * self.tensor.tile_cols

    def row_extents(self) -> tuple[int, ...]:
        """Rows inside the tensor of each block down a matrix; the last may be ragged."""
        return _extents(self.tensor.rows, self.rows)

    def col_extents(self) -> tuple[int, ...]:
        """Columns inside the tensor of each block across a matrix; the last may be ragged."""
        return _extents(self.tensor.cols, self.cols)


def _extents(total: int, block: int) -> tuple[int, ...]:
    return tuple(min(block, total - start) for start in range(0, total, block))


@dataclass(frozen=True, slots=True)
class Buffer:
    """rows × cols numbers on chip, `stages` times when loads run ahead of their readers.

    `resident_rows` is what a CTA really holds at once where one graph step stands for several smaller ones.
    """

    name: str
    rows: int
    cols: int
    element_bytes: int
    space: Space
    stages: int = 1
    resident_rows: int | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes a CTA holds for this buffer, all stages together."""
        rows = self.rows if self.resident_rows is None else self.resident_rows
        return rows * self.cols * self.element_bytes * self.stages
