"""What a legal graph is. A schedule that breaks a rule is a bug, reported with the kernel and task by name."""

from collections.abc import Iterator

from gpusim.errors import GraphError
from gpusim.taskgraph.ops import Load, MatMul, Store, reads, writes
from gpusim.taskgraph.program import HEAD, Kernel, Task, TaskGraph
from gpusim.taskgraph.tensors import Buffer, Role, Tensor, Tile


def check_graph(graph: TaskGraph) -> None:
    """Raises GraphError with every broken rule of the graph."""
    problems = [problem for kernel in graph.kernels for problem in _kernel_problems(kernel)]
    problems.extend(_flow_problems(graph))
    if problems:
        raise GraphError("\n".join(problems))


def _kernel_problems(kernel: Kernel) -> Iterator[str]:
    declared = set(kernel.buffers)
    written: set[Buffer] = set()
    indices = kernel.trips()
    if HEAD not in dict(kernel.grid):
        yield f"{kernel.name}: the grid has no '{HEAD}' index"
    for task in kernel.tasks():
        where = f"{kernel.name}, {task.name}"
        for buffer in (*reads(task.op), *writes(task.op)):
            if buffer not in declared:
                yield f"{where}: buffer {buffer.name} is not declared"
        for buffer in reads(task.op):
            if buffer not in written:
                yield f"{where}: reads {buffer.name} before anything wrote it"
        written.update(writes(task.op))
        yield from (f"{where}: {problem}" for problem in _task_problems(task, set(indices)))


def _task_problems(task: Task, indices: set[str]) -> Iterator[str]:
    if task.guard is not None and task.guard.index not in indices:
        yield f"guard names index {task.guard.index}, which is no loop or grid index"
    match task.op:
        case Load(tile=tile, into=buffer) | Store(tile=tile, buffer=buffer):
            yield from _tile_problems(tile, buffer, indices)
        case MatMul(a=a, b=b, out=out, transpose_b=transpose_b):
            inner, cols = (b.cols, b.rows) if transpose_b else (b.rows, b.cols)
            if (a.cols, a.rows, cols) != (inner, out.rows, out.cols):
                yield f"shapes {a.rows}×{a.cols} · {inner}×{cols} do not give {out.rows}×{out.cols}"
        case _:
            return


def _tile_problems(tile: Tile, buffer: Buffer, indices: set[str]) -> Iterator[str]:
    for axis in (tile.row, tile.col):
        if isinstance(axis, str) and axis not in indices:
            yield f"tile of {tile.tensor.name} uses index {axis}, which is no loop or grid index"
    if (tile.rows, tile.cols) != (buffer.rows, buffer.cols):
        yield f"a {tile.rows}×{tile.cols} tile does not fill buffer {buffer.name} of {buffer.rows}×{buffer.cols}"


def _flow_problems(graph: TaskGraph) -> Iterator[str]:
    """Inputs are never written; everything else is written before a later kernel reads it."""
    available = {tensor for tensor in graph.tensors() if tensor.role is Role.INPUT}
    names: dict[str, Tensor] = {}
    for kernel in graph.kernels:
        for tensor in kernel.loaded():
            if tensor not in available and tensor not in kernel.stored():
                yield f"{kernel.name}: reads {tensor.name} before any kernel wrote it"
        for tensor in kernel.stored():
            if tensor.role is Role.INPUT:
                yield f"{kernel.name}: writes the input {tensor.name}"
            available.add(tensor)
        for tensor in (*kernel.loaded(), *kernel.stored()):
            if names.setdefault(tensor.name, tensor) != tensor:
                yield f"{kernel.name}: two different tensors are called {tensor.name}"
    for tensor in graph.tensors():
        if tensor.role in (Role.OUTPUT, Role.SAVED) and tensor not in available:
            yield f"no kernel writes the output {tensor.name}"
