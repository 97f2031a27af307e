"""Wiring: one function builds the machine from its spec."""

from dataclasses import dataclass

from gpusim.hardware.memory import MemorySystem
from gpusim.hardware.pipe import Pipe
from gpusim.hardware.sm import StreamingMultiprocessor
from gpusim.specs import GpuSpec


@dataclass(frozen=True, slots=True)
class Machine:
    """SMs, the memory they share, and the unit that launches CTAs one after another."""

    sms: tuple[StreamingMultiprocessor, ...]
    memory: MemorySystem
    cta_launcher: Pipe


def build_machine(spec: GpuSpec) -> Machine:
    """An idle machine with cold caches at time zero."""
    sms = tuple(StreamingMultiprocessor(number) for number in range(spec.sm.count))
    return Machine(sms, MemorySystem(spec, spec.sm.clock_hz), Pipe())
