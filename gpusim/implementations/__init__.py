"""What really ships: released kernels as data, and the way from a scenario's name to a task graph.

The YAML files hold tiles, warps, stages, pass lists and timing constants by GPU and shape, each with its source;
`stacks.yaml` holds the host time of the software around them. Leaves out how a schedule works. Start with
`flash2.yaml`, then `plan.py`.
"""

from gpusim.implementations.plan import CUSTOM, Plan, ScheduleRequest, parse_request, plan
from gpusim.implementations.table import Implementation, Stack, implementations, stacks

__all__ = [
    "CUSTOM",
    "Implementation",
    "Plan",
    "ScheduleRequest",
    "Stack",
    "implementations",
    "parse_request",
    "plan",
    "stacks",
]
