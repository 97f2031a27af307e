"""Tables of released kernels: tiles, warps and stages by GPU and shape, and timing constants with their sources."""

import difflib
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, Field, ValidationError

from gpusim.dtypes import DType
from gpusim.errors import ConfigError
from gpusim.specs import GpuSpec, Source
from gpusim.specs.sm import WARP_THREADS
from gpusim.strict_yaml import STRICT, load_strict, problems_from, read_text
from gpusim.taskgraph import KernelCost
from gpusim.taskgraph.tensors import ceil_div
from gpusim.workloads import AttentionWorkload, Workload

_FOLDER = Path(__file__).parent

Model = TypeVar("Model", bound=BaseModel)
Range = tuple[int, int]
Choice = int | bool | str | list[str]


class When(BaseModel):
    """Where a row of a table holds: GPUs, software stacks, versions, causal or not, and inclusive ranges of sizes.

    An architecture may have several compute capabilities: Ampere is 8.0 with 164 KiB of shared memory an SM, and 8.6
    with 100 KiB.
    """

    model_config = STRICT

    architecture: list[str] | None = None
    compute_capability: list[str] | None = None
    stack: list[str] | None = None
    version: list[str] | None = None
    causal: bool | None = None
    mask: str | None = None
    dtype: list[Annotated[DType, Field(strict=False)]] | None = None
    head_dim: Range | None = Field(default=None, strict=False)
    head_dim_v: Range | None = Field(default=None, strict=False)
    seqlen_k: Range | None = Field(default=None, strict=False)
    cols: Range | None = Field(default=None, strict=False)

    def holds_on(self, spec: GpuSpec) -> bool:
        """Whether the row is meant for this GPU, for some shape."""
        return (self.architecture is None or spec.architecture in self.architecture) and (
            self.compute_capability is None or spec.compute_capability in self.compute_capability
        )

    def holds(self, spec: GpuSpec, workload: Workload, stack: str | None, version: str | None) -> bool:
        """Whether the row is meant for this GPU and shape under this software stack, and for this version.

        A row that names what a workload does not have, such as the head dim of a GEMM, is not meant for it.
        """
        return (
            self.holds_on(spec)
            and (self.stack is None or stack in self.stack)
            and (self.version is None or version in self.version)
            and (self.dtype is None or workload.dtype in self.dtype)
            and all(getattr(self, field) in (None, getattr(workload, field, None)) for field in ("causal", "mask"))
            and all(
                _within(getattr(workload, field, None), getattr(self, field))
                for field in ("head_dim", "head_dim_v", "seqlen_k", "cols")
            )
        )


def _within(value: int | None, bounds: Range | None) -> bool:
    return bounds is None or (value is not None and bounds[0] <= value <= bounds[1])


class TileRow(BaseModel):
    """Choices of the released kernel and where they were read."""

    model_config = STRICT

    when: When
    choices: dict[str, Choice]
    source: str


class Constant(Source):
    """A timing constant with its source."""

    value: bool | float


class CostRow(BaseModel):
    """Timing constants of some kernels, and the table they stand in."""

    model_config = STRICT

    table: str = ""
    when: When
    kernels: list[str]
    constants: dict[str, Constant]

    def address(self, kernel: str) -> str:
        """How a GPU's `calibration` names a kernel of this row: with what the row is for beside GPUs and versions.

        That is its first number format, its first stack and its largest head dim.
        """
        head_dim = [] if self.when.head_dim is None else [f"d{self.when.head_dim[1]}"]
        return "@".join((kernel, *(self.when.dtype or [])[:1], *(self.when.stack or [])[:1], *head_dim))

    def on(self, spec: GpuSpec, kernel: str) -> dict[str, bool | float]:
        """The row's constants for a kernel, those that the GPU's calibration replaces in their new value."""
        stated = {name: constant.value for name, constant in self.constants.items()}
        calibrated = spec.calibration.get(self.table, {}).get(self.address(kernel), {})
        return {name: calibrated.get(name, value) for name, value in stated.items()}


class Library(BaseModel):
    """Kernels that several implementations call, with their timing constants and the files those were fitted to."""

    model_config = STRICT

    name: str
    fitted_to: list[str]
    costs: list[CostRow]


class Implementation(BaseModel):
    """A released implementation: its schedule, and the tables that say how it really runs.

    All rows that hold apply in order; a later row only adds what earlier rows left open. The rows of `base`, another
    implementation, follow its own; those of `library`, of whose kernels it calls `kernels` (None: any), come last.
    `default_version` is what a name without a version means, where `versions` differ. `fitted_to` names the measured
    files whose rows its constants, those of base and library included, were fitted to.
    """

    model_config = STRICT

    name: str
    base: str | None = None
    library: str | None = None
    kernels: list[str] | None = None
    schedule: str
    summary: str
    versions: list[str] = []
    default_version: str | None = None
    fitted_to: list[str] = []
    dtypes: list[Annotated[DType, Field(strict=False)]] = list(DType)
    masks: list[Literal["causal", "padding"]] = []
    grouped_kv_heads: bool = False
    tiles: list[TileRow] = []
    costs: list[CostRow] = []

    def role_of(self, file: str | Path) -> Literal["fitted", "held_out"]:
        """Whether the rows of a measured file were held out of the fit of its constants; a folder does not matter."""
        return "fitted" if Path(file).stem in self.fitted_to else "held_out"

    def choices(
        self, spec: GpuSpec, workload: Workload, stack: str | None = None, version: str | None = None
    ) -> dict[str, Choice]:
        """Choices of the kernel on this GPU and shape; empty when the tables do not cover it."""
        merged: dict[str, Choice] = {}
        for row in self.tiles:
            if row.when.holds(spec, workload, stack, version or self.default_version):
                merged = row.choices | merged
        return merged

    def kernel_costs(
        self, spec: GpuSpec, workload: Workload, stack: str | None = None, version: str | None = None
    ) -> dict[str, KernelCost]:
        """Timing constants of each of its kernels on this GPU and shape."""
        values: dict[str, dict[str, bool | float]] = {}
        for row in self.costs:
            if row.when.holds(spec, workload, stack, version or self.default_version):
                for kernel in row.kernels:
                    values[kernel] = row.on(spec, kernel) | values.get(kernel, {})
        return {kernel: KernelCost.model_validate(constants) for kernel, constants in values.items()}

    def constants_on(self, spec: GpuSpec) -> dict[str, tuple[Constant, float]]:
        """Path in a GPU file → constant of a table and its value on this GPU, for every number that may hold there."""
        found: dict[str, tuple[Constant, float]] = {}
        for row in self.costs:
            for kernel in row.kernels if row.when.holds_on(spec) else ():
                for name, value in row.on(spec, kernel).items():
                    if not isinstance(value, bool):
                        path = f"calibration.{row.table}.{row.address(kernel)}.{name}"
                        found.setdefault(path, (row.constants[name], value))
        return found


class CacheWrite(BaseModel):
    """The kernel that copies new keys and values into a cache, at a share of the HBM stream rate.

    A CTA copies `row_bytes` of the keys and as many of the values, or a token with all its heads (None); it has a
    thread for each of those numbers, at most `max_threads`, and stays on its SM for `cta_ns` (fitted; see source) and
    for as long as its loads would take from HBM, be they in L2 or not.
    """

    model_config = STRICT

    hbm_share: float = Field(gt=0, le=1)
    max_threads: int = Field(ge=WARP_THREADS)
    row_bytes: int | None = Field(default=None, gt=0)
    cta_ns: float = Field(default=0.0, ge=0)

    def warps(self, workload: AttentionWorkload) -> int:
        """Warps of a CTA."""
        numbers = workload.kv_heads * max(workload.head_dim, workload.head_dim_v)
        if self.row_bytes is not None:
            numbers = self.row_bytes // workload.dtype.size_bytes
        return ceil_div(min(numbers, self.max_threads), WARP_THREADS)

    def ctas_per_row(self, workload: AttentionWorkload) -> Fraction:
        """CTAs that copy one row of one head."""
        if self.row_bytes is None:
            return Fraction(1, workload.kv_heads)
        return Fraction(workload.head_dim * workload.dtype.size_bytes, self.row_bytes)


class Stack(BaseModel):
    """Software around the kernels: host time per call in ms that no chain of kernels beats, by implementation, and what
    a synchronised call takes on top of its kernels and one isolated launch.

    With `kv_cache_write` a call first copies its keys and values into a cache.
    `graph_overhead_ms`, by architecture, is what a replay of its graph takes beside the kernels and their gaps.
    """

    model_config = STRICT

    summary: str
    host_floor_ms: dict[str, float] = {}
    host_overhead_ms: float | None = None
    graph_overhead_ms: dict[str, float] = {}
    kv_cache_write: CacheWrite | None = None
    source: str


NAMES = (
    *("naive", "pytorch_naive", "megatron_fused_softmax", "flash1", "flash2", "flash3", "triton"),
    *("gpusim_cuda_naive", "gpusim_cuda_flash1", "gpusim_cuda", "gpusim_cuda_flash3"),
    *("torch_matmul", "torch_softmax"),
    *("torch_elementwise", "torch_broadcast_add", "torch_strided_copy", "torch_transpose_copy"),
    *("stream", "pointer_chase", "cache_read"),
)


def check_calibration(spec: GpuSpec) -> None:
    """Raises ConfigError for every calibrated constant of a GPU that no table has on it."""
    known = {path for implementation in implementations().values() for path in implementation.constants_on(spec)}
    stated = [
        f"calibration.{table}.{kernel}.{name}"
        for table, kernels in spec.calibration.items()
        for kernel, constants in kernels.items()
        for name in constants
    ]
    problems = [f"{path}: no such constant{_close(path, known)}" for path in stated if path not in known]
    for table, kernels in spec.calibration.items():
        for kernel, constants in kernels.items():
            problems += _out_of_range(f"calibration.{table}.{kernel}", constants)
    if problems:
        raise ConfigError(spec.name, problems)


def _out_of_range(kernel: str, constants: Mapping[str, float]) -> list[str]:
    try:
        KernelCost.model_validate({name: value for name, value in constants.items() if name in KernelCost.model_fields})
    except ValidationError as error:
        return [f"{kernel}.{problem}" for problem in problems_from(error, KernelCost)]
    return []


def _close(path: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(path, known, n=1)
    return f"; did you mean {close[0]}?" if close else "; gpusim schedules NAME shows those of an implementation"


@cache
def implementations() -> dict[str, Implementation]:
    """Every released implementation by name. Raises ConfigError when a shipped file is damaged."""
    return {name: _read(name) for name in NAMES}


@cache
def stacks() -> dict[str, Stack]:
    """Software stacks by name. Raises ConfigError when the shipped file is damaged."""
    content = load_strict(read_text(_FOLDER / "stacks.yaml"), "stacks.yaml")
    if not isinstance(content, dict):
        raise ConfigError("stacks.yaml", ["expected a mapping of stack names"])
    return {name: _validated(Stack, value, f"stacks.yaml, {name}") for name, value in content.items()}


@cache
def stack_names() -> tuple[str, ...]:
    """Names of all software stacks: those with numbers of their own, and those that only choose rows of a table."""
    whens: list[When] = []
    for known in implementations().values():
        whens += [row.when for row in known.tiles] + [row.when for row in known.costs]
    return tuple(sorted({*stacks(), *(name for when in whens for name in when.stack or ())}))


def _read(name: str) -> Implementation:
    file = f"{name}.yaml"
    own = _validated(Implementation, load_strict(read_text(_FOLDER / file), file), file)
    own = own.model_copy(update={"costs": _named(own.costs, name)})
    if own.base is not None:
        base = _read(own.base)
        both = {field: getattr(own, field) + getattr(base, field) for field in ("fitted_to", "tiles", "costs")}
        own = own.model_copy(update=both)
    if own.library is not None:
        library = _library(own.library)
        both = {"fitted_to": own.fitted_to + library.fitted_to, "costs": own.costs + _of(own.kernels, library.costs)}
        own = own.model_copy(update=both)
    return own


def _library(name: str) -> Library:
    file = f"{name}.yaml"
    library = _validated(Library, load_strict(read_text(_FOLDER / file), file), file)
    return library.model_copy(update={"costs": _named(library.costs, name)})


def _of(kernels: list[str] | None, rows: list[CostRow]) -> list[CostRow]:
    """The rows of these kernels."""
    if kernels is None:
        return rows
    kept = [row.model_copy(update={"kernels": [name for name in row.kernels if name in kernels]}) for row in rows]
    return [row for row in kept if row.kernels]


def _named(rows: Sequence[CostRow], table: str) -> list[CostRow]:
    return [row.model_copy(update={"table": table}) for row in rows]


def _validated(model: type[Model], content: object, where: str) -> Model:
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise ConfigError(where, problems_from(error, model)) from None
