"""From a folder of collected measurements to a calibrated GPU config: fits by part of the machine, one after another.

Each fit is one of `gpusim.calibrate`: a few constants that its measurements depend on, whole series left out where
there are three. Parts depend on each other (a stream in a graph has a launch in it), so the machine's parts are fitted
twice, from where the others got to. A constant that the rows cannot tell is left at the value of the base, and that is
said.
"""

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import yaml

from gpusim.calibrate import DIGITS, Calibration, SeriesErrors, calibrate, constants_of
from gpusim.calibrate_page import FinishedCalibration
from gpusim.engine import Mode
from gpusim.errors import InputError
from gpusim.extras import install_command
from gpusim.implementations import implementations
from gpusim.measured import read_measured
from gpusim.report import write_whole
from gpusim.specs import GpuSpec, apply_overrides, gpu_names, load_gpu
from validation.collect.record import Collected, read_collected

ROUNDS = 2
START_SHARE = 0.95


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the machine: the groups that measure it, and its constants, the surest first.

    `starts_below` is for a constant that only shows where it is smaller than another one: the fit starts from there.
    """

    name: str
    groups: tuple[str, ...]
    constants: tuple[str, ...]
    starts_below: str | None = None


# memory.l2.knee is not among them: 1 % of noise leaves a third of it open.
PARTS = (
    Part("launches", ("small_kernels",), ("launch.graph_ns", "launch.stream_ns")),
    Part(
        "L2",
        ("cache_read", "pointer_chase"),
        (
            "memory.l2.bandwidth_bytes_per_s",
            "memory.l2.near_latency_ns",
            "memory.hbm.far_latency_ns",
            "memory.l2.far_latency_ns",
        ),
    ),
    Part(
        "HBM",
        ("stream",),
        (
            "memory.hbm.stream_bandwidth_bytes_per_s",
            "memory.hbm.stream_latency_ns",
            "memory.l2.write_bandwidth_bytes_per_s",
            "memory.hbm.mix_loss",
        ),
    ),
    Part(
        "large reads",
        ("large_read",),
        ("memory.hbm.large_read_bandwidth_bytes_per_s",),
        starts_below="memory.hbm.stream_bandwidth_bytes_per_s",
    ),
)
KERNEL_GROUPS = ("attention", "sdpa", "attention_hopper")


@dataclass(frozen=True, slots=True)
class CalibratedGpu:
    """A GPU with what was fitted and read off, and in words what was not.

    `fits` holds one calibration a part and kernel, `readings` constants that a measurement states by itself, with their
    sources.
    """

    base: str
    out: Path
    fits: Mapping[str, Calibration]
    readings: Mapping[str, tuple[float, str]]
    left: tuple[str, ...]
    starts: Mapping[str, float] = field(default_factory=dict)

    def constants(self) -> dict[str, tuple[float, float]]:
        """Constant → its value in the base, and now."""
        fitted = {item.path: item for fit in self.fits.values() for item in fit.constants}
        found = {path: (self.starts.get(path, item.start), item.value) for path, item in fitted.items()}
        return found | {path: (self.starts[path], value) for path, (value, _) in self.readings.items()}

    def series(self) -> list[SeriesErrors]:
        """Errors of every series, as the last fit of its part left them."""
        return [series for fit in self.fits.values() for series in fit.series]

    def yaml(self) -> str:
        """The GPU file. The same measurements, the same text."""
        document: dict[str, object] = {"base": self.base, "name": self.out.stem, "sources": {}}
        for fit in self.fits.values():
            _merge(document, yaml.safe_load(FinishedCalibration(fit, self.base, self.out).yaml()))
        for path, (value, source) in self.readings.items():
            _merge(document, _nested(path, value) | {"sources": {path: {"kind": "measured", "source": source}}})
        sources = document.pop("sources")
        text = yaml.safe_dump(document | {"sources": sources}, sort_keys=False, width=120)
        return f"# Written by python -m validation calibrate, gpusim {version('gpusim')}.\n{text}"


def calibrated(
    collected: Collected,
    out: Path,
    *,
    gpu: str | None = None,
    workers: int | None = None,
    mode: Mode = "auto",
    say: Callable[[str], None] = lambda line: None,
    on_round: Callable[[], None] = lambda: None,
) -> CalibratedGpu:
    """Calibrates the GPU that a folder was measured on. `gpu` is the config to start from, else the preset of the rows.

    Raises InputError where there is no such config, or nothing could be fitted.
    """
    base = gpu or collected.record.gpu
    if gpu is None and base not in gpu_names():
        raise InputError(
            str(collected.folder),
            [
                f"its rows are of '{base}', which no config is for; add configs/NAME.yaml (base: the nearest GPU, see "
                f"gpusim gpus) and collect again with --gpu NAME, or calibrate with --gpu"
            ],
        )
    start = spec = load_gpu(base)
    fits: dict[str, Calibration] = {}
    left: dict[str, None] = {}
    readings = _readings(collected)
    if readings:
        spec = apply_overrides(spec, {path: repr(value) for path, (value, _) in readings.items()})
    for number in range(ROUNDS):
        for part in PARTS:
            say(f"{part.name}, round {number + 1} of {ROUNDS}")
            paths, reason = _paths(collected, part.groups)
            if reason:
                left[f"{part.name}: {reason}"] = None
                continue
            fitted = _fit(part.name, paths, _started(spec, part), part.constants, fits, left, workers, mode, on_round)
            spec = fitted or spec
    for name, paths, constants in _kernel_fits(collected, spec):
        say(name)
        spec = _fit(name, paths, spec, constants, fits, left, workers, mode, on_round) or spec
    if not fits:
        raise InputError(str(collected.folder), [*left, "nothing could be fitted"])
    starts = {path: _value(start, path) for fit in fits.values() for path in (item.path for item in fit.constants)}
    starts |= {path: _value(start, path) for path in readings}
    known = {path: value for path, value in starts.items() if value is not None}
    return CalibratedGpu(base, out, fits, readings, tuple(left), known)


def _fit(
    name: str,
    paths: Sequence[Path],
    spec: GpuSpec,
    constants: Sequence[str],
    fits: dict[str, Calibration],
    left: dict[str, None],
    workers: int | None,
    mode: Mode,
    on_round: Callable[[], None],
) -> GpuSpec | None:
    """The GPU after a fit of as many of the constants as the rows can tell; None where they tell none.

    `fits` and `left` say what came of it.
    """
    chosen = list(constants)
    while chosen:
        try:
            done = calibrate(paths, spec, chosen, workers=workers, mode=mode, on_round=on_round)
        except InputError as error:
            culprit = _culprit(chosen, error)
            left[f"{culprit} keeps its value: {error.problems[0]}"] = None
            chosen.remove(culprit)
            continue
        fits[name] = done
        return done.spec
    return None


def _started(spec: GpuSpec, part: Part) -> GpuSpec:
    """The GPU from which the fit of a part starts."""
    limit = _value(spec, part.starts_below) if part.starts_below else None
    if limit is None:
        return spec
    return apply_overrides(spec, {path: repr(START_SHARE * limit) for path in part.constants})


def _culprit(constants: Sequence[str], error: InputError) -> str:
    """The least sure constant that the first problem names; the last where it names none."""
    named = (path for path in reversed(constants) if path in error.problems[0])
    return next(named, constants[-1])


def _paths(collected: Collected, groups: Sequence[str]) -> tuple[list[Path], str]:
    """CSVs of these groups that are whole, and why there are none."""
    found = [collected.files[group] for group in groups if group in collected.files]
    return found, "" if found else f"{' and '.join(groups)} not measured"


def _kernel_fits(collected: Collected, spec: GpuSpec) -> list[tuple[str, list[Path], list[str]]]:
    """For every implementation in the attention groups: its name, where its rows are, and its fitted constants."""
    found = []
    for group in KERNEL_GROUPS:
        path = collected.files.get(group)
        names = dict.fromkeys(row.implementation for row in read_measured(path).rows) if path else {}
        for name in names:
            try:
                constants = constants_of(spec, name) if name in implementations() else []
            except InputError:
                continue  # it has no constant that is fitted: its times follow from the machine
            if path and constants:
                found.append((name, [path], constants))
    return found


def _readings(collected: Collected) -> dict[str, tuple[float, str]]:
    """Constants that a measurement states by itself, with their sources.

    CTAs a second are the slope between the two largest grids of empty CTAs.
    """
    readings: dict[str, tuple[float, str]] = {}
    grids = sorted((int(row["ctas"]), float(row["latency_us"])) for row in _rows(collected, "launches", "cta_launch"))
    if len(grids) >= 2 and grids[-1][1] > grids[-2][1]:
        (few, few_us), (many, many_us) = grids[-2:]
        rate = 1e6 * (many - few) / (many_us - few_us)
        readings["launch.ctas_per_s"] = (_rounded(rate), f"empty kernels of {few:,} and {many:,} CTAs, launches.csv")
    return readings


def _rows(collected: Collected, group: str, kernel: str) -> list[dict[str, str]]:
    path = collected.files.get(group)
    rows = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))) if path else []
    return [row for row in rows if row["kernel"] == kernel]


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _value(spec: GpuSpec, path: str) -> float | None:
    value: object = spec.model_dump()
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return float(value) if isinstance(value, int | float) else None


def _nested(path: str, value: float) -> dict[str, object]:
    document: object = value
    for key in reversed(path.split(".")):
        document = {key: document}
    assert isinstance(document, dict)
    return document


def _merge(into: dict[str, object], other: Mapping[str, object]) -> None:
    for key, value in other.items():
        held = into.get(key)
        if isinstance(held, dict) and isinstance(value, dict):
            _merge(held, value)
        else:
            into[key] = value


def calibrate_folder(
    folder: Path, out: Path, *, gpu: str | None = None, workers: int | None = None, say: Callable[[str], None]
) -> Iterator[str]:
    """Calibrates on a folder and writes the GPU file; the lines to print. Raises InputError."""
    if find_spec("scipy") is None:
        raise InputError("calibrate", [f"a fit needs scipy, which is not installed; {install_command('fit')}"])
    if out.suffix not in (".yaml", ".yml"):
        raise InputError("-o", [f"got {out}; a GPU file ends in .yaml"])
    collected = read_collected(folder)
    if shortfall := collected.record.shortfall():
        yield shortfall
    done = calibrated(collected, out, gpu=gpu, workers=workers, say=say)
    write_whole(out, done.yaml())
    for path, (before, after) in done.constants().items():
        yield f"{path:<48} {before:>12.4g} -> {after:.4g}"
    yield from done.left
    for series in done.series():
        name = f"{Path(series.key.file).stem}: {series.key.kernel} {series.key.case}".strip()
        yield f"{name:<48} {series.role.replace('_', ' ')}, {series.n} rows, |error| {series.mape_after_pct:.1f} %"
    files = " ".join(str(path) for path in collected.files.values())
    yield f"File: {out}; next: gpusim compare {files} --gpu {out}"
