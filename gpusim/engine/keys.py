"""Cache keys of a graph's tiles, and how many entries L2 can ever have at once."""

import itertools
from collections import Counter

from gpusim.hardware import zone_limits
from gpusim.specs import L2Spec
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


def most_l2_nodes(graph: TaskGraph, l2: L2Spec | None) -> int:
    """Most entries that the lists of all L2 partitions can have, one that is about to leave each included.

    The smallest fill a list first: the half of a tile that lives there, or a tile of at most one line.
    """
    if l2 is None:
        return 0
    room, nodes = sum(zone_limits(l2.size_bytes // l2.partitions, l2.knee or 0.0)), 0
    for size_bytes, count in sorted(_entry_sizes(graph, l2).items()):
        held = min(count, room // size_bytes + 1)
        nodes += held
        room -= held * size_bytes
        if room < 0:
            break
    return l2.partitions * nodes


def _entry_sizes(graph: TaskGraph, l2: L2Spec) -> Counter[int]:
    """Least bytes that a tile takes of a partition that holds it → how many tiles take them."""
    sizes: Counter[int] = Counter()
    for size_bytes, count in _tile_sizes(graph).items():
        is_halved = l2.partitions > 1 and size_bytes > l2.line_bytes
        sizes[size_bytes // 2 if is_halved else size_bytes] += count
    return sizes


def _tile_sizes(graph: TaskGraph) -> Counter[int]:
    """Bytes of a tile → how many tiles have them, whole and ragged ones."""
    sizes: Counter[int] = Counter()
    for tensor in graph.tensors():
        tile = tensor.tile()
        rows, cols = Counter(tile.row_extents()), Counter(tile.col_extents())
        for (height, down), (width, across) in itertools.product(rows.items(), cols.items()):
            sizes[height * width * tensor.element_bytes] += tensor.heads * down * across
    return sizes
