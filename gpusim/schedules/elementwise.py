"""One pass over a matrix: every number is read once and written once, in the order that the pattern says."""

from collections.abc import Mapping

from gpusim.schedules.kernel_choices import ElementwiseChoices
from gpusim.schedules.rowwise import add_pass, copy_pass
from gpusim.taskgraph import Kernel, KernelCost, Role, TaskGraph, Tensor
from gpusim.workloads import RowsWorkload

CONTIGUOUS_FACTOR = 0.5  # exact in every format


def build(workload: RowsWorkload, choices: ElementwiseChoices, costs: Mapping[str, KernelCost]) -> TaskGraph:
    """One kernel; `costs` may hold constants under "elementwise", "broadcast", "copy" and "transpose"."""
    rows, cols = workload.rows, workload.cols
    x = Tensor("X", 1, rows, cols, workload.dtype, Role.INPUT, choices.group_rows, cols)
    return TaskGraph((_kernel(x, choices, costs),))


def _kernel(x: Tensor, choices: ElementwiseChoices, costs: Mapping[str, KernelCost]) -> Kernel:
    y = Tensor("Y", 1, x.rows, x.cols, x.dtype, Role.OUTPUT, x.tile_rows, x.tile_cols)
    match choices.pattern:
        case "contiguous":
            return copy_pass("scale", x, y, scale=CONTIGUOUS_FACTOR, cost=costs.get("elementwise"))
        case "broadcast":
            row = Tensor("row", 1, 1, x.cols, x.dtype, Role.INPUT, 1, x.tile_cols)
            return add_pass("add_row", x, row, y, cost=costs.get("broadcast"))
        case "strided":
            return copy_pass("copy", x, y, cost=costs.get("copy"))
        case "transposed":
            turned = Tensor("Y", 1, x.cols, x.rows, x.dtype, Role.OUTPUT, x.tile_cols, x.tile_rows)
            return copy_pass("transpose", x, turned, transpose=True, cost=costs.get("transpose"))
