"""The time no simulation may beat, and the plain roofline it is compared with."""

from dataclasses import dataclass

from gpusim.dtypes import DType
from gpusim.specs import GpuSpec, SmSpec
from gpusim.specs.sm import TensorPath
from gpusim.workloads import AttentionWorkload, Cache, Workload, compulsory_bytes


@dataclass(frozen=True, slots=True)
class Bound:
    """Closed-form lower bound in ms, and the resource that sets it."""

    ms: float
    resource: str


def peak_flop_per_s(spec: GpuSpec, dtype: DType) -> float:
    """Dense matrix rate at the SM clock, FLOP/s: tensor cores, or FP32 lanes (2 FLOP a lane and clock) for fp32."""
    return float(matmul_flop_per_clk(spec.sm, dtype)) * spec.sm.count * spec.sm.clock_hz


def matmul_flop_per_clk(sm: SmSpec, dtype: DType, path: TensorPath | None = None) -> float:
    """Dense matrix FLOP per clock and SM: tensor cores by their instructions `path` (None: the fastest), or a
    multiply-add a lane for fp32."""
    if dtype is DType.FP32:
        return 2 * sm.fp32_lanes
    share = sm.mma_sync_share if path == "mma_sync" and sm.mma_sync_share is not None else 1.0
    return share * sm.tensor_flop_per_clk[dtype]


def matrix_pipe(dtype: DType) -> str:
    """Name of the pipe that multiplies matrices of this format, whose peak a roofline has to use."""
    return "fp32 lanes" if dtype is DType.FP32 else f"tensor {dtype}"


def ceiling_ms(workload: Workload, spec: GpuSpec) -> float:
    """Time in ms of the workload's FLOPs at the dense peak and the SM clock: no measurement can be shorter."""
    return 1e3 * _needed_flops(workload) / peak_flop_per_s(spec, workload.dtype)


def _needed_flops(workload: Workload) -> int:
    """FLOPs of the convention or, where a causal mask hides more than half of the scores, of what it leaves."""
    return workload.least_flops if isinstance(workload, AttentionWorkload) else workload.flops


def lower_bound(workload: Workload, spec: GpuSpec, cache: Cache) -> Bound:
    """Largest of least FLOPs/peak, bytes that must cross HBM/peak, and exponentials/SFU rate; never zero.

    Outputs may stay in L2 at the end, and with a warm cache inputs may lie there at the start, so L2's size is taken
    off what must cross. What computes nothing and need not cross at all still passes the port of L2.
    """
    hbm, l2 = spec.memory.hbm, spec.memory.l2
    l2_bytes = 0 if l2 is None else l2.size_bytes
    if cache == "cold":
        crossing = workload.input_bytes + max(0, workload.output_bytes - l2_bytes)
    else:
        crossing = max(0, compulsory_bytes(workload) - l2_bytes)
    seconds = {
        matrix_pipe(workload.dtype): _needed_flops(workload) / peak_flop_per_s(spec, workload.dtype),
        "HBM": crossing / hbm.peak_bandwidth_bytes_per_s,
        "special functions": workload.exps / spec.sfu_peak_ops_per_s,
    }
    if l2 is not None and l2.bandwidth_bytes_per_s is not None and not any(seconds.values()):
        seconds["L2"] = compulsory_bytes(workload) / l2.bandwidth_bytes_per_s
    resource = max(seconds, key=lambda name: seconds[name])
    return Bound(1e3 * seconds[resource], resource)


def roofline_ms(workload: Workload, operand_bytes: int, spec: GpuSpec) -> float:
    """Plain roofline in ms: the larger of FLOPs/peak and each kernel's operands once/HBM peak."""
    flops_s = _needed_flops(workload) / peak_flop_per_s(spec, workload.dtype)
    bytes_s = operand_bytes / spec.memory.hbm.peak_bandwidth_bytes_per_s
    return 1e3 * max(flops_s, bytes_s)
