"""Measured CSV in, one `MeasuredRow` or one `SkippedRow` out for every data line.

These files come from many hands and are read generously: stated assumptions fill blanks and are counted, and a row
that cannot be used is skipped with its line and the reason. Only a file that cannot be read at all is an error.
"""

import csv
import io
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpusim.datafiles import measured_dir
from gpusim.dtypes import DType
from gpusim.errors import MeasuredError, UnknownNameError
from gpusim.measured.aliases import alias_table, look_up
from gpusim.measured.ceiling import Claim, is_sparse
from gpusim.measured.cells import RowCells, RowError
from gpusim.measured.kernel_rows import KERNEL_TIME_COLUMNS
from gpusim.measured.names import gpu_of
from gpusim.measured.rows import KNOWN_COLUMNS, MEASURED_COLUMNS, MeasuredRow, measured_row


@dataclass(frozen=True)
class SkippedRow:
    """A data line that cannot be used, and why; `claim` is the rate it states all the same."""

    file: str
    line: int
    reason: str
    claim: Claim | None = None


@dataclass(frozen=True)
class MeasuredFile:
    """All data lines of one file, each as a row or as a skip.

    `assumed` counts, per field, the rows in which a stated assumption filled a blank or settled an open name.
    """

    path: Path
    rows: tuple[MeasuredRow, ...]
    skipped: tuple[SkippedRow, ...]
    assumed: dict[str, int]
    extra_columns: tuple[str, ...]


def read_measured(path: Path) -> MeasuredFile:
    """Read one measured CSV. Raises MeasuredError when it is missing, no CSV, or has no header we know."""
    return _read(path, path.name)


def read_all(paths: Sequence[Path]) -> tuple[tuple[MeasuredFile, ...], tuple[MeasuredError, ...]]:
    """Read several files; one that cannot be read becomes an error and does not stop the others.

    Rows carry the file's name, or its path as given where two files have the same name. Raises MeasuredError for a file
    that is given twice: its rows would count twice.
    """
    _refuse_repeated(paths)
    names = Counter(path.name for path in paths)
    files: list[MeasuredFile] = []
    errors: list[MeasuredError] = []
    for path in paths:
        try:
            files.append(_read(path, path.name if names[path.name] == 1 else str(path)))
        except MeasuredError as error:
            errors.append(error)
    return tuple(files), tuple(errors)


def _refuse_repeated(paths: Sequence[Path]) -> None:
    times = Counter(path.resolve() for path in paths)
    problems = [f"{path} is given {count} times; keep one" for path, count in times.items() if count > 1]
    if problems:
        raise MeasuredError("measured files", problems)


def measured_names() -> tuple[str, ...]:
    """Names of the shipped tables, in alphabetical order."""
    return tuple(sorted(path.stem for path in measured_dir().glob("*.csv")))


def find_measured(name: str) -> Path:
    """Path of a shipped table by its bare name, or of a CSV file by its path.

    Raises UnknownNameError for a bare name that no shipped table has.
    """
    if name in measured_names():
        return measured_dir() / f"{name}.csv"
    path = Path(name)
    if path.suffix or os.sep in name or path.exists():
        return path
    raise UnknownNameError("measured table", name, measured_names())


def _read(path: Path, label: str) -> MeasuredFile:
    where = str(path)
    records = _records(where, _text(where, path))
    header = _header(where, next(records, (1, []))[1])
    rows: list[MeasuredRow] = []
    skipped: list[SkippedRow] = []
    assumed: Counter[str] = Counter()
    for line, values in records:
        if len(values) != len(header):
            fault = f"the line has {len(values)} cells and the header {len(header)}; quote cells with commas"
            skipped.append(SkippedRow(label, line, fault))
            continue
        cells = RowCells(dict(zip(header, values, strict=True)))
        try:
            rows.append(measured_row(label, line, cells))
            assumed.update(cells.assumed)
        except RowError as problem:
            skipped.append(SkippedRow(label, line, str(problem), _claim(cells)))
    extra_columns = tuple(column for column in header if column and column not in KNOWN_COLUMNS) if rows else ()
    return MeasuredFile(path, tuple(rows), tuple(skipped), dict(sorted(assumed.items())), extra_columns)


def _text(where: str, path: Path) -> str:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise MeasuredError(where, ["no such file; check the path, or give the bare name of a shipped table"]) from None
    except IsADirectoryError:
        raise MeasuredError(where, ["a folder; name the CSV files in it, for example with *.csv"]) from None
    except OSError as error:
        raise MeasuredError(where, [f"cannot be opened ({error.strerror}); check its permissions"]) from None
    if b"\0" in data:
        raise MeasuredError(where, ["holds binary data, not text; export it as CSV in UTF-8"])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise MeasuredError(where, [f"line {line} is not UTF-8 text; save the file as CSV in UTF-8"]) from None


def _records(where: str, text: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of every record that is not blank; a quoted cell may span lines."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    line = 1
    try:
        for values in reader:
            if any(value.strip() for value in values):
                yield line, values
            line = reader.line_num + 1
    except csv.Error as error:
        raise MeasuredError(
            where, [f"line {line}: not CSV ({error}); close every quoted cell and double the quotes inside"]
        ) from None


def _header(where: str, values: Sequence[str]) -> tuple[str, ...]:
    if not values:
        raise MeasuredError(where, ["the file is empty; its first line must name the columns"])
    for separator, name in ((";", "semicolons"), ("\t", "tabs")):
        if len(values) == 1 and separator in values[0]:
            raise MeasuredError(where, [f"columns are separated by {name}; save it with commas and decimal points"])
    header = tuple(value.strip().lower() for value in values)
    problems = [
        f"column '{column}' appears {count} times; keep one"
        for column, count in Counter(header).items()
        if column and count > 1
    ]
    if problems := problems or _missing_columns(header):
        raise MeasuredError(where, problems)
    return header


def _missing_columns(header: Sequence[str]) -> list[str]:
    of_another_kind = any(kind.columns and set(kind.columns) <= set(header) for kind in alias_table().kinds)
    missing = [column for column in ("gpu", "kernel") if column not in header]
    if of_another_kind and "gpu" in header:
        return []
    if len(missing) == 2:
        return ["line 1 names no column we know; it must name the columns, at least gpu, kernel and latency_ms"]
    problems = [f"no column '{column}'; add it" for column in missing]
    if not {*MEASURED_COLUMNS, *KERNEL_TIME_COLUMNS} & set(header):
        problems.append(f"no measured column; add one of {', '.join(MEASURED_COLUMNS)}")
    return problems


def _claim(cells: RowCells) -> Claim | None:
    """The rate of a row that is skipped, where its GPU is known and it computes all that its FLOPs count."""
    tflops = cells.positive("tflops")
    if tflops is None or cells.raw("window") or is_sparse(cells.raw("kernel")):
        return None
    try:
        gpu = gpu_of(cells, alias_table().source(cells.raw("source")))
    except RowError:
        return None
    word = cells.text("dtype")
    alias = look_up(alias_table().dtypes, word)
    return Claim(gpu, (alias.dtype if alias else None) if word else DType.FP16, tflops)
