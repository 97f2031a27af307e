"""L2: finite capacity, least recently used tile out first, write-back at eviction.

One node a resident tile, charged at its bytes, in a list from the oldest to the newest. Partitions, sets and sectors
are not modelled.
"""

from gpusim.hardware.state import (
    FREE_NODE,
    L2_CAPACITY_BYTES,
    L2_USED_BYTES,
    NEWEST,
    NONE,
    OLDEST,
    MemoryState,
)


def append_newest(state: MemoryState, node: int) -> None:
    """Makes a node that is in no list the most recently used."""
    counts = state.counts
    newest = counts[NEWEST]
    state.older[node] = newest
    state.newer[node] = NONE
    if newest == NONE:
        counts[OLDEST] = node
    else:
        state.newer[newest] = node
    counts[NEWEST] = node


def unlink(state: MemoryState, node: int) -> None:
    """Takes a node out of the list."""
    counts = state.counts
    older, newer = state.older[node], state.newer[node]
    if older == NONE:
        counts[OLDEST] = newer
    else:
        state.newer[older] = newer
    if newer == NONE:
        counts[NEWEST] = older
    else:
        state.older[newer] = older


def touch(state: MemoryState, key: int) -> int:
    """Node of a resident tile, made the most recently used; NONE on a miss."""
    node: int = state.node_of_key[key]
    if node != NONE and node != state.counts[NEWEST]:
        unlink(state, node)
        append_newest(state, node)
    return node


def insert(state: MemoryState, key: int, size_bytes: int, arrival_ps: int, is_dirty: int) -> int:
    """Puts a tile in as the most recently used; returns the dirty bytes that had to leave."""
    counts = state.counts
    node: int = touch(state, key)
    if node == NONE:
        node = counts[FREE_NODE]
        counts[FREE_NODE] = state.older[node]
        state.node_of_key[key] = node
        state.key[node] = key
        append_newest(state, node)
    else:
        counts[L2_USED_BYTES] -= state.size_bytes[node]
    counts[L2_USED_BYTES] += size_bytes
    state.size_bytes[node] = size_bytes
    state.arrival_ps[node] = arrival_ps
    state.is_dirty[node] = is_dirty
    return evict(state)


def evict(state: MemoryState) -> int:
    """Lets the oldest tiles leave until the rest fits; returns the dirty bytes among them."""
    counts = state.counts
    written_back = 0
    while counts[L2_USED_BYTES] > counts[L2_CAPACITY_BYTES]:
        node = counts[OLDEST]
        unlink(state, node)
        state.node_of_key[state.key[node]] = NONE
        state.older[node] = counts[FREE_NODE]
        counts[FREE_NODE] = node
        counts[L2_USED_BYTES] -= state.size_bytes[node]
        if state.is_dirty[node]:
            written_back += state.size_bytes[node]
    return written_back


def dirty_bytes(state: MemoryState) -> int:
    """Bytes written and not yet in HBM."""
    node, total = state.counts[OLDEST], 0
    while node != NONE:
        if state.is_dirty[node]:
            total += int(state.size_bytes[node])
        node = state.newer[node]
    return total
