"""What lanes are called, and which matrices they draw."""

from dataclasses import dataclass

from gpusim.report.replay import Matrix
from gpusim.schedules import Choices
from gpusim.taskgraph import TaskGraph
from gpusim.workloads import AttentionWorkload

DRAWN = ("Q", "K", "V", "S", "P", "O")  # always, in this order


@dataclass(frozen=True, slots=True)
class Titles:
    """A schedule's short name, and its name with tiles."""

    name: str
    title: str


def titles(schedule: str, workload: AttentionWorkload, tile: tuple[int, int]) -> Titles:
    """As readers know a schedule."""
    square = f"tiles of {tile[0]}" if tile[0] == tile[1] else f"tiles of {tile[0]} × {tile[1]}"
    match schedule:
        case "naive":
            return Titles("Naive", "Naive")
        case "flash1":
            return Titles("FA-1", f"FA-1, {square}")
        case "flash2" if workload.causal:
            return Titles("Causal", f"Causal, {square}")
        case "flash2":
            return Titles("Flash", f"Flash, {square}")
    return Titles(schedule, f"{schedule}, {square}")


def tile_of(choices: Choices) -> tuple[int, int]:
    """Rows of a Q and of a K/V tile."""
    fields = choices.model_dump()
    return fields["tile_q"], fields["tile_kv"]


def drawn_matrices(workload: AttentionWorkload, graph: TaskGraph) -> tuple[Matrix, ...]:
    """Q, K, V, S, P and O, whether or not they are in device memory, and what else the graph keeps there."""
    tensors = {tensor.name: tensor for tensor in graph.tensors()}
    scores = workload.seqlen_q, workload.seqlen_k
    matrices = []
    for name in dict.fromkeys((*DRAWN, *tensors)):
        tensor = tensors.get(name)
        rows, cols = scores if tensor is None else (tensor.rows, tensor.cols)
        matrices.append(Matrix(name, rows, cols, tensor is not None))
    return tuple(matrices)
