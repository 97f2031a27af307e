"""The record of a folder of collected measurements: the machine, and which groups are done.

It is written whole, after its group's CSV. `complete` is true only where every group that this GPU can run is done.
A group is `done` where no case failed, and `incomplete` where some did: both have a CSV. Rows of a group that was cut
short lie in `GROUP.csv.partial`, so that no part passes for the whole. Of an `absent` group this GPU runs no case.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from gpusim.errors import InputError, MeasuredError
from gpusim.report import json_text, write_whole
from gpusim.strict_yaml import problems_from, read_text
from validation.collect.device import Facts

RECORD = "machine.json"
Status = Literal["not_started", "running", "done", "incomplete", "partial", "failed", "absent"]
WITH_CSV: tuple[Status, ...] = ("done", "incomplete")


class GroupRecord(BaseModel):
    """One group: how far it is, rows of its CSV, clocks before and after, seconds.

    `left_out` says which cases failed, `not_here` which ones this GPU or its software does not have; each with why.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    status: Status
    reason: str = ""
    rows: int = 0
    left_out: tuple[str, ...] = ()
    not_here: tuple[str, ...] = ()
    clocks_before: dict[str, float | str] = {}
    clocks_after: dict[str, float | str] = {}
    seconds: float = 0.0

    def shortfall(self) -> str:
        """How many of the cases that this GPU has were left out; empty where none was."""
        return f"{len(self.left_out)} of {self.rows + len(self.left_out)} left out" if self.left_out else ""


class MachineRecord(BaseModel):
    """What lies in `machine.json`: the GPU, versions, the groups in their order, and whether all of them are done."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    gpusim: str
    machine: dict[str, object]
    groups: dict[str, GroupRecord]
    complete: bool

    @property
    def gpu(self) -> str:
        """The preset that the rows are written for, or the product's name."""
        return str(self.machine["gpu"])

    def with_group(self, name: str, group: GroupRecord) -> "MachineRecord":
        """The record with one group replaced."""
        groups = self.groups | {name: group}
        complete = all(entry.status in ("done", "absent") for entry in groups.values())
        return self.model_copy(update={"groups": groups, "complete": complete})

    def missing(self) -> list[str]:
        """Groups that this GPU runs and that have no CSV."""
        return [name for name, group in self.groups.items() if group.status not in (*WITH_CSV, "absent")]

    def shortfall(self) -> str:
        """What a reader must know of a folder that is not whole; empty where it is."""
        missing = self.missing()
        parts = [f"{', '.join(missing)} missing"] if missing else []
        parts += [f"{name}: {group.shortfall()}" for name, group in self.groups.items() if group.status == "incomplete"]
        return f"partial: {'; '.join(parts)}" if parts else ""

    def write(self, folder: Path) -> None:
        """Writes the record, whole or not at all."""
        write_whole(folder / RECORD, json_text(self.model_dump(mode="json")))


def new_record(version: str, facts: Facts, groups: Mapping[str, str]) -> MachineRecord:
    """A record in which no group has started; `groups` maps names to why they cannot run here, "" where they can."""
    machine = asdict(facts) | {"capability": "{}.{}".format(*facts.capability), "versions": dict(facts.versions)}
    started = {
        name: GroupRecord(status="failed" if reason else "not_started", reason=reason)
        for name, reason in groups.items()
    }
    return MachineRecord(gpusim=version, machine=machine, groups=started, complete=False)


@dataclass(frozen=True, slots=True)
class Collected:
    """A folder of measurements: its record and the CSV of every group that has one, done or incomplete."""

    folder: Path
    record: MachineRecord
    files: Mapping[str, Path]


def read_record(folder: Path) -> MachineRecord | None:
    """The record of a folder, None where there is none yet. Raises MeasuredError for one that cannot be read."""
    path = folder / RECORD
    if not path.exists():
        return None
    try:
        return MachineRecord.model_validate_json(read_text(path, MeasuredError))
    except ValidationError as error:
        raise MeasuredError(str(path), problems_from(error, MachineRecord)) from None


def read_collected(folder: Path) -> Collected:
    """A folder that collect wrote. Raises InputError where it holds no record, or a file of it is gone."""
    record = read_record(folder)
    if record is None:
        raise InputError(str(folder), [f"holds no {RECORD}; python -m validation collect --out {folder} writes one"])
    files = {name: folder / f"{name}.csv" for name, group in record.groups.items() if group.status in WITH_CSV}
    gone = [path.name for path in files.values() if not path.exists()]
    if gone:
        raise InputError(str(folder), [f"{name} is gone, but {RECORD} says it was written" for name in gone])
    return Collected(folder, record, files)
