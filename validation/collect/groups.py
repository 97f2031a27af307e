"""What is measured, the most valuable first; a group becomes one CSV.

Seconds are estimates for an H200, by which a run with a time limit decides what still fits.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gpusim.errors import UnknownNameError
from validation.collect.attention import counter_cases, hopper_cases, own_cases, sdpa_cases
from validation.collect.device import Facts
from validation.collect.work import Case
from validation.microbenchmarks.cases import (
    cache_cases,
    chase_cases,
    empty_cases,
    large_read_cases,
    launch_cases,
    rate_cases,
    stream_cases,
)


@dataclass(frozen=True, slots=True)
class Group:
    """Cases that belong together: the name of their CSV, what they say, and how long they take.

    `essential` groups are what a calibration needs. `reads_counters` groups go through a profiler instead of a timer.
    """

    name: str
    title: str
    seconds: float
    essential: bool
    cases: Callable[[Facts], Iterator[Case]]
    reads_counters: bool = False


GROUPS = (
    Group("stream", "HBM and L2 bandwidth against threads and size", 25, True, stream_cases),
    Group("pointer_chase", "latency against the size of the set", 30, True, chase_cases),
    Group("cache_read", "L2 bandwidth, shared and disjoint", 10, True, cache_cases),
    Group("small_kernels", "launch and graph-node cost", 10, True, launch_cases),
    Group("large_read", "HBM bandwidth of very large reads", 5, True, large_read_cases),
    Group("attention", "our own attention kernels", 60, True, own_cases),
    Group("sdpa", "PyTorch's attention by its backends", 45, True, sdpa_cases),
    Group("rates", "tensor cores, exp, FP32, shared memory, and their clocks", 30, False, rate_cases),
    Group("launches", "empty kernels and CTA launch rate", 10, False, empty_cases),
    Group("counters", "bytes at HBM and L2 by Nsight Compute", 150, False, counter_cases, reads_counters=True),
    # never run yet, and the one kernel that could wait forever: when it hangs, all else is measured
    Group("attention_hopper", "our own attention kernel for Hopper", 30, False, hopper_cases),
)


def check_names(names: Sequence[str]) -> None:
    """Raises UnknownNameError for a name that no group has."""
    known = [group.name for group in GROUPS]
    for name in names:
        if name not in known:
            raise UnknownNameError("group", name, known)


def case_named(facts: Facts, name: str) -> Case:
    """The case of this name on this GPU. Raises UnknownNameError."""
    cases = (case for group in GROUPS for case in group.cases(facts))
    found = next((case for case in cases if case.name == name), None)
    if found is None:
        raise UnknownNameError("case", name, [case.name for group in GROUPS for case in group.cases(facts)])
    return found
