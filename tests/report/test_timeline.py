"""One SM over time: the phases of a CTA, rows and headings of the picture, and its bytes."""

import struct
from functools import cache

import matplotlib
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gpusim import AttentionWorkload, Conditions, Point, PointResult, load_gpu, parse_request
from gpusim.report.timeline import Phases, phases_of, timeline_figure, timeline_png
from gpusim.trace import Work
from gpusim.trace_window import CtaLife, Timeline
from gpusim.traces import TraceRequest, record

TRACK = "sm[0].slot[0]"
CTA = CtaLife(TRACK, "k", (0,), 10, 100)


@cache
def recorded(gpu: str, name: str, seqlen: int, head_dim: int, heads: int = 16) -> tuple[PointResult, Timeline]:
    """A run, and its first two SMs."""
    work = AttentionWorkload(batch=1, heads=heads, seqlen_q=seqlen, seqlen_k=seqlen, head_dim=head_dim)
    return record(Point(load_gpu(gpu), parse_request(name, "test"), work, Conditions()), TraceRequest())


def figure_of(gpu: str, name: str, seqlen: int, head_dim: int) -> Figure:
    """Its picture."""
    result, timeline = recorded(gpu, name, seqlen, head_dim)
    return timeline_figure(timeline, result)


def rows(axes: Axes) -> list[str]:
    """Names of the rows, from the top."""
    return [label.get_text() for label in axes.get_yticklabels()]


def headings(figure: Figure) -> list[str]:
    """What stands over the axes."""
    return [axes.get_title(loc="left") for axes in figure.axes]


def task(name: str, start_ps: int, end_ps: int, cta: tuple[int, ...] = (0,)) -> Work:
    """A task of a CTA."""
    return Work(TRACK, "k", cta, name, start_ps, end_ps)


def test_the_main_loop_is_what_a_cta_does_more_than_once() -> None:
    """A prologue of 20, S and PV three times from 30 to 90, and O / ℓ behind them; other CTAs do not count."""
    steps = [task(name, start, start + 10) for start in (30, 50, 70) for name in ("S", "PV")]
    works = [*steps, task("scale", 20, 30), task("PV", 80, 90), task("O / ℓ", 90, 95), task("S", 95, 99, cta=(1,))]
    assert Phases(10, 30, 90, 100, 4) == phases_of(CTA, works)


def test_without_a_loop_the_middle_is_all_the_work() -> None:
    """Two tasks, once each."""
    phases = phases_of(CTA, [task("softmax", 40, 60), task("epilogue", 60, 70)])
    assert Phases(10, 40, 70, 100, 1) == phases
    assert 30 == phases.step_ps


def test_a_cta_without_work_has_no_phases() -> None:
    """Nothing of it was kept."""
    assert phases_of(CTA, [task("S", 200, 210), task("S", 20, 30, cta=(1,))]) is None


def test_prologue_main_loop_and_epilogue_stand_side_by_side() -> None:
    """FlashAttention-2 over 2,048 keys in tiles of 128 on an A100: 16 iterations, two CTAs on the SM."""
    figure = figure_of("a100_sxm4_40gb", "flash2", 2048, 64)
    assert "SM 0 over time" in figure.get_suptitle()
    _, prologue, loop, epilogue = headings(figure)
    assert prologue.startswith("prologue ")
    assert loop.startswith("main loop ")
    assert loop.endswith(", 16 iterations")
    assert epilogue.startswith("epilogue ")
    whole, first, *_ = figure.axes
    assert ["slot 0", "slot 1"] == rows(whole)
    assert ["compute pipe", "slot 0", "slot 1", "load Q", "load K", "load V", "store O"] == rows(first)


def test_close_ups_share_one_scale_and_are_in_order() -> None:
    """As wide as one another in µs, and none begins before the one on its left."""
    close_ups = figure_of("a100_sxm4_40gb", "flash2", 2048, 64).axes[1:]
    limits = [axes.get_xlim() for axes in close_ups]
    widths = [end - start for start, end in limits]
    assert [widths[0]] * 3 == pytest.approx(widths)
    assert sorted(limits) == limits


def test_warpgroups_have_rows_of_their_own() -> None:
    """The two consumers of FlashAttention-3."""
    whole = figure_of("h100_sxm5_80gb", "flash3", 2048, 128).axes[0]
    assert ["slot 0, warpgroup 0", "slot 0, warpgroup 1"] == rows(whole)


def test_a_short_cta_is_shown_whole() -> None:
    """Two iterations on canvas: one close-up that names the three phases."""
    result, timeline = recorded("canvas", "flash2", 8, 4, 1)
    _, whole = headings(timeline_figure(timeline, result))
    assert ["prologue", "main loop", "epilogue"] == [
        part.rsplit(" ", 2)[0] for part in whole.replace(", 2 iterations", "").split(" · ")
    ]


def test_every_bar_of_the_picture_is_explained() -> None:
    """States that occur, and every task by name."""
    result, timeline = recorded("a100_sxm4_40gb", "flash2", 2048, 64)
    (legend,) = timeline_figure(timeline, result).legends
    texts = {text.get_text() for text in legend.get_texts()}
    assert {"on the compute pipe", "waiting for the pipe", "waiting for tiles"} <= texts
    assert {f"pipe: {work.task}" for work in timeline.works} <= texts


def test_a_window_without_a_whole_cta_says_so() -> None:
    """The first nanosecond of the run."""
    work = AttentionWorkload(batch=1, heads=1, seqlen_q=8, seqlen_k=8, head_dim=4)
    point = Point(load_gpu("canvas"), parse_request("flash2", "test"), work, Conditions())
    result, timeline = record(point, TraceRequest((0,), 0.0, 0.001))
    (axes,) = timeline_figure(timeline, result).axes
    assert ["no CTA was recorded whole in this window"] == [text.get_text() for text in axes.texts]


def test_the_png_is_of_the_promised_size_whatever_the_users_settings() -> None:
    """1,200 × 800 pixels, and the same bytes again."""
    result, timeline = recorded("canvas", "flash2", 8, 4, 1)
    plain = timeline_png(timeline, result)
    assert (1200, 800) == struct.unpack(">II", plain[16:24])
    with matplotlib.rc_context({"font.size": 30, "hatch.linewidth": 9}):
        assert plain == timeline_png(timeline, result)
