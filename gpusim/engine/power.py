"""What the power limit leaves of the clock while a step runs.

A step that overlaps matrix and softmax work takes the time of the longer at the clock, but no less than its energy over
the power that the limit leaves its SM: where time overlaps, energy adds. SMs that have a CTA share the limit, to the
end of the kernel. Power is counted over the time that the compute pipe is held, step by step: pauses of the pipe bank
no energy for later. The clock falls continuously, not in the driver's steps, and only for what holds the pipe:
latencies between steps stay at the full clock.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gpusim.dtypes import DType
from gpusim.specs import GpuSpec
from gpusim.taskgraph.ops import Op, work
from gpusim.units import J_PER_PJ


@dataclass(frozen=True, slots=True)
class PowerBudget:
    """Power that an SM may take, in W, and energy of its operations at `clock_hz` in J."""

    sm_w: float
    flop_j: float
    exp_j: float
    clock_hz: float
    clock_exponent: float

    def energy_j(self, flops: int, exps: int, clock_hz: float) -> float:
        """Energy of operations at a clock in Hz."""
        return (self.flop_j * flops + self.exp_j * exps) * float((clock_hz / self.clock_hz) ** self.clock_exponent)

    def clock_for(self, ops: Sequence[Op], cycles: float, clock_hz: float) -> float:
        """The clock in Hz, `clock_hz` at most, at which operations that take so many cycles stay within the power.

        Power goes with clock · energy(clock), the clock to the power 1 + `clock_exponent`.
        """
        if cycles == 0:
            return clock_hz
        done = [work(op) for op in ops]
        energy_j = self.energy_j(sum(item.flops for item in done), sum(item.exps for item in done), clock_hz)
        power_w = energy_j * clock_hz / cycles
        if power_w <= self.sm_w:
            return clock_hz
        return clock_hz * float((self.sm_w / power_w) ** (1 / (1 + self.clock_exponent)))


def power_budget(spec: GpuSpec, dtype: DType, ctas: int) -> PowerBudget | None:
    """The budget of one SM for a kernel of so many CTAs that multiplies in this format; None without known energies.

    SMs that have no CTA leave their share to the others.
    """
    energy = None if spec.power is None else spec.power.energy
    if spec.power is None or energy is None or dtype not in energy.tensor_pj_per_flop:
        return None
    return PowerBudget(
        (spec.power.limit_w - energy.idle_w) / min(spec.sm.count, ctas),
        energy.tensor_pj_per_flop[dtype] * J_PER_PJ,
        energy.exp_pj * J_PER_PJ,
        energy.clock_hz,
        energy.clock_exponent,
    )
