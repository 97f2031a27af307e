"""Public cases that the FlashAttention models answer, named after their number in the case list."""

import json
import re
import sys

import pytest

from gpusim import (
    AttentionWorkload,
    Conditions,
    Point,
    PointResult,
    apply_overrides,
    load_gpu,
    parse_request,
    run_point,
)
from gpusim.cli import main
from gpusim.explain import explain
from gpusim.specs import GpuSpec

H100 = load_gpu("h100_sxm5_80gb")
ONE_WAVE = AttentionWorkload(batch=1, heads=4, seqlen_q=4096, seqlen_k=4096, head_dim=128)
POINT = ("--gpu", "h100_sxm5_80gb", "--schedule", "flash2", "--seqlen", "4096", "--head-dim", "128", "--batch", "4")
HEADS = ("--heads", "16")


def ok(spec: GpuSpec, workload: AttentionWorkload = ONE_WAVE, timing: str = "ncu") -> PointResult:
    """A point of FlashAttention-3 that can be simulated."""
    conditions = Conditions.model_validate({"timing": timing, "cache": "cold"})
    result = run_point(Point(spec, parse_request("flash3", "case"), workload, conditions))
    assert (None, "ok") == (result.reason, result.status)
    return result


def test_E16_only_the_first_access_latency_is_exposed() -> None:
    """500 ns more of latency for each of 24 K/V tiles, 128 CTAs at once on 132 SMs: stages hide all but the first.

    What can be seen are Q with the first K tile, and the first V tile: 1,000 ns at most, of 12,000.
    """
    slower = {}
    for memory in ("l2", "hbm"):
        for side in ("near", "far"):
            path = f"memory.{memory}.{side}_latency_ns"
            slower[path] = str(getattr(getattr(H100.memory, memory), f"{side}_latency_ns") + 500)
    near, far = ok(H100), ok(apply_overrides(H100, slower))
    assert 128 / 132 == pytest.approx(near.waves)
    assert 0 < 1e6 * ((far.latency_ms or 0.0) - (near.latency_ms or 0.0)) <= 1000


def test_E16_the_explanation_breaks_latency_into_fixed_compute_and_exposed_with_bandwidth_beside_it() -> None:
    """The terms add up to the latency; what memory takes alone is told beside them, since most of it is hidden."""
    result = ok(H100, timing="event")
    found = explain(result, H100)
    assert found is not None
    total, terms = found.time.split(" = ")
    unit_us = {"ms": 1000.0, "µs": 1.0}
    number = re.compile(r"([\d.]+) (ms|µs)")
    values = [float(value) * unit_us[unit] for value, unit in number.findall(terms)]
    ((latency, unit),) = number.findall(total)
    assert sum(values) == pytest.approx(float(latency) * unit_us[unit], rel=0.01)
    for words in ("at the compute pipe", "waiting for tiles", "in latency of steps", "fixed (launches, host)"):
        assert words in terms
    assert re.search(r"moving all data alone takes .* at L2 and .* at HBM", found.exposed)


def printed(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """What `gpusim run` says about FlashAttention-2 on an H100."""
    sys.argv = ["gpusim", "run", *POINT, *HEADS, *options]
    with pytest.raises(SystemExit) as caught:
        main()
    assert 0 == caught.value.code
    return capsys.readouterr().out


@pytest.fixture
def in_an_empty_folder(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """Runs leave their files here, and the arguments of the test run come back afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", sys.argv)


@pytest.mark.usefixtures("in_an_empty_folder")
def test_E25_a_prediction_states_its_error_band(capsys) -> None:
    """In words and in JSON; where hardware is changed nothing was measured, and that is said instead."""
    said = printed(capsys)
    assert "Error band of flash2 on h100_sxm5_80gb: ± " in said
    (point,) = json.loads(printed(capsys, "--json"))["points"]
    assert 0 < point["validated"] <= 0.25
    assert point["latency_lo_ms"] < point["latency_ms"] < point["latency_hi_ms"]
    changed = printed(capsys, "--set", "memory.l2.size_bytes=80e6")
    assert "Not validated: flash2 on h100_sxm5_80gb" in changed
    assert "Error band" not in changed


def test_E25_launch_overhead_is_explicit() -> None:
    """The gap before a kernel in a stream, by the GPU's file, is what an event adds to the kernel's own time."""
    result = ok(H100, timing="event")
    fixed_ms = (result.latency_ms or 0.0) - sum(kernel.latency_ms for kernel in result.kernels)
    assert 1e6 * fixed_ms == pytest.approx(H100.timings().launch.stream_ns)
    found = explain(result, H100)
    assert found is not None
    fixed_us = re.search(r"([\d.]+) µs fixed \(launches, host\)", found.time)
    assert fixed_us is not None
    # CTAs are launched one after another on top of it, a few nanoseconds each.
    assert H100.timings().launch.stream_ns <= 1000 * float(fixed_us[1]) <= 1.1 * H100.timings().launch.stream_ns
