"""Fits to made-up measurements whose constants are known from closed forms."""

from pathlib import Path

import pytest

from gpusim.calibrate import Calibration, calibrate
from gpusim.calibrate_page import FinishedCalibration
from gpusim.errors import InputError
from gpusim.specs import GpuSpec, lint_gpu, load_gpu

A100 = load_gpu("a100_sxm4_40gb")
CYCLES = "calibration.torch_kernels.softmax@fp16.softmax_cycles_per_score"
CLOCK = "sm.clock_hz"
COLS = 1024
WAVE = 108 * 16 * 4  # rows that an A100 has in flight: 16 CTAs an SM, a row for each of four warps
ROWS = tuple(waves * WAVE for waves in (2, 3, 4, 5))


def softmax_ms(rows: int, cycles_per_score: float) -> float:
    """Row softmax of rows × 1,024 in fp16 where the SMs' pipes set the pace: from 0.556 clocks a score on they do."""
    return 1e3 * rows * COLS * cycles_per_score / (A100.sm.count * A100.sm.clock_hz)


def measured(folder: Path, name: str, latencies_ms: dict[int, float]) -> Path:
    """A measured file of such softmax kernels."""
    lines = [f"a100_sxm4_40gb,torch_softmax,fp16,{rows},{COLS},{ms},ncu,cold" for rows, ms in latencies_ms.items()]
    path = folder / f"{name}.csv"
    path.write_text("gpu,kernel,dtype,rows,cols,latency_ms,timing,cache\n" + "\n".join(lines) + "\n")
    return path


@pytest.fixture
def slow_sms(tmp_path: Path) -> Path:
    """Softmax that takes 0.8 clocks a score instead of 0.556."""
    return measured(tmp_path, "slow_sms", {rows: softmax_ms(rows, 0.8) for rows in ROWS})


def fitted(path: Path, *constants: str, spec: GpuSpec = A100, hold_out: tuple[str, ...] = ()) -> Calibration:
    """The fit of one file on one process."""
    return calibrate([path], spec, constants, hold_out=hold_out, workers=1, mode="compiled")


def test_a_known_constant_is_found(slow_sms: Path) -> None:
    """0.8 clocks a score within 4 %: what filling and draining the GPU take of kernels of 75 to 190 µs."""
    done = fitted(slow_sms, CYCLES)
    (constant,) = done.constants
    assert 0.556 == constant.start
    assert 0.8 == pytest.approx(constant.value, rel=0.04)
    (series,) = done.series
    assert ("fitted", 4) == (series.role, series.n)
    assert 30.5 == pytest.approx(series.mape_before_pct, abs=4)  # 0.556 / 0.8 − 1
    assert series.mape_after_pct < 2


def test_the_file_holds_fitted_sources_loads_again_and_is_the_same_twice(slow_sms: Path, tmp_path: Path) -> None:
    """A second fit writes the same bytes; the GPU in them has the constant and says where it comes from."""
    out = tmp_path / "mine.yaml"
    texts = [FinishedCalibration(fitted(slow_sms, CYCLES), "a100_sxm4_40gb", out).yaml() for _ in range(2)]
    assert texts[0] == texts[1]
    out.write_text(texts[0])
    spec = load_gpu(str(out))
    assert [] == lint_gpu(out)
    assert 0.8 == pytest.approx(spec.calibration["torch_kernels"]["softmax@fp16"]["softmax_cycles_per_score"], rel=0.04)
    source = spec.sources[CYCLES]
    assert ("fitted", "gpusim calibrate, 4 rows of slow_sms.csv") == (source.kind, source.source)


def test_whole_files_are_left_out_and_their_error_stands_apart(slow_sms: Path, tmp_path: Path) -> None:
    """Held-out rows of 1.0 clocks a score do not pull the fit to 0.8, and show 20 %."""
    other = measured(tmp_path, "slower_sms", {rows: softmax_ms(rows, 1.0) for rows in ROWS})
    done = calibrate([slow_sms, other], A100, [CYCLES], hold_out=["slower_sms"], workers=1, mode="compiled")
    assert 0.8 == pytest.approx(done.constants[0].value, rel=0.04)
    assert {"slow_sms.csv": "fitted", "slower_sms.csv": "held_out"} == {s.key.file: s.role for s in done.series}
    assert 20 == pytest.approx(done.mape_pct("held_out"), abs=4)  # 0.8 / 1.0 − 1


def test_what_the_rows_do_not_depend_on_is_not_fitted(slow_sms: Path) -> None:
    """A cold softmax of one read never hits L2, so its hit latency cannot be read off it."""
    with pytest.raises(InputError, match=r"far_latency_ns: a change of 10 % moves these latencies by 0 % on average"):
        fitted(slow_sms, "memory.l2.far_latency_ns")


def test_two_constants_of_one_effect_are_not_told_apart(slow_sms: Path) -> None:
    """Clocks a score and the length of a clock only occur as a product here."""
    with pytest.raises(InputError, match="change these latencies in the same way"):
        fitted(slow_sms, CYCLES, CLOCK)


def test_a_constant_that_runs_to_its_limit_is_refused(tmp_path: Path) -> None:
    """Rows ten times too slow ask for more than four times the clocks."""
    slow = measured(tmp_path, "slow", {rows: softmax_ms(rows, 5.56) for rows in ROWS})
    with pytest.raises(InputError, match="ran to its limit"):
        fitted(slow, CYCLES)


def test_rows_above_the_ceiling_take_no_part(tmp_path: Path) -> None:
    """Kernels that move their bytes at several times the bus's 1.555 TB/s are left out, and then none is left."""
    wrong = measured(tmp_path, "wrong", {rows: softmax_ms(rows, 0.1) for rows in ROWS})
    with pytest.raises(InputError, match=r"0 rows of a100_sxm4_40gb for 1 constants.*4 above the GPU's ceiling"):
        fitted(wrong, CYCLES)


@pytest.mark.parametrize(
    ("constants", "problem"),
    [
        (["memory.hbm.speed"], "no such number"),
        (["calibration.torch_kernels.softmax@fp16.speed"], "no such number"),
        ([CYCLES, CYCLES], "named twice"),
        ([f"launch.{name}" for name in ("stream_ns", "graph_ns", "isolated_ns")], "4 rows"),
    ],
)
def test_a_request_that_cannot_be_met_says_why(slow_sms: Path, constants: list[str], problem: str) -> None:
    """Unknown and repeated constants are refused before anything is simulated; the last case is refused by its rows."""
    if problem == "4 rows":
        constants, problem = [*constants, "launch.ctas_per_s"], "4 rows of a100_sxm4_40gb for 4 constants"
    with pytest.raises(InputError, match=problem):
        fitted(slow_sms, *constants)


def test_more_than_eight_constants_of_a_gpu_are_refused(slow_sms: Path) -> None:
    """Nine would fit almost anything."""
    hbm = [f"memory.hbm.{name}" for name in ("stream_bandwidth_bytes_per_s", "mix_loss", "stream_latency_ns")]
    l2 = [f"memory.l2.{name}" for name in ("near_latency_ns", "far_latency_ns", "bandwidth_bytes_per_s", "knee")]
    launch = [f"launch.{name}" for name in ("stream_ns", "graph_ns")]
    with pytest.raises(InputError, match="9 constants of the GPU; at most 8"):
        fitted(slow_sms, *hbm, *l2, *launch)


def test_an_unknown_file_cannot_be_held_out(slow_sms: Path) -> None:
    """The files whose rows take part are named."""
    with pytest.raises(InputError, match="--hold-out other: no row of it takes part; files that do: slow_sms"):
        fitted(slow_sms, CYCLES, hold_out=("other",))
