"""Our CUDA kernels as tests need them: plans, machine code, small launches, and what their result must be."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt

from gpusim.implementations import Plan, ScheduleRequest, plan
from gpusim.specs import GpuSpec, load_gpu
from gpusim.workloads import AttentionWorkload
from validation.collect.work import Array, Values, Work
from validation.kernels import CudaKernel, Problem, attention_work
from validation.nvrtc import Cubin, compile_cubin

A100, H100 = load_gpu("a100_sxm4_80gb"), load_gpu("h100_sxm5_80gb")
# No GPU file has compute capability 10.0; shared memory, registers and threads of its SM are those of 9.0 (CUDA
# Programming Guide, compute capabilities).
GPUS: Mapping[str, GpuSpec] = {"sm_80": A100, "sm_90": H100, "sm_90a": H100, "sm_100": H100}
ROUNDOFF = {"float16": 2.0**-11, "bfloat16": 2.0**-8}  # half a unit in the last place of a number in [1, 2)
FP32_ERROR = 1e-5  # what fp32 sums of some thousand terms, ex2.approx and fp16 probabilities below 2⁻¹⁴ add


@dataclass(frozen=True, slots=True)
class Variant:
    """What a kernel is compiled for."""

    head_dim: int
    dtype: str
    causal: bool = False

    def __str__(self) -> str:
        return f"{self.head_dim}-{self.dtype}{'-causal' if self.causal else ''}"


def planned(
    implementation: str, spec: GpuSpec, choices: Mapping[str, object] | None = None, **fields: object
) -> tuple[Plan, AttentionWorkload]:
    """The plan of a workload, one batch entry and the fields given, and the workload."""
    shape = {"batch": 1, "heads": 1, "seqlen_q": 512, "seqlen_k": 512, "head_dim": 64}
    workload = AttentionWorkload.model_validate(shape | fields)
    return plan(ScheduleRequest(implementation, None, choices or {}), spec, workload), workload


def problem_of(row: CudaKernel, arch: str, variant: Variant) -> Problem:
    """A row's kernel in the task graph of 512 queries and keys."""
    fields = {"head_dim": variant.head_dim, "dtype": variant.dtype, "causal": variant.causal}
    planned_, workload = planned(row.implementation, GPUS[arch], **fields)
    (kernel,) = (kernel for kernel in planned_.graph.kernels if kernel.name == row.kernel)
    return Problem(workload, planned_.choices, kernel)  # type: ignore[arg-type]


@cache
def compiled(row: CudaKernel, arch: str, variant: Variant) -> Cubin:
    """A row's machine code."""
    program = row.program(problem_of(row, arch, variant), GPUS[arch])
    return compile_cubin(program.file, arch, dict(program.defines))


@cache
def instructions(row: CudaKernel, arch: str, variant: Variant) -> Counter[str]:
    """Its static SASS instructions."""
    return compiled(row, arch, variant).instructions()


def work_of(
    implementation: str, choices: Mapping[str, object] | None = None, **fields: object
) -> tuple[Work, AttentionWorkload]:
    """The launches of a workload on an A100; what kernels write starts as NaN, so that a number left out shows."""
    planned_, workload = planned(implementation, A100, choices, **fields)
    work = attention_work(planned_, A100, workload)
    arrays = {name: array if array.fill == "normal" else _unset(array) for name, array in work.arrays.items()}
    return replace(work, arrays=arrays), workload


def _unset(array: Array) -> Array:
    return replace(array, make=lambda: np.full(array.size_bytes, 0xFF, np.uint8).view(array.host_dtype))


@dataclass(frozen=True, slots=True)
class Expected:
    """Output (heads, seqlen_q, d), the error that each of its numbers may have, and log-sum-exp (heads, seqlen_q)."""

    o: npt.NDArray[np.float64]
    tolerance: npt.NDArray[np.float64]
    lse: npt.NDArray[np.float64]

    def is_met(self, work: Work, arrays: Mapping[str, Values]) -> bool:
        """Whether a run of the work, which left these arrays, is right; NaN is not."""
        o = work.arrays["o"].unpacked(arrays["o"]).reshape(self.o.shape)
        if not np.all(np.abs(o - self.o) <= self.tolerance):
            return False
        if "lse" not in work.read_back:
            return True
        lse = arrays["lse"].reshape(self.lse.shape).astype(np.float64)
        return np.allclose(lse, self.lse, rtol=FP32_ERROR, atol=FP32_ERROR)


def expected(work: Work, workload: AttentionWorkload) -> Expected:
    """Attention of the work's q, k and v; the last query of a causal mask sees the last key.

    With unit roundoff u, P and O are rounded once each: |error| ≤ 2 u Σ p|v|. Where S goes through device memory it is
    rounded too, and every p may be off by another 2 u max|S|.
    """
    q, k, v = (_matrix(work, name, workload) for name in ("q", "k", "v"))
    scores = q @ k.swapaxes(1, 2) / np.sqrt(workload.head_dim)
    largest = np.abs(scores).max() if "s" in work.arrays else 0.0
    if workload.causal:
        rows, keys = scores.shape[1:]
        scores = np.where(np.arange(keys) > np.arange(rows)[:, None] + keys - rows, -np.inf, scores)
    top = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isneginf(top), 0.0, top))
    sums = weights.sum(axis=-1, keepdims=True)
    p = np.divide(weights, sums, out=np.zeros_like(weights), where=sums > 0)  # a query without keys has output 0
    with np.errstate(divide="ignore"):
        lse = (top + np.log(sums))[..., 0]
    tolerance = (2 + 2 * largest) * ROUNDOFF[work.arrays["q"].dtype] * (p @ np.abs(v)) + FP32_ERROR
    return Expected(p @ v, tolerance, lse)


def _matrix(work: Work, name: str, workload: AttentionWorkload) -> npt.NDArray[np.float64]:
    array = work.arrays[name]
    return array.unpacked(array.values()).reshape(workload.batch * workload.heads, -1, workload.head_dim)
