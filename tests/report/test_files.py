"""Files of a run: CSV, JSON, manifest, folders, and writing them whole."""

import csv
import hashlib
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from gpusim.report.files import manifest_json, next_run_dir, results_csv, results_json, write_whole
from gpusim.results import PointResult
from gpusim.trace import Stall

PointMaker = Callable[..., PointResult]


def read_back(text: str) -> list[dict[str, str]]:
    """The rows as a reader of CSV files sees them."""
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    """New content, text or bytes, stands where the old stood, and no other file is left."""
    path = tmp_path / "results.csv"
    write_whole(path, "µs\n")
    assert path.read_bytes() == "µs\n".encode()
    write_whole(path, b"\x89PNG")
    assert path.read_bytes() == b"\x89PNG"
    assert [path] == list(tmp_path.iterdir())


def test_a_failing_replace_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the last step fails, the old content is still there and the partial file is gone."""

    def fail(source: Path, target: Path) -> NoReturn:
        assert source.read_text() == "new"
        raise OSError(f"no space for {target}")

    path = tmp_path / "results.csv"
    write_whole(path, "old")
    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no space"):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert [path] == list(tmp_path.iterdir())


def test_run_folders_take_the_smallest_free_number(tmp_path: Path) -> None:
    """Numbers start at 1, a gap is filled first, and another scenario's folders do not count."""
    root = tmp_path / "runs"
    assert [next_run_dir(root, "sweep").name for _ in range(3)] == ["sweep-1", "sweep-2", "sweep-3"]
    (root / "sweep-2").rmdir()
    assert next_run_dir(root, "sweep") == root / "sweep-2"
    assert next_run_dir(root, "other") == root / "other-1"
    assert (root / "other-1").is_dir()


def test_csv_columns_are_the_fields_in_order(make_point: PointMaker) -> None:
    """`pass_` is spelled `pass`, stalls are one column each where they stood, kernels are left out."""
    header = results_csv([make_point()]).splitlines()[0].split(",")
    expected: list[str] = []
    for field in PointResult.model_fields:
        match field:
            case "pass_":
                expected.append("pass")
            case "stalls":
                expected += [f"stall_{reason}" for reason in Stall]
            case "kernels":
                pass
            case _:
                expected.append(field)
    assert header == expected


def test_csv_cells_keep_values(make_point: PointMaker) -> None:
    """Booleans are true or false, None is n/a, floats keep every digit, numbers may be negative."""
    point = make_point(latency_ms=0.1 + 0.2, causal=True, sampled_error=-0.5, stalls={Stall.LOAD: 0.25})
    (row,) = read_back(results_csv([point]))
    assert row["latency_ms"] == "0.30000000000000004"
    assert (row["causal"], row["validated"], row["window"]) == ("true", "false", "n/a")
    assert row["sampled_error"] == "-0.5"
    assert (row["stall_load"], row["stall_compute"], row["stall_idle"]) == ("0.25", "n/a", "n/a")
    assert (row["pass"], row["seqlen_k"], row["status"]) == ("fwd", "1024", "ok")


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_text_that_a_spreadsheet_would_run_is_escaped(make_refusal: PointMaker, start: str) -> None:
    """A leading apostrophe turns a would-be formula into text, and the row stays one row."""
    (row,) = read_back(results_csv([make_refusal(reason=f"{start}HYPERLINK(1)")]))
    assert row["reason"] == f"'{start}HYPERLINK(1)"


@pytest.mark.parametrize("text", ['says "no", twice', "two\nlines", "a lone\rreturn", "plain", "1,024 × 2 µs"])
def test_text_survives_the_round_trip(make_refusal: PointMaker, text: str) -> None:
    """Commas, quotes and line ends inside a cell come back as they were."""
    rows = read_back(results_csv([make_refusal(reason=text), make_refusal(fix=text)]))
    assert (rows[0]["reason"], rows[1]["fix"]) == (text, text)


def test_json_holds_version_scenario_and_points(make_point: PointMaker, make_refusal: PointMaker) -> None:
    """The document parses, keeps the declared order and ends with a newline."""
    points = [make_point(), make_refusal(seqlen=2048)]
    text = results_json(points, {"name": "sweep", "batch": 16}, version="1.2.3")
    document = json.loads(text)
    assert list(document) == ["gpusim", "scenario", "points"]
    assert (document["gpusim"], document["scenario"]) == ("1.2.3", {"name": "sweep", "batch": 16})
    assert document["points"] == [point.record() for point in points]
    assert list(document["points"][0])[:5] == ["gpu", "schedule", "implementation", "version", "pass"]
    assert text.endswith("}\n")


def test_json_names_the_folder_when_there_is_one(make_point: PointMaker) -> None:
    """`out` stands after the points."""
    document = json.loads(results_json([make_point()], {}, version="1", out="runs/sweep-1"))
    assert list(document) == ["gpusim", "scenario", "points", "out"]
    assert document["out"] == "runs/sweep-1"


def test_json_refuses_nan(make_point: PointMaker) -> None:
    """NaN is not JSON, so it raises and no half-valid document appears."""
    with pytest.raises(ValueError, match="nan"):
        results_json([make_point(latency_ms=float("nan"))], {}, version="1")


def test_manifest_says_how_the_run_was_made() -> None:
    """Configs appear as SHA-256; events per second are all events over all wall time."""
    document = json.loads(
        manifest_json(
            versions={"gpusim": "1.2.3", "python": "3.11.9"},
            configs={"canvas": "name: canvas\n"},
            command=["gpusim", "run", "x.yaml"],
            seed=0,
            wall_s=[0.5, 1.5],
            steps=3000,
            host="node",
            cores=2,
        )
    )
    assert document["config_sha256"] == {"canvas": hashlib.sha256(b"name: canvas\n").hexdigest()}
    assert (document["total_wall_s"], document["steps_per_s"]) == (2.0, 1500.0)
    assert document["versions"]["python"] == "3.11.9"
    assert (document["command"], document["host"], document["cores"]) == (["gpusim", "run", "x.yaml"], "node", 2)


def test_manifest_of_a_run_without_work_has_no_rate() -> None:
    """No wall time gives null, not a division by zero."""
    text = manifest_json(versions={}, configs={}, command=[], seed=0, wall_s=[], steps=0, host="node", cores=1)
    assert json.loads(text)["steps_per_s"] is None
