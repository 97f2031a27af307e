"""Error bands: what they say, and when a point has none."""

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
from gpusim.bands import Band, band_of
from gpusim.compare import ComparedRow, Comparison
from gpusim.measured import MeasuredRow
from gpusim.specs import GpuSpec
from validation.constants import bands_text

A100 = load_gpu("a100_sxm4_40gb")
PAPER = AttentionWorkload(batch=16, heads=8, seqlen_q=1024, seqlen_k=1024, head_dim=64)
BAND = Band("gpu", "kernel", "", 10, band=0.25, from_ms=1.0, to_ms=8.0)


def result(spec: GpuSpec, schedule: object) -> PointResult:
    """A point of the FlashAttention-1 paper."""
    return run_point(Point(spec, parse_request(schedule, "test"), PAPER, Conditions(stack="fa1_paper")))


def test_a_band_encloses_what_hardware_would_take() -> None:
    """simulated / measured − 1 = ± 0.25 and 10 ms simulated: measured between 10 / 1.25 and 10 / 0.75."""
    assert (8.0, pytest.approx(13.3333, rel=1e-4)) == BAND.limits_ms(10.0)


@pytest.mark.parametrize(("latency_ms", "covered"), [(0.49, False), (0.5, True), (16.0, True), (16.1, False)])
def test_a_band_speaks_for_latencies_like_those_measured(latency_ms: float, covered: bool) -> None:
    """Twice beyond 1 to 8 ms at the most."""
    assert covered is BAND.covers(latency_ms)


def test_a_measured_gpu_and_implementation_prints_its_error_beside_the_answer() -> None:
    """The paper's own case is validated, and its band encloses the simulated latency."""
    found = result(A100, "pytorch_naive")
    assert found.validated is not False
    assert 0 < found.validated < 0.15
    assert found.latency_lo_ms < found.latency_ms < found.latency_hi_ms


def test_changed_hardware_and_stated_choices_are_not_validated() -> None:
    """`--set` makes another GPU, a mapping another kernel; neither was measured."""
    changed = apply_overrides(A100, {"memory.l2.size_bytes": "80e6"})
    for found in (result(changed, "pytorch_naive"), result(A100, {"name": "pytorch_naive", "tile_q": 64})):
        assert "ok" == found.status
        assert (False, None, None) == (found.validated, found.latency_lo_ms, found.latency_hi_ms)
    assert band_of(A100, "pytorch_naive", None, 1e6) is None


def test_a_version_has_the_band_of_its_own_measurements() -> None:
    """The paper's rows are of flash1@2022-05; on this GPU no other version was measured, and the name means any."""
    paper, unstated = (band_of(A100, "flash1", version, 10.0) for version in ("2022-05", None))
    assert paper is not None
    assert unstated is not None
    assert ("2022-05", "") == (paper.version, unstated.version)
    assert band_of(A100, "flash1", "2022-12", 10.0) is None


def measured(version: str | None, latency_ms: float) -> ComparedRow:
    """A trusted row of flash1 on the A100 that the simulation puts at 1 ms."""
    simulated = result(A100, "flash1").model_copy(update={"latency_ms": 1.0, "version": version})
    row = MeasuredRow(
        "f.csv", 2, "", "flash1", A100.name, "flash1", version, PAPER, Conditions(), latency_ms, {}, "", {}
    )
    return ComparedRow(row, simulated, is_trusted=True, trust_reason="")


def test_bands_are_made_for_each_version_and_for_all_of_a_name_without_a_default() -> None:
    """Five rows of one version that are exact, five of another off by a quarter, seen in nine of ten of them."""
    rows = [measured(version, ms) for version, ms in (("2022-05", 1.0), ("2022-12", 0.8)) for _ in range(5)]
    done = Comparison(tuple(rows), (), {}, {}, (), (), 0, 0, was_interrupted=False)
    assert bands_text(done).splitlines()[1:] == [
        f"{A100.name},flash1,,10,0.250,0.8,1",
        f"{A100.name},flash1,2022-05,5,0.000,1,1",
        f"{A100.name},flash1,2022-12,5,0.250,0.8,0.8",
    ]
