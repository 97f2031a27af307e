"""The steps of a run: each the executor's change and the transfer or task of the engine's trace that it is.

A transfer belongs to the first load or store of its CTA that names the same tile and has none yet, a task to the next
in program order. Loads and stores stand at the time when their bytes go onto the bus.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpusim.replay.values import Change, CtaKey
from gpusim.taskgraph import Fill, Kernel, Load, MatMul, Store, TaskGraph
from gpusim.taskgraph.ops import Op
from gpusim.trace import TimelineRecorder, Transfer, Work

Record = Transfer | Work


@dataclass(frozen=True, slots=True)
class RunStep:
    """What a step did and when; `cta` counts CTAs of all kernels as they start."""

    kernel: Kernel
    cta: int
    change: Change
    record: Record

    @property
    def op(self) -> Op:
        """The operation."""
        return self.change.step.task.op

    @property
    def start_ps(self) -> int:
        """When the step's task starts, or its first byte goes onto the bus."""
        return self.record.bus_start_ps if isinstance(self.record, Transfer) else self.record.start_ps

    @property
    def order(self) -> tuple[int, int, int]:
        """Time, then CTA, then place in the program."""
        return self.start_ps, self.cta, self.change.step.number

    @property
    def is_free_fill(self) -> bool:
        """Whether it only sets a start value, which takes no time."""
        return isinstance(self.op, Fill) and self.start_ps == self.record.end_ps

    @property
    def is_product(self) -> bool:
        """Whether the matrix unit runs it."""
        return isinstance(self.op, MatMul)

    def loads(self, tensor: str) -> bool:
        """Whether it reads a tile of this tensor."""
        return isinstance(self.op, Load) and self.op.tile.tensor.name == tensor


def run_steps(
    graph: TaskGraph, recorder: TimelineRecorder, changes: Mapping[CtaKey, Sequence[Change]]
) -> tuple[list[CtaKey], list[RunStep]]:
    """CTAs in order of their start, and all their steps in order of time."""
    kernels = {kernel.name: kernel for kernel in graph.kernels}
    starts: dict[CtaKey, int] = {}
    began = [(t.kernel, t.cta, t.asked_ps) for t in recorder.transfers]
    began += [(work.kernel, work.cta, work.start_ps) for work in recorder.works]
    for kernel, cta, when_ps in began:
        starts[kernel, cta] = min(when_ps, starts.get((kernel, cta), when_ps))
    ctas = sorted(starts, key=lambda key: starts[key])
    steps = [
        RunStep(kernels[key[0]], number, change, record)
        for number, key in enumerate(ctas)
        for change, record in _joined(key, changes[key], recorder)
    ]
    return ctas, sorted(steps, key=lambda step: step.order)


def _joined(key: CtaKey, changes: Sequence[Change], recorder: TimelineRecorder) -> Iterator[tuple[Change, Record]]:
    transfers = [transfer for transfer in recorder.transfers if (transfer.kernel, transfer.cta) == key]
    works = [work for work in recorder.works if (work.kernel, work.cta) == key]
    for change in changes:
        op = change.step.task.op
        if isinstance(op, Load | Store):
            transfer = next(transfer for transfer in transfers if _is_of(transfer, change, op))
            transfers.remove(transfer)
            yield change, transfer
        else:
            work = works.pop(0)
            assert work.task == change.step.task.name, f"the trace runs {work.task} before {change.step.task.name}"
            yield change, work
    assert not transfers, f"{key}: the trace has transfers of no step"
    assert not works, f"{key}: the trace has tasks of no step"


def _is_of(transfer: Transfer, change: Change, op: Load | Store) -> bool:
    if change.region is None or op.tile.tensor.name != transfer.tensor:
        return False
    place = transfer.row * op.tile.rows, transfer.col * op.tile.cols
    direction = "read" if isinstance(op, Load) else "write"
    return transfer.direction == direction and place == (change.region.row0, change.region.col0)
