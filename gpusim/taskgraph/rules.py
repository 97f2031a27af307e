"""What a legal graph is. A schedule that breaks a rule is a bug, reported with the kernel and task by name."""

from collections.abc import Iterator, Mapping

from gpusim.errors import GraphError
from gpusim.taskgraph.ops import Load, MatMul, Store, reads, writes
from gpusim.taskgraph.program import HEAD, Kernel, Loop, Node, Task, TaskGraph, loops
from gpusim.taskgraph.tensors import Buffer, Role, Tensor, Tile, ceil_div


def check_graph(graph: TaskGraph) -> None:
    """Raises GraphError with every broken rule of the graph."""
    problems = [problem for kernel in graph.kernels for problem in _kernel_problems(kernel)]
    problems.extend(_flow_problems(graph))
    if problems:
        raise GraphError("\n".join(problems))


def _kernel_problems(kernel: Kernel) -> Iterator[str]:
    declared = set(kernel.buffers)
    yield from (f"{kernel.name}: {problem}" for problem in _buffer_problems(kernel))
    yield from (f"{kernel.name}: {problem}" for problem in _unread_loads(kernel.program))
    written: set[Buffer] = set()
    indices = kernel.trips()
    yield from _kernel_order_problems(kernel)
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
        yield from (f"{where}: {problem}" for problem in _task_problems(task, indices, kernel.warpgroups))


def _buffer_problems(kernel: Kernel) -> Iterator[str]:
    names = [buffer.name for buffer in kernel.buffers]
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        yield f"two buffers are called {name}"


def _unread_loads(nodes: tuple[Node, ...]) -> Iterator[str]:
    """Loads of an innermost loop into a buffer it never reads: nothing would say when the buffer is free again."""
    for node in nodes:
        if not isinstance(node, Loop):
            continue
        yield from _unread_loads(node.body)
        tasks = [task for task in node.body if isinstance(task, Task)]
        if len(tasks) < len(node.body):
            continue
        read = {buffer for task in tasks for buffer in reads(task.op)}
        for task in tasks:
            if isinstance(task.op, Load) and task.op.into not in read:
                yield f"{task.name}: loop {node.index} loads {task.op.into.name} and never reads it"


def _task_problems(task: Task, indices: Mapping[str, int], split: tuple[str, int] | None) -> Iterator[str]:
    if task.guard is not None and task.guard.index not in indices:
        yield f"guard names index {task.guard.index}, which is no loop or grid index"
    match task.op:
        case Load(tile=tile, into=buffer) | Store(tile=tile, buffer=buffer):
            yield from _tile_problems(tile, buffer, indices, split)
            yield from _head_problems(task.op, tile, indices)
        case MatMul(a=a, b=b, out=out, transpose_b=transpose_b):
            inner, cols = (b.cols, b.rows) if transpose_b else (b.rows, b.cols)
            if (a.cols, a.rows, cols) != (inner, out.rows, out.cols):
                yield f"shapes {a.rows}×{a.cols} · {inner}×{cols} do not give {out.rows}×{out.cols}"
        case _:
            return


def _kernel_order_problems(kernel: Kernel) -> Iterator[str]:
    if kernel.band is not None and len(kernel.grid) < 2:
        yield f"{kernel.name}: bands need a grid of two indices"
    grid = dict(kernel.grid)
    for index in kernel.descending:
        if index not in grid:
            yield f"{kernel.name}: {index} is to descend, but is no grid index"
    for loop in loops(kernel.program):
        if loop.diagonal is not None and loop.diagonal.index not in grid:
            yield f"{kernel.name}: loop {loop.index} ends with {loop.diagonal.index}, which is no grid index"
    if kernel.warpgroups is not None:
        index, count = kernel.warpgroups
        if grid.get(index, 1) % count:
            yield f"{kernel.name}: {count} warpgroups a CTA do not divide the {grid.get(index)} values of {index}"
        if kernel.scheduler != "hardware" and not any(_streams(loop) for loop in loops(kernel.program)):
            yield f"{kernel.name}: nothing keeps the warpgroups of a persistent CTA together, as no loop loads anything"


def _streams(loop: Loop) -> bool:
    """Whether an innermost loop loads something."""
    tasks = [node for node in loop.body if isinstance(node, Task)]
    return len(tasks) == len(loop.body) and any(isinstance(task.op, Load) for task in tasks)


def _tile_problems(
    tile: Tile, buffer: Buffer, indices: Mapping[str, int], split: tuple[str, int] | None
) -> Iterator[str]:
    """Tiles lie inside their tensor; of the warpgroups of a CTA, the last may have nothing left to do."""
    name = tile.tensor.name
    for axis, blocks in ((tile.row, len(tile.row_extents())), (tile.col, len(tile.col_extents()))):
        if isinstance(axis, str) and axis not in indices:
            yield f"tile of {name} uses index {axis}, which is no loop or grid index"
            continue
        last = indices[axis] - 1 if isinstance(axis, str) else axis
        if split is not None and axis == split[0]:
            blocks = ceil_div(blocks, split[1]) * split[1]
        if last >= blocks:
            yield f"tile of {name} reaches block {last}, but {name} has {blocks}"
    if tile.row == tile.col and isinstance(tile.row, str):
        yield f"tile of {name} uses index {tile.row} for its row and its column"
    if (tile.rows, tile.cols) != (buffer.rows, buffer.cols):
        yield f"a {tile.rows}×{tile.cols} tile does not fill buffer {buffer.name} of {buffer.rows}×{buffer.cols}"


def _head_problems(op: Load | Store, tile: Tile, indices: Mapping[str, int]) -> Iterator[str]:
    """Neighbouring heads may read one matrix; written by several it would hold whichever came last."""
    tensor = tile.tensor
    if tile.head != HEAD and tile.head not in indices:
        yield f"tile of {tensor.name} uses index {tile.head}, which is no loop or grid index"
        return
    heads = indices.get(tile.head, tensor.heads)
    is_shared = heads % tensor.heads == 0 and isinstance(op, Load)
    if tensor.heads != heads and not is_shared:
        where = "the grid" if tile.head == HEAD else f"index {tile.head}"
        yield f"{where} has {heads} heads, but {tensor.name} has {tensor.heads}"


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
