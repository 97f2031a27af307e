"""The way of tiles: SM fill port, L2, HBM. Reads return when data is usable, writes when they are accepted.

A read occupies the SM's fill port, the L2 port and, for what misses, HBM, all from the moment it arrives, and is usable
one latency after the last of them; a tile that is still on its way is a hit that waits for it. A write is accepted
when L2 has it and HBM has taken what it pushed out. Without an L2 every request goes to HBM.
"""

from gpusim.hardware.hbm import hbm_read, hbm_write
from gpusim.hardware.l2 import insert, touch
from gpusim.hardware.pipe import book
from gpusim.hardware.state import (
    FILL_PS_PER_BYTE,
    HIT_BYTES,
    HIT_LATENCY_PS,
    L2_CAPACITY_BYTES,
    L2_FREE_PS,
    L2_PS_PER_BYTE,
    MISS_LATENCY_PS,
    NONE,
    MemoryState,
    Numbers,
)

UNKNOWN_PS = -1  # arrival of a tile whose read is not booked yet


def read_tiles(
    state: MemoryState,
    now_ps: int,
    sm: int,
    base: int,
    offsets: Numbers,
    sizes: Numbers,
    begin: int,
    end: int,
    total: int,
) -> int:
    """When tiles asked for now by this SM are usable there.

    Tile number i, for begin ≤ i < end, has the key base + offsets[i] and sizes[i] bytes; all have `total` bytes.
    """
    counts, rates = state.counts, state.rates
    filled = book(state.port_free_ps, sm, now_ps, int(total * rates[FILL_PS_PER_BYTE]) + 1)
    if counts[L2_CAPACITY_BYTES] == 0:
        fetched: int = max(filled, hbm_read(state, now_ps, total)) + counts[MISS_LATENCY_PS]
        return fetched
    served = book(counts, L2_FREE_PS, now_ps, int(total * rates[L2_PS_PER_BYTE]) + 1)
    usable: int = max(filled, served) + counts[HIT_LATENCY_PS]
    missing = evicted = 0
    for i in range(begin, end):
        node = touch(state, base + offsets[i])
        if node == NONE:
            missing += sizes[i]
            evicted += insert(state, base + offsets[i], sizes[i], UNKNOWN_PS, 0)
        elif state.arrival_ps[node] > usable:
            usable = state.arrival_ps[node]
    counts[HIT_BYTES] += total - missing
    if missing == 0:
        return usable
    arrival: int = max(served, hbm_read(state, now_ps, missing)) + counts[MISS_LATENCY_PS]
    for i in range(begin, end):
        node = state.node_of_key[base + offsets[i]]
        if node != NONE and state.arrival_ps[node] == UNKNOWN_PS:
            state.arrival_ps[node] = arrival
    if evicted:
        hbm_write(state, now_ps, evicted)
    over_port: int = filled + counts[MISS_LATENCY_PS]
    return max(usable, arrival, over_port)


def write_tiles(
    state: MemoryState, now_ps: int, base: int, offsets: Numbers, sizes: Numbers, begin: int, end: int, total: int
) -> int:
    """When a posted write of whole tiles is accepted; tiles are given as for `read_tiles`."""
    counts = state.counts
    if counts[L2_CAPACITY_BYTES] == 0:
        return hbm_write(state, now_ps, total)
    served = book(counts, L2_FREE_PS, now_ps, int(total * state.rates[L2_PS_PER_BYTE]) + 1)
    evicted = 0
    for i in range(begin, end):
        evicted += insert(state, base + offsets[i], sizes[i], served, 1)
    if evicted:
        return max(served, hbm_write(state, now_ps, evicted))
    return served
