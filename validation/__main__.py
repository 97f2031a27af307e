"""Commands of a checkout.

`python -m validation collect` measures a GPU, `calibrate` fits a GPU config to that, and `check` does what needs no
GPU; `accuracy` renews the tables of errors in README.md and the error bands in bands.csv, `ablation`
the table of what each mechanism is worth, `golden` the list of kept latencies in golden.csv.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, NoReturn, Optional

import typer

from gpusim.bands import bands_list
from gpusim.compare import CheckFigures, Comparison, ErrorFigures, SeriesFigures, SeriesKey, compare
from gpusim.errors import GpusimError, InputError
from gpusim.measured import find_measured, measured_names
from gpusim.report import write_whole
from gpusim.specs import gpu_names, load_gpu
from validation.ablation import ablation_rows, flash_ablation_rows
from validation.constants import bands_text, constant_rows
from validation.golden import GOLDEN, golden_rows, golden_text

README = Path(__file__).parent / "README.md"
FIGURES = ("role", "n", "mean abs error", "bias", "worst", "roofline", "roofline × constant")
ATTENTION = ("file", "GPU", "kernel", "d", *FIGURES)
SINGLE_KERNELS = ("file", "GPU", "kernel", "format", *FIGURES)
COUNTERS = ("file", "GPU", "kernel", "d", "counter", "n", "mean abs error", "bias", "worst")

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def _commands() -> None:
    """Validation against measurements; from a checkout."""


@app.command()
def accuracy(workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 2) -> None:
    """Simulate every shipped measured row; write the tables of errors and constants, and the error bands."""
    done = compare([find_measured(name) for name in measured_names()], workers=workers)
    write_whole(bands_list(), bands_text(done))
    _write("errors", tables(done))
    _write("constants", _table(None, ("of", "n", "fitted constants"), constant_rows()))


@app.command()
def ablation(workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 2) -> None:
    """Take one mechanism away at a time, by --set, and write what that does to the errors."""
    _write("ablation", _table(None, ("taken away", "--set", "attention", "machine"), list(ablation_rows(workers))))
    flash = ("taken away", "stated instead", "mean abs error", "worst")
    _write("flash ablation", _table(None, flash, list(flash_ablation_rows(workers))))


def _write(name: str, lines: Iterable[str]) -> None:
    """Puts lines between the marks of this name in README.md."""
    text, table = README.read_text(encoding="utf-8"), "\n".join(lines).strip()
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    head, _, rest = text.partition(begin)
    _, _, tail = rest.partition(end)
    write_whole(README, f"{head}{begin}\n\n{table}\n\n{end}{tail}")
    print(table)


@app.command()
def golden() -> None:
    """Simulate the points of golden.csv and write down what they give now."""
    write_whole(GOLDEN, golden_text([row.simulated() for row in golden_rows()]))
    print(GOLDEN.read_text(encoding="utf-8"), end="")


GpuName = Annotated[
    Optional[str],  # noqa: UP045 - typer
    typer.Option(
        "--gpu", help="Config that the rows are written for; needed where the driver's name of a GPU is not known."
    ),
]


@app.command()
def collect(
    out: Annotated[Path, typer.Option(help="Folder for the CSVs and machine.json; a run goes on where it was left.")],
    minutes: Annotated[Optional[float], typer.Option(min=0.5, help="Begin nothing that takes longer.")] = None,  # noqa: UP045 - typer
    only: Annotated[Optional[list[str]], typer.Option(help="Measure this group; repeatable. Default: all.")] = None,  # noqa: UP045 - typer
    gpu: GpuName = None,
) -> None:
    """Measure the GPU of this machine: microbenchmarks, our attention kernels and PyTorch's, to measured CSV.

    About 4 minutes for what a calibration needs and 10 for all on an H200; groups come by value, so a cut run keeps
    the best.

    Example: python -m validation collect --out my_gpu
    """
    from validation.collect import runner
    from validation.collect.cupy_device import open_device
    from validation.collect.device import LostError
    from validation.collect.groups import check_names
    from validation.collect.record import WITH_CSV

    check_names(only or ())
    if gpu is not None:
        load_gpu(gpu)
        if gpu not in gpu_names():
            raise InputError("--gpu", [f"got the file {gpu}; put it into configs/ and give its name, {Path(gpu).stem}"])
    device = open_device(gpu)
    facts = device.facts
    print(f"{facts.product}: rows are written for {facts.gpu}")
    if facts.gpu not in gpu_names():
        print(
            "no config has that name: our own kernels, whose tiles follow from it, will be left out; "
            "add configs/NAME.yaml (base: the nearest GPU, see gpusim gpus) and collect with --gpu NAME"
        )
    try:
        record = runner.collect(device, out, version=version("gpusim"), minutes=minutes, only=only or (), say=print)
    except LostError as error:
        print(
            f"error: GPU: {error}; run again with --only for the other groups",
            file=sys.stderr,
            flush=True,
        )
        os._exit(1)  # an ordinary exit waits for the GPU
    except KeyboardInterrupt:
        print(f"interrupted: {out} holds what was measured; the same command goes on", file=sys.stderr)
        raise typer.Exit(130) from None
    print(f"{out}: {record.shortfall() or 'complete'}")
    if not any(group.status in WITH_CSV for group in record.groups.values()):
        raise typer.Exit(1)


@app.command(hidden=True)
def profile_case(name: str, gpu: GpuName = None) -> None:
    """Run one case between the marks that Nsight Compute waits for; collect starts this under ncu."""
    from validation.collect.cupy_device import open_device
    from validation.collect.groups import case_named

    device = open_device(gpu)
    device.profiled(case_named(device.facts, name))


@app.command()
def check(
    kernels: Annotated[bool, typer.Option(help="Compile every kernel, which needs the extra nvrtc.")] = True,
) -> None:
    """Do all that needs no GPU: compile every kernel for every architecture, and read every kind of row.

    Example: python -m validation check
    """
    from validation.check import compile_findings, row_findings

    faults = looked_at = 0
    parts = [row_findings(), *([compile_findings()] if kernels else [])]
    for finding in (finding for part in parts for finding in part):
        print(f"{'FAULT' if finding.is_fault else 'ok':5} {finding.what}: {finding.found}", flush=True)
        looked_at += 1
        faults += finding.is_fault
    print(f"{looked_at} looked at, {faults} faults")
    raise typer.Exit(1 if faults else 0)


@app.command()
def calibrate(
    measured: Annotated[Path, typer.Option(help="Folder that collect wrote.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="GPU file to write, ending in .yaml.")],
    gpu: Annotated[
        Optional[str],  # noqa: UP045 - typer
        typer.Option(
            "--gpu", help="GPU name or YAML file to start from; default: the one that the rows are written for."
        ),
    ] = None,
    workers: Annotated[Optional[int], typer.Option(min=1, help="Processes; default all cores.")] = None,  # noqa: UP045 - typer
) -> None:
    """Fit a GPU config to a folder of measurements: launches, L2, HBM, then kernels.

    Example: python -m validation calibrate --measured my_gpu -o my_gpu.yaml
    """
    from validation.calibration import calibrate_folder

    for line in calibrate_folder(
        measured, out, gpu=gpu, workers=workers, say=lambda line: print(line, file=sys.stderr)
    ):
        print(line)


def main() -> NoReturn:
    """Runs a command; a user's mistake ends in exit code 2 with every problem on its own line."""
    try:
        app()
    except InputError as error:
        for problem in error.problems:
            print(f"error: {error.where}: {problem}", file=sys.stderr)
        raise SystemExit(2) from None
    except GpusimError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    raise SystemExit(0)


def tables(done: Comparison) -> Iterator[str]:
    """The lines between the marks of README.md: attention, single kernels and counters under headings of their own."""
    yield f"{done.rows} rows, {len(done.compared)} simulated, {len(done.skipped)} skipped."
    yield "Figures over the rows that the trust list counts."
    yield from _section("Attention", ATTENTION, done.only(attention=True))
    yield from _section("Single kernels", SINGLE_KERNELS, done.only(attention=False))
    yield from _table("Counters", COUNTERS, [_check_cells(check) for check in done.checks(trusted=True)])


def _section(title: str, headings: Sequence[str], done: Comparison) -> Iterator[str]:
    rows = [[*_names(series), *_cells(series.trusted)] for series in done.series() if series.trusted is not None]
    total = done.trusted_figures()
    if total is not None:
        rows.append(["all", "", "", "", "", *_cells(total)])
    yield from _table(title, headings, rows)


def _table(title: str | None, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    if title is not None:
        yield from ("", f"### {title}", "")
    yield from (f"| {' | '.join(headings)} |", f"|{'---|' * len(headings)}")
    yield from (f"| {' | '.join(cells)} |" for cells in rows)


def _names(series: SeriesFigures) -> list[str]:
    """File, GPU, kernel, head dim (number format of a single kernel) and role."""
    return [*_key_cells(series.key), series.role.replace("_", " ")]


def _key_cells(key: SeriesKey) -> list[str]:
    is_fp32 = key.head_dim is not None and key.dtype == "fp32"
    what = ", ".join((key.kernel, *["fp32"] * is_fp32, *["causal"] * bool(key.causal)))
    return [key.file.removesuffix(".csv"), key.gpu, what, str(key.head_dim or key.dtype or "")]


def _cells(figures: ErrorFigures) -> list[str]:
    n, bias = str(figures.n), f"{figures.bias_pct:+.1f} %"
    mean, worst = f"{figures.mape_pct:.1f} %", f"{figures.max_ape_pct:.1f} %"
    baselines = (figures.roofline_mape_pct, figures.constant_efficiency_mape_pct)
    return [n, mean, bias, worst, *(f"{value:.1f} %" for value in baselines)]


def _check_cells(check: CheckFigures) -> list[str]:
    mean, worst = f"{check.mape_pct:.1f} %", f"{check.max_ape_pct:.1f} %"
    return [*_key_cells(check.key), check.metric, str(check.n), mean, f"{check.bias_pct:+.1f} %", worst]


if __name__ == "__main__":
    main()
