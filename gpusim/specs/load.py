"""GPU files: YAML in, GpuSpec out, with every problem of a file reported at once.

A file may start from another with `base: NAME`. Groups merge key by key; every number the file itself states needs
its own entry in `sources`. What the base states keeps the base's source.
"""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from gpusim.datafiles import configs_dir
from gpusim.errors import ConfigError, UnknownNameError
from gpusim.specs.gpu import GpuSpec, Source
from gpusim.strict_yaml import (
    Problem,
    dotted,
    expected_at,
    field_problems,
    leaf_paths,
    load_strict,
    merged_problems,
    parse_strict,
    problems_from,
    read_text,
    suggestion,
)

_SUFFIXES = (".yaml", ".yml")
_BY_FORMAT = ("sm.tensor_flop_per_clk", "power.energy.tensor_pj_per_flop")
_SOURCE_SHAPE = "{kind: datasheet|measured|derived|assumed|fitted, source: where from}"


@dataclass(frozen=True)
class GpuFile:
    """A GPU file after checking: the spec, or None and the problems that stand in its way."""

    spec: GpuSpec | None
    problems: tuple[Problem, ...]


def gpu_names() -> list[str]:
    """Names of the shipped GPUs, sorted."""
    return sorted(path.stem for path in configs_dir().glob("*.yaml"))


def load_gpu(name_or_path: str) -> GpuSpec:
    """GPU of a shipped name, or of a file when the text ends in .yaml.

    Raises UnknownNameError for a name that is not shipped and ConfigError, with every problem, for a bad file.
    """
    path = gpu_path(name_or_path)
    checked = check_gpu_file(path)
    if checked.spec is None:
        raise ConfigError(str(path), [str(problem) for problem in checked.problems])
    return checked.spec


def check_gpu_file(path: Path) -> GpuFile:
    """Read and check one GPU file. Raises ConfigError when it, or its base, cannot be read as YAML at all."""
    return _check(path, ())


def apply_overrides(spec: GpuSpec, overrides: Mapping[str, str]) -> GpuSpec:
    """Copy of a GPU with some fields replaced; values are read as YAML scalars ("1.5e9" is a number).

    Each replaced field gets a source that says so. Raises ConfigError, with every problem, for an unknown path, a
    value of the wrong type, or values that contradict one another. A clock above the file's raises the one that tensor
    kernels sustain in proportion, unless that is set too.
    """
    values = spec.model_dump()
    problems: list[str] = []
    for path, text in overrides.items():
        try:
            problems += _override(values, path, text)
        except ConfigError as fault:
            problems += [f"{path}: {problem}" for problem in fault.problems]
    try:
        changed = GpuSpec.model_validate(values)
    except ValidationError as fault:
        raise ConfigError("--set", [*problems, *problems_from(fault, GpuSpec)]) from None
    if "sm.clock_hz" in overrides and "sm.tensor_clock_hz" not in overrides:
        changed = _with_tensor_clock_raised(changed, changed.sm.clock_hz / spec.sm.clock_hz)
    if "power.limit_w" in overrides and (changed.power is None or changed.power.energy is None):
        problems.append(f"power.limit_w: changes nothing on {spec.name}, whose file states no power.energy")
    if problems:
        raise ConfigError("--set", problems)
    return changed


def _with_tensor_clock_raised(spec: GpuSpec, ratio: float) -> GpuSpec:
    if ratio <= 1:
        return spec
    sm = spec.sm.model_copy(update={"tensor_clock_hz": spec.sm.tensor_clock_hz * ratio})
    raised = Source(kind="derived", source=f"{ratio:g} times the file's, as sm.clock_hz")
    return spec.model_copy(update={"sm": sm, "sources": {**spec.sources, "sm.tensor_clock_hz": raised}})


def gpu_json_schema() -> dict[str, object]:
    """JSON Schema of GPU files for editors. With `base`, any key may be left out."""
    schema = GpuSpec.model_json_schema()
    required = schema.pop("required")
    schema["properties"]["base"] = {"type": "string", "description": "name or file of the GPU this one starts from"}
    schema["anyOf"] = [{"required": ["base"]}, {"required": required}]
    for name, group in schema["$defs"].items():
        if name != "Source":
            del group["required"]
    return schema


def gpu_path(name_or_path: str) -> Path:
    """File of a shipped name, or the file itself when the text ends in .yaml. Raises UnknownNameError."""
    if name_or_path.endswith(_SUFFIXES):
        return Path(name_or_path)
    names = gpu_names()
    if name_or_path not in names:
        raise UnknownNameError("gpu", name_or_path, names)
    return configs_dir() / f"{name_or_path}.yaml"


def _check(path: Path, derived: tuple[Path, ...]) -> GpuFile:
    document = parse_strict(read_text(path), str(path))
    if not isinstance(document.value, dict):
        rule = f"expected the keys {', '.join(GpuSpec.model_fields)} at the top of the file"
        raise ConfigError(str(path), [str(problem) for problem in document.problems] or [rule])
    stated = dict(document.value)
    written_base = stated.pop("base", None)
    try:
        base = _base_values(path, written_base, (*derived, path.resolve()))
    except _NoBaseError as fault:
        no_base = Problem("base", str(fault), document.lines["base"])
        spec, problems = _read({}, stated, document.lines)
        own = (problem for problem in problems if not problem.is_missing or problem.field.startswith("sources."))
        problems = [no_base, *own]
    else:
        spec, problems = _read(base, stated, document.lines)
    every = merged_problems(document.problems, problems)
    return GpuFile(None if every else spec, every)


def _read(
    base: Mapping[object, object], stated: Mapping[object, object], lines: Mapping[str, int]
) -> tuple[GpuSpec | None, list[Problem]]:
    """The GPU that a file states on top of its base, and what is wrong with it."""
    merged = _merged(_without_stale_sources(base, stated), stated)
    merged.setdefault("sources", {})
    problems = _source_problems(stated, lines)
    if base and "name" not in stated:
        problems.insert(0, Problem("name", "missing; a GPU that starts from a base needs a name of its own"))
    try:
        return GpuSpec.model_validate(merged), problems
    except ValidationError as fault:
        return None, [*field_problems(fault, GpuSpec, lines), *problems]


class _NoBaseError(Exception):
    """What `base:` names is no GPU to start from; the file that says so is to blame."""


def _base_values(path: Path, base: object, derived: tuple[Path, ...]) -> dict[object, object]:
    """What the base states. Raises _NoBaseError, or ConfigError for problems inside the base's own file."""
    if base is None:
        return {}
    if not isinstance(base, str):
        raise _NoBaseError(f"got {base!r}, expected the name of a GPU or a .yaml file")
    if not base.endswith(_SUFFIXES) and base not in gpu_names():
        raise _NoBaseError(f"'{base}' is not known; choose one of: {', '.join(gpu_names())}")
    base_path = path.parent / base if base.endswith(_SUFFIXES) else gpu_path(base)
    if base_path.resolve() in derived:
        raise _NoBaseError(f"{base} starts from this file in turn")
    checked = _check(base_path, derived)
    if checked.spec is None:
        raise ConfigError(str(base_path), [str(problem) for problem in checked.problems])
    return dict(checked.spec.model_dump().items())


def _merged(base: Mapping[object, object], own: Mapping[object, object]) -> dict[object, object]:
    merged = dict(base)
    for key, value in own.items():
        below = merged.get(key)
        merged[key] = _merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def _without_stale_sources(base: Mapping[object, object], own: Mapping[object, object]) -> dict[object, object]:
    """The base without the sources of numbers that the file takes away with null."""
    sources = base.get("sources")
    if not isinstance(sources, dict):
        return dict(base)
    numbers = set(_numbers(_merged(base, own), ()))
    return {**base, "sources": {path: source for path, source in sources.items() if path in numbers}}


def _source_problems(stated: Mapping[object, object], lines: Mapping[str, int]) -> list[Problem]:
    sources = stated.get("sources", {})
    if not isinstance(sources, dict):
        return []
    fields = [path for path in leaf_paths(GpuSpec) if "." in path]
    groups = {key: value for key, value in stated.items() if key != "sources"}
    numbers = [path for path in _numbers(groups, ()) if _is_field(path, fields)]
    missing = [
        Problem(f"sources.{path}", f"missing; every number needs a source, {_SOURCE_SHAPE}", lines.get(path))
        for path in numbers
        if path not in sources
    ]
    stray = [
        Problem(f"sources.{key}", f"no such field{_did_you_mean(str(key), fields)}", lines.get(f"sources.{key}"))
        for key in sources
        if not _is_field(str(key), fields)
    ]
    return missing + stray


def _is_field(path: str, fields: list[str]) -> bool:
    return path in fields or path.rpartition(".")[0] in _BY_FORMAT or path.startswith("calibration.")


def _did_you_mean(path: str, fields: list[str]) -> str:
    close = difflib.get_close_matches(path, fields, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _numbers(value: object, location: tuple[str, ...]) -> Iterator[str]:
    if isinstance(value, dict):
        for key, below in value.items():
            yield from _numbers(below, (*location, str(key)))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield dotted(location)


def _override(values: dict[str, object], path: str, text: str) -> list[str]:
    """Set one field in place; return what forbids it. Raises ConfigError for what is no YAML."""
    value = load_strict(text, f"--set {path}={text}")
    location = tuple(path.split("."))
    if location[0] == "sources" or expected_at(GpuSpec, location) is None:
        return [f"{path}: unknown field; {suggestion(GpuSpec, location)}"]
    group = values
    for depth, key in enumerate(location[:-1], start=1):
        below = group.setdefault(key, {})
        if not isinstance(below, dict):
            return [f"{path}: {values['name']} has no {dotted(location[:depth])}, so nothing in it can be set"]
        group = below
    group[location[-1]] = value
    sources = values["sources"]
    if isinstance(sources, dict):
        for key in [key for key in sources if key == path or key.startswith(f"{path}.")]:
            del sources[key]
        sources[path] = Source.set_by_user(text.strip()).model_dump()
    return []
