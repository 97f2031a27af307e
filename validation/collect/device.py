"""What the runner asks of a GPU. A test puts a simulated GPU in its place."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from gpusim.specs import GpuSpec
from validation.collect.work import Case, Check, Timed, Values


class DeviceError(Exception):
    """This piece of work cannot be done on this GPU, and why; the run goes on with the next."""


class NotHereError(DeviceError):
    """This GPU, or the software on it, does not have what a case needs: nothing went wrong."""


class GroupError(DeviceError):
    """The other cases of the group would fail alike: it is not gone on with."""


class LostError(DeviceError):
    """The GPU is lost to this process, and the run is over."""


class HungError(LostError):
    """A call does not end."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the driver says about a GPU. `gpu` is the preset that rows are written for, or else the product's name.

    Sizes are in bytes. `versions` holds driver, runtime, compiler and packages.
    """

    gpu: str
    product: str
    uuid: str
    capability: tuple[int, int]
    sm_count: int
    l2_bytes: int
    memory_bytes: int
    smem_per_sm_bytes: int
    smem_per_cta_max_bytes: int
    threads_per_sm: int
    versions: Mapping[str, str]


def facts_of(spec: GpuSpec) -> Facts:
    """What the driver of a GPU like its config would say."""
    major, minor = spec.compute_capability.split(".")
    return Facts(
        gpu=spec.name,
        product=spec.product,
        uuid=f"config {spec.name}",
        capability=(int(major), int(minor)),
        sm_count=spec.sm.count,
        l2_bytes=spec.memory.l2.size_bytes if spec.memory.l2 else 0,
        memory_bytes=spec.memory.hbm.capacity_bytes,
        smem_per_sm_bytes=spec.sm.smem_bytes,
        smem_per_cta_max_bytes=spec.sm.smem_per_cta_max_bytes,
        threads_per_sm=spec.sm.max_threads,
        versions={},
    )


class Device(Protocol):
    """A GPU that runs work, times cases, and tells its clocks.

    Every method but `clocks` raises DeviceError where the work cannot be done, such as out of memory, and LostError
    where nothing can be done any more.
    """

    @property
    def facts(self) -> Facts:
        """What it is."""
        ...

    def outputs(self, check: Check) -> Mapping[str, Values]:
        """Runs a check's work once; the arrays that are read back."""
        ...

    def time(self, case: Case) -> Timed:
        """Warms up and times a case."""
        ...

    def counters(self, case: Case) -> Mapping[str, float]:
        """Bytes at HBM and L2 of one call, as columns of a measured CSV. Raises DeviceError without a profiler."""
        ...

    def clocks(self) -> Mapping[str, float | str]:
        """Clocks, temperature, power and what throttles the GPU now; empty where nobody tells."""
        ...
