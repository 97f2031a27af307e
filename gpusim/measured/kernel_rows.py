"""Rows about a single kernel: matrix products, passes over rows, streams, pointer chases, reads of a cache.

One reader a kind; `kinds` of the alias table says which columns make a kind. A rate becomes a latency through the FLOPs
or bytes that its source counted. What a rate leaves open, such as how long a stream ran, is assumed and counted.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from gpusim.measured.aliases import KernelAlias, Kind, KindName, SourceAlias, alias_table, look_up
from gpusim.measured.cells import RowCells, RowError
from gpusim.measured.names import Assumed, conditions_of, dtype_of, gpu_of, kernel_of
from gpusim.specs import GpuSpec, load_gpu
from gpusim.strict_yaml import problems_from
from gpusim.units import KIB
from gpusim.workloads import (
    CacheReadWorkload,
    ChaseWorkload,
    Conditions,
    GemmWorkload,
    RowsWorkload,
    StreamWorkload,
    Timing,
    Workload,
    compulsory_bytes,
)

KERNEL_TIME_COLUMNS = ("latency_us", "us_per_kernel", "latency_ns", "gb_per_s", "tb_per_s")
KERNEL_COLUMNS = (
    *("m", "n", "k", "seqlen", "rows", "cols", "elements", "mode"),
    *("block_size", "threads_total", "data_kb", "per_block_kb", "clock_mhz"),
    *KERNEL_TIME_COLUMNS,
)
STREAM_ELEMENTS = 1 << 27  # an array of gpu-benches' gpu-stream, 1 GiB, where a source states a rate alone
BABELSTREAM_ELEMENTS = 1 << 25  # its default array
LARGEST_L1_BYTES = 256 * KIB  # of Hopper; a smaller set may never leave it
_FLAT_COLS = 1024  # a flat array is read as a matrix of this many columns, or fewer where that leaves a rest
_TIMING_OF_MODE: dict[str, Timing] = {"stream launches": "event", "cuda graph": "graph"}

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class KernelReading:
    """What a row about a single kernel says; `kernel` is the name of its series, `latency_ms` is in milliseconds."""

    gpu: str
    kernel: str
    implementation: str
    workload: Workload
    conditions: Conditions
    latency_ms: float


@dataclass(frozen=True)
class _Case:
    """What a reader takes out of a row: what ran and how long, in which mode, and what it says about conditions."""

    workload: Workload
    latency_ms: float
    mode: str | None = None
    stated: dict[str, object] = field(default_factory=dict)


Reader = Callable[[RowCells, GpuSpec, KernelAlias | None], _Case]


def kind_of(cells: RowCells) -> Kind | None:
    """The kind of single kernel that the row is about, by its kernel or its columns; None for an attention row."""
    kernel = look_up(alias_table().kernels, cells.raw("kernel"))
    named = kernel.kind if kernel else None
    for kind in alias_table().kinds:
        if kind.kind == named if named else kind.columns and cells.fills(kind.columns):
            return kind
    return None


def read_kernel(cells: RowCells, kind: Kind, source: SourceAlias | None) -> KernelReading:
    """A row of this kind. Raises RowError when it cannot be used."""
    if kind.kind is None:
        raise RowError(kind.skip or "")
    gpu = gpu_of(cells, source)
    kernel, alias = cells.raw("kernel"), None
    if kind.kernel is None:
        implementation, _, alias = kernel_of(cells, gpu)
    else:
        kernel, implementation = kind.kernel, kind.implementation or kind.kernel
    case = _READERS[kind.kind](cells, _spec(gpu), alias)
    known = [entry for entry in (alias, source) if entry]
    conditions = conditions_of(cells, known, Assumed(kind.timing, kind.cache), case.stated)
    cells.refuse_problems()
    name = f"{kernel} ({case.mode})" if case.mode else kernel
    return KernelReading(gpu, name, implementation, case.workload, conditions, case.latency_ms)


@cache
def _spec(gpu: str) -> GpuSpec:
    return load_gpu(gpu)


def _gemm(cells: RowCells, spec: GpuSpec, alias: KernelAlias | None) -> _Case:
    sizes = {column: cells.count(column) for column in ("m", "n", "k")} | {"batch": cells.optional_count("batch") or 1}
    return _timed(cells, _built(cells, GemmWorkload, **sizes, dtype=dtype_of(cells)))


def _bmm_qk(cells: RowCells, spec: GpuSpec, alias: KernelAlias | None) -> _Case:
    """Scores: N × d by d × N for every head of the batch."""
    batch, seqlen, head_dim = (cells.count(column) for column in ("batch", "seqlen", "head_dim"))
    workload = _built(cells, GemmWorkload, batch=batch, m=seqlen, n=seqlen, k=head_dim, dtype=dtype_of(cells))
    return _timed(cells, workload)


def _bmm_pv(cells: RowCells, spec: GpuSpec, alias: KernelAlias | None) -> _Case:
    """Outputs: N × N by N × d for every head of the batch."""
    batch, seqlen, head_dim = (cells.count(column) for column in ("batch", "seqlen", "head_dim"))
    workload = _built(cells, GemmWorkload, batch=batch, m=seqlen, n=head_dim, k=seqlen, dtype=dtype_of(cells))
    return _timed(cells, workload)


def _rows(cells: RowCells, spec: GpuSpec, alias: KernelAlias | None) -> _Case:
    """A matrix of `rows` × `cols`, which some files write m × n."""
    sides = (("rows", "m"), ("cols", "n"))
    rows, cols = (cells.count(other if cells.raw(other) and not cells.raw(name) else name) for name, other in sides)
    return _timed(cells, _built(cells, RowsWorkload, rows=rows, cols=cols, dtype=dtype_of(cells)))


def _elementwise(cells: RowCells, spec: GpuSpec, alias: KernelAlias | None) -> _Case:
    """A flat array of m numbers."""
    elements = cells.count("m")
    cols = math.gcd(elements, _FLAT_COLS)
    return _timed(cells, _built(cells, RowsWorkload, rows=elements // cols, cols=cols, dtype=dtype_of(cells)))


def _stream(cells: RowCells, spec: GpuSpec, alias: KernelAlias | None) -> _Case:
    """Bandwidth at an occupancy: `threads_total` in CTAs of `block_size`, the same number on every SM.

    `elements` is the length of an array.
    """
    block_size, threads = cells.count("block_size"), cells.count("threads_total")
    if threads % (block_size * spec.sm.count):
        cells.problem(
            "threads_total", f"is no multiple of block_size on each of the {spec.sm.count} SMs of {spec.name}"
        )
    elements = cells.optional_count("elements")
    if elements is None:
        cells.assume("elements")
    return _timed(
        cells,
        _streamed(
            cells,
            alias,
            elements=elements or STREAM_ELEMENTS,
            threads_per_cta=block_size,
            ctas_per_sm=max(1, threads // (block_size * spec.sm.count)),
        ),
    )


def _babelstream(cells: RowCells, spec: GpuSpec, alias: KernelAlias | None) -> _Case:
    cells.assume("elements")
    return _timed(cells, _streamed(cells, alias, elements=BABELSTREAM_ELEMENTS))


def _streamed(cells: RowCells, alias: KernelAlias | None, **sizes: int) -> StreamWorkload:
    if alias is None or alias.loads is None or alias.stores is None:
        raise RowError(
            f"kernel = '{cells.raw('kernel')}': the alias table does not say which arrays it reads and writes"
        )
    return _built(cells, StreamWorkload, **sizes, loads=alias.loads, stores=alias.stores)


def _chase(cells: RowCells, spec: GpuSpec, alias: KernelAlias | None) -> _Case:
    """Latency a hop. `data_kb` counts KiB; a clock is a condition where it is not the boost clock."""
    footprint_bytes = cells.count("data_kb") * KIB
    if footprint_bytes <= LARGEST_L1_BYTES:
        raise RowError(f"a set of up to {LARGEST_L1_BYTES // KIB} KiB may lie in L1, which is not modelled")
    workload = _built(cells, ChaseWorkload, footprint_bytes=footprint_bytes)
    clock_mhz = cells.positive("clock_mhz")
    latency_ns = cells.positive("latency_ns") or 0.0
    stated: dict[str, object] = {}
    if clock_mhz is not None:
        stated["sm_clock_mhz"] = None if clock_mhz * 1e6 == spec.sm.clock_hz else clock_mhz
    return _Case(workload, latency_ns * workload.hops / 1e6, stated=stated)


def _cache_read(cells: RowCells, spec: GpuSpec, alias: KernelAlias | None) -> _Case:
    """Bandwidth of all SMs that read parts of a set over and over, a part by several CTAs. Sizes count KiB."""
    footprint_bytes, part_bytes = cells.count("data_kb") * KIB, cells.count("per_block_kb") * KIB
    workload = _built(cells, CacheReadWorkload, footprint_bytes=footprint_bytes, part_bytes=part_bytes)
    parts, ctas = math.ceil(footprint_bytes / part_bytes), spec.sm.count * workload.ctas_per_sm
    if parts > ctas:
        raise RowError(f"the set has more parts than {spec.name} has CTAs ({ctas}): no cache holds it, it is a stream")
    return _timed(cells, workload, moved_bytes=workload.rounds * footprint_bytes * (ctas // parts))


def _small_kernel(cells: RowCells, spec: GpuSpec, alias: KernelAlias | None) -> _Case:
    """One of many equal kernels behind each other, each reads an array and writes one."""
    timing = _TIMING_OF_MODE.get(cells.text("mode").lower())
    if timing is None:
        cells.problem("mode", f"is not one of {', '.join(_TIMING_OF_MODE)}")
    workload = _built(cells, StreamWorkload, elements=cells.count("elements"), loads=1, stores=1)
    latency_us = cells.positive("us_per_kernel") or 0.0
    return _Case(workload, latency_us / 1e3, mode=cells.text("mode"), stated={"timing": timing})


_READERS: dict[KindName, Reader] = {
    "gemm": _gemm,
    "bmm_qk": _bmm_qk,
    "bmm_pv": _bmm_pv,
    "rows": _rows,
    "elementwise": _elementwise,
    "stream": _stream,
    "babelstream": _babelstream,
    "chase": _chase,
    "cache_read": _cache_read,
    "small_kernel": _small_kernel,
}


def _built(cells: RowCells, model: type[Model], **values: object) -> Model:
    """The workload. Raises RowError with every faulty cell of the row."""
    cells.refuse_problems()
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise RowError("; ".join(problems_from(error, model))) from None


def _timed(cells: RowCells, workload: Workload, *, moved_bytes: int | None = None) -> _Case:
    """The case with its measured latency: as printed, or the FLOPs or bytes that were counted over the printed rate.

    A rate in bytes counts each input and output once, or `moved_bytes`.
    """
    counted = compulsory_bytes(workload) if moved_bytes is None else moved_bytes
    ms_of = {
        "latency_ms": lambda printed: printed,
        "latency_us": lambda printed: printed / 1e3,
        "tflops": lambda printed: workload.flops / printed / 1e9,
        "gb_per_s": lambda printed: counted / printed / 1e6,
        "tb_per_s": lambda printed: counted / printed / 1e9,
    }
    printed = {column: cells.positive(column) for column in ms_of}
    cells.refuse_problems()
    found = [(column, number, ms_of[column](number)) for column, number in printed.items() if number is not None]
    if not found:
        raise RowError(f"nothing measured: {', '.join(ms_of)} are blank")
    column, number, latency_ms = found[0]
    if not latency_ms or not math.isfinite(latency_ms):
        raise RowError(f"{column} = {number:g} gives no latency of this kernel")
    return _Case(workload, latency_ms)
