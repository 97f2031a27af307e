"""A finished run: the files it leaves behind, and what the terminal shows."""

import os
import platform
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryFile

from rich.console import Console

from gpusim.engine import Mode
from gpusim.errors import InputError
from gpusim.explain import Explanation, explain
from gpusim.overlay import Overlay, overlay
from gpusim.point import Point
from gpusim.report import axis_of, manifest_json, next_run_dir, results_csv, results_json, series_names, write_whole
from gpusim.report.html import Provenance, report_html
from gpusim.report.notebook import Picture, latency_picture, points_html
from gpusim.report.plots import latency_png, traffic_png
from gpusim.report.shown import ShownResult
from gpusim.report.tables import errors_table, place_text, points_table, refusal_lines
from gpusim.report.wording import duration
from gpusim.results import PointResult
from gpusim.scenario import Scenario
from gpusim.specs import GpuSpec
from gpusim.sweep import Finished, run_sweep
from gpusim.traces import Traced, TraceRequest, Untraced, trace_points
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
class WrittenTraces:
    """The files of the traces of a run, and in sentences what they leave out."""

    files: tuple[str, ...]
    left_out: tuple[str, ...]
    was_interrupted: bool

    def line(self) -> str:
        """Where they are and how they are opened."""
        return f"Traces: {', '.join(self.files)}; a .pftrace opens at https://ui.perfetto.dev"


@dataclass(frozen=True, slots=True)
class Run:
    """Results of a scenario in the order of its points, with measured points where it names files."""

    scenario: Scenario
    finished: tuple[Finished, ...]
    overlay: Overlay
    was_interrupted: bool

    @property
    def results(self) -> tuple[ShownResult, ...]:
        """The results alone."""
        return tuple(item.result for item in self.finished)

    @property
    def points(self) -> tuple[Point, ...]:
        """The points that finished."""
        return tuple(self.scenario.points[item.number] for item in self.finished)

    def rows(self) -> list[dict[str, object]]:
        """The results as flat rows, which pandas.DataFrame and polars.DataFrame take as they are."""
        return [result.row() for result in self.results]

    def plot(self) -> Picture:
        """A picture of latency against size, with measured points where the scenario names files."""
        return latency_picture(self.results, self.overlay.drawn)

    def _repr_html_(self) -> str:
        return points_html(self.results)

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
            "report.html": self._report(command),
            "manifest.json": self._manifest(command),
        }

    def write_traces(
        self, folder: Path, request: TraceRequest, *, force: bool, on_done: Callable[[], None]
    ) -> WrittenTraces:
        """Traces the points that are ok, and writes each one's files as soon as they are there.

        Raises InputError where the folder cannot be written.
        """
        files: list[str] = []
        left_out: list[str] = []
        try:
            for item in trace_points(self.points, self.results, request, force=force, on_done=on_done):
                match item:
                    case Traced():
                        write_files(folder, self.scenario.name, item.files)
                        files += item.files
                        left_out += [f"{next(iter(item.files))}: {line}" for line in item.remarks]
                    case Untraced():
                        left_out.append(f"point {item.number}: not traced: {item.reason}")
        except KeyboardInterrupt:
            return WrittenTraces(tuple(files), tuple(left_out), was_interrupted=True)
        return WrittenTraces(tuple(files), tuple(left_out), was_interrupted=False)

    def _report(self, command: Sequence[str]) -> str:
        return report_html(
            self.scenario.name,
            self.results,
            gpus=dict(self._machines()),
            measured=self.overlay.matched,
            drawn=self.overlay.drawn,
            provenance=Provenance(version("gpusim"), command, self._texts()),
            notes=self._notes(),
        )

    def _machines(self) -> list[tuple[str, GpuSpec]]:
        """The GPU of each point, under the name that the point gives it."""
        return [(result.machine, point.spec) for result, point in zip(self.results, self.points, strict=True)]

    def _notes(self) -> dict[str, str]:
        """A warning where different GPUs of this run share a name, by which the report tells GPUs apart."""
        machines: list[tuple[str, GpuSpec]] = []
        for machine in self._machines():
            if machine not in machines:
                machines.append(machine)
        shared = [name for name, count in Counter(name for name, _ in machines).items() if count > 1]
        if not shared:
            return {}
        told = (
            f"different GPUs are called {', '.join(shared)}; their points are mixed here, and numbers of the GPU are "
            "those of the last. Give each file a name of its own."
        )
        return {"Same name": told}

    def _texts(self) -> dict[str, str]:
        """What was read: the scenario, and every GPU as it was simulated."""
        specs = {name: spec.model_dump_json() for name, spec in dict(self._machines()).items()}
        return {"scenario": self.scenario.text, **specs}

    def _header(self) -> dict[str, object]:
        return {"name": self.scenario.name, "measured": list(self.scenario.measured)}

    def _manifest(self, command: Sequence[str]) -> str:
        return manifest(
            configs=self._texts(),
            command=command,
            wall_s=[item.wall_s for item in self.finished],
            steps=sum(item.steps for item in self.finished),
        )

    def json(self, out: str, *, explained: bool = False) -> str:
        """The JSON document of `run --json`, with every point `explained` where that is asked for."""
        return results_json(
            self.results,
            self._header(),
            version=version("gpusim"),
            out=out,
            explanations=[explanation_json(found) for found in self._explanations()] if explained else None,
        )

    def _explanations(self) -> list[Explanation | None]:
        return [explain(item, point.spec) for item, point in zip(self.results, self.points, strict=True)]

    def print_explanations(self, console: Console) -> None:
        """Four lines a simulated point: what bounds it, where time goes, what is exposed, what would change it."""
        axis = axis_of(self.results)
        names = series_names(self.results)
        for result, name, found in zip(self.results, names, self._explanations(), strict=True):
            if found is not None:
                title = f"{name} on {result.machine}, {place_text(result, axis)}: {latency_text(result)}"
                print_explanation(console, title, found)

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
        for line in self.overlay.used:
            console.print(f"Measured: {line}", soft_wrap=True)
        for line in _band_lines(self.results):
            console.print(line, soft_wrap=True)
        console.print(
            f"Files: {folder}/report.html, latency.png, traffic.png, results.csv, results.json, manifest.json",
            soft_wrap=True,
        )


def explanation_json(found: Explanation | None) -> dict[str, str] | None:
    """An explanation as JSON: its four lines by name; null for a point that was not simulated."""
    return None if found is None else asdict(found)


def print_explanation(console: Console, title: str, found: Explanation) -> None:
    """A title, and the four lines below it."""
    console.print(title, soft_wrap=True)
    for line in found.lines():
        console.print(f"  {line}", soft_wrap=True)


def latency_text(result: PointResult) -> str:
    """A simulated latency with the band that hardware is expected in, or that none is known."""
    assert result.latency_ms is not None
    text = duration(result.latency_ms)
    if result.latency_lo_ms is None or result.latency_hi_ms is None:
        return f"{text}, not validated"
    low, high = (duration(ms, scale_ms=result.latency_ms) for ms in (result.latency_lo_ms, result.latency_hi_ms))
    return f"{text}, on hardware {low} to {high} in nine of ten measurements"


def _band_lines(results: Sequence[PointResult]) -> Iterator[str]:
    """Error bands by implementation, version and GPU with what they rest on, and why points have none."""
    simulated = [result for result in results if result.status == "ok"]
    bands = dict.fromkeys((_label(r), r.machine, r.validated, r.validation) for r in simulated if r.validated)
    for implementation, gpu, band, basis in bands:
        yield f"Error band of {implementation} on {gpu}: ± {100 * band:.1f} % ({basis})."
    reasons: dict[str, dict[str, None]] = {}
    for result in simulated:
        if not result.validated and result.validation is not None:
            reason = result.validation.removeprefix("not validated").lstrip(": ")
            reasons.setdefault(f"{_label(result)} on {result.machine}", {})[reason] = None
    with_band = {f"{implementation} on {gpu}" for implementation, gpu, *_ in bands}
    for name, (first, *others) in reasons.items():
        few = " (some points)" if name in with_band else ""
        more = "; of other points see validation in results.csv" if others else ""
        yield f"Not validated{few}: {name}: {first}{more}."


def _label(result: PointResult) -> str:
    """The implementation with its version, where it has one."""
    return result.implementation + (f"@{result.version}" if result.version else "")


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
