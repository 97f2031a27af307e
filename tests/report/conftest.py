"""Points made by hand, as a run would leave them."""

from collections.abc import Callable

import pytest

from gpusim.results import PointResult

PointMaker = Callable[..., PointResult]


@pytest.fixture
def make_point() -> PointMaker:
    """Makes a point that was simulated; keyword arguments replace any field."""

    def make(implementation: str = "flash2", seqlen: int = 1024, **fields: object) -> PointResult:
        shape = {
            "gpu": "a100_sxm4_40gb",
            "schedule": implementation,
            "implementation": implementation,
            "version": None,
            "pass_": "fwd",
            "dtype": "fp16",
            "batch": 16,
            "heads": 8,
            "kv_heads": 8,
            "seqlen_q": seqlen,
            "seqlen_k": seqlen,
            "head_dim": 64,
            "head_dim_v": 64,
            "causal": False,
            "window": None,
            "dropout": 0.0,
            "mask": "none",
            "save_lse": False,
            "sm_clock_mhz": None,
            "timing": "event",
            "cache": "warm",
            "stack": None,
        }
        answer = {
            "status": "ok",
            "latency_ms": seqlen / 1000,
            "tflops": 123.4,
            "hbm_read_bytes": 600 * seqlen,
            "hbm_write_bytes": 424 * seqlen,
            "bound_ms": seqlen / 2000,
            "bottleneck": "tensor",
        }
        return PointResult.model_validate(shape | answer | fields)

    return make


@pytest.fixture
def make_refusal(make_point: PointMaker) -> PointMaker:
    """Makes a point that was not simulated, with its reason and fix."""
    nothing = dict.fromkeys(("latency_ms", "tflops", "hbm_read_bytes", "hbm_write_bytes", "bound_ms", "bottleneck"))

    def make(implementation: str = "flash2", seqlen: int = 1024, **fields: object) -> PointResult:
        answer = {"status": "refused", "reason": "needs 208 of 96 numbers", "fix": "tile_kv=4 fits"}
        return make_point(implementation, seqlen, **(nothing | answer | fields))

    return make
