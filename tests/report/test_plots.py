"""Plots: nothing is dropped, names and units are on them, and equal input gives equal bytes."""

import struct
from collections.abc import Callable
from io import BytesIO

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.lines import Line2D

from gpusim.report.plots import error_figure, error_png, latency_figure, latency_png, traffic_figure, traffic_png
from gpusim.report.series import MeasuredPoint
from gpusim.results import PointResult

PointMaker = Callable[..., PointResult]
LENGTHS = tuple(128 << step for step in range(8))


@pytest.fixture
def points(make_point: PointMaker, make_refusal: PointMaker) -> list[PointResult]:
    """Naive attention that runs out of memory at the end, a schedule that always runs, and one that never does."""
    naive = [make_point("pytorch_naive", seqlen) for seqlen in LENGTHS[:-1]]
    naive.append(make_refusal("pytorch_naive", LENGTHS[-1], status="out_of_memory"))
    flash = [make_point("flash2", seqlen, latency_ms=seqlen / 5000) for seqlen in LENGTHS]
    custom = [make_refusal("custom", seqlen, schedule="flash2") for seqlen in LENGTHS]
    return [*naive, *flash, *custom]


MEASURED = [
    MeasuredPoint("pytorch_naive", "a paper", 1024, 1.1, 2e6),
    MeasuredPoint("flash1", "a paper", 512, 0.3, 1e6),
]


ERRORS = {
    "flash2 a100_sxm4_40gb": [(0.1, 0.05), (1.0, -0.15), (10.0, 0.1)],
    "flash2 h100_sxm5_80gb": [(0.5, 1.5)],
    "flash1 a100_sxm4_40gb": [(2.0, -0.5)],
}


def legend_texts(figure: Figure) -> list[str]:
    """What the legend says, entry by entry."""
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def drawn(line: Line2D) -> list[tuple[float, float]]:
    """The points of a line or mark, in data coordinates."""
    return list(zip(np.asarray(line.get_xdata()), np.asarray(line.get_ydata()), strict=True))


def colours(figure: Figure) -> dict[str, str]:
    """Legend entry to colour."""
    (legend,) = figure.legends
    names = (text.get_text().split(":")[0] for text in legend.get_texts())
    return {name: to_hex(line.get_color()) for name, line in zip(names, legend.get_lines(), strict=True)}


def test_pngs_are_1200_by_800_pixels(points: list[PointResult]) -> None:
    """Both plots decode, at the promised size."""
    for content in (latency_png(points, MEASURED, {}), traffic_png(points, MEASURED)):
        assert struct.unpack(">II", content[16:24]) == (1200, 800)
        assert imread(BytesIO(content), format="png").shape[:2] == (800, 1200)


def test_equal_input_gives_equal_bytes_whatever_the_users_settings(points: list[PointResult]) -> None:
    """A matplotlibrc of the user changes nothing, and no date or version is written."""
    plain = latency_png(points, MEASURED, {}), traffic_png(points, MEASURED)
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "black", "lines.linewidth": 9}):
        assert (latency_png(points, MEASURED, {}), traffic_png(points, MEASURED)) == plain
    assert all(b"tEXt" not in content for content in plain)


def test_points_that_were_not_run_are_marked_and_explained(points: list[PointResult]) -> None:
    """Every refused or out-of-memory length has a mark in its series' row, and the legend explains the marks."""
    for figure in (latency_figure(points, [], {}), traffic_figure(points, [])):
        strip, _ = figure.axes
        assert [label.get_text() for label in strip.get_yticklabels()] == ["pytorch_naive", "flash2 (custom)"]
        marks = [(*drawn(line)[0], line.get_marker()) for line in strip.get_lines()]
        assert (LENGTHS[-1], 0, "x") in marks
        assert [seqlen for seqlen, row, _ in marks if row == 1] == list(LENGTHS)
        assert {"out of memory", "refused: does not fit"} <= set(legend_texts(figure))


def test_without_a_refusal_there_is_no_strip(make_point: PointMaker) -> None:
    """One set of axes, and nothing about memory in the legend."""
    figure = latency_figure([make_point()], [], {})
    assert len(figure.axes) == 1
    assert legend_texts(figure) == ["flash2"]


def test_the_legend_carries_errors_and_sources(points: list[PointResult]) -> None:
    """A measured series says its mean error and count, another that it is not measured; hollow marks are named."""
    texts = legend_texts(latency_figure(points, MEASURED, {"pytorch_naive": (7.34, 5)}))
    assert texts[:2] == ["pytorch_naive: mean |error| 7.3 % over 5", "flash2: not measured"]
    assert {"flash1: measured only", "hollow: measured, a paper"} <= set(texts)


def test_a_series_has_one_colour_in_both_plots(points: list[PointResult]) -> None:
    """Colour follows the implementation, not the plot."""
    latency, traffic = colours(latency_figure(points, [], {})), colours(traffic_figure(points, []))
    assert latency == traffic
    assert latency["pytorch_naive"] != latency["flash2"]


def test_gpus_differ_by_dash_and_share_the_colour(make_point: PointMaker) -> None:
    """Two GPUs of one implementation: same colour, other line style."""
    points = [make_point(seqlen=seqlen, gpu=gpu) for gpu in ("a100", "h100") for seqlen in (128, 256)]
    first, second = latency_figure(points, [], {}).axes[0].get_lines()
    assert first.get_color() == second.get_color()
    assert (first.is_dashed(), second.is_dashed()) == (False, True)


def test_the_title_names_gpu_and_shape(points: list[PointResult]) -> None:
    """GPU, pass, dtype, batch, heads, head dim and causality stand above the plot."""
    text = " ".join(text.get_text() for text in latency_figure(points, [], {}).texts)
    assert "a100_sxm4_40gb · fwd fp16 · batch 16 · heads 8 · head dim 64 · not causal" in text


def test_axes_have_units_and_powers_of_two(points: list[PointResult]) -> None:
    """Lengths are ticked 128, 256, 512, 1k … 16k; latency is in ms; traffic is in decimal bytes."""
    latency, traffic = latency_figure(points, [], {}).axes[-1], traffic_figure(points, []).axes[-1]
    ticks = [label.get_text() for label in latency.get_xticklabels()]
    assert ticks == ["128", "256", "512", "1k", "2k", "4k", "8k", "16k"]
    assert (latency.get_xlabel(), latency.get_ylabel()) == ("sequence length N, tokens", "latency, ms")
    assert "10 MB" in [label.get_text() for label in traffic.get_yticklabels()]


def test_lines_hold_the_values(make_point: PointMaker) -> None:
    """Latency is drawn as it is in the result, traffic as the sum of both directions."""
    point = make_point(seqlen=256, latency_ms=0.5, hbm_read_bytes=1000, hbm_write_bytes=24)
    (latency,) = latency_figure([point], [], {}).axes[0].get_lines()
    (traffic,) = traffic_figure([point], []).axes[0].get_lines()
    assert drawn(latency) == [(256, 0.5)]
    assert drawn(traffic) == [(256, 1024)]


def test_zero_traffic_is_marked_at_the_edge(make_point: PointMaker) -> None:
    """A warm cache can leave HBM idle; a logarithmic axis has no zero, so the mark stands at its edge."""
    points = [make_point(seqlen=128, hbm_read_bytes=0, hbm_write_bytes=0), make_point(seqlen=256)]
    assert "at the edge: 0 bytes" in legend_texts(traffic_figure(points, []))


def test_compulsory_traffic_is_a_line_of_its_own(make_point: PointMaker) -> None:
    """The floor is drawn at the given bytes."""
    figure = traffic_figure([make_point()], [], compulsory={2048: 4096, 1024: 2048})
    floor = next(line for line in figure.axes[0].get_lines() if str(line.get_label()).startswith("compulsory"))
    assert drawn(floor) == [(1024, 2048), (2048, 4096)]


def test_errors_stand_over_their_measured_latency() -> None:
    """In percent, and where they belong; what lies beyond the axis is drawn at 100 % and counted as it is."""
    figure = error_figure(ERRORS)
    marks = {str(line.get_label()).split(":")[0]: drawn(line) for line in figure.axes[0].get_lines()}
    assert marks["flash2 a100_sxm4_40gb"] == [(0.1, 5), (1, -15), (10, 10)]
    assert marks["flash2 h100_sxm5_80gb"] == [(0.5, 100)]
    assert legend_texts(figure) == [
        "flash2 a100_sxm4_40gb: 10.0 %, n 3",
        "flash2 h100_sxm5_80gb: 150.0 %, n 1",
        "flash1 a100_sxm4_40gb: 50.0 %, n 1",
        "arrow: beyond ±100 %, drawn at the edge (1)",
    ]
    assert any("5 measured rows" in text.get_text() for text in figure.texts)


def test_errors_share_one_axis_in_all_plots() -> None:
    """The axis reaches as far below zero as above, whatever the errors are."""
    for series in (ERRORS, {}, {"flash2 a100": [(1.0, 0.01)]}):
        axes = error_figure(series).axes[0]
        labels = [label.get_text() for label in axes.get_yticklabels()]
        assert (labels[0], labels[4], labels[-1]) == ("−100", "0", "+100")
        low, high = axes.get_ylim()
        assert low == -high


def test_error_marks_differ_by_implementation_and_by_gpu() -> None:
    """Colour and shape follow the implementation, the fill follows the GPU; 40 implementations have 40 looks."""
    first, second, other = (line for line in error_figure(ERRORS).axes[0].get_lines() if ":" in str(line.get_label()))
    assert (first.get_color(), first.get_marker()) == (second.get_color(), second.get_marker())
    assert first.get_fillstyle() != second.get_fillstyle()
    assert first.get_color() != other.get_color()
    many = error_figure({f"kernel{number} a100": [(1.0, 0.0)] for number in range(40)}).axes[0].get_lines()
    looks = {(line.get_color(), line.get_marker()) for line in many if ":" in str(line.get_label())}
    assert len(looks) == 40


@pytest.mark.parametrize("count", [1, 8, 30])
def test_legends_stay_inside_the_picture(make_point: PointMaker, count: int) -> None:
    """Long names take smaller letters or fewer columns, and are not cut off."""
    names = [f"xformers_memory_efficient_{number}" for number in range(count)]
    points = [make_point(name) for name in names]
    errors = dict.fromkeys(names, (123.4, 1234))
    series = {f"{name} a100_sxm4_40gb": [(1.0, 1.5)] for name in names}
    for figure in (latency_figure(points, [], errors), error_figure(series)):
        figure.savefig(BytesIO(), format="png")
        box = figure.legends[0].get_window_extent()
        assert 0 <= box.x0
        assert box.x1 <= 1200


def test_error_pngs_are_deterministic_and_of_the_promised_size() -> None:
    """1,200 × 800 pixels, and the same bytes under any settings of the user."""
    plain = error_png(ERRORS)
    assert struct.unpack(">II", plain[16:24]) == (1200, 800)
    with matplotlib.rc_context({"font.size": 30, "lines.markersize": 30}):
        assert error_png(ERRORS) == plain


@pytest.mark.parametrize("series", [{}, {"flash2 a100": []}])
def test_a_plot_of_no_errors_says_so(series: dict[str, list[tuple[float, float]]]) -> None:
    """Nothing simulated is a sentence, not an error."""
    assert error_png(series)
    figure = error_figure(series)
    assert "no row was simulated" in [text.get_text() for text in figure.axes[0].texts]
    assert legend_texts(figure) == []


@pytest.mark.parametrize("count", [0, 1])
def test_plots_without_any_value_still_say_so(make_refusal: PointMaker, count: int) -> None:
    """No ok point, or no point at all, gives a picture with a sentence instead of an error."""
    points = [make_refusal()] * count
    assert latency_png(points, [], {})
    assert traffic_png(points, [])
    texts = [text.get_text() for text in latency_figure(points, [], {}).axes[-1].texts]
    assert texts == ["nothing to show here: no point has a value"]


def test_a_product_is_drawn_against_what_varies() -> None:
    """Title, label and heading speak of its sides, and points lie at their inner dimension."""
    head = {"gpu": "a100_sxm4_40gb", "schedule": "gemm", "implementation": "torch_matmul", "version": None}
    asked = {"dtype": "bf16", "sm_clock_mhz": None, "timing": "ncu", "cache": "cold", "stack": None, "status": "ok"}
    shape = {"batch": 1, "m": 4096, "n": 2048, "latency_ms": 0.5}
    points = [PointResult.model_validate(head | asked | shape | {"k": k}) for k in (64, 128)]
    figure = latency_figure(points, [], {})
    (axes,) = figure.axes
    assert ("inner dimension, K", ["64", "128"]) == (
        axes.get_xlabel(),
        [label.get_text() for label in axes.get_xticklabels() if label.get_text() in ("64", "128")],
    )
    assert [(64, 0.5), (128, 0.5)] == drawn(axes.get_lines()[0])
    assert figure.get_suptitle().startswith("Latency against inner dimension")
    text = " ".join(text.get_text() for text in figure.texts)
    assert "a100_sxm4_40gb · bf16 · batch 1 · m 4,096 · n 2,048" in text


def test_the_heading_says_what_was_set_and_leaves_it_to_the_lines_where_it_differs(make_point: PointMaker) -> None:
    """One machine with what was set on it; of several only the GPU, once."""
    plain, changed = make_point(), make_point(overrides="sm.clock_hz=1e9")
    headings = [
        " ".join(text.get_text() for text in latency_figure(points, [], {}).texts)
        for points in ([changed], [plain, changed])
    ]
    assert "a100_sxm4_40gb with sm.clock_hz=1e9 · fwd fp16" in headings[0]
    assert "a100_sxm4_40gb · fwd fp16" in headings[1]


def test_a_long_heading_is_written_on_lines_that_fit(make_point: PointMaker) -> None:
    """Ten fields set: no line is longer than 150 letters, and every word is there."""
    words = [f"memory.hbm.field_{number}=1.5e12" for number in range(10)]
    figure = latency_figure([make_point(overrides=" ".join(words))], [], {})
    (setting,) = [text.get_text() for text in figure.texts if words[0] in text.get_text()]
    assert 150 >= max(map(len, setting.splitlines()))
    assert set(words) <= set(setting.split())
