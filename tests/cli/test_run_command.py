"""`gpusim run`: exit codes, the JSON document, and the files it leaves behind."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FILES = {"report.html", "results.csv", "results.json", "latency.png", "traffic.png", "manifest.json"}
CANVAS_POINT = ("run", "--gpu", "canvas", "--schedule", "flash2", "--seqlen", "8", "--head-dim", "4")
TILES_OF_8 = ("--tile-q", "8", "--tile-kv", "8")

# A point of the contract, then what was added to it.
POINT_KEYS = """
    gpu schedule implementation version pass dtype batch heads kv_heads seqlen_q seqlen_k head_dim head_dim_v causal
    window dropout mask save_lse sm_clock_mhz timing cache status reason fix latency_ms latency_lo_ms latency_hi_ms
    validated tflops operand_bytes l2_read_bytes l2_write_bytes l2_hit_rate l2_dirty_bytes hbm_read_bytes
    hbm_write_bytes smem_read_bytes smem_write_bytes extra_memory_bytes peak_memory_bytes flops executed_flops tile_q
    tile_kv stages warps accumulators smem_bytes_per_cta registers_per_thread ctas ctas_per_sm waves bound_ms bottleneck
    stalls mode sampled_error kernels"""
ADDED_KEYS = {
    *("stack", "bound_by", "ceiling_ms", "roofline_ms", "operand_gb_per_s", "latency_per_hop_ns"),
    *("order", "scheduler", "sustained_clock_mhz", "power_w", "overrides", "validation"),
}
KERNEL_KEYS = """
    m n k rows cols elements loads stores threads_per_cta footprint_bytes part_bytes hops rounds tile_m tile_n tile_k"""
PRODUCT = ("run", "--gpu", "a100_sxm4_40gb", "--schedule", "torch_matmul", "--workload", "m=256", "--workload", "n=128")


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_run_with_an_ok_point_exits_0(command) -> None:
    """Four points run and one is refused: an answer, not a failure."""
    done = command("run", "canvas_bytes", "--workers", "1", "--json")
    assert (0, "") == (done.code, done.err)
    assert ["ok", "ok", "ok", "ok", "refused"] == [point["status"] for point in done.document["points"]]


def test_a_run_without_an_ok_point_exits_3(command) -> None:
    """The only point does not fit."""
    assert 3 == command(*CANVAS_POINT, *TILES_OF_8).code


def test_a_point_that_fails_unexpectedly_exits_1(command) -> None:
    """A clock of 1e-300 Hz ends in numbers that no float holds; the point says so and the rest is written."""
    done = command(*CANVAS_POINT, "--set", "sm.clock_hz=1e-300", "--json")
    (point,) = done.document["points"]
    assert (1, "error") == (done.code, point["status"])
    assert point["reason"]


def test_a_refusal_names_both_numbers_the_knob_and_a_tile_that_fits(command) -> None:
    """Tiles of 8 need 208 numbers, canvas has 96; tiles of 4 fit."""
    for words in (command(*CANVAS_POINT, *TILES_OF_8).out, command(*CANVAS_POINT, *TILES_OF_8, "--quiet").err):
        for part in ("208", "96", "lower tile_q", "tile_q: 4"):
            assert part in words


def test_the_json_document_has_the_keys_of_the_contract(command) -> None:
    """Top level and points, refused ones too."""
    done = command("run", "canvas_bytes", "--workers", "1", "--json", "--out", "here")
    document = done.document
    assert {"gpusim", "scenario", "points", "out"} == set(document)
    assert "here" == document["out"]
    for point in document["points"]:
        assert {*POINT_KEYS.split(), *ADDED_KEYS, *KERNEL_KEYS.split()} == set(point)


def test_a_run_leaves_whole_files_in_a_new_numbered_folder(command, tmp_path: Path) -> None:
    """The default is runs/<scenario>-<n>, and nothing is overwritten."""
    for number in (1, 2):
        command("run", "canvas_bytes", "--workers", "1", "--quiet")
        assert FILES == set(files_of(tmp_path / "runs" / f"canvas_bytes-{number}"))


def test_the_files_say_the_same(command, tmp_path: Path) -> None:
    """Rows of results.csv and points of results.json agree with the document on standard output."""
    document = command("run", "canvas_bytes", "--workers", "1", "--json", "--out", "here").document
    written = json.loads((tmp_path / "here" / "results.json").read_text())
    assert document["points"] == written["points"]
    with open(tmp_path / "here" / "results.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [point["status"] for point in written["points"]] == [row["status"] for row in rows]
    assert ["768", "384", "640"] == [str(int(row["hbm_read_bytes"]) + int(row["hbm_write_bytes"])) for row in rows[:3]]
    for name in ("latency.png", "traffic.png"):
        assert (tmp_path / "here" / name).read_bytes().startswith(b"\x89PNG")


def test_everything_but_the_manifest_is_byte_identical(command, tmp_path: Path) -> None:
    """Repeated, on one worker and on two."""
    for name, workers in (("first", "1"), ("again", "1"), ("two", "2")):
        assert 0 == command("run", "canvas_bytes", "--workers", workers, "--quiet", "--out", name).code
    first, *others = [files_of(tmp_path / name) for name in ("first", "again", "two")]
    for other in others:
        assert FILES == set(other)
        for name in FILES - {"manifest.json"}:
            assert first[name] == other[name], name


def test_the_manifest_says_how_the_run_was_made(command, tmp_path: Path) -> None:
    """Versions, hashes of what was read, the command line, seed, wall time of each point, host."""
    command("run", "canvas_bytes", "--workers", "1", "--quiet", "--out", "here")
    manifest = json.loads((tmp_path / "here" / "manifest.json").read_text())
    assert {"gpusim", "python", "simpy", "numpy"} <= set(manifest["versions"])
    assert {"scenario", "canvas"} == set(manifest["config_sha256"])
    assert ["gpusim", "run", "canvas_bytes"] == manifest["command"][:3]
    assert 5 == len(manifest["wall_s"])
    assert {"seed", "host"} <= set(manifest)


def test_quiet_prints_nothing_when_all_is_well(command) -> None:
    """One point that runs."""
    done = command(*CANVAS_POINT, "--tile-q", "4", "--tile-kv", "4", "--quiet")
    assert (0, "", "") == (done.code, done.out, done.err)


def test_a_length_that_is_no_multiple_of_the_tile_works(command) -> None:
    """Seven rows in tiles of 4: the last tile is ragged, and the traffic is still at least compulsory."""
    done = command("run", "--gpu", "canvas", "--schedule", "flash2", "--seqlen", "7", "--head-dim", "4", "--json")
    (point,) = done.document["points"]
    assert "ok" == point["status"]
    assert point["hbm_read_bytes"] >= 3 * 7 * 4 * 2
    assert 7 * 4 * 2 == point["hbm_write_bytes"]


def test_a_field_of_the_gpu_can_be_set(command) -> None:
    """Half the clock of everything on the SM, and the bytes stay."""
    plain, slow = (
        command(*CANVAS_POINT, "--json", *options).document["points"][0]
        for options in ((), ("--set", "sm.clock_hz=0.5e9"))
    )
    assert plain["latency_ms"] < slow["latency_ms"]
    assert plain["hbm_read_bytes"] == slow["hbm_read_bytes"]


def test_what_was_set_stands_in_every_file_and_on_the_terminal(command, tmp_path: Path) -> None:
    """In each row of the CSV, each point of the JSON, the report and the line on error bands; n/a where nothing was."""
    done = command("run", "canvas_bytes", "--set", "sm.clock_hz=0.5e9", "--out", "set")
    assert "naive on canvas with sm.clock_hz=0.5e9" in done.out
    with (tmp_path / "set" / "results.csv").open() as file:
        assert ["sm.clock_hz=0.5e9"] * 5 == [row["overrides"] for row in csv.DictReader(file)]
    points = json.loads((tmp_path / "set" / "results.json").read_text())["points"]
    assert ["sm.clock_hz=0.5e9"] * 5 == [point["overrides"] for point in points]
    assert "gpusim canvas with sm.clock_hz=0.5e9 · forward" in (tmp_path / "set" / "report.html").read_text()
    command(*CANVAS_POINT, "--out", "plain")
    with (tmp_path / "plain" / "results.csv").open() as file:
        assert ["n/a"] == [row["overrides"] for row in csv.DictReader(file)]


def test_a_gpu_that_lacks_what_a_schedule_needs_is_an_answer(command) -> None:
    """Canvas multiplies fp16 only: the point says so, and the run ends without an ok point."""
    done = command(*CANVAS_POINT, "--dtype", "bf16", "--json")
    (point,) = done.document["points"]
    assert (3, "unsupported") == (done.code, point["status"])
    assert "bf16" in point["reason"]
    assert "canvas" in point["reason"]
    assert "fp16" in point["fix"]


def test_text_is_printed_as_it_stands(command) -> None:
    """A folder called like a colour, and lines longer than the terminal, stay whole."""
    folder = "[red]" + 120 * "x"
    done = command(*CANVAS_POINT, *TILES_OF_8, "--out", folder)
    assert f"Files: {folder}/report.html, latency.png" in done.out.splitlines()[-1]
    assert any("208 numbers" in line and "tile_q: 4" in line for line in done.out.splitlines())


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["gpus", "canvas"], ["schedules"]])
def test_a_reader_that_stops_reading_causes_no_traceback(arguments: list[str]) -> None:
    """As in `gpusim gpus canvas | head -1`."""
    program = "import sys; from gpusim.cli import main; sys.argv[0] = 'gpusim'; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    process.stdout.close()
    assert "" == process.stderr.read()
    process.stderr.close()
    process.wait()


def test_a_home_that_cannot_be_written_prints_nothing(tmp_path: Path) -> None:
    """The plots' library keeps a cache there, and would warn that it cannot."""
    (tmp_path / "file").write_text("no folder")
    environment = {name: value for name, value in os.environ.items() if name != "MPLCONFIGDIR" and "XDG" not in name}
    program = "import sys; from gpusim.cli import main; sys.argv[0] = 'gpusim'; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, *CANVAS_POINT, "--tile-q", "4", "--tile-kv", "4", "--quiet"],
        env=environment | {"HOME": str(tmp_path / "file" / "home")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)


def test_a_terminal_of_few_letters_gets_question_marks(tmp_path: Path) -> None:
    """µ is not in ASCII; the point is simulated and shown all the same."""
    program = "import sys; from gpusim.cli import main; sys.argv[0] = 'gpusim'; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, *CANVAS_POINT, "--tile-q", "4", "--tile-kv", "4"],
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        cwd=tmp_path,
        capture_output=True,
        encoding="ascii",
    )
    assert (0, "") == (done.returncode, done.stderr)
    assert "?s" in done.stdout


@pytest.mark.parametrize("module", ["gpusim", "gpusim.cli"])
def test_the_command_line_starts_without_heavy_libraries(module: str) -> None:
    """Plots, process pools, arrays and frameworks are loaded when they are needed."""
    program = f"import {module}, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set() == set(done.stdout.split()) & {"matplotlib", "joblib", "numpy", "torch"}


def test_a_matrix_product_is_run_like_attention(command, tmp_path: Path) -> None:
    """No sequence length is asked for; values are read as those of a scenario, so a list is a sweep."""
    done = command(*PRODUCT, "--workload", "k=[64, 128]", "--workload", "cache=warm", "--json", "--out", "here")
    assert (0, "") == (done.code, done.err)
    points = done.document["points"]
    assert [(256, 128, 64, "warm"), (256, 128, 128, "warm")] == [
        (point["m"], point["n"], point["k"], point["cache"]) for point in points
    ]
    assert [2 * 256 * 128 * k for k in (64, 128)] == [point["flops"] for point in points]
    assert {*FILES} == {path.name for path in (tmp_path / "here").iterdir()}


def test_no_cell_of_a_result_is_blank(command, tmp_path: Path) -> None:
    """What a product does not have is n/a in the table and null in JSON."""
    done = command(*PRODUCT, "--workload", "k=64", "--json", "--out", "here")
    (row,) = csv.DictReader((tmp_path / "here" / "results.csv").read_text().splitlines())
    assert "" not in row.values()
    assert ("n/a", None) == (row["head_dim"], done.document["points"][0]["head_dim"])


@pytest.mark.parametrize(
    ("schedule", "workload", "words"),
    [
        ("torch_matmul", ("m=256", "n=128", "k=64"), ("M×N×K", "256×128×64", "TFLOP/s")),
        ("torch_softmax", ("rows=300", "cols=2048"), ("rows×cols", "300×2,048", "GB/s")),
        ("stream", ("elements=100000", "loads=1", "stores=1"), ("elements", "100,000", "GB/s")),
        ("pointer_chase", ("footprint_bytes=1048576", "hops=64"), ("footprint", "1.00 MiB", "ns/hop")),
        ("cache_read", ("footprint_bytes=1048576", "part_bytes=65536"), ("footprint", "1.00 MiB", "GB/s")),
    ],
)
def test_the_table_speaks_of_what_was_computed(
    command, schedule: str, workload: tuple[str, ...], words: tuple[str, ...]
) -> None:
    """Size and rate by kind of workload."""
    fields = [part for field in workload for part in ("--workload", field)]
    done = command("run", "--gpu", "a100_sxm4_40gb", "--schedule", schedule, *fields)
    assert 0 == done.code
    assert [] == [word for word in words if word not in done.out]


def test_attention_takes_workload_fields_too(command) -> None:
    """causal=true beside the options of old; seqlen and head_dim may stand there as well."""
    options = ("--workload", "causal=true", "--workload", "seqlen=128", "--workload", "head_dim=64")
    done = command("run", "--gpu", "a100_sxm4_40gb", "--schedule", "pytorch_naive", *options, "--json")
    (point,) = done.document["points"]
    assert (True, 128, 64, 1, 1) == tuple(point[key] for key in ("causal", "seqlen_q", "head_dim", "batch", "heads"))


def test_different_gpus_of_one_name_are_told_on_the_page(command, tmp_path: Path) -> None:
    """A file that changes canvas but keeps its name; one that changes nothing is no such case."""
    source = "sources: {sm.smem_bytes: {kind: assumed, source: this test}}"
    (tmp_path / "mine.yaml").write_text(f"base: canvas\nname: canvas\nsm: {{smem_bytes: 416}}\n{source}\n")
    (tmp_path / "same.yaml").write_text("base: canvas\nname: canvas\n")
    point = ("run", "--schedule", "flash2", "--seqlen", "8", "--head-dim", "4", "--tile-q", "4", "--tile-kv", "4")
    told = "different GPUs are called canvas"
    for folder, second, is_told in (("both", "mine.yaml", True), ("twice", "same.yaml", False)):
        command(*point, "--gpu", "canvas", "--gpu", second, "--workers", "1", "--quiet", "--out", folder)
        assert is_told is (told in (tmp_path / folder / "report.html").read_text(encoding="utf-8"))
