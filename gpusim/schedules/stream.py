"""Arrays that pass once through a grid of resident CTAs: the bandwidth benchmarks' read, copy, triad and fill.

A CTA loops over its share with one number a thread and array in flight: loads are asked for and awaited, the sum is
stored behind them. A stream that only stores waits for nothing but its own turnaround.
"""

from collections.abc import Mapping

from gpusim.schedules.kernel_choices import StreamChoices
from gpusim.specs.sm import WARP_THREADS
from gpusim.taskgraph import Add, Buffer, Fill, KernelBuilder, KernelCost, Role, Scale, TaskGraph, Tensor
from gpusim.taskgraph.tensors import ceil_div
from gpusim.workloads import StreamWorkload

ELEMENT_COLS = 2  # an element of 8 bytes is two columns of fp32
KERNELS = {(1, 0): "read", (1, 1): "copy", (2, 1): "triad", (0, 1): "fill"}  # by arrays read and written


def build(workload: StreamWorkload, choices: StreamChoices, costs: Mapping[str, KernelCost]) -> TaskGraph:
    """One kernel; `costs` may hold constants under the names of `KERNELS`.

    Elements are rounded up to whole tiles of `threads_per_cta`, as many in every CTA; no SM has more than `ctas_per_sm`
    of these, and a short stream has fewer.
    """
    threads = workload.threads_per_cta
    tiles = ceil_div(workload.elements, threads)
    trips = ceil_div(tiles, choices.num_sms * workload.ctas_per_sm)
    cta = KernelBuilder(
        "stream" if workload.loads else "fill",
        grid=[("head", ceil_div(tiles, trips))],
        warps=ceil_div(threads, WARP_THREADS),
        compute_dtype=workload.dtype,
    )
    arrays = [_array(f"in{number}", workload, Role.INPUT, trips, choices) for number in range(workload.loads)]
    buffers = [cta.buffer(array.name, threads, ELEMENT_COLS, resident_rows=0) for array in arrays]
    if not buffers:
        buffers = [cta.buffer("zero", threads, ELEMENT_COLS, resident_rows=0)]
        cta.do("zero", Fill(buffers[0], 0.0))
    with cta.loop("i", trips):
        for array, buffer in zip(arrays, buffers, strict=False):
            cta.load(array.tile(row="i"), buffer)
        _add(cta, buffers, is_used=bool(workload.stores))
        if workload.stores:
            cta.store(buffers[0], _array("out", workload, Role.OUTPUT, trips, choices).tile(row="i"))
    cost = costs.get(KERNELS.get((workload.loads, workload.stores), "other"))
    return TaskGraph((cta.build(cost=cost, ctas_per_sm=workload.ctas_per_sm),))


def _array(name: str, workload: StreamWorkload, role: Role, trips: int, choices: StreamChoices) -> Tensor:
    threads = workload.threads_per_cta
    ctas = ceil_div(ceil_div(workload.elements, threads), trips)
    return Tensor(name, ctas, trips * threads, ELEMENT_COLS, workload.dtype, role, threads, ELEMENT_COLS)


def _add(cta: KernelBuilder, buffers: list[Buffer], *, is_used: bool) -> None:
    """Sums the arrays into the first; one that is neither summed nor stored is at least looked at."""
    first, *others = buffers
    for other in others:
        cta.do(f"add {other.name}", Add(first, other))
    if not others and not is_used:
        cta.do(f"look at {first.name}", Scale(first, 1.0))
