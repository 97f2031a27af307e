"""The toy GPU that kernels are worked out on by hand, and the tile that goes through it.

It is canvas: SMs at 1 GHz (1,000 ps a clock) with one FP32 number, one exponential and 8 FLOP a clock; 1,000 ps a byte
of device memory and 100 ns latency, no L2, 125 ps a byte into an SM. Shared memory is so fast here that it never
limits, and the GPU launches a CTA in 1,000 ps, one after another. A transfer ends on the whole picosecond after its
last byte.
"""

from gpusim.specs import GpuSpec, load_gpu
from gpusim.workloads import Conditions

CLOCK = 1_000
LAUNCH = 1_000
TILE_BYTES = 32  # 4 × 4 numbers of 2 bytes
MOVE = TILE_BYTES * 1_000 + 1
LATENCY = 100_000
SCALE = 16 * CLOCK  # 16 numbers, one a clock
PRODUCT = 16 * CLOCK  # of two tiles: 2·4³ FLOP, 8 a clock
NCU = Conditions(timing="ncu")


def toy(**sm: object) -> GpuSpec:
    """The toy GPU, with some numbers of its SM changed."""
    canvas = load_gpu("canvas")
    fast = {"smem_bandwidth_bytes_per_clk": 1_000_000, "smem_bytes": 100_000, "smem_per_cta_max_bytes": 100_000}
    return canvas.model_copy(update={"sm": canvas.sm.model_copy(update=fast | sm)})
