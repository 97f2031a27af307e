"""A finished run: the files it leaves behind, and what the terminal shows."""

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from gpusim.overlay import Overlay, overlay
from gpusim.report import manifest_json, next_run_dir, results_csv, results_json, write_whole
from gpusim.report.plots import latency_png, traffic_png
from gpusim.report.tables import errors_table, points_table, refusal_lines
from gpusim.results import PointResult
from gpusim.scenario import Scenario
from gpusim.sweep import Finished, run_sweep

RUNS = Path("runs")
SEED = 0  # nothing in the engine is random; stated so that a manifest says so


def versions() -> dict[str, str]:
    """Versions that can change a run."""
    packages = {name: version(name) for name in ("gpusim", "simpy", "numpy", "pydantic")}
    return packages | {"python": platform.python_version()}


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

    def write(self, out: Path | None, *, command: Sequence[str]) -> Path:
        """Writes every file, whole or not at all, into `out` or runs/<scenario>-<n>/; returns the folder."""
        folder = next_run_dir(RUNS, self.scenario.name) if out is None else out
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self._files(command).items():
            write_whole(folder / name, content)
        return folder

    def _files(self, command: Sequence[str]) -> Mapping[str, bytes | str]:
        drawn = self.overlay.drawn
        points = self.scenario.points[: len(self.finished)]
        compulsory = {point.workload.seqlen_k: point.workload.compulsory_bytes for point in points}
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
        return manifest_json(
            versions=versions(),
            configs={"scenario": self.scenario.text, **specs},
            command=command,
            seed=SEED,
            wall_s=[item.wall_s for item in self.finished],
            steps=sum(item.steps for item in self.finished),
            host=platform.node(),
            cores=os.cpu_count() or 1,
        )

    def json(self, out: str) -> str:
        """The JSON document of `run --json`."""
        return results_json(self.results, self._header(), version=version("gpusim"), out=out)

    def print(self, console: Console, folder: Path) -> None:
        """The table of points, refusals with their fixes, errors against measurements, and where the files are."""
        width = console.width
        console.print(points_table(self.results, self.overlay.measured_ms, width=width))
        for line in refusal_lines(self.results):
            console.print(line, markup=False)
        if self.overlay.series:
            console.print(errors_table(self.overlay.series, width=width))
        console.print("Not validated: no error band is stated for these GPUs and implementations yet.")
        console.print(f"Files: {folder / 'latency.png'}, {', '.join(sorted(set(self._names()) - {'latency.png'}))}")

    @staticmethod
    def _names() -> tuple[str, ...]:
        return "results.csv", "results.json", "latency.png", "traffic.png", "manifest.json"


def run_scenario(
    scenario: Scenario,
    *,
    workers: int | None = None,
    force: bool = False,
    on_done: Callable[[], None] = lambda: None,
) -> Run:
    """Simulates every point of a scenario; measured files it names are read first, so that a bad one costs no time.

    Raises UnknownNameError or MeasuredError for a measured file.
    """
    overlay((), (), scenario.measured)
    sweep = run_sweep(scenario.points, workers=workers, force=force, on_done=on_done)
    points = scenario.points[: len(sweep.finished)]
    return Run(scenario, sweep.finished, overlay(points, sweep.results, scenario.measured), sweep.was_interrupted)
