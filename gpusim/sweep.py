"""Points to results on a pool of local processes. Results come back in the order of the points.

The longest points start first, so that two cores finish together. A point that fails unexpectedly becomes a result with
status "error"; the rest goes on.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from joblib import Parallel, delayed

from gpusim.engine import Mode, estimated_steps
from gpusim.errors import PointError
from gpusim.implementations import plan
from gpusim.point import Point, answer, run_point
from gpusim.report.shown import ShownResult


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

    An interrupt keeps what is finished.
    """
    steps = [_steps(point) for point in points]
    order = sorted(range(len(points)), key=lambda number: -steps[number])
    finished: dict[int, Finished] = {}
    was_interrupted = False
    try:
        for number, result, wall_s in _run(points, order, workers, _Task(mode, force)):
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


def _run(
    points: Sequence[Point], order: Sequence[int], workers: int | None, task: _Task
) -> Iterator[tuple[int, ShownResult, float]]:
    processes = min(workers or os.cpu_count() or 1, len(points))
    if processes <= 1:
        yield from (task(number, points[number]) for number in order)
        return
    pool = Parallel(n_jobs=processes, batch_size=1, return_as="generator_unordered")
    with _interrupts_ignored():
        results = pool(delayed(task)(number, points[number]) for number in order)
    yield from results


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Worker processes that start meanwhile ignore Ctrl-C for good, so that only this process answers it."""
    if threading.current_thread() is not threading.main_thread():
        yield  # handlers belong to the main thread
        return
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _steps(point: Point) -> int:
    try:
        return estimated_steps(plan(point.request, point.spec, point.workload, point.conditions.stack).graph)
    except PointError:
        return 0
