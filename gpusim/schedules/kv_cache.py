"""The write of new keys and values into a KV cache, as serving frameworks do it before attention: one kernel.

A CTA of the graph stands for those of all tokens of whole tiles of K and of V. Page tables and the scatter into pages
are left out.
"""

import math
from dataclasses import replace
from fractions import Fraction

from gpusim.taskgraph import KernelBuilder, KernelCost, Role, TaskGraph
from gpusim.taskgraph.tensors import ceil_div


def with_cache_write(graph: TaskGraph, *, warps: int, ctas_per_row: Fraction, cost: KernelCost) -> TaskGraph:
    """An attention graph behind the kernel that copies its K and V into the cache.

    A CTA of that kernel has so many `warps`, and `ctas_per_row` of them copy one row of one head of K and of V; those
    of ragged tiles are spread over all tiles.
    """
    key, value = (next(tensor for tensor in graph.tensors() if tensor.name == name) for name in ("K", "V"))
    rows = math.lcm(key.tile_rows, value.tile_rows)
    grid = [("j", ceil_div(key.rows, rows)), ("head", key.heads)]
    cta = KernelBuilder("kv_cache_write", grid=grid, warps=warps, compute_dtype=key.dtype)
    tiles = [
        tensor.tile(row="j", row_tiles=rows // tensor.tile_rows, col_tiles=tensor.col_tiles) for tensor in (key, value)
    ]
    buffers = [cta.buffer(tile.tensor.name, tile.rows, tile.cols, resident_rows=0) for tile in tiles]
    for tile, buffer in zip(tiles, buffers, strict=True):
        cta.load(tile, buffer)
    for tile, buffer in zip(tiles, buffers, strict=True):
        cache = replace(tile.tensor, name=f"{tile.tensor.name}_cache", role=Role.OUTPUT)
        cta.store(buffer, replace(tile, tensor=cache))
    real_ctas = math.ceil(key.rows * key.heads * ctas_per_row)
    grain = Fraction(real_ctas, math.prod(extent for _, extent in grid))
    return TaskGraph((cta.build(cost=cost, grain=grain), *graph.kernels))
