"""`gpusim replay`: a page of small scenarios."""

from pathlib import Path


def test_it_writes_the_page_and_names_its_demos(command, tmp_path: Path) -> None:
    """One file, one line."""
    done = command("replay", "canvas_bytes", "-o", "pages/page.html")
    assert (0, "") == (done.code, done.err)
    assert done.out.startswith("pages/page.html: 7 demos (Naive; Flash, tiles of 4; A bigger max; Same output;")
    assert (tmp_path / "pages" / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_without_a_scenario_it_plays_the_gallery(command) -> None:
    """Nine demos, N = 16 and the causal mask among them."""
    done = command("replay", "-o", "page.html")
    assert (0, "") == (done.code, done.err)
    assert done.out.startswith("page.html: 9 demos (")
    assert "N = 16" in done.out
    assert "Causal, tiles of 4" in done.out


def test_a_scenario_that_is_too_large_is_refused_with_every_reason(command) -> None:
    """Exit code 2; the A100 sweep has registers, 128 heads and up to 16,384 rows."""
    done = command("replay", "seqlen_sweep_a100", "-o", "page.html")
    assert (2, "") == (done.code, done.out)
    registers, heads, rows, head_dim = done.problems  # one line a reason, not one a point
    assert "a100_sxm4_40gb has a register file" in registers
    assert "use canvas" in registers
    assert "batch × heads: got 128; a replay draws at most 1," in heads
    assert "seqlen: got 128 to 16384; a replay draws at most 32, so lower it" in rows
    assert "head_dim: got 64; a replay draws at most 8," in head_dim
    assert not Path("page.html").exists()


def test_fields_of_the_gpu_can_be_set(command) -> None:
    """With an SRAM of 208 numbers tiles of 8 run: Q, K, V and O once, 2·4·32 = 256 B."""
    room = ["--set", "sm.smem_bytes=416", "--set", "sm.smem_per_cta_max_bytes=416"]
    assert 0 == command("replay", "canvas_bytes", *room, "-o", "page.html").code
    page = Path("page.html").read_text(encoding="utf-8")
    assert '"title":"Flash, tiles of 8","subtitle":"256 B' in page


def test_a_folder_is_no_page(command, tmp_path: Path) -> None:
    """The folder is named, and a file asked for."""
    (tmp_path / "pages").mkdir()
    done = command("replay", "canvas_bytes", "-o", "pages")
    assert (2, ["-o: got pages, which is a folder; name a file, as in pages/replay.html"]) == (done.code, done.problems)


def test_a_page_that_cannot_be_written_is_named_as_it_was_asked_for(command) -> None:
    """Not the hidden file that it is first written to."""
    done = command("replay", "canvas_bytes", "-o", "/proc/page.html")
    (said,) = done.problems
    assert 2 == done.code
    assert said.startswith("/proc/page.html: cannot be written: ")
    assert said.endswith("; choose another file with -o")
