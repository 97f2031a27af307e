"""Commands of a checkout.

`python -m validation accuracy` renews the tables of errors in README.md and the error bands in bands.csv, `ablation`
the table of what each mechanism is worth, `golden` the list of kept latencies in golden.csv.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from gpusim.bands import bands_list
from gpusim.compare import CheckFigures, Comparison, ErrorFigures, SeriesFigures, SeriesKey, compare
from gpusim.measured import find_measured, measured_names
from gpusim.report import write_whole
from validation.ablation import ablation_rows
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
    app()
