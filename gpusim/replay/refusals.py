"""A lane for a tile that does not fit: its buffers are counted, and nothing runs."""

from gpusim.errors import DoesNotFitError, PointError
from gpusim.implementations import Plan, ScheduleRequest, plan
from gpusim.point import Point
from gpusim.replay.drawable import sram_numbers
from gpusim.replay.plans import numbers, places
from gpusim.replay.titles import drawn_matrices, tile_of, titles
from gpusim.report.replay import ClosedForm, Content, Event, Group, Lane, Place, Refusal
from gpusim.specs import apply_overrides
from gpusim.workloads import AttentionWorkload

AMPLE_BYTES = 1 << 30  # an SRAM that everything drawable fits into
SRAM_FIELDS = ("sm.smem_bytes", "sm.smem_per_cta_max_bytes")


def refused_lane(point: Point, workload: AttentionWorkload, example: int, error: DoesNotFitError) -> Lane:
    """The slots that the largest kernel of a refused point asks for, one buffer after another."""
    planned = _planned_with_ample_sram(point, workload, point.request)
    plan_of_sram = _largest_plan(planned)
    have, need, tile = sram_numbers(point.spec, workload), numbers(plan_of_sram), tile_of(planned.choices)
    title = titles(planned.schedule, workload, tile)
    squares = _needs_of_squares(point, workload, max(tile))
    return Lane(
        name=title.name,
        title=title.title,
        subtitle=f"refused · {need} > {have}",
        schedule=planned.schedule,
        example=example,
        causal=workload.causal,
        tile=tile,
        closed_form=ClosedForm(0, "nothing is moved", ""),
        matrices=drawn_matrices(workload, planned.graph),
        groups=(Group("refused", 0, 0, plan_of_sram),),
        events=_reservations(plan_of_sram, have, _verdict(squares, need, have, max(tile))),
        end_ps=0,
        max_abs_difference=None,
        refused=Refusal(need, have, error.reason, error.fix, squares),
    )


def _verdict(squares: tuple[tuple[int, int], ...], need: int, have: int, tile: int) -> str:
    fitting = [side for side, numbers_needed in squares if numbers_needed <= have]
    largest = f"the largest square tile that fits is {fitting[-1]}" if fitting else "no smaller square tile fits either"
    return f"Refused: tiles of {tile} need {need} numbers, {need - have} more than the {have} there are; {largest}."


def _reservations(plan_of_sram: tuple[Place, ...], have: int, refusal: str) -> tuple[Event, ...]:
    events = []
    taken = 0
    for number, place in enumerate(plan_of_sram):
        size, before = place.rows * place.cols, taken
        taken += size
        if number == len(plan_of_sram) - 1:
            text = refusal
        elif taken <= have:
            text = f"Reserve {place.name}: {size} numbers, {taken} of {have} taken."
        elif before <= have:
            text = f"Reserve {place.name}: {size} more would make {taken}, but SRAM holds {have}."
        else:
            text = f"{place.name} would bring it to {taken}."
        held = Content(place.buffer, place.name, f"{place.name} {size}", None, None)
        events.append(Event(0, "note", 0, 0, (), (place.buffer,), None, None, False, text, (held,)))
    return tuple(events)


def _needs_of_squares(point: Point, workload: AttentionWorkload, largest: int) -> tuple[tuple[int, int], ...]:
    """Square tiles from 2 up to the refused one, and the numbers each needs."""
    needs = []
    tile = 2
    while tile <= largest:
        stated = {**point.request.choices, "tile_q": tile, "tile_kv": tile}
        request = ScheduleRequest(point.request.name, point.request.version, stated)
        try:
            planned = _planned_with_ample_sram(point, workload, request)
        except PointError:
            continue
        finally:
            tile *= 2
        needs.append((int(tile_of(planned.choices)[0]), numbers(_largest_plan(planned))))
    return tuple(needs)


def _planned_with_ample_sram(point: Point, workload: AttentionWorkload, request: ScheduleRequest) -> Plan:
    spec = apply_overrides(point.spec, dict.fromkeys(SRAM_FIELDS, str(AMPLE_BYTES)))
    return plan(request, spec, workload, point.conditions.stack)


def _largest_plan(planned: Plan) -> tuple[Place, ...]:
    return places(max(planned.graph.kernels, key=lambda kernel: kernel.smem_bytes))
