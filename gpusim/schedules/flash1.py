"""FlashAttention in the FA-1 order: K/V blocks outside, Q tiles inside; O, m and ℓ travel through device memory.

Dao et al., "FlashAttention", arXiv 2205.14135, algorithm 1. One CTA a head, as the first release launches it. O is kept
unnormalised until the last block. The first K/V block starts O, m and ℓ on chip instead of reading them.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from gpusim.dtypes import DType
from gpusim.schedules.attention_tensors import keys, output, queries, row_values, softmax_scale, values
from gpusim.schedules.choices import KvOuterChoices
from gpusim.schedules.masks import load_lengths
from gpusim.taskgraph import (
    Buffer,
    Fill,
    Guard,
    KernelBuilder,
    KernelCost,
    LogSumExp,
    MaskKeys,
    MatMul,
    Normalise,
    OnlineSoftmax,
    Rescale,
    Role,
    Scale,
    TaskGraph,
    Tensor,
)
from gpusim.taskgraph.tensors import ceil_div
from gpusim.workloads import AttentionWorkload


def build(workload: AttentionWorkload, choices: KvOuterChoices, costs: Mapping[str, KernelCost]) -> TaskGraph:
    """One forward kernel; `costs` may hold its constants under "forward"."""
    grain = min(choices.grain, ceil_div(workload.seqlen_q, choices.tile_q))
    rows, tile_kv = choices.tile_q * grain, choices.tile_kv
    (d, d_v), scale = choices.tile_cols(workload), softmax_scale(workload)
    q_tensor, o_tensor = queries(workload, rows, d), output(workload, rows, d_v)
    k_tensor, v_tensor = keys(workload, tile_kv, d), values(workload, tile_kv, d_v)
    blocks = k_tensor.row_tiles
    travelling = _travelling(workload, choices.partials, o_tensor) if blocks > 1 else ()
    first, last = Guard("j", "first"), Guard("j", "last")

    cta = KernelBuilder(
        "flash1_forward",
        grid=[("head", q_tensor.heads)],
        warps=choices.warps,
        compute_dtype=workload.dtype,
        accumulators=choices.accumulators,
        accumulator_bytes=choices.accumulator_bytes,
    )
    held, stages = choices.tile_q, choices.stages
    q = cta.buffer("Q", rows, d, stages=stages, resident_rows=held)
    k = cta.buffer("K", tile_kv, d)
    v = cta.buffer("V", tile_kv, d_v)
    s = cta.accumulator("S", rows, tile_kv, resident_rows=held)
    o = cta.accumulator("O", rows, d_v, stages=stages, resident_rows=held)
    m = cta.accumulator("m", rows, 1, stages=stages, resident_rows=held)
    l = cta.accumulator("l", rows, 1, stages=stages, resident_rows=held)  # noqa: E741 - ℓ is the paper's name
    alpha = cta.register("alpha", rows)
    running = (o, m, l)

    length = load_lengths(cta, workload)
    with cta.loop("j", blocks):
        cta.load(k_tensor.tile(row="j"), k)
        cta.load(v_tensor.tile(row="j"), v)
        with cta.loop("i", q_tensor.row_tiles):
            cta.load(q_tensor.tile(row="i"), q)
            for tensor, buffer in zip(travelling, running, strict=False):
                cta.load(tensor.tile(row="i"), buffer, Guard("j", "not_first"))
            for buffer, value in zip(running, (0.0, -math.inf, 0.0), strict=True):
                cta.do(f"start {buffer.name}", Fill(buffer, value), first)
            if choices.fold_scale:
                cta.do("Q / √d", Scale(q, scale))
            cta.do("S = Q Kᵀ", MatMul(q, k, s, transpose_b=True, scale=1.0 if choices.fold_scale else scale))
            if isinstance(length, Buffer):
                cta.do("mask keys", MaskKeys(s, length, "j"))
            cta.do("online softmax", OnlineSoftmax(s, m, l, alpha))
            cta.do("rescale O", Rescale(o, alpha))
            cta.do("O += P V", MatMul(s, v, o, accumulate=True))
            for tensor, buffer in zip(travelling, running, strict=False):
                cta.store(buffer, tensor.tile(row="i"), Guard("j", "not_last"))
            cta.do("O / ℓ", Normalise(o, l), last)
            cta.store(o, o_tensor.tile(row="i"), last)
            if workload.save_lse:
                lse = cta.register("lse", rows)
                cta.do("m + log ℓ", LogSumExp(m, l, lse), last)
                cta.store(lse, row_values("LSE", workload, DType.FP32, Role.SAVED, rows).tile(row="i"), last)
    kernel = cta.build(
        cost=_step_cost(costs.get("forward"), grain),
        ctas_per_sm=choices.ctas_per_sm,
        tensor_path=choices.tensor_path,
    )
    return TaskGraph((kernel,))


def _travelling(
    workload: AttentionWorkload, partials: Literal["output", "fp32"], o_tensor: Tensor
) -> tuple[Tensor, ...]:
    """O, m and ℓ as they lie in device memory between two K/V blocks."""
    partial, dtype = o_tensor, workload.dtype
    if partials == "fp32":
        dtype = DType.FP32
        partial = replace(o_tensor, name="O_partial", dtype=dtype, role=Role.TEMPORARY)
    rows = o_tensor.tile_rows
    return (partial, *(row_values(name, workload, dtype, Role.TEMPORARY, rows) for name in ("m", "l")))


def _step_cost(cost: KernelCost | None, grain: int) -> KernelCost | None:
    """A graph step stands for `grain` kernel steps, so what follows every step follows it `grain` times."""
    if cost is None:
        return None
    return cost.model_copy(update={"step_cycles": cost.step_cycles * grain})
