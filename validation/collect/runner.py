"""Measures group after group, and leaves after each a whole CSV and a record that says how far it is."""

import csv
import io
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpusim.errors import InputError
from gpusim.report import write_whole
from validation.collect.device import Device, DeviceError, HungError
from validation.collect.groups import GROUPS, Group
from validation.collect.record import GroupRecord, MachineRecord, new_record, read_record
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
    """The rows of a group so far, what could not be measured, and the programs whose checks passed or failed."""

    rows: list[Mapping[str, object]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


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
    longer fits `minutes` is not begun, and one that is cut short becomes GROUP.csv.partial.

    Raises InputError where the folder belongs to another GPU or version; KeyboardInterrupt, and HungError where the GPU
    does not answer any more, come after what was measured is written.
    """
    begin = now()
    budget = Budget(now, None if minutes is None else begin + 60 * minutes)
    record = _record(device, folder, version, groups)
    faults: dict[Program, str | None] = {}
    for group in groups:
        if only and group.name not in only:
            continue
        if record.groups[group.name].status == "done":
            say(f"{group.name}: done before")
            continue
        if not budget.allows(group.seconds):
            reason = f"takes about {group.seconds:.0f} s, more than is left of {minutes:g} minutes"
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
    """Measures one group and writes what came of it."""
    begin, clocks = budget.now(), dict(device.clocks())
    record = record.with_group(group.name, GroupRecord(status="running", clocks_before=clocks))
    record.write(folder)
    progress, cut = _Progress(), ""
    stop: KeyboardInterrupt | HungError | None = None
    try:
        for case in group.cases(device.facts):
            if not budget.allows(0):
                cut = "time is up"
                break
            _case(device, case, group, progress, faults)
    except HungError as error:
        cut, stop = str(error), error
    except DeviceError as error:
        progress.left_out.append(str(error))
    except KeyboardInterrupt as error:
        cut, stop = "interrupted", error
    done = GroupRecord(
        status="partial" if cut else "done" if progress.rows else "failed",
        reason=cut or ("" if progress.rows else next(iter(progress.left_out), "no case of it runs on this GPU")),
        rows=len(progress.rows),
        left_out=tuple(progress.left_out),
        clocks_before=clocks,
        clocks_after=dict(device.clocks()),
        seconds=round(budget.now() - begin, 3),
    )
    if progress.rows:
        suffix = ".csv.partial" if cut else ".csv"
        write_whole(folder / f"{group.name}{suffix}", csv_text(progress.rows))
    if not cut:
        (folder / f"{group.name}.csv.partial").unlink(missing_ok=True)
    record = _written(record, folder, group, done, say)
    if stop is not None:
        raise stop
    return record


def _written(
    record: MachineRecord, folder: Path, group: Group, done: GroupRecord, say: Callable[[str], None]
) -> MachineRecord:
    record = record.with_group(group.name, done)
    record.write(folder)
    told = [f"{done.rows} rows" if done.rows else "", f"{len(done.left_out)} left out" if done.left_out else ""]
    say(f"{group.name}: {done.status.replace('_', ' ')}, {', '.join(filter(None, [*told, done.reason]))}".rstrip(", "))
    return record


def _case(device: Device, case: Case, group: Group, progress: _Progress, faults: dict[Program, str | None]) -> None:
    """Checks a case's programs where that was not done before, then measures it; a fault is noted and stops nothing."""
    fault = _fault(device, case, faults)
    if fault is not None:
        progress.left_out.append(f"{case.name}: {fault}")
        return
    try:
        if group.reads_counters:
            progress.rows.append(_cells(device, case) | dict(device.counters(case)))
        else:
            progress.rows.append(_timed_row(device, case))
    except HungError:
        raise
    except DeviceError as error:
        progress.left_out.append(f"{case.name}: {error}")


def _fault(device: Device, case: Case, faults: dict[Program, str | None]) -> str | None:
    """What a check of one of the case's programs found; every program is checked once."""
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
    except HungError:
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
