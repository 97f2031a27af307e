"""Points to results on a pool of local processes. Results come back in the order of the points.

Every core but one starts with a long point and the last takes the short ones, so that the cores finish close together
and an interrupted sweep has something to keep. A point that fails unexpectedly becomes a result with status "error";
the rest goes on. Ctrl-C and SIGTERM stop a sweep at once, even within a point, and worker processes end with it.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from types import FrameType

from joblib import Parallel, delayed

from gpusim.engine import Mode, estimated_steps
from gpusim.errors import PointError
from gpusim.implementations import plan
from gpusim.point import Point, answer, run_point
from gpusim.report.shown import ShownResult

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PARENT_CHECK_S = 0.5


@dataclass(frozen=True, slots=True)
class Finished:
    """The point with this number in the sweep: its result, how long it took in seconds, its loop steps."""

    number: int
    result: ShownResult
    wall_s: float
    steps: int


@dataclass(frozen=True, slots=True)
class Sweep:
    """Finished points in order, with gaps where the user stopped before the last (`was_interrupted`)."""

    finished: tuple[Finished, ...]
    was_interrupted: bool

    @property
    def results(self) -> tuple[ShownResult, ...]:
        """The results alone."""
        return tuple(item.result for item in self.finished)


def run_sweep(
    points: Sequence[Point],
    *,
    workers: int | None = None,
    mode: Mode = "auto",
    force: bool = False,
    on_done: Callable[[], None] = lambda: None,
) -> Sweep:
    """Runs every point on `workers` processes (None: all cores); `on_done` is called after each.

    An interrupt keeps what is finished; SIGTERM counts as one.
    """
    steps = [_steps(point) for point in points]
    processes = min(workers or os.cpu_count() or 1, len(points))
    order = starting_order(steps, processes)
    finished: dict[int, Finished] = {}
    was_interrupted = False
    try:
        with _terminate_interrupts():
            for number, result, wall_s in _run(points, order, processes, _Task(mode, force)):
                finished[number] = Finished(number, result, wall_s, steps[number] if result.status == "ok" else 0)
                on_done()
    except KeyboardInterrupt:
        was_interrupted = True
    return Sweep(tuple(finished[number] for number in sorted(finished)), was_interrupted)


@dataclass(frozen=True, slots=True)
class _Task:
    """Runs a numbered point and times it in seconds; travels to worker processes."""

    mode: Mode
    force: bool

    def __call__(self, number: int, point: Point) -> tuple[int, ShownResult, float]:
        begin = time.perf_counter()
        try:
            result = run_point(point, mode=self.mode, force=self.force)
        except Exception as error:  # the sweep outlives a bug in one point; the result carries it
            result = answer(
                point, status="error", reason=f"{type(error).__name__}: {error}", fix="report it with this scenario"
            )
        return number, result, time.perf_counter() - begin


def starting_order(steps: Sequence[int], processes: int) -> list[int]:
    """Numbers of points in the order they start: the longest on every process but one, then the shortest first."""
    ascending = sorted(range(len(steps)), key=lambda number: steps[number])
    kept_busy = max(0, processes - 1)
    split = len(ascending) - kept_busy
    return ascending[split:][::-1] + ascending[:split]


def _run(
    points: Sequence[Point], order: Sequence[int], processes: int, task: _Task
) -> Iterator[tuple[int, ShownResult, float]]:
    if processes <= 1:
        yield from _run_here(points, order, task)
        return
    # joblib waits in this process, and kills the workers when the generator is left before its end
    pool = Parallel(
        n_jobs=processes,
        batch_size=1,
        return_as="generator_unordered",
        initializer=_end_with_parent,
        initargs=(os.getpid(),),
    )
    with _interrupts_ignored():
        results = pool(delayed(task)(number, points[number]) for number in order)
    yield from results


def _run_here(points: Sequence[Point], order: Sequence[int], task: _Task) -> Iterator[tuple[int, ShownResult, float]]:
    """One point after the other on a thread: the main thread can answer a signal while machine code runs."""
    done: SimpleQueue[tuple[int, ShownResult, float] | BaseException] = SimpleQueue()

    def run(number: int) -> None:
        try:
            done.put(task(number, points[number]))
        except BaseException as fault:  # raised again where somebody waits for the point
            done.put(fault)

    for number in order:
        threading.Thread(target=run, args=(number,), daemon=True).start()
        found = done.get()
        if isinstance(found, BaseException):
            raise found
        yield found


def _end_with_parent(parent: int) -> None:
    """Ends this worker process, in the middle of a point if need be, when its parent is gone without a word."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_CHECK_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _terminate_interrupts() -> Iterator[None]:
    """SIGTERM meanwhile is an interrupt like Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield  # handlers belong to the main thread
        return

    def interrupt(signum: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    handler = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Worker processes that start meanwhile ignore Ctrl-C and SIGTERM for good: only this process answers them."""
    if threading.current_thread() is not threading.main_thread():
        yield  # handlers belong to the main thread
        return
    handlers = [(number, signal.signal(number, signal.SIG_IGN)) for number in _STOP_SIGNALS]
    try:
        yield
    finally:
        for number, handler in handlers:
            signal.signal(number, handler)


def _steps(point: Point) -> int:
    try:
        return estimated_steps(plan(point.request, point.spec, point.workload, point.conditions.stack).graph)
    except PointError:
        return 0
