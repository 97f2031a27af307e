"""What really ships: released kernels as data, and the way from a scenario's name to a task graph.

The YAML files hold tiles, warps, stages, pass lists and timing constants by GPU and shape, each with its source;
`stacks.yaml` holds the host time of the software around them. Leaves out how a schedule works. Start with
`flash2.yaml`, then `plan.py`.
"""

from gpusim.implementations.plan import Plan, plan
from gpusim.implementations.request import CUSTOM, ScheduleRequest, names_that_compute, parse_request
from gpusim.implementations.table import (
    Implementation,
    Stack,
    When,
    check_calibration,
    implementations,
    stack_names,
    stacks,
)
from gpusim.implementations.training_memory import training_footprint

__all__ = [
    "CUSTOM",
    "Implementation",
    "Plan",
    "ScheduleRequest",
    "Stack",
    "When",
    "check_calibration",
    "implementations",
    "names_that_compute",
    "parse_request",
    "plan",
    "stack_names",
    "stacks",
    "training_footprint",
]
