"""What a windowed recorder keeps, counts and leaves out, on events made by hand."""

from hypothesis import given
from hypothesis import strategies as st

from gpusim.trace import Stall, Transfer, Work
from gpusim.trace_window import MOST_BINS, Bins, CtaLife, Timeline, Window, WindowRecorder

TRACK, OTHER = "sm[0].slot[0]", "sm[1].slot[0]"
SPANS = st.lists(st.tuples(st.integers(0, 10**8), st.integers(0, 10**6), st.integers(0, 10**6)), max_size=30)


def load(
    asked_ps: int, end_ps: int, *, cta: tuple[int, ...] = (0,), track: str = TRACK, hbm_bytes: int = 64
) -> Transfer:
    """A load of a block that keeps HBM busy in its first half."""
    bus_end_ps = (asked_ps + end_ps) // 2
    return Transfer(track, "k", cta, "read", "K", 0, 0, 0, asked_ps, asked_ps, bus_end_ps, end_ps, hbm_bytes)


def recorder(*, sms: tuple[int, ...] = (0,), start_ps: int = 0, end_ps: int = 10**9, most: int = 100) -> WindowRecorder:
    """One to which every load asks for 100 bytes."""
    return WindowRecorder(Window(sms, start_ps, end_ps, most), lambda _: 100)


def two_ctas(recorder: WindowRecorder, offset_ps: int) -> Timeline:
    """A launch to 10, a CTA that loads to 30 and computes to 50, one without a launch that loads to 70 and on to 90."""
    at = [offset_ps + time_ps for time_ps in (0, 10, 30, 50, 70, 90)]
    recorder.span(TRACK, "k", Stall.LAUNCH, at[0], at[1])
    for cta, begin in ((0,), 1), ((1,), 3):
        recorder.transfer(load(at[begin], at[begin + 1], cta=cta))
        recorder.span(TRACK, "k", Stall.LOAD, at[begin], at[begin + 1])
        recorder.span(TRACK, "k", Stall.COMPUTE, at[begin + 1], at[begin + 2])
        recorder.work(Work(TRACK, "k", cta, "S", at[begin + 1], at[begin + 2]))
    return recorder.timeline()


@given(SPANS)
def test_bins_lose_nothing(spans: list[tuple[int, int, int]]) -> None:
    """However the bins widen, they are few and together hold every amount."""
    bins = Bins()
    for start_ps, length_ps, amount in spans:
        bins.add(start_ps, start_ps + length_ps, amount)
    assert sum(amount for _, _, amount in spans) == sum(bins.amounts)
    assert MOST_BINS >= len(bins.amounts)


def test_an_amount_is_spread_over_its_time() -> None:
    """100 from 500 to 2,500 ps in bins of 1,000: a quarter, a half, a quarter; beyond the last bin, bins double."""
    bins = Bins()
    bins.add(500, 2_500, 100)
    assert [25, 50, 25] == bins.amounts
    bins.add(1_000_000, 1_000_001, 7)
    assert 2_000 == bins.width_ps
    assert [75, 25] == bins.amounts[:2]
    assert 7 == bins.amounts[500]


def test_times_count_from_the_first_event() -> None:
    """The second run of a warm cache begins late; its timeline does not."""
    assert two_ctas(recorder(), 0) == two_ctas(recorder(), 123_456)


def test_ctas_lie_end_to_end() -> None:
    """The first begins with the end of its launch, the next, of a persistent grid, where the first ends."""
    lives = two_ctas(recorder(), 0).ctas
    assert (CtaLife(TRACK, "k", (0,), 10, 50), CtaLife(TRACK, "k", (1,), 50, 90)) == lives


def test_a_kernel_lasts_from_its_first_launch_to_its_last_store() -> None:
    """A store that is accepted after all spans have ended still belongs to it; idle slots are in no sum."""
    heard = recorder()
    heard.span(TRACK, "k", Stall.LAUNCH, 100, 110)
    heard.span(TRACK, "k", Stall.COMPUTE, 110, 150)
    heard.transfer(Transfer(TRACK, "k", (0,), "write", "O", 0, 0, 0, 150, 150, 170, 180, 32))
    (kernel,) = heard.timeline().kernels
    assert (0, 80) == (kernel.start_ps, kernel.end_ps)
    assert {Stall.LAUNCH: 10, Stall.COMPUTE: 40} == kernel.spent_ps


def test_what_overlaps_the_window_is_kept_whole() -> None:
    """40 to 60 shows the hold that ends at 50, its task, the next load with its wait, and both CTAs."""
    timeline = two_ctas(recorder(start_ps=40, end_ps=60), 0)
    assert [(30, 50), (50, 70)] == [(span.start_ps, span.end_ps) for span in timeline.spans]
    assert [50] == [transfer.asked_ps for transfer in timeline.transfers]
    assert [(0,), (1,)] == [life.cta for life in timeline.ctas]
    assert 5 == timeline.left_out.outside


def test_other_sms_are_counted_and_not_kept() -> None:
    """Their bytes are in the counters all the same."""
    heard = recorder()
    heard.transfer(load(0, 100))
    heard.transfer(load(0, 100, track=OTHER))
    timeline = heard.timeline()
    assert (1, 1) == (len(timeline.transfers), timeline.left_out.of_other_sms)
    assert (200, 128) == (sum(timeline.counters.read.amounts), sum(timeline.counters.hbm.amounts))
    assert 100 * 100 * 2 == sum(timeline.counters.in_flight.amounts)


def test_no_more_than_the_most_events_are_kept() -> None:
    """Two of nine: the rest is counted, from the time of the first that found no room."""
    timeline = two_ctas(recorder(most=2), 0)
    assert 2 == len(timeline.spans) + len(timeline.works) + len(timeline.transfers)
    assert (7, 10) == (timeline.left_out.beyond, timeline.left_out.full_ps)


def test_tasks_that_take_no_time_are_not_kept() -> None:
    """Setting a start value is free; it still says which CTA its track is at."""
    heard = recorder()
    heard.work(Work(TRACK, "k", (3,), "O = 0", 5, 5))
    heard.span(TRACK, "k", Stall.LOAD, 5, 9)
    timeline = heard.timeline()
    assert () == timeline.works
    assert (CtaLife(TRACK, "k", (3,), 0, 4),) == timeline.ctas
