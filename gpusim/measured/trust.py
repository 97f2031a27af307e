"""Which measured rows count in an error figure, and why the others do not: the committed list `trust.csv`.

The list is about the tables that are shipped; every row of another file counts. The first rule that fits a row decides.
A blank cell of a rule fits everything; words may be alternatives (`a|b`), and numbers are one value (`512`), a bound
(`<0.15`, `>=512`) or alternatives of these (`82|197`). `sizes` selects by any size of a single kernel's workload, as in
`m<256` or `n=4096 k=8192|16384`. What a row does not have fits no selector.
"""

import csv
import io
import math
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gpusim.datafiles import trust_list
from gpusim.errors import MeasuredError
from gpusim.measured.rows import MeasuredRow
from gpusim.strict_yaml import read_text
from gpusim.workloads import CacheReadWorkload, ChaseWorkload, GemmWorkload, RowsWorkload, StreamWorkload

NOT_LISTED = "not on the trust list"
OTHER_FILE = "of a file that the trust list does not name"

_WORDS = ("gpu", "kernel", "pass", "dtype", "mask", "causal")
_NUMBERS = ("seqlen", "head_dim", "dropout", "latency_ms")
_COLUMNS = ("file", *_WORDS, "seqlen", "head_dim", "dropout", "sizes", "latency_ms", "counts", "reason")
_SIZES = frozenset(
    name
    for workload in (GemmWorkload, RowsWorkload, StreamWorkload, ChaseWorkload, CacheReadWorkload)
    for name, info in workload.model_fields.items()
    if info.annotation is int
)
_SIZE = re.compile(r"([a-z_]+)(=|<|>=)(.+)")


@dataclass(frozen=True)
class Verdict:
    """Whether a row counts in an error figure, and the reason."""

    counts: bool
    reason: str


@dataclass(frozen=True)
class TrustRule:
    """One line of the trust list: the rows of `file` that it fits get `verdict`.

    `words` and `numbers` hold what a column or size must be: one of some words; in one of some ranges [low, high).
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
            and all(_within(numbers.get(name), ranges) for name, ranges in self.numbers.items())
        )


def verdict(row: MeasuredRow) -> Verdict:
    """What the shipped trust list says about a row; rows of files it does not name count.

    Raises MeasuredError when the list itself is damaged.
    """
    rules = read_trust_list(trust_list())
    if not any(rule.file == Path(row.file).name for rule in rules):
        return Verdict(True, OTHER_FILE)
    return next((rule.verdict for rule in rules if rule.fits(row)), Verdict(False, NOT_LISTED))


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
        numbers={column: _ranges(column, cells[column]) for column in _NUMBERS if cells[column]}
        | dict(_size(term) for term in cells["sizes"].split()),
        verdict=Verdict(cells["counts"] == "yes", cells["reason"]),
    )


def _size(term: str) -> tuple[str, tuple[tuple[float, float], ...]]:
    """One term of `sizes`: the size it is about, and its ranges."""
    found = _SIZE.fullmatch(term)
    if found is None or found[1] not in _SIZES:
        raise ValueError(
            f"sizes = '{term}' is no selector of {', '.join(sorted(_SIZES))}; write m<256 or cols=512|1024"
        )
    name, sign, numbers = found.groups()
    return name, _ranges(name, numbers if sign == "=" else sign + numbers)


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


def _words_of(row: MeasuredRow) -> dict[str, str | None]:
    workload = row.workload
    causal = getattr(workload, "causal", None)
    return {
        "gpu": row.gpu,
        "kernel": row.kernel,
        "pass": getattr(workload, "pass_", None),
        "dtype": workload.dtype.value,
        "mask": getattr(workload, "mask", None),
        "causal": None if causal is None else str(causal).lower(),
    }


def _numbers_of(row: MeasuredRow) -> dict[str, float | None]:
    workload = row.workload
    named = {
        "seqlen": getattr(workload, "seqlen_q", None),
        "head_dim": getattr(workload, "head_dim", None),
        "dropout": getattr(workload, "dropout", None),
        "latency_ms": row.latency_ms,
    }
    return named | {name: getattr(workload, name, None) for name in _SIZES}
