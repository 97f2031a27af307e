"""The way of tiles: SM fill port, L2, HBM. Reads return when data is usable, writes when they are accepted.

A read occupies the SM's fill port, the L2 port and, for what misses, HBM, all from the moment it arrives, and is usable
one latency after the last of them; a tile that is still on its way is a hit that waits for it. The latency is that of
the farthest bytes: near or far in L2, or HBM. A write is accepted when L2 has it and HBM has taken what it pushed out.
Reads and writes share the L2 port, each at its rate. Without an L2 every request goes to HBM.
"""

from gpusim.hardware.hbm import hbm_read, hbm_write, update_rate
from gpusim.hardware.l2 import fetch, home_bytes, put, remove, touch
from gpusim.hardware.pipe import book
from gpusim.hardware.state import (
    ARRIVAL_PS,
    FAR_HIT_PS,
    FAR_MISS_PS,
    FILL_PS_PER_BYTE,
    HBM_LARGE_READ_PS_PER_BYTE,
    HBM_UNMIXED_PS_PER_BYTE,
    HIT_BYTES,
    KERNEL_READ_BYTES,
    KERNEL_WRITE_BYTES,
    L2_FREE_PS,
    L2_READ_PS_PER_BYTE,
    L2_WRITE_PS_PER_BYTE,
    LEAVING_KEY,
    LINE_WEIGHT,
    NEAR_HIT_PS,
    NEAR_MISS_PS,
    NEWER,
    NONE,
    PARTITIONS,
    SIDE_ZONES,
    SIZE_BYTES,
    UNKNOWN_PS,
    ZONE,
    MemoryState,
    Numbers,
)
from gpusim.specs import HbmTimings
from gpusim.units import ps_from_ns, ps_per_byte


def start_kernel(
    state: MemoryState,
    timings: HbmTimings,
    *,
    efficiency: float,
    fill_bytes_per_s: float,
    footprint_bytes: int,
    is_random: bool = False,
    line_weight: int = 1,
) -> None:
    """Sets what a kernel changes, and starts counting its read/write mix afresh.

    `efficiency` is the kernel's share of the stream rate, `fill_bytes_per_s` what an SM takes from L2 at its clock,
    `footprint_bytes` the size of its tensors together. Loads of a random kernel miss with the latency of the partition
    they go through, those of others with that of a stream; each of its tiles counts `line_weight` times in L2.
    """
    counts, rates = state.counts, state.rates
    counts[NEAR_MISS_PS] = ps_from_ns(timings.near_latency_ns if is_random else timings.stream_latency_ns)
    counts[FAR_MISS_PS] = ps_from_ns(timings.far_latency_ns if is_random else timings.stream_latency_ns)
    counts[LINE_WEIGHT] = line_weight
    rates[FILL_PS_PER_BYTE] = ps_per_byte(fill_bytes_per_s)
    rates[HBM_UNMIXED_PS_PER_BYTE] = ps_per_byte(timings.stream_bandwidth_bytes_per_s * efficiency)
    is_large = footprint_bytes > timings.large_footprint_bytes
    rates[HBM_LARGE_READ_PS_PER_BYTE] = ps_per_byte(timings.large_read_bandwidth_bytes_per_s) if is_large else 0.0
    counts[KERNEL_READ_BYTES] = counts[KERNEL_WRITE_BYTES] = 0
    update_rate(state)


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
    shared_by: int = 1,
) -> int:
    """When tiles asked for now by this SM are usable there.

    Tile number i, for begin ≤ i < end, has the key base + offsets[i] and sizes[i] bytes; all have `total` bytes, of
    which this SM asks L2 for 1 / `shared_by` and gets the rest multicast by others.
    """
    counts, rates, nodes, partitions = state.counts, state.rates, state.nodes, state.counts[PARTITIONS]
    filled = book(state.port_free_ps, sm, now_ps, int(total * rates[FILL_PS_PER_BYTE]) + 1)
    asked = total // shared_by
    if partitions == 0:
        fetched: int = max(filled, hbm_read(state, now_ps, base + offsets[begin], asked)) + counts[NEAR_MISS_PS]
        return fetched
    served = book(counts, L2_FREE_PS, now_ps, int(asked * rates[L2_READ_PS_PER_BYTE]) + 1)
    side, weight = sm % partitions, counts[LINE_WEIGHT]
    missing = missing_far = come_over = left = found_ps = missing_key = 0
    for i in range(begin, end):
        key = base + offsets[i]
        node = state.node_of_key[key * partitions + side]
        is_whole = node != NONE and nodes[node + SIZE_BYTES] == sizes[i] * weight
        if is_whole and nodes[node + ZONE] == side * SIDE_ZONES:
            if nodes[node + NEWER] != NONE:
                touch(state, side, node)
            arrival_ps = nodes[node + ARRIVAL_PS]
        else:
            near, far, over, arrival_ps, dirty = fetch(state, key, sizes[i], side, served + counts[FAR_HIT_PS])
            if missing == 0:
                missing_key = key
            missing += near + far
            missing_far += far
            come_over += over
            left += dirty
        if arrival_ps > found_ps:
            found_ps = arrival_ps
    counts[HIT_BYTES] += asked - missing
    usable: int = max(max(filled, served) + counts[FAR_HIT_PS if come_over else NEAR_HIT_PS], found_ps)
    if missing:
        latency_ps = counts[FAR_MISS_PS if missing_far else NEAR_MISS_PS]
        arrival_ps = max(max(served, hbm_read(state, now_ps, missing_key, missing)) + latency_ps, found_ps)
        settle_arrivals(state, base, offsets, begin, end, arrival_ps)
        usable = max(usable, arrival_ps, filled + latency_ps)
    if left:
        hbm_write(state, now_ps, counts[LEAVING_KEY], left)
    return usable


def settle_arrivals(state: MemoryState, base: int, offsets: Numbers, begin: int, end: int, arrival_ps: int) -> None:
    """Writes down when the tiles of a read arrive whose arrival was unknown."""
    partitions = state.counts[PARTITIONS]
    for i in range(begin, end):
        for side in range(partitions):
            node = state.node_of_key[(base + offsets[i]) * partitions + side]
            if node != NONE and state.nodes[node + ARRIVAL_PS] == UNKNOWN_PS:
                state.nodes[node + ARRIVAL_PS] = arrival_ps


def write_tiles(
    state: MemoryState, now_ps: int, base: int, offsets: Numbers, sizes: Numbers, begin: int, end: int, total: int
) -> int:
    """When a posted write of whole tiles is accepted; tiles are given as for `read_tiles`."""
    counts, partitions = state.counts, state.counts[PARTITIONS]
    if partitions == 0:
        return hbm_write(state, now_ps, base + offsets[begin], total)
    served = book(counts, L2_FREE_PS, now_ps, int(total * state.rates[L2_WRITE_PS_PER_BYTE]) + 1)
    left = 0
    for i in range(begin, end):
        for side in range(partitions):
            left += overwrite(state, base + offsets[i], sizes[i], side, served)
    if left:
        return max(served, hbm_write(state, now_ps, counts[LEAVING_KEY], left))
    return served


def overwrite(state: MemoryState, key: int, size_bytes: int, side: int, arrival_ps: int) -> int:
    """Makes the bytes of a tile that live on a side dirty, and drops its copy there; returns the bytes pushed out."""
    home = home_bytes(state, key, size_bytes, side)
    if home:
        return put(state, key, side, home * state.counts[LINE_WEIGHT], home, arrival_ps)
    node = state.node_of_key[key * state.counts[PARTITIONS] + side]
    if node != NONE:
        remove(state, side, node)
    return 0
