"""FlashAttention in the FA-2 order: a Q tile stays, K and V stream past it, O is written once.

Dao, "FlashAttention-2", arXiv 2307.08691, algorithm 1. One CTA a Q tile, Q tiles fastest in the dispatch order. With a
causal mask K/V tiles behind the diagonal are skipped and those on it masked.
"""

from collections.abc import Mapping

from gpusim.schedules.choices import FlashChoices
from gpusim.schedules.dispatch import dispatch_order, heads_in_l2
from gpusim.schedules.online_softmax import write_forward
from gpusim.taskgraph import KernelBuilder, KernelCost, TaskGraph
from gpusim.taskgraph.tensors import ceil_div
from gpusim.workloads import AttentionWorkload


def build(workload: AttentionWorkload, choices: FlashChoices, costs: Mapping[str, KernelCost]) -> TaskGraph:
    """One forward kernel; `costs` may hold its constants under "forward"."""
    q_tiles, heads = ceil_div(workload.seqlen_q, choices.tile_q), workload.batch * workload.heads
    order = dispatch_order(choices.order, q_tiles, heads, heads_in_l2(workload))
    cta = KernelBuilder(
        "flash2_forward",
        grid=order.grid,
        warps=choices.warps,
        compute_dtype=workload.dtype,
        accumulators=choices.accumulators,
        accumulator_bytes=choices.accumulator_bytes,
    )
    write_forward(cta, workload, choices, rows=choices.tile_q)
    kernel = cta.build(
        cost=costs.get("forward"),
        ctas_per_sm=choices.ctas_per_sm,
        band=order.band,
        descending=order.descending,
        scheduler=choices.scheduler,
        tensor_path=choices.tensor_path,
    )
    return TaskGraph((kernel,))
