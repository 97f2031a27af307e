"""Every exception gpusim raises on purpose.

    GpusimError
    ├── InputError            the user's files or options are wrong      exit code 2
    │   ├── ConfigError       a GPU or implementation file
    │   ├── ScenarioError     a scenario file or command-line point
    │   ├── MeasuredError     a measured CSV that cannot be read at all
    │   └── UnknownNameError  a name that is not in its dictionary
    ├── PointError            this point has an answer, and it is "no"   a status, not a failure
    │   ├── DoesNotFitError   shared memory, registers or threads        status "refused"
    │   ├── OutOfMemoryError  device memory                              status "out_of_memory"
    │   └── UnsupportedError  the GPU or the model lacks something       status "unsupported"
    └── GraphError            a schedule breaks a rule of the task graph (a bug in the schedule)

A message names the thing, the offending value, the rule and the fix.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal

Refusal = Literal["refused", "out_of_memory", "unsupported"]


class GpusimError(Exception):
    """Root of the tree; catch this to catch everything gpusim raises on purpose."""


class InputError(GpusimError):
    """One or more problems in what the user wrote; all problems of one file arrive together."""

    def __init__(self, where: str, problems: Sequence[str]) -> None:
        self.where = where
        self.problems = tuple(problems)
        super().__init__("\n".join(f"{where}: {problem}" for problem in self.problems))

    def __reduce__(self) -> tuple[type, tuple[str, tuple[str, ...]]]:
        return type(self), (self.where, self.problems)


class ConfigError(InputError):
    """A GPU or implementation file that cannot be used."""


class ScenarioError(InputError):
    """A scenario file, or a point given on the command line, that cannot be used."""


class MeasuredError(InputError):
    """A measured CSV that cannot be read at all; single bad rows are skipped instead."""


class UnknownNameError(InputError):
    """A name that its dictionary does not hold; the message lists the names that exist."""

    def __init__(self, kind: str, name: str, known: Sequence[str]) -> None:
        self.kind, self.name, self.known = kind, name, tuple(known)
        super().__init__(kind, [f"'{name}' is not known; choose one of: {', '.join(known)}"])

    def __reduce__(self) -> tuple[type, tuple[str, str, tuple[str, ...]]]:  # type: ignore[override]
        return type(self), (self.kind, self.name, self.known)


class PointError(GpusimError):
    """A point whose answer is "no": why, and what would change it."""

    status: ClassVar[Refusal]

    def __init__(self, reason: str, fix: str) -> None:
        self.reason, self.fix = reason, fix
        super().__init__(f"{reason}; {fix}")

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (self.reason, self.fix)


class DoesNotFitError(PointError):
    """A CTA needs more shared memory, registers or threads than the SM gives it."""

    status = "refused"


class OutOfMemoryError(PointError):
    """The live tensors exceed device memory."""

    status = "out_of_memory"


class UnsupportedError(PointError):
    """The GPU lacks what the schedule needs, or no model covers the case yet."""

    status = "unsupported"


class GraphError(GpusimError):
    """A task graph that breaks a legality rule: a bug in the schedule that built it."""
