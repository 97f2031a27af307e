"""Two ways to run all CTA slots of a kernel, equal to the last picosecond: SimPy processes, or the compiled loop.

SimPy is the reference and the only one that records a timeline. Both walk the same lowered kernel on the same machine.
"""

import itertools
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import simpy

from gpusim.engine.clock import Environment
from gpusim.engine.compiled import compiled_run_kernel
from gpusim.engine.cta import CtaSlot, ResidentCta, WorkQueue
from gpusim.engine.loop import (
    ACCEPTED_PS,
    SPENT_COMPUTE,
    SPENT_LAUNCH,
    SPENT_LOAD,
    SPENT_PIPE,
    SPENT_STORE,
    SPENT_SYNC,
    Shared,
    new_slots,
)
from gpusim.engine.lower import LoweredKernel
from gpusim.engine.tables import flatten
from gpusim.hardware import Machine
from gpusim.taskgraph import Kernel
from gpusim.trace import Recorder, Stall

_SPENT_COLUMNS = {
    Stall.COMPUTE: SPENT_COMPUTE,
    Stall.PIPE: SPENT_PIPE,
    Stall.LOAD: SPENT_LOAD,
    Stall.SYNC: SPENT_SYNC,
    Stall.STORE: SPENT_STORE,
    Stall.LAUNCH: SPENT_LAUNCH,
}


@dataclass(frozen=True, slots=True)
class SlotTask:
    """A lowered kernel, the machine it runs on, and how many of its CTAs an SM holds at once; durations in ps.

    Every warpgroup of a resident CTA has a slot of its own: slot s is on SM s modulo the number of SMs, those of the
    first resident CTA of every SM come first, and of these the first warpgroups.
    """

    kernel: Kernel
    lowered: LoweredKernel
    machine: Machine
    num_sms: int
    ctas_per_sm: int
    launch_ps: int
    store_queue_ps: int

    @property
    def num_resident(self) -> int:
        """CTAs the whole GPU holds at once."""
        return self.ctas_per_sm * self.num_sms

    @property
    def num_slots(self) -> int:
        """Slots of the whole GPU."""
        return self.num_resident * self.kernel.warpgroups_per_cta


@dataclass(frozen=True, slots=True)
class SlotOutcome:
    """When the last store of a kernel is accepted, and where the time of its slots went, in ps."""

    accepted_ps: int
    spent_ps: Mapping[Stall, int]


Running = Generator[simpy.Event, Any, SlotOutcome]


def run_on_simpy(env: Environment, task: SlotTask, recorder: Recorder | None) -> Running:
    """One SimPy process a slot."""
    queue = WorkQueue(task.kernel, task.num_resident)
    ctas = [ResidentCta(env, task.machine, queue, place, task.launch_ps) for place in range(task.num_resident)]
    slots = []
    for layer, warpgroup, sm in itertools.product(
        range(task.ctas_per_sm), range(task.kernel.warpgroups_per_cta), range(task.num_sms)
    ):
        track = f"sm[{sm}].slot[{layer}]"
        slots.append(
            CtaSlot(
                env,
                task.machine,
                sm,
                task.lowered.accesses,
                ctas[layer * task.num_sms + sm],
                warpgroup,
                track=track if task.kernel.warpgroups is None else f"{track}.warpgroup[{warpgroup}]",
                kernel_name=task.kernel.name,
                store_queue_ps=task.store_queue_ps,
                recorder=recorder,
            )
        )
    yield simpy.AllOf(env, [env.process(slot.run(task.lowered)) for slot in slots])
    spent = {kind: sum(slot.spent_ps[kind] for slot in slots) for kind in _SPENT_COLUMNS}
    return SlotOutcome(max(slot.accepted_ps for slot in slots), spent)


def run_compiled(env: Environment, task: SlotTask) -> Running:
    """The whole kernel in one call of machine code, and one wait until its end."""
    tables = flatten(task.lowered, task.kernel, task.num_resident)
    slots = new_slots(task.num_slots, task.num_sms, tables)
    shared = Shared(
        task.machine.pipe_free_ps,
        task.machine.launcher_free_ps,
        np.zeros(1, dtype=np.int64),
        np.zeros(1, dtype=np.int64),
        task.kernel.ctas,
        task.num_sms,
        task.launch_ps,
        task.store_queue_ps,
    )
    now = env.now
    end = compiled_run_kernel()(tables, slots, task.machine.memory, shared, now)
    yield env.timeout(end - now)
    spent = {kind: int(slots.spent_ps[:, column].sum()) for kind, column in _SPENT_COLUMNS.items()}
    return SlotOutcome(int(slots.state[:, ACCEPTED_PS].max()), spent)
