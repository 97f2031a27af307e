"""Public cases about GPU presets and config files, named after their number in the case list."""

from pathlib import Path

import pytest

from gpusim.errors import ConfigError, UnknownNameError
from gpusim.gpu_page import gpu_text
from gpusim.specs import apply_overrides, gpu_names, lint_gpu, load_gpu

SOURCE = "{kind: assumed, source: a test}"

E04_H100 = f"""
base: h100_sxm5_80gb
name: sm90_h100
sm: {{clock_hz: 1132e6, smem_bytes: 98304, smem_per_cta_max_bytes: 65536}}
memory:
  hbm: {{bus_width_bits: 5120, pin_rate_bits_per_s: 1.7e9, peak_bandwidth_bytes_per_s: 1.088e12,
        stream_bandwidth_bytes_per_s: 1.0e12}}
sources:
  sm.clock_hz: {SOURCE}
  sm.smem_bytes: {SOURCE}
  sm.smem_per_cta_max_bytes: {SOURCE}
  memory.hbm.bus_width_bits: {SOURCE}
  memory.hbm.pin_rate_bits_per_s: {SOURCE}
  memory.hbm.peak_bandwidth_bytes_per_s: {SOURCE}
  memory.hbm.stream_bandwidth_bytes_per_s: {SOURCE}
"""


def write(folder: Path, text: str) -> Path:
    """Writes a GPU file and returns its path."""
    path = folder / "mine.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["v100_sxm2", "H100", "a100", "qv100", ""])
def test_E01_an_unknown_gpu_lists_the_presets_and_never_falls_back(name: str) -> None:
    """Asking for a GPU that is not shipped names every one that is, the V100 that was once handed out among them."""
    with pytest.raises(UnknownNameError) as caught:
        load_gpu(name)
    assert f"gpu: '{name}' is not known; choose one of: {', '.join(gpu_names())}" == str(caught.value)
    assert {"a100_sxm4_40gb", "h100_sxm5_80gb", "h100_pcie_80gb", "v100_sxm2_16gb"} <= set(caught.value.known)


def test_E03_the_summary_shows_the_total_l2() -> None:
    """64 sets x 128 B x 40 ways x 160 sub-partitions is 52,428,800 B, shown as 50.0 MiB."""
    assert 64 * 128 * 40 * 160 == load_gpu("h100_sxm5_80gb").memory.l2.size_bytes
    assert "50.0 MiB" in gpu_text(load_gpu("h100_sxm5_80gb"))


@pytest.mark.parametrize("channels", [1, 3, 40, 80, 96])
def test_E03_any_positive_channel_count_works(channels: int) -> None:
    """80 channels of 64 bits are a bus of 5120 bits; no count has to be a power of two."""
    spec = apply_overrides(load_gpu("h100_sxm5_80gb"), {"memory.hbm.bus_width_bits": str(64 * channels)})
    assert 64 * channels == spec.memory.hbm.bus_width_bits


def test_E04_an_h100_with_v100_numbers_is_warned_about_with_both_numbers(tmp_path: Path) -> None:
    """Clock, shared memory per CTA and 80 x 8 B x 2 x 850 MHz of bandwidth are far from the named product."""
    findings = {finding.field: finding for finding in lint_gpu(write(tmp_path, E04_H100))}
    assert {"warning"} == {finding.severity for finding in findings.values()}
    assert 1088 == 80 * 8 * 2 * 850e6 / 1e9
    for field, numbers in {
        "sm.clock_hz": ("1,132 MHz", "1,980 MHz"),
        "sm.smem_per_cta_max_bytes": ("65,536 bytes", "232,448 bytes"),
        "memory.hbm.peak_bandwidth_bytes_per_s": ("1,088 GB/s", "3,352 GB/s"),
    }.items():
        assert all(number in findings[field].message for number in numbers)
    assert 3 == len(findings)


@pytest.mark.parametrize("field", ["sm.count", "memory.l2.partitions", "memory.hbm.bus_width_bits"])
@pytest.mark.parametrize("value", ["0", "-3", "X", "1.5", "true"])
def test_E06_a_bad_count_is_refused_with_field_value_and_range(field: str, value: str) -> None:
    """No assertion deep in a hash function: the field, what it got and what it takes."""
    with pytest.raises(ConfigError) as caught:
        apply_overrides(load_gpu("h100_sxm5_80gb"), {field: value})
    (problem,) = caught.value.problems
    shown = "'X'" if value == "X" else value
    assert problem.startswith(f"{field}: got {shown}, expected a whole number")
    assert "greater than 0" in problem


def test_E07_placeholders_and_missing_keys_are_reported_at_once(tmp_path: Path) -> None:
    """Each with its key, and the type and unit that belong there."""
    text = (Path(__file__).parents[2] / "configs" / "h100_sxm5_80gb.yaml").read_text()
    text = text.replace("  clock_hz: 1.98e9", "  clock_hz: X", 1).replace("  smem_bytes: 233472", "  smem_bytes: X")
    text = text.replace("  fp32_lanes: 128\n", "").replace("    near_latency_ns: 151\n", "")
    findings = {finding.field: finding for finding in lint_gpu(write(tmp_path, text))}
    assert {"error"} == {finding.severity for finding in findings.values()}
    assert {
        "sm.clock_hz": "got 'X', expected a number in Hz greater than 0",
        "sm.smem_bytes": "got 'X', expected a whole number in bytes greater than 0",
        "sm.fp32_lanes": "missing, expected a whole number greater than 0",
        "memory.l2.near_latency_ns": "missing, expected a number in ns greater than 0 or null",
    } == {field: finding.message.split(" (line")[0] for field, finding in findings.items()}


def test_E07_loading_reports_the_same_at_once(tmp_path: Path) -> None:
    """A whole deleted section is listed key by key, beside the placeholders."""
    text = (Path(__file__).parents[2] / "configs" / "canvas.yaml").read_text()
    launch = text[text.index("launch:\n") : text.index("power:")]
    with pytest.raises(ConfigError) as caught:
        load_gpu(str(write(tmp_path, text.replace(launch, "").replace("max_ctas: 1", "max_ctas: X"))))
    assert 5 == len(caught.value.problems)
    assert "launch.ctas_per_s: missing, expected a number in CTAs/s greater than 0" in str(caught.value)
    assert "sm.max_ctas: got 'X', expected a whole number greater than 0" in str(caught.value)


def test_E22_h200_has_the_peak_of_h100_and_its_own_memory() -> None:
    """4.8 TB/s and 141 GB beside the same dense FLOPs."""
    h100, h200 = load_gpu("h100_sxm5_80gb"), load_gpu("h200_sxm_141gb")
    assert (4.8e12, 141e9) == (h200.memory.hbm.peak_bandwidth_bytes_per_s, h200.memory.hbm.capacity_bytes)
    assert 3.35e12 == pytest.approx(h100.memory.hbm.peak_bandwidth_bytes_per_s, rel=1e-3)
    assert all(
        h100.tensor_peak_flop_per_s(dtype) == h200.tensor_peak_flop_per_s(dtype)
        for dtype in h100.sm.tensor_flop_per_clk
    )


def test_E23_a_sparse_peak_is_warned_about_with_both_numbers(tmp_path: Path) -> None:
    """1979 TFLOP/s of bf16 on an H100-class GPU is the 2:4 sparse figure; dense is 989."""
    text = (
        "base: h100_sxm5_80gb\nname: h800\nsm: {tensor_flop_per_clk: {bf16: 8192}}\n"
        f"sources: {{sm.tensor_flop_per_clk.bf16: {SOURCE}}}\n"
    )
    (finding,) = lint_gpu(write(tmp_path, text))
    assert ("warning", "sm.tensor_flop_per_clk.bf16") == (finding.severity, finding.field)
    assert all(words in finding.message for words in ("1979", "989 TFLOP/s dense", "sparse"))
