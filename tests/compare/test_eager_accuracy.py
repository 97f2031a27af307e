"""Eager attention against shipped measurements: a bar that no change may cross, well above today's error."""

from pathlib import Path

import pytest

from gpusim.compare import SeriesFigures, compare

MAPE_PCT = 8.0
LONGEST = 4096
SERIES = {
    "fa1_paper_a100_fwd": [(64, False, 4)],  # head dim, causal, trusted rows from N = 512 on
    "fa3_h100_fp16_fwd": [(64, False, 4), (64, True, 4), (128, False, 4), (128, True, 4)],
}


def is_eager(row: dict[str, str]) -> bool:
    """Eager PyTorch without dropout and padding, up to N = 4,096 and head dim 128."""
    return (
        (row["kernel"], row["pass"]) == ("pytorch_naive", "fwd")
        and row["mask"] in ("none", "causal")
        and float(row["dropout"] or 0) == 0
        and int(row["seqlen_q"]) <= LONGEST
        and int(row["head_dim"]) <= 128
    )


@pytest.fixture(scope="module")
def series(subset, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int, bool], SeriesFigures]:
    """Figures by file, head dim and causal, all simulated in one go."""
    folder = tmp_path_factory.mktemp("eager")
    done = compare([subset(file, is_eager, folder) for file in SERIES], workers=2, mode="auto")
    assert () == done.skipped
    return {(Path(found.key[0]).stem, *found.key[5:]): found for found in done.series()}


@pytest.mark.parametrize(
    ("file", "head_dim", "causal", "rows"), [(file, *shape) for file, shapes in SERIES.items() for shape in shapes]
)
def test_eager_attention_is_within_8_percent(
    series: dict[tuple[str, int, bool], SeriesFigures], file: str, head_dim: int, causal: bool, rows: int
) -> None:
    """Mean |error| over the trusted rows of a series."""
    figures = series[file, head_dim, causal].trusted
    assert rows == figures.n
    assert figures.mape_pct <= MAPE_PCT
