"""YAML read strictly, and pydantic's complaints put into the reader's words.

PyYAML follows YAML 1.1: `1.5e9` is text, `no` is false, `1:30` is ninety and the last of two equal keys wins. Here
numbers are those of YAML 1.2, only true and false are booleans, and what is ambiguous is refused with its line. All
problems of one text are reported at once; `merged_problems` joins them with what is wrong with its meaning. Anchors,
aliases and tags are not supported.
"""

import difflib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeAlias, Union, get_args, get_origin

import annotated_types
import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from gpusim.errors import ConfigError, InputError

Location: TypeAlias = tuple[int | str, ...]

STRICT = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
"""Configuration of every model that is read from YAML."""


class Refused:
    """What stands in a document for a value that could not be read: no field takes it for its own type."""


REFUSED: Final = Refused()


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


PositiveWhole = Annotated[int, BeforeValidator(_whole), Field(gt=0)]
NonNegativeWhole = Annotated[int, BeforeValidator(_whole), Field(ge=0)]
PositiveNumber = Annotated[float, Field(gt=0)]
NonNegativeNumber = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(gt=0, le=1)]

_UNITS = {
    "bytes_per_s": "bytes/s",
    "bytes_per_clk": "bytes per clock",
    "flop_per_s": "FLOP/s",
    "flop_per_clk": "FLOP per clock",
    "ops_per_clk": "operations per clock",
    "ctas_per_s": "CTAs/s",
    "bits_per_s": "bits/s",
    "bytes": "bytes",
    "bits": "bits",
    "hz": "Hz",
    "mhz": "MHz",
    "ns": "ns",
    "ms": "ms",
    "w": "W",
    "pct": "percent",
}
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NULLS = {"", "~", "null", "Null", "NULL"}
_YAML_1_1_BOOLEANS = {"yes", "no", "on", "off", "y", "n"}
_LETTERS = {"n", "y"}  # as a key a name, such as that of a side of a matrix product: nobody means no
_INT = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.?(nan|inf|infinity)", re.IGNORECASE)
_UNTAGGED = "untagged"
_PLAIN_WORDS = {
    "mapping values are not allowed here": "a second ': ' on one line, or a wrong indent; quote the text or fix it",
    "found character '\\t' that cannot start any token": "a tab where spaces belong; indent with spaces",
    "but found another document": "a second document ('---'); keep one document per file",
    "found unexpected end of stream": "the file ends inside a quoted text, a list or a mapping; close it",
}


@dataclass(frozen=True)
class Problem:
    """One thing wrong with one field of a file; `line` is None when the field is not in the text."""

    field: str
    message: str
    line: int | None = None

    def __str__(self) -> str:
        place = f"line {self.line}: " if self.line is not None else ""
        return f"{place}{self.field}: {self.message}" if self.field else f"{place}{self.message}"

    @property
    def is_missing(self) -> bool:
        """Whether the field ought to be there and is not."""
        return self.message.startswith("missing")


def dotted(location: Location) -> str:
    """`sm.clock_hz` or `sweep.seqlen[2]` for a path of keys and list positions."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def unit_of(field_name: str) -> str:
    """Unit that the end of a field's name states ("Hz" for clock_hz), or "" for a plain count."""
    for suffix, unit in _UNITS.items():
        if field_name == suffix or field_name.endswith(f"_{suffix}"):
            return unit
    return ""


class _Composer(yaml.SafeLoader):
    """Builds nodes only; `_NodeReader` decides what a scalar means."""

    def resolve(self, kind: type[yaml.Node], value: object, implicit: object) -> str:
        return _UNTAGGED

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            problem = "aliases (*name) are not supported; write the value out"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark)
        return super().compose_node(parent, index)


class _NodeReader:
    """One pass over the nodes: builds plain values, remembers lines and collects every problem on the way."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.lines: dict[str, int] = {}

    def read(self, node: yaml.Node, location: Location) -> object:
        """Plain value of a node; what cannot be read becomes REFUSED and a problem."""
        self.lines.setdefault(dotted(location), _line(node))
        if node.tag != _UNTAGGED:
            return self._refuse(node, location, f"tags such as {node.tag} are not supported; write the plain value")
        match node:
            case yaml.MappingNode():
                return self._mapping(node, location)
            case yaml.SequenceNode():
                return [self.read(item, (*location, index)) for index, item in enumerate(node.value)]
            case yaml.ScalarNode():
                return self._scalar(node, location)
        raise AssertionError(f"a node is a scalar, a list or a mapping, not {node!r}")

    def _mapping(self, node: yaml.MappingNode, location: Location) -> dict[object, object]:
        values: dict[object, object] = {}
        first_lines: dict[object, int] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._refuse(key_node, location, "a list or mapping cannot be a key")
                continue
            here = (*location, key_node.value)
            key = key_node.value if key_node.value in _LETTERS else self._scalar(key_node, here)
            if key is REFUSED:
                self.read(value_node, here)
                continue
            if key in values:
                self._refuse(key_node, here, f"appears twice, first on line {first_lines[key]}; keep one")
                continue
            first_lines[key] = self.lines[dotted(here)] = _line(key_node)
            values[key] = self.read(value_node, here)
        return values

    def _scalar(self, node: yaml.ScalarNode, location: Location) -> object:
        text: str = node.value
        if node.style is not None:
            return text
        if text in _NULLS:
            return None
        if text in _BOOLEANS:
            return _BOOLEANS[text]
        if text.lower() in _YAML_1_1_BOOLEANS:
            rule = f'got {text}, which YAML readers disagree on; write true, false or "{text}"'
            return self._refuse(node, location, rule)
        if _NOT_FINITE.fullmatch(text):
            return self._refuse(node, location, f"got {text}, expected a finite number")
        if _FLOAT.fullmatch(text):
            return self._number(node, location)
        return text

    def _number(self, node: yaml.ScalarNode, location: Location) -> int | float | Refused:
        number = float(node.value)
        if not math.isfinite(number):
            return self._refuse(node, location, "the number is too large; expected a finite number")
        return int(node.value) if _INT.fullmatch(node.value) else number

    def _refuse(self, node: yaml.Node, location: Location, message: str) -> Refused:
        self.problems.append(Problem(dotted(location), message, _line(node)))
        return REFUSED


def _line(node: yaml.Node) -> int:
    line: int = node.start_mark.line
    return line + 1


def _syntax_problem(fault: yaml.YAMLError) -> Problem:
    if not isinstance(fault, yaml.MarkedYAMLError):
        return Problem("", f"not readable as text: {' '.join(str(fault).split())}")
    what = fault.problem or fault.context or "cannot be parsed"
    mark = fault.problem_mark or fault.context_mark
    return Problem("", f"not valid YAML: {_PLAIN_WORDS.get(what, what)}", mark.line + 1 if mark else None)


@dataclass(frozen=True)
class StrictDocument:
    """What a YAML text says (dicts, lists and scalars), and the line of each dotted path in it.

    `problems` are those of the text itself; REFUSED stands where a value could not be read.
    """

    value: object
    lines: Mapping[str, int]
    problems: tuple[Problem, ...]


def parse_strict(text: str, where: str, error: type[InputError] = ConfigError) -> StrictDocument:
    """Read one YAML document with its line numbers and problems. Raises `error` only where the syntax is broken."""
    reader = _NodeReader()
    value: object = None
    try:
        node = _Composer(text).get_single_node()
        value = None if node is None else reader.read(node, ())
    except yaml.YAMLError as fault:
        raise error(where, [str(_syntax_problem(fault))]) from None
    except RecursionError:
        raise error(where, ["lists or mappings are nested too deeply to read"]) from None
    return StrictDocument(value, reader.lines, tuple(reader.problems))


def load_strict(text: str, where: str, error: type[InputError] = ConfigError) -> object:
    """Value of one YAML document; None when it is empty. Raises `error` with every problem of the text."""
    document = parse_strict(text, where, error)
    if document.problems:
        raise error(where, [str(problem) for problem in document.problems])
    return document.value


def merged_problems(of_text: Sequence[Problem], of_meaning: Sequence[Problem]) -> tuple[Problem, ...]:
    """All problems of a file in the order of its lines.

    A field that the text already makes unreadable is not called wrong again, and nothing in it missing.
    """
    told = {problem.field for problem in of_text}
    fresh = [
        problem
        for problem in of_meaning
        if problem.field not in told
        and not (problem.is_missing and any(problem.field.startswith(f"{field}.") for field in told))
    ]
    return tuple(sorted((*of_text, *fresh), key=lambda problem: math.inf if problem.line is None else problem.line))


def read_text(path: Path, error: type[InputError] = ConfigError) -> str:
    """Text of a UTF-8 file. Raises `error` when it is missing, unreadable or not text."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise error(str(path), ["no such file"]) from None
    except UnicodeDecodeError:
        raise error(str(path), ["not a UTF-8 text file"]) from None
    except OSError as fault:
        raise error(str(path), [f"cannot be read: {fault.strerror or fault}"]) from None


@dataclass(frozen=True)
class _Shape:
    """What a field holds: its type without Annotated and None, its bounds and the name that states its unit."""

    kind: Any
    bounds: tuple[object, ...]
    name: str
    nullable: bool

    @property
    def fields(self) -> dict[str, "_Shape"]:
        """Fields of a group by the name YAML uses; empty for anything else."""
        if not (isinstance(self.kind, type) and issubclass(self.kind, BaseModel)):
            return {}
        fields = self.kind.model_fields.items()
        return {field.alias or name: _shape(field.annotation, field.metadata, name) for name, field in fields}

    def child(self, part: int | str) -> "_Shape | None":
        """Shape of one key or list item, None when there is no such thing."""
        if get_origin(self.kind) in (list, tuple, dict):
            item = get_args(self.kind)[1 if get_origin(self.kind) is dict else 0]
            return _shape(item, (), self.name)
        return self.fields.get(part) if isinstance(part, str) else None


def _shape(annotation: Any, bounds: Sequence[object], name: str) -> _Shape:
    nullable = False
    while get_origin(annotation) in (Annotated, Union, UnionType):
        if get_origin(annotation) is Annotated:
            annotation, *more = get_args(annotation)
            bounds = [*bounds, *_flattened(more)]
            continue
        options = [option for option in get_args(annotation) if option is not NoneType]
        nullable = nullable or len(options) < len(get_args(annotation))
        if len(options) != 1:
            break
        annotation = options[0]
    return _Shape(annotation, tuple(bounds), name, nullable)


def _flattened(metadata: Sequence[object]) -> Iterator[object]:
    for item in metadata:
        yield from getattr(item, "metadata", None) or [item]


def _shape_at(model: type[BaseModel], location: Location) -> _Shape | None:
    shape: _Shape | None = _shape(model, (), "")
    for part in location:
        shape = shape.child(part) if shape else None
    return shape


def expected_at(model: type[BaseModel], location: Location) -> str | None:
    """What a field accepts, such as "a number in Hz greater than 0"; None where the model has no such field."""
    shape = _shape_at(model, location)
    return _expected(shape) if shape else None


def _expected(shape: _Shape) -> str | None:
    noun = _noun(shape)
    if noun is None:
        return None
    unit = unit_of(shape.name) if shape.kind in (int, float) else ""
    words = [noun, f"in {unit}" if unit else "", _bounds_text(shape.bounds), "or null" if shape.nullable else ""]
    return " ".join(word for word in words if word)


def _noun(shape: _Shape) -> str | None:
    if get_origin(shape.kind) is Literal:
        return f"one of {', '.join(str(choice) for choice in get_args(shape.kind))}"
    if get_origin(shape.kind) in (list, tuple):
        item = _expected(_shape(get_args(shape.kind)[0], (), shape.name))
        return f"a list, each item {item}" if item else "a list"
    if get_origin(shape.kind) is dict:
        value = _expected(_shape(get_args(shape.kind)[1], (), shape.name))
        return f"keys, each with {value}" if value else "a group of keys"
    if isinstance(shape.kind, type) and issubclass(shape.kind, Enum):
        return f"one of {', '.join(str(member.value) for member in shape.kind)}"
    if shape.fields:
        return f"a group of keys ({', '.join(shape.fields)})"
    return {int: "a whole number", float: "a number", str: "text", bool: "true or false"}.get(shape.kind)


def _bounds_text(bounds: Sequence[object]) -> str:
    words = []
    for bound in bounds:
        match bound:
            case annotated_types.Gt():
                words.append(f"greater than {bound.gt}")
            case annotated_types.Ge():
                words.append(f"of at least {bound.ge}")
            case annotated_types.Lt():
                words.append(f"below {bound.lt}")
            case annotated_types.Le():
                words.append(f"of at most {bound.le}")
            case annotated_types.MultipleOf():
                words.append(f"a multiple of {bound.multiple_of}")
            case annotated_types.MinLen():
                words.append("that is not empty")
    return " and ".join(words)


def leaf_paths(model: type[BaseModel]) -> list[str]:
    """Dotted path of every field of a model that is not itself a group, in the order of the model."""
    return [dotted(location) for location, _ in _leaves(_shape(model, (), ""), ())]


def _leaves(shape: _Shape, location: Location) -> Iterator[tuple[Location, _Shape]]:
    if not shape.fields:
        yield location, shape
    for name, field in shape.fields.items():
        yield from _leaves(field, (*location, name))


def suggestion(model: type[BaseModel], location: Location) -> str:
    """Ending of a message about an unknown key: the key that was probably meant, or the keys that exist."""
    *group, key = location
    if "." in str(key) and expected_at(model, tuple(str(key).split("."))):
        return f"write one group per dot, {str(key).replace('.', ': {')}: …{'}' * str(key).count('.')}"
    parent = _shape_at(model, tuple(group))
    siblings = list(parent.fields) if parent else []
    close = difflib.get_close_matches(str(key), siblings, n=1)
    if close:
        meant = (*group, close[0])
        expected = expected_at(model, meant)
        return f"did you mean {dotted(meant)}{f' ({expected})' if expected else ''}?"
    elsewhere = {path.rpartition(".")[2]: path for path in reversed(leaf_paths(model))}
    close = difflib.get_close_matches(str(key).rpartition(".")[2], elsewhere, n=1, cutoff=0.75)
    if close:
        return f"did you mean {elsewhere[close[0]]}?"
    return f"known keys here: {', '.join(siblings)}" if siblings else "there is no such group"


def field_problems(
    error: ValidationError, model: type[BaseModel], lines: Mapping[str, int] | None = None
) -> list[Problem]:
    """Every complaint of pydantic about `model` as a problem with field, value, rule, type and unit.

    `lines` maps dotted paths to lines of the text. A missing group is reported key by key.
    """
    found: list[Problem] = []
    for detail in error.errors(include_url=False):
        location: Location = detail["loc"]
        if detail["type"] == "missing":
            found += _missing(model, location)
        else:
            line = _line_of(location, lines or {})
            found.append(Problem(dotted(location), _message(detail, model, location), line))
    return found


def problems_from(error: ValidationError, model: type[BaseModel], lines: Mapping[str, int] | None = None) -> list[str]:
    """`field_problems` as lines of text: "sm.clock_hz: got 'X', expected a number in Hz greater than 0"."""
    return [str(problem) for problem in field_problems(error, model, lines)]


def _line_of(location: Location, lines: Mapping[str, int]) -> int | None:
    known = (lines.get(dotted(location[:length])) for length in range(len(location), 0, -1))
    return next((line for line in known if line is not None), None)


def _missing(model: type[BaseModel], location: Location) -> Iterator[Problem]:
    shape = _shape_at(model, location)
    if shape is None:
        yield Problem(dotted(location), "missing")
        return
    for place, leaf in _leaves(shape, location):
        expected = _expected(leaf)
        yield Problem(dotted(place), f"missing, expected {expected}" if expected else "missing; the file must state it")


def _message(detail: Any, model: type[BaseModel], location: Location) -> str:
    if detail["type"] == "extra_forbidden":
        return f"unknown key; {suggestion(model, location)}"
    if detail["type"] == "invalid_key":
        return "a key must be text; quote it"
    if detail["type"] == "value_error":
        return str(detail["ctx"]["error"])
    expected = expected_at(model, location)
    if expected is None:
        return f"got {_shown(detail['input'])}: {detail['msg']}"
    return f"got {_shown(detail['input'])}, expected {expected}{_hint(detail['input'], expected)}"


def _shown(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case Mapping():
            return "a group of keys"
        case list() | tuple():
            return f"a list of {len(value)}"
        case _:
            return repr(value)


def _hint(value: object, expected: str) -> str:
    if "number" in expected and isinstance(value, str) and value[:1].isdigit():
        return "; write the number alone: no unit, no underscore, no quotes"
    if expected.startswith("text") and isinstance(value, int | float):
        return f'; quote it: "{value}"'
    return ""
