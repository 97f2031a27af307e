"""Softmax of every row of a matrix, as PyTorch runs it: short rows are read once, long ones three times.

A row that fits the registers of its warp is read and written once. A longer one passes by its CTA for its maximum, for
its sum and for its result: the re-reads hit L2 as long as it holds the rows in flight.
"""

import math
from collections.abc import Mapping

from gpusim.schedules.kernel_choices import RowSoftmaxChoices
from gpusim.taskgraph import (
    Fill,
    KernelBuilder,
    KernelCost,
    OnlineSoftmax,
    Role,
    RowSoftmax,
    TaskGraph,
    Tensor,
)
from gpusim.workloads import RowsWorkload


def build(workload: RowsWorkload, choices: RowSoftmaxChoices, costs: Mapping[str, KernelCost]) -> TaskGraph:
    """One kernel; `costs` may hold its constants under "softmax", its cycles a score being those of all reads."""
    rows, cols, grain = workload.rows, workload.cols, choices.grain
    group_rows = choices.cta_rows * grain
    x = Tensor("X", 1, rows, cols, workload.dtype, Role.INPUT, group_rows, cols)
    y = Tensor("Y", 1, rows, cols, workload.dtype, Role.OUTPUT, group_rows, cols)
    cta = KernelBuilder("softmax", grid=[("m", x.row_tiles), ("head", 1)], warps=4, compute_dtype=workload.dtype)
    tile = cta.buffer("rows", group_rows, cols, resident_rows=0)
    if choices.row_reads == 3:
        maximum, total, alpha = (cta.register(name, group_rows) for name in ("maximum", "sum", "alpha"))
        cta.do("maximum = −∞", Fill(maximum, -math.inf))
        for name in ("maximum", "sum"):
            cta.do("sum = 0", Fill(total, 0.0))
            cta.load(x.tile(row="m"), tile)
            cta.do(name, OnlineSoftmax(tile, maximum, total, alpha))
    cta.load(x.tile(row="m"), tile)
    cta.do("softmax", RowSoftmax(tile))
    cta.store(tile, y.tile(row="m"))
    cost = _of_a_read(costs.get("softmax"), choices.row_reads)
    return TaskGraph((cta.build(cost=cost, grain=grain, ctas_per_sm=max(1, choices.ctas_per_sm // grain)),))


def _of_a_read(cost: KernelCost | None, row_reads: int) -> KernelCost | None:
    """The constants with a read's share of the cycles a score."""
    if cost is None or cost.softmax_cycles_per_score is None:
        return cost
    return cost.model_copy(update={"softmax_cycles_per_score": cost.softmax_cycles_per_score / row_reads})
