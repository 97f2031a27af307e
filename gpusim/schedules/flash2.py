"""FlashAttention in the FA-2 order: a Q tile stays, K and V stream past it, O is written once.

Dao, "FlashAttention-2", arXiv 2307.08691, algorithm 1. One CTA a Q tile, Q tiles fastest in the dispatch order. With a
causal mask K/V tiles behind the diagonal are skipped and those on it masked.
"""

import math
from collections.abc import Mapping

from gpusim.dtypes import DType
from gpusim.schedules.attention_tensors import keys, output, queries, row_values, softmax_scale, values
from gpusim.schedules.choices import FlashChoices
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
from gpusim.workloads import AttentionWorkload


def build(workload: AttentionWorkload, choices: FlashChoices, costs: Mapping[str, KernelCost]) -> TaskGraph:
    """One forward kernel; `costs` may hold its constants under "forward"."""
    tile_q, tile_kv = choices.tile_q, choices.tile_kv
    d, d_v = workload.head_dim, workload.head_dim_v
    scale = softmax_scale(workload)
    q_tensor, k_tensor = queries(workload, tile_q), keys(workload, tile_kv)
    v_tensor, o_tensor = values(workload, tile_kv), output(workload, tile_q)

    order = dispatch_order(choices.order, q_tensor.row_tiles, q_tensor.heads, heads_in_l2(workload))

    cta = KernelBuilder(
        "flash2_forward",
        grid=order.grid,
        warps=choices.warps,
        compute_dtype=workload.dtype,
        accumulators=choices.accumulators,
        accumulator_bytes=choices.accumulator_bytes,
    )
    q = cta.buffer("Q", tile_q, d)
    k = cta.buffer("K", tile_kv, d, stages=choices.stages)
    v = cta.buffer("V", tile_kv, d_v, stages=choices.stages)
    s = cta.accumulator("S", tile_q, tile_kv)
    o = cta.accumulator("O", tile_q, d_v)
    m = cta.accumulator("m", tile_q, 1)
    l = cta.accumulator("l", tile_q, 1)  # noqa: E741 - ℓ is the paper's name
    alpha = cta.register("alpha", tile_q)

    cta.load(q_tensor.tile(row="m"), q)
    length = load_lengths(cta, workload)
    if choices.fold_scale:
        cta.do("Q / √d", Scale(q, scale))
    for name, buffer, value in (("m = −∞", m, -math.inf), ("ℓ = 0", l, 0.0), ("O = 0", o, 0.0)):
        cta.do(name, Fill(buffer, value))
    with cta.loop("j", k_tensor.row_tiles, diagonal(workload, "m", tile_q, tile_kv)):
        cta.load(k_tensor.tile(row="j"), k)
        cta.do("S = Q Kᵀ", MatMul(q, k, s, transpose_b=True, scale=1.0 if choices.fold_scale else scale))
        mask(cta, workload, s, "m", length, masked_tiles(workload, tile_q, tile_kv))
        cta.do("online softmax", OnlineSoftmax(s, m, l, alpha))
        cta.do("rescale O", Rescale(o, alpha))
        cta.load(v_tensor.tile(row="j"), v)
        cta.do("O += P V", MatMul(s, v, o, accumulate=True))
    cta.do("O / ℓ", Normalise(o, l))
    cta.store(o, o_tensor.tile(row="m"))
    if workload.save_lse:
        lse = cta.register("lse", tile_q)
        cta.do("m + log ℓ", LogSumExp(m, l, lse))
        cta.store(lse, row_values("LSE", workload, DType.FP32, Role.SAVED, tile_q).tile(row="m"))
    kernel = cta.build(
        cost=costs.get("forward"),
        ctas_per_sm=choices.ctas_per_sm,
        band=order.band,
        descending=order.descending,
        scheduler=choices.scheduler,
        tensor_path=choices.tensor_path,
    )
    return TaskGraph((kernel,))
