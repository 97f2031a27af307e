"""Attention on the GPU: our own kernels and PyTorch's, at the sizes of the published benchmarks.

16,384 tokens and a hidden size of 2,048, as in the FlashAttention benchmarks; N runs from 512 to 16,384.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from gpusim.dtypes import DType
from gpusim.errors import PointError
from gpusim.implementations import parse_request, plan
from gpusim.numeric import attention_reference
from gpusim.specs import GpuSpec, gpu_names, load_gpu
from gpusim.workloads import AttentionWorkload
from gpusim.workloads.conditions import Cache
from validation.collect.device import DeviceError, Facts
from validation.collect.work import TOLERANCES, Backend, Case, Check, SdpaCall, Timer, Work
from validation.kernels import attention_work

TOKENS, HIDDEN = 16384, 2048
SEQLENS = (512, 1024, 2048, 4096, 8192, 16384)
HEAD_DIMS = (64, 128)
COLD_SEQLENS = (512, 2048)
CHECK_SEQLENS = (200, 2200)  # ragged; the second beyond what naive_softmax keeps of a row in registers
CHECK_HEADS = 2
Dtype = Literal["fp16", "bf16"]


@dataclass(frozen=True, slots=True)
class OwnKernel:
    """An implementation of ours: the masks and formats to measure, and the longest N."""

    implementation: str
    causal: tuple[bool, ...] = (False,)
    dtypes: tuple[Dtype, ...] = ("fp16",)
    longest: int = SEQLENS[-1]


OWN_KERNELS = (
    OwnKernel("gpusim_cuda", (False, True), ("fp16", "bf16")),
    OwnKernel("gpusim_cuda_naive", longest=4096),
    OwnKernel("gpusim_cuda_flash1", longest=8192),
)
HOPPER_KERNELS = (OwnKernel("gpusim_cuda_flash3", (False, True), ("fp16", "bf16")),)
BACKENDS: Mapping[Backend, int] = {"flash": 16384, "cudnn": 16384, "efficient": 16384, "math": 4096}  # longest N


def _workload(seqlen: int, head_dim: int, dtype: Dtype, *, causal: bool) -> AttentionWorkload:
    return AttentionWorkload(
        batch=TOKENS // seqlen,
        heads=HIDDEN // head_dim,
        seqlen_q=seqlen,
        seqlen_k=seqlen,
        head_dim=head_dim,
        dtype=DType(dtype),
        causal=causal,
    )  # type: ignore[call-arg]


def _cells(kernel: str, workload: AttentionWorkload, timing: str) -> dict[str, object]:
    return {
        "kernel": kernel,
        "pass": workload.pass_,
        "dtype": workload.dtype.value,
        "batch": workload.batch,
        "heads": workload.heads,
        "seqlen_q": workload.seqlen_q,
        "seqlen_k": workload.seqlen_k,
        "head_dim": workload.head_dim,
        "causal": str(workload.causal).lower(),
        "timing": timing,
    }


def own_cases(facts: Facts) -> Iterator[Case]:
    """Our own kernels in replays of a graph; the plainest also with inputs that are not in L2.

    Raises DeviceError where no config says what the GPU's tiles are.
    """
    spec = _spec(facts)
    yield from _warm(OWN_KERNELS, spec)
    for head_dim in HEAD_DIMS:
        for seqlen in COLD_SEQLENS:
            workload = _workload(seqlen, head_dim, "fp16", causal=False)
            yield from _own(OWN_KERNELS[0].implementation, spec, workload, cache_state="cold")


def hopper_cases(facts: Facts) -> Iterator[Case]:
    """Our warp-specialised kernel: the one that could wait forever. Raises DeviceError as `own_cases` does."""
    yield from _warm(HOPPER_KERNELS, _spec(facts))


def _warm(kernels: Sequence[OwnKernel], spec: GpuSpec) -> Iterator[Case]:
    """Every size, mask and format of these kernels, with inputs in L2 where they fit."""
    for kernel in kernels:
        for dtype in kernel.dtypes:
            for head_dim in HEAD_DIMS:
                for causal in kernel.causal if dtype == "fp16" else (False,):
                    for seqlen in (length for length in SEQLENS if length <= kernel.longest):
                        workload = _workload(seqlen, head_dim, dtype, causal=causal)
                        yield from _own(kernel.implementation, spec, workload)


def counter_cases(facts: Facts) -> Iterator[Case]:
    """Kernels whose bytes are counted: those of one launch, which a profiler can start with an empty L2."""
    spec = _spec(facts)
    for implementation in ("gpusim_cuda", "gpusim_cuda_flash1"):
        for head_dim in HEAD_DIMS:
            for seqlen in COLD_SEQLENS:
                workload = _workload(seqlen, head_dim, "fp16", causal=False)
                yield from _own(implementation, spec, workload, timing="ncu", cache_state="cold")


def _spec(facts: Facts) -> GpuSpec:
    if facts.gpu not in gpu_names():
        raise DeviceError(f"no config for {facts.gpu}, which says what tiles it takes; see collect --help on --gpu")
    return load_gpu(facts.gpu)


def _own(
    implementation: str,
    spec: GpuSpec,
    workload: AttentionWorkload,
    *,
    timing: str = "graph",
    cache_state: Cache = "warm",
) -> Iterator[Case]:
    """The case; none where the simulator says that this implementation does not run the workload on this GPU."""
    try:
        work = own_work(implementation, spec, workload)
    except PointError:
        return
    timer: Timer = "event" if timing == "event" else "graph"
    yield Case(
        f"{implementation} {_case_name(workload)}, {timing}, {cache_state}",
        work,
        _cells(implementation, workload, timing),
        lambda ms: {"latency_ms": ms},
        timer=timer,
        cache=cache_state,
        checks=own_checks(implementation, spec, workload),
    )


def _case_name(workload: AttentionWorkload) -> str:
    causal = " causal" if workload.causal else ""
    return f"{workload.dtype.value} d={workload.head_dim} N={workload.seqlen_q}{causal}"


def own_work(implementation: str, spec: GpuSpec, workload: AttentionWorkload) -> Work:
    """Launches of our kernels with the tiles of this GPU. Raises PointError where they do not run the workload."""
    planned = plan(parse_request(implementation, "collect"), spec, workload)
    return attention_work(planned, spec, workload)


def own_checks(implementation: str, spec: GpuSpec, workload: AttentionWorkload) -> tuple[Check, ...]:
    """Two heads at each of CHECK_SEQLENS with the same tiles, against float64."""
    return tuple(_check(implementation, spec, workload, seqlen) for seqlen in CHECK_SEQLENS)


def _check(implementation: str, spec: GpuSpec, workload: AttentionWorkload, seqlen: int) -> Check:
    sizes = {"batch": 1, "heads": CHECK_HEADS, "kv_heads": CHECK_HEADS, "seqlen_q": seqlen, "seqlen_k": seqlen}
    small = workload.model_copy(update=sizes)
    work = own_work(implementation, spec, small)

    def expected() -> Mapping[str, npt.NDArray[np.float64]]:
        return {"o": _reference(work, small)}

    return Check(f"{implementation} {_case_name(small)}", work, expected, TOLERANCES[small.dtype])


def _reference(work: Work, workload: AttentionWorkload) -> npt.NDArray[np.float64]:
    """Attention in float64 on the numbers that q, k and v hold, rounded as they are."""
    shape = (workload.heads, workload.seqlen_q, workload.head_dim)
    arrays = (work.arrays[name] for name in ("q", "k", "v"))
    q, k, v = (array.unpacked(array.values()).reshape(shape) for array in arrays)
    return attention_reference(q, k, v, _causal_bias(workload.seqlen_q) if workload.causal else None)


@cache
def _causal_bias(seqlen: int) -> npt.NDArray[np.float64]:
    return np.where(np.tri(seqlen, dtype=bool), 0.0, -np.inf)


def sdpa_cases(facts: Facts) -> Iterator[Case]:
    """PyTorch's backends, as events around queued calls."""
    for backend, longest in BACKENDS.items():
        for head_dim in HEAD_DIMS:
            for causal in (False, True):
                for seqlen in (length for length in SEQLENS if length <= longest):
                    workload = _workload(seqlen, head_dim, "fp16", causal=causal)
                    yield Case(
                        f"torch_sdpa_{backend} {_case_name(workload)}",
                        SdpaCall(backend, "fp16", workload.batch, workload.heads, seqlen, head_dim, causal),
                        _cells(f"torch_sdpa_{backend}", workload, "event"),
                        lambda ms: {"latency_ms": ms},
                    )
