"""The graph summed up: exact bytes, FLOPs, occupancy, memory and the bound no simulated time may beat.

Everything here is arithmetic on the program's affine addresses; nothing is simulated, and cache hits are unknown.
Start with `traffic.py`; `occupancy.py` says what fits, `footprint.py` what is alive, `bounds.py` how fast it could be.
"""

from gpusim.analytic.bounds import Bound, ceiling_ms, lower_bound, matmul_flop_per_clk, roofline_ms
from gpusim.analytic.footprint import Footprint, check_memory, footprint
from gpusim.analytic.occupancy import Occupancy, check_dtype, check_fits, occupancy, registers_per_thread
from gpusim.analytic.traffic import (
    MMA_ROWS,
    KernelWork,
    graph_operand_bytes,
    kernel_work,
    smem_read_bytes,
    smem_write_bytes,
)

__all__ = [
    "MMA_ROWS",
    "Bound",
    "Footprint",
    "KernelWork",
    "Occupancy",
    "ceiling_ms",
    "check_dtype",
    "check_fits",
    "check_memory",
    "footprint",
    "graph_operand_bytes",
    "kernel_work",
    "lower_bound",
    "matmul_flop_per_clk",
    "occupancy",
    "registers_per_thread",
    "roofline_ms",
    "smem_read_bytes",
    "smem_write_bytes",
]
