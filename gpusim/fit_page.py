"""The answer of `gpusim fit` as a table and as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version

from rich import box
from rich.console import Console
from rich.table import Table

from gpusim.dtypes import DType
from gpusim.errors import UnsupportedError
from gpusim.fit import TileFit, fit_tiles
from gpusim.report import json_text
from gpusim.specs import GpuSpec, apply_overrides, load_gpu

_FULL_WIDTH = 80  # characters; below that the columns stand closer


@dataclass(frozen=True, slots=True)
class GpuFits:
    """Tile fits on one GPU, or why it has none."""

    spec: GpuSpec
    tiles: tuple[TileFit, ...]
    unsupported: UnsupportedError | None = None


@dataclass(frozen=True, slots=True)
class Fits:
    """Tile fits of one implementation and head dim, by GPU."""

    schedule: str
    head_dim: int
    dtype: DType
    by_gpu: tuple[GpuFits, ...]

    @property
    def any_fits(self) -> bool:
        """Whether any tile fits any of the GPUs."""
        return any(fit.fits for found in self.by_gpu for fit in found.tiles)

    def json(self) -> str:
        """One JSON document."""
        rows = [
            {"gpu": found.spec.name, "schedule": self.schedule, "head_dim": self.head_dim, "dtype": self.dtype}
            | asdict(fit)
            | {"fits": fit.fits, "overrides": found.spec.overrides}
            for found in self.by_gpu
            for fit in found.tiles
        ]
        unsupported = [
            {"gpu": found.spec.name, "reason": found.unsupported.reason, "fix": found.unsupported.fix}
            for found in self.by_gpu
            if found.unsupported is not None
        ]
        return json_text({"gpusim": version("gpusim"), "tiles": rows, "unsupported": unsupported})


def run_fits(
    gpus: Sequence[str],
    schedule: str,
    *,
    head_dim: int,
    dtype: str,
    overrides: Mapping[str, str],
    choices: Mapping[str, Sequence[int] | None],
) -> Fits:
    """Fits every stated choice on every GPU; choices that are None take the usual sizes.

    Raises UnknownNameError for a GPU or implementation, ConfigError for a GPU, ScenarioError for a choice.
    """
    stated = {name: values for name, values in choices.items() if values}
    specs = [apply_overrides(spec, overrides) if overrides else spec for spec in map(load_gpu, gpus)]
    found = [_on_gpu(spec, schedule, head_dim, DType(dtype), stated) for spec in specs]
    return Fits(schedule, head_dim, DType(dtype), tuple(found))


def _on_gpu(spec: GpuSpec, schedule: str, head_dim: int, dtype: DType, choices: Mapping[str, Sequence[int]]) -> GpuFits:
    try:
        return GpuFits(spec, tuple(fit_tiles(spec, schedule, head_dim=head_dim, dtype=dtype, **choices)))
    except UnsupportedError as error:
        return GpuFits(spec, (), error)


def print_fits(fits: Fits, console: Console) -> None:
    """A table a GPU, then why tiles were refused and what to change; or why the GPU has none."""
    for found in fits.by_gpu:
        if found.unsupported is not None:
            console.print(f"{_what(fits, found.spec)}: unsupported: {found.unsupported}", soft_wrap=True)
            continue
        rows = found.tiles
        console.print(_table(fits, found.spec, rows, width=console.width))
        for reason in dict.fromkeys(fit.reason for fit in rows if fit.reason and len(rows) <= 4):
            console.print(reason, soft_wrap=True)
        if len(rows) > 4 and not any(fit.fits for fit in rows):
            console.print("None of these fits; give smaller tiles with --tile-q and --tile-kv", soft_wrap=True)


def _what(fits: Fits, spec: GpuSpec) -> str:
    machine = spec.name if spec.overrides is None else f"{spec.name} with {spec.overrides}"
    return f"{fits.schedule} on {machine}, head_dim {fits.head_dim}, {fits.dtype}"


def _table(fits: Fits, spec: GpuSpec, rows: Sequence[TileFit], *, width: int) -> Table:
    limit = spec.sm.smem_per_cta_max_bytes
    title = f"{_what(fits, spec)}: shared memory per CTA at most {limit:,} B"
    padding = (0, 1, 0, 0) if width >= _FULL_WIDTH else 0
    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=padding, pad_edge=False, show_edge=False
    )
    for heading in ("tile_q", "tile_kv", "stages", "warps", "smem B\nper CTA", "regs/\nthread", "CTAs\nper SM"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("limited by", overflow="fold")
    for fit in rows:
        verdict = fit.limited_by if fit.fits else f"refused: {fit.limited_by}"
        cells = (fit.tile_q, fit.tile_kv, fit.stages, fit.warps, f"{fit.smem_bytes_per_cta:,}")
        registers = fit.registers_per_thread or "-"
        table.add_row(*map(str, cells), str(registers), str(fit.ctas_per_sm), verdict)
    return table
