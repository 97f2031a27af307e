"""`gpusim calibrate`: what it writes, prints and refuses."""

from pathlib import Path

import pytest

from gpusim import calibrate_page
from gpusim.specs import load_gpu

CYCLES = "calibration.torch_kernels.softmax@fp16.softmax_cycles_per_score"
WAVE = 108 * 16 * 4  # rows that an A100 has in flight
ARGUMENTS = ("slow.csv", "--gpu", "a100_sxm4_40gb", "--workers", "1", "--mode", "compiled")


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """Row softmax that takes 0.8 clocks a score on 108 SMs of 1.41 GHz: closed form, as the SMs' pipes set the pace."""
    header = "gpu,kernel,dtype,rows,cols,latency_ms,timing,cache"
    sizes = (waves * WAVE for waves in (2, 3, 4))
    lines = [f"a100_sxm4_40gb,torch_softmax,fp16,{n},1024,{n * 1024 * 0.8 / 108 / 1.41e6},ncu,cold" for n in sizes]
    path = tmp_path / "slow.csv"
    path.write_text("\n".join((header, *lines)) + "\n")
    return path


@pytest.mark.usefixtures("slow")
def test_it_writes_a_gpu_file_and_says_what_it_did(command) -> None:
    """Constants before and after, errors by series, and the file, which loads as a GPU."""
    done = command("calibrate", *ARGUMENTS, "--constant", CYCLES, "-o", "mine.yaml")
    assert (0, "") == (done.code, done.err)
    for words in (CYCLES, "0.556", "slow: torch_softmax", "fitted", "none held out", "use it with --gpu mine.yaml"):
        assert words in done.out
    constant = load_gpu("mine.yaml").calibration["torch_kernels"]["softmax@fp16"]["softmax_cycles_per_score"]
    assert 0.8 == pytest.approx(constant, rel=0.04)


@pytest.mark.usefixtures("slow")
def test_json_is_one_document(command) -> None:
    """With everything that the page shows."""
    document = command("calibrate", *ARGUMENTS, "--constant", CYCLES, "-o", "mine.yaml", "--json").document
    assert {"gpusim", "gpu", "out", "constants", "mape_pct", "series", "left_out"} == document.keys()
    (constant,) = document["constants"]
    assert (CYCLES, 0.556) == (constant["path"], constant["before"])
    assert None is document["mape_pct"]["held_out"]


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--constant", "memory.l2.far_latency_ns", "-o", "mine.yaml"), "too little to fit it"),
        (("--constant", "launch.speed", "-o", "mine.yaml"), "launch.speed: no such number"),
        (("--constant", CYCLES, "-o", "mine.json"), "-o: got mine.json; a GPU file ends in .yaml"),
        (("--implementation", "flash9", "-o", "mine.yaml"), "'flash9' is not known"),
        (("--implementation", "stream", "-o", "mine.yaml"), "3 rows of a100_sxm4_40gb for 3 constants"),
    ],
)
def test_a_mistake_ends_with_exit_code_2_and_no_file(
    command, tmp_path: Path, arguments: tuple[str, ...], problem: str
) -> None:
    """The value, the rule and the fix on one line of standard error."""
    done = command("calibrate", *ARGUMENTS, *arguments)
    assert 2 == done.code
    assert any(problem in line for line in done.problems)
    assert [] == list(tmp_path.glob("mine.*"))


@pytest.mark.usefixtures("slow")
def test_without_scipy_it_says_what_to_install(command, monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra `fit` brings it."""
    monkeypatch.setattr(calibrate_page, "find_spec", lambda name: None)
    done = command("calibrate", *ARGUMENTS, "-o", "mine.yaml")
    assert (2, True) == (done.code, "pip install -e '.[fit]'" in done.err)
