"""A run as a Perfetto trace: SMs with their CTA slots, warpgroups, compute pipe, loads and stores, and memory counters.

Opens at ui.perfetto.dev. Perfetto counts whole nanoseconds: starts and ends are rounded down, and every slice carries
its exact length as `duration_ps`. Idle slots are gaps. What was left out stands in the slice "about this trace".
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import CounterDescriptor, Trace, TrackDescriptor, TrackEvent

from gpusim.report.transfer_rows import transfer_rows
from gpusim.results import PointResult
from gpusim.trace import Transfer
from gpusim.trace_window import Bins, KernelTime, Timeline
from gpusim.units import PS_PER_NS, PS_PER_S

_SEQUENCE = 1  # all packets are of one writer
_GIGA = 1e9
_PS_PER_US = 1_000 * PS_PER_NS
_Note = str | int | float


@dataclass(frozen=True, slots=True)
class _Slice:
    """A stretch of time on a track; those of a deeper level lie inside those of a lower one."""

    name: str
    category: str
    start_ps: int
    end_ps: int
    level: int = 0
    notes: Mapping[str, _Note] = field(default_factory=dict)


def trace_bytes(timeline: Timeline, result: PointResult) -> bytes:
    """The trace of a run of the point that `result` is of, as protobuf; the same bytes for the same run."""
    writer = _Writer()
    host = writer.process("GPU")
    writer.slices(writer.track("about this trace", host), [_about(timeline, result)])
    writer.slices(writer.track("launches", host), _launches(timeline))
    writer.slices(writer.track("kernels", host), [_kernel(kernel) for kernel in timeline.kernels])
    memory = writer.process("memory, whole GPU")
    counters = timeline.counters
    writer.counter("HBM", memory, "GB/s", _gb_per_s(counters.hbm))
    writer.counter("L2 reads", memory, "GB/s", _gb_per_s(counters.read))
    writer.counter("L2 writes", memory, "GB/s", _gb_per_s(counters.written))
    writer.counter("in flight", memory, "bytes", _mean_bytes(counters.in_flight))
    for sm in timeline.window.sms:
        _write_sm(writer, timeline, sm)
    return writer.bytes()


def _write_sm(writer: "_Writer", timeline: Timeline, sm: int) -> None:
    """One SM as a process: its compute pipe, then every slot with its warpgroups, loads and stores."""
    process = writer.process(f"SM {sm}")
    tracks = timeline.tracks(sm)
    writer.slices(writer.track("compute pipe", process), _pipe(timeline, tracks))
    slots: dict[str, int] = {}
    for track in tracks:
        _, slot, *warpgroup = track.split(".")
        if slot not in slots:
            slots[slot] = writer.track(f"CTA {slot}", process)
        uuid = writer.track(warpgroup[0], slots[slot]) if warpgroup else slots[slot]
        writer.slices(uuid, _slot(timeline, track))
        for row in transfer_rows([transfer for transfer in timeline.transfers if transfer.track == track]):
            writer.slices(writer.track("loads and stores", uuid), [_transfer(transfer) for transfer in row])


def _launches(timeline: Timeline) -> list[_Slice]:
    return [_Slice(f"launch {span.kernel}", span.kind.value, span.start_ps, span.end_ps) for span in timeline.launches]


def _kernel(kernel: KernelTime) -> _Slice:
    spent = {f"{kind.value}_ps": spent_ps for kind, spent_ps in kernel.spent_ps.items()}
    return _Slice(kernel.name, "kernel", kernel.start_ps, kernel.end_ps, notes=spent)


def _pipe(timeline: Timeline, tracks: Sequence[str]) -> list[_Slice]:
    """Tasks as they hold the one compute pipe of an SM."""
    return [
        _Slice(work.task, "task", work.start_ps, work.end_ps, notes={"slot": work.track.partition(".")[2]})
        for work in timeline.works
        if work.track in tracks
    ]


def _slot(timeline: Timeline, track: str) -> list[_Slice]:
    """CTAs on their slot, in them what their time goes into, in that the tasks."""
    ctas = [
        _Slice(f"CTA {cta.cta}", cta.kernel, cta.start_ps, cta.end_ps) for cta in timeline.ctas if cta.track == track
    ]
    spans = [
        _Slice(span.kind.value, "stall", span.start_ps, span.end_ps, 1, {"kernel": span.kernel})
        for span in timeline.spans
        if span.track == track
    ]
    works = [_Slice(work.task, "task", work.start_ps, work.end_ps, 2) for work in timeline.works if work.track == track]
    return [*ctas, *spans, *works]


def _transfer(transfer: Transfer) -> _Slice:
    return _Slice(
        f"{transfer.direction} {transfer.tensor}",
        transfer.direction,
        transfer.asked_ps,
        transfer.end_ps,
        notes={
            "cta": str(transfer.cta),
            "matrix": transfer.head,
            "block": f"({transfer.row}, {transfer.col})",
            "hbm_bytes": transfer.hbm_bytes,
            "hbm_busy_ps": transfer.bus_end_ps - transfer.bus_start_ps,
        },
    )


def _about(timeline: Timeline, result: PointResult) -> _Slice:
    """What was run, its answer, and what the trace does not show."""
    counters = timeline.counters
    answer: dict[str, _Note] = {
        "gpu": result.machine,
        "implementation": result.implementation,
        "size": result.size,
        "latency_ms": result.latency_ms or 0.0,
        "hbm_bytes": sum(counters.hbm.amounts),
        "l2_read_bytes": sum(counters.read.amounts),
        "l2_write_bytes": sum(counters.written.amounts),
    }
    stalls: dict[str, _Note] = {f"stall_{kind.value}": share for kind, share in (result.stalls or {}).items()}
    lines = {f"left_out_{number}": line for number, line in enumerate(left_out_lines(timeline), start=1)}
    return _Slice("about this trace", "about", 0, timeline.end_ps, notes=answer | stalls | lines)


def left_out_lines(timeline: Timeline) -> list[str]:
    """What the trace does not show, and why, in sentences; empty where it shows everything."""
    window, left = timeline.window, timeline.left_out
    sms = ", ".join(str(sm) for sm in window.sms)
    lines = []
    if left.of_other_sms:
        lines.append(f"{left.of_other_sms:,} events of SMs other than {sms} (--trace-sms)")
    if left.outside:
        start, end = (f"{time_ps / _PS_PER_US:g}" for time_ps in (window.start_ps, window.end_ps))
        length = f"{timeline.end_ps / _PS_PER_US:,.1f}"
        lines.append(f"{left.outside:,} events outside {start}:{end} µs of {length} µs (--trace-window-us)")
    if left.full_ps is not None:
        full = f"{left.full_ps / _PS_PER_US:,.1f}"
        lines.append(f"{left.beyond:,} events after the first {window.most_events:,}, from {full} µs on")
    return lines


def _gb_per_s(bins: Bins) -> Iterator[tuple[int, float]]:
    for start_ps, amount in _steps(bins):
        yield start_ps, amount / bins.width_ps * PS_PER_S / _GIGA


def _mean_bytes(bins: Bins) -> Iterator[tuple[int, float]]:
    for start_ps, amount in _steps(bins):
        yield start_ps, amount / bins.width_ps


def _steps(bins: Bins) -> Iterator[tuple[int, int]]:
    """(Start of a bin, amount) where the amount changes, down to the zero behind the last bin."""
    before = None
    for place, amount in enumerate([*bins.amounts, 0]):
        if amount != before:
            yield place * bins.width_ps, amount
        before = amount


class _Writer:
    """Descriptors of tracks, and events that are put in order of time at the end."""

    def __init__(self) -> None:
        self._trace = Trace()
        self._events: list[tuple[int, TrackEvent]] = []
        self._num_tracks = 0
        self._num_processes = 0

    def process(self, name: str) -> int:
        """A new group of tracks; returns its number."""
        descriptor = self._descriptor(name)
        self._num_processes += 1
        descriptor.process.pid = self._num_processes
        descriptor.process.process_name = name
        descriptor.sibling_order_rank = self._num_processes
        return self._num_tracks

    def track(self, name: str, parent: int) -> int:
        """A new track of slices in a group or under another track; returns its number."""
        self._descriptor(name).parent_uuid = parent
        return self._num_tracks

    def slices(self, track: int, slices: Iterable[_Slice]) -> None:
        """Writes the slices of one track, outer before inner."""
        opened: list[_Slice] = []
        for item in sorted(slices, key=lambda item: (item.start_ps, item.level)):
            while opened and opened[-1].end_ps <= item.start_ps:
                self._end(track, opened.pop())
            self._begin(track, item)
            opened.append(item)
        while opened:
            self._end(track, opened.pop())

    def counter(self, name: str, parent: int, unit: str, values: Iterable[tuple[int, float]]) -> None:
        """A counter that keeps each value from its time on."""
        descriptor = self._descriptor(f"{name}, {unit}")
        descriptor.parent_uuid = parent
        descriptor.counter.unit = CounterDescriptor.UNIT_UNSPECIFIED
        descriptor.counter.unit_name = unit
        track = self._num_tracks
        for time_ps, value in values:
            event = TrackEvent(type=TrackEvent.TYPE_COUNTER, track_uuid=track, double_counter_value=value)
            self._events.append((time_ps // PS_PER_NS, event))

    def bytes(self) -> bytes:
        """The whole trace."""
        for time_ns, event in sorted(self._events, key=lambda item: item[0]):
            packet = self._trace.packet.add(timestamp=time_ns, trusted_packet_sequence_id=_SEQUENCE)
            packet.track_event.CopyFrom(event)
        serialized: bytes = self._trace.SerializeToString(deterministic=True)
        return serialized

    def _descriptor(self, name: str) -> TrackDescriptor:
        self._num_tracks += 1
        packet = self._trace.packet.add(trusted_packet_sequence_id=_SEQUENCE)
        packet.track_descriptor.uuid = self._num_tracks
        packet.track_descriptor.name = name
        packet.track_descriptor.child_ordering = TrackDescriptor.EXPLICIT
        packet.track_descriptor.sibling_order_rank = self._num_tracks
        return packet.track_descriptor

    def _begin(self, track: int, item: _Slice) -> None:
        event = TrackEvent(type=TrackEvent.TYPE_SLICE_BEGIN, track_uuid=track, name=item.name)
        event.categories.append(item.category)
        for name, value in {"duration_ps": item.end_ps - item.start_ps, **item.notes}.items():
            match value:
                case int():
                    event.debug_annotations.add(name=name, int_value=value)
                case float():
                    event.debug_annotations.add(name=name, double_value=value)
                case str():
                    event.debug_annotations.add(name=name, string_value=value)
        self._events.append((item.start_ps // PS_PER_NS, event))

    def _end(self, track: int, item: _Slice) -> None:
        event = TrackEvent(type=TrackEvent.TYPE_SLICE_END, track_uuid=track)
        self._events.append((item.end_ps // PS_PER_NS, event))
