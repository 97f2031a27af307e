"""What all planning does: values of tables and users into choices, and whether the kernels made of them fit."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from pydantic import ValidationError

from gpusim.analytic import check_fits, occupancy
from gpusim.errors import DoesNotFitError, ScenarioError
from gpusim.schedules import Choices, Schedule
from gpusim.specs import GpuSpec
from gpusim.strict_yaml import problems_from
from gpusim.taskgraph import TaskGraph
from gpusim.workloads import Workload

NOTHING_FITS = "no smaller tile fits; lower head_dim or seqlen, or choose another schedule"
_PINS = ("ctas_per_sm", "grain")


def with_tuples(values: Mapping[str, object]) -> dict[str, object]:
    """YAML has lists; choices hold tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def over_table(table: Mapping[str, object], stated: Mapping[str, object]) -> dict[str, object]:
    """Choices of the table and, over them, those that were stated; the released kernel's pins bind no other kernel."""
    if stated:
        table = {name: value for name, value in table.items() if name not in _PINS}
    return {**table, **stated}


def validated(schedule: Schedule, values: Mapping[str, object]) -> Choices:
    """`values` were checked when the request was parsed, but not together with those of the table."""
    try:
        return schedule.choices.model_validate(with_tuples(values))
    except ValidationError as error:
        raise ScenarioError(f"schedule {schedule.name}", problems_from(error, schedule.choices)) from None


def check_kernels(graph: TaskGraph, spec: GpuSpec) -> None:
    """Raises DoesNotFitError when a CTA of some kernel exceeds the SM."""
    for kernel in graph.kernels:
        check_fits(kernel, spec)


def check_graph_fits(
    graph: TaskGraph, schedule: Schedule, choices: Choices, spec: GpuSpec, workload: Workload, sides: tuple[str, str]
) -> None:
    """Raises DoesNotFitError naming the largest tile that fits; `sides` are the choices that hold a tile's sides."""
    try:
        check_kernels(graph, spec)
    except DoesNotFitError as error:
        smaller = _fitting(schedule, choices, spec, workload, sides)
        if smaller is None:
            raise DoesNotFitError(error.reason, NOTHING_FITS) from None
        fits = ", ".join(f"{name}: {value}" for name, value in smaller.items())
        fix = error.fix.replace("tile_q", sides[0]).replace("tile_kv", sides[1])  # limits name attention's tiles
        raise DoesNotFitError(error.reason, f"{fix}; {fits} fits") from None


def check_residency(graph: TaskGraph, spec: GpuSpec) -> None:
    """A residency that a user states is no more than the SM holds; one in a table may stand for loads in flight."""
    for kernel in graph.kernels:
        found = occupancy(replace(kernel, ctas_per_sm=None), spec)
        if kernel.ctas_per_sm is not None and kernel.ctas_per_sm > found.ctas_per_sm:
            raise DoesNotFitError(
                f"{kernel.name}: ctas_per_sm is {kernel.ctas_per_sm} but an SM of {spec.name} holds "
                f"{found.ctas_per_sm}, limited by {found.limited_by}",
                f"state at most {found.ctas_per_sm}, or lower the tiles",
            )


def _fitting(
    schedule: Schedule, choices: Choices, spec: GpuSpec, workload: Workload, sides: tuple[str, str]
) -> dict[str, int] | None:
    """Sides and stages of the largest tile that fits, no side or stage count larger than asked."""
    for update in _smaller(choices, sides):
        try:
            check_kernels(schedule.build(workload, choices.model_copy(update=update), {}), spec)
        except DoesNotFitError:
            continue
        return update
    return None


def _smaller(choices: Choices, sides: tuple[str, str]) -> Iterator[dict[str, int]]:
    sizes = [
        (rows, cols, stages)
        for rows in _halves(getattr(choices, sides[0]))
        for cols in _halves(getattr(choices, sides[1]))
        for stages in range(getattr(choices, "stages", 1), 0, -1)
    ]
    sizes.sort(key=lambda size: (-size[0] * size[1], abs(size[0] - size[1]), -size[2]))
    for size in sizes:
        yield dict(zip((*sides, "stages"), size, strict=True))


def _halves(size: int) -> list[int]:
    return [size >> shift for shift in range(size.bit_length())]
