"""Fits named constants of one GPU to measured rows, leaves whole series out of the fit, and tells both errors apart.

Constants are dotted paths of the GPU: its own numbers (`memory.hbm.mix_loss`) or, under `calibration`, a timing
constant of a table of kernels (`calibration.torch_kernels.gemm@fp16.matmul_efficiency`). The fit is least squares on
the logarithm of simulated over measured latency, every series with the same weight, with a soft loss so that a few bad
rows do not rule it. Rows that the trust list refuses and rows above the GPU's ceiling take no part.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpusim.compare import SeriesKey, is_above_ceiling, point_of, series_key
from gpusim.engine import Mode
from gpusim.errors import InputError
from gpusim.implementations import check_calibration, implementations
from gpusim.measured import NOT_LISTED, MeasuredRow, read_all, verdict
from gpusim.point import Point
from gpusim.specs import GpuSpec, apply_overrides
from gpusim.sweep import run_sweep

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

MOST_GPU_CONSTANTS, MOST_KERNEL_CONSTANTS = 8, 4  # more would fit any data
HOLD_OUT_EVERY = 3  # where no series is named, every third is left out of the fit
LEAST_SENSITIVITY = 0.02  # d ln latency / d ln constant, root mean square over the rows
MOST_ALIKE = 0.98  # cosine between the effects of two constants
STEP = 0.05  # relative step of a derivative: beyond the grain of waves and tiles
WIDEST = 4.0  # a fitted constant stays within this factor of where it started
SOFT_ERROR = 0.05  # log error from which on a row counts less
MOST_ROUNDS = 15
DIGITS = 4

Floats = npt.NDArray[np.float64]
Bounds = tuple[float, float]

_SHARES = ("matmul_efficiency", "hbm_efficiency", "overlap", "mix_loss")


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant by dotted path: where it started and, after a fit, its value; what it means stands in its unit."""

    path: str
    start: float
    value: float


@dataclass(frozen=True, slots=True)
class SeriesErrors:
    """Errors of one series in percent before and after the fit; `role` is "fitted" or "held_out"."""

    key: SeriesKey
    role: str
    n: int
    mape_before_pct: float
    mape_after_pct: float
    bias_after_pct: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """A finished fit: the GPU with its fitted constants, errors by series, and why other rows took no part."""

    spec: GpuSpec
    constants: tuple[Constant, ...]
    series: tuple[SeriesErrors, ...]
    left_out: Mapping[str, int]

    def mape_pct(self, role: str) -> float | None:
        """Mean absolute error after the fit over the rows of one role, in percent; None where there is none."""
        found = [item for item in self.series if item.role == role]
        rows = sum(item.n for item in found)
        return sum(item.n * item.mape_after_pct for item in found) / rows if rows else None


@dataclass(frozen=True, slots=True)
class _Row:
    """A measured row with its point; the point's GPU is exchanged for every trial."""

    key: SeriesKey
    point: Point
    latency_ms: float


def calibrate(
    paths: Sequence[Path],
    spec: GpuSpec,
    constants: Sequence[str],
    *,
    hold_out: Sequence[str] = (),
    workers: int | None = None,
    mode: Mode = "auto",
    on_round: Callable[[], None] = lambda: None,
) -> Calibration:
    """Fits `constants` of a GPU to the rows of measured files that were taken on it.

    `hold_out` names files (without folder and suffix) whose series are left out; where it names none, every third
    series is. `on_round` is called after every simulation of all rows.

    Raises InputError where nothing can be fitted: an unknown constant, too few rows, or rows that cannot identify a
    constant or cannot tell two apart. Raises ConfigError and MeasuredError as their readers do.
    """
    starts = {path: _start(spec, path) for path in constants}
    _check_number(constants)
    rows, left_out = _rows(paths, spec)
    roles = _roles(rows, hold_out)
    fitted = [row for row in rows if roles[row.key] == "fitted"]
    if len(fitted) <= len(constants):
        raise InputError(
            "calibrate",
            [
                f"{len(fitted)} rows of {spec.name} for {len(constants)} constants; fit fewer constants, or add rows "
                f"({_left_out_text(left_out)})"
            ],
        )
    trial = _Trial(spec, starts, workers, mode, on_round)
    bounds = [_bounds(spec, path, start) for path, start in starts.items()]
    before = trial.errors(rows, trial.at_start)
    found = _fitted(trial, fitted, bounds)
    values = {path: _rounded(start * factor) for (path, start), factor in zip(starts.items(), found, strict=True)}
    calibrated = apply_overrides(spec, {path: repr(value) for path, value in values.items()})
    after = trial.errors(rows, np.array([values[path] / start for path, start in starts.items()]))
    series = tuple(
        _series_errors(
            key, roles[key], [(b, a) for row, b, a in zip(rows, before, after, strict=True) if row.key == key]
        )
        for key in roles
    )
    return Calibration(
        calibrated,
        tuple(Constant(path, start, values[path]) for path, start in starts.items()),
        series,
        left_out,
    )


def constants_of(spec: GpuSpec, implementation: str | None = None) -> list[str]:
    """The constants that are fitted when none is named: those marked fitted, of the GPU or of an implementation on it.

    Raises InputError where there is none.
    """
    if implementation is None:
        found = [path for path, source in spec.sources.items() if source.kind == "fitted"]
        owner = spec.name
    else:
        constants = implementations()[implementation].constants_on(spec)
        found = [path for path, (constant, value) in constants.items() if constant.kind == "fitted" and value > 0]
        owner = f"{implementation} on {spec.name}"
    if not found:
        raise InputError("calibrate", [f"{owner} has no constant marked fitted; name one with --constant"])
    return found


def _start(spec: GpuSpec, path: str) -> float:
    """The value of a constant now. Raises InputError for what is no number above zero."""
    value: object = spec.model_dump()
    if path.startswith("calibration."):
        value = _table_value(spec, path)
    else:
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError("calibrate", [f"--constant {path}: no such number; see gpusim gpus {spec.name}"])
    if value <= 0:
        raise InputError("calibrate", [f"--constant {path}: it is {value:g}; a fit starts from a number above zero"])
    return float(value)


def _table_value(spec: GpuSpec, path: str) -> float | None:
    found = [implementation.constants_on(spec).get(path) for implementation in implementations().values()]
    return next((entry[1] for entry in found if entry is not None), None)


def _check_number(constants: Sequence[str]) -> None:
    kernels = [path for path in constants if path.startswith("calibration.")]
    owned = itertools.groupby(sorted(kernels), key=lambda path: path.rsplit(".", 1)[0])
    problems = [
        f"{count} constants of {kernel}; at most {MOST_KERNEL_CONSTANTS} of a kernel can be fitted"
        for kernel, found in owned
        if (count := len(list(found))) > MOST_KERNEL_CONSTANTS
    ]
    if len(constants) - len(kernels) > MOST_GPU_CONSTANTS:
        problems.append(
            f"{len(constants) - len(kernels)} constants of the GPU; at most {MOST_GPU_CONSTANTS} can be fitted"
        )
    if len(set(constants)) < len(constants):
        problems.append("a constant is named twice; name each once")
    if problems:
        raise InputError("calibrate", problems)


def _rows(paths: Sequence[Path], spec: GpuSpec) -> tuple[list[_Row], dict[str, int]]:
    """Rows that take part in the fit, and how many do not, by reason."""
    files, unreadable = read_all(paths)
    if unreadable:
        raise unreadable[0]
    rows: list[_Row] = []
    left_out: dict[str, int] = {}
    for row in (row for file in files for row in file.rows):
        reason = _why_left_out(row, spec)
        point, no_model = point_of(row, lambda name: spec)
        if point is not None and not reason and row.latency_ms is not None:
            rows.append(_Row(series_key(row, spec.name), point, row.latency_ms))
        else:
            told = reason or no_model
            left_out[told] = left_out.get(told, 0) + 1
    for file in files:
        for skip in file.skipped:
            left_out[skip.reason] = left_out.get(skip.reason, 0) + 1
    return rows, left_out


def _why_left_out(row: MeasuredRow, spec: GpuSpec) -> str:
    """Why a row may not shape a constant; empty where it may."""
    if row.gpu != spec.name:
        return f"taken on {row.gpu}"
    if row.latency_ms is None:
        return "no latency"
    trust = verdict(row)
    if not trust.counts and trust.reason != NOT_LISTED:
        return f"the trust list: {trust.reason}"
    if is_above_ceiling(row, spec):
        return "above the GPU's ceiling"
    return ""


def _left_out_text(left_out: Mapping[str, int]) -> str:
    told = sorted(left_out.items(), key=lambda item: -item[1])[:3]
    return "left out: " + ("; ".join(f"{count} {reason}" for reason, count in told) or "none")


def _roles(rows: Sequence[_Row], hold_out: Sequence[str]) -> dict[SeriesKey, str]:
    """Series in order of appearance → "fitted" or "held_out"."""
    keys = list(dict.fromkeys(row.key for row in rows))
    files = {Path(key.file).stem for key in keys}
    unknown = [name for name in hold_out if name not in files]
    if unknown:
        raise InputError(
            "calibrate",
            [
                f"--hold-out {name}: no row of it takes part; files that do: {', '.join(sorted(files))}"
                for name in unknown
            ],
        )
    if hold_out:
        return {key: "held_out" if Path(key.file).stem in hold_out else "fitted" for key in keys}
    return {
        key: "held_out" if number % HOLD_OUT_EVERY == HOLD_OUT_EVERY - 1 else "fitted"
        for number, key in enumerate(keys)
    }


class _Trial:
    """Simulates rows with the constants multiplied by factors."""

    def __init__(
        self,
        spec: GpuSpec,
        starts: Mapping[str, float],
        workers: int | None,
        mode: Mode,
        on_round: Callable[[], None],
    ) -> None:
        self._spec = spec
        self.starts = starts
        self._workers = workers
        self._mode = mode
        self._on_round = on_round
        self.at_start = np.ones(len(starts))

    def errors(self, rows: Sequence[_Row], factors: Floats) -> Floats:
        """Simulated / measured − 1 of every row. Raises InputError where a row cannot be simulated."""
        values = {path: start * factor for (path, start), factor in zip(self.starts.items(), factors, strict=True)}
        spec = apply_overrides(self._spec, {path: repr(float(value)) for path, value in values.items()})
        check_calibration(spec)
        points = [replace(row.point, spec=spec) for row in rows]
        sweep = run_sweep(points, workers=self._workers, mode=self._mode)
        if sweep.was_interrupted:
            raise KeyboardInterrupt
        self._on_round()
        problems = [item.result.reason or "" for item in sweep.finished if item.result.latency_ms is None]
        if problems:
            raise InputError("calibrate", list(dict.fromkeys(problems)))
        simulated = [item.result.latency_ms or 0.0 for item in sweep.finished]
        return np.array([time / row.latency_ms - 1 for time, row in zip(simulated, rows, strict=True)])


def _fitted(trial: _Trial, rows: Sequence[_Row], bounds: Sequence[Bounds]) -> Floats:
    """Factors on the constants that fit the rows best. Raises InputError where the rows cannot say."""
    from scipy.optimize import least_squares  # an optional extra, and slow to import

    counts = {key: sum(row.key == key for row in rows) for key in dict.fromkeys(row.key for row in rows)}
    weights = np.array([counts[row.key] ** -0.5 for row in rows])

    @cache
    def simulated(*factors: float) -> Floats:
        return weights * np.log1p(trial.errors(rows, np.array(factors)))

    def residuals(factors: Floats) -> Floats:
        return simulated(*factors.tolist())

    def effects(factors: Floats) -> Floats:
        """d ln latency / d factor, weighted, by a step up, or down where the limit is too near."""
        here, columns = residuals(factors), []
        for number, (_, most) in enumerate(bounds):
            step = np.zeros(len(factors))
            step[number] = STEP * factors[number] * (1 if factors[number] * (1 + STEP) < most else -1)
            columns.append((residuals(factors + step) - here) / step[number])
        return np.array(columns).T

    _check_identified(list(trial.starts), effects(trial.at_start), weights)
    done: OptimizeResult = least_squares(
        residuals,
        trial.at_start,
        jac=effects,
        bounds=tuple(np.array(side) for side in zip(*bounds, strict=True)),
        loss="soft_l1",
        f_scale=SOFT_ERROR * float(np.mean(weights)),
        xtol=1e-3,
        ftol=1e-4,
        max_nfev=MOST_ROUNDS,
    )
    _check_inside(trial.starts, done.x, bounds)
    _check_identified(list(trial.starts), effects(done.x), weights)
    factors: Floats = done.x
    return factors


def _bounds(spec: GpuSpec, path: str, start: float) -> Bounds:
    """Factors between which a constant stays; a share stays below one, a bandwidth of HBM below its peak."""
    most = WIDEST
    if path.rpartition(".")[2] in _SHARES:
        most = 0.999 / start
    elif path.startswith("memory.hbm.") and path.endswith("_bandwidth_bytes_per_s"):
        most = spec.memory.hbm.peak_bandwidth_bytes_per_s / start
    return 1 / WIDEST, min(WIDEST, most)


def _check_identified(paths: Sequence[str], effects: Floats, weights: Floats) -> None:
    """Raises InputError for a constant that the rows hardly depend on, and for two with the same effect on them."""
    sizes = np.sqrt(np.sum(effects**2, axis=0) / np.sum(weights**2))
    problems = [
        f"{path}: a change of 10 % moves these latencies by {10 * size:.2g} % on average, too little to fit it; "
        "leave it out, or add rows that it limits"
        for path, size in zip(paths, sizes, strict=True)
        if size < LEAST_SENSITIVITY
    ]
    if not problems:
        unit = effects / np.linalg.norm(effects, axis=0)
        problems = [
            f"{paths[i]} and {paths[j]} change these latencies in the same way "
            f"(cosine {abs(unit[:, i] @ unit[:, j]):.3f}); fit one of them, or add rows that tell them apart"
            for i, j in itertools.combinations(range(len(paths)), 2)
            if abs(unit[:, i] @ unit[:, j]) > MOST_ALIKE
        ]
    if problems:
        raise InputError("calibrate", problems)


def _check_inside(starts: Mapping[str, float], factors: Floats, bounds: Sequence[Bounds]) -> None:
    """Raises InputError for a constant that ran to its limit: the rows ask it to stand for something else."""
    problems = [
        f"{path} ran to its limit of {start * limit:.4g}; these rows ask for more than it can mean, leave it out"
        for (path, start), factor, sides in zip(starts.items(), factors, bounds, strict=True)
        for limit in sides
        if abs(factor / limit - 1) < 1e-3
    ]
    if problems:
        raise InputError("calibrate", problems)


def _rounded(value: Any) -> float:
    return float(f"{float(value):.{DIGITS}g}")


def _series_errors(key: SeriesKey, role: str, pairs: Sequence[tuple[float, float]]) -> SeriesErrors:
    before, after = (np.array(side) for side in zip(*pairs, strict=True))
    return SeriesErrors(
        key,
        role,
        len(pairs),
        100 * float(np.mean(np.abs(before))),
        100 * float(np.mean(np.abs(after))),
        100 * float(np.mean(after)),
    )
