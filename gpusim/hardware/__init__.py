"""The machine over time: pipes, L2, HBM and SMs that answer "when is this done".

Every component books work in arrival order and returns a finish time in integer picoseconds; the caller waits once.
Components see bytes, keys and durations, never attention. Not modelled here yet: L2 partitions, channel
conflicts, refresh. Start with `pipe.py`; `gpu.py` wires the machine.
"""

from gpusim.hardware.gpu import Machine, build_machine
from gpusim.hardware.hbm import Hbm
from gpusim.hardware.l2 import L2Cache
from gpusim.hardware.memory import MemorySystem
from gpusim.hardware.pipe import Pipe
from gpusim.hardware.sm import StreamingMultiprocessor

__all__ = ["Hbm", "L2Cache", "Machine", "MemorySystem", "Pipe", "StreamingMultiprocessor", "build_machine"]
