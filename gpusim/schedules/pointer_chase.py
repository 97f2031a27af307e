"""One thread that follows pointers: every load of a line waits for the line before.

Only the lines that are hopped on are simulated; where the set has more, each stands for its share of the set in the
capacity of L2, which rounds the set to a whole number of lines a hop. TLBs are not modelled.
"""

from collections.abc import Mapping

from gpusim.schedules.kernel_choices import ChaseChoices
from gpusim.taskgraph import KernelBuilder, KernelCost, Role, Scale, TaskGraph, Tensor
from gpusim.taskgraph.tensors import ceil_div
from gpusim.workloads import ChaseWorkload
from gpusim.workloads.kernels import LINE_BYTES


def build(workload: ChaseWorkload, choices: ChaseChoices, costs: Mapping[str, KernelCost]) -> TaskGraph:
    """One kernel of one CTA with one warp; `costs` may hold its constants under "chase"."""
    set_lines = ceil_div(workload.footprint_bytes, LINE_BYTES)
    lines = min(set_lines, workload.hops)
    cols = LINE_BYTES // workload.dtype.size_bytes
    chased = Tensor("set", 1, lines, cols, workload.dtype, Role.INPUT, 1, cols)
    cta = KernelBuilder("chase", grid=[("head", 1)], warps=1, compute_dtype=workload.dtype)
    line = cta.buffer("line", 1, cols, resident_rows=0)

    def walk(index: str, hops: int) -> None:
        with cta.loop(index, hops):
            cta.load(chased.tile(row=index), line)
            cta.do("look at line", Scale(line, 1.0))

    walks, rest = divmod(workload.hops, lines)
    with cta.loop("walk", walks):
        walk("hop", lines)
    if rest:
        walk("rest", rest)
    kernel = cta.build(cost=costs.get("chase"), access="random", line_weight=round(set_lines / lines))
    return TaskGraph((kernel,))
