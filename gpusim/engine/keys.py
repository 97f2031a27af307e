"""Cache keys of a graph's tiles, and how many tiles L2 can ever hold at once."""

import itertools
from collections import Counter

from gpusim.taskgraph import TaskGraph


def first_keys(graph: TaskGraph) -> dict[str, int]:
    """The first of each tensor's keys: one key a tile, tensor after tensor."""
    bases, following = {}, 0
    for tensor in graph.tensors():
        bases[tensor.name] = following
        following += tensor.num_tiles
    return bases


def num_keys(graph: TaskGraph) -> int:
    """Tiles of all tensors together."""
    return sum(tensor.num_tiles for tensor in graph.tensors())


def most_resident_tiles(graph: TaskGraph, capacity_bytes: int) -> int:
    """Most tiles in a cache of this size, one that is about to leave included: the smallest fill it first."""
    room, tiles = capacity_bytes, 0
    for size_bytes, count in sorted(_tile_sizes(graph).items()):
        held = min(count, room // size_bytes + 1)
        tiles += held
        room -= held * size_bytes
        if room < 0:
            break
    return tiles


def _tile_sizes(graph: TaskGraph) -> Counter[int]:
    """Bytes of a tile → how many tiles have them, whole and ragged ones."""
    sizes: Counter[int] = Counter()
    for tensor in graph.tensors():
        tile = tensor.tile()
        rows, cols = Counter(tile.row_extents()), Counter(tile.col_extents())
        for (height, down), (width, across) in itertools.product(rows.items(), cols.items()):
            sizes[height * width * tensor.dtype.size_bytes] += tensor.heads * down * across
    return sizes
