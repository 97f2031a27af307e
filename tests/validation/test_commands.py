"""`python -m validation collect`, `check` and `calibrate` from outside: messages and exit codes, without a GPU."""

import sys
from pathlib import Path

import pytest
from simulated_gpu import SimulatedGpu

from gpusim.specs import load_gpu
from validation import __main__ as commands
from validation.collect import cupy_device


class Answer:
    """What a command said and how it ended."""

    def __init__(self, code: object, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """`run("collect", "--out", "x")` is `python -m validation collect --out x` in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["validation", *arguments])
        with pytest.raises(SystemExit) as caught:
            commands.main()
        return Answer(caught.value.code, *capsys.readouterr())

    return call


def test_collect_without_cupy_says_in_one_line_how_to_get_it(run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 2, nothing is written."""
    monkeypatch.setitem(sys.modules, "cupy", None)
    done = run("collect", "--out", "my_gpu")
    assert (2, "") == (done.code, done.out)
    (line,) = done.err.splitlines()
    assert line.startswith("error: GPU: CuPy is not installed")
    assert "pip install -e '.[gpu-cuda13]'" in line
    assert not Path("my_gpu").exists()


def test_an_unknown_group_is_refused_before_the_gpu_is_looked_for(run) -> None:
    """The groups are listed."""
    done = run("collect", "--out", "my_gpu", "--only", "flash")
    assert 2 == done.code
    assert done.err.startswith("error: group: 'flash' is not known; choose one of: stream, ")


def test_an_unknown_gpu_is_refused_before_the_gpu_is_looked_for(run) -> None:
    """Not after ten minutes without our own kernels."""
    done = run("collect", "--out", "my_gpu", "--gpu", "h200")
    assert 2 == done.code
    assert done.err.startswith("error: gpu: 'h200' is not known; choose one of: a10, ")


def test_collect_takes_the_name_of_a_config_not_a_file(run) -> None:
    """Rows name a config of configs/, where check and calibrate look for it."""
    Path("mine.yaml").write_text("base: h200_sxm_141gb\nname: mine\nsources: {}\n")
    done = run("collect", "--out", "my_gpu", "--gpu", "mine.yaml")
    assert (2, "error: --gpu: got the file mine.yaml; put it into configs/ and give its name, mine\n") == (
        done.code,
        done.err,
    )


def test_a_gpu_without_a_config_is_told_at_the_start(run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its microbenchmarks are measured; how our kernels come in as well is said."""
    gpu = SimulatedGpu(load_gpu("h200_sxm_141gb").model_copy(update={"name": "NVIDIA X1"}))
    monkeypatch.setattr(cupy_device, "open_device", lambda gpu_name: gpu)
    done = run("collect", "--out", "my_gpu", "--only", "launches")
    assert (0, "") == (done.code, done.err)
    assert (
        "our own kernels, whose tiles follow from it, will be left out; add configs/NAME.yaml"
        in (done.out.splitlines()[1])
    )


def test_calibrate_without_measurements_says_what_writes_them(run) -> None:
    """Exit code 2 on one line."""
    done = run("calibrate", "--measured", "nothing", "-o", "mine.yaml")
    assert (2, "") == (done.code, done.out)
    assert ["error: nothing: holds no machine.json; python -m validation collect --out nothing writes one"] == (
        done.err.splitlines()
    )


def test_calibrate_writes_yaml_only(run) -> None:
    """As gpusim calibrate."""
    done = run("calibrate", "--measured", "nothing", "-o", "mine.csv")
    assert (2, "error: -o: got mine.csv; a GPU file ends in .yaml\n") == (done.code, done.err)


def test_check_reads_every_kind_of_row(run) -> None:
    """Without the compiler: no fault, and what compare has no workload for is named."""
    done = run("check", "--no-kernels")
    assert (0, "") == (done.code, done.err)
    assert "ok    h200_sxm_141gb, rows of pointer_chase: 19 read" in done.out
    assert "skipped: kernel = 'exp_rate': the rate of one unit alone; no workload is that" in done.out
    assert done.out.splitlines()[-1].endswith(", 0 faults")


@pytest.mark.parametrize("name", ["collect", "check", "calibrate"])
def test_every_command_explains_itself_with_an_example(run, name: str) -> None:
    """An example that can be typed."""
    done = run(name, "--help")
    assert 0 == done.code
    assert f"Example: python -m validation {name}" in " ".join(done.out.split())
