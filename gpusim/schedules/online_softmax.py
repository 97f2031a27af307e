"""The forward program of FlashAttention with a running softmax: a Q tile stays, K and V stream past it.

A schedule says who runs it: a whole CTA, or each consumer warpgroup of one for its rows of the CTA's Q tile.
"""

import math

from gpusim.dtypes import DType
from gpusim.schedules.attention_tensors import keys, output, queries, row_values, softmax_scale, values
from gpusim.schedules.choices import FlashChoices
from gpusim.schedules.masks import diagonal, load_lengths, mask, masked_tiles
from gpusim.taskgraph import Fill, KernelBuilder, LogSumExp, MatMul, Normalise, OnlineSoftmax, Rescale, Role, Scale
from gpusim.workloads import AttentionWorkload


def write_forward(
    cta: KernelBuilder,
    workload: AttentionWorkload,
    choices: FlashChoices,
    *,
    rows: int,
    shared_by: int = 1,
    least_masked: int = 0,
    packed: int = 1,
) -> None:
    """Buffers and tasks for `rows` query rows, block m of Q, where a CTA has `choices.tile_q` of them.

    K and V tiles are multicast to `shared_by` CTAs; at least `least_masked` of the last tiles are masked. A query has a
    row for each of `packed` heads that share K and V.
    """
    tile_q, tile_kv, stages = choices.tile_q, choices.tile_kv, choices.stages
    (d, d_v), scale = choices.tile_cols(workload), softmax_scale(workload)
    q_tensor, o_tensor = queries(workload, rows, d, packed), output(workload, rows, d_v, packed)
    k_tensor, v_tensor = keys(workload, tile_kv, d), values(workload, tile_kv, d_v)

    q = cta.buffer("Q", rows, d, resident_rows=tile_q)
    k = cta.buffer("K", tile_kv, d, stages=stages)
    v = cta.buffer("V", tile_kv, d_v, stages=stages)
    s = cta.accumulator("S", rows, tile_kv, resident_rows=tile_q)
    o = cta.accumulator("O", rows, d_v, resident_rows=tile_q)
    m = cta.accumulator("m", rows, 1, resident_rows=tile_q)
    l = cta.accumulator("l", rows, 1, resident_rows=tile_q)  # noqa: E741 - ℓ is the paper's name
    alpha = cta.register("alpha", rows)

    cta.load(q_tensor.tile(row="m"), q)
    length = load_lengths(cta, workload, packed)
    if choices.fold_scale:
        cta.do("Q / √d", Scale(q, scale))
    for name, buffer, value in (("m = −∞", m, -math.inf), ("ℓ = 0", l, 0.0), ("O = 0", o, 0.0)):
        cta.do(name, Fill(buffer, value))
    with cta.loop("j", k_tensor.row_tiles, diagonal(workload, "m", tile_q, tile_kv, tile_q // rows, packed)):
        cta.load(k_tensor.tile(row="j"), k, shared_by=shared_by)
        cta.do("S = Q Kᵀ", MatMul(q, k, s, transpose_b=True, scale=1.0 if choices.fold_scale else scale))
        num_masked = max(least_masked, masked_tiles(workload, tile_q, tile_kv, packed))
        mask(cta, workload, s, "m", length, num_masked, packed)
        cta.do("online softmax", OnlineSoftmax(s, m, l, alpha))
        cta.do("rescale O", Rescale(o, alpha))
        cta.load(v_tensor.tile(row="j"), v, shared_by=shared_by)
        cta.do("O += P V", MatMul(s, v, o, accumulate=True))
    cta.do("O / ℓ", Normalise(o, l))
    cta.store(o, o_tensor.tile(row="m"))
    if workload.save_lse:
        lse = cta.register("lse", rows)
        cta.do("m + log ℓ", LogSumExp(m, l, lse))
        cta.store(lse, row_values("LSE", workload, DType.FP32, Role.SAVED, rows, packed).tile(row="m"))
