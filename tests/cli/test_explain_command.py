"""`--explain`: four lines a point on the terminal, an explanation a point in JSON, nothing where nothing is asked."""

from pathlib import Path

POINT = ("run", "--gpu", "canvas", "--schedule", "flash2", "--seqlen", "8", "--head-dim", "4")
TILES_OF_4 = ("--tile-q", "4", "--tile-kv", "4")
HEADINGS = ["  Bound by: ", "  Time: ", "  Exposed: ", "  Would save at most: "]
LINES = {"bound", "time", "exposed", "change"}


def explanation_in(text: str) -> list[str]:
    """The lines below the list of files."""
    lines = text.splitlines()
    (files,) = [number for number, line in enumerate(lines) if line.startswith("Files: ")]
    return lines[files + 1 :]


def test_run_explains_a_point_in_four_lines_below_its_title(command) -> None:
    """The title says what it is about, its latency, and that no measurement stands behind it."""
    done = command(*POINT, *TILES_OF_4, "--explain")
    title, *lines = explanation_in(done.out)
    assert title.startswith("flash2 (custom) on canvas, N = 8: ")
    assert title.endswith(" µs, not validated")
    assert all(line.startswith(heading) and line.endswith(".") for line, heading in zip(lines, HEADINGS, strict=True))


def test_a_point_that_was_refused_is_not_explained(command) -> None:
    """Tiles of 8 do not fit; the reason stands in the answer already."""
    done = command(*POINT, "--tile-q", "8", "--tile-kv", "8", "--explain")
    assert (3, []) == (done.code, explanation_in(done.out))


def test_without_explain_nothing_is_explained(command) -> None:
    """Neither on the terminal nor in JSON; and quiet stays quiet."""
    assert [] == explanation_in(command(*POINT, *TILES_OF_4).out)
    assert "explanation" not in command(*POINT, *TILES_OF_4, "--json").document["points"][0]
    assert ("", "") == (command(*POINT, *TILES_OF_4, "--quiet", "--explain").out, "")


def test_json_carries_an_explanation_a_point(command) -> None:
    """Four of the demo's points run; the refused one has none."""
    *simulated, refused = command("run", "canvas_bytes", "--workers", "1", "--json", "--explain").document["points"]
    assert all(LINES == set(point["explanation"]) for point in simulated)
    assert refused["explanation"] is None


def test_compare_explains_the_worst_row_of_a_series(command, tmp_path: Path) -> None:
    """Of two rows of one series the one that is off by more, here the one measured a thousand times too slow."""
    rows = [
        "source,gpu,kernel,pass,dtype,batch,heads,seqlen_q,seqlen_k,head_dim,latency_ms",
        *(f"case,a100_sxm4_40gb,flash2,fwd,fp16,1,1,256,256,64,{ms}" for ms in ("0.012", "12.0")),
    ]
    file = tmp_path / "rows.csv"
    file.write_text("\n".join(rows) + "\n")
    title, *lines = explanation_in(command("compare", file, "--workers", "1", "--explain").out)
    assert title.startswith("flash2, rows.csv, line 3: ")
    assert "measured 12.0 ms, off by -99." in title
    assert HEADINGS == [heading for line, heading in zip(lines, HEADINGS, strict=True) if line.startswith(heading)]
    points = command("compare", file, "--workers", "1", "--json", "--explain").document["points"]
    assert [LINES, LINES] == [set(point["explanation"]) for point in points]
