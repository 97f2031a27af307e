"""The building block: one request after another, in arrival order."""

from gpusim.hardware import Pipe


def test_an_idle_pipe_starts_at_once() -> None:
    """Arrive at 10, hold it for 5, done at 15."""
    assert 15 == Pipe().book(10, 5)


def test_a_second_request_waits_for_the_first_to_leave() -> None:
    """Arriving one tick before the pipe is free waits one tick; arriving when it is free does not wait."""
    early, late = Pipe(), Pipe()
    early.book(0, 10)
    late.book(0, 10)
    assert 13 == early.book(9, 3)
    assert 13 == late.book(10, 3)


def test_requests_leave_in_arrival_order() -> None:
    """Three requests of 7, 2 and 4 ps at time 0 end at 7, 9 and 13."""
    pipe = Pipe()
    assert [7, 9, 13] == [pipe.book(0, duration) for duration in (7, 2, 4)]


def test_busy_time_is_work_not_waiting() -> None:
    """Two requests of 5 with a pause of 90 between them: 10 busy, free at 105."""
    pipe = Pipe()
    pipe.book(0, 5)
    pipe.book(100, 5)
    assert (10, 105) == (pipe.busy_ps, pipe.free_ps)
