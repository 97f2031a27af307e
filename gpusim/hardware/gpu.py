"""Wiring: one function builds the machine from its spec.

One compute pipe an SM serialises tile steps: independent pipes for tensor cores and special functions slide into free
overlap, which measurements refute. Warps are folded into rates.
"""

from dataclasses import dataclass

from gpusim.hardware.state import MemoryState, Numbers, Repeated, build_memory
from gpusim.specs import GpuSpec


@dataclass(frozen=True, slots=True)
class Machine:
    """The memory that SMs share, when each SM's compute pipe next idles, and the unit that launches CTAs in turn."""

    memory: MemoryState
    pipe_free_ps: Numbers  # by SM
    launcher_free_ps: Numbers  # one pipe


def build_machine(spec: GpuSpec, num_keys: int, num_nodes: int, repeated: Repeated) -> Machine:
    """An idle machine with cold caches at time zero, for `num_keys` tiles, with room for `num_nodes` entries in L2.

    `repeated` makes every sequence of numbers: a list, or an array for the compiled engine.
    """
    memory = build_memory(spec, num_keys, num_nodes, repeated)
    return Machine(memory, repeated(0, spec.sm.count), repeated(0, 1))
