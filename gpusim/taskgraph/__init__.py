"""The shared language: what a schedule writes and every reader reads.

A `TaskGraph` is a list of kernels over tensors in device memory. A `Kernel` is a grid of CTAs that run one program:
tasks and loops over on-chip buffers, with tile addresses that are affine in grid and loop indices, so that a million
CTAs cost no memory. `ops.py` is the closed set of operations; `unroll.py` gives one CTA as tasks with the dependencies
that barriers enforce; `rules.py` says what a legal graph is. Leaves out time, hardware and the names of schedules.
Start reading with `program.py`, then `builder.py`.
"""

from gpusim.taskgraph.builder import KernelBuilder
from gpusim.taskgraph.cost import KernelCost
from gpusim.taskgraph.ops import (
    Add,
    Copy,
    Exponential,
    Fill,
    KeepAboveDiagonal,
    Load,
    LogSumExp,
    MaskCausal,
    MaskKeys,
    MatMul,
    Normalise,
    OnlineSoftmax,
    Op,
    Rescale,
    RowReduce,
    RowSoftmax,
    Scale,
    Store,
    SubtractRows,
    Where,
)
from gpusim.taskgraph.program import Diagonal, Guard, Kernel, Loop, Task, TaskGraph
from gpusim.taskgraph.rules import check_graph
from gpusim.taskgraph.tensors import Buffer, Role, Space, Tensor, Tile
from gpusim.taskgraph.unroll import Step, UnrolledCta, unroll

__all__ = [
    "Add",
    "Buffer",
    "Copy",
    "Diagonal",
    "Exponential",
    "Fill",
    "Guard",
    "KeepAboveDiagonal",
    "Kernel",
    "KernelBuilder",
    "KernelCost",
    "Load",
    "LogSumExp",
    "Loop",
    "MaskCausal",
    "MaskKeys",
    "MatMul",
    "Normalise",
    "OnlineSoftmax",
    "Op",
    "Rescale",
    "Role",
    "RowReduce",
    "RowSoftmax",
    "Scale",
    "Space",
    "Step",
    "Store",
    "SubtractRows",
    "Task",
    "TaskGraph",
    "Tensor",
    "Tile",
    "UnrolledCta",
    "Where",
    "check_graph",
    "unroll",
]
