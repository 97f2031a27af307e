"""The linter: contradictions inside a file, and distance from the product it names."""

from pathlib import Path

import pytest

from gpusim.specs import Finding, lint_gpu

SOURCE = "{kind: assumed, source: a test}"


def lint(folder: Path, text: str) -> list[Finding]:
    """What the linter finds in a GPU file of this text."""
    path = folder / "mine.yaml"
    path.write_text(text)
    return lint_gpu(path)


def changed(base: str, group: str, values: str, *paths: str) -> str:
    """Text of a GPU file that changes one group of its base, with a source for each path."""
    sources = "".join(f"  {path}: {SOURCE}\n" for path in paths)
    return f"base: {base}\nname: mine\n{group}: {values}\nsources:\n{sources}"


def test_bandwidth_must_follow_from_bus_width_and_pin_rate(tmp_path: Path) -> None:
    """5120 bits x 2 Gbit/s / 8 is 1280 GB/s, 18 % below the 1555 stated: both numbers are printed."""
    (finding,) = lint(
        tmp_path,
        changed("a100_sxm4_40gb", "memory", "{hbm: {pin_rate_bits_per_s: 2e9}}", "memory.hbm.pin_rate_bits_per_s"),
    )
    assert ("warning", "memory.hbm.peak_bandwidth_bytes_per_s") == (finding.severity, finding.field)
    assert "1555.0 GB/s stated" in finding.message
    assert "= 1280.0 GB/s" in finding.message


def test_shared_memory_per_cta_above_the_sm_s_is_an_error(tmp_path: Path) -> None:
    """163 KiB per CTA and its reserve do not come out of 96 KiB."""
    (finding,) = lint(tmp_path, changed("a100_sxm4_40gb", "sm", "{smem_bytes: 98304}", "sm.smem_bytes"))
    assert ("error", "sm") == (finding.severity, finding.field)
    assert "166912" in finding.message
    assert "98304" in finding.message


@pytest.mark.parametrize(
    ("architecture", "rate"), [("a100_sxm4_40gb", 4096), ("a10", 2048), ("l40s", 2048), ("h100_sxm5_80gb", 8192)]
)
def test_twice_the_dense_rate_is_called_sparse(tmp_path: Path, architecture: str, rate: int) -> None:
    """2:4 sparsity doubles the dense rate of the tensor cores, and only that."""
    path = "sm.tensor_flop_per_clk.bf16"
    (finding,) = lint(tmp_path, changed(architecture, "sm", f"{{tensor_flop_per_clk: {{bf16: {rate}}}}}", path))
    assert ("warning", path) == (finding.severity, finding.field)
    assert "2:4 sparse peak" in finding.message


@pytest.mark.parametrize(("count", "findings"), [(119, 0), (118, 1), (145, 0), (146, 1)])
def test_ten_percent_from_the_product_is_the_limit(tmp_path: Path, count: int, findings: int) -> None:
    """132 SMs +- 10 % is 118.8 to 145.2."""
    assert findings == len(lint(tmp_path, changed("h100_sxm5_80gb", "sm", f"{{count: {count}}}", "sm.count")))


def test_a_product_that_is_shipped_in_two_sizes_is_compared_with_the_nearer(tmp_path: Path) -> None:
    """A file that only says A100 may have the bandwidth of either board."""
    assert [] == lint(tmp_path, "base: a100_sxm4_80gb\nname: mine\nproduct: NVIDIA A100\n")


def test_another_product_is_compared_with_nothing(tmp_path: Path) -> None:
    """A made-up GPU may have any clock."""
    text = changed("h100_sxm5_80gb", "sm", "{clock_hz: 3e9}", "sm.clock_hz")
    assert [] == lint(tmp_path, text.replace("name: mine", "name: mine\nproduct: my next GPU"))


@pytest.mark.parametrize("text", ["", "a: b: c", "base: nope", "base: mine.yaml"])
def test_unreadable_files_are_findings_not_exceptions(tmp_path: Path, text: str) -> None:
    """The linter answers whatever it is given."""
    assert ["error"] == [finding.severity for finding in lint(tmp_path, text)]


def test_a_shipped_gpu_is_linted_by_its_name() -> None:
    """A bare name is a shipped GPU; one that does not exist is a finding with the names that do."""
    assert [] == lint_gpu("canvas")
    (finding,) = lint_gpu("nowhere")
    assert finding.message.startswith("'nowhere' is not known; choose one of: ")


def test_a_finding_reads_as_one_line() -> None:
    """Severity, field, message."""
    assert "warning: sm.count: odd" == str(Finding("warning", "sm.count", "odd"))
    assert "error: no such file" == str(lint_gpu("nowhere.yaml")[0])
