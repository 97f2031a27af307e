"""Commands of a checkout.

`python -m validation accuracy` renews the table of errors in README.md, `python -m validation golden` the list of kept
latencies in golden.csv.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from gpusim.compare import Comparison, ErrorFigures, SeriesFigures, compare
from gpusim.measured import find_measured, measured_names
from gpusim.report import write_whole
from validation.golden import GOLDEN, golden_rows, golden_text

README = Path(__file__).parent / "README.md"
BEGIN, END = "<!-- errors: begin -->", "<!-- errors: end -->"
HEADINGS = (
    "file",
    "GPU",
    "kernel",
    "d",
    "role",
    "n",
    "mean abs error",
    "bias",
    "worst",
    "roofline",
    "roofline × constant",
)

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def _commands() -> None:
    """Validation against measurements; from a checkout."""


@app.command()
def accuracy(workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 2) -> None:
    """Simulate every shipped measured row and write the table of errors into validation/README.md."""
    done = compare([find_measured(name) for name in measured_names()], workers=workers)
    text = README.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    table = "\n".join(_lines(done))
    write_whole(README, f"{head}{BEGIN}\n\n{table}\n\n{END}{tail}")
    print(table)


@app.command()
def golden() -> None:
    """Simulate the points of golden.csv and write down what they give now."""
    write_whole(GOLDEN, golden_text([row.simulated() for row in golden_rows()]))
    print(GOLDEN.read_text(encoding="utf-8"), end="")


def _lines(done: Comparison) -> Iterator[str]:
    yield f"{done.rows} rows, {len(done.compared)} simulated, {len(done.skipped)} skipped."
    yield "Figures over the rows that the trust list counts:"
    yield ""
    yield f"| {' | '.join(HEADINGS)} |"
    yield f"|{'---|' * len(HEADINGS)}"
    for series in done.series():
        if series.trusted is not None:
            yield _row(_names(series), series.trusted)
    total = done.trusted_figures()
    if total is not None:
        yield _row(("all", "", "", "", ""), total)


def _names(series: SeriesFigures) -> Sequence[str]:
    key = series.key
    what = f"{key.kernel}, causal" if key.causal else key.kernel
    return key.file.removesuffix(".csv"), key.gpu, what, str(key.head_dim), series.role.replace("_", " ")


def _row(names: Sequence[str], figures: ErrorFigures) -> str:
    percents = (
        figures.mape_pct,
        figures.max_ape_pct,
        figures.roofline_mape_pct,
        figures.constant_efficiency_mape_pct,
    )
    mean, worst, roofline, constant = (f"{value:.1f} %" for value in percents)
    cells = (*names, str(figures.n), mean, f"{figures.bias_pct:+.1f} %", worst, roofline, constant)
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    app()
