"""A Perfetto trace, read back with its own protobuf classes: it nests, is in order, and adds up to the result."""

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

from gpusim import AttentionWorkload, Conditions, Point, PointResult, Stall, load_gpu, parse_request
from gpusim.report.perfetto import left_out_lines, trace_bytes
from gpusim.trace_window import Timeline
from gpusim.traces import TraceRequest, record

CASES = ("canvas flash2", "a100 pytorch_naive", "a100 flash2", "h100 flash3")
POINTS = {
    "canvas flash2": ("canvas", AttentionWorkload(batch=1, heads=1, seqlen_q=8, seqlen_k=8, head_dim=4)),
    "a100 pytorch_naive": (
        "a100_sxm4_40gb",
        AttentionWorkload(batch=1, heads=2, seqlen_q=256, seqlen_k=256, head_dim=64),
    ),
    "a100 flash2": ("a100_sxm4_40gb", AttentionWorkload(batch=1, heads=2, seqlen_q=512, seqlen_k=512, head_dim=64)),
    "h100 flash3": ("h100_sxm5_80gb", AttentionWorkload(batch=1, heads=2, seqlen_q=512, seqlen_k=512, head_dim=128)),
}
CONSUMER_WARPGROUPS = {"h100 flash3": 2}  # of FlashAttention-3 at head dim 128; the third is the producer


@dataclass
class Slice:
    """A slice as it was read, with those that it lies in."""

    name: str
    begin_ns: int
    notes: dict[str, int | float | str]
    inside: tuple[str, ...]
    end_ns: int = -1


@dataclass
class Read:
    """A parsed trace: names of tracks from the outermost down, and what is on them."""

    paths: dict[int, tuple[str, ...]] = field(default_factory=dict)
    slices: dict[tuple[str, ...], list[Slice]] = field(default_factory=lambda: defaultdict(list))
    counters: dict[str, list[tuple[int, float]]] = field(default_factory=lambda: defaultdict(list))


@cache
def recorded(case: str, request: TraceRequest) -> tuple[PointResult, Timeline]:
    """A cold run of a small point, and what was recorded of it."""
    gpu, workload = POINTS[case]
    conditions = Conditions(timing="event", cache="cold")
    return record(Point(load_gpu(gpu), parse_request(case.split()[1], "test"), workload, conditions), request)


def everything(case: str) -> TraceRequest:
    """All SMs, for a second."""
    return TraceRequest(tuple(range(load_gpu(POINTS[case][0]).sm.count)), 0.0, 1e6)


def read(content: bytes) -> Read:
    """Reads a trace, and checks on the way that every slice ends after all that began within it."""
    trace, found = Trace(), Read()
    trace.ParseFromString(content)
    opened: dict[int, list[Slice]] = defaultdict(list)
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            assert track.uuid not in found.paths
            found.paths[track.uuid] = (*found.paths.get(track.parent_uuid, ()), track.name)
            continue
        event = packet.track_event
        path, stack = found.paths[event.track_uuid], opened[event.track_uuid]
        if event.type == TrackEvent.TYPE_COUNTER:
            found.counters[path[-1]].append((packet.timestamp, event.double_counter_value))
        elif event.type == TrackEvent.TYPE_SLICE_BEGIN:
            notes = {a.name: getattr(a, a.WhichOneof("value")) for a in event.debug_annotations}
            stack.append(Slice(event.name, packet.timestamp, notes, tuple(outer.name for outer in stack)))
            found.slices[path].append(stack[-1])
        else:
            stack.pop().end_ns = packet.timestamp
    assert all(not stack for stack in opened.values())
    return found


@cache
def whole(case: str) -> tuple[PointResult, Read]:
    """A run, and the trace of all of it."""
    result, timeline = recorded(case, everything(case))
    return result, read(trace_bytes(timeline, result))


@pytest.mark.parametrize("case", CASES)
def test_packets_are_in_order_of_time(case: str) -> None:
    """No event stands before one that comes earlier, and the descriptor of a track stands before its events."""
    result, timeline = recorded(case, everything(case))
    trace = Trace.FromString(trace_bytes(timeline, result))
    times = [packet.timestamp for packet in trace.packet if packet.HasField("track_event")]
    assert sorted(times) == times
    assert len(times) > 50


@pytest.mark.parametrize("case", CASES)
def test_slices_nest(case: str) -> None:
    """Tasks lie in holds of the pipe, those and waits in CTAs, and what lies in a slice is no longer than it."""
    _, trace = whole(case)
    for slices in trace.slices.values():
        for item in slices:
            assert item.begin_ns <= item.end_ns
            assert abs(item.notes["duration_ps"] - 1000 * (item.end_ns - item.begin_ns)) < 1000
    slots = [
        item for path, slices in trace.slices.items() if "slot" in path[-1] or "warp" in path[-1] for item in slices
    ]
    assert {0, 1, 2} == {len(item.inside) for item in slots}
    for item in slots:
        if item.name in ("load", "sync", "pipe", "compute", "store"):
            assert item.inside[0].startswith("CTA")
        elif not item.name.startswith("CTA") and item.name != "launch":
            assert "compute" == item.inside[-1]


@pytest.mark.parametrize("case", CASES)
def test_one_task_at_a_time_holds_a_compute_pipe(case: str) -> None:
    """Nothing overlaps on the track of an SM's pipe."""
    _, trace = whole(case)
    pipes = {path: slices for path, slices in trace.slices.items() if path[-1] == "compute pipe"}
    assert len(pipes) > 0
    assert {()} == {item.inside for slices in pipes.values() for item in slices}


@pytest.mark.parametrize("case", CASES)
def test_what_slots_spend_time_on_adds_up_to_the_result(case: str) -> None:
    """Kernel by kernel, slices of all SMs over all slots' time are the shares of the result; the rest is idle."""
    result, trace = whole(case)
    spent: dict[tuple[str, str], int] = defaultdict(int)
    for slices in trace.slices.values():
        for item in slices:
            if item.name in set(Stall) and "kernel" in item.notes:
                spent[item.notes["kernel"], item.name] += item.notes["duration_ps"]
    lasted = {item.name: item.notes["duration_ps"] for item in trace.slices["GPU", "kernels"]}
    num_sms = load_gpu(result.gpu).sm.count
    for kernel in result.kernels:
        assert kernel.latency_ms == lasted[kernel.name] / 1e9
        all_ps = lasted[kernel.name] * num_sms * kernel.ctas_per_sm * CONSUMER_WARPGROUPS.get(case, 1)
        shares = {kind: spent[kernel.name, kind] / all_ps for kind in Stall if kind is not Stall.IDLE}
        assert kernel.stalls == pytest.approx(shares | {Stall.IDLE: 1 - sum(shares.values())}, abs=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_counters_hold_every_byte(case: str) -> None:
    """GB/s times the time that each value holds are the bytes of the result, at HBM and asked of L2."""
    result, trace = whole(case)
    moved = {
        name: sum(value * (after - now) for (now, value), (after, _) in pairwise(points))
        for name, points in trace.counters.items()
    }
    assert result.hbm_read_bytes + result.hbm_write_bytes == pytest.approx(moved["HBM, GB/s"])
    assert result.l2_read_bytes == pytest.approx(moved["L2 reads, GB/s"])
    assert result.l2_write_bytes == pytest.approx(moved["L2 writes, GB/s"])
    assert all(points[-1][1] == 0 for points in trace.counters.values())


def test_loads_and_stores_are_all_there() -> None:
    """Canvas, 8 rows in tiles of 4: two CTAs load Q once and K and V twice, and store O; 32 bytes each."""
    _, trace = whole("canvas flash2")
    moved = [item for path, slices in trace.slices.items() if path[-1] == "loads and stores" for item in slices]
    counts = {name: sum(item.name == name for item in moved) for name in {item.name for item in moved}}
    assert {"read Q": 2, "read K": 4, "read V": 4, "write O": 2} == counts
    assert {32} == {item.notes["hbm_bytes"] for item in moved}


def test_tracks_are_sms_slots_warpgroups_and_pipes() -> None:
    """Two CTAs of FlashAttention-2 share an SM of an A100; FlashAttention-3 has two warpgroups in one CTA."""
    sm = ("SM 0",)
    fa2, fa3 = (set(whole(case)[1].paths.values()) for case in ("a100 flash2", "h100 flash3"))
    assert {sm, (*sm, "compute pipe"), (*sm, "CTA slot[0]")} <= fa2
    assert {(*sm, "CTA slot[0]", "warpgroup[0]"), (*sm, "CTA slot[0]", "warpgroup[1]")} <= fa3


def test_launches_have_a_track() -> None:
    """One before each of the seven kernels of eager attention, none of which begins before its launch has ended."""
    _, trace = whole("a100 pytorch_naive")
    launches, kernels = trace.slices["GPU", "launches"], trace.slices["GPU", "kernels"]
    assert 7 == len(launches) == len(kernels)
    assert [item.end_ns for item in launches] == [item.begin_ns for item in kernels]


def test_a_window_says_what_it_leaves_out() -> None:
    """Of the first SM and the first 10 µs: fewer events, every one counted, and sentences in the trace itself."""
    all_of_it = recorded("a100 flash2", everything("a100 flash2"))[1]
    result, timeline = recorded("a100 flash2", TraceRequest((0,), 0.0, 10.0))
    kept, total = (len(t.spans) + len(t.works) + len(t.transfers) for t in (timeline, all_of_it))
    left = timeline.left_out
    assert total == kept + left.of_other_sms + left.outside + left.beyond
    assert 0 < kept < total
    assert all(span.start_ps < 10_000_000 and span.track.startswith("sm[0].") for span in timeline.spans)
    lines = left_out_lines(timeline)
    assert f"{left.of_other_sms:,} events of SMs other than 0 (--trace-sms)" == lines[0]
    assert "outside 0:10 µs of" in lines[1]
    (about,) = read(trace_bytes(timeline, result)).slices["GPU", "about this trace"]
    assert lines == [about.notes["left_out_1"], about.notes["left_out_2"]]
    assert all_of_it.counters == timeline.counters
    assert all_of_it.kernels == timeline.kernels


def test_a_trace_of_everything_leaves_nothing_out() -> None:
    """Canvas has one SM."""
    assert [] == left_out_lines(recorded("canvas flash2", TraceRequest())[1])


def test_the_same_run_gives_the_same_bytes() -> None:
    """Recorded and written twice."""
    case = "canvas flash2"
    first = recorded.__wrapped__(case, everything(case))
    again = recorded.__wrapped__(case, everything(case))
    assert trace_bytes(first[1], first[0]) == trace_bytes(again[1], again[0])
