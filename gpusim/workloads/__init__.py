"""What is computed: an attention problem or a single kernel, with no word about how.

Holds shapes, ideal FLOPs, compulsory bytes and the conditions of a measurement. Leaves out tiles, kernels and
hardware. Start with `attention.py`; `kernels.py` has what a machine is measured with.
"""

from gpusim.workloads.attention import AttentionWorkload, Pass
from gpusim.workloads.conditions import Cache, Conditions, Timing
from gpusim.workloads.kernels import (
    CacheReadWorkload,
    ChaseWorkload,
    GemmWorkload,
    RowsWorkload,
    StreamWorkload,
)

Workload = AttentionWorkload | GemmWorkload | RowsWorkload | StreamWorkload | ChaseWorkload | CacheReadWorkload


def compulsory_bytes(workload: Workload) -> int:
    """Bytes that must move once whatever the schedule: inputs read, outputs written."""
    return workload.input_bytes + workload.output_bytes


def size_of(workload: Workload) -> int:
    """What a sweep of this kind of workload is drawn against: its field `size_field`."""
    size: int = getattr(workload, workload.size_field)
    return size


__all__ = [
    "AttentionWorkload",
    "Cache",
    "CacheReadWorkload",
    "ChaseWorkload",
    "Conditions",
    "GemmWorkload",
    "Pass",
    "RowsWorkload",
    "StreamWorkload",
    "Timing",
    "Workload",
    "compulsory_bytes",
    "size_of",
]
