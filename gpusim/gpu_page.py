"""A GPU as a page of text for a terminal 100 columns wide: every number with unit, kind and origin."""

import textwrap
from collections.abc import Iterator, Sequence

from pydantic import BaseModel

from gpusim.specs import GpuSpec, Source
from gpusim.strict_yaml import unit_of
from gpusim.units import GIB, KIB, MIB

WIDTH = 100
_RATE_WIDTH = 15
_NAME_WIDTH, _VALUE_WIDTH, _KIND_WIDTH = 33, 22, 11
_INDENT = "  "
_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_SCALED_UNITS = {"bytes/s": "B/s", "bits/s": "bit/s", "Hz": "Hz"}
_SHORT_UNITS = {"bytes per clock": "B/clk", "FLOP per clock": "FLOP/clk", "operations per clock": "ops/clk"}


def gpu_text(spec: GpuSpec) -> str:
    """Page about one GPU: bandwidth ratio, peaks, and every number with unit, kind of source and source.

    A number that the file leaves open is "unknown". Sources are numbered and listed at the end, each once.
    """
    title = f"{spec.name}: {spec.product} ({spec.architecture}, compute capability {spec.compute_capability})"
    origins = list(dict.fromkeys(source.source for source in spec.sources.values()))
    blocks = [
        title,
        *_fit_only_block(spec),
        _bandwidth_block(spec),
        _peaks_block(spec),
        *_groups(spec, origins),
        *_calibration_block(spec, origins),
        _sources_block(origins),
    ]
    return "\n\n".join(blocks) + "\n"


def gpus_table(specs: Sequence[GpuSpec]) -> str:
    """One line per GPU with the numbers that tell GPUs apart; fp16 is the dense peak at the boost clock.

    What `answers` says is what a GPU is good for: "simulate" (and fit), or "fit-only" where timings are unknown.
    """
    header = ("name", "answers", "SMs", "clock", "smem/SM", "L2", "HBM", "HBM peak", "fp16 dense")
    rows = [header, *(_table_row(spec) for spec in specs)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    return "".join(_aligned(row, widths) + "\n" for row in rows)


def _table_row(spec: GpuSpec) -> tuple[str, ...]:
    fp16 = spec.sm.tensor_flop_per_clk.get("fp16")
    return (
        spec.name,
        "fit-only" if spec.missing_for_simulation() else "simulate",
        str(spec.sm.count),
        f"{spec.sm.clock_hz / 1e6:.0f} MHz",
        _size(spec.sm.smem_bytes),
        _size(spec.memory.l2.size_bytes) if spec.memory.l2 else "none",
        f"{spec.memory.hbm.capacity_bytes / 1e9:.1f} GB",
        _scaled(spec.memory.hbm.peak_bandwidth_bytes_per_s, "B/s"),
        _scaled(spec.tensor_peak_flop_per_s("fp16"), "FLOP/s") if fp16 else "none",
    )


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = zip(row[1:], widths[1:], strict=True)
    return "  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in cells)])


def _fit_only_block(spec: GpuSpec) -> list[str]:
    missing = spec.missing_for_simulation()
    if not missing:
        return []
    text = f"Fit-only: gpusim fit answers; simulation needs {', '.join(missing)}"
    return ["\n".join(textwrap.wrap(text, WIDTH, break_on_hyphens=False))]


def _bandwidth_block(spec: GpuSpec) -> str:
    levels = [("SRAM", spec.smem_bandwidth_bytes_per_s)]
    if spec.memory.l2 is not None and spec.memory.l2.bandwidth_bytes_per_s is not None:
        levels.append(("L2", spec.memory.l2.bandwidth_bytes_per_s))
    levels.append(("HBM", spec.memory.hbm.peak_bandwidth_bytes_per_s))
    slowest = levels[-1][1]
    rates = " : ".join(f"{name} {_scaled(rate, 'B/s')}" for name, rate in levels)
    ratio = " : ".join(f"{rate / slowest:.1f}".removesuffix(".0") for _, rate in levels)
    return f"Why attention schedules exist: aggregate bandwidth\n{_INDENT}{rates} = {ratio}"


def _peaks_block(spec: GpuSpec) -> str:
    sm = spec.sm
    clocks = f"{_scaled(sm.clock_hz, 'Hz')} (sustained by tensor kernels: {_scaled(sm.tensor_clock_hz, 'Hz')})"
    lines = [f"Peaks at the boost clock of {clocks}"]
    for dtype in sm.tensor_flop_per_clk:
        boost = spec.tensor_peak_flop_per_s(dtype)
        sustained = _scaled(spec.tensor_peak_flop_per_s(dtype, sm.tensor_clock_hz), "FLOP/s")
        lines.append(_label(f"tensor {dtype}, dense") + f"{_peak(spec, boost)} (sustained: {sustained})")
    lines.append(_label("fp32 lanes") + _peak(spec, spec.fp32_peak_flop_per_s))
    lines.append(_label("exponentials") + _scaled(spec.sfu_peak_ops_per_s, " exp/s"))
    return "\n".join(lines)


def _peak(spec: GpuSpec, flop_per_s: float) -> str:
    """A peak, and how many FLOPs a byte of HBM it takes to reach it: the ridge of this pipe's roofline."""
    ridge = flop_per_s / spec.memory.hbm.peak_bandwidth_bytes_per_s
    return f"{_scaled(flop_per_s, 'FLOP/s').ljust(_RATE_WIDTH)}ridge {ridge:.3g} FLOP/B"


def _label(name: str) -> str:
    return _INDENT + name.ljust(_NAME_WIDTH)


def _groups(spec: GpuSpec, origins: Sequence[str]) -> Iterator[str]:
    groups: list[tuple[str, str, BaseModel | None]] = [
        ("SM", "sm", spec.sm),
        ("Registers", "sm.register_file", spec.sm.register_file),
        ("L2", "memory.l2", spec.memory.l2),
        ("HBM", "memory.hbm", spec.memory.hbm),
        ("Launch", "launch", spec.launch),
        ("Power", "power", spec.power),
    ]
    if spec.power is not None and spec.power.energy is not None:
        groups.append(("Energy of work", "power.energy", spec.power.energy))
    for title, path, group in groups:
        rows = ["none"] if group is None else _rows(spec, path, group, origins)
        yield "\n".join([f"{title} ({path})", *(_INDENT + row for row in rows)])


def _calibration_block(spec: GpuSpec, origins: Sequence[str]) -> list[str]:
    rows = [
        _row(path, f"{value:g}", spec.sources.get(f"calibration.{path}"), origins)
        for table, kernels in spec.calibration.items()
        for kernel, constants in kernels.items()
        for name, value in constants.items()
        for path in (f"{table}.{kernel}.{name}",)
    ]
    return ["\n".join(["Kernels (calibration)", *(_INDENT + row for row in rows)])] if rows else []


def _rows(spec: GpuSpec, path: str, group: BaseModel, origins: Sequence[str]) -> Iterator[str]:
    missing = spec.missing_for_simulation()
    for name, value in group:
        if f"{path}.{name}" in missing:
            yield name.ljust(_NAME_WIDTH) + "unknown"
        elif isinstance(value, tuple):
            yield f"{name.ljust(_NAME_WIDTH)}{', '.join(value)}"
        elif isinstance(value, dict):
            for key, number in value.items():
                yield _row(f"{name}.{key}", _value(number, name), spec.sources.get(f"{path}.{name}.{key}"), origins)
        elif isinstance(value, int | float):
            yield _row(name, _value(value, name), spec.sources.get(f"{path}.{name}"), origins)


def _row(name: str, value: str, source: Source | None, origins: Sequence[str]) -> str:
    row = name.ljust(_NAME_WIDTH) + value.ljust(_VALUE_WIDTH)
    if source is None:
        return row.rstrip()
    return f"{row}{source.kind.ljust(_KIND_WIDTH)}[{origins.index(source.source) + 1}]"


def _sources_block(origins: Sequence[str]) -> str:
    lines = ["Sources"]
    for number, origin in enumerate(origins, start=1):
        mark = f"{_INDENT}[{number}]".ljust(8)
        lines += textwrap.wrap(
            origin, WIDTH, initial_indent=mark, subsequent_indent=" " * len(mark), break_on_hyphens=False
        )
    return "\n".join(lines)


def _value(value: float, field_name: str) -> str:
    unit = unit_of(field_name)
    if unit == "bytes":
        return _size(int(value))
    if unit in _SCALED_UNITS:
        return _scaled(value, _SCALED_UNITS[unit])
    return f"{value:g} {_SHORT_UNITS.get(unit, unit)}".strip()


def _size(size_bytes: int) -> str:
    for scale, unit in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size_bytes >= scale:
            return f"{size_bytes / scale:.1f} {unit}"
    return f"{size_bytes} B"


def _scaled(value: float, unit: str) -> str:
    scale, prefix = next(((scale, prefix) for scale, prefix in _PREFIXES if value >= scale), (1.0, ""))
    return f"{value / scale:.4g} {prefix}{unit}"
