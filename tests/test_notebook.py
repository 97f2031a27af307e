"""Results in a notebook: rows that pandas and polars take, tables, and pictures that show themselves."""

import csv
import json
from io import StringIO
from pathlib import Path

import pandas as pd
import polars as pl
import pytest

import gpusim
from gpusim.report import results_csv
from gpusim.report.notebook import time_figure

TILES_OF_8 = {"name": "flash2", "tile_q": 8, "tile_kv": 8, "stages": 1}


def canvas_point(schedule: object) -> gpusim.PointResult:
    """Eight rows on canvas."""
    work = gpusim.AttentionWorkload(batch=1, heads=1, seqlen_q=8, seqlen_k=8, head_dim=4)
    request = gpusim.parse_request(schedule, "test")
    return gpusim.run_point(gpusim.Point(gpusim.load_gpu("canvas"), request, work, gpusim.Conditions(cache="cold")))


@pytest.fixture(scope="module")
def run() -> gpusim.Run:
    """Four points that ran and one that was refused."""
    return gpusim.run_scenario(gpusim.load_scenario("canvas_bytes"), workers=1)


def test_rows_are_flat_and_have_the_columns_of_the_csv(run: gpusim.Run) -> None:
    """One value a column, in the same order."""
    (header, *_) = csv.reader(StringIO(results_csv(run.results)))
    for row in run.rows():
        assert header == list(row)
        assert not [value for value in row.values() if isinstance(value, dict | tuple | list)]


def test_pandas_takes_the_rows(run: gpusim.Run) -> None:
    """Bytes are numbers to reckon with, and what a refused point lacks is missing."""
    frame = pd.DataFrame(run.rows())
    assert (5, len(gpusim.PointResult.columns())) == frame.shape
    assert [768, 384, 640] == list((frame.hbm_read_bytes + frame.hbm_write_bytes)[:3])
    assert 1 == frame.latency_ms.isna().sum()
    assert [1.0] * 4 == pytest.approx(list(frame.filter(like="stall_").sum(axis=1)[frame.status == "ok"]))


def test_polars_takes_the_rows(run: gpusim.Run) -> None:
    """Typed columns, nulls for what is missing."""
    frame = pl.DataFrame(run.rows(), infer_schema_length=None)
    moved = frame.select(pl.col("hbm_read_bytes") + pl.col("hbm_write_bytes")).to_series()
    assert [768, 384, 640] == moved.to_list()[:3]
    assert pl.Float64 == frame.schema["latency_ms"]
    assert 1 == frame["latency_ms"].null_count()


def test_an_error_band_and_none_share_a_column(run: gpusim.Run) -> None:
    """Both libraries make numbers of it."""
    first = run.results[0]
    rows = [first.row(), first.model_copy(update={"validated": 0.05}).row()]
    assert [None, 0.05] == pl.DataFrame(rows)["validated"].to_list()
    assert 0.05 == pd.DataFrame(rows).validated.sum()


def test_a_run_shows_itself_as_a_table(run: gpusim.Run) -> None:
    """A heading, a row a point, and the refusal with its reason."""
    html = run._repr_html_()
    assert 6 == html.count("<tr>")
    assert "refused: " in html
    assert "208 numbers" in html
    assert "384 B" in html


def test_a_long_run_is_cut_and_says_so(run: gpusim.Run) -> None:
    """Of 100 points 60 are shown."""
    from gpusim.report.notebook import points_html

    html = points_html(run.results[:1] * 100)
    assert 61 == html.count("<tr>")
    assert "and 40 more points" in html


def test_a_result_shows_what_was_asked_and_what_came_out() -> None:
    """Latency, bound and stalls of a point that ran; reason and fix of one that did not."""
    ran, refused = canvas_point({"name": "flash2", "tile_q": 4, "tile_kv": 4, "stages": 1}), canvas_point(TILES_OF_8)
    assert "waiting for tiles" in ran._repr_html_()
    assert ">384 B<" in ran._repr_html_()
    assert "208 numbers" in refused._repr_html_()
    assert "tile_q: 4" in refused._repr_html_()


def test_names_are_escaped(run: gpusim.Run) -> None:
    """A GPU of a file may be called anything."""
    evil = run.results[0].model_copy(update={"gpu": "<script>alert(1)</script>", "implementation": "<b>"})
    html = evil._repr_html_() + type(run)._repr_html_(run)
    assert "<script" not in html
    assert "&lt;script&gt;" in html


def test_the_picture_of_a_result_adds_up_to_its_kernels() -> None:
    """Naive attention on canvas has three kernels, each bar as long as its kernel in µs."""
    result = canvas_point("naive")
    (axes,) = time_figure(result).axes
    assert [kernel.name for kernel in sorted(result.kernels, key=lambda kernel: -kernel.latency_ms)] == [
        label.get_text() for label in axes.get_yticklabels()
    ]
    lengths = sorted(1e3 * kernel.latency_ms for kernel in result.kernels)
    ends = {round(bar.get_y(), 6): 0.0 for bar in axes.patches}
    for bar in axes.patches:
        ends[round(bar.get_y(), 6)] += bar.get_width()
    assert lengths == pytest.approx(sorted(ends.values()))


def test_the_picture_of_a_refused_point_says_why() -> None:
    """Reason and fix instead of bars."""
    (axes,) = time_figure(canvas_point(TILES_OF_8)).axes
    (note,) = axes.texts
    assert "208 numbers" in note.get_text()
    assert "tile_q: 4" in note.get_text()
    assert 0 == len(axes.patches)


def test_pictures_show_and_save_themselves(run: gpusim.Run, tmp_path: Path) -> None:
    """As PNG, of a run, of a point, and of one that was refused."""
    for number, picture in enumerate((run.plot(), run.results[0].plot(), canvas_point(TILES_OF_8).plot())):
        shown = picture._repr_png_()
        picture.save(tmp_path / f"{number}.png")
        assert shown == (tmp_path / f"{number}.png").read_bytes()
        assert shown.startswith(b"\x89PNG")


def test_a_row_is_made_of_plain_values(run: gpusim.Run) -> None:
    """JSON takes it, so nothing but text, numbers, truth values and None is in it."""
    assert run.rows()[0] == json.loads(json.dumps(run.rows()[0]))
