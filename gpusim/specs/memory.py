"""The levels of memory that all SMs share: L2 and HBM.

Both have clocks of their own, so latencies are in ns. Slices, channels and banks are not modelled one by one.
What only simulation needs may be None: unknown, as `timings.py` explains.
"""

from typing import Annotated, Self

from pydantic import BaseModel, Field, model_validator

from gpusim.strict_yaml import STRICT, NonNegativeNumber, PositiveNumber, PositiveWhole


class L2Spec(BaseModel):
    """L2 cache: `size_bytes` is the total over all partitions, `bandwidth_bytes_per_s` the read rate of all SMs.

    `latency_ns` is a hit's, averaged over near and far partitions.
    """

    model_config = STRICT

    size_bytes: PositiveWhole
    partitions: PositiveWhole
    line_bytes: PositiveWhole
    sector_bytes: PositiveWhole
    bandwidth_bytes_per_s: PositiveNumber | None
    latency_ns: PositiveNumber | None

    @model_validator(mode="after")
    def _whole_parts(self) -> Self:
        if self.line_bytes % self.sector_bytes:
            raise ValueError(f"line_bytes = {self.line_bytes} is not a multiple of sector_bytes = {self.sector_bytes}")
        if self.size_bytes < self.partitions * self.line_bytes:
            raise ValueError(f"size_bytes = {self.size_bytes} is less than one line in each of {self.partitions} parts")
        return self


class HbmSpec(BaseModel):
    """Device memory. `pin_rate_bits_per_s` is per pin, so bus width times pin rate / 8 gives the peak bandwidth.

    `stream_bandwidth_bytes_per_s` is what a long one-direction stream reaches. Mixed traffic reaches
    stream x (1 - mix_loss x f) with f = 2 min(r, w) / (r + w) of the bytes read and written. `latency_ns` is the whole
    load latency of an L2 miss on an idle GPU. `write_queue_ns` is how far posted writes may run ahead of HBM.
    """

    model_config = STRICT

    capacity_bytes: PositiveWhole
    bus_width_bits: PositiveWhole
    pin_rate_bits_per_s: PositiveNumber
    peak_bandwidth_bytes_per_s: PositiveNumber
    stream_bandwidth_bytes_per_s: PositiveNumber | None
    mix_loss: Annotated[float, Field(ge=0, lt=1)] | None
    latency_ns: PositiveNumber | None
    write_queue_ns: NonNegativeNumber

    @model_validator(mode="after")
    def _stream_within_peak(self) -> Self:
        stream = self.stream_bandwidth_bytes_per_s
        if stream is not None and stream > self.peak_bandwidth_bytes_per_s:
            raise ValueError(
                f"stream_bandwidth_bytes_per_s = {stream:g} exceeds "
                f"peak_bandwidth_bytes_per_s = {self.peak_bandwidth_bytes_per_s:g}; change both"
            )
        return self

    @property
    def bus_bandwidth_bytes_per_s(self) -> float:
        """Bandwidth that follows from bus width and pin rate, bytes/s."""
        return self.bus_width_bits * self.pin_rate_bits_per_s / 8


class MemorySpec(BaseModel):
    """What lies behind the SMs; `l2` is None on a GPU without an L2 cache."""

    model_config = STRICT

    l2: L2Spec | None
    hbm: HbmSpec
