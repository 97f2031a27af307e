"""Scenario files: GPUs × workloads × schedules, as YAML, into points in the file's order.

Any field may be a list; the scenario is the product of its lists. All problems of a file are reported at once.
"""

import difflib
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError, field_validator

from gpusim.datafiles import scenarios_dir
from gpusim.errors import InputError, ScenarioError, UnknownNameError
from gpusim.implementations import ScheduleRequest, parse_request
from gpusim.measured import find_measured
from gpusim.point import Point
from gpusim.specs import apply_overrides, load_gpu
from gpusim.strict_yaml import STRICT, Problem, field_problems, load_strict, problems_from, read_text
from gpusim.workloads import AttentionWorkload, Conditions

Value = TypeVar("Value")
Model = TypeVar("Model", bound=BaseModel)
Assignment = dict[str, object]

_WORKLOAD_FIELDS = ("batch", "heads", "kv_heads", "seqlen", "seqlen_q", "seqlen_k", "head_dim", "head_dim_v", "dtype")
_OPTION_FIELDS = ("pass", "causal", "window", "dropout", "mask", "save_lse")
_CONDITION_FIELDS = tuple(Conditions.model_fields)
FIELDS = (*_WORKLOAD_FIELDS, *_OPTION_FIELDS, *_CONDITION_FIELDS)


class ScenarioFile(BaseModel):
    """A scenario as written. `workload` holds the fields of the attention problem, `conditions` those of the timing;
    `sweep` and `zip` vary any of them: `sweep` every combination, `zip` lists of one length together. A list replaces a
    single value of the same field elsewhere."""

    model_config = STRICT

    name: str
    gpu: str | list[str]
    workload: dict[str, object] = {}
    conditions: dict[str, object] = {}
    schedule: object
    sweep: dict[str, list[object]] = {}
    zip: dict[str, list[object]] = {}
    measured: str | list[str] = []
    model: str | None = None

    @field_validator("name")
    @classmethod
    def _names_a_folder(cls, name: str) -> str:
        if re.fullmatch(r"\w[\w. -]{0,99}", name) is None:
            raise ValueError(
                f"got '{name}', which cannot name the folder of the run; use up to 100 letters, digits, '_', '-', '.'"
            )
        return name


@dataclass(frozen=True, slots=True)
class Scenario:
    """A checked scenario: its points in order, and the measured files to draw over them.

    `text` is what was read, for the manifest.
    """

    name: str
    points: tuple[Point, ...]
    measured: tuple[str, ...]
    text: str


def find_scenario(name_or_path: str) -> Path:
    """A scenario file by path, or by bare name among the shipped ones. Raises UnknownNameError or ScenarioError."""
    shipped = {file.stem: file for file in sorted(scenarios_dir().glob("*.yaml"))}
    path = Path(name_or_path)
    if name_or_path in shipped and not path.is_file():
        return shipped[name_or_path]
    if path.suffix in (".yaml", ".yml") or path.exists():
        return path
    raise UnknownNameError("scenario", name_or_path, list(shipped))


def load_scenario(
    name_or_path: str, *, gpus: Sequence[str] = (), overrides: Mapping[str, str] | None = None
) -> Scenario:
    """Reads and checks a scenario; `gpus` replaces its GPUs and `overrides` sets fields of every GPU.

    Raises ScenarioError with all problems of the file, UnknownNameError, or ConfigError for an override.
    """
    for name in gpus:
        load_gpu(name)  # a wrong name there is no fault of the file
    path = find_scenario(name_or_path)
    text = read_text(path, ScenarioError)
    content = load_strict(text, str(path), ScenarioError)
    if not isinstance(content, dict):
        raise ScenarioError(str(path), ["expected a mapping with name, gpu, workload, schedule"])
    if gpus:
        content["gpu"] = list(gpus)
    return build_scenario(content, where=str(path), text=text, overrides=overrides or {})


def build_scenario(content: Mapping[str, object], *, where: str, text: str, overrides: Mapping[str, str]) -> Scenario:
    """A scenario from its content, wherever it was written.

    Raises ScenarioError with all its problems, or ConfigError for an override.
    """
    try:
        file = ScenarioFile.model_validate(content)
    except ValidationError as error:
        raise ScenarioError(where, problems_from(error, ScenarioFile)) from None
    checker = _Checker(file, where, overrides)
    measured = checker.measured()
    points = checker.points()
    if checker.problems:
        raise ScenarioError(where, list(dict.fromkeys(checker.problems)))
    return Scenario(file.name, points, measured, text)


def _listed(value: object) -> list[object]:
    return list(value) if isinstance(value, list) else [value]


def _as_written(problem: Problem, written: Mapping[str, object]) -> Problem | None:
    """The problem under the name the user wrote, None where it only repeats that of another field."""
    field = problem.field
    if field in written:
        return problem
    if field in ("kv_heads", "head_dim_v"):
        return None
    if field in ("seqlen_q", "seqlen_k") and ("seqlen" in written or not written.keys() & {"seqlen_q", "seqlen_k"}):
        return replace(problem, field="seqlen")
    return problem


class _Checker:
    """Turns a scenario file into points, collecting every problem on the way."""

    def __init__(self, file: ScenarioFile, where: str, overrides: Mapping[str, str]) -> None:
        self._file = file
        self._where = where
        self._overrides = overrides
        self._varied_in: dict[str, str] = {}
        self.problems: list[str] = []

    def measured(self) -> tuple[str, ...]:
        names = [str(name) for name in _listed(self._file.measured)]
        self._all(names, lambda name: find_measured(str(name)))
        return tuple(names)

    def points(self) -> tuple[Point, ...]:
        specs = self._each("gpu", _listed(self._file.gpu), lambda name: load_gpu(str(name)))
        if self._overrides:
            specs = [apply_overrides(spec, self._overrides) for spec in specs]
        requests = self._each("schedule", _listed(self._file.schedule), self._request)
        shapes = [shape for shape in map(self._shape, self._assignments()) if shape is not None]
        return tuple(
            Point(spec, request, workload, conditions)
            for spec in specs
            for request in requests
            for workload, conditions in shapes
        )

    def _each(self, field: str, written: Sequence[object], read: Callable[[object], Value]) -> list[Value]:
        if not written:
            self.problems.append(f"{field}: the list is empty; name at least one")
        return self._all(written, read)

    def _all(self, written: Sequence[object], read: Callable[[object], Value]) -> list[Value]:
        values = []
        for item in written:
            try:
                values.append(read(item))
            except InputError as error:
                below = error.where.removeprefix(self._where).removeprefix(": ")
                self.problems.extend(f"{below}: {problem}" if below else problem for problem in error.problems)
        return values

    def _request(self, written: object) -> ScheduleRequest:
        return parse_request(written, self._where)

    def _assignments(self) -> Iterator[Assignment]:
        """Every combination of the varied fields, first written varying slowest."""
        fixed: Assignment = self._model_fields()
        axes: list[list[Assignment]] = []
        for group, written, known in self._groups():
            for field, value in written.items():
                if not self._is_known(field, known, group):
                    continue
                if isinstance(value, list):
                    self._varies(field, group)
                    axes.append(self._axis(field, value))
                else:
                    fixed[field] = value
        if self._file.zip:
            axes.append(self._zipped())
        for combination in itertools.product(*axes):
            merged = dict(fixed)
            for assignment in combination:
                merged |= assignment
            yield merged

    def _groups(self) -> Iterator[tuple[str, Mapping[str, object], Sequence[str]]]:
        """Each group of fields by name, as written, with the fields it may hold."""
        yield "workload", self._file.workload, (*_WORKLOAD_FIELDS, *_OPTION_FIELDS)
        yield "conditions", self._file.conditions, _CONDITION_FIELDS
        yield "sweep", self._file.sweep, FIELDS

    def _is_known(self, field: str, known: Sequence[str], group: str) -> bool:
        """Whether a field exists in its group; else a problem is noted."""
        if field in known:
            return True
        close = difflib.get_close_matches(field, known, n=1)
        meant = f"; did you mean {close[0]}?" if close else ""
        self.problems.append(f"{group}.{field}: unknown key; known are {', '.join(known)}{meant}")
        return False

    def _varies(self, field: str, group: str) -> None:
        """Notes that a field varies; a field that varies in two groups would run points twice."""
        first = self._varied_in.setdefault(field, group)
        if first != group:
            self.problems.append(f"{field}: varies in {first} and in {group}; keep one")

    def _axis(self, field: str, values: list[object]) -> list[Assignment]:
        if not values:
            self.problems.append(f"{field}: the list is empty; give at least one value")
        return [{field: value} for value in values]

    def _zipped(self) -> list[Assignment]:
        lengths = {field: len(values) for field, values in self._file.zip.items()}
        if len(set(lengths.values())) != 1 or 0 in lengths.values():
            stated = ", ".join(f"{field} has {length}" for field, length in lengths.items())
            self.problems.append(f"zip: lists that vary together need one length above zero; {stated}")
            return []
        known = [self._is_known(field, FIELDS, "zip") for field in lengths]
        if not all(known):
            return []
        for field in lengths:
            self._varies(field, "zip")
        rows = zip(*self._file.zip.values(), strict=True)
        return [dict(zip(lengths, row, strict=True)) for row in rows]

    def _shape(self, assignment: Assignment) -> tuple[AttentionWorkload, Conditions] | None:
        workload = self._validated(
            AttentionWorkload, {name: value for name, value in assignment.items() if name not in _CONDITION_FIELDS}
        )
        conditions = self._validated(
            Conditions, {name: value for name, value in assignment.items() if name in _CONDITION_FIELDS}
        )
        return None if workload is None or conditions is None else (workload, conditions)

    def _validated(self, model: type[Model], written: Mapping[str, object]) -> Model | None:
        values = dict(written)
        if "seqlen" in values:
            seqlen = values.pop("seqlen")
            values = {"seqlen_q": seqlen, "seqlen_k": seqlen} | values
        try:
            return model.model_validate(values)
        except ValidationError as error:
            problems = field_problems(error, model)
            self.problems.extend(str(as_written) for found in problems if (as_written := _as_written(found, written)))
            return None

    def _model_fields(self) -> Assignment:
        """Heads, K/V heads, head dim and window of a Hugging Face model config."""
        if self._file.model is None:
            return {}
        path = Path(self._file.model)
        try:
            config = json.loads(read_text(path, ScenarioError))
            heads = config["num_attention_heads"]
            fields = {
                "heads": heads,
                "kv_heads": config.get("num_key_value_heads"),
                "head_dim": config.get("head_dim") or config["hidden_size"] // heads,
                "window": config.get("sliding_window"),
            }
        except ScenarioError as error:
            self.problems.extend(f"model: {path}: {problem}" for problem in error.problems)
        except (json.JSONDecodeError, KeyError, TypeError, ZeroDivisionError) as error:
            self.problems.append(
                f"model: {path} does not state num_attention_heads, and hidden_size or head_dim ({error!r})"
            )
        else:
            return {name: value for name, value in fields.items() if value is not None}
        return {}
