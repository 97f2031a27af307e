"""How a latency was taken: which clock, what the timer included, and what the caches held before."""

from typing import Literal

from pydantic import BaseModel

from gpusim.strict_yaml import STRICT, NonNegativeNumber, PositiveNumber

Timing = Literal["graph", "event", "ncu", "host"]
Cache = Literal["warm", "cold"]


class Conditions(BaseModel):
    """Conditions of a measurement, simulated or real.

    `sm_clock_mhz` is a locked SM clock in MHz, None for the boost clock. `timing` says what the timer included:
    replays of a CUDA graph, CUDA events around calls, kernels alone under a profiler (ncu), or the host clock.
    `cache` is "cold" when L2 starts empty and "warm" when the same call ran just before. `stack` names the software
    around the kernels, whose host time `host_floor_ms` (ms) no chain of kernels beats; `host_overhead_ms` (ms) is what
    a synchronised call (timing "host") or a replayed graph ("graph") takes on top.
    """

    model_config = STRICT

    timing: Timing = "event"
    cache: Cache = "cold"
    sm_clock_mhz: PositiveNumber | None = None
    stack: str | None = None
    host_floor_ms: NonNegativeNumber | None = None
    host_overhead_ms: NonNegativeNumber | None = None
