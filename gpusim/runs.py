"""A finished run: the files it leaves behind, and what the terminal shows."""

import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryFile

from rich.console import Console

from gpusim.engine import Mode
from gpusim.errors import InputError
from gpusim.overlay import Overlay, overlay
from gpusim.point import Point
from gpusim.report import axis_of, manifest_json, next_run_dir, results_csv, results_json, write_whole
from gpusim.report.plots import latency_png, traffic_png
from gpusim.report.tables import errors_table, points_table, refusal_lines
from gpusim.results import PointResult
from gpusim.scenario import Scenario
from gpusim.sweep import Finished, run_sweep
from gpusim.workloads import compulsory_bytes

RUNS = Path("runs")
SEED = 0  # nothing in the engine is random; stated so that a manifest says so


def versions() -> dict[str, str]:
    """Versions that can change a run."""
    packages = {name: version(name) for name in ("gpusim", "simpy", "numpy", "pydantic")}
    return packages | {"python": platform.python_version()}


def manifest(*, configs: Mapping[str, str], command: Sequence[str], wall_s: Sequence[float], steps: int) -> str:
    """The manifest of a run on this machine with these versions.

    `configs` maps names to the text of each file that was read, `wall_s` is each point's wall time in seconds, and
    `steps` counts the events of all points.
    """
    return manifest_json(
        versions=versions(),
        configs=configs,
        command=command,
        seed=SEED,
        wall_s=wall_s,
        steps=steps,
        host=platform.node(),
        cores=os.cpu_count() or 1,
    )


def check_out(out: Path | None) -> None:
    """Tries before anything is simulated whether `out`, or else runs/, can be written. Raises InputError."""
    folder = RUNS if out is None else out
    with _writing(folder):
        nearest = next(path for path in (folder, *folder.parents) if path.exists())
        TemporaryFile(dir=nearest).close()


def write_files(out: Path | None, name: str, files: Mapping[str, bytes | str]) -> Path:
    """Writes files, each whole or not at all, into `out` or a new folder runs/<name>-<n>/; returns the folder.

    Raises InputError where that is not possible.
    """
    with _writing(RUNS if out is None else out):
        folder = next_run_dir(RUNS, name) if out is None else out
        folder.mkdir(parents=True, exist_ok=True)
    for file, content in files.items():
        with _writing(folder / file):
            write_whole(folder / file, content)
    return folder


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """What the operating system says against writing becomes an InputError with the fix."""
    try:
        yield
    except OSError as error:
        problem = f"cannot be written: {error.strerror}; choose another folder with --out"
        raise InputError(str(path), [problem]) from None


@dataclass(frozen=True, slots=True)
class Run:
    """Results of a scenario in the order of its points, with measured points where it names files."""

    scenario: Scenario
    finished: tuple[Finished, ...]
    overlay: Overlay
    was_interrupted: bool

    @property
    def results(self) -> tuple[PointResult, ...]:
        """The results alone."""
        return tuple(item.result for item in self.finished)

    @property
    def points(self) -> tuple[Point, ...]:
        """The points that finished."""
        return tuple(self.scenario.points[item.number] for item in self.finished)

    def write(self, out: Path | None, *, command: Sequence[str]) -> Path:
        """Writes every file, whole or not at all, into `out` or runs/<scenario>-<n>/; returns the folder.

        Raises InputError where the folder cannot be written.
        """
        return write_files(out, self.scenario.name, self._files(command))

    def _files(self, command: Sequence[str]) -> Mapping[str, bytes | str]:
        drawn = self.overlay.drawn
        axis = axis_of(self.results)
        compulsory: dict[int, int] = {}
        for point, result in zip(self.points, self.results, strict=True):
            place, size_bytes = axis.value(result), compulsory_bytes(point.workload)
            compulsory[place] = min(size_bytes, compulsory.get(place, size_bytes))
        return {
            "results.csv": results_csv(self.results),
            "results.json": results_json(self.results, self._header(), version=version("gpusim")),
            "latency.png": latency_png(self.results, drawn, self.overlay.errors),
            "traffic.png": traffic_png(self.results, drawn, compulsory=compulsory),
            "manifest.json": self._manifest(command),
        }

    def _header(self) -> dict[str, object]:
        return {"name": self.scenario.name, "measured": list(self.scenario.measured)}

    def _manifest(self, command: Sequence[str]) -> str:
        specs = {point.spec.name: point.spec.model_dump_json() for point in self.scenario.points}
        return manifest(
            configs={"scenario": self.scenario.text, **specs},
            command=command,
            wall_s=[item.wall_s for item in self.finished],
            steps=sum(item.steps for item in self.finished),
        )

    def json(self, out: str) -> str:
        """The JSON document of `run --json`."""
        return results_json(self.results, self._header(), version=version("gpusim"), out=out)

    def refusals(self) -> list[str]:
        """Why points have no latency, and what would change that."""
        return refusal_lines(self.results)

    def print(self, console: Console, folder: Path) -> None:
        """The table of points, refusals with their fixes, errors against measurements, and where the files are."""
        width = console.width
        console.print(points_table(self.results, self.overlay.measured_ms, width=width))
        for line in self.refusals():
            console.print(line, soft_wrap=True)
        if self.overlay.series:
            console.print(errors_table(self.overlay.series, width=width))
        for line in _band_lines(self.results):
            console.print(line, soft_wrap=True)
        console.print(
            f"Files: {folder}/latency.png, traffic.png, results.csv, results.json, manifest.json", soft_wrap=True
        )


def _band_lines(results: Sequence[PointResult]) -> Iterator[str]:
    """Error bands by implementation and GPU, and which points have none."""
    simulated = [result for result in results if result.status == "ok"]
    bands = dict.fromkeys((r.implementation, r.gpu, r.validated) for r in simulated if r.validated is not False)
    for implementation, gpu, band in bands:
        yield f"Error band of {implementation} on {gpu}: ± {100 * band:.1f} % of nine in ten measurements."
    without = list(dict.fromkeys(f"{r.implementation} on {r.gpu}" for r in simulated if r.validated is False))
    if without:
        few = " (some points)" if bands else ""
        yield f"No error band{few}: {', '.join(without)}; too few measurements, or not the GPU as shipped."


def run_scenario(
    scenario: Scenario,
    *,
    workers: int | None = None,
    mode: Mode = "auto",
    force: bool = False,
    on_done: Callable[[], None] = lambda: None,
) -> Run:
    """Simulates every point of a scenario; measured files it names are read first, so that a bad one costs no time.

    Raises UnknownNameError or MeasuredError for a measured file.
    """
    overlay((), (), scenario.measured)
    sweep = run_sweep(scenario.points, workers=workers, mode=mode, force=force, on_done=on_done)
    points = [scenario.points[item.number] for item in sweep.finished]
    return Run(scenario, sweep.finished, overlay(points, sweep.results, scenario.measured), sweep.was_interrupted)
