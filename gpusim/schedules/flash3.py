"""FlashAttention in the FA-3 order: warp-specialised, a persistent grid, K and V through TMA.

Shah et al., "FlashAttention-3", arXiv 2407.08608, algorithm 1. Each consumer warpgroup of a CTA owns 64 rows of the Q
tile; a producer warpgroup keeps the stages of K and V filled for all of them. CTAs of a cluster multicast K and V. What
a warpgroup overlaps of its own matrix products and softmax is in the kernel's `overlap`. The wait of a work item's
first V tile for the store of the O tile before it, which takes the same shared memory, is left out.
"""

import math
from collections.abc import Mapping

from gpusim.dtypes import DType
from gpusim.schedules.attention_tensors import keys, output, queries, row_values, softmax_scale, values
from gpusim.schedules.choices import WARPGROUP_ROWS, WARPGROUP_WARPS, WarpgroupChoices
from gpusim.schedules.dispatch import dispatch_order, heads_in_l2
from gpusim.schedules.masks import diagonal, load_lengths, mask, masked_tiles
from gpusim.taskgraph import (
    Fill,
    KernelBuilder,
    KernelCost,
    LogSumExp,
    MatMul,
    Normalise,
    OnlineSoftmax,
    Rescale,
    Role,
    Scale,
    TaskGraph,
)
from gpusim.taskgraph.tensors import ceil_div
from gpusim.workloads import AttentionWorkload


def build(workload: AttentionWorkload, choices: WarpgroupChoices, costs: Mapping[str, KernelCost]) -> TaskGraph:
    """One forward kernel; `costs` may hold its constants under "forward"."""
    rows, tile_kv, consumers = WARPGROUP_ROWS, choices.tile_kv, choices.consumers
    d, d_v = workload.head_dim, workload.head_dim_v
    scale = softmax_scale(workload)
    q_tensor, o_tensor = queries(workload, rows), output(workload, rows)
    k_tensor, v_tensor = keys(workload, tile_kv), values(workload, tile_kv)
    q_tiles = ceil_div(workload.seqlen_q, choices.tile_q)
    order = dispatch_order(choices.order, q_tiles * consumers, q_tensor.heads, heads_in_l2(workload))
    shared_by = choices.cluster if q_tiles % choices.cluster == 0 else 1

    cta = KernelBuilder(
        "flash3_forward",
        grid=order.grid,
        warps=choices.warps,
        compute_dtype=workload.dtype,
        accumulators=choices.accumulators,
        accumulator_bytes=choices.accumulator_bytes,
    )
    q = cta.buffer("Q", rows, d, resident_rows=choices.tile_q)
    k = cta.buffer("K", tile_kv, d, stages=choices.stages)
    v = cta.buffer("V", tile_kv, d_v, stages=choices.stages)
    s = cta.accumulator("S", rows, tile_kv, resident_rows=choices.tile_q)
    o = cta.accumulator("O", rows, d_v, resident_rows=choices.tile_q)
    m = cta.accumulator("m", rows, 1, resident_rows=choices.tile_q)
    l = cta.accumulator("l", rows, 1, resident_rows=choices.tile_q)  # noqa: E741 - ℓ is the paper's name
    alpha = cta.register("alpha", rows)

    cta.load(q_tensor.tile(row="m"), q)
    length = load_lengths(cta, workload)
    if choices.fold_scale:
        cta.do("Q / √d", Scale(q, scale))
    for name, buffer, value in (("m = −∞", m, -math.inf), ("ℓ = 0", l, 0.0), ("O = 0", o, 0.0)):
        cta.do(name, Fill(buffer, value))
    with cta.loop("j", k_tensor.row_tiles, diagonal(workload, "m", choices.tile_q, tile_kv, consumers)):
        cta.load(k_tensor.tile(row="j"), k, shared_by=shared_by)
        cta.do("S = Q Kᵀ", MatMul(q, k, s, transpose_b=True, scale=1.0 if choices.fold_scale else scale))
        mask(cta, workload, s, "m", length, max(1, masked_tiles(workload, choices.tile_q, tile_kv)))
        cta.do("online softmax", OnlineSoftmax(s, m, l, alpha))
        cta.do("rescale O", Rescale(o, alpha))
        cta.load(v_tensor.tile(row="j"), v, shared_by=shared_by)
        cta.do("O += P V", MatMul(s, v, o, accumulate=True))
    cta.do("O / ℓ", Normalise(o, l))
    cta.store(o, o_tensor.tile(row="m"))
    if workload.save_lse:
        lse = cta.register("lse", rows)
        cta.do("m + log ℓ", LogSumExp(m, l, lse))
        cta.store(lse, row_values("LSE", workload, DType.FP32, Role.SAVED, rows).tile(row="m"))
    kernel = cta.build(
        cost=costs.get("forward"),
        ctas_per_sm=choices.ctas_per_sm,
        band=order.band,
        descending=order.descending,
        scheduler=choices.scheduler,
        warpgroups=("m", consumers),
        producer_warps=WARPGROUP_WARPS,
        registers_per_thread=choices.registers,
        producer_registers_per_thread=choices.producer_registers,
        tensor_path="wgmma",
    )
    return TaskGraph((kernel,))
