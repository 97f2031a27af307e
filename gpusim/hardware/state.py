"""State of the memory system: numbered counters and plain sequences, read by position.

The functions of this package are written once. SimPy calls them on lists; the compiled engine compiles the same
functions for arrays. Times are integer picoseconds, sizes bytes. A *node* is a place in the L2's list of resident
tiles; a *key* numbers a tile of a tensor in device memory.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gpusim.specs import GpuSpec
from gpusim.units import ps_from_ns, ps_per_byte

# What `MemoryState.counts` holds, by position.
L2_FREE_PS = 0  # when the L2 port next idles
HBM_FREE_PS = 1  # when HBM next idles
HBM_READ_BYTES = 2
HBM_WRITE_BYTES = 3
KERNEL_READ_BYTES = 4  # of the running kernel, for the mix of reads and writes
KERNEL_WRITE_BYTES = 5
NEXT_MIX_BYTES = 6  # kernel traffic at which the mix is looked at again
HIT_BYTES = 7
L2_USED_BYTES = 8
L2_CAPACITY_BYTES = 9  # 0 without an L2
NEWEST = 10  # node used last
OLDEST = 11  # node that leaves next
FREE_NODE = 12  # first node that holds no tile
HIT_LATENCY_PS = 13
MISS_LATENCY_PS = 14
NUM_COUNTS = 15

# What `MemoryState.rates` holds, by position.
L2_PS_PER_BYTE = 0
HBM_PS_PER_BYTE = 1  # of the running kernel at its present mix
HBM_UNMIXED_PS_PER_BYTE = 2  # of the running kernel in one direction
MIX_LOSS = 3
FILL_PS_PER_BYTE = 4  # of an SM at the clock of the running kernel
NUM_RATES = 5

NONE = -1  # no node

Numbers = Any  # a list, or an array for the compiled engine: indexed alike, typed apart


class MemoryState(NamedTuple):
    """Counters and rates, one fill port an SM, and the L2's list of tiles from the oldest to the newest."""

    counts: Numbers
    rates: Numbers
    port_free_ps: Numbers  # by SM
    node_of_key: Numbers
    older: Numbers  # by node: the next older node; for a free node the next free one
    newer: Numbers
    key: Numbers
    size_bytes: Numbers
    arrival_ps: Numbers
    is_dirty: Numbers


Repeated = Callable[[float, int], Numbers]  # (value, count) → a sequence of that many equal numbers


def repeated_in_list(value: float, count: int) -> Numbers:
    """A list: what SimPy's Python code reads fastest."""
    return [value] * count


def repeated_in_array(value: float, count: int) -> Numbers:
    """An array: int64, or float64 where the value is a float."""
    return np.full(count, value)


def build_memory(spec: GpuSpec, num_keys: int, num_nodes: int, repeated: Repeated) -> MemoryState:
    """An idle memory system with an empty L2; `repeated` makes its sequences. Raises UnsupportedError as `timings`."""
    l2, timings = spec.memory.l2, spec.timings()
    counts, rates = repeated(0, NUM_COUNTS), repeated(0.0, NUM_RATES)
    counts[NEWEST] = counts[OLDEST] = NONE
    counts[MISS_LATENCY_PS] = ps_from_ns(timings.hbm.latency_ns)
    rates[MIX_LOSS] = timings.hbm.mix_loss
    if l2 is not None and timings.l2 is not None:
        counts[L2_CAPACITY_BYTES] = l2.size_bytes
        counts[HIT_LATENCY_PS] = ps_from_ns(timings.l2.latency_ns)
        rates[L2_PS_PER_BYTE] = ps_per_byte(timings.l2.bandwidth_bytes_per_s)
    older = repeated(NONE, num_nodes)
    for node in range(num_nodes - 1):
        older[node] = node + 1
    rest = (repeated(0, num_nodes) for _ in range(5))
    return MemoryState(counts, rates, repeated(0, spec.sm.count), repeated(NONE, num_keys), older, *rest)
