"""The write of new keys and values into a KV cache, as serving frameworks do it before attention: one kernel.

A CTA of the graph stands for those of all tokens of a K/V tile. Page tables and the scatter into pages are left out.
"""

from dataclasses import replace

from gpusim.taskgraph import KernelBuilder, KernelCost, Role, TaskGraph


def with_cache_write(graph: TaskGraph, cost: KernelCost | None = None) -> TaskGraph:
    """An attention graph behind the kernel that copies its K and V into the cache."""
    key, value = (next(tensor for tensor in graph.tensors() if tensor.name == name) for name in ("K", "V"))
    cta = KernelBuilder(
        "kv_cache_write", grid=[("j", key.row_tiles), ("head", key.heads)], warps=4, compute_dtype=key.dtype
    )
    buffers = [cta.buffer(tensor.name, tensor.tile_rows, tensor.tile_cols, resident_rows=0) for tensor in (key, value)]
    for tensor, buffer in zip((key, value), buffers, strict=True):
        cta.load(tensor.tile(row="j"), buffer)
    for tensor, buffer in zip((key, value), buffers, strict=True):
        cta.store(buffer, replace(tensor, name=f"{tensor.name}_cache", role=Role.OUTPUT).tile(row="j"))
    return TaskGraph((cta.build(cost=cost, grain=key.tile_rows), *graph.kernels))
