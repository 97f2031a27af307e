"""Attention in three kernels: S = QKᵀ/√d, P = softmax(S), O = PV, with S and P written to device memory."""

import math
from collections.abc import Mapping
from functools import partial

from gpusim.dtypes import DType
from gpusim.schedules.attention_tensors import (
    causal_mask,
    key_mask,
    keys,
    matrix,
    output,
    queries,
    row_values,
    softmax_scale,
    values,
)
from gpusim.schedules.choices import NaiveChoices, ScorePass
from gpusim.schedules.gemm import stationary_gemm, tiled_gemm
from gpusim.schedules.rowwise import (
    add_pass,
    copy_pass,
    exp_pass,
    fill_pass,
    quotient_pass,
    reduce_pass,
    softmax_groups,
    softmax_tiles,
    subtract_pass,
    triangle_pass,
    where_pass,
)
from gpusim.taskgraph import Kernel, KernelCost, Role, TaskGraph, Tensor
from gpusim.workloads import AttentionWorkload

MASKED_SCORE = -10_000.0  # what the benchmarks add above the diagonal; e^−10,000 is zero in every format


def build(workload: AttentionWorkload, choices: NaiveChoices, costs: Mapping[str, KernelCost]) -> TaskGraph:
    """The three kernels, with the passes over Q, K, V and over the scores that `choices` lists.

    `costs` may hold constants under "qk", "softmax", "pv", "copy", "transpose", "elementwise", "broadcast" and
    "reduce".
    """
    if choices.accumulators == "smem":
        kernels = _stationary_kernels(workload, choices)
    else:
        kernels = _tiled_kernels(workload, choices, costs)
    return TaskGraph(tuple(kernels))


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
    qk_step, pv_step = choices.qk_step or workload.head_dim, choices.pv_step or tile_kv
    pv_rows, pv_cols = choices.pv_tile_q or tile_q, choices.pv_tile_d or workload.head_dim_v
    strip = math.gcd(choices.softmax_rows, tile_q, pv_rows)
    prepared = _Prepared(
        workload,
        choices,
        costs,
        {
            "q": queries(workload, tile_q, qk_step),
            "k": keys(workload, tile_kv, qk_step),
            "v": values(workload, pv_step, pv_cols),
        },
    )
    shape, score_tile = (workload.seqlen_q, workload.seqlen_k), (strip, math.gcd(tile_kv, pv_step))
    s = matrix("S", workload, shape, Role.TEMPORARY, score_tile)
    p = matrix("P", workload, shape, Role.TEMPORARY, score_tile)
    gemm = partial(
        tiled_gemm,
        warps=choices.warps,
        stages=choices.stages,
        ctas_per_sm=choices.ctas_per_sm,
        warp_cols=choices.warp_cols,
        tensor_path=choices.tensor_path,
    )
    scales_in_gemm = not choices.fold_scale and not choices.scaling_passes
    qk = gemm(
        "qk",
        prepared.q,
        prepared.k,
        s,
        tile_rows=tile_q,
        tile_cols=tile_kv,
        step=qk_step,
        transpose_b=not prepared.k_is_transposed,
        scale=softmax_scale(workload) if scales_in_gemm else 1.0,
        cost=costs.get("qk"),
    )
    passes, scores = _score_passes(workload, choices.score_passes, s, costs)
    if choices.softmax == "kernel":
        softmax = [softmax_groups("softmax", scores, p, cost=costs.get("softmax"))]
    else:
        softmax = _softmax_passes(workload, scores, p, costs)
    pv = gemm(
        "pv",
        p,
        prepared.v,
        output(workload, pv_rows, pv_cols),
        tile_rows=pv_rows,
        tile_cols=pv_cols,
        step=pv_step,
        transpose_b=False,
        cost=costs.get("pv"),
    )
    return [*prepared.kernels, qk, *passes, *softmax, pv]


def _score_passes(
    workload: AttentionWorkload, passes: tuple[ScorePass, ...], scores: Tensor, costs: Mapping[str, KernelCost]
) -> tuple[list[Kernel], Tensor]:
    """Kernels between QKᵀ and the softmax, and the scores after them; every pass writes a new tensor."""
    kernels: list[Kernel] = []
    for name in passes:
        following = matrix(f"S_{name}", workload, (scores.rows, scores.cols), Role.TEMPORARY, _tile(scores))
        if name == "divide":
            scale = softmax_scale(workload)
            kernels.append(copy_pass("divide", scores, following, scale=scale, cost=costs.get("elementwise")))
        elif name == "mask_keys":
            keys_mask = key_mask(workload, scores.tile_cols)
            kernels.append(add_pass("mask_keys", scores, keys_mask, following, cost=costs.get("broadcast")))
        elif name == "where_causal":
            ones = causal_mask(workload, _tile(scores))
            kernels.append(where_pass("where", scores, ones, following, -math.inf, cost=costs.get("broadcast")))
        else:
            mask = _mask_tensor("mask", scores, workload.dtype)
            kernels.extend(_mask_kernels(mask, costs))
            kernels.append(add_pass("add_mask", scores, mask, following, cost=costs.get("broadcast")))
        scores = following
    return kernels, scores


def _softmax_passes(
    workload: AttentionWorkload, scores: Tensor, probabilities: Tensor, costs: Mapping[str, KernelCost]
) -> list[Kernel]:
    """The softmax written out in operators: P = e^(S − rowmax S), divided by its row sums.

    The indices that PyTorch's maximum also writes, 8 bytes a row, are left out.
    """
    shape, tile = (scores.rows, scores.cols), _tile(scores)
    shifted, weights = (matrix(name, workload, shape, Role.TEMPORARY, tile) for name in ("S_shifted", "S_exp"))
    maxima, sums = (
        row_values(name, workload, workload.dtype, Role.TEMPORARY, scores.tile_rows) for name in ("S_max", "S_sum")
    )
    reduce, broadcast = costs.get("reduce"), costs.get("broadcast")
    return [
        reduce_pass("row_max", scores, maxima, "max", cost=reduce),
        subtract_pass("subtract_max", scores, maxima, shifted, cost=broadcast),
        exp_pass("exp", shifted, weights, cost=costs.get("elementwise")),
        reduce_pass("row_sum", weights, sums, "sum", cost=reduce),
        quotient_pass("divide_by_sum", weights, sums, probabilities, cost=broadcast),
    ]


def _tile(tensor: Tensor) -> tuple[int, int]:
    return tensor.tile_rows, tensor.tile_cols


def _mask_tensor(name: str, scores: Tensor, dtype: DType) -> Tensor:
    """One N × N matrix for all heads."""
    return Tensor(name, 1, scores.rows, scores.cols, dtype, Role.TEMPORARY, *_tile(scores))


def _mask_kernels(mask: Tensor, costs: Mapping[str, KernelCost]) -> list[Kernel]:
    """The causal mask as a benchmark builds it every call: fill in fp32, keep what is above the diagonal, convert."""
    full, upper = (_mask_tensor(name, mask, DType.FP32) for name in ("mask_full", "mask_upper"))
    cost = costs.get("elementwise")
    return [
        fill_pass("mask_fill", full, MASKED_SCORE, cost=cost),
        triangle_pass("mask_triangle", full, upper, cost=cost),
        copy_pass("mask_cast", upper, mask, cost=cost),
    ]


class _Prepared:
    """Q, K and V after the framework's own passes over them, and the kernels of those passes."""

    def __init__(
        self,
        workload: AttentionWorkload,
        choices: NaiveChoices,
        costs: Mapping[str, KernelCost],
        tensors: dict[str, Tensor],
    ) -> None:
        self.kernels: list[Kernel] = []
        self.k_is_transposed = False
        self._workload = workload
        self._costs = costs
        self._tensors = tensors
        self._is_contiguous: set[str] = set()
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
        shape, tile = (src.rows, src.cols), _tile(src)
        if kind == "transpose":
            shape, tile = (src.cols, src.rows), (src.tile_cols, src.tile_rows)
            self.k_is_transposed = True
        dst = matrix(name, self._workload, shape, Role.TEMPORARY, tile)
        scale = softmax_scale(self._workload) if kind == "scale" else 1.0
        cost = self._costs.get(self._cost_of(kind, which))
        self.kernels.append(
            copy_pass(f"{kind}_{which}", src, dst, transpose=kind == "transpose", scale=scale, cost=cost)
        )
        self._tensors[which] = dst
        if kind != "scale":
            self._is_contiguous.add(which)

    def _cost_of(self, kind: str, which: str) -> str:
        """The caller's tensors are views with strides; what a copy wrote is contiguous, and so is its scaled twin."""
        if kind == "scale" and which in self._is_contiguous:
            return "elementwise"
        return "transpose" if kind == "transpose" else "copy"
