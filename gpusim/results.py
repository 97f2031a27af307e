"""One frozen result a point: what was asked, the answer, and why. JSON and rows are made from it."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

from gpusim.trace import Stall
from gpusim.workloads import WORKLOADS, CacheReadWorkload, Workload

Status = Literal["ok", "refused", "out_of_memory", "unsupported", "error"]


class KernelResult(BaseModel):
    """One kernel of a point. Latencies in ms, traffic in bytes, `busy` as shares of the elapsed time by unit.

    `sustained_clock_mhz` is the SM clock that its main loop holds; `power_w` the board's mean power while it runs, None
    where energies are unknown and for kernels without both matrix and softmax work.
    """

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
    sustained_clock_mhz: float
    power_w: float | None


class PointResult(BaseModel):
    """One point: inputs, status, and for status "ok" the simulated answer.

    Latencies in ms, traffic and memory in bytes. `tflops` counts FLOPs by the convention of the published benchmarks,
    `executed_flops` what the schedule really does; `ceiling_ms` is the time of the former at the dense peak.
    `operand_gb_per_s` is each kernel's inputs once and outputs once over the latency, in 10⁹ bytes/s;
    `latency_per_hop_ns` is a pointer chase's. `overrides` is what was set over the GPU's file, as --set takes it.
    `l2_read_bytes` and `l2_write_bytes` are what the SMs ask of L2 (of HBM where there is no L2). `latency_lo_ms`
    and `latency_hi_ms` are the error band that measurements under these conditions give; `validated` is False where
    there is none, and `validation` says what the band rests on, or what was measured instead. `sustained_clock_mhz`
    and `power_w` are those of the longest kernel. `stalls` are shares of all CTA slots' time. None stands for what
    a point does not have: the fields of other kinds of workloads, and answers where it was not simulated.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    gpu: str
    schedule: str
    implementation: str
    version: str | None
    pass_: str | None = None
    dtype: str
    batch: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    seqlen_q: int | None = None
    seqlen_k: int | None = None
    head_dim: int | None = None
    head_dim_v: int | None = None
    causal: bool | None = None
    window: int | None = None
    dropout: float | None = None
    mask: str | None = None
    save_lse: bool | None = None
    m: int | None = None
    n: int | None = None
    k: int | None = None
    rows: int | None = None
    cols: int | None = None
    elements: int | None = None
    loads: int | None = None
    stores: int | None = None
    threads_per_cta: int | None = None
    footprint_bytes: int | None = None
    part_bytes: int | None = None
    hops: int | None = None
    rounds: int | None = None
    sm_clock_mhz: float | None
    timing: str
    cache: str
    stack: str | None
    overrides: str | None = None
    status: Status
    reason: str | None = None
    fix: str | None = None
    latency_ms: float | None = None
    latency_lo_ms: float | None = None
    latency_hi_ms: float | None = None
    validated: float | Literal[False] = False
    validation: str | None = None
    tflops: float | None = None
    operand_gb_per_s: float | None = None
    latency_per_hop_ns: float | None = None
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
    tile_m: int | None = None
    tile_n: int | None = None
    tile_k: int | None = None
    stages: int | None = None
    warps: int | None = None
    accumulators: str | None = None
    order: str | None = None
    scheduler: str | None = None
    smem_bytes_per_cta: int | None = None
    registers_per_thread: int | None = None
    ctas: int | None = None
    ctas_per_sm: int | None = None
    waves: float | None = None
    sustained_clock_mhz: float | None = None
    power_w: float | None = None
    bound_ms: float | None = None
    bound_by: str | None = None
    roofline_ms: float | None = None
    ceiling_ms: float | None = None
    bottleneck: str | None = None
    stalls: dict[Stall, float] | None = None
    mode: str | None = None
    sampled_error: float | None = None
    kernels: tuple[KernelResult, ...] = ()

    @property
    def kind(self) -> type[Workload]:
        """Its kind of workload: the one of which it has the most fields."""
        return max(WORKLOADS, key=lambda kind: sum(getattr(self, name) is not None for name in kind.model_fields))

    @property
    def machine(self) -> str:
        """The GPU by name, with what was set over its file: two machines are never called the same for that."""
        return self.gpu if self.overrides is None else f"{self.gpu} with {self.overrides}"

    @property
    def size(self) -> int:
        """What a sweep of this kind of workload is drawn against."""
        value: int = getattr(self, self.kind.size_field)
        return value

    @property
    def gb_per_s(self) -> float | None:
        """The rate that a kernel without FLOPs is known by, 10⁹ bytes/s: all reads of a cache, else operands."""
        if self.kind is CacheReadWorkload and self.l2_read_bytes is not None and self.latency_ms is not None:
            return self.l2_read_bytes / self.latency_ms / 1e6
        return self.operand_gb_per_s

    @classmethod
    def columns(cls) -> list[str]:
        """Names of the values of a row: fields as users write them, stalls as a column a reason, kernels left out."""
        stalls = [f"stall_{reason.value}" for reason in Stall]
        fields = ["pass" if field == "pass_" else field for field in cls.model_fields if field != "kernels"]
        place = fields.index("stalls")
        return [*fields[:place], *stalls, *fields[place + 1 :]]

    def row(self) -> dict[str, object]:
        """The point as one flat row by column, for a data frame: None where it has no value, no error band included."""
        shares = self.stalls or {}
        values: dict[str, object] = {f"stall_{reason.value}": shares.get(reason) for reason in Stall}
        values |= {"pass": self.pass_, "validated": self.validated or None}
        return {name: values[name] if name in values else getattr(self, name) for name in self.columns()}

    def record(self) -> dict[str, object]:
        """The point as one JSON object, with `pass` spelled as users write it."""
        values = self.model_dump(mode="json")
        return {("pass" if name == "pass_" else name): value for name, value in values.items()}
