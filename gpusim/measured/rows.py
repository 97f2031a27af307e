"""One row of a measured CSV: cells to a workload, its conditions and what was measured.

Rows about attention are read here, those about a single kernel in `kernel_rows.py`. Blanks are filled by stated
assumptions, which the cells count; what has no model or no meaning is refused.
"""

import math
from dataclasses import dataclass
from typing import get_args

from pydantic import ValidationError

from gpusim.dtypes import DType
from gpusim.measured.aliases import MaskAlias, SourceAlias, alias_table, look_up
from gpusim.measured.cells import RowCells, RowError
from gpusim.measured.kernel_rows import KERNEL_COLUMNS, kind_of, read_kernel
from gpusim.measured.names import Assumed, conditions_of, dtype_of, gpu_of, kernel_of, refuse_skipped
from gpusim.strict_yaml import problems_from
from gpusim.workloads import AttentionWorkload, Conditions, Pass, Workload

_COUNTER_LIMITS = {
    "dram_bytes": math.inf,
    "l2_read_bytes": math.inf,
    "l2_write_bytes": math.inf,
    "l2_hit_rate_pct": 100.0,
    "memory_mb": math.inf,
}
MEASURED_COLUMNS = ("latency_ms", "tflops", *_COUNTER_LIMITS)
_UNMODELLED_COLUMNS = ("page_size", "splits", "batch_seqlens", "planner_kv_heads")
_NAME_COLUMNS = ("source", "gpu", "kernel", "version", "note")
_SHAPE_COLUMNS = ("batch", "heads", "kv_heads", "seqlen_q", "seqlen_k", "head_dim", "head_dim_v", "window")
_OPTION_COLUMNS = ("pass", "dtype", "causal", "dropout", "mask")
_CONDITION_COLUMNS = ("sm_clock_mhz", "timing", "cache", "stack", "host_floor_ms", "host_overhead_ms")
KNOWN_COLUMNS = frozenset(
    [
        *(*_NAME_COLUMNS, *_SHAPE_COLUMNS, *_OPTION_COLUMNS, *_CONDITION_COLUMNS),
        *(*MEASURED_COLUMNS, *_UNMODELLED_COLUMNS, *KERNEL_COLUMNS),
    ]
)
_REPLAYED = Assumed(timing="event", cache="warm")


@dataclass(frozen=True)
class MeasuredRow:
    """One measurement of one call, of attention or of a single kernel.

    `line` is the line of the file it starts on, the header being 1. `kernel` is as written, or the benchmark's name in
    a file without such a column; `gpu` is a preset name. `latency_ms` is in milliseconds, None when the row holds
    counters only. `counters` holds bytes, percent (`l2_hit_rate_pct`) and MiB (`memory_mb`). `extra` holds the filled
    cells of columns that gpusim does not know.
    """

    file: str
    line: int
    source: str
    kernel: str
    gpu: str
    implementation: str
    version: str | None
    workload: Workload
    conditions: Conditions
    latency_ms: float | None
    counters: dict[str, float]
    note: str
    extra: dict[str, str]


def measured_row(file: str, line: int, cells: RowCells) -> MeasuredRow:
    """One row of a file. Raises RowError when the row cannot be used."""
    source = alias_table().source(cells.raw("source"))
    kernel = look_up(alias_table().kernels, cells.raw("kernel"))
    if kernel:
        refuse_skipped("kernel", cells.raw("kernel"), kernel)
    kind = kind_of(cells)
    if kind is None:
        return _attention_row(file, line, cells, source)
    read = read_kernel(cells, kind, source)
    return MeasuredRow(
        file=file,
        line=line,
        source=cells.raw("source"),
        kernel=read.kernel,
        gpu=read.gpu,
        implementation=read.implementation,
        version=None,
        workload=read.workload,
        conditions=read.conditions,
        latency_ms=read.latency_ms,
        counters=_counters(cells),
        note=cells.raw("note"),
        extra=cells.others(KNOWN_COLUMNS),
    )


def _attention_row(file: str, line: int, cells: RowCells, source: SourceAlias | None) -> MeasuredRow:
    gpu = gpu_of(cells, source)
    implementation, version, alias = kernel_of(cells, gpu, source)
    if version is None:
        cells.assume("version")
    dtype, pass_, (mask, causal) = dtype_of(cells), _pass(cells), _mask(cells)
    _note_unmodelled(cells)
    latency_ms, tflops = cells.positive("latency_ms"), cells.positive("tflops")
    counters = _counters(cells)
    conditions = conditions_of(cells, [known for known in (alias, source) if known], _REPLAYED)
    workload = _workload(cells, dtype=dtype, pass_=pass_, mask=mask, causal=causal)
    if latency_ms is None and tflops is not None:
        latency_ms = _latency_ms(workload, tflops)
    if latency_ms is None and not counters:
        raise RowError("nothing measured: latency_ms, tflops and all counters are blank")
    return MeasuredRow(
        file=file,
        line=line,
        source=cells.raw("source"),
        kernel=cells.raw("kernel"),
        gpu=gpu,
        implementation=implementation,
        version=version,
        workload=workload,
        conditions=conditions,
        latency_ms=latency_ms,
        counters=counters,
        note=cells.raw("note"),
        extra=cells.others(KNOWN_COLUMNS),
    )


def _latency_ms(workload: AttentionWorkload, tflops: float) -> float:
    """Latency in ms by the FLOP convention of the published benchmarks."""
    latency_ms = workload.flops / tflops / 1e9
    if not math.isfinite(latency_ms):
        raise RowError(f"tflops = {tflops:g} is too small to be a rate")
    return latency_ms


def _pass(cells: RowCells) -> Pass:
    word = cells.text("pass")
    if not word:
        cells.assume("pass")
        return "fwd"
    alias = look_up(alias_table().passes, word)
    if alias is None:
        cells.problem("pass", f"is not one of {', '.join(get_args(Pass))}")
    return alias.pass_ if alias else "fwd"


def _mask(cells: RowCells) -> tuple[str, bool]:
    """Mask and causal flag; "causal" in the mask column sets the flag and leaves no other mask."""
    word = cells.text("mask")
    alias = look_up(alias_table().masks, word)
    if alias is None:
        if word:
            cells.problem("mask", "is not known; write none, padding or causal")
        else:
            cells.assume("mask")
        alias = MaskAlias(spellings=("none",))
    refuse_skipped("mask", word, alias)
    flag = cells.flag("causal")
    if flag is None and not alias.causal:
        cells.assume("causal")
    if flag is False and alias.causal:
        cells.problem("mask", "contradicts causal = false")
    return alias.mask, bool(flag or alias.causal)


def _note_unmodelled(cells: RowCells) -> None:
    for column in _UNMODELLED_COLUMNS:
        if cells.raw(column):
            cells.problem(column, "is given, which is not modelled yet")


def _counters(cells: RowCells) -> dict[str, float]:
    numbers = {column: cells.number(column, highest=limit) for column, limit in _COUNTER_LIMITS.items()}
    return {column: number for column, number in numbers.items() if number is not None}


def _lengths(cells: RowCells) -> dict[str, int]:
    """Rows of Q, and of K and V; `seqlen` stands for both."""
    both = cells.optional_count("seqlen")
    read = cells.optional_count if cells.raw("seqlen") else cells.count
    lengths = {column: read(column) for column in ("seqlen_q", "seqlen_k")}
    for column, length in lengths.items():
        if both is not None and length not in (None, both):
            cells.problem(column, f"contradicts seqlen = {both}")
    return {column: length or both or 1 for column, length in lengths.items()}


def _workload(cells: RowCells, *, dtype: DType, pass_: Pass, mask: str, causal: bool) -> AttentionWorkload:
    """The shape. Raises RowError with every faulty cell of the row, for this is where the last one is read."""
    needed = {column: cells.count(column) for column in ("batch", "heads", "head_dim")} | _lengths(cells)
    optional = {column: cells.optional_count(column) for column in ("kv_heads", "head_dim_v", "window")}
    dropout = cells.number("dropout")
    for field, value in (("kv_heads", optional["kv_heads"]), ("dropout", dropout)):
        if value is None:
            cells.assume(field)
    cells.refuse_problems()
    options = {"dtype": dtype, "pass": pass_, "mask": mask, "causal": causal, "dropout": dropout or 0.0}
    try:
        return AttentionWorkload.model_validate({**needed, **optional, **options})
    except ValidationError as error:
        raise RowError("; ".join(problems_from(error, AttentionWorkload))) from None
