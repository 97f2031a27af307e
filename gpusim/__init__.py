"""gpusim: how fast an attention kernel runs on a GPU, and why, without the GPU at hand.

    >>> from gpusim import AttentionWorkload, Conditions, load_gpu, parse_request, plan, simulate
    >>> gpu = load_gpu("a100_sxm4_40gb")
    >>> work = AttentionWorkload(batch=1, heads=8, seqlen_q=256, seqlen_k=256, head_dim=64)
    >>> graph = plan(parse_request("flash2", "example"), gpu, work).graph
    >>> simulate(graph, gpu, Conditions(timing="ncu")).latency_ps > 0
    True

Reading order of the source. `workloads/attention.py` says what is computed. `taskgraph/program.py` and `builder.py`
are the language; `schedules/flash2.py` is one schedule written in it. Three readers of that graph:
`numeric/executor.py` computes attention with it, `analytic/traffic.py` sums it up, `engine/lower.py` and
`engine/cta.py` run it against `hardware/`. `implementations/flash2.yaml` and `plan.py` turn a name into a graph;
`point.py` turns a point into a result; `scenario.py`, `sweep.py`, `compare.py` and `cli.py` are built from points.

Names load on first use, so that `import gpusim` and `gpusim --help` take no time. `gpusim.numeric`, `gpusim.measured`
and `gpusim.compare` are imported by name.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpusim.analytic import check_memory, footprint, kernel_work, lower_bound, occupancy
    from gpusim.dtypes import DType
    from gpusim.engine import KernelRun, Simulation, simulate
    from gpusim.errors import (
        ConfigError,
        DoesNotFitError,
        GpusimError,
        GraphError,
        InputError,
        MeasuredError,
        OutOfMemoryError,
        PointError,
        ScenarioError,
        UnknownNameError,
        UnsupportedError,
    )
    from gpusim.implementations import Plan, ScheduleRequest, implementations, parse_request, plan
    from gpusim.point import Point, run_point
    from gpusim.report.shown import ShownResult
    from gpusim.results import KernelResult, PointResult
    from gpusim.runs import Run, run_scenario
    from gpusim.scenario import Scenario, load_scenario
    from gpusim.schedules import SCHEDULES
    from gpusim.specs import GpuSpec, apply_overrides, gpu_names, load_gpu
    from gpusim.taskgraph import KernelBuilder, KernelCost, Role, TaskGraph, Tensor
    from gpusim.trace import Span, Stall, TimelineRecorder
    from gpusim.workloads import (
        AttentionWorkload,
        CacheReadWorkload,
        ChaseWorkload,
        Conditions,
        GemmWorkload,
        RowsWorkload,
        StreamWorkload,
    )

__all__ = [
    "SCHEDULES",
    "AttentionWorkload",
    "CacheReadWorkload",
    "ChaseWorkload",
    "Conditions",
    "ConfigError",
    "DType",
    "DoesNotFitError",
    "GemmWorkload",
    "GpuSpec",
    "GpusimError",
    "GraphError",
    "InputError",
    "KernelBuilder",
    "KernelCost",
    "KernelResult",
    "KernelRun",
    "MeasuredError",
    "OutOfMemoryError",
    "Plan",
    "Point",
    "PointError",
    "PointResult",
    "Role",
    "RowsWorkload",
    "Run",
    "Scenario",
    "ScenarioError",
    "ScheduleRequest",
    "ShownResult",
    "Simulation",
    "Span",
    "Stall",
    "StreamWorkload",
    "TaskGraph",
    "Tensor",
    "TimelineRecorder",
    "UnknownNameError",
    "UnsupportedError",
    "apply_overrides",
    "check_memory",
    "footprint",
    "gpu_names",
    "implementations",
    "kernel_work",
    "load_gpu",
    "load_scenario",
    "lower_bound",
    "occupancy",
    "parse_request",
    "plan",
    "run_point",
    "run_scenario",
    "simulate",
]

# Where the public names are looked up, cheapest first.
_PACKAGES = (
    "errors",
    "dtypes",
    "trace",
    "specs",
    "workloads",
    "taskgraph",
    "results",
    "analytic",
    "schedules",
    "engine",
    "implementations",
    "report.shown",
    "point",
    "scenario",
    "runs",
)


def __getattr__(name: str) -> object:
    """Loads a public name from the package that defines it."""
    if name not in __all__:
        raise AttributeError(f"module 'gpusim' has no attribute '{name}'")
    for package in _PACKAGES:
        module = import_module(f"gpusim.{package}")
        if hasattr(module, name):
            return getattr(module, name)
    raise AttributeError(f"module 'gpusim' lost its attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
