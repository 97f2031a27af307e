"""FlashAttention in the FA-3 order: warp-specialised, a persistent grid, K and V through TMA.

Shah et al., "FlashAttention-3", arXiv 2407.08608, algorithm 1. Each consumer warpgroup of a CTA owns 64 rows of the Q
tile; a producer warpgroup keeps the stages of K and V filled for all of them. CTAs of a cluster multicast K and V. What
a warpgroup overlaps of its own matrix products and softmax is in the kernel's `overlap`. The wait of a work item's
first V tile for the store of the O tile before it, which takes the same shared memory, is left out.
"""

from collections.abc import Mapping

from gpusim.schedules.choices import WARPGROUP_ROWS, WARPGROUP_WARPS, WarpgroupChoices
from gpusim.schedules.dispatch import dispatch_order, heads_in_l2
from gpusim.schedules.online_softmax import write_forward
from gpusim.taskgraph import KernelBuilder, KernelCost, TaskGraph
from gpusim.taskgraph.tensors import ceil_div
from gpusim.workloads import AttentionWorkload


def build(workload: AttentionWorkload, choices: WarpgroupChoices, costs: Mapping[str, KernelCost]) -> TaskGraph:
    """One forward kernel; `costs` may hold its constants under "forward".

    The last K/V tile is always masked, whether anything in it is hidden or not, as the released kernel does.
    """
    packed = workload.heads // workload.kv_heads if choices.pack_gqa else 1
    q_tiles, heads = ceil_div(workload.seqlen_q * packed, choices.tile_q), workload.batch * workload.heads // packed
    order = dispatch_order(choices.order, q_tiles * choices.consumers, heads, heads_in_l2(workload) // packed)
    cta = KernelBuilder(
        "flash3_forward",
        grid=order.grid,
        warps=choices.warps,
        compute_dtype=workload.dtype,
        accumulators=choices.accumulators,
        accumulator_bytes=choices.accumulator_bytes,
    )
    shared_by = choices.cluster if q_tiles % choices.cluster == 0 else 1
    write_forward(cta, workload, choices, rows=WARPGROUP_ROWS, shared_by=shared_by, least_masked=1, packed=packed)
    kernel = cta.build(
        cost=costs.get("forward"),
        ctas_per_sm=choices.ctas_per_sm,
        band=order.band,
        descending=order.descending,
        scheduler=choices.scheduler,
        warpgroups=("m", choices.consumers),
        producer_warps=WARPGROUP_WARPS,
        registers_per_thread=choices.registers,
        producer_registers_per_thread=choices.producer_registers,
        tensor_path="wgmma",
    )
    return TaskGraph((kernel,))
