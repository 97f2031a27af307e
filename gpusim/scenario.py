"""Scenario files: GPUs × workloads × schedules, as YAML, into points in the file's order.

Any field may be a list; the scenario is the product of its lists. All problems of a file are reported at once.
"""

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from gpusim.datafiles import scenarios_dir
from gpusim.errors import InputError, ScenarioError, UnknownNameError
from gpusim.implementations import ScheduleRequest, parse_request
from gpusim.point import Point
from gpusim.specs import GpuSpec, apply_overrides, load_gpu
from gpusim.strict_yaml import STRICT, load_strict, problems_from, read_text
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
    `sweep` and `zip` vary any of them: `sweep` every combination, `zip` lists of one length together."""

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
    path = Path(name_or_path)
    if path.suffix in (".yaml", ".yml") or path.exists():
        return path
    shipped = scenarios_dir() / f"{name_or_path}.yaml"
    if not shipped.is_file():
        raise UnknownNameError("scenario", name_or_path, sorted(file.stem for file in scenarios_dir().glob("*.yaml")))
    return shipped


def load_scenario(
    name_or_path: str, *, gpus: Sequence[str] = (), overrides: Mapping[str, str] | None = None
) -> Scenario:
    """Reads and checks a scenario; `gpus` replaces its GPUs and `overrides` sets fields of every GPU.

    Raises ScenarioError with all problems of the file, or UnknownNameError.
    """
    path = find_scenario(name_or_path)
    text = read_text(path, ScenarioError)
    content = load_strict(text, str(path), ScenarioError)
    if not isinstance(content, dict):
        raise ScenarioError(str(path), ["expected a mapping with name, gpu, workload, schedule"])
    if gpus:
        content["gpu"] = list(gpus)
    return build_scenario(content, where=str(path), text=text, overrides=overrides or {})


def build_scenario(content: Mapping[str, object], *, where: str, text: str, overrides: Mapping[str, str]) -> Scenario:
    """A scenario from its content, wherever it was written. Raises ScenarioError with all its problems."""
    try:
        file = ScenarioFile.model_validate(content)
    except ValidationError as error:
        raise ScenarioError(where, problems_from(error, ScenarioFile)) from None
    checker = _Checker(file, where, overrides)
    points = checker.points()
    if checker.problems:
        raise ScenarioError(where, list(dict.fromkeys(checker.problems)))
    return Scenario(
        file.name, points, tuple(file.measured if isinstance(file.measured, list) else [file.measured]), text
    )


def _listed(value: object) -> list[object]:
    return list(value) if isinstance(value, list) else [value]


class _Checker:
    """Turns a scenario file into points, collecting every problem on the way."""

    def __init__(self, file: ScenarioFile, where: str, overrides: Mapping[str, str]) -> None:
        self._file = file
        self._where = where
        self._overrides = overrides
        self.problems: list[str] = []

    def points(self) -> tuple[Point, ...]:
        specs = self._each("gpu", _listed(self._file.gpu), self._spec)
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
        values = []
        for item in written:
            try:
                values.append(read(item))
            except InputError as error:
                prefix = "" if error.where == self._where else f"{error.where}: "
                self.problems.extend(f"{prefix}{problem}" for problem in error.problems)
        return values

    def _spec(self, written: object) -> GpuSpec:
        spec = load_gpu(str(written))
        return apply_overrides(spec, self._overrides) if self._overrides else spec

    def _request(self, written: object) -> ScheduleRequest:
        return parse_request(written, self._where)

    def _assignments(self) -> Iterator[Assignment]:
        """Every combination of the varied fields, first written varying slowest."""
        fixed: Assignment = self._model_fields()
        axes: list[list[Assignment]] = []
        for group in (self._file.workload, self._file.conditions, self._file.sweep):
            for field, value in group.items():
                if not self._is_known(field):
                    continue
                if isinstance(value, list):
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

    def _is_known(self, field: str) -> bool:
        if field in FIELDS:
            return True
        self.problems.append(f"{field}: unknown key; known are {', '.join(FIELDS)}")
        return False

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
        known = [self._is_known(field) for field in lengths]
        if not all(known):
            return []
        rows = zip(*self._file.zip.values(), strict=True)
        return [dict(zip(lengths, row, strict=True)) for row in rows]

    def _shape(self, assignment: Assignment) -> tuple[AttentionWorkload, Conditions] | None:
        values = dict(assignment)
        conditions = {name: values.pop(name) for name in _CONDITION_FIELDS if name in values}
        has_seqlen = "seqlen" in values
        if has_seqlen:
            seqlen = values.pop("seqlen")
            values = {"seqlen_q": seqlen, "seqlen_k": seqlen} | values
        workload = self._validated(AttentionWorkload, values, rename_seqlen=has_seqlen)
        timing = self._validated(Conditions, conditions, rename_seqlen=False)
        return None if workload is None or timing is None else (workload, timing)

    def _validated(self, model: type[Model], values: Mapping[str, object], *, rename_seqlen: bool) -> Model | None:
        try:
            return model.model_validate(values)
        except ValidationError as error:
            for problem in problems_from(error, model):
                if rename_seqlen and problem.startswith(("seqlen_q", "seqlen_k")):
                    problem = f"seqlen{problem[len('seqlen_q') :]}"
                if "heads" in values and problem.startswith("kv_heads") and "kv_heads" not in values:
                    continue
                self.problems.append(problem)
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
