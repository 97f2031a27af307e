"""From a name in a scenario to a task graph: which schedule, with which tiles and constants, on this GPU and shape.

A bare name is a released implementation with the choices of its table. A mapping is the schedule with the choices it
states; what it leaves out comes from the table, and the point is reported as "custom". `attention_plan.py` fills in
what attention leaves open, `kernel_plan.py` what single kernels do.
"""

from dataclasses import dataclass

from gpusim.errors import UnsupportedError
from gpusim.implementations.attention_plan import plan_attention
from gpusim.implementations.kernel_plan import plan_kernel
from gpusim.implementations.request import ScheduleRequest, names_that_compute
from gpusim.schedules import Choices
from gpusim.specs import GpuSpec
from gpusim.taskgraph import TaskGraph
from gpusim.workloads import AttentionWorkload, Workload


@dataclass(frozen=True, slots=True)
class Plan:
    """A graph ready to be read, and what it was made from."""

    schedule: str
    implementation: str
    version: str | None
    choices: Choices
    graph: TaskGraph


def plan(request: ScheduleRequest, spec: GpuSpec, workload: Workload, stack: str | None = None) -> Plan:
    """The graph of a request on a GPU; `stack` is the software around the kernels, which may add passes.

    Raises UnsupportedError where no model or table covers the case, and DoesNotFitError, naming what would fit, where
    a CTA exceeds the SM.
    """
    schedule = request.schedule
    if not isinstance(workload, schedule.workload):
        raise UnsupportedError(
            f"{request.name} computes {schedule.workload.title}, not {workload.title}",
            f"use one of {', '.join(names_that_compute(type(workload)))}",
        )
    if isinstance(workload, AttentionWorkload):
        choices, graph = plan_attention(request, spec, workload, stack)
    else:
        choices, graph = plan_kernel(request, spec, workload)
    return Plan(schedule.name, request.label, request.effective_version, choices, graph)
