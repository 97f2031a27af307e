"""The building block: one request after another, in arrival order."""

from gpusim.hardware import book
from gpusim.hardware.state import Repeated


def test_an_idle_pipe_starts_at_once(repeated: Repeated) -> None:
    """Arrive at 10, hold it for 5, done at 15."""
    assert 15 == book(repeated(0, 1), 0, 10, 5)


def test_a_second_request_waits_for_the_first_to_leave(repeated: Repeated) -> None:
    """Arriving one tick before the pipe is free waits one tick; arriving when it is free does not wait."""
    early, late = repeated(0, 1), repeated(0, 1)
    book(early, 0, 0, 10)
    book(late, 0, 0, 10)
    assert 13 == book(early, 0, 9, 3)
    assert 13 == book(late, 0, 10, 3)


def test_requests_leave_in_arrival_order(repeated: Repeated) -> None:
    """Three requests of 7, 2 and 4 ps at time 0 end at 7, 9 and 13."""
    pipe = repeated(0, 1)
    assert [7, 9, 13] == [book(pipe, 0, 0, duration) for duration in (7, 2, 4)]


def test_a_pause_is_not_made_up_for(repeated: Repeated) -> None:
    """Two requests of 5 with a pause of 90 between them: the pipe is free at 5, and then at 105."""
    pipe = repeated(0, 1)
    assert [5, 105] == [book(pipe, 0, now, 5) for now in (0, 100)]
    assert [105] == list(pipe)


def test_pipes_side_by_side_do_not_wait_for_each_other(repeated: Repeated) -> None:
    """Pipe 1 is busy until 10; pipes 0 and 2 are not."""
    pipes = repeated(0, 3)
    book(pipes, 1, 0, 10)
    assert [4, 14, 4] == [book(pipes, number, 0, 4) for number in range(3)]
