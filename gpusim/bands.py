"""How far simulated latencies are off: error bands, each for the conditions that a shipped file measured.

A band comes from the trusted rows of one file that share GPU, implementation, version, number format, mask and other
options, stack, timer and state of the cache. It speaks for points with those conditions whose sizes lie within what the
rows covered, and for nothing else. `validation/bands.csv` is renewed together with the tables of errors
(`python -m validation accuracy`).
"""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from gpusim.datafiles import bands_list
from gpusim.dtypes import DType
from gpusim.errors import ConfigError
from gpusim.implementations import implementations, stacks
from gpusim.specs import GpuSpec, gpu_names, load_gpu
from gpusim.strict_yaml import read_text
from gpusim.workloads import (
    AttentionWorkload,
    ChaseWorkload,
    Conditions,
    GemmWorkload,
    RowsWorkload,
    Workload,
    compulsory_bytes,
)

COLUMNS = (
    *("gpu", "implementation", "version", "source", "dtype", "options", "stack", "timing", "cache", "sizes"),
    *("n", "band"),
)
LEAST_ROWS = 5  # fewer measurements make no band
SHARE = 0.9  # of the measurements that lie within the band
SHORT_MS = 0.2  # from here on another timer or state of the cache moved no trusted row that was tried by over 6 %
_SIXTEEN_BITS = "fp16|bf16"  # one class: every shipped GPU and table treats them alike
_VECTOR_BYTES = 16  # a thread's widest load; library kernels for rows of other lengths are slow
_LISTED = frozenset({"head_dim", "head_dim_v"})  # a kernel is compiled for each: what lies between was not measured
_WORK = ("flops", "bytes")

Ranges = Mapping[str, tuple[tuple[float, float], ...]]


@dataclass(frozen=True, slots=True)
class Setting:
    """The conditions of a point or a measured row, as far as an error may depend on them.

    `words` are the columns of bands.csv from version to cache that name a condition, without the source; `sizes` are
    counts, the SM clock in MHz, and the work in FLOPs, or in bytes where there are none.
    """

    words: Mapping[str, str]
    sizes: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Band:
    """Simulated / measured − 1 lies within ± `band` for nine of ten of the `n` trusted rows of a `source` file.

    `words` and `sizes` are the conditions of these rows. The version is empty where the implementation has none, or
    where the name alone stands for all of them.
    """

    gpu: str
    implementation: str
    source: str
    words: Mapping[str, str]
    sizes: Ranges
    n: int
    band: float

    def differences(self, setting: Setting, latency_ms: float) -> list[str]:
        """Names of the words and sizes of a point of this GPU and implementation that were not measured."""
        pooled = ("timing", "cache") if latency_ms >= SHORT_MS else ()
        words = [name for name, word in self.words.items() if name not in pooled and setting.words[name] != word]
        shared = {name: value for name, value in setting.sizes.items() if name in self.sizes}
        return words + [name for name, value in shared.items() if not _within(value, self.sizes[name])]

    def limits_ms(self, latency_ms: float) -> tuple[float, float]:
        """Between which hardware is expected where `latency_ms` is simulated."""
        return latency_ms / (1 + self.band), latency_ms / (1 - self.band)

    def basis(self) -> str:
        """What it rests on, as a result says it."""
        return f"nine in ten of {self.n} measured rows, {self.source}"


def setting_of(
    spec: GpuSpec, implementation: str, version: str | None, workload: Workload, conditions: Conditions
) -> Setting:
    """The conditions of a point; `implementation` is a released one."""
    has_format = "dtype" in type(workload).model_fields
    words = {
        "version": version or "",
        "dtype": _format(workload.dtype) if has_format else "",
        "options": "|".join(_options(spec, workload, conditions)),
        "stack": conditions.stack if conditions.stack in _stacks_that_matter(spec, implementation) else "",
        "timing": conditions.timing,
        "cache": conditions.cache,
    }
    return Setting({name: word or "" for name, word in words.items()}, dict(_sizes(spec, workload, conditions)))


def _format(dtype: DType) -> str:
    return _SIXTEEN_BITS if dtype in _SIXTEEN_BITS.split("|") else dtype.value


def _options(spec: GpuSpec, workload: Workload, conditions: Conditions) -> Iterator[str]:
    """What tells a point from a plain one: each is a condition that a band holds with or without."""
    lengths: tuple[int, ...] = ()
    match workload:
        case AttentionWorkload():
            asked = {
                f"pass {workload.pass_}": workload.pass_ != "fwd",
                "causal mask": workload.causal,
                f"{workload.mask} mask": workload.mask != "none",
                "sliding window": workload.window is not None,
                "dropout": workload.dropout > 0,
                "log-sum-exp": workload.save_lse,
                "grouped K/V heads": workload.kv_heads != workload.heads,
                "seqlen_q ≠ seqlen_k": workload.seqlen_q != workload.seqlen_k,
                "head_dim_v ≠ head_dim": workload.head_dim_v != workload.head_dim,
                "unthrottled clock": _is_unthrottled(spec, conditions),
            }
            yield from (name for name, is_asked in asked.items() if is_asked)
            lengths = (workload.seqlen_q, workload.seqlen_k, workload.head_dim, workload.head_dim_v)
        case GemmWorkload():
            lengths = (workload.n, workload.k)
        case RowsWorkload():
            if workload.cols & (workload.cols - 1):
                yield "cols not a power of two"
            lengths = (workload.cols,)
        case ChaseWorkload():
            yield f"{conditions.cache} cache"
        case _:
            pass
    if conditions.host_floor_ms is not None or conditions.host_overhead_ms is not None:
        yield "stated host time"
    if any(length * workload.dtype.size_bytes % _VECTOR_BYTES for length in lengths):
        yield "unaligned rows"


def _is_unthrottled(spec: GpuSpec, conditions: Conditions) -> bool:
    """Whether a profiler keeps the power limit from lowering the clock."""
    limits = spec.power is not None and spec.power.energy is not None
    return limits and conditions.timing == "ncu" and conditions.sm_clock_mhz is None


def _stacks_that_matter(spec: GpuSpec, implementation: str) -> set[str]:
    """Stacks under which other kernels run: those of the implementation's tables, and those that write a KV cache.

    Others only add time of the host.
    """
    known = implementations()[implementation]
    rows = [*(row.when for row in known.tiles), *(row.when for row in known.costs)]
    writing = {name for name, stack in stacks().items() if stack.kv_cache_write is not None}
    return writing | {name for when in rows if when.holds_on(spec) for name in when.stack or ()}


def _sizes(spec: GpuSpec, workload: Workload, conditions: Conditions) -> Iterator[tuple[str, float]]:
    match workload:
        case AttentionWorkload():
            yield from _one_or_both("head_dim", workload.head_dim, "head_dim_v", workload.head_dim_v)
            yield from _one_or_both("seqlen_k", workload.seqlen_k, "seqlen_q", workload.seqlen_q)
            yield "batch_heads", workload.batch * workload.heads
            yield "heads_per_kv_head", workload.heads // workload.kv_heads
        case _:
            fields = type(workload).model_fields
            yield from ((name, getattr(workload, name)) for name, info in fields.items() if info.annotation is int)
    flops, moved = _WORK
    yield (flops, workload.flops) if workload.flops else (moved, compulsory_bytes(workload))
    yield "sm_clock_mhz", conditions.sm_clock_mhz or spec.sm.clock_hz / 1e6


def _one_or_both(name: str, value: int, other: str, other_value: int) -> Iterator[tuple[str, float]]:
    """Two sizes that mostly are one; where they are not, an option says so."""
    yield name, value
    if other_value != value:
        yield other, other_value


def ranges_of(settings: Iterable[Setting]) -> Ranges:
    """The sizes that settings cover: from the least to the greatest; of a head dim each value alone."""
    values: dict[str, set[float]] = {}
    for setting in settings:
        for name, value in setting.sizes.items():
            values.setdefault(name, set()).add(value)
    return {
        name: tuple((value, value) for value in sorted(found)) if name in _LISTED else ((min(found), max(found)),)
        for name, found in values.items()
    }


def band_of(
    spec: GpuSpec,
    implementation: str,
    version: str | None,
    workload: Workload,
    conditions: Conditions,
    latency_ms: float,
) -> Band | str:
    """The widest band that speaks for a simulated latency, or why there is none, in words.

    `implementation` is as a result reports it: choices of one's own are "custom", and have none.
    """
    if implementation not in implementations():
        return "not validated: choices of your own were not measured"
    if spec != _preset(spec.name):
        return f"not validated: this is not {spec.name} as shipped"
    bands = [band for band in _bands() if (band.gpu, band.implementation) == (spec.name, implementation)]
    if not bands:
        return f"not validated: fewer than {LEAST_ROWS} measurements of {implementation} on {spec.name} are alike"
    return widest_band(bands, setting_of(spec, implementation, version, workload, conditions), latency_ms)


def widest_band(bands: Sequence[Band], setting: Setting, latency_ms: float) -> Band | str:
    """The widest of some bands that speaks for a setting, or in words what the nearest of them measured instead."""
    differing = [(band.differences(setting, latency_ms), band) for band in bands]
    inside = [band for names, band in differing if not names]
    if inside:
        return max(inside, key=lambda band: band.band)
    nearest = min((names for names, _ in differing), key=lambda names: (len(setting.words.keys() & names), len(names)))
    alike = [band for names, band in differing if names == nearest]
    told = [name for name in nearest if name not in _WORK] or nearest  # work follows from the sizes that are told
    asked = [_asked(name, setting, alike[0]) for name in told]
    known = [" or ".join(dict.fromkeys(_known(name, setting, band) for band in alike)) for name in told]
    return f"not validated for {', '.join(asked)}; measured: {', '.join(known)}"


def _asked(name: str, setting: Setting, band: Band) -> str:
    """A condition of a point that was not measured, in words."""
    if name == "options":
        here, there = setting.words[name], band.words[name]
        return _options_text(here, there) or f"calls without {_options_text(there, here)}"
    return _word_text(name, setting.words[name]) if name in setting.words else _size_text(name, setting.sizes[name])


def _known(name: str, setting: Setting, band: Band) -> str:
    """The same condition as it was measured."""
    if name == "options":
        return _options_text(band.words[name], setting.words[name]) or "calls without that"
    if name in band.words:
        return _word_text(name, band.words[name])
    return " or ".join(_range_text(name, low, high) for low, high in band.sizes[name])


def _options_text(told: str, other: str) -> str:
    """What some options have and others have not: "causal mask and log-sum-exp"; empty where that is nothing."""
    there = other.split("|")
    return " and ".join(option for option in told.split("|") if option and option not in there)


def _word_text(name: str, word: str) -> str:
    if name == "dtype":
        return word.replace("|", ", ")
    return f"{name} {word}" if word else f"calls without {name}"


def _size_text(name: str, value: float) -> str:
    match name:
        case "flops":
            return f"{value / 1e9:,.4g} GFLOP"
        case "bytes":
            return f"{value / 1e6:,.4g} MB"
        case _:
            return f"{name} {value:,g}" if value % 1 else f"{name} {value:,.0f}"


def _range_text(name: str, low: float, high: float) -> str:
    if low == high:
        return _size_text(name, low)
    return f"{_size_text(name, low)} to {_size_text(name, high).removeprefix(f'{name} ')}"


def _within(value: float, ranges: Iterable[tuple[float, float]]) -> bool:
    return any(low <= value <= high for low, high in ranges)


@cache
def _preset(name: str) -> GpuSpec | None:
    return load_gpu(name) if name in gpu_names() else None


@cache
def _bands() -> tuple[Band, ...]:
    return read_bands(read_text(bands_list()), str(bands_list()))


def read_bands(text: str, where: str) -> tuple[Band, ...]:
    """The bands of a list as CSV. Raises ConfigError when it is damaged."""
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    if tuple(reader.fieldnames or ()) != COLUMNS:
        raise ConfigError(where, [f"the columns must be {', '.join(COLUMNS)}"])
    return tuple(map(_band, reader))


def _band(row: dict[str, str]) -> Band:
    words = {name: row[name] for name in ("version", "dtype", "options", "stack", "timing", "cache")}
    sizes = dict(_read_range(term) for term in row["sizes"].split())
    return Band(row["gpu"], row["implementation"], row["source"], words, sizes, int(row["n"]), float(row["band"]))


def _read_range(term: str) -> tuple[str, tuple[tuple[float, float], ...]]:
    """`head_dim=64|128` or `seqlen_k=512..8192`."""
    name, _, written = term.partition("=")
    bounds = [part.partition("..") for part in written.split("|")]
    return name, tuple((float(low), float(high or low)) for low, _, high in bounds)


def bands_csv(bands: Iterable[Band]) -> str:
    """The list as CSV, which `read_bands` reads."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for band in bands:
        cells = {"gpu": band.gpu, "implementation": band.implementation, "source": band.source} | dict(band.words)
        cells |= {"sizes": _written(band.sizes), "n": str(band.n), "band": f"{band.band:.3f}"}
        writer.writerow([cells[column] for column in COLUMNS])
    return text.getvalue()


def _written(sizes: Ranges) -> str:
    return " ".join(f"{name}={'|'.join(_bounds(*ends) for ends in ranges)}" for name, ranges in sizes.items())


def _bounds(low: float, high: float) -> str:
    return _number(low) if low == high else f"{_number(low)}..{_number(high)}"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
