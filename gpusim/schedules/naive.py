"""Attention in three kernels: S = QKᵀ/√d, P = softmax(S), O = PV, with S and P written to device memory."""

import math
from collections.abc import Mapping
from functools import partial

from gpusim.schedules.attention_tensors import keys, matrix, output, queries, softmax_scale, values
from gpusim.schedules.choices import NaiveChoices
from gpusim.schedules.gemm import stationary_gemm, tiled_gemm
from gpusim.schedules.rowwise import copy_pass, softmax_groups, softmax_tiles
from gpusim.taskgraph import Kernel, KernelCost, Role, TaskGraph, Tensor
from gpusim.workloads import AttentionWorkload


def build(workload: AttentionWorkload, choices: NaiveChoices, costs: Mapping[str, KernelCost]) -> TaskGraph:
    """The three kernels, after the passes `choices.prepare` lists.

    `costs` may hold constants under "qk", "softmax", "pv", "copy" and "transpose".
    """
    if choices.accumulators == "smem":
        kernels = _stationary_kernels(workload, choices)
    else:
        kernels = _tiled_kernels(workload, choices, costs)
    return TaskGraph(tuple(kernels), choices.model_dump())


def _stationary_kernels(workload: AttentionWorkload, choices: NaiveChoices) -> list[Kernel]:
    """K, then V, stays in shared memory; Q, S, P and O pass in row tiles of `tile_q`."""
    rows, n_k = choices.tile_q, workload.seqlen_k
    q, o = queries(workload, rows), output(workload, rows)
    k, v = keys(workload, n_k), values(workload, n_k)
    shape = (workload.seqlen_q, n_k)
    s = matrix("S", workload, shape, Role.TEMPORARY, (rows, n_k))
    p = matrix("P", workload, shape, Role.TEMPORARY, (rows, n_k))
    stationary = partial(
        stationary_gemm,
        warps=choices.warps,
        accumulators=choices.accumulators,
        accumulator_bytes=choices.accumulator_bytes,
    )
    scale = softmax_scale(workload)
    return [
        stationary("qk", q, k, s, transpose_b=True, scale=scale),
        softmax_tiles("softmax", s, p, accumulators=choices.accumulators, accumulator_bytes=choices.accumulator_bytes),
        stationary("pv", p, v, o, transpose_b=False, scale=1.0),
    ]


def _tiled_kernels(workload: AttentionWorkload, choices: NaiveChoices, costs: Mapping[str, KernelCost]) -> list[Kernel]:
    tile_q, tile_kv = choices.tile_q, choices.tile_kv
    pv_rows = tile_q if choices.pv_tile_q is None else choices.pv_tile_q
    strip = math.gcd(choices.softmax_rows, tile_q, pv_rows)
    scale = softmax_scale(workload)
    prepared = _Prepared(workload, choices, costs)
    shape = (workload.seqlen_q, workload.seqlen_k)
    s = matrix("S", workload, shape, Role.TEMPORARY, (strip, tile_kv))
    p = matrix("P", workload, shape, Role.TEMPORARY, (strip, tile_kv))
    gemm = partial(tiled_gemm, warps=choices.warps, stages=choices.stages, ctas_per_sm=choices.ctas_per_sm)
    qk = gemm(
        "qk",
        prepared.q,
        prepared.k,
        s,
        tile_rows=tile_q,
        tile_cols=tile_kv,
        transpose_b=not prepared.k_is_transposed,
        scale=1.0 if prepared.is_scaled else scale,
        cost=costs.get("qk"),
    )
    softmax = softmax_groups("softmax", s, p, cost=costs.get("softmax"))
    pv = gemm(
        "pv",
        p,
        prepared.v,
        output(workload, pv_rows),
        tile_rows=pv_rows,
        tile_cols=workload.head_dim_v,
        transpose_b=False,
        cost=costs.get("pv"),
    )
    return [*prepared.kernels, qk, softmax, pv]


class _Prepared:
    """Q, K and V after the framework's own passes over them, and the kernels of those passes."""

    def __init__(self, workload: AttentionWorkload, choices: NaiveChoices, costs: Mapping[str, KernelCost]) -> None:
        self.kernels: list[Kernel] = []
        self.k_is_transposed = False
        self.is_scaled = False
        self._workload = workload
        self._costs = costs
        self._tensors = {
            "q": queries(workload, choices.tile_q),
            "k": keys(workload, choices.tile_kv),
            "v": values(workload, choices.tile_kv),
        }
        folds = choices.fold_scale and not choices.scaling_passes
        for prepare in ("scale_q", *choices.prepare) if folds else choices.prepare:
            kind, which = prepare.split("_")
            self._run(kind, which)

    @property
    def q(self) -> Tensor:
        return self._tensors["q"]

    @property
    def k(self) -> Tensor:
        return self._tensors["k"]

    @property
    def v(self) -> Tensor:
        return self._tensors["v"]

    def _run(self, kind: str, which: str) -> None:
        src = self._tensors[which]
        name = f"{src.name}_{'t' if kind == 'transpose' else kind}"
        shape, tile = (src.rows, src.cols), (src.tile_rows, src.tile_cols)
        if kind == "transpose":
            shape, tile = (src.cols, src.rows), (src.tile_cols, src.tile_rows)
            self.k_is_transposed = True
        dst = matrix(name, self._workload, shape, Role.TEMPORARY, tile)
        scale = 1.0
        if kind == "scale":
            scale, self.is_scaled = softmax_scale(self._workload), True
        cost = self._costs.get("transpose" if kind == "transpose" else "copy")
        self.kernels.append(
            copy_pass(f"{kind}_{which}", src, dst, transpose=kind == "transpose", scale=scale, cost=cost)
        )
        self._tensors[which] = dst
