"""L2: one or two partitions of finite capacity, least recently used tile out first, write-back at the capacity.

Half of a tile's bytes live in each of two partitions; a tile of at most one line lives in one. A side that reads a
tile keeps a copy of what lives on the other side, so a tile that was only written takes its size once, read from one
side 1.5 times and from both sides twice. A partition holds a list of nodes, one a tile: its home bytes, or the whole
tile.

A list does not end at the capacity C. At a stack distance D beyond it a share exp(−(D/C − 1)/knee) of a tile is still
there, clean (fitted to a pointer chase on A100); the list is cut into zones of one share each. Which bytes are left:
whole sectors, or, of what is no larger than a line, all or nothing by a hash of its key. Only who finds a tile beyond
the capacity needs to know its zone, so the borders between those zones are moved then. Sets and slices are not
modelled.
"""

from gpusim.hardware.scatter import scattered
from gpusim.hardware.state import (
    ARRIVAL_PS,
    DIRTY_BYTES,
    FREE_NODE,
    KEY,
    LAST,
    LEAVING_KEY,
    LIMIT_BYTES,
    LINE_BYTES,
    LINE_WEIGHT,
    NEWER,
    NEWEST,
    NONE,
    OLDER,
    OLDEST,
    PARTITIONS,
    SECTOR_BYTES,
    SHARE,
    SIDE_FIELDS,
    SIDE_ZONES,
    SIZE_BYTES,
    SOFT_BYTES,
    SOFT_LIMIT_BYTES,
    UNKNOWN_PS,
    USED_BYTES,
    WHOLE,
    ZONE,
    ZONE_FIELDS,
    MemoryState,
)


def home_bytes(state: MemoryState, key: int, size_bytes: int, side: int) -> int:
    """Bytes of a tile that live on a side."""
    if state.counts[PARTITIONS] == 1:
        return size_bytes
    if size_bytes <= state.counts[LINE_BYTES]:
        return size_bytes if key % 2 == side else 0
    return size_bytes // 2 if side == 0 else size_bytes - size_bytes // 2


def resident_bytes(state: MemoryState, key: int, size_bytes: int, zone: int) -> int:
    """How many of a tile's bytes on one side are still there in a zone."""
    share = state.zones[zone + SHARE]
    if share == WHOLE:
        return size_bytes
    if size_bytes <= state.counts[LINE_BYTES]:
        return size_bytes if scattered(key) < share else 0
    kept: int = (size_bytes * share >> 32) // state.counts[SECTOR_BYTES] * state.counts[SECTOR_BYTES]
    return kept


def look_up(state: MemoryState, key: int, side: int) -> int:
    """Node of a tile on a side, in the zone where it is by now; NONE where there is none."""
    zones, first = state.zones, side * SIDE_ZONES
    node: int = state.node_of_key[key * state.counts[PARTITIONS] + side]
    if node == NONE or state.nodes[node + ZONE] == first:
        return node
    newer_bytes = border_bytes = 0  # beyond the capacity: before this zone, and where it ends
    for zone in range(first + ZONE_FIELDS, first + SIDE_ZONES - ZONE_FIELDS, ZONE_FIELDS):
        border_bytes += zones[zone + LIMIT_BYTES]
        while zones[zone + OLDEST] != NONE:
            oldest = zones[zone + OLDEST]
            if newer_bytes + zones[zone + USED_BYTES] - state.nodes[oldest + SIZE_BYTES] < border_bytes:
                break
            sink(state, oldest)
        newer_bytes += zones[zone + USED_BYTES]
    return node


def touch(state: MemoryState, side: int, node: int) -> None:
    """Makes a node within a side's capacity, which is not its newest, the newest."""
    nodes, sides, first, ends = state.nodes, state.sides, side * SIDE_ZONES, side * SIDE_FIELDS
    older, newer, newest = nodes[node + OLDER], nodes[node + NEWER], sides[ends + NEWEST]
    if state.zones[first + OLDEST] == node:
        state.zones[first + OLDEST] = newer
    nodes[newer + OLDER] = older
    if older == NONE:
        sides[ends + LAST] = newer
    else:
        nodes[older + NEWER] = newer
    nodes[newest + NEWER] = node
    nodes[node + OLDER] = newest
    nodes[node + NEWER] = NONE
    sides[ends + NEWEST] = node


def unlink(state: MemoryState, side: int, node: int) -> None:
    """Takes a node out of a side's list and its zone."""
    nodes, zones, sides, ends = state.nodes, state.zones, state.sides, side * SIDE_FIELDS
    older, newer, zone = nodes[node + OLDER], nodes[node + NEWER], nodes[node + ZONE]
    if zones[zone + OLDEST] == node:
        zones[zone + OLDEST] = newer if newer != NONE and nodes[newer + ZONE] == zone else NONE
    if newer == NONE:
        sides[ends + NEWEST] = older
    else:
        nodes[newer + OLDER] = older
    if older == NONE:
        sides[ends + LAST] = newer
    else:
        nodes[older + NEWER] = newer
    zones[zone + USED_BYTES] -= nodes[node + SIZE_BYTES]
    if zone != side * SIDE_ZONES:
        sides[ends + SOFT_BYTES] -= nodes[node + SIZE_BYTES]


def append_newest(state: MemoryState, side: int, node: int) -> None:
    """Makes a node that is in no list the newest of a side."""
    nodes, sides, zone, ends = state.nodes, state.sides, side * SIDE_ZONES, side * SIDE_FIELDS
    newest = sides[ends + NEWEST]
    nodes[node + OLDER] = newest
    nodes[node + NEWER] = NONE
    nodes[node + ZONE] = zone
    if newest == NONE:
        sides[ends + LAST] = node
    else:
        nodes[newest + NEWER] = node
    if state.zones[zone + OLDEST] == NONE:
        state.zones[zone + OLDEST] = node
    sides[ends + NEWEST] = node
    state.zones[zone + USED_BYTES] += nodes[node + SIZE_BYTES]


def remove(state: MemoryState, side: int, node: int) -> None:
    """Lets a node go."""
    unlink(state, side, node)
    state.node_of_key[state.nodes[node + KEY] * state.counts[PARTITIONS] + side] = NONE
    state.nodes[node + OLDER] = state.counts[FREE_NODE]
    state.counts[FREE_NODE] = node


def put(state: MemoryState, key: int, side: int, size_bytes: int, dirty: int, arrival_ps: int) -> int:
    """Makes a tile the newest of a side, at `size_bytes` of its capacity; returns the dirty bytes that had to leave."""
    counts, nodes = state.counts, state.nodes
    place = key * counts[PARTITIONS] + side
    node = state.node_of_key[place]
    if node == NONE:
        node = counts[FREE_NODE]
        counts[FREE_NODE] = nodes[node + OLDER]
        state.node_of_key[place] = node
        nodes[node + KEY] = key
    else:
        unlink(state, side, node)
    nodes[node + SIZE_BYTES] = size_bytes
    nodes[node + DIRTY_BYTES] = dirty
    nodes[node + ARRIVAL_PS] = arrival_ps
    append_newest(state, side, node)
    if state.zones[side * SIDE_ZONES + USED_BYTES] > state.zones[side * SIDE_ZONES + LIMIT_BYTES]:
        return settle(state, side)
    return 0


def settle(state: MemoryState, side: int) -> int:
    """Pushes what does not fit the capacity beyond it, and the last nodes out; returns the dirty bytes among them."""
    nodes, zones, sides, zone, ends = state.nodes, state.zones, state.sides, side * SIDE_ZONES, side * SIDE_FIELDS
    left = 0
    while zones[zone + USED_BYTES] > zones[zone + LIMIT_BYTES]:
        node = zones[zone + OLDEST]
        dirty = nodes[node + DIRTY_BYTES]
        if dirty:
            left += dirty
            nodes[node + DIRTY_BYTES] = 0
            state.counts[LEAVING_KEY] = nodes[node + KEY]
        sink(state, node)
        sides[ends + SOFT_BYTES] += nodes[node + SIZE_BYTES]
    while sides[ends + SOFT_BYTES] > sides[ends + SOFT_LIMIT_BYTES]:
        remove(state, side, sides[ends + LAST])
    return left


def sink(state: MemoryState, node: int) -> None:
    """Moves the oldest node of a zone into the next, where it is the newest; its place in the list is the same."""
    nodes, zones = state.nodes, state.zones
    zone, newer, size_bytes = nodes[node + ZONE], nodes[node + NEWER], nodes[node + SIZE_BYTES]
    below = zone + ZONE_FIELDS
    zones[zone + OLDEST] = newer if newer != NONE and nodes[newer + ZONE] == zone else NONE
    nodes[node + ZONE] = below
    zones[zone + USED_BYTES] -= size_bytes
    zones[below + USED_BYTES] += size_bytes
    if zones[below + OLDEST] == NONE:
        zones[below + OLDEST] = node


def fetch(state: MemoryState, key: int, size_bytes: int, side: int, copied_ps: int) -> tuple[int, int, int, int, int]:
    """Makes a tile whole and the newest on a side that reads it.

    Returns the bytes missing of its own half and of the other, the bytes that come over from the other side (until
    `copied_ps`), when bytes that are on their way arrive, and the dirty bytes that had to leave. Where bytes are
    missing, the arrival of the node is unknown.
    """
    nodes = state.nodes
    capacity_bytes = size_bytes * state.counts[LINE_WEIGHT]
    own = home_bytes(state, key, size_bytes, side)
    others = size_bytes - own
    node = look_up(state, key, side)
    kept = copied = dirty = arrival_ps = missing_there = come_over = left = 0
    if node != NONE:
        kept = resident_bytes(state, key, own, nodes[node + ZONE])
        dirty, arrival_ps = nodes[node + DIRTY_BYTES], nodes[node + ARRIVAL_PS]
        if nodes[node + SIZE_BYTES] == capacity_bytes:
            copied = resident_bytes(state, key, others, nodes[node + ZONE])
    missing = own - kept
    if copied < others:
        found, arrival_there_ps, left = renew_home(state, key, others, 1 - side, copied)
        missing_there, come_over = others - max(copied, found), max(0, found - copied)
        arrival_ps = max(arrival_ps, arrival_there_ps, copied_ps if come_over else 0)
    is_known = missing == 0 and missing_there == 0
    left += put(state, key, side, capacity_bytes, dirty, arrival_ps if is_known else UNKNOWN_PS)
    return missing, missing_there, come_over, arrival_ps, left


def renew_home(state: MemoryState, key: int, home: int, side: int, copied: int) -> tuple[int, int, int]:
    """Makes the bytes of a tile that live on a side complete and the newest there, for a reader on the other side.

    The reader has `copied` of these bytes. Returns how many were there, when they arrive, and the dirty bytes that had
    to leave. A copy of the reader's half that lies beyond the capacity is given up.
    """
    nodes, node = state.nodes, look_up(state, key, side)
    found = dirty = arrival_ps = 0
    capacity_bytes = home * state.counts[LINE_WEIGHT]
    if node != NONE:
        found = resident_bytes(state, key, home, nodes[node + ZONE])
        dirty, arrival_ps = nodes[node + DIRTY_BYTES], nodes[node + ARRIVAL_PS]
        if nodes[node + ZONE] == side * SIDE_ZONES:
            capacity_bytes = nodes[node + SIZE_BYTES]
    is_known = max(copied, found) == home
    left = put(state, key, side, capacity_bytes, dirty, arrival_ps if is_known else UNKNOWN_PS)
    return found, arrival_ps, left


def dirty_bytes(state: MemoryState) -> int:
    """Bytes written and not yet in HBM."""
    total = 0
    for side in range(state.counts[PARTITIONS]):
        node = state.sides[side * SIDE_FIELDS + NEWEST]
        while node != NONE:
            total += int(state.nodes[node + DIRTY_BYTES])
            node = state.nodes[node + OLDER]
    return total
