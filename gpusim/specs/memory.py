"""The levels of memory that all SMs share: L2 and HBM.

Both have clocks of their own, so latencies are in ns. Slices and banks are not modelled one by one.
What only simulation needs may be None: unknown, as `timings.py` explains.
"""

from typing import Annotated, Self

from pydantic import BaseModel, Field, model_validator

from gpusim.strict_yaml import STRICT, NonNegativeNumber, PositiveNumber, PositiveWhole

MOST_CHANNELS = 4096  # far beyond any GPU; the simulated machine holds as many


class L2Spec(BaseModel):
    """L2 cache: `size_bytes` is the total over all partitions.

    `bandwidth_bytes_per_s` is the rate at which all SMs read, `write_bandwidth_bytes_per_s` that at which they write.
    `near_latency_ns` is a hit's in the partition next to the SM, `far_latency_ns` in the other one. `knee` says how
    softly the capacity C ends: at a stack distance D beyond it a share exp(-(D/C - 1)/knee) is still there; 0 is a hard
    end.
    """

    model_config = STRICT

    size_bytes: PositiveWhole
    partitions: PositiveWhole
    line_bytes: PositiveWhole
    sector_bytes: PositiveWhole
    bandwidth_bytes_per_s: PositiveNumber | None
    write_bandwidth_bytes_per_s: PositiveNumber | None
    near_latency_ns: PositiveNumber | None
    far_latency_ns: PositiveNumber | None
    knee: NonNegativeNumber | None

    @model_validator(mode="after")
    def _whole_parts(self) -> Self:
        if self.partitions > 2:
            raise ValueError(f"partitions = {self.partitions}, but an L2 of one or two is all that is modelled")
        if self.line_bytes % self.sector_bytes:
            raise ValueError(f"line_bytes = {self.line_bytes} is not a multiple of sector_bytes = {self.sector_bytes}")
        if self.size_bytes < self.partitions * self.line_bytes:
            raise ValueError(f"size_bytes = {self.size_bytes} is less than one line in each of {self.partitions} parts")
        return self

    @model_validator(mode="after")
    def _far_is_no_nearer(self) -> Self:
        _check_order("near_latency_ns", self.near_latency_ns, "far_latency_ns", self.far_latency_ns)
        return self


class HbmSpec(BaseModel):
    """Device memory. `pin_rate_bits_per_s` is per pin, so bus width times pin rate / 8 gives the peak bandwidth.

    `stream_bandwidth_bytes_per_s` is what a long one-direction stream reaches. Mixed traffic reaches
    stream x (1 - mix_loss x f) with f = 2 min(r, w) / (r + w) of the bytes read and written. A kernel whose tensors
    exceed `large_footprint_bytes` reads no faster than `large_read_bandwidth_bytes_per_s`.

    Latencies are of a whole load that misses L2 on an idle GPU: `stream_latency_ns` in a stream, `near_latency_ns` and
    `far_latency_ns` of dependent random loads through the near and the far L2 partition. `write_queue_ns` is how far
    posted writes may run ahead of HBM. Neighbouring chunks of `channel_bytes` lie on neighbouring `channels`.
    """

    model_config = STRICT

    capacity_bytes: PositiveWhole
    bus_width_bits: PositiveWhole
    pin_rate_bits_per_s: PositiveNumber
    peak_bandwidth_bytes_per_s: PositiveNumber
    stream_bandwidth_bytes_per_s: PositiveNumber | None
    large_read_bandwidth_bytes_per_s: PositiveNumber | None
    large_footprint_bytes: PositiveWhole | None
    mix_loss: Annotated[float, Field(ge=0, lt=1)] | None
    stream_latency_ns: PositiveNumber | None
    near_latency_ns: PositiveNumber | None
    far_latency_ns: PositiveNumber | None
    write_queue_ns: NonNegativeNumber
    channels: Annotated[PositiveWhole, Field(le=MOST_CHANNELS)] | None
    channel_bytes: PositiveWhole | None

    @model_validator(mode="after")
    def _bandwidths_and_latencies_in_order(self) -> Self:
        stream, peak = self.stream_bandwidth_bytes_per_s, self.peak_bandwidth_bytes_per_s
        _check_order("stream_bandwidth_bytes_per_s", stream, "peak_bandwidth_bytes_per_s", peak)
        _check_order("near_latency_ns", self.near_latency_ns, "far_latency_ns", self.far_latency_ns)
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


def _check_order(name: str, value: float | None, limit_name: str, limit: float | None) -> None:
    if value is not None and limit is not None and value > limit:
        raise ValueError(f"{name} = {value:g} exceeds {limit_name} = {limit:g}; change both")
