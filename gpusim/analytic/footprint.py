"""Which tensors are alive when, and whether they fit device memory.

Inputs and outputs live throughout; a temporary lives from the first to the last kernel that names it. Allocator
fragmentation and the framework's own context are not modelled.
"""

from dataclasses import dataclass

from gpusim.errors import OutOfMemoryError
from gpusim.specs import GpuSpec
from gpusim.taskgraph import Role, TaskGraph, Tensor
from gpusim.units import GIB


@dataclass(frozen=True, slots=True)
class Footprint:
    """Device memory in bytes: the largest sum of live tensors, and what of it is neither input nor output."""

    peak_bytes: int
    extra_bytes: int


def footprint(graph: TaskGraph) -> Footprint:
    """Peak device memory of the graph, in bytes."""
    fixed = sum(t.size_bytes for t in (*graph.with_role(Role.INPUT), *graph.with_role(Role.OUTPUT)))
    saved = sum(t.size_bytes for t in graph.with_role(Role.SAVED))
    lives = [_life(graph, tensor) for tensor in graph.with_role(Role.TEMPORARY)]
    temporary = max(
        sum(size for first, last, size in lives if first <= number <= last) for number in range(len(graph.kernels))
    )
    return Footprint(fixed + saved + temporary, saved + temporary)


def _life(graph: TaskGraph, tensor: Tensor) -> tuple[int, int, int]:
    used = [
        number for number, kernel in enumerate(graph.kernels) if tensor in kernel.loaded() or tensor in kernel.stored()
    ]
    return used[0], used[-1], tensor.size_bytes


def check_memory(graph: TaskGraph, spec: GpuSpec) -> None:
    """Raises OutOfMemoryError when the live tensors exceed the GPU's memory."""
    memory, limit = footprint(graph), spec.memory.hbm.capacity_bytes
    need = memory.peak_bytes
    if need > limit:
        other = ", or use a schedule that keeps nothing between kernels" if need - memory.extra_bytes <= limit else ""
        raise OutOfMemoryError(
            f"live tensors need {need:,} B ({need / GIB:.1f} GiB) but {spec.name} has {limit:,} B "
            f"({limit / GIB:.1f} GiB) of device memory",
            f"lower batch, heads or seqlen{other}",
        )
