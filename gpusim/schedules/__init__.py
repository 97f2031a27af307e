"""How attention is computed: one file a published idea, and the dictionary of their names.

A schedule is a function from a workload, choices (tiles, stages, warps) and kernel constants to a task graph. It sees
limits at most, never simulated time. Start with `flash2.py`; `naive.py` shows several kernels, `flash1.py` nested
loops.
"""

from collections.abc import Callable
from dataclasses import dataclass

from gpusim.schedules import flash1, flash2, naive
from gpusim.schedules.choices import MASK_PASSES, FlashChoices, NaiveChoices
from gpusim.taskgraph import TaskGraph

Choices = FlashChoices | NaiveChoices


@dataclass(frozen=True, slots=True)
class Schedule:
    """A published idea: what it does in one line, where it comes from, its choices and its graph builder."""

    name: str
    summary: str
    source: str
    choices: type[FlashChoices] | type[NaiveChoices]
    build: Callable[..., TaskGraph]


SCHEDULES: dict[str, Schedule] = {
    schedule.name: schedule
    for schedule in (
        Schedule(
            "naive",
            "three kernels; S and P go through device memory",
            "textbook attention, Vaswani et al., arXiv 1706.03762",
            NaiveChoices,
            naive.build,
        ),
        Schedule(
            "flash1",
            "K/V blocks outside, Q tiles inside; O, m and ℓ re-read and re-written",
            "Dao et al., arXiv 2205.14135, algorithm 1",
            FlashChoices,
            flash1.build,
        ),
        Schedule(
            "flash2",
            "Q tile resident, K and V stream, O written once",
            "Dao, arXiv 2307.08691, algorithm 1",
            FlashChoices,
            flash2.build,
        ),
    )
}

__all__ = ["MASK_PASSES", "SCHEDULES", "Choices", "FlashChoices", "NaiveChoices", "Schedule"]
