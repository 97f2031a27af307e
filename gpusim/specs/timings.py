"""The numbers that only simulation needs, all of them known: here a fit-only GPU and one that simulates part ways.

In `memory.py` and `gpu.py` these fields may be None. `GpuSpec.timings` refuses such a GPU once, so that everything
that runs over time reads plain numbers. What each number means stands beside the field of the same name there.
"""

from pydantic import BaseModel

from gpusim.strict_yaml import STRICT


class L2Timings(BaseModel):
    """Timing of the L2 cache."""

    model_config = STRICT

    bandwidth_bytes_per_s: float
    write_bandwidth_bytes_per_s: float
    near_latency_ns: float
    far_latency_ns: float
    knee: float


class HbmTimings(BaseModel):
    """Timing of device memory."""

    model_config = STRICT

    stream_bandwidth_bytes_per_s: float
    large_read_bandwidth_bytes_per_s: float
    large_footprint_bytes: int
    mix_loss: float
    stream_latency_ns: float
    near_latency_ns: float
    far_latency_ns: float
    channels: int
    channel_bytes: int


class LaunchTimings(BaseModel):
    """Cost of starting kernels and CTAs."""

    model_config = STRICT

    isolated_ns: float
    stream_ns: float
    graph_ns: float
    ctas_per_s: float


class Timings(BaseModel):
    """Timing of a whole GPU; `l2` is None on a GPU without an L2 cache."""

    model_config = STRICT

    l2: L2Timings | None
    hbm: HbmTimings
    launch: LaunchTimings
