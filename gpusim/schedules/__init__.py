"""How a workload is computed: one file an idea, and the dictionary of their names.

A schedule is a function from a workload, choices (tiles, stages, warps) and kernel constants to a task graph. It sees
limits at most, never simulated time. Start with `flash2.py`; `naive.py` shows several kernels, `flash1.py` nested
loops, `gemm.py` and `stream.py` single kernels.
"""

from collections.abc import Callable
from dataclasses import dataclass

from gpusim.schedules import (
    cache_read,
    elementwise,
    flash1,
    flash2,
    flash3,
    gemm,
    naive,
    pointer_chase,
    row_softmax,
    stream,
)
from gpusim.schedules.choices import MASK_PASSES, FlashChoices, KvOuterChoices, NaiveChoices, WarpgroupChoices
from gpusim.schedules.kernel_choices import (
    CacheReadChoices,
    ChaseChoices,
    ElementwiseChoices,
    GemmChoices,
    RowSoftmaxChoices,
    StreamChoices,
)
from gpusim.taskgraph import TaskGraph
from gpusim.workloads import (
    AttentionWorkload,
    CacheReadWorkload,
    ChaseWorkload,
    GemmWorkload,
    RowsWorkload,
    StreamWorkload,
    Workload,
)

AttentionChoices = FlashChoices | KvOuterChoices | WarpgroupChoices | NaiveChoices
KernelChoices = GemmChoices | RowSoftmaxChoices | ElementwiseChoices | StreamChoices | ChaseChoices | CacheReadChoices
Choices = AttentionChoices | KernelChoices


@dataclass(frozen=True, slots=True)
class Schedule:
    """An idea: what it does in one line, where it comes from, the workload it computes, its choices and its builder."""

    name: str
    summary: str
    source: str
    workload: type[Workload]
    choices: type[Choices]
    build: Callable[..., TaskGraph]


SCHEDULES: dict[str, Schedule] = {
    schedule.name: schedule
    for schedule in (
        Schedule(
            "naive",
            "three kernels; S and P go through device memory",
            "textbook attention, Vaswani et al., arXiv 1706.03762",
            AttentionWorkload,
            NaiveChoices,
            naive.build,
        ),
        Schedule(
            "flash1",
            "K/V blocks outside, Q tiles inside; O, m and ℓ re-read and re-written",
            "Dao et al., arXiv 2205.14135, algorithm 1",
            AttentionWorkload,
            KvOuterChoices,
            flash1.build,
        ),
        Schedule(
            "flash2",
            "Q tile resident, K and V stream, O written once",
            "Dao, arXiv 2307.08691, algorithm 1",
            AttentionWorkload,
            FlashChoices,
            flash2.build,
        ),
        Schedule(
            "flash3",
            "as flash2, by a producer and consumer warpgroups on a persistent grid",
            "Shah et al., arXiv 2407.08608, algorithm 1",
            AttentionWorkload,
            WarpgroupChoices,
            flash3.build,
        ),
        Schedule(
            "gemm",
            "one CTA an output tile, a loop over the inner dimension",
            "tiled matrix product of the BLAS libraries; NVIDIA CUTLASS, media/docs/efficient_gemm.md",
            GemmWorkload,
            GemmChoices,
            gemm.build,
        ),
        Schedule(
            "row_softmax",
            "softmax of every row; long rows are read three times",
            "pytorch aten/src/ATen/native/cuda/SoftMax.cu and PersistentSoftmax.cuh",
            RowsWorkload,
            RowSoftmaxChoices,
            row_softmax.build,
        ),
        Schedule(
            "elementwise",
            "one pass over a matrix: contiguous, broadcast, strided or transposed",
            "pytorch aten/src/ATen/native/cuda/CUDALoops.cuh",
            RowsWorkload,
            ElementwiseChoices,
            elementwise.build,
        ),
        Schedule(
            "stream",
            "arrays pass once, one number a thread and array in flight",
            "te42kyfo/gpu-benches 1c36d50, gpu-stream; BabelStream",
            StreamWorkload,
            StreamChoices,
            stream.build,
        ),
        Schedule(
            "pointer_chase",
            "one thread, dependent loads of single lines",
            "te42kyfo/gpu-benches 1c36d50, gpu-latency",
            ChaseWorkload,
            ChaseChoices,
            pointer_chase.build,
        ),
        Schedule(
            "cache_read",
            "CTAs read parts of one set over and over",
            "te42kyfo/gpu-benches 1c36d50, gpu-l2-cache",
            CacheReadWorkload,
            CacheReadChoices,
            cache_read.build,
        ),
    )
}

__all__ = [
    "MASK_PASSES",
    "SCHEDULES",
    "AttentionChoices",
    "CacheReadChoices",
    "ChaseChoices",
    "Choices",
    "ElementwiseChoices",
    "FlashChoices",
    "GemmChoices",
    "KernelChoices",
    "KvOuterChoices",
    "NaiveChoices",
    "RowSoftmaxChoices",
    "Schedule",
    "StreamChoices",
    "WarpgroupChoices",
]
