"""Measures group after group, and leaves after each a whole CSV and a record that says how far it is."""

import csv
import io
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpusim.errors import InputError
from gpusim.report import write_whole
from validation.collect.device import Device, DeviceError, GroupError, LostError, NotHereError
from validation.collect.groups import GROUPS, Group
from validation.collect.record import GroupRecord, MachineRecord, Status, new_record, read_record
from validation.collect.work import Case, Program

SOURCE = "python -m validation collect"
FIRST_COLUMNS = ("source", "gpu", "kernel")
LAST_COLUMNS = ("samples", "spread_pct", "clock_under_load_mhz", "note")


@dataclass(frozen=True, slots=True)
class Budget:
    """Until when to measure, by a clock of seconds; `end` is None where there is no limit."""

    now: Callable[[], float]
    end: float | None = None

    def allows(self, seconds: float) -> bool:
        """Whether this much time is left."""
        return self.end is None or self.now() + seconds <= self.end


@dataclass(slots=True)
class _Progress:
    """The rows of a group so far, what failed, and what this GPU does not have."""

    rows: list[Mapping[str, object]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    not_here: list[str] = field(default_factory=list)

    def status(self, cut: str) -> Status:
        """How far the group is; `cut` says why not all cases were tried."""
        if cut:
            return "partial"
        if self.left_out:
            return "incomplete" if self.rows else "failed"
        return "done" if self.rows else "absent"

    def reason(self, cut: str) -> str:
        """Why there is no CSV; empty where there is one."""
        if cut or self.rows:
            return cut
        return next(iter((*self.left_out, *self.not_here)), "no case of it runs on this GPU")


def collect(
    device: Device,
    folder: Path,
    *,
    version: str,
    minutes: float | None = None,
    groups: Sequence[Group] = GROUPS,
    only: Collection[str] = (),
    now: Callable[[], float] = time.monotonic,
    say: Callable[[str], None] = lambda line: None,
) -> MachineRecord:
    """Measures the groups that `folder` does not hold yet; returns the record that lies there afterwards.

    `only` names the groups to measure, all where it is empty; the record is of all `groups` either way. A group that no
    longer fits `minutes` is not begun, and one that is cut short becomes GROUP.csv.partial. An incomplete group is
    measured again where `only` names it.

    Raises InputError where the folder belongs to another GPU or version. Whatever ends a run early, such as
    KeyboardInterrupt, or LostError where the GPU does not answer any more, comes after what was measured is written.
    """
    begin = now()
    budget = Budget(now, None if minutes is None else begin + 60 * minutes)
    record = _record(device, folder, version, groups)
    faults: dict[Program, str | None] = {}
    for group in groups:
        if only and group.name not in only:
            continue
        before = record.groups[group.name]
        if before.status == "done":
            say(f"{group.name}: done before")
            continue
        if before.status == "incomplete" and group.name not in only:
            say(f"{group.name}: measured before, {before.shortfall()}; --only {group.name} tries it again")
            continue
        if not budget.allows(group.seconds):
            reason = f"takes about {group.seconds:.0f} s, more than is left of {minutes:g} minutes"
            if before.status == "incomplete":
                say(f"{group.name}: not measured again, {reason}")
                continue
            record = _written(record, folder, group, GroupRecord(status="not_started", reason=reason), say)
            continue
        record = _measure(device, folder, record, group, budget, faults, say)
    return record


def _record(device: Device, folder: Path, version: str, groups: Sequence[Group]) -> MachineRecord:
    """The record to go on with."""
    facts = device.facts
    fresh = new_record(version, facts, {group.name: "" for group in groups})
    folder.mkdir(parents=True, exist_ok=True)
    found = read_record(folder)
    if found is None:
        fresh.write(folder)
        return fresh
    same = all(found.machine.get(key) == fresh.machine[key] for key in ("gpu", "uuid")) and found.gpusim == version
    if not same:
        whose = f"{found.machine.get('product')} ({found.machine.get('uuid')}), gpusim {found.gpusim}"
        raise InputError(str(folder), [f"holds measurements of {whose}; choose another --out"])
    return found.model_copy(update={"groups": fresh.groups | found.groups, "machine": fresh.machine, "complete": False})


def _measure(
    device: Device,
    folder: Path,
    record: MachineRecord,
    group: Group,
    budget: Budget,
    faults: dict[Program, str | None],
    say: Callable[[str], None],
) -> MachineRecord:
    """Measures one group and writes what came of it, whatever ends it."""
    begin, clocks = budget.now(), dict(device.clocks())
    record = record.with_group(group.name, GroupRecord(status="running", clocks_before=clocks))
    record.write(folder)
    (folder / f"{group.name}.csv").unlink(missing_ok=True)
    progress, cut = _Progress(), "ended by an error"
    try:
        cut = _try_cases(device, group, budget, progress, faults)
    except KeyboardInterrupt:
        cut = "interrupted"
        raise
    except LostError as error:
        cut = str(error)
        raise
    finally:
        done = GroupRecord(
            status=progress.status(cut),
            reason=progress.reason(cut),
            rows=len(progress.rows),
            left_out=tuple(progress.left_out),
            not_here=tuple(progress.not_here),
            clocks_before=clocks,
            seconds=round(budget.now() - begin, 3),
        )
        record = _kept(device, record, folder, group, done, progress.rows, say)
    return record


def _try_cases(
    device: Device, group: Group, budget: Budget, progress: _Progress, faults: dict[Program, str | None]
) -> str:
    """Measures case after case; why not all of them were tried, empty where they were."""
    try:
        for case in group.cases(device.facts):
            if not budget.allows(0):
                return "time is up"
            _case(device, case, group, progress, faults)
    except LostError:
        raise
    except GroupError as error:
        if progress.rows:
            return str(error)
        progress.left_out.append(str(error))
    except DeviceError as error:
        progress.left_out.append(str(error))
    return ""


def _kept(
    device: Device,
    record: MachineRecord,
    folder: Path,
    group: Group,
    done: GroupRecord,
    rows: Sequence[Mapping[str, object]],
    say: Callable[[str], None],
) -> MachineRecord:
    """Writes the rows, then the record, and only then asks for clocks: after a hang nobody may answer."""
    partial = folder / f"{group.name}.csv.partial"
    if rows:
        write_whole(partial if done.status == "partial" else folder / f"{group.name}.csv", csv_text(rows))
    if done.status != "partial":
        partial.unlink(missing_ok=True)
    record = _written(record, folder, group, done, say)
    record = record.with_group(group.name, done.model_copy(update={"clocks_after": dict(device.clocks())}))
    record.write(folder)
    return record


def _written(
    record: MachineRecord, folder: Path, group: Group, done: GroupRecord, say: Callable[[str], None]
) -> MachineRecord:
    record = record.with_group(group.name, done)
    record.write(folder)
    absent = f"{len(done.not_here)} not on this GPU" if done.not_here else ""
    told = [f"{done.rows} rows" if done.rows else "", done.shortfall(), absent]
    say(f"{group.name}: {done.status.replace('_', ' ')}, {', '.join(filter(None, [*told, done.reason]))}".rstrip(", "))
    return record


def _case(device: Device, case: Case, group: Group, progress: _Progress, faults: dict[Program, str | None]) -> None:
    """Checks a case's programs where that was not done before, then measures it; a fault is noted and stops nothing."""
    try:
        fault = _fault(device, case, faults)
        if fault is not None:
            progress.left_out.append(f"{case.name}: {fault}")
        elif group.reads_counters:
            progress.rows.append(_cells(device, case) | dict(device.counters(case)))
        else:
            progress.rows.append(_timed_row(device, case))
    except (LostError, GroupError):
        raise
    except NotHereError as error:
        progress.not_here.append(f"{case.name}: {error}")
    except DeviceError as error:
        progress.left_out.append(f"{case.name}: {error}")


def _fault(device: Device, case: Case, faults: dict[Program, str | None]) -> str | None:
    """What a check of one of the case's programs found; every program is checked once. Raises NotHereError."""
    for program in case.programs():
        if program not in faults:
            faults[program] = _check_fault(device, case, program)
        if faults[program] is not None:
            return faults[program]
    return None


def _check_fault(device: Device, case: Case, program: Program) -> str | None:
    """None where all checks that launch this program pass."""
    checks = [check for check in case.checks if program in {launch.program for launch in check.work.launches}]
    if not checks:
        return f"{program.entry} has no check, and what is not checked is not timed"
    try:
        found = (check.fault(device.outputs(check)) for check in checks)
        return next((f"wrong result, {fault}" for fault in found if fault is not None), None)
    except (LostError, NotHereError):
        raise
    except DeviceError as error:
        return str(error)


def _cells(device: Device, case: Case) -> dict[str, object]:
    return {"source": SOURCE, "gpu": device.facts.gpu, "cache": case.cache, **case.cells}


def _timed_row(device: Device, case: Case) -> Mapping[str, object]:
    timed = device.time(case)
    row = _cells(device, case) | {name: _rounded(cell) for name, cell in case.measured(timed.median_ms).items()}
    row |= {"samples": len(timed.ms), "spread_pct": _rounded(timed.spread_pct, 2)}
    if "clocks" in timed.read_back:
        cycles, ns = (float(count) for count in timed.read_back["clocks"][:2])
        row["clock_under_load_mhz"] = _rounded(1e3 * cycles / ns) if ns else ""
    return row


def _rounded(cell: object, digits: int = 6) -> object:
    return float(f"{cell:.{digits}g}") if isinstance(cell, float) else cell


def csv_text(rows: Sequence[Mapping[str, object]]) -> str:
    """Rows as tidy CSV: known columns first and last, the others between them in order of appearance."""
    seen = dict.fromkeys(column for row in rows for column in row)
    middle = [column for column in seen if column not in FIRST_COLUMNS + LAST_COLUMNS]
    columns = [*(c for c in FIRST_COLUMNS if c in seen), *middle, *(c for c in LAST_COLUMNS if c in seen)]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
