"""What is computed: an attention problem or a single kernel, with no word about how.

Holds shapes, ideal FLOPs, compulsory bytes and the conditions of a measurement. Leaves out tiles, kernels and
hardware. Start with `attention.py`; `kernels.py` has what a machine is measured with.
"""

from typing import get_args

from gpusim.workloads.attention import PADDED_KEYS, AttentionWorkload, Pass
from gpusim.workloads.conditions import Cache, Conditions, Timing
from gpusim.workloads.kernels import (
    CacheReadWorkload,
    ChaseWorkload,
    GemmWorkload,
    RowsWorkload,
    StreamWorkload,
)

Workload = AttentionWorkload | GemmWorkload | RowsWorkload | StreamWorkload | ChaseWorkload | CacheReadWorkload
WORKLOADS: tuple[type[Workload], ...] = get_args(Workload)


def compulsory_bytes(workload: Workload) -> int:
    """Bytes that must move once whatever the schedule: inputs read, outputs written."""
    return workload.input_bytes + workload.output_bytes


__all__ = [
    "PADDED_KEYS",
    "WORKLOADS",
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
]
