"""What every step of a graph does to SRAM and device memory, as the numeric executor computes it."""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gpusim.numeric import Executed, execute
from gpusim.report.replay import Region, SoftmaxRow
from gpusim.taskgraph import (
    Buffer,
    Fill,
    Kernel,
    Load,
    MatMul,
    Normalise,
    OnlineSoftmax,
    RowSoftmax,
    Space,
    Step,
    Store,
    TaskGraph,
    Tile,
)
from gpusim.taskgraph.ops import Op, reads, writes
from gpusim.taskgraph.unroll import block_of
from gpusim.workloads import AttentionWorkload

Array = npt.NDArray[Any]
Slot = tuple[str, int]
CtaKey = tuple[str, tuple[int, ...]]  # kernel and grid coordinates
QUARTERS = 8  # inputs are multiples of ¼ up to ±2: exact in fp16, and readable


@dataclass(frozen=True, slots=True)
class Held:
    """What one stage of a buffer holds: a part of matrix `name`, final or not yet."""

    name: str
    region: Region | None
    is_final: bool
    values: Array


@dataclass(frozen=True, slots=True)
class Change:
    """A step that ran: stages it filled, stages nobody needs any more, and what else the page shows of it."""

    step: Step
    written: Mapping[Slot, Held]
    spent: tuple[Slot, ...]
    region: Region | None  # of the tensor that a load or store names
    stored: Held | None
    tile: Region | None  # of the score matrix
    softmax: tuple[SoftmaxRow, ...]


def example_inputs(workload: AttentionWorkload, seed: int) -> dict[str, Array]:
    """Q, K and V of one head, each (1, N, d): multiples of ¼ from −2 to 2, the same on every machine."""
    generator = random.Random(seed)
    shapes = {
        "Q": (1, workload.seqlen_q, workload.head_dim),
        "K": (1, workload.seqlen_k, workload.head_dim),
        "V": (1, workload.seqlen_k, workload.head_dim_v),
    }
    choices = 2 * QUARTERS + 1
    return {
        name: (np.array([int(generator.random() * choices) for _ in range(np.prod(shape))]) - QUARTERS).reshape(shape)
        / 4
        for name, shape in shapes.items()
    }


def watch(graph: TaskGraph, inputs: Mapping[str, Array]) -> tuple[dict[CtaKey, list[Change]], Array]:
    """Runs the graph in float64; the changes of every CTA in program order, and O."""
    ctas: dict[CtaKey, _Watched] = {}

    def on_step(done: Executed) -> None:
        key = done.kernel.name, tuple(done.step.indices[index] for index, _ in done.kernel.grid)
        if key not in ctas:
            ctas[key] = _Watched(done.kernel)
        ctas[key].add(done)

    results = execute(graph, inputs, on_step=on_step)
    return {key: watched.changes for key, watched in ctas.items()}, results["O"][0]


class _Watched:
    """One CTA: what its buffers hold, step by step."""

    def __init__(self, kernel: Kernel) -> None:
        self.changes: list[Change] = []
        self._held: dict[Slot, Held] = {}
        self._stored_as = {t.op.buffer.name: t.op.tile.tensor.name for t in kernel.tasks() if isinstance(t.op, Store)}

    def add(self, done: Executed) -> None:
        step, op = done.step, done.step.task.op
        region = region_of(op.tile, step) if isinstance(op, Load | Store) else None
        before = {buffer.name: self._held.get((buffer.name, step.stages[buffer.name])) for buffer in reads(op)}
        written: dict[Slot, Held] = {}
        in_sram = []
        for buffer in writes(op):
            slot = buffer.name, step.stages[buffer.name]
            if buffer.space is Space.SMEM:
                in_sram.append(slot)
            held = self._held.get(slot, Held(buffer.name, None, False, done.contents[slot]))
            written[slot] = self._after(op, held, buffer, before, region, done.contents[slot])
        self._held |= written
        self.changes.append(
            Change(
                step=step,
                written={slot: written[slot] for slot in in_sram},
                spent=done.spent,
                region=region,
                stored=before[op.buffer.name] if isinstance(op, Store) else None,
                tile=_score_tile(op, written.values(), before),
                softmax=self._statistics(op, step, before),
            )
        )

    def _after(
        self,
        op: Op,
        held: Held,
        buffer: Buffer,
        before: Mapping[str, Held | None],
        region: Region | None,
        values: Array,
    ) -> Held:
        """What a buffer holds after an op: which matrix, which part of it, and whether that is final."""
        now = replace(held, values=values)
        match op:
            case Load(tile=tile):
                return Held(tile.tensor.name, region, False, values)
            case MatMul(a=a, b=b, transpose_b=transpose_b, accumulate=accumulate):
                left, right = before[a.name], before[b.name]
                part = _product(left, right, transpose_b=transpose_b)
                is_final = left is not None and left.is_final and not accumulate
                return Held(self._stored_as.get(buffer.name, buffer.name), part, is_final, values)
            case OnlineSoftmax(scores=scores):
                of_scores = before[scores.name]
                part = None if of_scores is None else of_scores.region
                if buffer == scores:
                    return replace(now, name="P")
                return replace(now, region=None if part is None else Region(part.row0, part.row1, 0, 1))
            case RowSoftmax():
                return replace(now, name=self._stored_as.get(buffer.name, "P"), is_final=True)
            case Normalise():
                return replace(now, is_final=True)
            case Fill():
                return Held(buffer.name, None, False, values)
        return now

    def _statistics(self, op: Op, step: Step, before: Mapping[str, Held | None]) -> tuple[SoftmaxRow, ...]:
        match op:
            case OnlineSoftmax(scores=scores, m=m, l=l_, alpha=alpha):
                old = before[scores.name], before[m.name], before[l_.name]
                after = [self._held[buffer.name, step.stages[buffer.name]].values for buffer in (m, l_, alpha)]
                return _online_rows(old, after)
            case RowSoftmax(scores=scores):
                return _plain_rows(before[scores.name])
        return ()


def region_of(tile: Tile, step: Step) -> Region:
    """The part of its tensor that a tile covers at this step."""
    row, col = block_of(tile, step.indices)
    rows, cols = tile.tensor.rows, tile.tensor.cols
    return Region(row * tile.rows, min((row + 1) * tile.rows, rows), col * tile.cols, min((col + 1) * tile.cols, cols))


def _product(left: Held | None, right: Held | None, *, transpose_b: bool) -> Region | None:
    if left is None or right is None or left.region is None or right.region is None:
        return None
    rows, cols = left.region, right.region
    if transpose_b:
        return Region(rows.row0, rows.row1, cols.row0, cols.row1)
    return Region(rows.row0, rows.row1, cols.col0, cols.col1)


def _score_tile(op: Op, written: Iterable[Held], before: Mapping[str, Held | None]) -> Region | None:
    """The part of S or P that an op works on."""
    touched = [*written, *(held for held in before.values() if held is not None)]
    if isinstance(op, Load | Store):
        return None
    return next((held.region for held in touched if held.name in ("S", "P") and held.region is not None), None)


def _online_rows(
    before: tuple[Held | None, Held | None, Held | None], after: Sequence[Array]
) -> tuple[SoftmaxRow, ...]:
    """Rows of a tile: scores, m and ℓ before it; m, ℓ and α after it."""
    scores, m_old, l_old = before
    if scores is None or m_old is None or l_old is None or scores.region is None:
        return ()
    m, total, alpha = after
    return tuple(
        SoftmaxRow(
            row=scores.region.row0 + i,
            m_old=float(m_old.values[i, 0]),
            m=float(m[i, 0]),
            alpha=float(alpha[i, 0]),
            l_old=float(l_old.values[i, 0]),
            l=float(total[i, 0]),
            scores=tuple(float(score) for score in row),
        )
        for i, row in enumerate(scores.values)
    )


def _plain_rows(scores: Held | None) -> tuple[SoftmaxRow, ...]:
    if scores is None or scores.region is None:
        return ()
    rows = []
    for i, row in enumerate(scores.values):
        largest = float(row.max())
        total = float(np.exp(row - largest).sum())
        seen = tuple(float(score) for score in row)
        rows.append(SoftmaxRow(scores.region.row0 + i, -np.inf, largest, None, 0.0, total, seen))
    return tuple(rows)
