"""A finished calibration: the GPU file it writes, and what the terminal and a JSON reader see."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import yaml
from rich import box
from rich.console import Console
from rich.table import Table

from gpusim.calibrate import Calibration, SeriesErrors, calibrate, constants_of
from gpusim.engine import Mode
from gpusim.errors import InputError, UnknownNameError
from gpusim.extras import install_command
from gpusim.implementations import implementations
from gpusim.measured import find_measured
from gpusim.report import json_text, write_whole
from gpusim.specs import load_gpu

_SHOWN_REASONS = 8


@dataclass(frozen=True, slots=True)
class FinishedCalibration:
    """A calibration, the GPU it started from as the user named it, and the file that holds the result."""

    calibration: Calibration
    base: str
    out: Path

    def yaml(self) -> str:
        """The GPU file: the base and, over it, the fitted numbers with their sources. The same fit, the same text."""
        done = self.calibration
        document: dict[str, object] = {"base": self.base, "name": self.out.stem}
        sources: dict[str, object] = {}
        for constant in done.constants:
            _put(document, constant.path.split("."), constant.value)
            sources[constant.path] = {"kind": "fitted", "source": self._source()}
        text = yaml.safe_dump(document | {"sources": sources}, sort_keys=False, width=120)
        return f"# Written by gpusim calibrate. {self._errors_text()}\n{text}"

    def _source(self) -> str:
        fitted = [item for item in self.calibration.series if item.role == "fitted"]
        files = sorted({item.key.file for item in fitted})
        return f"gpusim calibrate, {sum(item.n for item in fitted)} rows of {', '.join(files)}"

    def _errors_text(self) -> str:
        fitted, held_out = (self.calibration.mape_pct(role) for role in ("fitted", "held_out"))
        held = "none held out" if held_out is None else f"held out {held_out:.1f} %"
        return f"Mean absolute error of fitted series {fitted or 0:.1f} %, {held}."

    def write(self) -> None:
        """Writes the GPU file, whole or not at all. Raises InputError where it cannot be written."""
        try:
            write_whole(self.out, self.yaml())
        except OSError as error:
            raise InputError(str(self.out), [f"cannot be written: {error.strerror}; choose another -o"]) from None

    def json(self) -> str:
        """One JSON document."""
        done = self.calibration
        return json_text(
            {
                "gpusim": version("gpusim"),
                "gpu": self.base,
                "out": str(self.out),
                "constants": [
                    {"path": item.path, "before": item.start, "after": item.value} for item in done.constants
                ],
                "mape_pct": {role: done.mape_pct(role) for role in ("fitted", "held_out")},
                "series": [_series_json(item) for item in done.series],
                "left_out": dict(done.left_out),
            }
        )

    def print(self, console: Console) -> None:
        """Constants before and after, errors by series, and what took no part."""
        done = self.calibration
        constants = _table("constant", "before", "after")
        for item in done.constants:
            constants.add_row(item.path, f"{item.start:.4g}", f"{item.value:.4g}")
        console.print(constants)
        series = _table("series", "role", "n", "|error| % before", "after", "bias % after")
        for found in sorted(done.series, key=lambda found: found.role):
            series.add_row(*_series_cells(found))
        console.print(series)
        console.print(self._errors_text())
        for reason, count in sorted(done.left_out.items(), key=lambda entry: -entry[1])[:_SHOWN_REASONS]:
            console.print(f"  left out {count:>5}: {reason}", soft_wrap=True)
        console.print(f"File: {self.out}; use it with --gpu {self.out}", soft_wrap=True)


def _put(group: dict[str, object], location: Sequence[str], value: float) -> None:
    *above, name = location
    for key in above:
        below = group.setdefault(key, {})
        assert isinstance(below, dict)
        group = below
    group[name] = value


def _table(*headings: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for heading in headings:
        is_text = heading in ("constant", "series", "role")
        table.add_column(heading, justify="left" if is_text else "right", overflow="fold")
    return table


def _series_cells(item: SeriesErrors) -> tuple[str, ...]:
    name = ", ".join(filter(None, (f"{Path(item.key.file).stem}: {item.key.kernel}", item.key.case)))
    errors = (f"{item.mape_before_pct:.1f}", f"{item.mape_after_pct:.1f}", f"{item.bias_after_pct:+.1f}")
    return (name, item.role.replace("_", " "), str(item.n), *errors)


def _series_json(item: SeriesErrors) -> dict[str, object]:
    return {
        "file": item.key.file,
        "kernel": item.key.kernel,
        "case": item.key.case,
        "role": item.role,
        "n": item.n,
        "mape_before_pct": item.mape_before_pct,
        "mape_after_pct": item.mape_after_pct,
        "bias_after_pct": item.bias_after_pct,
    }


def run_calibration(
    measured: Sequence[str],
    *,
    gpu: str,
    out: Path,
    implementation: str | None = None,
    constants: Sequence[str] = (),
    hold_out: Sequence[str] = (),
    workers: int | None = None,
    mode: Mode = "auto",
    on_round: Callable[[], None] = lambda: None,
) -> FinishedCalibration:
    """Calibrates a GPU on measured files, given as paths or names of shipped ones. Raises InputError."""
    if find_spec("scipy") is None:
        raise InputError("calibrate", [f"a fit needs scipy, which is not installed; {install_command('fit')}"])
    if out.suffix not in (".yaml", ".yml"):
        raise InputError("-o", [f"got {out}; a GPU file ends in .yaml"])
    if implementation is not None and implementation not in implementations():
        raise UnknownNameError("schedule", implementation, list(implementations()))
    spec = load_gpu(gpu)
    done = calibrate(
        [find_measured(name) for name in measured],
        spec,
        list(constants) or constants_of(spec, implementation),
        hold_out=[Path(name).stem for name in hold_out],
        workers=workers,
        mode=mode,
        on_round=on_round,
    )
    base = str(Path(gpu).resolve()) if gpu.endswith((".yaml", ".yml")) else gpu
    return FinishedCalibration(done, base, out)
