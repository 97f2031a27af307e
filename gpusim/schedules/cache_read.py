"""Resident CTAs that read parts of one set over and over: what a cache gives all SMs at once."""

from collections.abc import Mapping

from gpusim.schedules.kernel_choices import CacheReadChoices
from gpusim.taskgraph import KernelBuilder, KernelCost, Role, Scale, TaskGraph, Tensor
from gpusim.taskgraph.tensors import ceil_div
from gpusim.workloads import CacheReadWorkload
from gpusim.workloads.kernels import LINE_BYTES


def build(workload: CacheReadWorkload, choices: CacheReadChoices, costs: Mapping[str, KernelCost]) -> TaskGraph:
    """One kernel; `costs` may hold its constants under "read".

    As many CTAs share a part as there are whole CTAs for each; then there are as many parts as CTAs allow, so that
    all have work, and the set of `footprint_bytes`, in whole lines, is cut into parts of one size.
    """
    ctas = choices.num_sms * workload.ctas_per_sm
    sharers = ctas // ceil_div(workload.footprint_bytes, workload.part_bytes)
    parts = ctas // sharers
    lines, cols = ceil_div(workload.footprint_bytes, parts * LINE_BYTES), LINE_BYTES // workload.dtype.size_bytes
    tile_lines = min(ceil_div(choices.tile_bytes, LINE_BYTES), lines)
    shared = Tensor("set", parts, lines, cols, workload.dtype, Role.INPUT, tile_lines, cols)
    cta = KernelBuilder("read", grid=[("head", parts * sharers)], warps=32, compute_dtype=workload.dtype)
    tile = cta.buffer("tile", tile_lines, cols, stages=choices.stages, resident_rows=0)
    with cta.loop("round", workload.rounds), cta.loop("tile", shared.row_tiles):
        cta.load(shared.tile(row="tile"), tile)
        cta.do("look at tile", Scale(tile, 1.0))
    return TaskGraph((cta.build(cost=costs.get("read"), ctas_per_sm=workload.ctas_per_sm),))
