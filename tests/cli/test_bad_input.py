"""What a user gets wrong ends in exit code 2, one line a problem with file, field and fix, and nothing written."""

import os
from pathlib import Path

import pytest

SCENARIO = """\
name: mine
gpu: canvas
workload: {batch: 1, heads: 1, seqlen: 8, head_dim: 4}
schedule: {name: flash2, tile_q: 4, tile_kv: 4}
"""
POINT = ("--gpu", "canvas", "--schedule", "flash2", "--seqlen", "8", "--head-dim", "4")
FIT = ("fit", "--gpu", "canvas", "--head-dim", "64", "--schedule")


def edited(old: str, new: str) -> str:
    """The scenario with one thing changed."""
    assert old in SCENARIO
    return SCENARIO.replace(old, new)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(SCENARIO + "sweeep: {}\n", ["sweeep: unknown key", "sweep"], id="unknown key"),
        pytest.param(
            edited("heads: 1", "heads: 1, head: 2"), ["head: unknown key", "did you mean heads?"], id="unknown field"
        ),
        pytest.param(SCENARIO + "gpu: canvas\n", ["line 5: gpu: appears twice", "keep one"], id="duplicate key"),
        pytest.param(
            SCENARIO + "conditions: {clock_mhz: 1410}\n",
            ["clock_mhz: unknown key", "did you mean sm_clock_mhz?"],
            id="wrong name of a quantity with a unit",
        ),
        pytest.param(edited("seqlen: 8", "seqlen: .nan"), ["seqlen: got .nan", "finite number"], id="nan"),
        pytest.param(edited("seqlen: 8", "seqlen: 0"), ["seqlen: got 0", "greater than 0"], id="zero"),
        pytest.param(edited("head_dim: 4", "head_dim: -4"), ["head_dim: got -4", "greater than 0"], id="negative"),
        pytest.param(edited("batch: 1", "batch: two"), ["batch: got 'two'", "a whole number"], id="text for a number"),
        pytest.param(edited("heads: 1", "heads: 1, causal: yes"), ["got yes", "write true, false"], id="yes"),
        pytest.param(SCENARIO + "sweep: {seqlen: []}\n", ["seqlen: the list is empty"], id="empty sweep"),
        pytest.param(SCENARIO + "sweep: {seqlen: 8}\n", ["sweep.seqlen: got 8, expected a list"], id="sweep of one"),
        pytest.param(SCENARIO + "sweep: {batch: [1]}\nzip: {batch: [2]}\n", ["sweep and in zip"], id="varied twice"),
        pytest.param(edited("canvas", "canvass"), ["gpu: 'canvass' is not known", "canvas"], id="unknown GPU"),
        pytest.param(edited("canvas", "no.yaml"), ["no.yaml: no such file"], id="missing GPU file"),
        pytest.param(edited("tile_q: 4", "tile_q: 0"), ["tile_q: got 0", "greater than 0"], id="tile of nothing"),
        pytest.param(edited("flash2", "flash9"), ["'flash9' is not known", "flash2"], id="unknown schedule"),
        pytest.param(SCENARIO + "measured: nosuch\n", ["'nosuch' is not known", "fa1_paper"], id="unknown table"),
        pytest.param(edited("mine", "../../mine"), ["name: got '../../mine'", "letters"], id="name of no folder"),
        pytest.param("- a\n", ["expected a mapping with name"], id="a list"),
        pytest.param("", ["expected a mapping with name"], id="empty file"),
        pytest.param("name: [\n", ["not valid YAML"], id="broken YAML"),
    ],
)
def test_a_bad_scenario_is_one_problem_with_its_fix(command, tmp_path: Path, text: str, said: list[str]) -> None:
    """File, field and fix on one line; no folder is left behind."""
    (tmp_path / "mine.yaml").write_text(text)
    done = command("run", "mine.yaml", "--out", "out")
    (problem,) = done.problems
    assert (2, "") == (done.code, done.out)
    assert problem.startswith("mine.yaml: ")
    for words in said:
        assert words in problem
    assert ["mine.yaml"] == os.listdir(tmp_path)


def test_all_problems_of_a_scenario_arrive_together(command, tmp_path: Path) -> None:
    """Four mistakes in three groups: four lines, no more."""
    (tmp_path / "mine.yaml").write_text(
        "name: mine\ngpu: canvass\nworkload: {batch: 0, heads: 1, seqlen: 8, head_dim: four}\nschedule: flash9\n"
    )
    done = command("run", "mine.yaml")
    fields = [problem.removeprefix("mine.yaml: ").partition(": ")[0] for problem in done.problems]
    assert (2, ["gpu", "schedule", "batch", "head_dim"]) == (done.code, fields)
    assert ["mine.yaml"] == os.listdir(tmp_path)


def test_all_problems_of_a_gpu_file_arrive_together(command, tmp_path: Path) -> None:
    """A clock in MHz, a negative L2, an unknown group: each with the file's name, as a lint and as a run's input."""
    (tmp_path / "gpu.yaml").write_text(
        "base: a100_sxm4_40gb\nname: mine\nsm: {clock_mhz: 1410}\nmemory: {l2: {size_bytes: -1}}\nlaunching: {}\n"
    )
    lint = command("gpus", "--check", "gpu.yaml")
    run = command("run", "--gpu", "gpu.yaml", *POINT[2:])
    for code, lines in ((lint.code, lint.out.splitlines()), (run.code, run.problems)):
        assert 2 == code
        for field in ("sm.clock_mhz", "memory.l2.size_bytes", "launching"):
            assert any("gpu.yaml: " in line and field in line for line in lines), (field, lines)


def test_1_5e9_is_a_number(command, tmp_path: Path) -> None:
    """In a GPU file, where PyYAML would read text; 8e0 rows are eight."""
    (tmp_path / "gpu.yaml").write_text(
        "base: canvas\nname: mine\nsm: {clock_hz: 1.5e9}\n"
        "sources: {sm.clock_hz: {kind: assumed, source: half as fast again}}\n"
    )
    (tmp_path / "mine.yaml").write_text(edited("seqlen: 8", "seqlen: 8e0").replace("canvas", "gpu.yaml"))
    done = command("run", "mine.yaml", "--json")
    assert (0, "") == (done.code, done.err)
    assert 8 == done.document["points"][0]["seqlen_q"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "nosuch"], ["scenario: 'nosuch' is not known", "canvas_bytes"]),
        (["run", "nosuch.yaml"], ["nosuch.yaml: no such file"]),
        (["run", "x" * 300], ["File name too long"]),
        (["run", "canvas_bytes", "--gpu", "nosuch"], ["gpu: 'nosuch' is not known", "canvas"]),
        (["run", "canvas_bytes", "--seqlen", "8", "--batch", "2", "--stages", "1"], ["--seqlen, --batch, --stages"]),
        (["run", "canvas_bytes", "--set", "sm.clok_hz=1"], ["--set: sm.clok_hz: unknown field", "sm.clock_hz"]),
        (["run", "canvas_bytes", "--set", "sm.clock_hz=fast"], ["--set: sm.clock_hz: got 'fast'", "Hz"]),
        (["run", "canvas_bytes", "--set", "sm.clock_hz=-1"], ["--set: sm.clock_hz: got -1", "greater than 0"]),
        (["run", "canvas_bytes", "--set", "sm.clock_hz"], ["--set: got 'sm.clock_hz', expected path=value"]),
        (["run", "canvas_bytes", "--set", "a=1", "--set", "a=2"], ["a is given twice, as 1 and 2; keep one"]),
        (["run", "canvas_bytes", "--set", "memory.l2.size_bytes=5"], ["canvas has no memory.l2"]),
        (["run", *POINT, "--batch", "0"], ["line: --batch: got 0", "greater than 0"]),
        (["run", *POINT, "--seqlen", "0"], ["line: --seqlen: got 0", "greater than 0"]),
        (["run", *POINT[:-1], "-4"], ["line: --head-dim: got -4", "greater than 0"]),
        (["run", *POINT, "--dtype", "fp64"], ["line: --dtype: got 'fp64'", "fp16"]),
        (["run", *POINT, "--tile-q", "0"], ["line: --tile-q: got 0", "greater than 0 (schedule flash2)"]),
        (["run", *POINT, "--gpu", "nosuch"], ["line: --gpu: 'nosuch' is not known"]),
        (["run", *POINT, "--schedule", "nosuch"], ["line: --schedule: 'nosuch' is not known"]),
        (["run", *POINT, "--gpu", "canvas"], ["line: --gpu: canvas is given 2 times; keep one"]),
        (["run", "canvas_bytes", "--gpu", "canvas", "--gpu", "canvas"], ["line: --gpu: canvas is given 2 times"]),
        (["run", *POINT, "--seqlen", "8"], ["line: --seqlen: 8 is given 2 times; keep one"]),
        (["run", *POINT, "--workload", "dtype=[fp16,fp16]"], ["line: --dtype: fp16 is given 2 times; keep one"]),
        (["run", *POINT, "--workload", "stack=typo"], ["line: stack: 'typo' is not known", "fa1_paper"]),
        (["run", *POINT, "--out", ""], ["--out: the path is empty; name one"]),
        (["compare", "fa1_paper_a100_fwd", "--out="], ["--out: the path is empty; name one"]),
        (["replay", "canvas_bytes", "-o", ""], ["--out: the path is empty; name one"]),
        (["compare", "fa1_paper_a100_fwd", "fa1_paper_a100_fwd"], ["measured: fa1_paper_a100_fwd is given 2 times"]),
        (["replay", "canvas_bytes", "canvas_bytes"], ["scenario: canvas_bytes is given 2 times; keep one"]),
        (["fit", "--gpu", "canvas", "--head-dim", "4", "--tile-q", "4", "--tile-q", "4"], ["--tile-q: 4 is given 2"]),
        (["schedules", "flash3@1999"], ["flash3 has no version '1999'; it knows 2024-07, 2025"]),
        (["schedules", "gemm@1"], ["schedule: 'gemm@1' is not known", "gemm"]),
        (["compare", "nosuch"], ["measured table: 'nosuch' is not known", "fa1_paper_a100_fwd"]),
        (["compare", "nosuch.csv"], ["nosuch.csv: no such file"]),
        (["compare", "fa1_paper_a100_fwd", "--gpu", "nosuch"], ["gpu: 'nosuch' is not known"]),
        (["compare", "fa1_paper_a100_fwd", "--set", "sm.clock=1"], ["sm.clock: unknown field", "sm.clock_hz"]),
        (["gpus", "nosuch"], ["gpu: 'nosuch' is not known", "canvas"]),
        (["gpus", "--set", "sm.clock_hz=1"], ["name it"]),
        (["gpus", "canvas", "--check", "x.yaml"], ["leave the name"]),
        (["schedules", "nosuch"], ["schedule: 'nosuch' is not known", "flash2"]),
        (["fit", "--gpu", "nosuch", "--head-dim", "64"], ["gpu: 'nosuch' is not known"]),
        ([*FIT, "nosuch"], ["schedule: 'nosuch' is not known", "flash3, triton"]),
        ([*FIT, "pytorch_naive"], ["pytorch_naive is not attention in one kernel", "flash3, triton"]),
        ([*FIT, "flash3@1999"], ["flash3 has no version '1999'", "2024-07, 2025"]),
        ([*FIT, "flash3", "--tile-q", "100"], ["tile_q: got 100", "a multiple of 64"]),
    ],
)
def test_a_bad_option_is_one_problem_with_its_fix(
    command, tmp_path: Path, arguments: list[str], said: list[str]
) -> None:
    """What was written, and what would have been right; nothing is simulated or written."""
    done = command(*arguments)
    (problem,) = done.problems
    assert (2, "") == (done.code, done.out)
    for words in said:
        assert words in problem
    assert [] == os.listdir(tmp_path)


def test_every_missing_option_is_named(command) -> None:
    """A point needs four."""
    done = command("run")
    assert 2 == done.code
    for option, problem in zip(("--gpu", "--schedule", "--seqlen", "--head-dim"), done.problems, strict=True):
        assert problem.startswith(f"command line: {option}: missing")


@pytest.mark.parametrize(
    "arguments",
    [
        ["frobnicate"],
        ["run", "canvas_bytes", "--nosuch"],
        ["run", "canvas_bytes", "--workers", "0"],
        ["run", "canvas_bytes", "--mode", "sideways"],
        ["run", *POINT[:-1], "four"],
        ["compare"],
        ["compare", "fa1_paper_a100_fwd", "--max-mape", "-1"],
        ["fit", "--gpu", "canvas"],
        ["fit", "--gpu", "canvas", "--head-dim", "0"],
    ],
)
def test_bad_usage_exits_2_and_points_to_the_help(command, arguments: list[str]) -> None:
    """Commands, options and types that do not exist."""
    done = command(*arguments)
    assert (2, "") == (done.code, done.out)
    assert "--help" in done.err


@pytest.mark.parametrize("out", ["file", "file/below", "x" * 300])
@pytest.mark.parametrize("what", [["run", "canvas_bytes"], ["compare", "rows.csv"]])
def test_a_folder_that_cannot_be_written_is_refused_at_once(command, tmp_path: Path, what: list[str], out: str) -> None:
    """A file in its place, above it, or a name too long: said before anything is simulated."""
    (tmp_path / "file").write_text("mine")
    (tmp_path / "rows.csv").write_text("gpu,kernel,latency_ms\n")
    done = command(*what, "--out", out)
    (problem,) = done.problems
    assert 2 == done.code
    assert problem.startswith(f"{out}: cannot be written: ")
    assert problem.endswith("choose another folder with --out")
    assert {"file", "rows.csv"} == set(os.listdir(tmp_path))
    assert "mine" == (tmp_path / "file").read_text()


def test_a_folder_nobody_may_write_in_is_refused(command) -> None:
    """The kernel's own file system takes no folders, not even from root."""
    done = command("run", "canvas_bytes", "--out", "/proc/gpusim")
    (problem,) = done.problems
    assert 2 == done.code
    assert problem.startswith("/proc/gpusim: cannot be written: ")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--workload", "m"), "--workload: got 'm', expected FIELD=VALUE, e.g. m=4096"),
        (("--workload", "m=1", "--workload", "m=2"), "--workload: m is given twice; keep one"),
        (("--batch", "2", "--workload", "batch=2"), "--workload: batch is given twice; keep one"),
        (("--workload", "m=yes"), "--workload m: line 1: got yes, which YAML readers disagree on"),
        (
            ("--workload", "m=4", "--workload", "n=4"),
            "command line: k: missing, expected a whole number greater than 0",
        ),
        (
            ("--workload", "m=4", "--workload", "n=4", "--workload", "k=4", "--heads", "2"),
            "command line: workload.heads: unknown key; known are batch, m, n, k, dtype",
        ),
    ],
)
def test_a_bad_workload_field_is_one_problem(command, options: tuple[str, ...], said: str) -> None:
    """No such pair, given twice, not readable, missing, or of another kind of workload."""
    done = command("run", "--gpu", "a100_sxm4_40gb", "--schedule", "torch_matmul", *options)
    (problem,) = done.problems
    assert 2 == done.code
    assert problem.startswith(said)


def test_attention_and_a_product_are_not_one_point(command) -> None:
    """The message says which schedule takes what; neither kind's options are missed."""
    done = command(
        "run", *("--gpu", "a100_sxm4_40gb"), *("--schedule", "flash2"), *("--schedule", "torch_matmul"), "--seqlen", "8"
    )
    assert 2 == done.code
    assert "flash2: attention (batch, heads, seqlen, head_dim); torch_matmul: a matrix product (m, n, k)" in done.err
