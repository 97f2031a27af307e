"""A schedule as a user writes it, checked before any GPU is known."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import ValidationError

from gpusim.errors import ScenarioError, UnknownNameError
from gpusim.implementations.choosing import with_tuples
from gpusim.implementations.table import implementations
from gpusim.schedules import SCHEDULES, Schedule
from gpusim.strict_yaml import field_problems
from gpusim.workloads import Workload

CUSTOM = "custom"
_MACHINE_CHOICES = ("accumulator_bytes", "num_sms")


@dataclass(frozen=True, slots=True)
class ScheduleRequest:
    """What a user asked for: a name, a version or None, and the choices of a mapping."""

    name: str
    version: str | None = None
    choices: Mapping[str, object] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The implementation a result reports: the name, or "custom" where choices were stated."""
        return CUSTOM if self.choices else self.name

    @property
    def effective_version(self) -> str | None:
        """The version that was asked for, or the implementation's default."""
        return self.version or implementations()[self.name].default_version

    @property
    def schedule(self) -> Schedule:
        """The schedule of the implementation that was named."""
        return SCHEDULES[implementations()[self.name].schedule]


def names_that_compute(kind: type[Workload]) -> list[str]:
    """Implementations of one kind of workload."""
    return [name for name, known in implementations().items() if SCHEDULES[known.schedule].workload is kind]


def parse_request(written: object, where: str) -> ScheduleRequest:
    """A schedule as written in a scenario: "flash2", "flash1@2022-05" or {name: flash2, tile_q: 4, …}.

    Raises ScenarioError or UnknownNameError.
    """
    if isinstance(written, Mapping):
        choices = dict(written)
        name = choices.pop("name", None)
        if not isinstance(name, str):
            raise ScenarioError(where, [f"schedule: {dict(written)} needs a name, one of {', '.join(_names())}"])
    elif isinstance(written, str):
        choices, name = {}, written
    else:
        raise ScenarioError(where, [f"schedule: got {written!r}, expected a name or a mapping with a name"])
    name, _, version = name.partition("@")
    if name not in implementations():
        raise UnknownNameError("schedule", name, _names())
    _check_version(name, version, where)
    _check_choices(name, choices, where)
    return ScheduleRequest(name, version or None, choices)


def _names() -> list[str]:
    return list(implementations())


def _check_version(name: str, version: str, where: str) -> None:
    known = implementations()[name].versions
    if version and version not in known:
        listed = f"it knows {', '.join(known)}" if known else "it has one version; leave @ out"
        raise ScenarioError(where, [f"schedule: {name} has no version '{version}'; {listed}"])


def _check_choices(name: str, choices: Mapping[str, object], where: str) -> None:
    """Types and ranges of the stated choices; what the table will fill in holds a placeholder meanwhile."""
    model = SCHEDULES[implementations()[name].schedule].choices
    problems = [f"{key}: the machine states it; leave it out" for key in _MACHINE_CHOICES if key in choices]
    stated = {key: value for key, value in with_tuples(choices).items() if key not in _MACHINE_CHOICES}
    placeholders = {key: 1 for key, info in model.model_fields.items() if info.is_required() and key not in stated}
    try:
        model.model_validate(placeholders | stated)
    except ValidationError as error:
        found = field_problems(error, model)
        problems.extend(str(problem) for problem in found if problem.field not in placeholders)
    if problems:
        raise ScenarioError(where, [f"schedule {name}, {problem}" for problem in problems])
