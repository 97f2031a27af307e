"""Shipped tables, cut down to the rows a test is about."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest

from gpusim.measured import find_measured

Row = dict[str, str]


class Subset(Protocol):
    """`subset("fa1_paper_a100_fwd", keep, folder)`: a file of that name there, with the rows that `keep` takes."""

    def __call__(self, name: str, keep: Callable[[Row], bool], folder: Path) -> Path: ...


@pytest.fixture(scope="session")
def subset() -> Subset:
    """Copies rows of a shipped table, unchanged, into a file of the same name."""

    def copy(name: str, keep: Callable[[Row], bool], folder: Path) -> Path:
        with open(find_measured(name), newline="") as shipped:
            rows = list(csv.DictReader(shipped))
        with open(folder / f"{name}.csv", "w", newline="") as copied:
            writer = csv.DictWriter(copied, rows[0].keys())
            writer.writeheader()
            writer.writerows(row for row in rows if keep(row))
        return folder / f"{name}.csv"

    return copy
