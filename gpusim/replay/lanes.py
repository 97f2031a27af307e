"""One point into one lane of the page: its steps in order of time, as events."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gpusim.engine import simulate
from gpusim.errors import DoesNotFitError
from gpusim.implementations import Plan, plan
from gpusim.numeric import attention_reference
from gpusim.point import Point
from gpusim.replay.closed_forms import closed_form
from gpusim.replay.plans import places, shown_name, slot_name
from gpusim.replay.refusals import refused_lane
from gpusim.replay.sentences import Telling, rows_text, sentence, skipped
from gpusim.replay.steps import RunStep, run_steps
from gpusim.replay.titles import drawn_matrices, tile_of, titles
from gpusim.replay.values import Array, Held, Slot, watch
from gpusim.report.replay import Content, Event, Group, HbmAccess, Lane, Region, Unit, Values, rounded
from gpusim.taskgraph import Fill, Kernel, Load, MatMul, Role, Store, Tensor
from gpusim.taskgraph.ops import Op, reads
from gpusim.trace import TimelineRecorder, Transfer
from gpusim.workloads import AttentionWorkload

KERNEL_TITLES = {"qk": "S = QKᵀ/√d", "softmax": "P = softmax(S)", "pv": "O = PV"}


def lane_of(point: Point, workload: AttentionWorkload, example: int, inputs: Mapping[str, Array]) -> Lane:
    """The lane of a drawable point: run, or refused because its tile does not fit. Raises PointError otherwise."""
    try:
        planned = plan(point.request, point.spec, workload, point.conditions.stack)
    except DoesNotFitError as error:
        return refused_lane(point, workload, example, error)
    return _Run(point, workload, planned, inputs).lane(example)


class _Run:
    """One point, simulated and executed."""

    def __init__(self, point: Point, workload: AttentionWorkload, planned: Plan, inputs: Mapping[str, Array]) -> None:
        self._workload = workload
        self._planned = planned
        self._graph = planned.graph
        self._tensors = {tensor.name: tensor for tensor in self._graph.tensors()}
        recorder = TimelineRecorder()
        simulate(self._graph, point.spec, point.conditions, recorder, mode="exhaustive")
        changes, output = watch(self._graph, inputs)
        self._ctas, self._steps = run_steps(self._graph, recorder, changes)
        reference = attention_reference(inputs["Q"], inputs["K"], inputs["V"], _bias(workload))[0]
        pairs = zip(_flat(output), _flat(reference), strict=True)
        self._difference = max(abs(rounded(ours) - rounded(full)) for ours, full in pairs)

    def lane(self, example: int) -> Lane:
        """Events on a clock that starts with the first of them."""
        tile = tile_of(self._planned.choices)
        form = closed_form(self._planned.schedule, self._workload, self._planned.choices, self._graph)
        title = titles(self._planned.schedule, self._workload, tile)
        events = [event for chunk in self._chunks() for event in self._events(chunk)]
        origin_ps = min(event.t0_ps for event in events)
        events = [_shifted(event, -origin_ps) for event in events]
        return Lane(
            name=title.name,
            title=title.title,
            subtitle=f"{form.total_bytes:,} B · {self._note(tile)}",
            schedule=self._planned.schedule,
            example=example,
            causal=self._workload.causal,
            tile=tile,
            closed_form=form,
            matrices=drawn_matrices(self._workload, self._graph),
            groups=tuple(self._group(number, events) for number in range(len(self._ctas))),
            events=tuple(events),
            end_ps=max(event.t1_ps for event in events),
            max_abs_difference=self._difference,
            refused=None,
        )

    def _note(self, tile: tuple[int, int]) -> str:
        """What the bytes come from, in a few words."""
        if self._workload.causal:
            return "skip the future"
        if "S" in self._tensors:
            return "S, P round trip"
        if self._planned.schedule == "flash1":
            return "O, m, ℓ travel"
        times = -(-self._workload.seqlen_q // tile[0])
        return f"K, V read {times}×" if times > 2 else "S stays on chip"

    def _group(self, number: int, events: Sequence[Event]) -> Group:
        mine = [event for event in events if event.group == number]
        holds: dict[str, str] = {}
        for content in (content for event in mine for content in event.contents):
            holds.setdefault(content.buffer, content.name)
        plan_of_sram = tuple(
            replace(place, name=shown_name(holds.get(place.buffer, place.buffer)))
            for place in places(self._kernel_of(number))
        )
        return Group(self._group_title(number), min(e.t0_ps for e in mine), max(e.t1_ps for e in mine), plan_of_sram)

    def _kernel_of(self, number: int) -> Kernel:
        return next(step.kernel for step in self._steps if step.cta == number)

    def _group_title(self, number: int) -> str:
        kernel = self._kernel_of(number)
        title = ""
        if len(self._graph.kernels) > 1:
            title = f"kernel {self._graph.kernels.index(kernel) + 1}: {KERNEL_TITLES.get(kernel.name, kernel.name)}"
        if kernel.ctas == 1:
            return title or "one CTA for all rows"
        launched = [key for key in self._ctas if key[0] == kernel.name].index(self._ctas[number])
        rows = self._region(number, "Q")
        return (f"{title}, " if title else "") + f"CTA {launched}" + (f": Q {rows_text(rows)}" if rows else "")

    def _region(self, cta: int, tensor: str) -> Region | None:
        """The tile of a tensor that a CTA loads first."""
        return next((step.change.region for step in self._steps if step.cta == cta and step.loads(tensor)), None)

    def _chunks(self) -> Iterator[list[RunStep]]:
        """Steps in time order; start values that a CTA sets one after another are one event."""
        chunk: list[RunStep] = []
        for step in self._steps:
            is_more = chunk and chunk[-1].is_free_fill and step.is_free_fill and chunk[-1].cta == step.cta
            if chunk and not is_more:
                yield chunk
                chunk = []
            chunk.append(step)
        yield chunk

    def _events(self, chunk: list[RunStep]) -> Iterator[Event]:
        """One event, and behind the last product of a causal CTA a note for every tile it leaves out."""
        first, last = chunk[0], chunk[-1]
        change, kernel = last.change, last.kernel
        in_sram = {place.buffer for place in places(kernel)}
        read = [slot_name(kernel, (buffer.name, change.step.stages[buffer.name])) for buffer in reads(last.op)]
        changed = {slot: held for step in chunk for slot, held in step.change.written.items()}
        spent = [slot_name(kernel, slot) for step in chunk for slot in step.change.spent]
        yield Event(
            group=last.cta,
            unit=_unit(last.op),
            t0_ps=first.start_ps,
            t1_ps=last.record.end_ps,
            reads=tuple(name for name in read if name in in_sram),
            writes=tuple(slot_name(kernel, slot) for slot in changed),
            hbm=_access(last),
            tile=change.tile,
            skip=False,
            sentence=self._sentence(last),
            contents=tuple(_content(kernel, slot, held) for slot, held in changed.items()),
            spent=tuple(name for name in spent if name in in_sram),
            softmax=change.softmax,
            done=last.is_product and change.tile is not None and all(held.name == "O" for held in changed.values()),
            finished=self._finished(last),
        )
        if self._workload.causal and self._is_last_product(last):
            yield from self._skips(last)

    def _finished(self, step: RunStep) -> tuple[int, int] | None:
        """Rows of the output that a store completes."""
        change = step.change
        if not isinstance(step.op, Store) or change.stored is None or change.region is None:
            return None
        is_output = step.op.tile.tensor.role is Role.OUTPUT and change.stored.is_final
        return (change.region.row0, change.region.row1) if is_output else None

    def _sentence(self, step: RunStep) -> str:
        tensor: Tensor | None = None
        times_read = 0
        if isinstance(step.op, Load | Store):
            tensor = step.op.tile.tensor
            times_read = sum(
                other.order < step.order and other.loads(tensor.name) and other.change.region == step.change.region
                for other in self._steps
            )
        stored = frozenset(tensor.name for tensor in step.kernel.stored())
        statistics = [
            other.change.softmax for other in self._steps if other.cta == step.cta and other.order < step.order
        ]
        telling = Telling(
            times_read,
            stored,
            is_one_kernel=len(self._graph.kernels) == 1,
            is_causal=self._workload.causal,
            statistics=next((rows for rows in reversed(statistics) if rows), ()),
        )
        return sentence(step.change, telling, tensor)

    def _is_last_product(self, step: RunStep) -> bool:
        return [other for other in self._steps if other.cta == step.cta and other.is_product][-1:] == [step]

    def _skips(self, last: RunStep) -> Iterator[Event]:
        """Key tiles that a CTA never loads."""
        rows, tile = self._region(last.cta, "Q"), self._region(last.cta, "K")
        if rows is None or tile is None:
            return
        loads = [step.change.region for step in self._steps if step.cta == last.cta and step.loads("K")]
        seen = {region.row0 for region in loads if region is not None}
        keys, height = self._workload.seqlen_k, tile.row1 - tile.row0
        row_bytes = (self._workload.head_dim + self._workload.head_dim_v) * self._workload.dtype.size_bytes
        for first in range(0, keys, height):
            if first not in seen:
                end = min(first + height, keys)
                text = skipped((rows.row0, rows.row1), (first, end), (end - first) * row_bytes)
                hidden = Region(rows.row0, rows.row1, first, end)
                when = last.record.end_ps
                yield Event(last.cta, "note", when, when, (), (), None, hidden, True, text)


def _unit(op: Op) -> Unit:
    match op:
        case Load():
            return "load"
        case Store():
            return "store"
        case MatMul():
            return "mma"
        case Fill():
            return "note"
    return "softmax"


def _access(step: RunStep) -> HbmAccess | None:
    record, region, stored = step.record, step.change.region, step.change.stored
    if not isinstance(record, Transfer) or region is None:
        return None
    rows, cols = region.row1 - region.row0, region.col1 - region.col0
    return HbmAccess(
        matrix=record.tensor,
        region=region,
        direction=record.direction,
        bytes=record.hbm_bytes,
        bus0_ps=record.bus_start_ps,
        bus1_ps=record.bus_end_ps,
        values=None if stored is None else _flat(stored.values[:rows, :cols]),
    )


def _content(kernel: Kernel, slot: Slot, held: Held) -> Content:
    return Content(slot_name(kernel, slot), held.name, _label(held), held.region, _flat(held.values))


def _label(held: Held) -> str:
    if held.region is None or held.name in ("m", "l"):
        return shown_name(held.name)
    text = f"{held.name} {rows_text(held.region)}"
    if held.name in ("S", "P"):
        return f"{text}, keys {held.region.col0}–{held.region.col1 - 1}"
    return text


def _flat(values: Array) -> Values:
    return tuple(float(value) for value in values.ravel())


def _shifted(event: Event, by_ps: int) -> Event:
    hbm = event.hbm
    if hbm is not None:
        hbm = replace(hbm, bus0_ps=hbm.bus0_ps + by_ps, bus1_ps=hbm.bus1_ps + by_ps)
    return replace(event, t0_ps=event.t0_ps + by_ps, t1_ps=event.t1_ps + by_ps, hbm=hbm)


def _bias(workload: AttentionWorkload) -> Array | None:
    """−∞ above the diagonal of a causal mask."""
    if not workload.causal:
        return None
    return np.where(np.tri(workload.seqlen_q, workload.seqlen_k) > 0, 0.0, -np.inf)
