"""Schedules and implementations as text for a terminal."""

from collections.abc import Iterator

from gpusim.errors import UnknownNameError
from gpusim.implementations import ScheduleRequest, When, implementations, names_that_compute, parse_request
from gpusim.schedules import SCHEDULES, Schedule
from gpusim.workloads import WORKLOADS, AttentionWorkload


def schedules_table() -> str:
    """Every schedule with its source, and every implementation of it."""
    lines = ["Schedules"]
    for schedule in SCHEDULES.values():
        lines += [f"  {schedule.name:<22} {schedule.summary}", f"  {'':<22} {schedule.source}"]
    lines.append(
        "\nImplementations (a bare name in a scenario; a mapping {name: …, tile_q: …} is the schedule with choices)"
    )
    for kind in WORKLOADS:
        lines.append(f" of {kind.title}:")
        lines += [f"  {name:<22} {implementations()[name].summary}" for name in names_that_compute(kind)]
    lines.append("\nNot here yet: backward, sliding windows, dropout, decode, fp8 attention, cuDNN.")
    return "\n".join(lines)


def schedule_text(name: str) -> str:
    """One implementation: tiles by architecture and shape, and timing constants, each with its source; with @version
    those of that version. A schedule that only implementations of other names use is shown with these.

    Raises UnknownNameError or ScenarioError.
    """
    bare_name = name.partition("@")[0]
    if name in SCHEDULES and name not in implementations():
        return "\n".join(_schedule_lines(SCHEDULES[name]))
    if bare_name not in implementations():
        raise UnknownNameError("schedule", name, list(dict.fromkeys([*implementations(), *SCHEDULES])))
    return "\n".join(_lines(parse_request(name, "command line")))


def _schedule_lines(schedule: Schedule) -> Iterator[str]:
    users = [known.name for known in implementations().values() if known.schedule == schedule.name]
    yield f"{schedule.name}: {schedule.summary}"
    yield f"source           {schedule.source}"
    yield f"computes         {schedule.workload.title}"
    yield f"choices          {', '.join(schedule.choices.model_fields)}"
    yield f"implementations  {', '.join(users)}; gpusim schedules {users[0]} shows its tables"


def _lines(request: ScheduleRequest) -> Iterator[str]:
    """With a version in the request, rows that hold for others are left out."""
    implementation, schedule = implementations()[request.name], request.schedule
    yield f"{implementation.name}: {implementation.summary}"
    yield f"schedule   {schedule.name}: {schedule.summary} ({schedule.source})"
    yield f"computes   {schedule.workload.title}"
    yield f"versions   {', '.join(implementation.versions) or 'not told apart'}"
    yield f"dtypes     {', '.join(implementation.dtypes)}"
    if schedule.workload is AttentionWorkload:
        grouped = "as many as Q heads, or grouped" if implementation.grouped_kv_heads else "as many as Q heads"
        yield f"masks      {', '.join(implementation.masks) or 'none'}"
        yield f"K/V heads  {grouped}"
    yield f"choices    {', '.join(schedule.choices.model_fields) or 'none'}"
    tiles = [row for row in implementation.tiles if _is_for(row.when, request.version)]
    costs = [row for row in implementation.costs if _is_for(row.when, request.version)]
    yield "\nTiles" if tiles else "\nTiles: none, nothing is left open"
    for row in tiles:
        chosen = ", ".join(f"{key} {value}" for key, value in row.choices.items())
        yield f"  {_where(row.when.model_dump(exclude_none=True))}: {chosen}"
        yield f"      {row.source}"
    yield "\nTiming constants" if costs else "\nTiming constants: none, ideal units"
    for cost in costs:
        yield f"  {_where(cost.when.model_dump(exclude_none=True))}, kernels {', '.join(cost.kernels)}"
        for constant, value in cost.constants.items():
            yield f"      {constant} = {value.value:g} ({value.kind}: {value.source})"


def _is_for(when: When, version: str | None) -> bool:
    return version is None or when.version is None or version in when.version


def _where(when: dict[str, object]) -> str:
    return ", ".join(f"{key} {_range(value)}" for key, value in when.items()) or "everywhere"


def _range(value: object) -> str:
    if isinstance(value, tuple):
        return f"{value[0]}–{value[1]}"
    return " or ".join(value) if isinstance(value, list) else str(value)
