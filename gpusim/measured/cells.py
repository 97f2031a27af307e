"""The cells of one row: text to numbers, with every problem and every filled blank written down."""

import math
import re
from collections.abc import Collection, Mapping

_QUALIFIER = re.compile(r"\s*\(([^()]*\b(?:inferred|assumed|stated|per)\b[^()]*)\)$")
_MOST = 10**12
_TRUE, _FALSE = ("true", "1", "yes"), ("false", "0", "no")


class RowError(ValueError):
    """This row cannot be used, and why; the reader turns it into a skipped row."""


class RowCells:
    """One row, read column by column.

    `assumed` names the fields that were blank and filled, or that the source itself inferred; `problems` holds what
    is wrong with cells, so that all of a row's faults are told at once.
    """

    def __init__(self, cells: Mapping[str, str]) -> None:
        self._cells = cells
        self.assumed: list[str] = []
        self.problems: list[str] = []

    def raw(self, column: str) -> str:
        """The stripped cell as written, empty when blank or absent."""
        return self._cells.get(column, "").strip()

    def others(self, known: Collection[str]) -> dict[str, str]:
        """The filled cells of all named columns but the known ones."""
        return {
            column: self.raw(column) for column in self._cells if column and column not in known and self.raw(column)
        }

    def text(self, column: str) -> str:
        """`raw` with a closing "(inferred)" or its like cut off, and counted as an assumption."""
        cell = self.raw(column)
        qualifier = _QUALIFIER.search(cell)
        if qualifier is None:
            return cell
        self.assume(f"{column} (inferred in source)")
        return cell[: qualifier.start()]

    def fills(self, columns: Collection[str]) -> bool:
        """Whether all these columns hold something."""
        return all(self.raw(column) for column in columns)

    def assume(self, field: str) -> None:
        """Note one assumption about `field`, once."""
        if field not in self.assumed:
            self.assumed.append(field)

    def count(self, column: str) -> int:
        """A needed whole number from 1; 1 and a problem when the cell does not hold one."""
        count = self.optional_count(column)
        if count is None and not self.text(column):
            self.problem(column, "is missing; this row needs it")
        return count or 1

    def optional_count(self, column: str) -> int | None:
        """A whole number from 1 to a million millions, None when blank or wrong ("8448.0" is whole)."""
        number = self.number(column)
        if number is None:
            return None
        if number != int(number) or not 1 <= number <= _MOST:
            self.problem(column, f"is not a whole number from 1 to {_MOST}")
            return None
        return int(number)

    def positive(self, column: str) -> float | None:
        """A number above zero, None when blank or wrong."""
        number = self.number(column)
        if number == 0:
            self.problem(column, "is zero; only a number above zero is a measurement")
            return None
        return number

    def number(self, column: str, *, highest: float = math.inf) -> float | None:
        """A finite number from zero to `highest`, None when blank or wrong."""
        text = self.text(column)
        if not text:
            return None
        try:
            number = float(text)
        except ValueError:
            self.problem(column, "is not a number")
            return None
        if not math.isfinite(number) or not 0 <= number <= highest:
            limit = "" if highest == math.inf else f" and at most {highest:g}"
            self.problem(column, f"is not a finite number of zero or more{limit}")
            return None
        return number

    def flag(self, column: str) -> bool | None:
        """true or false in any case (also 1/0, yes/no), None when blank or wrong."""
        text = self.text(column).lower()
        if text and text not in _TRUE + _FALSE:
            self.problem(column, "is neither true nor false")
        return True if text in _TRUE else False if text in _FALSE else None

    def choice(self, column: str, choices: Collection[str]) -> str | None:
        """One of `choices`, None when blank or wrong."""
        text = self.text(column).lower()
        if text and text not in choices:
            self.problem(column, f"is not one of {', '.join(choices)}")
        return text if text in choices else None

    def refuse_problems(self) -> None:
        """Raises RowError with everything found wrong so far."""
        if self.problems:
            raise RowError("; ".join(self.problems))

    def problem(self, column: str, fault: str) -> None:
        """Write down what is wrong with a cell, with its value."""
        value = self.raw(column)
        message = f"{column} = '{value}' {fault}" if value else f"{column} {fault}"
        if message not in self.problems:
            self.problems.append(message)
