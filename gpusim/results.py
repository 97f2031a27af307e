"""One frozen result a point: what was asked, the answer, and why. JSON and rows are made from it."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

from gpusim.trace import Stall

Status = Literal["ok", "refused", "out_of_memory", "unsupported", "error"]


class KernelResult(BaseModel):
    """One kernel of a point. Latencies in ms, traffic in bytes, `busy` as shares of the elapsed time by unit."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    latency_ms: float
    operand_bytes: int
    l2_read_bytes: int
    l2_write_bytes: int
    l2_hit_rate: float
    hbm_read_bytes: int
    hbm_write_bytes: int
    smem_read_bytes: int
    smem_write_bytes: int
    executed_flops: int
    smem_bytes_per_cta: int
    registers_per_thread: int
    ctas: int
    ctas_per_sm: int
    limited_by: str
    waves: float
    bottleneck: str
    stalls: dict[Stall, float]
    busy: dict[str, float]


class PointResult(BaseModel):
    """One point: inputs, status, and for status "ok" the simulated answer.

    Latencies in ms, traffic and memory in bytes. `tflops` counts FLOPs by the convention of the published benchmarks,
    `executed_flops` what the schedule really does; `ceiling_ms` is the time of the former at the dense peak.
    `l2_read_bytes` and `l2_write_bytes` are what the SMs ask of L2 (of HBM where there is no L2). `latency_lo_ms` and
    `latency_hi_ms` are the error band of this GPU and implementation from validation; `validated` is False where there
    is none. `stalls` are shares of all CTA slots' time. None stands for what a point that was not simulated does not
    have.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    gpu: str
    schedule: str
    implementation: str
    version: str | None
    pass_: str
    dtype: str
    batch: int
    heads: int
    kv_heads: int
    seqlen_q: int
    seqlen_k: int
    head_dim: int
    head_dim_v: int
    causal: bool
    window: int | None
    dropout: float
    mask: str
    save_lse: bool
    sm_clock_mhz: float | None
    timing: str
    cache: str
    stack: str | None
    status: Status
    reason: str | None = None
    fix: str | None = None
    latency_ms: float | None = None
    latency_lo_ms: float | None = None
    latency_hi_ms: float | None = None
    validated: bool = False
    tflops: float | None = None
    operand_bytes: int | None = None
    l2_read_bytes: int | None = None
    l2_write_bytes: int | None = None
    l2_hit_rate: float | None = None
    l2_dirty_bytes: int | None = None
    hbm_read_bytes: int | None = None
    hbm_write_bytes: int | None = None
    smem_read_bytes: int | None = None
    smem_write_bytes: int | None = None
    extra_memory_bytes: int | None = None
    peak_memory_bytes: int | None = None
    flops: int | None = None
    executed_flops: int | None = None
    tile_q: int | None = None
    tile_kv: int | None = None
    stages: int | None = None
    warps: int | None = None
    accumulators: str | None = None
    smem_bytes_per_cta: int | None = None
    registers_per_thread: int | None = None
    ctas: int | None = None
    ctas_per_sm: int | None = None
    waves: float | None = None
    bound_ms: float | None = None
    roofline_ms: float | None = None
    ceiling_ms: float | None = None
    bottleneck: str | None = None
    stalls: dict[Stall, float] | None = None
    mode: str | None = None
    sampled_error: float | None = None
    kernels: tuple[KernelResult, ...] = ()

    def record(self) -> dict[str, object]:
        """The point as one JSON object, with `pass` spelled as users write it."""
        values = self.model_dump(mode="json")
        return {("pass" if name == "pass_" else name): value for name, value in values.items()}
