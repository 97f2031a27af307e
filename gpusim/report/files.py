"""The files a run leaves behind, as text, and the one way to write them: whole or not at all."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpusim.results import PointResult

_ABSENT = "n/a"
_RUN_BY_SPREADSHEETS = ("=", "+", "-", "@", "\t", "\r")
_NEEDS_QUOTES = frozenset(',"\r\n')


def write_whole(path: Path, content: bytes | str) -> None:
    """Writes a file so that a reader, or a kill at any moment, finds the old content or all of the new.

    Text is written as UTF-8. What a kill can leave is a hidden `.NAME.PID.partial` beside the file.
    """
    data = content.encode() if isinstance(content, str) else content
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(data)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def next_run_dir(root: Path, name: str) -> Path:
    """Creates and returns `root/name-n`, n being the smallest number from 1 that nothing else has taken."""
    root.mkdir(parents=True, exist_ok=True)
    number = 1
    while True:
        try:
            folder = root / f"{name}-{number}"
            folder.mkdir()
        except FileExistsError:
            number += 1
        else:
            return folder


def results_csv(points: Sequence[PointResult]) -> str:
    """One row a point, in the order of PointResult's fields; stalls become columns, kernels are left to the JSON.

    What a point does not have is "n/a", so that no cell is blank. Floats keep every digit. Text that a spreadsheet
    would run as a formula gets a leading apostrophe.
    """
    values = [(point.row() | {"validated": point.validated}).values() for point in points]
    rows = [PointResult.columns(), *([_cell(value) for value in row] for row in values)]
    return "".join(",".join(_quoted(cell) for cell in row) + "\n" for row in rows)


def results_json(
    points: Sequence[PointResult],
    scenario: Mapping[str, object],
    *,
    version: str,
    out: str | None = None,
    explanations: Sequence[Mapping[str, str] | None] | None = None,
) -> str:
    """All points with per-kernel detail as one JSON document; `version` is gpusim's, `out` the folder of the run.

    `explanations`, where there are any, has one for every point, None for one that was not simulated.
    Raises ValueError for NaN and infinity, which JSON does not have.
    """
    records = [point.record() for point in points]
    if explanations is not None:
        records = [record | {"explanation": found} for record, found in zip(records, explanations, strict=True)]
    document = {"gpusim": version, "scenario": dict(scenario), "points": records}
    return json_text(document if out is None else document | {"out": out})


def manifest_json(
    *,
    versions: Mapping[str, str],
    configs: Mapping[str, str],
    command: Sequence[str],
    seed: int,
    wall_s: Sequence[float],
    steps: int,
    host: str,
    cores: int,
) -> str:
    """How a run was made: what differs between repetitions of a run stands here and nowhere else.

    `configs` maps names to the text of each file that was read; only its SHA-256 is kept. `wall_s` is each point's
    wall time in seconds, in the order of the results; `steps` counts the events that were simulated in that time.
    """
    total_s = sum(wall_s)
    return json_text(
        {
            "versions": dict(versions),
            "config_sha256": {name: hashlib.sha256(text.encode()).hexdigest() for name, text in configs.items()},
            "command": list(command),
            "seed": seed,
            "wall_s": list(wall_s),
            "total_wall_s": total_s,
            "steps": steps,
            "steps_per_s": steps / total_s if total_s > 0 else None,
            "host": host,
            "cores": cores,
        }
    )


def json_text(document: Mapping[str, object]) -> str:
    """A document as every JSON file and `--json` here writes it.

    Raises ValueError for NaN and infinity, which JSON does not have.
    """
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _cell(value: object) -> str:
    match value:
        case None:
            return _ABSENT
        case bool():
            return "true" if value else "false"
        case float() | int():
            return repr(value)
    text = str(value)
    return f"'{text}" if text.startswith(_RUN_BY_SPREADSHEETS) else text


def _quoted(cell: str) -> str:
    """The cell by RFC 4180; the csv module of Python 3.11 leaves a lone carriage return bare, which splits the row."""
    if _NEEDS_QUOTES.isdisjoint(cell):
        return cell
    return '"' + cell.replace('"', '""') + '"'
