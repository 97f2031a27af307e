"""One CTA as a flat list of steps, with the dependencies that a real kernel enforces with barriers.

Edges follow from program order: a step waits for the last writer of what it reads (read after write), for the
readers of what it overwrites (write after read) and for the writer before it (write after write). A buffer with
several stages is that many buffers in turn, which is what lets a load run ahead. Tiles of device memory that a CTA
stores and loads again are ordered the same way.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from gpusim.taskgraph.ops import Load, Store, reads, writes
from gpusim.taskgraph.program import Kernel, Loop, Node, Task
from gpusim.taskgraph.tensors import HEAD, Buffer, Tile

Slot = tuple[str, int]
Place = Slot | tuple[str, int, int, int]  # an on-chip buffer stage, or a tile of device memory


@dataclass(frozen=True, slots=True)
class Step:
    """A task with its index values, and the buffer stage that every buffer name means at this step."""

    number: int
    task: Task
    indices: Mapping[str, int]
    stages: Mapping[str, int]
    overwrites: tuple[Slot, ...]  # stages whose old content nobody needs any more once this step starts


@dataclass(frozen=True, slots=True)
class UnrolledCta:
    """Steps of one CTA and the pairs (before, after) that any legal order keeps."""

    steps: tuple[Step, ...]
    edges: frozenset[tuple[int, int]]


Unroll = Callable[[Kernel, tuple[int, ...]], UnrolledCta]


def unroll(kernel: Kernel, coordinates: tuple[int, ...]) -> UnrolledCta:
    """Steps and dependencies of the CTA at these grid coordinates."""
    grid = {index: value for (index, _), value in zip(kernel.grid, coordinates, strict=True)}
    state = _Hazards(kernel)
    for task, indices in _walk(kernel.program, grid, kernel.trips()):
        state.add(task, indices)
    return UnrolledCta(tuple(state.steps), frozenset(state.edges))


def _walk(
    nodes: tuple[Node, ...], indices: dict[str, int], trips: Mapping[str, int]
) -> Iterator[tuple[Task, dict[str, int]]]:
    for node in nodes:
        if isinstance(node, Loop):
            count = node.trips_at(indices)
            for value in range(count):
                yield from _walk(node.body, indices | {node.index: value}, {**trips, node.index: count})
        elif node.guard is None or node.guard.holds(indices[node.guard.index], trips[node.guard.index]):
            yield node, indices


class _Hazards:
    """Program-order bookkeeping: last writer and later readers of every place."""

    def __init__(self, kernel: Kernel) -> None:
        self.steps: list[Step] = []
        self.edges: set[tuple[int, int]] = set()
        self._stage_counts = {buffer.name: buffer.stages for buffer in kernel.buffers}
        self._loads = dict.fromkeys(self._stage_counts, -1)
        self._writer: dict[Place, int] = {}
        self._readers: dict[Place, list[int]] = {}

    def add(self, task: Task, indices: dict[str, int]) -> None:
        number = len(self.steps)
        if isinstance(task.op, Load):
            self._loads[task.op.into.name] += 1
        stages = {name: max(count, 0) % self._stage_counts[name] for name, count in self._loads.items()}
        read, written = reads(task.op), writes(task.op)
        read_places = [self._slot(buffer, stages) for buffer in read]
        written_places = [self._slot(buffer, stages) for buffer in written]
        overwritten = tuple(self._slot(buffer, stages) for buffer in written if buffer not in read)
        match task.op:
            case Load(tile=tile):
                self._note(number, [*read_places, *_places(tile, indices)], written_places)
            case Store(tile=tile):
                self._note(number, read_places, [*written_places, *_places(tile, indices)])
            case _:
                self._note(number, read_places, written_places)
        self.steps.append(Step(number, task, indices, stages, overwritten))

    @staticmethod
    def _slot(buffer: Buffer, stages: Mapping[str, int]) -> Slot:
        return buffer.name, stages[buffer.name]

    def _note(self, number: int, read: list[Place] | list[Slot], written: list[Place] | list[Slot]) -> None:
        for place in read:
            if place in self._writer:
                self.edges.add((self._writer[place], number))
        for place in written:
            if place in self._writer:
                self.edges.add((self._writer[place], number))
            self.edges.update((reader, number) for reader in self._readers.get(place, ()) if reader != number)
        for place in read:
            self._readers.setdefault(place, []).append(number)
        for place in written:
            self._writer[place] = number
            self._readers[place] = []


def _places(tile: Tile, indices: Mapping[str, int]) -> list[Place]:
    row, col = block_of(tile, indices)
    matrix = 0 if tile.head == HEAD else indices[tile.head]
    return [
        (tile.tensor.name, matrix, row * tile.row_tiles + i, col * tile.col_tiles + j)
        for i in range(tile.row_tiles)
        for j in range(tile.col_tiles)
    ]


def block_of(tile: Tile, indices: Mapping[str, int]) -> tuple[int, int]:
    """Row and column block number of a tile at these index values."""
    row = indices[tile.row] if isinstance(tile.row, str) else tile.row
    col = indices[tile.col] if isinstance(tile.col, str) else tile.col
    return row, col
