"""In which order the work items of an attention kernel are taken.

"ascending" walks the Q tiles of one head after those of another. "longest_first" takes the last Q tiles of all heads
first: with a causal mask they have the longest loops, and short ones fill the tail. Heads are then walked in sections
whose K and V stay in L2.
"""

from dataclasses import dataclass
from typing import Literal

from gpusim.taskgraph.tensors import HEAD
from gpusim.workloads import AttentionWorkload

L2_SECTION_BYTES = 32 << 20  # K and V of a section: Dao-AILab/flash-attention hopper/tile_scheduler.hpp, size_l2


@dataclass(frozen=True, slots=True)
class DispatchOrder:
    """Grid, first index fastest; indices that run down; and how many values of the first index make a section."""

    grid: list[tuple[str, int]]
    descending: tuple[str, ...] = ()
    band: int | None = None


def dispatch_order(
    order: Literal["ascending", "longest_first"], q_tiles: int, heads: int, section_heads: int
) -> DispatchOrder:
    """The order of `q_tiles` Q tiles, index m, of all heads."""
    if order == "ascending":
        return DispatchOrder([("m", q_tiles), (HEAD, heads)])
    return DispatchOrder([(HEAD, heads), ("m", q_tiles)], ("m",), section_heads)


def heads_in_l2(workload: AttentionWorkload) -> int:
    """Query heads of a section: those of a power of two of K/V heads that fit, at least one."""
    head_bytes = workload.seqlen_k * (workload.head_dim + workload.head_dim_v) * workload.dtype.size_bytes
    fitting = max(1, L2_SECTION_BYTES // head_bytes)
    return (1 << (fitting.bit_length() - 1)) * (workload.heads // workload.kv_heads)
