"""Whether a row claims more than its GPU can do: such a row, its clock or its size is not what it says.

The ceiling of a latency is the longer of two times: that of the workload's FLOPs at the dense peak, and that of the
bytes that cannot lie in L2 at HBM's peak. What a sparse kernel or a sliding window skips is counted as FLOPs all the
same, so those bind nobody. A GPU needs no timings for this: fit-only GPUs have a ceiling too.
"""

from dataclasses import dataclass

from gpusim.analytic.bounds import ceiling_ms, peak_flop_per_s
from gpusim.dtypes import DType
from gpusim.measured.aliases import alias_table, look_up
from gpusim.measured.rows import MeasuredRow
from gpusim.specs import GpuSpec
from gpusim.workloads import Workload, compulsory_bytes


@dataclass(frozen=True)
class Claim:
    """A rate in TFLOP/s that a row states, on a GPU preset; `dtype` is None for a format that is not modelled."""

    gpu: str
    dtype: DType | None
    tflops: float


def above_ceiling(row: MeasuredRow, spec: GpuSpec) -> str | None:
    """What the row claims that this GPU at the row's clock cannot do; None where it can, or nothing is known."""
    if row.latency_ms is None:
        return None
    spec = spec.at_clock(row.conditions.sm_clock_mhz)
    skips_flops = is_sparse(row.kernel) or getattr(row.workload, "window", None) is not None
    limits = {
        f"its FLOPs at the dense peak of {spec.name}": 0.0 if skips_flops else _flops_ms(row.workload, spec),
        f"its bytes beyond L2 at the HBM peak of {spec.name}": _hbm_ms(row.workload, spec),
    }
    what = max(limits, key=lambda name: limits[name])
    if row.latency_ms >= limits[what]:
        return None
    return f"{row.latency_ms:.4g} ms is shorter than {limits[what]:.4g} ms, {what}"


def is_sparse(kernel: str) -> bool:
    """Whether a kernel of this spelling skips scores that its FLOPs count."""
    alias = look_up(alias_table().kernels, kernel)
    return alias is not None and alias.is_sparse


def claims_too_much(claim: Claim, spec: GpuSpec) -> str | None:
    """What a bare rate claims that this GPU cannot do; None where it can."""
    if claim.dtype is None:
        peak, what = max(map(spec.tensor_peak_flop_per_s, spec.sm.tensor_flop_per_clk)) / 1e12, "highest dense"
    elif _has_rate(spec, claim.dtype):
        peak, what = peak_flop_per_s(spec, claim.dtype) / 1e12, f"dense {claim.dtype}"
    else:
        return None
    if claim.tflops <= peak:
        return None
    return f"{claim.tflops:.4g} TFLOP/s is above {peak:.4g} TFLOP/s, the {what} peak of {spec.name}"


def _has_rate(spec: GpuSpec, dtype: DType) -> bool:
    return dtype is DType.FP32 or dtype in spec.sm.tensor_flop_per_clk


def _flops_ms(workload: Workload, spec: GpuSpec) -> float:
    """0 for a workload without FLOPs, and for a format without a matrix rate."""
    return ceiling_ms(workload, spec) if _has_rate(spec, workload.dtype) else 0.0


def _hbm_ms(workload: Workload, spec: GpuSpec) -> float:
    l2_bytes = 0 if spec.memory.l2 is None else spec.memory.l2.size_bytes
    return 1e3 * max(0, compulsory_bytes(workload) - l2_bytes) / spec.memory.hbm.peak_bandwidth_bytes_per_s
