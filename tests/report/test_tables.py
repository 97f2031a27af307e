"""Tables for a terminal, and the numbers in them."""

import io
from collections.abc import Callable

import pytest
from rich.console import Console, RenderableType

from gpusim.report.tables import SeriesError, errors_table, points_table, refusal_lines
from gpusim.report.wording import binary_size, duration, unbroken
from gpusim.results import PointResult

PointMaker = Callable[..., PointResult]


def printed(table: RenderableType, width: int = 100) -> list[str]:
    """The lines that a pipe receives."""
    stream = io.StringIO()
    Console(file=stream, width=width).print(table)
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def series_error(**fields: object) -> SeriesError:
    """One series of measurements; keyword arguments replace any field."""
    row: dict[str, object] = {
        "file": "fa1_paper_a100_fwd.csv",
        "gpu": "a100_sxm4_40gb",
        "kernel": "flash1",
        "case": "fwd fp16 d=64",
        "n": 5,
        "mape_pct": 7.34,
        "bias_pct": -2.1,
        "max_ape_pct": 12.0,
        "roofline_mape_pct": None,
        "role": "held_out",
    }
    return SeriesError(**(row | fields))  # type: ignore[arg-type]


def test_sizes_are_binary_with_three_digits() -> None:
    """768 B; 2.25, 33 and 516 MiB; 1 KiB is 1024 B; the integer part is never rounded away."""
    mib = 1 << 20
    sizes = (0, 768, 1023, 1024, 2.25 * mib, 33 * mib, 516 * mib, 1023 * mib, 2056 * mib)
    expected = ["0 B", "768 B", "1023 B", "1.00 KiB", "2.25 MiB", "33.0 MiB", "516 MiB", "1,023 MiB", "2.01 GiB"]
    assert [binary_size(size) for size in sizes] == expected


def test_times_choose_their_unit() -> None:
    """Microseconds below 0.1 ms, seconds from 10 s, or the unit of the number they are compared with."""
    times = [duration(duration_ms) for duration_ms in (0.02345, 0.0999, 0.1, 9.996, 167.19, 2682.35, 10_000.0)]
    assert times == ["23.4 µs", "99.9 µs", "0.100 ms", "10.0 ms", "167 ms", "2,682 ms", "10.0 s"]
    assert duration(0.12, scale_ms=0.09) == "120 µs"


def test_on_a_page_no_line_ends_between_a_number_and_its_unit() -> None:
    """Words after a number stay apart from it."""
    assert "−19.7\xa0% of 2 points, 1.20\xa0ms, 40\xa0µs, 3\xa0s, 2\xa0GB" == unbroken(
        "−19.7 % of 2 points, 1.20 ms, 40 µs, 3 s, 2 GB"
    )


def test_a_row_compares_simulated_and_measured(make_point: PointMaker) -> None:
    """The error is simulated / measured − 1 in percent, and both latencies share one unit."""
    lines = printed(points_table([make_point(seqlen=4096, latency_ms=0.09, bound_ms=0.045)], {0: 0.12}))
    cells = ["flash2", "4,096", "90.0 µs", "120 µs", "-25.0", "123", "4.00 MiB", "45.0 µs", "tensor"]
    assert lines[-1].split("  ")[0] == "flash2"
    assert [cell.strip() for cell in lines[-1].split("  ") if cell.strip()] == cells


def test_columns_for_measurements_need_one(make_point: PointMaker) -> None:
    """Without a measured point there is nothing to say in them; with one they stand in every row."""
    points = [make_point(seqlen=512), make_point(seqlen=1024)]
    for measured_ms, is_there in (({}, False), ({7: 1.0}, False), ({1: 1.1}, True)):
        heading = printed(points_table(points, measured_ms))[0]
        assert (is_there, is_there) == ("measured" in heading, "error %" in heading)


@pytest.mark.parametrize(
    ("tflops", "unit", "cells"),
    [
        ((123.4, 0.25), "TFLOP/s", ["123", "0.250"]),
        ((123.4, 0.00031), "TFLOP/s", ["123", "3.1e-04"]),
        ((0.000954, 0.000418), "GFLOP/s", ["0.954", "0.418"]),
        ((2e-6, 0.0), "MFLOP/s", ["2.00", "0"]),
        ((2e-12, None), "MFLOP/s", ["2.0e-06", "-"]),
    ],
)
def test_rates_of_tiny_points_are_no_rows_of_zeros(
    make_point: PointMaker, tflops: tuple[float, float], unit: str, cells: list[str]
) -> None:
    """The fastest point chooses the unit of the column; what is far below it is written with an exponent."""
    lines = printed(points_table([make_point(seqlen=8, tflops=rate) for rate in tflops], {}))
    assert ["implementation", "N", "latency", unit] == lines[0].split()[:4]
    assert cells == [line.split()[4] for line in lines[2:]]


@pytest.mark.parametrize(
    ("width", "left_out"), [(120, set()), (76, {"TFLOP/s"}), (70, {"TFLOP/s", "bound"}), (60, {"TFLOP/s", "bound"})]
)
def test_a_narrow_terminal_leaves_columns_out_and_cuts_nothing(
    make_point: PointMaker, make_refusal: PointMaker, width: int, left_out: set[str]
) -> None:
    """First the rate, then the bound; names fold, and every number that is there is whole."""
    points = [make_point("pytorch_naive", 16384, latency_ms=123.4, bound_ms=61.7), make_refusal(seqlen=128)]
    lines = printed(points_table(points, {0: 130.0}, width=width), width)
    text = " ".join(lines)
    assert max(map(len, lines)) <= width
    assert "…" not in text
    assert left_out == {heading for heading in ("TFLOP/s", "HBM", "bound", "measured") if heading not in text}
    for number in ("16,384", "123 ms", "130 ms", "-5.1", "16.0 MiB", "refused"):
        assert number in text


def test_a_point_that_was_not_run_shows_its_status(make_refusal: PointMaker) -> None:
    """The status stands where the latency would."""
    lines = printed(points_table([make_refusal(), make_refusal("naive", status="out_of_memory")], {}))
    assert lines[-2].split()[:3] == ["flash2", "1,024", "refused"]
    assert lines[-1].split()[:3] == ["naive", "1,024", "OOM"]


@pytest.mark.parametrize("width", [80, 100])
def test_tables_fit_their_width_without_colour_codes(make_point: PointMaker, width: int) -> None:
    """In a pipe no line is longer than asked, nothing is cut off, and there are no escape codes."""
    points = [make_point("pytorch_naive", 16384, latency_ms=123.4, bound_ms=61.7), make_point(seqlen=128)]
    lines = printed(points_table(points, {0: 130.0}, width=width), width)
    lines += printed(errors_table([series_error(), series_error(case="fwd_bwd fp16 d=64 causal")], width=width), width)
    assert max(len(line) for line in lines) <= width
    assert not any("…" in line or "\x1b" in line for line in lines)


def test_a_name_in_brackets_is_text_not_markup(make_point: PointMaker) -> None:
    """Names come from users' files and are printed as they are."""
    assert any("[red]mine" in line for line in printed(points_table([make_point("[red]mine")], {})))


def test_refusals_with_one_answer_share_a_line(make_point: PointMaker, make_refusal: PointMaker) -> None:
    """Lengths are listed together; another reason is another line; ok points have none."""
    points = [
        make_refusal(seqlen=1024),
        make_point("flash1"),
        make_refusal(seqlen=2048),
        make_refusal("naive", 16384, status="out_of_memory", reason="needs 128 GiB", fix=None),
    ]
    assert refusal_lines(points) == [
        "flash2, N = 1,024, 2,048: refused: needs 208 of 96 numbers; tile_kv=4 fits",
        "naive, N = 16,384: out of memory: needs 128 GiB",
    ]


def test_errors_stand_under_their_file_and_gpu() -> None:
    """File and GPU are printed once a group; a missing roofline is a dash; the role is in words."""
    rows = [series_error(), series_error(kernel="flash2"), series_error(file="other.csv", roofline_mape_pct=48.71)]
    lines = printed(errors_table(rows))
    assert sum("fa1_paper_a100_fwd.csv" in line for line in lines) == 1
    first, last = (line for line in lines if "flash1" in line)
    assert first.split()[-7:] == ["5", "7.3", "-2.1", "12.0", "-", "held", "out"]
    assert "48.7" in last


def test_many_series_of_long_names_stay_one_line_each() -> None:
    """At 100 columns file names are whole, kernels are not folded, and all groups share their columns."""
    kernels = ("megatron_fused_softmax", "flash2", "pytorch_naive", "flash1_block_sparse")
    files = [f"xformers_a100_fwd_f16_f32_2023-{month:02}.csv" for month in range(1, 11)]
    long = {"case": "fwd fp16 d=64 causal", "n": 1211}
    rows = [series_error(file=file, kernel=kernel, **long) for file in files for kernel in kernels]
    lines = printed(errors_table(rows))
    assert len(lines) == 2 + len(files) + len(rows)
    assert lines[2] == f"{files[0]}, a100_sxm4_40gb"
    assert len({line.index("held out") for line in lines if "held out" in line}) == 1


def test_a_narrow_terminal_folds_names_and_keeps_numbers() -> None:
    """At 70 columns every number is still there."""
    table = errors_table([series_error(kernel="megatron_fused_softmax")], width=70)
    text = " ".join(printed(table, width=70))
    assert all(number in text for number in (" 5 ", "7.3", "-2.1", "12.0", "held out"))
