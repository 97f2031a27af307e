"""Which measured rows count in an error figure, and why the others do not: the committed list `trust.csv`.

The first rule that fits a row decides. A blank cell of a rule fits everything; words may be alternatives (`a|b`), and
numbers are one value (`512`), a bound (`<0.15`, `>=512`) or alternatives of these (`82|197`).
"""

import csv
import io
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gpusim.datafiles import trust_list
from gpusim.errors import MeasuredError
from gpusim.measured.rows import MeasuredRow
from gpusim.strict_yaml import read_text

_WORDS = ("kernel", "pass", "dtype", "mask", "causal")
_NUMBERS = ("seqlen", "head_dim", "dropout", "latency_ms")
_COLUMNS = ("file", *_WORDS, *_NUMBERS, "counts", "reason")


@dataclass(frozen=True)
class Verdict:
    """Whether a row counts in an error figure, and the reason."""

    counts: bool
    reason: str


@dataclass(frozen=True)
class TrustRule:
    """One line of the trust list: the rows of `file` that it fits get `verdict`.

    `words` and `numbers` hold what a column must be: one of some words; in one of some ranges [low, high).
    """

    file: str
    words: dict[str, tuple[str, ...]]
    numbers: dict[str, tuple[tuple[float, float], ...]]
    verdict: Verdict

    def fits(self, row: MeasuredRow) -> bool:
        """Whether this rule speaks about a row."""
        words, numbers = _words_of(row), _numbers_of(row)
        return (
            Path(row.file).name == self.file
            and all(words[column] in allowed for column, allowed in self.words.items())
            and all(_within(numbers[column], ranges) for column, ranges in self.numbers.items())
        )


def verdict(row: MeasuredRow) -> Verdict:
    """What the shipped trust list says about a row; rows of files it does not name do not count.

    Raises MeasuredError when the list itself is damaged.
    """
    rules = read_trust_list(trust_list())
    return next((rule.verdict for rule in rules if rule.fits(row)), Verdict(False, "not on the trust list"))


@cache
def read_trust_list(path: Path) -> tuple[TrustRule, ...]:
    """The rules of a trust list, in their order. Raises MeasuredError with every faulty line."""
    reader = csv.DictReader(io.StringIO(read_text(path, MeasuredError), newline=""), restval="", strict=True)
    if tuple(reader.fieldnames or ()) != _COLUMNS:
        raise MeasuredError(str(path), [f"the columns must be {', '.join(_COLUMNS)}"])
    rules: list[TrustRule] = []
    problems: list[str] = []
    for cells in reader:
        try:
            rules.append(_rule(cells))
        except ValueError as error:
            problems.append(f"line {reader.line_num}: {error}")
    if problems:
        raise MeasuredError(str(path), problems)
    return tuple(rules)


def _rule(cells: dict[str, str]) -> TrustRule:
    if cells["counts"] not in ("yes", "no"):
        raise ValueError(f"counts = '{cells['counts']}' is neither yes nor no")
    if not cells["reason"]:
        raise ValueError("reason is blank; say why")
    return TrustRule(
        file=cells["file"],
        words={column: tuple(cells[column].split("|")) for column in _WORDS if cells[column]},
        numbers={column: _ranges(column, cells[column]) for column in _NUMBERS if cells[column]},
        verdict=Verdict(cells["counts"] == "yes", cells["reason"]),
    )


def _ranges(column: str, selector: str) -> tuple[tuple[float, float], ...]:
    try:
        return tuple(_range(part) for part in selector.split("|"))
    except ValueError:
        raise ValueError(f"{column} = '{selector}' is no selector; write 512, <512, >=512 or 82|197") from None


def _range(part: str) -> tuple[float, float]:
    if part.startswith("<"):
        return -math.inf, float(part[1:])
    if part.startswith(">="):
        return float(part[2:]), math.inf
    return float(part), math.nextafter(float(part), math.inf)


def _within(number: float | None, ranges: tuple[tuple[float, float], ...]) -> bool:
    return number is not None and any(low <= number < high for low, high in ranges)


def _words_of(row: MeasuredRow) -> dict[str, str]:
    workload = row.workload
    return {
        "kernel": row.kernel,
        "pass": workload.pass_,
        "dtype": workload.dtype.value,
        "mask": workload.mask,
        "causal": "true" if workload.causal else "false",
    }


def _numbers_of(row: MeasuredRow) -> dict[str, float | None]:
    workload = row.workload
    return {
        "seqlen": workload.seqlen_q,
        "head_dim": workload.head_dim,
        "dropout": workload.dropout,
        "latency_ms": row.latency_ms,
    }
