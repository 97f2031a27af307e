"""One row of a measured CSV: cells to a workload, its conditions and what was measured.

Blanks are filled by stated assumptions, which the cells count; what has no model or no meaning is refused.
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import cast, get_args

from pydantic import ValidationError

from gpusim.datafiles import configs_dir
from gpusim.dtypes import DType
from gpusim.measured.aliases import Alias, GpuAlias, KernelAlias, MaskAlias, SourceAlias, alias_table, look_up
from gpusim.measured.cells import RowCells, RowError
from gpusim.strict_yaml import problems_from
from gpusim.workloads import AttentionWorkload, Cache, Conditions, Pass, Timing

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
_KIND_COLUMNS = ("pass", "dtype", "causal", "dropout", "mask")
_CONDITION_COLUMNS = ("sm_clock_mhz", "timing", "cache", "stack", "host_floor_ms")
KNOWN_COLUMNS = frozenset(
    [*_NAME_COLUMNS, *_SHAPE_COLUMNS, *_KIND_COLUMNS, *_CONDITION_COLUMNS, *MEASURED_COLUMNS, *_UNMODELLED_COLUMNS]
)


@dataclass(frozen=True)
class MeasuredRow:
    """One measurement of one attention call.

    `line` is the line of the file it starts on, the header being 1. `kernel` is as written; `gpu` is a preset name.
    `latency_ms` is in milliseconds, None when the row holds counters only. `counters` holds bytes, percent
    (`l2_hit_rate_pct`) and MiB (`memory_mb`). `extra` holds the filled cells of columns that gpusim does not know.
    """

    file: str
    line: int
    source: str
    kernel: str
    gpu: str
    implementation: str
    version: str | None
    workload: AttentionWorkload
    conditions: Conditions
    latency_ms: float | None
    counters: dict[str, float]
    note: str
    extra: dict[str, str]


def measured_row(file: str, line: int, cells: RowCells) -> MeasuredRow:
    """One row of a file. Raises RowError when the row cannot be used."""
    source = alias_table().source(cells.raw("source"))
    _refuse_other_kinds(cells)
    gpu = _gpu(cells, source)
    implementation, version, alias = _kernel(cells, gpu)
    dtype, pass_, (mask, causal) = _dtype(cells), _pass(cells), _mask(cells)
    _note_unmodelled(cells)
    latency_ms, tflops = cells.positive("latency_ms"), cells.positive("tflops")
    counters = _counters(cells)
    conditions = _conditions(cells, alias, source)
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


def _refuse_other_kinds(cells: RowCells) -> None:
    kernel = look_up(alias_table().kernels, cells.raw("kernel"))
    if kernel and kernel.skip:
        raise RowError(kernel.skip)
    for kind in alias_table().kinds:
        if cells.fills(kind.columns):
            raise RowError(f"{kind.what}: no microbenchmark for it yet")


def _refuse_skipped(column: str, word: str, alias: Alias) -> None:
    if alias.skip:
        raise RowError(f"{column} = '{word}': {alias.skip}")


def _gpu(cells: RowCells, source: SourceAlias | None) -> str:
    word = cells.text("gpu")
    if not word:
        raise RowError("gpu is blank: the source does not say which GPU it was")
    alias = _gpu_alias((source.gpus if source else {}).get(word, word))
    if alias is None:
        raise RowError(f"gpu = '{word}' is not known; use a preset name or a spelling of the alias table")
    _refuse_skipped("gpu", word, alias)
    if alias.assumed:
        cells.assume("gpu")
    return alias.preset or word


def _gpu_alias(word: str) -> GpuAlias | None:
    if word in _presets():
        return GpuAlias(preset=word, spellings=(word,))
    return look_up(alias_table().gpus, word)


@cache
def _presets() -> frozenset[str]:
    return frozenset(path.stem for path in configs_dir().glob("*.yaml"))


def _kernel(cells: RowCells, gpu: str) -> tuple[str, str | None, KernelAlias | None]:
    """Implementation and version on this GPU, and the alias they came from; other kernels are their own name."""
    word, _, pinned = cells.text("kernel").partition("@")
    if not word:
        raise RowError("kernel is blank; name the implementation")
    alias = look_up(alias_table().kernels, word)
    implementation = alias.implementation_on(gpu) if alias else word
    if implementation is None:
        raise RowError(f"kernel = '{word}': the alias table does not say which implementation it is on {gpu}")
    version = cells.text("version") or pinned or (alias.version if alias else None)
    if version is None:
        cells.assume("version")
    return implementation, version, alias


def _dtype(cells: RowCells) -> DType:
    word = cells.text("dtype")
    if not word:
        cells.assume("dtype")
        return DType.FP16
    alias = look_up(alias_table().dtypes, word)
    if alias is None:
        raise RowError(f"dtype = '{word}' is not known; write one of {', '.join(DType)}")
    _refuse_skipped("dtype", word, alias)
    if alias.assumed:
        cells.assume("dtype")
    return alias.dtype or DType.FP16


def _pass(cells: RowCells) -> Pass:
    word = cells.text("pass")
    alias = look_up(alias_table().passes, word)
    if alias is None:
        cells.problem("pass", f"{'is not one of' if word else 'is missing; write one of'} {', '.join(get_args(Pass))}")
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
    _refuse_skipped("mask", word, alias)
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


def _conditions(cells: RowCells, kernel: KernelAlias | None, source: SourceAlias | None) -> Conditions:
    """Conditions by column; stack and timing else by kernel spelling, else by source, else as assumed."""
    known = [alias for alias in (kernel, source) if alias]
    timing = cells.choice("timing", get_args(Timing)) or next((a.timing for a in known if a.timing), None)
    cache = cells.choice("cache", get_args(Cache))
    sm_clock_mhz = cells.positive("sm_clock_mhz")
    for field, value in (("timing", timing), ("cache", cache), ("sm_clock_mhz", sm_clock_mhz)):
        if value is None:
            cells.assume(field)
    return Conditions(
        timing=cast(Timing, timing or "event"),
        cache=cast(Cache, cache or "warm"),
        sm_clock_mhz=sm_clock_mhz,
        stack=cells.text("stack") or next((a.stack for a in known if a.stack), None),
        host_floor_ms=cells.number("host_floor_ms"),
    )


def _workload(cells: RowCells, *, dtype: DType, pass_: Pass, mask: str, causal: bool) -> AttentionWorkload:
    """The shape. Raises RowError with every faulty cell of the row, for this is where the last one is read."""
    needed = {column: cells.count(column) for column in ("batch", "heads", "seqlen_q", "seqlen_k", "head_dim")}
    optional = {column: cells.optional_count(column) for column in ("kv_heads", "head_dim_v", "window")}
    dropout = cells.number("dropout")
    for field, value in (("kv_heads", optional["kv_heads"]), ("dropout", dropout)):
        if value is None:
            cells.assume(field)
    if cells.problems:
        raise RowError("; ".join(cells.problems))
    options = {"dtype": dtype, "pass": pass_, "mask": mask, "causal": causal, "dropout": dropout or 0.0}
    try:
        return AttentionWorkload.model_validate({**needed, **optional, **options})
    except ValidationError as error:
        raise RowError("; ".join(problems_from(error, AttentionWorkload))) from None
