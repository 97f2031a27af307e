"""Traces of a finished run: its points once more, all on SimPy with a recorder, as Perfetto traces and timelines.

The answer is the same to the last picosecond; only how it was reached is kept this time, within a window of SMs and
time. At most MOST_POINTS points are traced.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from gpusim.errors import InputError
from gpusim.extras import install_command
from gpusim.implementations import plan
from gpusim.point import Point, run_point
from gpusim.results import PointResult
from gpusim.taskgraph import Load, Store, TaskGraph
from gpusim.taskgraph.tensors import Tile
from gpusim.trace import Transfer
from gpusim.trace_window import Timeline, Window, WindowRecorder

MOST_POINTS = 16
FIRST_SMS = (0, 1)
FIRST_US = (0.0, 200.0)
_PS_PER_US = 1e6


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """Which SMs (None: the first two) and which stretch of time, in µs from the first event, a trace shows."""

    sms: tuple[int, ...] | None = None
    start_us: float = FIRST_US[0]
    end_us: float = FIRST_US[1]

    def window(self, num_sms: int) -> Window:
        """The window on a GPU of so many SMs."""
        sms = tuple(sm for sm in FIRST_SMS if sm < num_sms) if self.sms is None else self.sms
        return Window(sms, round(self.start_us * _PS_PER_US), round(self.end_us * _PS_PER_US))


def parse_trace_request(sms: str | None, window_us: str | None) -> TraceRequest:
    """What `--trace-sms 0,1` and `--trace-window-us 0:200` ask for. Raises InputError for what they cannot mean."""
    problems = []
    numbers: tuple[int, ...] | None = None
    if sms is not None:
        try:
            numbers = tuple(dict.fromkeys(int(number) for number in sms.split(",")))
        except ValueError:
            problems.append(f"--trace-sms: got '{sms}', expected numbers of SMs such as 0,1")
    if numbers is not None and min(numbers) < 0:
        problems.append(f"--trace-sms: got '{sms}', but SMs are counted from 0")
    start_us, end_us = FIRST_US
    if window_us is not None:
        start, _, end = window_us.partition(":")
        try:
            start_us, end_us = float(start), float(end)
        except ValueError:
            problems.append(f"--trace-window-us: got '{window_us}', expected START:END in µs such as 0:200")
        else:
            if not 0 <= start_us < end_us < float("inf"):
                problems.append(f"--trace-window-us: got '{window_us}', but START has to be at least 0 and below END")
    if problems:
        raise InputError("command line", problems)
    return TraceRequest(numbers, start_us, end_us)


def check_trace(request: TraceRequest, points: Sequence[Point]) -> None:
    """Raises InputError where a trace cannot be written, or is to show an SM that a GPU does not have."""
    problems = []
    if find_spec("perfetto") is None:
        problems.append(f"--trace: needs the package perfetto, which is not installed; {install_command('trace')}")
    counts = {point.spec.name: point.spec.sm.count for point in points}
    for gpu, count in counts.items():
        beyond = [str(sm) for sm in request.sms or () if sm >= count]
        if beyond:
            problems.append(f"--trace-sms: got {', '.join(beyond)}, but the last SM of {gpu} is {count - 1}")
    if problems:
        raise InputError("command line", problems)


@dataclass(frozen=True, slots=True)
class Traced:
    """One traced point: its place in the run counted from 1, its files by name, and what they do not show."""

    number: int
    files: dict[str, bytes]
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Untraced:
    """A point that was not traced, and why."""

    number: int
    reason: str


def trace_points(
    points: Sequence[Point],
    results: Sequence[PointResult],
    request: TraceRequest,
    *,
    force: bool = False,
    on_done: Callable[[], None] = lambda: None,
) -> Iterator[Traced | Untraced]:
    """Traces the points of a run whose results are ok, one after another; `on_done` is called after each."""
    from gpusim.report.perfetto import left_out_lines, trace_bytes
    from gpusim.report.timeline import timeline_png

    is_single = len(points) == 1
    ok = [place for place, result in enumerate(results) if result.status == "ok"]
    for place in ok[:MOST_POINTS]:
        result, timeline = record(points[place], request, force=force)
        if timeline is None:
            yield Untraced(place + 1, f"{result.reason}; {result.fix}")
        else:
            suffix = "" if is_single else f"-{place + 1}"
            files = {
                f"trace{suffix}.pftrace": trace_bytes(timeline, result),
                f"timeline{suffix}.png": timeline_png(timeline, result),
            }
            idle = [] if request.sms is None else [f"SM {sm} ran no CTA (--trace-sms)" for sm in timeline.idle_sms]
            yield Traced(place + 1, files, (*idle, *(f"left out: {line}" for line in left_out_lines(timeline))))
        on_done()
    for place in ok[MOST_POINTS:]:
        yield Untraced(place + 1, f"a run traces {MOST_POINTS} points at most; run this one alone")


def record(point: Point, request: TraceRequest, *, force: bool = False) -> tuple[PointResult, Timeline | None]:
    """The result of a point and what happened, None where it was not simulated."""
    size_bytes: Callable[[Transfer], int] | None = None

    def size_of(transfer: Transfer) -> int:
        nonlocal size_bytes
        if size_bytes is None:
            size_bytes = block_sizes(plan(point.request, point.spec, point.workload, point.conditions.stack).graph)
        return size_bytes(transfer)

    recorder = WindowRecorder(request.window(point.spec.sm.count), size_of)
    result = run_point(point, mode="exhaustive", force=force, recorder=recorder)
    return result, recorder.timeline() if result.status == "ok" else None


def block_sizes(graph: TaskGraph) -> Callable[[Transfer], int]:
    """How many bytes a load or store of this graph asks of L2; the CTAs of a cluster share out what is multicast."""
    blocks: dict[tuple[str, str, str], tuple[Tile, int]] = {}
    for kernel in graph.kernels:
        for task in kernel.tasks():
            match task.op:
                case Load(tile=tile, shared_by=shared_by):
                    blocks[kernel.name, "read", tile.tensor.name] = tile, shared_by
                case Store(tile=tile):
                    blocks[kernel.name, "write", tile.tensor.name] = tile, 1

    extents = {key: (tile.row_extents(), tile.col_extents()) for key, (tile, _) in blocks.items()}

    def size_bytes(transfer: Transfer) -> int:
        key = transfer.kernel, transfer.direction, transfer.tensor
        (tile, shared_by), (rows, cols) = blocks[key], extents[key]
        return rows[transfer.row] * cols[transfer.col] * tile.tensor.element_bytes // shared_by

    return size_bytes
