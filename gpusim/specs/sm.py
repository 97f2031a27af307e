"""Limits and rates of one streaming multiprocessor (SM).

Rates are per SM clock. What warps and schedulers do below these rates is not modelled.
"""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, Field, field_validator, model_validator

from gpusim.strict_yaml import STRICT, NonNegativeWhole, PositiveNumber, PositiveWhole, Share

TensorPath = Literal["mma_sync", "wgmma"]
TENSOR_DTYPES = ("fp16", "bf16", "tf32", "fp8")
WARP_THREADS = 32
# Far beyond any GPU: the simulated machine holds as many of everything, so more would only fill the host's memory.
MOST_SMS = 10_000
_MOST_WARPS = 1024


class RegisterFile(BaseModel):
    """32-bit registers of an SM. `allocation_unit_registers` is the granularity of a warp's allocation.

    `working_registers_per_thread` is what a kernel needs beside its accumulators: addresses, fragments, m and l.
    """

    model_config = STRICT

    registers_per_sm: PositiveWhole
    max_registers_per_thread: PositiveWhole
    allocation_unit_registers: PositiveWhole
    working_registers_per_thread: PositiveWhole

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        _refuse_excess(self, "working_registers_per_thread", "max_registers_per_thread")
        _refuse_excess(self, "allocation_unit_registers", "registers_per_sm")
        return self


class SmSpec(BaseModel):
    """The SMs of a GPU: how many, how fast, and what one of them holds.

    `clock_hz` is the boost clock. `tensor_clock_hz` is the clock that matrix products sustain in a loop, where the
    power limit does not decide; what runs is the lower of the two. `tensor_flop_per_clk` is dense, per SM and number
    format, on the fastest of `tensor_paths`; where that is wgmma, mma.sync reaches `mma_sync_share` of it. A CTA's
    shared memory is rounded up to `smem_allocation_unit_bytes` after `smem_reserved_per_cta_bytes` are added.
    `l2_fill_bytes_per_clk` is the rate at which one SM takes data from L2. `register_file` is None where accumulators
    can only live in shared memory; `accumulator_bytes` is the size of one accumulated number.
    """

    model_config = STRICT

    count: Annotated[PositiveWhole, Field(le=MOST_SMS)]
    clock_hz: PositiveNumber
    tensor_clock_hz: PositiveNumber
    tensor_flop_per_clk: dict[str, PositiveWhole]
    tensor_paths: tuple[TensorPath, ...] = Field(strict=False, min_length=1)
    mma_sync_share: Share | None = None
    fp32_lanes: PositiveWhole
    sfu_ops_per_clk: PositiveWhole
    smem_bytes: PositiveWhole
    smem_per_cta_max_bytes: PositiveWhole
    smem_reserved_per_cta_bytes: NonNegativeWhole
    smem_allocation_unit_bytes: PositiveWhole
    smem_bandwidth_bytes_per_clk: PositiveWhole
    register_file: RegisterFile | None
    max_threads: PositiveWhole
    max_warps: Annotated[PositiveWhole, Field(le=_MOST_WARPS)]
    max_ctas: Annotated[PositiveWhole, Field(le=_MOST_WARPS)]
    max_threads_per_cta: PositiveWhole
    accumulator_bytes: PositiveWhole
    l2_fill_bytes_per_clk: PositiveWhole

    @field_validator("tensor_flop_per_clk")
    @classmethod
    def _known_formats(cls, rates: dict[str, int]) -> dict[str, int]:
        unknown = [name for name in rates if name not in TENSOR_DTYPES]
        if unknown:
            raise ValueError(f"unknown number format {', '.join(unknown)}; choose from {', '.join(TENSOR_DTYPES)}")
        return rates

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        needed = self.smem_per_cta_max_bytes + self.smem_reserved_per_cta_bytes
        if needed > self.smem_bytes:
            raise ValueError(
                f"smem_per_cta_max_bytes = {self.smem_per_cta_max_bytes} plus smem_reserved_per_cta_bytes = "
                f"{self.smem_reserved_per_cta_bytes} exceeds smem_bytes = {self.smem_bytes}"
            )
        _refuse_excess(self, "max_threads_per_cta", "max_threads")
        if ("wgmma" in self.tensor_paths) == (self.mma_sync_share is None):
            raise ValueError(
                f"mma_sync_share = {self.mma_sync_share} with tensor_paths = {list(self.tensor_paths)}; state the "
                "share of the wgmma rate that mma.sync reaches where, and only where, there is wgmma"
            )
        if self.max_threads > WARP_THREADS * self.max_warps:
            raise ValueError(f"max_threads = {self.max_threads} exceeds max_warps = {self.max_warps} of 32 threads")
        return self


def _refuse_excess(spec: BaseModel, part: str, whole: str) -> None:
    if getattr(spec, part) > getattr(spec, whole):
        raise ValueError(f"{part} = {getattr(spec, part)} exceeds {whole} = {getattr(spec, whole)}")
