"""State of the memory system: numbered counters and plain sequences, read by position.

The functions of this package are written once. SimPy calls them on lists; the compiled engine compiles the same
functions for arrays, and the fewer sequences there are, the less it hands from function to function. Times are integer
picoseconds, sizes bytes. A *key* numbers a tile of a tensor in device memory, a *side* a partition of L2 with the SMs
next to it. A *node* is a place in the list of tiles of one side; that list is cut into *zones*, from the newest to the
oldest. A node and a zone are named by the position of their first field.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gpusim.specs import GpuSpec, L2Spec
from gpusim.units import ps_from_ns, ps_per_byte

# What `MemoryState.counts` holds, by position.
L2_FREE_PS = 0  # when the L2 port next idles
HBM_READ_BYTES = 1
HBM_WRITE_BYTES = 2
KERNEL_READ_BYTES = 3  # of the running kernel, for the mix of reads and writes
KERNEL_WRITE_BYTES = 4
NEXT_MIX_BYTES = 5  # kernel traffic at which the mix is looked at again
HIT_BYTES = 6
PARTITIONS = 7  # 0 without an L2
LINE_BYTES = 8
SECTOR_BYTES = 9
LINE_WEIGHT = 10  # of the running kernel: how often a tile counts against the capacity
LEAVING_KEY = 11  # tile that dirty bytes left last
FREE_NODE = 12  # first node that holds no tile
NEAR_HIT_PS = 13
FAR_HIT_PS = 14
NEAR_MISS_PS = 15  # of the running kernel
FAR_MISS_PS = 16
CHANNELS = 17
CHANNEL_BYTES = 18
ALL_ADDED_PS = 19  # what `hbm.py` has to add to every channel, …
ALL_FREE_PS = 20  # … the time before which none is free, …
LAST_FREE_PS = 21  # … and when the last one next idles
NUM_COUNTS = 22

# What `MemoryState.rates` holds, by position.
L2_READ_PS_PER_BYTE = 0
L2_WRITE_PS_PER_BYTE = 1
HBM_PS_PER_BYTE = 2  # of the running kernel at its present mix
HBM_UNMIXED_PS_PER_BYTE = 3  # of the running kernel in one direction
HBM_LARGE_READ_PS_PER_BYTE = 4  # least of the running kernel while it mostly reads; 0 for a small footprint
MIX_LOSS = 5
FILL_PS_PER_BYTE = 6  # of an SM at the clock of the running kernel
NUM_RATES = 7

# Fields of a node.
OLDER = 0  # the next older node; for a free node the next free one
NEWER = 1
KEY = 2
ZONE = 3
SIZE_BYTES = 4  # what it takes of the capacity
DIRTY_BYTES = 5  # written and not yet in HBM
ARRIVAL_PS = 6
NODE_FIELDS = 8  # one is left free, so that a node is one cache line of the host

# Fields of a zone. A side has its capacity, and six zones beyond it of half a knee each, to where 5 % are left.
OLDEST = 0
USED_BYTES = 1
LIMIT_BYTES = 2
SHARE = 3  # of a tile's bytes that are still there, in parts of WHOLE
ZONE_FIELDS = 4
SOFT_ZONES = 6
SIDE_ZONES = (1 + SOFT_ZONES) * ZONE_FIELDS  # from the first zone of a side to that of the next
WHOLE = 1 << 32

# Fields of a side.
NEWEST = 0
LAST = 1  # node that leaves next
SOFT_BYTES = 2  # what lies beyond the capacity
SOFT_LIMIT_BYTES = 3
SIDE_FIELDS = 4

NONE = -1  # no node
UNKNOWN_PS = -1  # arrival of a tile whose read is not booked yet

Numbers = Any  # a list, or an array for the compiled engine: indexed alike, typed apart


class MemoryState(NamedTuple):
    """Counters and rates, one fill port an SM, the channels of HBM, and the tiles that lie in L2."""

    counts: Numbers
    rates: Numbers
    port_free_ps: Numbers  # by SM
    channel_free_ps: Numbers  # by channel, to be read as `hbm.py` says
    node_of_key: Numbers  # by key · partitions + side
    nodes: Numbers  # fields of one node after another
    zones: Numbers
    sides: Numbers


Repeated = Callable[[float, int], Numbers]  # (value, count) → a sequence of that many equal numbers


def repeated_in_list(value: float, count: int) -> Numbers:
    """A list: what SimPy's Python code reads fastest."""
    return [value] * count


def repeated_in_array(value: float, count: int) -> Numbers:
    """An array: int64, or float64 where the value is a float."""
    return np.full(count, value)


def zone_limits(capacity_bytes: int, knee: float) -> list[int]:
    """Bytes of each zone of a side: its capacity, then slices of half a knee of it; nothing where the end is hard."""
    return [capacity_bytes, *[int(capacity_bytes * knee / 2)] * SOFT_ZONES]


def zone_shares() -> list[float]:
    """Share of a tile that is still there in each zone: all of it, then exp(−(D/C − 1)/knee) in the zone's middle."""
    return [1.0, *(math.exp(-(zone + 0.5) / 2) for zone in range(SOFT_ZONES))]


def build_memory(spec: GpuSpec, num_keys: int, num_nodes: int, repeated: Repeated) -> MemoryState:
    """An idle memory system with an empty L2; `repeated` makes its sequences. Raises UnsupportedError as `timings`."""
    l2, timings = spec.memory.l2, spec.timings()
    counts, rates = repeated(0, NUM_COUNTS), repeated(0.0, NUM_RATES)
    counts[CHANNELS], counts[CHANNEL_BYTES] = timings.hbm.channels, timings.hbm.channel_bytes
    rates[MIX_LOSS] = timings.hbm.mix_loss
    partitions = 0 if l2 is None else l2.partitions
    counts[PARTITIONS] = partitions
    zones, sides = repeated(0, partitions * SIDE_ZONES), repeated(NONE, partitions * SIDE_FIELDS)
    if l2 is not None and timings.l2 is not None:
        counts[LINE_BYTES], counts[SECTOR_BYTES] = l2.line_bytes, l2.sector_bytes
        counts[NEAR_HIT_PS] = ps_from_ns(timings.l2.near_latency_ns)
        counts[FAR_HIT_PS] = ps_from_ns(timings.l2.far_latency_ns)
        rates[L2_READ_PS_PER_BYTE] = ps_per_byte(timings.l2.bandwidth_bytes_per_s)
        rates[L2_WRITE_PS_PER_BYTE] = ps_per_byte(timings.l2.write_bandwidth_bytes_per_s)
        _cut_into_zones(zones, sides, l2, timings.l2.knee)
    nodes = repeated(0, num_nodes * NODE_FIELDS)
    for number in range(num_nodes):
        nodes[number * NODE_FIELDS + OLDER] = (number + 1) * NODE_FIELDS if number + 1 < num_nodes else NONE
    return MemoryState(
        counts,
        rates,
        port_free_ps=repeated(0, spec.sm.count),
        channel_free_ps=repeated(0, timings.hbm.channels),
        node_of_key=repeated(NONE, num_keys * partitions),
        nodes=nodes,
        zones=zones,
        sides=sides,
    )


def _cut_into_zones(zones: Numbers, sides: Numbers, l2: L2Spec, knee: float) -> None:
    limits = zone_limits(l2.size_bytes // l2.partitions, knee)
    for side in range(l2.partitions):
        sides[side * SIDE_FIELDS + SOFT_BYTES] = 0
        sides[side * SIDE_FIELDS + SOFT_LIMIT_BYTES] = sum(limits[1:])
        for number, (limit_bytes, share) in enumerate(zip(limits, zone_shares(), strict=True)):
            zone = side * SIDE_ZONES + number * ZONE_FIELDS
            zones[zone + OLDEST] = NONE
            zones[zone + LIMIT_BYTES] = limit_bytes
            zones[zone + SHARE] = int(share * WHOLE)
