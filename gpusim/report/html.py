"""report.html: what a run or a comparison says, as one page that works offline and asks nothing of a network.

The page is a template, a stylesheet and a script under `page/`; the data lie in one escaped JSON block. Its policy lets
no script run but that one. Equal input, equal bytes: no times, hosts or folders stand in it.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from jinja2 import Environment, StrictUndefined, Template

from gpusim.report.answers import Case, Measurement, answer, case_of, facts, overall_answer
from gpusim.report.page_data import BUSY, KERNEL_COLUMNS, POINT_COLUMNS, Words, gpu_record, panel_record
from gpusim.report.panels import Panel, panels_of
from gpusim.report.series import MeasuredPoint, axis_of, series_names
from gpusim.report.wording import unbroken
from gpusim.results import PointResult
from gpusim.specs import GpuSpec
from gpusim.trace import Stall

# Options that say where and how fast, not what: the same run has the same report wherever its files go.
_SILENT_FLAGS = ("--quiet", "--json", "--resume")
_SILENT_OPTIONS = ("--out", "--workers", "--scheduler")
_TOLD_CITATIONS = 3  # of one measured file
_RUN_IN_HTML = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


@dataclass(frozen=True)
class Provenance:
    """How to make the report again: gpusim's version, the command line, and the text of each file that was read."""

    version: str
    command: Sequence[str]
    texts: Mapping[str, str]


@dataclass(frozen=True)
class Table:
    """A table that the page shows as it is: a heading, columns, and rows of texts and numbers."""

    heading: str
    note: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | float | int | None]]


def report_html(
    title: str,
    points: Sequence[PointResult],
    *,
    gpus: Mapping[str, GpuSpec],
    measured: Sequence[Measurement],
    provenance: Provenance,
    drawn: Sequence[MeasuredPoint] = (),
    headline: str | None = None,
    tables: Sequence[Table] = (),
    notes: Mapping[str, str] | None = None,
) -> str:
    """The page of a run or a comparison.

    `gpus` are the specs by `machine` of the points, `measured` belongs to points by number, and `drawn` adds
    measurements of places that were not simulated, under names of `series_names`. `headline` replaces the sentence on
    top; `tables` follow the charts, and `notes` (heading to text) the command line.
    """
    panels = panels_of(points)
    cases = [case_of(panel, points, measured, gpus.get(panel.gpu)) for panel in panels]
    words = Words()
    loose = _loose(panels, points, measured, drawn)
    data = {
        "title": title,
        "point_columns": POINT_COLUMNS,
        "kernel_columns": KERNEL_COLUMNS,
        "stalls": [reason.value for reason in Stall],
        "busy": BUSY,
        "panels": [panel_record(case, words, loose[number]) for number, case in enumerate(cases)],
        "gpus": {name: gpu_record(spec) for name, spec in gpus.items()},
        "tables": [
            {"heading": table.heading, "note": table.note, "columns": table.columns, "rows": table.rows}
            for table in tables
        ],
        "words": list(words.numbers),
    }
    script = _asset("report.js")
    return _template().render(
        title=title,
        subtitle=_subtitle(cases),
        headline=unbroken(headline or (overall_answer(cases) if cases else "No point has finished.")),
        answer=unbroken(answer(cases[0])) if cases else "",
        is_several=len(cases) > 1,
        says_answer=len(cases) > 1 or headline is not None,
        facts=[(question, unbroken(text)) for question, text in facts(cases[0])] if cases else (),
        has_panels=bool(cases),
        command=repeat_command(provenance.command),
        origins=_origins(provenance, gpus, measured, notes or {}),
        style=_asset("palette.css") + _asset("report.css"),
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        data=embedded_json(data),
    )


def embedded_json(document: Mapping[str, object]) -> str:
    """JSON that can stand in a script element: nothing in it can close the element or open another.

    Raises ValueError for NaN and infinity, which JSON does not have.
    """
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character, escape in _RUN_IN_HTML.items():
        text = text.replace(character, escape)
    return text


def repeat_command(command: Sequence[str]) -> str:
    """The command line without what changes no number: where files go, how many processes, what is printed."""
    kept: list[str] = []
    skips_value = False
    for word in command:
        name = word.partition("=")[0]
        if skips_value:
            skips_value = False
        elif name in _SILENT_OPTIONS:
            skips_value = name == word
        elif word not in _SILENT_FLAGS:
            kept.append(_shell_word(word))
    return " ".join(kept)


def _shell_word(word: str) -> str:
    is_plain = word and all(character.isalnum() or character in "-_./=,:@+%" for character in word)
    return word if is_plain else "'" + word.replace("'", "'\\''") + "'"


def _loose(
    panels: Sequence[Panel],
    points: Sequence[PointResult],
    measured: Sequence[Measurement],
    drawn: Sequence[MeasuredPoint],
) -> dict[int, list[tuple[int, float, float, str]]]:
    """Measurements between the simulated places, by panel: series, axis value, latency in ms and source."""
    found: dict[int, list[tuple[int, float, float, str]]] = {number: [] for number in range(len(panels))}
    if not drawn:
        return found
    names, axis = series_names(points), axis_of(points)
    homes: dict[str, set[tuple[int, int]]] = {}
    for panel_number, panel in enumerate(panels):
        for series_number, series in enumerate(panel.series):
            for number in series.numbers:
                if number is not None and panel.axis.field == axis.field:
                    homes.setdefault(names[number], set()).add((panel_number, series_number))
    known = {(names[item.point], axis.value(points[item.point])) for item in measured}
    for point in drawn:
        home = homes.get(point.series, set())
        if point.latency_ms is not None and len(home) == 1 and (point.series, point.place) not in known:
            panel_number, series_number = next(iter(home))
            places = panels[panel_number].places
            if places[0].x < point.place < places[-1].x:
                found[panel_number].append((series_number, float(point.place), point.latency_ms, point.label))
    return found


def _subtitle(cases: Sequence[Case]) -> str:
    gpus = list(dict.fromkeys(case.gpu for case in cases))
    if len(cases) == 1:
        return f"{gpus[0]} · {cases[0].panel.setting}"
    return " · ".join(gpus[:4]) + (f" and {len(gpus) - 4} more" if len(gpus) > 4 else "")


def _origins(
    provenance: Provenance, gpus: Mapping[str, GpuSpec], measured: Sequence[Measurement], notes: Mapping[str, str]
) -> list[tuple[str, str]]:
    """What stands under the command line: versions, hashes of what was read, who measured, and conventions."""
    hashes = {name: hashlib.sha256(text.encode()).hexdigest()[:12] for name, text in provenance.texts.items()}
    origins = [("Simulator", f"gpusim {provenance.version}; no random numbers, the same input gives the same page")]
    origins += [("GPU", f"{spec.product} ({name}), architecture {spec.architecture}") for name, spec in gpus.items()]
    if hashes:
        origins.append(("Read", ", ".join(f"{name} (sha256 {short}…)" for name, short in hashes.items())))
    origins += [("Measured", text) for text in _cited(measured)]
    origins += list(notes.items())
    origins.append(
        (
            "Conventions",
            "error = simulated / measured − 1. FLOPs of attention are 4·B·H·Nq·Nk·d forward, halved when causal, 2.5 "
            "times that backward. 1 GB = 10⁹ bytes, 1 GiB = 2³⁰ bytes. mean |error| weighs every point alike.",
        )
    )
    return origins


def _cited(measured: Sequence[Measurement]) -> list[str]:
    """Each measured file with those whom it cites."""
    citations: dict[str, dict[str, None]] = {}
    for item in measured:
        citations.setdefault(item.source, {})[item.citation] = None
    texts = []
    for source, found in citations.items():
        names = [name for name in found if name]
        more = f" and {len(names) - _TOLD_CITATIONS} more" if len(names) > _TOLD_CITATIONS else ""
        texts.append(f"{source}: {'; '.join(names[:_TOLD_CITATIONS])}{more}" if names else source)
    return texts


@cache
def _asset(name: str) -> str:
    return (files("gpusim.report") / "page" / name).read_text(encoding="utf-8")


@cache
def _template() -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(_asset("report.html"))
