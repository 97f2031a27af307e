"""The one table of spellings: which GPU, kernel, number format, pass and mask a word in a measured CSV stands for.

The words are data, in `aliases.yaml`; this file checks that table and looks words up.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from gpusim.dtypes import DType
from gpusim.errors import ConfigError
from gpusim.strict_yaml import load_strict, problems_from, read_text
from gpusim.workloads import Cache, Pass, Timing

_TABLE = Path(__file__).with_name("aliases.yaml")

KindName = Literal[
    "gemm", "bmm_qk", "bmm_pv", "rows", "elementwise", "stream", "babelstream", "chase", "cache_read", "small_kernel"
]


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Alias(_Entry):
    """Words that mean the same. `skip` is why rows with them cannot be used; `assumed` what the words leave open."""

    spellings: tuple[str, ...] = Field(min_length=1)
    skip: str | None = None
    assumed: str | None = None


AnyAlias = TypeVar("AnyAlias", bound=Alias)


class GpuAlias(Alias):
    """Spellings of one GPU preset."""

    preset: str | None = None

    @model_validator(mode="after")
    def _preset_or_skip(self) -> Self:
        if (self.preset is None) == (self.skip is None):
            raise ValueError("give either preset or skip")
        return self


class KernelAlias(Alias):
    """Spellings of a kernel: implementation (one, or one per GPU family), version, and the software around it.

    `kind` is what its rows hold where their columns do not say; a stream reads `loads` arrays and writes `stores`. A
    sparse kernel skips scores that its FLOPs count.
    """

    implementation: str | dict[str, str] | None = None
    version: str | None = None
    stack: str | None = None
    timing: Timing | None = None
    cache: Cache | None = None
    kind: KindName | None = None
    loads: int | None = None
    stores: int | None = None
    is_sparse: bool = False

    @model_validator(mode="after")
    def _implementation_or_skip(self) -> Self:
        if (self.implementation is None) == (self.skip is None):
            raise ValueError("give either implementation or skip")
        return self

    def implementation_on(self, preset: str) -> str | None:
        """Name of the implementation this kernel is on a GPU preset, None where the table does not say."""
        if isinstance(self.implementation, dict):
            return self.implementation.get(preset.split("_")[0])
        return self.implementation


class DTypeAlias(Alias):
    """Spellings of a number format."""

    dtype: DType | None = None


class PassAlias(Alias):
    """Spellings of a pass."""

    pass_: Pass = Field(alias="pass")


class MaskAlias(Alias):
    """Spellings of a mask; a causal one sets `causal` and leaves `mask` at none."""

    mask: str = "none"
    causal: bool = False


class SourceAlias(_Entry):
    """What a text in the source cell says about stack, timing, cache and versions, and names it uses differently."""

    contains: str
    stack: str | None = None
    timing: Timing | None = None
    cache: Cache | None = None
    gpus: dict[str, str] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=dict)


class Kind(_Entry):
    """A row that fills all of `columns`, or whose kernel names this kind, is about a single kernel, not attention.

    `kernel` and `implementation` name the rows of a file without a column for that. `timing` and `cache` are assumed
    where neither row nor source says how it was taken. `skip` is why rows of this kind cannot be used.
    """

    kind: KindName | None = None
    columns: tuple[str, ...] = ()
    kernel: str | None = None
    implementation: str | None = None
    timing: Timing = "event"
    cache: Cache = "warm"
    skip: str | None = None

    @model_validator(mode="after")
    def _kind_or_skip(self) -> Self:
        if (self.kind is None) == (self.skip is None):
            raise ValueError("give either kind or skip")
        return self


class _File(_Entry):
    """The layout of `aliases.yaml`."""

    gpus: tuple[GpuAlias, ...]
    kernels: tuple[KernelAlias, ...]
    dtypes: tuple[DTypeAlias, ...]
    passes: tuple[PassAlias, ...]
    masks: tuple[MaskAlias, ...]
    sources: tuple[SourceAlias, ...]
    kinds: tuple[Kind, ...]


@dataclass(frozen=True)
class AliasTable:
    """All spellings, folded, and the rules for sources and rows of another kind. Look words up with `look_up`."""

    gpus: Mapping[str, GpuAlias]
    kernels: Mapping[str, KernelAlias]
    dtypes: Mapping[str, DTypeAlias]
    passes: Mapping[str, PassAlias]
    masks: Mapping[str, MaskAlias]
    sources: tuple[SourceAlias, ...]
    kinds: tuple[Kind, ...]

    def source(self, text: str) -> SourceAlias | None:
        """The first entry whose text the source cell contains."""
        return next((source for source in self.sources if source.contains in text), None)


def fold(word: str) -> str:
    """A spelling without case, and with `_`, `-` and blanks alike; a leading vendor name is dropped."""
    folded = re.sub(r"[\s_-]+", "-", word.strip().lower())
    return folded.removeprefix("nvidia-")


def look_up(aliases: Mapping[str, AnyAlias], word: str) -> AnyAlias | None:
    """The alias that lists `word`, None when no one does."""
    return aliases.get(fold(word))


@cache
def alias_table() -> AliasTable:
    """The checked table. Raises ConfigError when the shipped file is damaged."""
    content = load_strict(read_text(_TABLE), _TABLE.name)
    try:
        file = _File.model_validate(content)
    except ValidationError as error:
        raise ConfigError(_TABLE.name, problems_from(error, _File)) from None
    return AliasTable(
        gpus=_by_spelling(file.gpus),
        kernels=_by_spelling(file.kernels),
        dtypes=_by_spelling(file.dtypes),
        passes=_by_spelling(file.passes),
        masks=_by_spelling(file.masks),
        sources=file.sources,
        kinds=file.kinds,
    )


def _by_spelling(group: Iterable[AnyAlias]) -> dict[str, AnyAlias]:
    found: dict[str, AnyAlias] = {}
    for alias in group:
        for word in alias.spellings:
            if fold(word) in found:
                raise ConfigError(_TABLE.name, [f"'{word}' is listed twice; keep one entry"])
            found[fold(word)] = alias
    return found
