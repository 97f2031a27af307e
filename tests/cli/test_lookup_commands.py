"""`gpusim gpus`, `schedules` and `fit`: the commands that simulate nothing."""

from importlib.metadata import version
from pathlib import Path

import pytest

from gpusim.implementations import implementations
from gpusim.schedules import SCHEDULES
from gpusim.specs import gpu_names

COMMANDS = ["run", "compare", "calibrate", "fit", "gpus", "schedules", "replay"]


def test_the_help_lists_every_command(command) -> None:
    """Exit code 0, on standard output."""
    done = command("--help")
    assert (0, "") == (done.code, done.err)
    for name in COMMANDS:
        assert f"  {name} " in done.out


def test_the_version_is_that_of_the_package(command) -> None:
    """One line, on standard output."""
    done = command("--version")
    assert (0, f"gpusim {version('gpusim')}\n", "") == (done.code, done.out, done.err)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_with_an_example(command, name: str) -> None:
    """An example that starts with the command's own name."""
    done = command(name, "--help")
    assert (0, "") == (done.code, done.err)
    assert f"Example: gpusim {name} " in " ".join(done.out.split())


def test_gpus_lists_every_gpu(command) -> None:
    """One line each."""
    lines = command("gpus").out.splitlines()[1:]
    assert gpu_names() == [line.split()[0] for line in lines]


def test_a_gpu_shows_the_ratio_of_its_bandwidths(command) -> None:
    """Canvas: 8 bytes a clock of SRAM at 1 GHz against 1 GB/s of HBM."""
    assert "SRAM 8 GB/s : HBM 1 GB/s = 8 : 1" in command("gpus", "canvas").out


def test_a_clean_gpu_file_has_no_findings(command, tmp_path: Path) -> None:
    """Linting exits 0 and says so."""
    (tmp_path / "mine.yaml").write_text("base: canvas\nname: mine\n")
    done = command("gpus", "--check", "mine.yaml")
    assert (0, "mine.yaml: no findings\n") == (done.code, done.out)


def test_a_shipped_gpu_can_be_linted_by_name(command) -> None:
    """As it can be shown by name."""
    done = command("gpus", "--check", "canvas")
    assert (0, "canvas: no findings\n", "") == (done.code, done.out, done.err)
    done = command("gpus", "--check", "nosuch")
    assert 2 == done.code
    assert done.out.startswith("nosuch: error: 'nosuch' is not known; choose one of: ")


def test_a_lint_of_a_missing_file_names_it(command) -> None:
    """Exit code 2."""
    done = command("gpus", "--check", "nosuch.yaml")
    assert (2, "nosuch.yaml: error: no such file\n") == (done.code, done.out)


def test_schedules_lists_every_implementation(command) -> None:
    """With what is not here yet."""
    out = command("schedules").out
    for name in implementations():
        assert f"\n  {name} " in out
    assert "Not here yet" in out


@pytest.mark.parametrize("name", list(implementations()))
def test_an_implementation_shows_its_tiles_and_sources(command, name: str) -> None:
    """Every tile row's source, and every timing constant with its kind."""
    out = command("schedules", name).out
    for row in implementations()[name].tiles:
        assert row.source in out
    for cost in implementations()[name].costs:
        for constant, value in cost.constants.items():
            assert f"{constant} = {value.value:g} ({value.kind}: {value.source})" in out


@pytest.mark.parametrize(
    ("name", "implementation"),
    [("gemm", "torch_matmul"), ("row_softmax", "torch_softmax"), ("elementwise", "torch_strided_copy")],
)
def test_a_schedule_without_an_implementation_of_its_name_shows_who_uses_it(
    command, name: str, implementation: str
) -> None:
    """Every name that the list has can be shown."""
    done = command("schedules", name)
    assert (0, "") == (done.code, done.err)
    assert f"{SCHEDULES[name].source}" in done.out
    assert implementation in done.out


def test_a_version_is_shown_without_the_rows_of_others(command) -> None:
    """FlashAttention-3 at d = 64 without a mask: K/V tiles of 192 rows since 2025, of 128 before."""
    rows = {version: command("schedules", f"flash3@{version}").out for version in ("2024-07", "2025")}
    assert "tile_q 192, tile_kv 192" in rows["2025"]
    assert "tile_q 192, tile_kv 192" not in rows["2024-07"]
    assert all("tile_q 192, tile_kv 128" in text for text in rows.values())


def fits(command, *tiles: str) -> dict:
    """The only tile of the answer, and the exit code."""
    done = command("fit", "--gpu", "canvas", "--head-dim", "4", "--json", *tiles)
    assert "" == done.err
    assert {"gpusim", "tiles", "unsupported"} == set(done.document)
    assert [] == done.document["unsupported"]
    (tile,) = done.document["tiles"]
    return tile | {"code": done.code}


@pytest.mark.parametrize(("size", "numbers"), [("4", 88), ("2", 40)])
def test_a_tile_that_fits_canvas(command, size: str, numbers: int) -> None:
    """4·B·d + B² + 2·B numbers of 2 bytes, d = 4."""
    tile = fits(command, "--tile-q", size, "--tile-kv", size)
    assert (0, True, 2 * numbers) == (tile["code"], tile["fits"], tile["smem_bytes_per_cta"])


def test_a_tile_that_does_not_fit_canvas(command) -> None:
    """Tiles of 8 need 4·8·4 + 8² + 2·8 = 208 of 96 numbers; nothing fits, so the exit code is 3."""
    tile = fits(command, "--tile-q", "8", "--tile-kv", "8")
    assert (3, False, 2 * 208) == (tile["code"], tile["fits"], tile["smem_bytes_per_cta"])
    for part in ("208", "96", "lower tile_q"):
        assert part in tile["reason"]


def test_a_table_where_nothing_fits_says_what_to_do(command) -> None:
    """The usual tiles are all too large for canvas."""
    done = command("fit", "--gpu", "canvas", "--head-dim", "4")
    assert 3 == done.code
    assert "give smaller tiles with --tile-q and --tile-kv" in done.out


def test_a_gpu_without_the_instructions_of_a_schedule_is_an_answer_beside_one_that_has_them(command) -> None:
    """flash3 needs wgmma: an A100 has no tiles, an H100 has; alone the A100 ends in exit code 3."""
    asked = ("fit", "--schedule", "flash3", "--head-dim", "128", "--tile-q", "128", "--tile-kv", "176")
    done = command(*asked, "--gpu", "a100_sxm4_80gb", "--gpu", "h100_sxm5_80gb", "--json")
    assert 0 == done.code
    (without,) = done.document["unsupported"]
    assert "a100_sxm4_80gb" == without["gpu"]
    assert "wgmma" in without["reason"]
    assert {("h100_sxm5_80gb", "flash3", 12)} == {(t["gpu"], t["schedule"], t["warps"]) for t in done.document["tiles"]}
    alone = command(*asked, "--gpu", "a100_sxm4_80gb")
    assert 3 == alone.code
    assert "flash3 on a100_sxm4_80gb, head_dim 128, fp16: unsupported: flash3 multiplies with wgmma" in alone.out


def test_a_fit_says_what_was_set_on_the_gpu(command) -> None:
    """In the title and in every row."""
    asked = ("fit", "--gpu", "canvas", "--head-dim", "4", "--tile-q", "4", "--tile-kv", "4")
    smaller = ("--set", "sm.smem_per_cta_max_bytes=100")
    assert "flash2 on canvas with sm.smem_per_cta_max_bytes=100," in " ".join(command(*asked, *smaller).out.split())
    (tile,) = command(*asked, *smaller, "--json").document["tiles"]
    assert (False, "sm.smem_per_cta_max_bytes=100") == (tile["fits"], tile["overrides"])
    (tile,) = command(*asked, "--json").document["tiles"]
    assert (True, None) == (tile["fits"], tile["overrides"])


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_no_number_of_the_table_is_cut(command, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """Narrow terminals get narrow columns; words may fold, numbers may not."""
    monkeypatch.setenv("COLUMNS", str(width))
    out = command("fit", "--gpu", "a100_sxm4_80gb", "--head-dim", "128", "--tile-q", "128", "--tile-kv", "128").out
    assert "…" not in out
    for row in (["128", "128", "1", "8", "98,304"], ["128", "128", "2", "8", "163,840"]):
        assert any(row == line.split()[:5] for line in out.splitlines())
