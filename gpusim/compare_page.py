"""A finished comparison: the files it leaves behind, and what the terminal shows."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from gpusim.compare import (
    CheckFigures,
    ComparedRow,
    Comparison,
    ErrorFigures,
    SeriesFigures,
    SeriesKey,
    SpecOf,
    compare,
)
from gpusim.engine import Mode
from gpusim.errors import ConfigError
from gpusim.explain import Explanation, explain
from gpusim.implementations import check_calibration
from gpusim.measured import OTHER_FILE, find_measured
from gpusim.report import json_text, results_csv
from gpusim.report.answers import Measurement
from gpusim.report.html import Provenance, Table, report_html
from gpusim.report.plots import error_png
from gpusim.report.tables import SeriesError, errors_table
from gpusim.report.wording import duration
from gpusim.runs import explanation_json, latency_text, manifest, print_explanation, write_files
from gpusim.specs import GpuSpec, apply_overrides, gpu_names, load_gpu

_SHOWN_REASONS = 25
_SHOWN_SUSPECTS = 10


@dataclass(frozen=True, slots=True)
class FinishedComparison:
    """A comparison, the files it read, and the GPU that each preset's rows were simulated on."""

    comparison: Comparison
    paths: tuple[Path, ...]
    spec_of: SpecOf

    def json(self, out: str | None = None, *, explained: bool = False) -> str:
        """The JSON document of `compare --json`, `explained` or not; compare.json is the same without `out`."""
        document = comparison_json(self.comparison, version("gpusim"))
        if out is not None:
            document |= {"out": out}
        if explained:
            found = [explanation_json(self._explanation(item)) for item in self.comparison.compared]
            points = map(_row_json, self.comparison.compared)
            document["points"] = [row | {"explanation": why} for row, why in zip(points, found, strict=True)]
        return json_text(document)

    def _explanation(self, item: ComparedRow) -> Explanation | None:
        spec = self.spec_of(item.row.gpu)
        return None if spec is None else explain(item.result, spec)

    def print_explanations(self, console: Console) -> None:
        """Four lines for the worst row of every series: what bounds it, where time goes, what would change it."""
        for item in self.comparison.worst_rows():
            found = self._explanation(item)
            if found is not None:
                where = f"{item.row.kernel}, {Path(item.row.file).name}, line {item.row.line}"
                measured = f"measured {duration(item.row.latency_ms or 0.0)}, off by {100 * (item.error or 0.0):+.1f} %"
                print_explanation(console, f"{where}: {latency_text(item.result)}; {measured}", found)

    def write(self, out: Path | None, *, command: Sequence[str]) -> Path:
        """Writes every file, whole or not at all, into `out` or runs/compare-<n>/; returns the folder.

        Raises InputError where the folder cannot be written.
        """
        files: dict[str, bytes | str] = {
            "compare.json": self.json(),
            "results.csv": results_csv([item.result for item in self.comparison.compared]),
            "errors.png": error_png(self._errors()),
            "report.html": self._report(command),
            "manifest.json": self._manifest(command),
        }
        return write_files(out, "compare", files)

    def _errors(self) -> dict[str, list[tuple[float, float]]]:
        """(measured latency in ms, error) of every row that counts, by implementation and GPU."""
        series: dict[str, list[tuple[float, float]]] = {}
        for item in self.comparison.counted:
            if item.error is not None and item.row.latency_ms is not None:
                name = f"{item.row.implementation} {item.result.gpu}"
                series.setdefault(name, []).append((item.row.latency_ms, item.error))
        return series

    def _texts(self) -> dict[str, str]:
        """What was read, by file name."""
        return {path.name: path.read_text(encoding="utf-8", errors="replace") for path in self.paths if path.is_file()}

    def _report(self, command: Sequence[str]) -> str:
        """The page of the rows that have a latency; rows with the conditions of another share its point."""
        rows = [item for item in self.comparison.compared if item.error is not None]
        results = {id(item.result): item.result for item in rows}
        numbers = {identity: number for number, identity in enumerate(results)}
        measured = [
            Measurement(
                numbers[id(item.result)],
                item.row.latency_ms,
                Path(item.row.file).name,
                item.role,
                item.row.source,
            )
            for item in rows
            if item.row.latency_ms is not None and item.above_ceiling is None
        ]
        return report_html(
            ", ".join(path.stem for path in self.paths),
            list(results.values()),
            gpus=self._specs(),
            measured=measured,
            provenance=Provenance(version("gpusim"), command, self._texts()),
            headline=_headline(self.comparison),
            tables=_tables(self.comparison),
            notes=_notes(self.comparison),
        )

    def _specs(self) -> dict[str, GpuSpec]:
        presets = {item.result.machine: item.row.gpu for item in self.comparison.compared}
        specs = {name: self.spec_of(preset) for name, preset in presets.items()}
        return {name: spec for name, spec in specs.items() if spec is not None}

    def _manifest(self, command: Sequence[str]) -> str:
        return manifest(
            configs=self._texts(),
            command=command,
            wall_s=self.comparison.wall_s,
            steps=self.comparison.steps,
        )

    def print(self, console: Console, folder: Path) -> None:
        """Errors by series with baselines, what was skipped and assumed, and where the files are."""
        done = self.comparison
        for error in done.unreadable:
            console.print(f"unreadable: {error}", soft_wrap=True)
        console.print(_rows_text(done))
        _print_skipped(console, done)
        _print_assumed(console, done)
        _print_suspects(console, done)
        series = [_series_row(item) for item in done.series()]
        if series:
            console.print(errors_table(sorted(series, key=lambda row: (row.file, row.gpu)), width=console.width))
        _print_checks(console, done.checks())
        _print_figures(console, _counted_text(done), done.figures())
        trusted = _trusted_text(done)
        if trusted is not None:
            _print_trusted(console, trusted, done)
        console.print(
            f"Files: {folder}/report.html, compare.json, results.csv, errors.png, manifest.json", soft_wrap=True
        )


def _counted_text(done: Comparison) -> str:
    """What the total is over."""
    left_out = len(done.compared) - len(done.counted)
    return "all simulated rows" + (f" but {left_out} suspect" if left_out else "")


def _trusted_text(done: Comparison) -> str | None:
    """What the figures of the trust list are over; None where it is about none of these files."""
    of_others = {item.row.file for item in done.counted if item.trust_reason == OTHER_FILE}
    if of_others == {item.row.file for item in done.counted}:
        return None
    others = f", and all of {', '.join(sorted(of_others))}" if of_others else ""
    return f"rows the trust list counts{others}"


def _print_trusted(console: Console, what: str, done: Comparison) -> None:
    _print_figures(console, what, done.trusted_figures())
    parts = {"of attention": done.only(attention=True), "of single kernels": done.only(attention=False)}
    if all(part.compared for part in parts.values()):
        for kind, part in parts.items():
            _print_figures(console, f"  {kind}, {what}", part.trusted_figures())


def _headline(done: Comparison) -> str | None:
    """The answer of a comparison in one sentence; None where no row has a latency."""
    figures = done.figures()
    if figures is None:
        return None
    worst = max((item for item in done.counted if item.error is not None), key=lambda item: abs(item.error or 0.0))
    where = f"{Path(worst.row.file).name}, line {worst.row.line}"
    return (
        f"Over {figures.n} measured {'rows' if figures.n > 1 else 'row'} the simulated latency is off by "
        f"{figures.mape_pct:.1f} % on average and by {figures.max_ape_pct:.1f} % at worst ({where}); a plain roofline "
        f"is off by {figures.roofline_mape_pct:.1f} %."
    )


def _tables(done: Comparison) -> list[Table]:
    """Errors of every series and counter, and why rows were skipped or do not count, for the page."""
    columns = ("file", "GPU", "kernel", "case", "rows", "mean |error|, %", "bias, %", "worst, %")
    tables = [
        Table(
            "Errors by series",
            "Error = simulated / measured − 1. Roofline: the mean |error| of a plain roofline on the same rows.",
            (*columns, "roofline, %", "role"),
            [
                (*_error_cells(row), row.roofline_mape_pct, row.role.replace("_", " "))
                for row in map(_series_row, done.series())
            ],
        ),
        Table(
            "Errors of counters",
            "How far simulated bytes, hit rates and memory are off where a row has them.",
            columns,
            [_error_cells(row) for row in map(_check_row, done.checks())],
        ),
        Table(
            "Rows that were not simulated",
            "They count neither as right nor as wrong.",
            ("file", "line", "reason"),
            [(Path(skip.file).name, skip.line, skip.reason) for skip in done.skipped],
        ),
        Table(
            "Rows that claim more than their GPU can do",
            "They stand in no figure, plot or error of this page.",
            ("file", "line", "reason"),
            [(Path(suspect.file).name, suspect.line, suspect.reason) for suspect in done.suspects],
        ),
    ]
    return [table for table in tables if table.rows]


def _error_cells(row: SeriesError) -> tuple[str | float, ...]:
    return (row.file, row.gpu, row.kernel, row.case, row.n, row.mape_pct, row.bias_pct, row.max_ape_pct)


def _notes(done: Comparison) -> dict[str, str]:
    """What was assumed and what could not be read, as the page's footer says it."""
    notes = {"Assumed": ", ".join(f"{field} ({count} rows)" for field, count in done.assumed.items())}
    notes["Unreadable"] = "; ".join(map(str, done.unreadable))
    return {name: text for name, text in notes.items() if text}


def _rows_text(done: Comparison) -> str:
    checked = f" ({done.counters_only} of these by a counter alone)" if done.counters_only else ""
    return f"{done.rows} rows: {len(done.compared)} simulated{checked}, {len(done.skipped)} skipped"


def _series_row(series: SeriesFigures) -> SeriesError:
    every, key = series.every, series.key
    return SeriesError(
        file=key.file,
        gpu=key.gpu,
        kernel=key.kernel,
        case=key.case,
        n=every.n,
        mape_pct=every.mape_pct,
        bias_pct=every.bias_pct,
        max_ape_pct=every.max_ape_pct,
        roofline_mape_pct=every.roofline_mape_pct,
        role=series.role,
    )


def _check_row(check: CheckFigures) -> SeriesError:
    key = check.key
    return SeriesError(
        file=key.file,
        gpu=key.gpu,
        kernel=key.kernel,
        case=f"{key.case}: {check.metric}",
        n=check.n,
        mape_pct=check.mape_pct,
        bias_pct=check.bias_pct,
        max_ape_pct=check.max_ape_pct,
        roofline_mape_pct=None,
        role="",
    )


def comparison_json(comparison: Comparison, version: str) -> dict[str, object]:
    """The comparison as one JSON object; errors are fractions, figures percent."""
    figures = comparison.figures()
    trusted = comparison.trusted_figures()
    return {
        "gpusim": version,
        "rows": comparison.rows,
        "simulated": len(comparison.compared),
        "counters_only": comparison.counters_only,
        "skipped": [{"file": skip.file, "line": skip.line, "reason": skip.reason} for skip in comparison.skipped],
        "suspects": [{"file": row.file, "line": row.line, "reason": row.reason} for row in comparison.suspects],
        "unreadable": [str(error) for error in comparison.unreadable],
        "assumed": dict(comparison.assumed),
        **_figures_json(figures),
        "trusted": None if trusted is None else {"n": trusted.n, **_figures_json(trusted)},
        "series": [_series_json(series) for series in comparison.series()],
        "checks": [_check_json(check) for check in comparison.checks()],
        "points": [_row_json(item) for item in comparison.compared],
    }


def _figures_json(figures: ErrorFigures | None) -> dict[str, object]:
    if figures is None:
        names = ("mape_pct", "median_ape_pct", "bias_pct", "max_ape_pct", "baseline_mape_pct")
        return dict.fromkeys(names)
    return {
        "mape_pct": figures.mape_pct,
        "median_ape_pct": figures.median_ape_pct,
        "bias_pct": figures.bias_pct,
        "max_ape_pct": figures.max_ape_pct,
        "baseline_mape_pct": {
            "roofline": figures.roofline_mape_pct,
            "constant_efficiency": figures.constant_efficiency_mape_pct,
        },
    }


def _series_json(series: SeriesFigures) -> dict[str, object]:
    trusted = series.trusted
    return {
        **_key_json(series.key),
        "n": series.every.n,
        **_figures_json(series.every),
        "trusted": None if trusted is None else {"n": trusted.n, **_figures_json(trusted)},
        "role": series.role,
    }


def _key_json(key: SeriesKey) -> dict[str, object]:
    names = {"file": key.file, "gpu": key.gpu, "kernel": key.kernel, "pass": key.pass_}
    return names | {"dtype": key.dtype, "head_dim": key.head_dim, "causal": key.causal, "case": key.case}


def _check_json(check: CheckFigures) -> dict[str, object]:
    figures = {"mape_pct": check.mape_pct, "bias_pct": check.bias_pct, "max_ape_pct": check.max_ape_pct}
    return _key_json(check.key) | {"metric": check.metric, "n": check.n} | figures


def _row_json(item: ComparedRow) -> dict[str, object]:
    return {
        "file": item.row.file,
        "line": item.row.line,
        "kernel": item.row.kernel,
        "measured_latency_ms": item.row.latency_ms,
        "error": item.error,
        "trusted": item.is_trusted,
        "trust_reason": item.trust_reason,
        "above_ceiling": item.above_ceiling is not None,
        "checks": item.checks(),
        **item.result.record(),
    }


def _print_skipped(console: Console, done: Comparison) -> None:
    counts = Counter((skip.file, skip.reason) for skip in done.skipped)
    for (file, reason), count in list(counts.items())[:_SHOWN_REASONS]:
        console.print(f"  skipped {count:>4} of {Path(file).name}: {reason}", soft_wrap=True)
    if len(counts) > _SHOWN_REASONS:
        console.print(f"  … {len(counts) - _SHOWN_REASONS} more reasons; every row with its line is in compare.json")


def _print_assumed(console: Console, done: Comparison) -> None:
    if done.assumed:
        listed = ", ".join(f"{field} ({count})" for field, count in done.assumed.items())
        console.print(f"  assumed where blank, rows: {listed}", soft_wrap=True)
    for file, columns in done.extra_columns.items():
        listed = ", ".join(columns)
        console.print(f"  columns of {Path(file).name} that are kept and not used: {listed}", soft_wrap=True)


def _print_suspects(console: Console, done: Comparison) -> None:
    for suspect in done.suspects[:_SHOWN_SUSPECTS]:
        where = f"{Path(suspect.file).name}, line {suspect.line}"
        console.print(f"  suspect: {where}: {suspect.reason}; it stands in no figure", soft_wrap=True)
    if len(done.suspects) > _SHOWN_SUSPECTS:
        console.print(f"  … {len(done.suspects) - _SHOWN_SUSPECTS} more suspect rows; all are in compare.json")


def _print_checks(console: Console, checks: Sequence[CheckFigures]) -> None:
    """Errors of counters, one row a series and counter."""
    if checks:
        console.print("Counters:")
        rows = sorted(map(_check_row, checks), key=lambda row: (row.file, row.gpu))
        console.print(errors_table(rows, width=console.width))


def _print_figures(console: Console, what: str, figures: ErrorFigures | None) -> None:
    if figures is None:
        console.print(f"{what}: none")
        return
    console.print(
        f"{what}: n {figures.n}, mean |error| {figures.mape_pct:.1f} %, median {figures.median_ape_pct:.1f} %, bias "
        f"{figures.bias_pct:+.1f} %, worst {figures.max_ape_pct:.1f} %; on the same rows plain roofline "
        f"{figures.roofline_mape_pct:.1f} %, roofline times one constant a series "
        f"{figures.constant_efficiency_mape_pct:.1f} %"
    )


def run_comparison(
    measured: Sequence[str],
    *,
    gpus: Sequence[str] = (),
    overrides: Mapping[str, str] | None = None,
    workers: int | None = None,
    mode: Mode = "auto",
    force: bool = False,
    on_start: Callable[[int], None] = lambda count: None,
    on_done: Callable[[], None] = lambda: None,
) -> FinishedComparison:
    """Compares measured files, given as paths or names of shipped ones.

    `gpus` keeps only rows of these GPUs; a YAML file stands in for the preset of the same product. Raises InputError.
    """
    paths = tuple(find_measured(name) for name in measured)
    spec_of = _specs(gpus, overrides or {})
    comparison = compare(
        paths,
        spec_of=spec_of,
        workers=workers,
        mode=mode,
        force=force,
        on_start=on_start,
        on_done=on_done,
    )
    return FinishedComparison(comparison, paths, spec_of)


def _specs(gpus: Sequence[str], overrides: Mapping[str, str]) -> SpecOf:
    """The GPU to simulate each preset's rows on.

    An override that no GPU can take is an error; one that some cannot take skips the rows of those.
    """
    asked = [load_gpu(name) for name in gpus]
    if overrides:
        _check_overrides(asked or [load_gpu(name) for name in gpu_names()], overrides)

    def spec_of(name: str) -> GpuSpec | None:
        preset = load_gpu(name)
        spec = next((spec for spec in asked if spec.product == preset.product), None) if asked else preset
        if spec is None:
            return None
        spec = apply_overrides(spec, overrides) if overrides else spec
        check_calibration(spec)
        return spec

    return spec_of


def _check_overrides(specs: Sequence[GpuSpec], overrides: Mapping[str, str]) -> None:
    refusals = []
    for spec in specs:
        try:
            check_calibration(apply_overrides(spec, overrides))
        except ConfigError as error:
            refusals.append(error)
    if len(refusals) == len(specs):
        raise refusals[0]
