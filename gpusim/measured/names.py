"""The words of a row that name things: GPU, kernel, number format, and the conditions it was taken under.

What the cells leave open is read from the alias table; what that leaves open is assumed, and counted.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple, get_args

from gpusim.datafiles import configs_dir
from gpusim.dtypes import DType
from gpusim.measured.aliases import Alias, GpuAlias, KernelAlias, SourceAlias, alias_table, look_up
from gpusim.measured.cells import RowCells, RowError
from gpusim.workloads import Cache, Conditions, Timing


class Assumed(NamedTuple):
    """Timer and caches of a row that says nothing about them."""

    timing: Timing
    cache: Cache


def refuse_skipped(column: str, word: str, alias: Alias) -> None:
    """Raises RowError where the alias says why its rows cannot be used."""
    if alias.skip:
        raise RowError(f"{column} = '{word}': {alias.skip}")


def gpu_of(cells: RowCells, source: SourceAlias | None) -> str:
    """The preset that the row was taken on."""
    word = cells.text("gpu")
    if not word:
        raise RowError("gpu is blank: the source does not say which GPU it was")
    alias = _gpu_alias((source.gpus if source else {}).get(word, word))
    if alias is None:
        raise RowError(f"gpu = '{word}' is not known; use a preset name or a spelling of the alias table")
    refuse_skipped("gpu", word, alias)
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


def kernel_of(
    cells: RowCells, gpu: str, source: SourceAlias | None = None
) -> tuple[str, str | None, KernelAlias | None]:
    """Implementation and version on this GPU, and the alias they came from; other kernels are their own name."""
    word, _, pinned = cells.text("kernel").partition("@")
    if not word:
        raise RowError("kernel is blank; name the implementation")
    alias = look_up(alias_table().kernels, word)
    implementation = alias.implementation_on(gpu) if alias else word
    if implementation is None:
        raise RowError(f"kernel = '{word}': the alias table does not say which implementation it is on {gpu}")
    version = cells.text("version") or pinned or (alias.version if alias else None)
    return implementation, version or (source.versions.get(implementation) if source else None), alias


def dtype_of(cells: RowCells) -> DType:
    """Number format of the row, fp16 where it says none."""
    word = cells.text("dtype")
    if not word:
        cells.assume("dtype")
        return DType.FP16
    alias = look_up(alias_table().dtypes, word)
    if alias is None:
        raise RowError(f"dtype = '{word}' is not known; write one of {', '.join(DType)}")
    refuse_skipped("dtype", word, alias)
    if alias.assumed:
        cells.assume("dtype")
    return alias.dtype or DType.FP16


def conditions_of(
    cells: RowCells,
    known: Sequence[KernelAlias | SourceAlias],
    assumed: Assumed,
    stated: Mapping[str, object] | None = None,
) -> Conditions:
    """Conditions by column; stack, timing and cache else by the first of `known` that states them, else as assumed.

    `stated` is what other columns of the row say; it comes first.
    """
    found: dict[str, object] = {
        "timing": _first(cells.choice("timing", get_args(Timing)), *(alias.timing for alias in known)),
        "cache": _first(cells.choice("cache", get_args(Cache)), *(alias.cache for alias in known)),
        "sm_clock_mhz": cells.positive("sm_clock_mhz"),
        "stack": _first(cells.text("stack"), *(alias.stack for alias in known)),
        "host_floor_ms": cells.number("host_floor_ms"),
        "host_overhead_ms": cells.number("host_overhead_ms"),
    }
    found |= stated or {}
    for field, value in (("timing", assumed.timing), ("cache", assumed.cache), ("sm_clock_mhz", None)):
        if found[field] is None and field not in (stated or {}):
            cells.assume(field)
            found[field] = value
    return Conditions.model_validate(found)


def _first(*words: str | None) -> str | None:
    return next((word for word in words if word), None)
