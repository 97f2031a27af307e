"""Scenario files: GPUs × workloads × schedules, as YAML, into points in the file's order.

Any field may be a list; the scenario is the product of its lists. The schedules say what kind of workload it is about.
All problems of a file are reported at once.
"""

import difflib
import itertools
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ValidationError, WithJsonSchema, field_validator

from gpusim.datafiles import scenarios_dir
from gpusim.errors import InputError, ScenarioError, UnknownNameError
from gpusim.implementations import ScheduleRequest, check_calibration, parse_request, stack_names
from gpusim.measured import find_measured, measured_names
from gpusim.model_config import model_fields
from gpusim.point import Point
from gpusim.specs import GpuSpec, apply_overrides, load_gpu
from gpusim.strict_yaml import REFUSED, STRICT, Problem, field_problems, merged_problems, parse_strict, read_text
from gpusim.workloads import WORKLOADS, AttentionWorkload, Conditions, Workload

Value = TypeVar("Value")
Model = TypeVar("Model", bound=BaseModel)
Assignment = dict[str, object]

_ATTENTION_FIELDS = (
    *("batch", "heads", "kv_heads", "seqlen", "seqlen_q", "seqlen_k", "head_dim", "head_dim_v", "dtype"),
    *("pass", "causal", "window", "dropout", "mask", "save_lse"),
)
CONDITION_FIELDS = tuple(Conditions.model_fields)
_GPU_FILE = (".yaml", ".yml")


def fields_of(kind: type[Workload]) -> tuple[str, ...]:
    """Fields of a kind of workload as a scenario spells them, and those of its timing."""
    own = _ATTENTION_FIELDS if kind is AttentionWorkload else tuple(kind.model_fields)
    return (*own, *CONDITION_FIELDS)


FIELDS = tuple(dict.fromkeys(field for kind in WORKLOADS for field in fields_of(kind)))
"""Every field that some scenario may vary."""


def _one_or_several(value: object) -> object:
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        raise ValueError(f"got {value!r}, expected a name or a list of names")
    return value


def _not_empty(value: object) -> object:
    if value == []:
        raise ValueError("the list is empty; name at least one")
    return value


Names = Annotated[
    list[str],
    BeforeValidator(_one_or_several),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]


class ScenarioFile(BaseModel):
    """A scenario as written. `workload` holds the fields of what the schedules compute, and of its timing, which may
    also stand in `conditions`; `sweep` and `zip` vary any of them: `sweep` every combination, `zip` lists of one length
    together. A list replaces a single value of the same field elsewhere. Relative paths in `gpu`, `measured` and
    `model` are looked up beside the scenario file, then from the working folder."""

    model_config = STRICT

    name: str
    gpu: Annotated[Names, BeforeValidator(_not_empty)]
    workload: dict[str, object] = {}
    conditions: dict[str, object] = {}
    schedule: Annotated[object, BeforeValidator(_not_empty)]
    sweep: dict[str, list[object]] = {}
    zip: dict[str, list[object]] = {}
    measured: Names = []
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
    document = parse_strict(text, str(path), ScenarioError)
    content = document.value
    if not isinstance(content, dict):
        rule = "expected a mapping with name, gpu, workload, schedule"
        raise ScenarioError(str(path), [str(problem) for problem in document.problems] or [rule])
    if gpus:  # their paths start from the working folder, not from that of the scenario
        content["gpu"] = [os.path.abspath(name) if name.endswith(_GPU_FILE) else name for name in gpus]
    return build_scenario(
        content,
        where=str(path),
        text=text,
        overrides=overrides or {},
        folder=path.parent,
        text_problems=document.problems,
    )


def build_scenario(
    content: Mapping[str, object],
    *,
    where: str,
    text: str,
    overrides: Mapping[str, str],
    folder: Path = Path(),
    text_problems: Sequence[Problem] = (),
) -> Scenario:
    """A scenario from its content, wherever it was written.

    Relative paths are looked up in `folder` first; `text_problems` are those already found in the text. Raises
    ScenarioError with all problems, or ConfigError for an override.
    """
    file, problems = _read(content)
    checker = _Checker(file, where, overrides, folder=folder, problems=merged_problems(text_problems, problems))
    measured = checker.measured()
    points = checker.points()
    if checker.problems:
        raise ScenarioError(where, list(dict.fromkeys(checker.problems)))
    return Scenario(file.name, points, measured, text)


def _read(content: Mapping[str, object]) -> tuple[ScenarioFile, list[Problem]]:
    """The file as far as it can be read, and what is wrong with the rest, so that both are checked in one run."""
    try:
        return ScenarioFile.model_validate(content), []
    except ValidationError as error:
        readable = dict(content)
        for detail in error.errors():
            match detail["loc"]:
                case ("gpu" | "measured" as key, int()):
                    readable[key] = [name for name in _listed(readable[key]) if isinstance(name, str)]
                case ("workload" | "conditions" | "sweep" as key, str(field), *_):
                    group = readable[key]
                    assert isinstance(group, dict)
                    readable[key] = group | {field: REFUSED}
                case (key, *_):
                    readable.pop(str(key), None)
        # Any: what could not be read is not of its field's type; points are only made when there is no problem.
        known: dict[str, Any] = {"name": "", "gpu": [], "schedule": []}
        known |= {key: value for key, value in readable.items() if key in ScenarioFile.model_fields}
        return ScenarioFile.model_construct(None, **known), field_problems(error, ScenarioFile)


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


def _may_hide_fields(path: str) -> bool:
    """Whether a problem at this path can take whole fields of the workload with it: a group, a zip, an unknown key."""
    top, _, below = path.partition(".")
    return top == "zip" or not (below or top.partition("[")[0] in ("name", "gpu", "schedule", "measured"))


def _readable_schedules(written: object) -> Iterator[object]:
    """The schedules, without the choices that could not be read."""
    for item in _listed(written):
        if isinstance(item, dict) and item.get("name") is not REFUSED:
            yield {key: value for key, value in item.items() if REFUSED not in _listed(value)}
        elif not isinstance(item, dict) and item is not REFUSED:
            yield item


def _text(value: object) -> str:
    """A value of a list; what a field takes as one value is one text."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case float() if value.is_integer():
            return str(int(value))
    return str(value)


def _named_values(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {_text(value)}" for name, value in values.items())


def _schedule_text(request: ScheduleRequest) -> str:
    """The schedule with the version and the choices that it means."""
    name = request.name + (f"@{request.effective_version}" if request.effective_version else "")
    return f"{name} with {_named_values(dict(sorted(request.choices.items())))}" if request.choices else name


def _takes(kind: type[Workload], names: Sequence[str]) -> str:
    """What these schedules compute and must be told, as in "flash2: attention (batch, heads, seqlen, head_dim)"."""
    needed = [name for name, info in kind.model_fields.items() if info.is_required()]
    if kind is AttentionWorkload:
        needed = ["batch", "heads", "seqlen", "head_dim"]
    return f"{', '.join(dict.fromkeys(names))}: {kind.title} ({', '.join(needed)})"


def _gpu(name: str) -> GpuSpec:
    spec = load_gpu(name)
    check_calibration(spec)
    return spec


def _overridden(spec: GpuSpec, overrides: Mapping[str, str]) -> GpuSpec:
    changed = apply_overrides(spec, overrides)
    check_calibration(changed)
    return changed


class _Checker:
    """Turns a scenario file into points, collecting every problem on the way."""

    def __init__(
        self,
        file: ScenarioFile,
        where: str,
        overrides: Mapping[str, str],
        *,
        folder: Path,
        problems: Sequence[Problem],
    ) -> None:
        self._file = file
        self._where = where
        self._overrides = overrides
        self._folder = folder
        self._varied_in: dict[str, str] = {}
        self._kind: type[Workload] = AttentionWorkload
        self._hides_fields = any(_may_hide_fields(problem.field) for problem in problems)
        self.problems = [str(problem) for problem in problems]

    def measured(self) -> tuple[str, ...]:
        shipped = measured_names()
        names = [str(name) for name in _listed(self._file.measured)]
        names = [name if name in shipped else self._beside(name) for name in names]
        self._refuse_repeated("measured", names)
        self._all(names, lambda name: find_measured(str(name)))
        return tuple(names)

    def points(self) -> tuple[Point, ...]:
        names = [str(name) for name in _listed(self._file.gpu)]
        names = [self._beside(name) if name.endswith(_GPU_FILE) else name for name in names]
        self._refuse_repeated("gpu", names)
        specs = self._all(names, lambda name: _gpu(str(name)))
        if self._overrides:
            specs = [_overridden(spec, self._overrides) for spec in specs]
        requests = self._all(list(_readable_schedules(self._file.schedule)), self._request)
        self._refuse_repeated("schedule", map(_schedule_text, requests))
        self._kind = self._kind_of(requests)
        shapes = [shape for shape in map(self._shape, self._assignments()) if shape is not None]
        return tuple(
            Point(spec, request, workload, conditions)
            for spec in specs
            for request in requests
            for workload, conditions in shapes
        )

    def _beside(self, path: str) -> str:
        """A path from the scenario's folder where there is such a file, else as it stands."""
        beside = self._folder / path
        return str(beside) if os.path.isfile(beside) else path

    def _all(self, written: Sequence[object], read: Callable[[object], Value]) -> list[Value]:
        values = []
        for item in written:
            try:
                values.append(read(item))
            except InputError as error:
                below = error.where.removeprefix(self._where).removeprefix(": ")
                self.problems.extend(f"{below}: {problem}" if below else problem for problem in error.problems)
        return values

    def _refuse_repeated(self, place: str, written: Iterable[str]) -> None:
        """Notes what stands in a list again: it would only run the same points again."""
        for item, count in Counter(written).items():
            if count > 1 and _text(REFUSED) not in item:
                self.problems.append(f"{place}: {item} is given {count} times; keep one")

    def _request(self, written: object) -> ScheduleRequest:
        return parse_request(written, self._where)

    def _kind_of(self, requests: Sequence[ScheduleRequest]) -> type[Workload]:
        """What all schedules compute; where they differ a problem is noted, and the fields say what was meant."""
        names: dict[type[Workload], list[str]] = {}
        for request in requests:
            names.setdefault(request.schedule.workload, []).append(request.name)
        if len(names) > 1:
            listed = "; ".join(_takes(kind, of_kind) for kind, of_kind in names.items())
            self.problems.append(
                f"schedule: all must compute one kind of workload, but these differ: {listed}; keep one"
            )
        return max(names or WORKLOADS, key=lambda kind: len(self._stated().intersection(fields_of(kind))))

    def _stated(self) -> set[str]:
        """Fields that the file states in some group."""
        return {field for _, group in self._written() for field in group} | set(self._file.zip)

    def _assignments(self) -> Iterator[Assignment]:
        """Every combination of the varied fields, first written varying slowest."""
        fixed: Assignment = self._model_fields()
        self._refuse_twice_stated()
        axes: list[list[Assignment]] = []
        for group, written in self._written():
            for field, value in written.items():
                if not self._is_known(field, group):
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

    def _written(self) -> Iterator[tuple[str, Mapping[str, object]]]:
        """Each group of fields but `zip`, by name and as written."""
        yield "workload", self._file.workload
        yield "conditions", self._file.conditions
        yield "sweep", self._file.sweep

    def _refuse_twice_stated(self) -> None:
        """Notes timing fields in both groups that may hold them; two lists are noted as varying twice."""
        workload, conditions = self._file.workload, self._file.conditions
        for field in CONDITION_FIELDS:
            stated = [group[field] for group in (workload, conditions) if field in group]
            if len(stated) > 1 and not all(isinstance(value, list) for value in stated):
                self.problems.append(f"{field}: stands in workload and in conditions; keep one")

    def _is_known(self, field: str, group: str) -> bool:
        """Whether a field exists in its group; else a problem is noted."""
        known = CONDITION_FIELDS if group == "conditions" else fields_of(self._kind)
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
        self._refuse_repeated(field, map(_text, values))
        return [{field: value} for value in values]

    def _zipped(self) -> list[Assignment]:
        lengths = {field: len(values) for field, values in self._file.zip.items()}
        if len(set(lengths.values())) != 1 or 0 in lengths.values():
            stated = ", ".join(f"{field} has {length}" for field, length in lengths.items())
            self.problems.append(f"zip: lists that vary together need one length above zero; {stated}")
            return []
        known = [self._is_known(field, "zip") for field in lengths]
        if not all(known):
            return []
        for field in lengths:
            self._varies(field, "zip")
        rows = [dict(zip(lengths, row, strict=True)) for row in zip(*self._file.zip.values(), strict=True)]
        self._refuse_repeated("zip", map(_named_values, rows))
        return rows

    def _shape(self, assignment: Assignment) -> tuple[Workload, Conditions] | None:
        workload = self._validated(
            self._kind, {name: value for name, value in assignment.items() if name not in CONDITION_FIELDS}
        )
        conditions = self._validated(
            Conditions, {name: value for name, value in assignment.items() if name in CONDITION_FIELDS}
        )
        if conditions is not None and conditions.stack not in (None, *stack_names()):
            self.problems.append(str(UnknownNameError("stack", str(conditions.stack), stack_names())))
        return None if workload is None or conditions is None else (workload, conditions)

    def _validated(self, model: type[Model], written: Mapping[str, object]) -> Model | None:
        values = dict(written)
        if "seqlen" in values:
            seqlen = values.pop("seqlen")
            values = {"seqlen_q": seqlen, "seqlen_k": seqlen} | values
        try:
            return model.model_validate(values)
        except ValidationError as error:
            for found in field_problems(error, model):
                problem = _as_written(found, written)
                if problem is not None and not self._is_told(problem, written):
                    self.problems.append(str(problem))
            return None

    def _is_told(self, problem: Problem, written: Mapping[str, object]) -> bool:
        """Whether a problem of a field only follows from one of the file: its value, or its group, was not readable."""
        return written.get(problem.field) is REFUSED or (problem.is_missing and self._hides_fields)

    def _model_fields(self) -> Assignment:
        """Heads, K/V heads, head dim and window of a Hugging Face model config."""
        if self._file.model is None:
            return {}
        if self._kind is not AttentionWorkload:
            self.problems.append(f"model: it states heads, but the schedules compute {self._kind.title}; leave it out")
            return {}
        try:
            return dict(model_fields(Path(self._beside(self._file.model)), self._stated()))
        except ScenarioError as error:
            self._hides_fields = True
            self.problems.extend(f"model: {error.where}: {problem}" for problem in error.problems)
            return {}
