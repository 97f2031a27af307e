"""The machine over time: pipes, L2, HBM and SMs that answer "when is this done".

State is numbers, behaviour is plain functions on it: SimPy calls them, and the compiled engine compiles them. Every
function books work in arrival order and returns a finish time in integer picoseconds; the caller waits once. They see
bytes, keys and durations, never attention. Not modelled: L2 sets and slices, HBM banks and refresh. Start with
`pipe.py` and `memory.py`; `l2.py` and `hbm.py` hold the two levels, `gpu.py` wires the machine.
"""

from gpusim.hardware.gpu import Machine, build_machine
from gpusim.hardware.l2 import dirty_bytes
from gpusim.hardware.memory import read_tiles, start_kernel, write_tiles
from gpusim.hardware.pipe import book
from gpusim.hardware.state import (
    HBM_READ_BYTES,
    HBM_WRITE_BYTES,
    HIT_BYTES,
    LAST_FREE_PS,
    MemoryState,
    repeated_in_array,
    repeated_in_list,
    zone_limits,
)

__all__ = [
    "HBM_READ_BYTES",
    "HBM_WRITE_BYTES",
    "HIT_BYTES",
    "LAST_FREE_PS",
    "Machine",
    "MemoryState",
    "book",
    "build_machine",
    "dirty_bytes",
    "read_tiles",
    "repeated_in_array",
    "repeated_in_list",
    "start_kernel",
    "write_tiles",
    "zone_limits",
]
