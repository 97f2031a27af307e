"""Bytes over the HBM bus on paper: the formula a textbook gives for a schedule, with its numbers filled in.

N is the sequence length, d the head dim, B the rows of a Q tile, T the number of K/V tiles; where Q and K/V differ in
shape, sums of the graph stand instead.
"""

from gpusim.analytic import kernel_work
from gpusim.report.replay import ClosedForm
from gpusim.schedules import Choices, FlashChoices
from gpusim.taskgraph import TaskGraph
from gpusim.taskgraph.tensors import ceil_div
from gpusim.workloads import AttentionWorkload


def closed_form(schedule: str, workload: AttentionWorkload, choices: Choices, graph: TaskGraph) -> ClosedForm:
    """The formula of a schedule, evaluated; where there is none, what the graph sums up to."""
    is_square = workload.seqlen_q == workload.seqlen_k and workload.head_dim == workload.head_dim_v
    if not is_square or workload.save_lse:
        return _sum_of_graph(graph)
    size, n, d = workload.dtype.size_bytes, workload.seqlen_q, workload.head_dim
    match schedule, choices:
        case "naive", _:
            more = "Q, K, V, O pass once; S and P are each written and read back"
            return _form(size, "4Nd + 4N²", (4 * n * d, 4 * n * n), more)
        case "flash2", FlashChoices(tile_q=tile_q, tile_kv=tile_kv) if workload.causal:
            return _causal_form(size, n, d, tile_q, tile_kv)
        case "flash2", FlashChoices(tile_q=tile_q):
            tiles = ceil_div(n, tile_q)
            formula = "2Nd + 2Nd·N/B" if n % tile_q == 0 else "2Nd + 2Nd·⌈N/B⌉"
            more = f"Q in and O out once; K and V in once for each of the {tiles} Q tiles"
            return _form(size, formula, (2 * n * d, 2 * n * d * tiles), more)
        case "flash1", FlashChoices(tile_kv=tile_kv) if not workload.causal:
            tiles = ceil_div(n, tile_kv)
            terms = 3 * n * d, tiles * n * d, 2 * (tiles - 1) * (n * d + 2 * n)
            more = f"K, V in and O out once; Q in for each of the {tiles} K/V tiles; O, m, ℓ out and in between them"
            return _form(size, "3Nd + T·Nd + 2(T − 1)(Nd + 2N)", terms, more)
    return _sum_of_graph(graph)


def _causal_form(size: int, n: int, d: int, tile_q: int, tile_kv: int) -> ClosedForm:
    """Each Q tile reads the K/V tiles up to the one that holds its last row."""
    ends = [min(n, first + tile_q) for first in range(0, n, tile_q)]
    rows = sum(min(n, ceil_div(end, tile_kv) * tile_kv) for end in ends)
    formula = f"2Nd + 2d × {rows} rows of K and V"
    if tile_q == tile_kv and n % tile_q == 0:
        formula = f"2Nd + 2Bd × {rows // tile_q} tile pairs"
    more = f"Q in and O out once; K and V in once for each of the {len(ends)} Q tiles, less what the mask skips"
    return _form(size, formula, (2 * n * d, 2 * d * rows), more)


def _form(size: int, formula: str, terms: tuple[int, ...], more: str) -> ClosedForm:
    filled = " + ".join(f"{term}" for term in terms)
    return ClosedForm(size * sum(terms), f"{size} B × ({formula}) = {size} × ({filled})", more)


def _sum_of_graph(graph: TaskGraph) -> ClosedForm:
    works = [(kernel.name, kernel_work(kernel)) for kernel in graph.kernels]
    totals = [work.read_bytes + work.write_bytes for _, work in works]
    text = " + ".join(f"{name} {total}" for (name, _), total in zip(works, totals, strict=True))
    return ClosedForm(sum(totals), text, "what each kernel's loads and stores ask for")
