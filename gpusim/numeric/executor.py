"""Runs a task graph on NumPy arrays.

Two precisions. "float64": every number is float64, to compare with the definition. "storage": tensors and shared memory
in the workload's format, matrix operands rounded to it, accumulators and m, ℓ in float32, as tensor cores do it.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gpusim.dtypes import DType
from gpusim.taskgraph import (
    Add,
    Buffer,
    Copy,
    Exponential,
    Fill,
    KeepAboveDiagonal,
    Kernel,
    Load,
    LogSumExp,
    MaskCausal,
    MaskKeys,
    MatMul,
    Normalise,
    OnlineSoftmax,
    Rescale,
    Role,
    RowReduce,
    RowSoftmax,
    Scale,
    Space,
    Step,
    Store,
    SubtractRows,
    TaskGraph,
    Tile,
    UnrolledCta,
    Where,
    unroll,
)
from gpusim.taskgraph.ops import reads, writes
from gpusim.taskgraph.program import HEAD
from gpusim.taskgraph.unroll import Unroll, block_of
from gpusim.workloads import PADDED_KEYS, AttentionWorkload

Array = npt.NDArray[Any]
Precision = Literal["float64", "storage"]


@dataclass(frozen=True, slots=True)
class Rescaling:
    """One row whose running maximum grew: everything summed so far is multiplied by `factor` = e^(old − new)."""

    head: int
    row: int
    old_max: float
    new_max: float
    factor: float


@dataclass(frozen=True, slots=True)
class Executed:
    """A step that has just run: what the buffer stages it read or wrote hold now, and those nobody needs any more."""

    kernel: Kernel
    step: Step
    contents: Mapping[tuple[str, int], Array]
    spent: tuple[tuple[str, int], ...]


def inputs_for(workload: AttentionWorkload, seed: int, precision: Precision = "float64") -> dict[str, Array]:
    """Standard normal Q, K and V, each (batch · its heads, N, d), rounded to the workload's format if "storage".

    With a padding mask also "key_mask", (batch · heads, 1, seqlen_k), and "key_lengths", (batch · heads, 1, 1), which
    say the same: sequences are up to 20 keys short, as in the FlashAttention-1 benchmark. With a causal one
    "causal_mask", (1, seqlen_q, seqlen_k): ones up to the diagonal.
    """
    generator = np.random.default_rng(seed)
    heads, kv_heads = workload.batch * workload.heads, workload.batch * workload.kv_heads
    shapes = {
        "Q": (heads, workload.seqlen_q, workload.head_dim),
        "K": (kv_heads, workload.seqlen_k, workload.head_dim),
        "V": (kv_heads, workload.seqlen_k, workload.head_dim_v),
    }
    dtype = _storage_type(workload.dtype, precision)
    inputs = {name: generator.standard_normal(shape).astype(dtype) for name, shape in shapes.items()}
    if workload.mask == "padding":
        lengths = _lengths(workload, generator)
        inputs["key_lengths"] = lengths.astype(np.float64)
        inputs["key_mask"] = np.where(np.arange(workload.seqlen_k) < lengths, 0.0, -np.inf).astype(dtype)
    if workload.causal:
        ones = np.ones((1, workload.seqlen_q, workload.seqlen_k), dtype)
        inputs["causal_mask"] = np.tril(ones, workload.seqlen_k - workload.seqlen_q)
    return inputs


def _lengths(workload: AttentionWorkload, generator: np.random.Generator) -> Array:
    """Keys of each sequence that are no padding, the same for all heads of a batch entry; (batch · heads, 1, 1)."""
    n_k = workload.seqlen_k
    lengths = generator.integers(max(1, n_k - PADDED_KEYS), n_k + 1, workload.batch)
    return np.repeat(lengths, workload.heads)[:, None, None]


def execute(
    graph: TaskGraph,
    inputs: Mapping[str, Array],
    *,
    precision: Precision = "float64",
    rng: random.Random | None = None,
    unroller: Unroll = unroll,
    on_rescale: Callable[[Rescaling], None] | None = None,
    on_statistics: Callable[[int, int, Array, Array], None] | None = None,
    on_step: Callable[[Executed], None] | None = None,
) -> dict[str, Array]:
    """Outputs and saved tensors of the graph, each (heads, rows, cols).

    `rng` picks a random legal order of CTAs and of the steps in each; without it program order is used. `on_rescale`
    sees every row whose maximum grew; `on_statistics(head, first_row, m, l)` sees m and ℓ after every tile: the last
    call for a row holds its true maximum and sum. `on_step` sees every step with copies of its buffers.
    """
    memory = _Memory(graph, inputs, precision)
    observers = _Observers(on_rescale, on_statistics, on_step)
    for number, kernel in enumerate(graph.kernels):
        coordinates = list(kernel.coordinates())
        if rng is not None:
            rng.shuffle(coordinates)
        for coordinate in coordinates:
            _Cta(kernel, memory, precision, observers).run(unroller(kernel, coordinate), rng)
        memory.free_after(number)
    return memory.results()


@dataclass(frozen=True, slots=True)
class _Observers:
    on_rescale: Callable[[Rescaling], None] | None
    on_statistics: Callable[[int, int, Array, Array], None] | None
    on_step: Callable[[Executed], None] | None


def _storage_type(dtype: DType, precision: Precision) -> npt.DTypeLike:
    if precision == "float64":
        return np.float64
    if dtype is DType.BF16:
        import ml_dtypes  # only bf16 needs it, and the base install does without

        bfloat16: npt.DTypeLike = np.dtype(ml_dtypes.bfloat16)
        return bfloat16
    return np.float32 if dtype is DType.FP32 else np.float16


class _Memory:
    """Device memory: one array a tensor; temporaries are NaN before their first and after their last kernel."""

    def __init__(self, graph: TaskGraph, inputs: Mapping[str, Array], precision: Precision) -> None:
        self._graph = graph
        self._arrays: dict[str, Array] = {}
        for tensor in graph.tensors():
            shape = (tensor.heads, tensor.rows, tensor.cols)
            if tensor.role is Role.INPUT:
                if inputs[tensor.name].shape != shape:
                    raise ValueError(f"{tensor.name} has shape {inputs[tensor.name].shape}, the graph needs {shape}")
                self._arrays[tensor.name] = inputs[tensor.name].astype(_storage_type(tensor.dtype, precision))
            else:
                self._arrays[tensor.name] = np.full(shape, np.nan, _storage_type(tensor.dtype, precision))

    def view(self, tile: Tile, indices: Mapping[str, int], trips: Mapping[str, int]) -> Array:
        row, col = block_of(tile, indices)
        heads_per_matrix = tile.tensor.heads_per_matrix(trips[tile.head])
        matrix: Array = self._arrays[tile.tensor.name][indices[tile.head] // heads_per_matrix]
        return matrix[row * tile.rows : (row + 1) * tile.rows, col * tile.cols : (col + 1) * tile.cols]

    def free_after(self, kernel_number: int) -> None:
        later = {t.name for k in self._graph.kernels[kernel_number + 1 :] for t in (*k.loaded(), *k.stored())}
        for tensor in self._graph.with_role(Role.TEMPORARY):
            if tensor.name not in later:
                self._arrays[tensor.name].fill(np.nan)

    def results(self) -> dict[str, Array]:
        kept = (*self._graph.with_role(Role.OUTPUT), *self._graph.with_role(Role.SAVED))
        return {tensor.name: self._arrays[tensor.name] for tensor in kept}


class _Cta:
    """On-chip state of one CTA: an array for every stage of every buffer."""

    def __init__(self, kernel: Kernel, memory: _Memory, precision: Precision, observers: _Observers) -> None:
        self._kernel = kernel
        self._memory = memory
        self._trips = kernel.trips()
        self._observers = observers
        self._operand = _storage_type(kernel.compute_dtype, precision)
        self._wide = np.float64 if precision == "float64" else np.float32
        self._slots: dict[tuple[str, int], Array] = {}
        for buffer in kernel.buffers:
            dtype = self._wide if self._is_wide(buffer, kernel) else self._operand
            for stage in range(buffer.stages):
                self._slots[buffer.name, stage] = np.full((buffer.rows, buffer.cols), np.nan, dtype)

    @staticmethod
    def _is_wide(buffer: Buffer, kernel: Kernel) -> bool:
        return buffer.space is Space.REGISTERS or kernel.accumulators == "smem"

    def run(self, cta: UnrolledCta, rng: random.Random | None) -> None:
        contents = _contents(cta)
        pending = [len(content.readers) for content in contents]
        read_by: dict[int, list[int]] = {}
        for index, content in enumerate(contents):
            for number in content.readers:
                read_by.setdefault(number, []).append(index)
        for number in _legal_order(cta, rng):
            self._do(cta.steps[number])
            spent = []
            for index in read_by.get(number, ()):
                pending[index] -= 1
                if pending[index] == 0:
                    spent.append(contents[index].slot)
            self._report_step(cta.steps[number], spent)
            for slot in spent:
                self._poison(slot)

    def _report_step(self, step: Step, spent: list[tuple[str, int]]) -> None:
        if self._observers.on_step is None:
            return
        used = dict.fromkeys((*reads(step.task.op), *writes(step.task.op)))
        contents = {(buffer.name, step.stages[buffer.name]): self._content(step, buffer).copy() for buffer in used}
        self._observers.on_step(Executed(self._kernel, step, contents, tuple(spent)))

    def _poison(self, slot: tuple[str, int]) -> None:
        self._slots[slot] = np.full_like(self._slots[slot], np.nan)

    def _do(self, step: Step) -> None:
        """One arm an operation: the meaning of the whole language on one screen."""
        at = partial(self._content, step)
        with np.errstate(invalid="ignore", divide="ignore"):
            match step.task.op:
                case Load(tile=tile, into=buffer):
                    self._put(step, buffer, self._memory.view(tile, step.indices, self._trips))
                case Store(buffer=buffer, tile=tile):
                    target = self._memory.view(tile, step.indices, self._trips)
                    target[...] = at(buffer)[: target.shape[0], : target.shape[1]]
                case MatMul() as op:
                    self._multiply(step, op)
                case Scale(buffer=buffer, factor=factor):
                    at(buffer)[...] = self._widened(at(buffer)) * factor
                case Fill(buffer=buffer, value=value):
                    self._put(step, buffer, np.full((buffer.rows, buffer.cols), value))
                case Copy(src=src, dst=dst, transpose=transpose, scale=scale):
                    content = self._widened(at(src)) * scale
                    self._put(step, dst, content.T if transpose else content)
                case Add(buffer=buffer, other=other):
                    self._add(at(buffer), self._widened(at(other)))
                case KeepAboveDiagonal(buffer=buffer, tile=tile):
                    row, col = block_of(tile, step.indices)
                    at(buffer)[...] = np.triu(at(buffer), 1 + row * tile.rows - col * tile.cols)
                case Where(buffer=buffer, mask=mask, otherwise=otherwise):
                    at(buffer)[...] = np.where(at(mask) == 0, otherwise, at(buffer))
                case MaskCausal(scores=scores, row=row, col=col, shift=shift, packed=packed):
                    queries = (step.indices[row] * scores.rows + np.arange(len(at(scores)))) // packed
                    seen = queries[:, None] + shift - step.indices[col] * scores.cols
                    at(scores)[np.arange(at(scores).shape[1]) > seen] = -np.inf
                case MaskKeys(scores=scores, length=length, col=col):
                    keys = step.indices[col] * scores.cols + np.arange(at(scores).shape[1])
                    at(scores)[:, keys >= (length if isinstance(length, int) else at(length)[0, 0])] = -np.inf
                case RowReduce(src=src, out=out, kind=kind):
                    wide = self._widened(at(src))
                    reduced = wide.max(axis=1) if kind == "max" else wide.sum(axis=1)
                    self._put(step, out, reduced[:, None])
                case SubtractRows(buffer=buffer, m=m):
                    at(buffer)[...] = self._widened(at(buffer)) - self._widened(at(m))
                case Exponential(buffer=buffer):
                    at(buffer)[...] = np.exp(self._widened(at(buffer)))
                case OnlineSoftmax() as op:
                    self._online_softmax(step, op)
                case Rescale(out=out, alpha=alpha):
                    rows = min(len(at(out)), len(at(alpha)))
                    at(out)[:rows] *= at(alpha)[:rows]
                case Normalise(out=out, l=total):
                    rows = min(len(at(out)), len(at(total)))
                    sums = at(total)[:rows]
                    at(out)[:rows] /= np.where(sums == 0, 1, sums)  # a row without keys stays zero
                case LogSumExp(m=m, l=total, lse=lse):
                    self._put(step, lse, at(m) + np.log(at(total)))
                case RowSoftmax(scores=scores):
                    wide = self._widened(at(scores))
                    weights = np.exp(wide - wide.max(axis=1, keepdims=True))
                    at(scores)[...] = weights / weights.sum(axis=1, keepdims=True)

    def _content(self, step: Step, buffer: Buffer) -> Array:
        """The stage of a buffer that its name means at this step."""
        return self._slots[buffer.name, step.stages[buffer.name]]

    def _put(self, step: Step, buffer: Buffer, content: Array) -> None:
        slot = buffer.name, step.stages[buffer.name]
        self._slots[slot] = np.array(content, dtype=self._slots[slot].dtype)

    def _widened(self, content: Array) -> Array:
        return content.astype(self._wide)

    def _add(self, buffer: Array, other: Array) -> None:
        """A ragged tile is added to the part that it covers, a single row or column to all."""
        rows, cols = (None if extent == 1 else extent for extent in other.shape)
        covered = buffer[:rows, :cols]
        covered[...] = self._widened(covered) + other

    def _multiply(self, step: Step, op: MatMul) -> None:
        """Operands as the matrix unit sees them: rounded to the workload's format, multiplied and summed wide."""
        left, right = (self._widened(self._content(step, b).astype(self._operand)) for b in (op.a, op.b))
        right = right.T if op.transpose_b else right
        inner = min(left.shape[1], right.shape[0])
        product = left[:, :inner] @ right[:inner]
        product *= op.scale
        if op.accumulate:
            self._content(step, op.out)[: product.shape[0], : product.shape[1]] += product
        else:
            self._put(step, op.out, product)

    def _online_softmax(self, step: Step, op: OnlineSoftmax) -> None:
        at = partial(self._content, step)
        scores = at(op.scores)
        rows = len(scores)
        old = at(op.m)[:rows]
        new = np.maximum(old, scores.max(axis=1, keepdims=True))
        base = np.where(np.isneginf(new), 0, new)  # a row that has seen no key yet
        alpha = np.exp(old - base)
        weights = np.exp(scores - base)
        self._report_rescales(step, op, old, new, alpha)
        scores[...] = weights
        at(op.l)[:rows] = at(op.l)[:rows] * alpha + weights.sum(axis=1, keepdims=True)
        at(op.m)[:rows] = new
        self._put(step, op.alpha, alpha)
        if self._observers.on_statistics is not None:
            total = at(op.l)[:rows, 0].copy()
            self._observers.on_statistics(step.indices[HEAD], self._first_row(step, op.scores.rows), new[:, 0], total)

    def _report_rescales(self, step: Step, op: OnlineSoftmax, old: Array, new: Array, alpha: Array) -> None:
        if self._observers.on_rescale is None:
            return
        first = self._first_row(step, op.scores.rows)
        for row in np.flatnonzero(np.isfinite(old[:, 0]) & (new[:, 0] > old[:, 0])):
            before, after, factor = (float(x[row, 0]) for x in (old, new, alpha))
            self._observers.on_rescale(Rescaling(step.indices[HEAD], first + int(row), before, after, factor))

    @staticmethod
    def _first_row(step: Step, tile_rows: int) -> int:
        block = step.indices.get("m", step.indices.get("i", 0))
        return block * tile_rows


@dataclass(slots=True)
class _Content:
    """What one stage holds between two overwrites, and the steps that read it."""

    slot: tuple[str, int]
    readers: list[int]


def _contents(cta: UnrolledCta) -> list[_Content]:
    """Every content of every stage that is read at all: once its readers have run, nobody needs it."""
    current: dict[tuple[str, int], _Content] = {}
    contents = []
    for step in cta.steps:
        for slot in step.overwrites:
            current[slot] = _Content(slot, [])
            contents.append(current[slot])
        for buffer in reads(step.task.op):
            slot = buffer.name, step.stages[buffer.name]
            if slot in current:
                current[slot].readers.append(step.number)
    return [content for content in contents if content.readers]


def _legal_order(cta: UnrolledCta, rng: random.Random | None) -> list[int]:
    """Step numbers in program order, or in a random order that keeps every edge."""
    if rng is None:
        return [step.number for step in cta.steps]
    waiting = {step.number: 0 for step in cta.steps}
    after: dict[int, list[int]] = {step.number: [] for step in cta.steps}
    for before, later in sorted(cta.edges):
        waiting[later] += 1
        after[before].append(later)
    ready = [number for number, count in waiting.items() if count == 0]
    order = []
    while ready:
        number = ready.pop(rng.randrange(len(ready)))
        order.append(number)
        for later in after[number]:
            waiting[later] -= 1
            if waiting[later] == 0:
                ready.append(later)
    return order
