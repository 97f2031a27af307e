"""What holds for every shipped GPU file; a new file is tested by lying in configs/."""

from collections.abc import Iterator

import pytest

from gpusim.datafiles import configs_dir
from gpusim.gpu_page import gpu_text
from gpusim.specs import gpu_names, lint_gpu, load_gpu

NAMES = gpu_names()


def numbers(values: dict[str, object], prefix: str = "") -> Iterator[str]:
    """Dotted paths of all numbers in a nested mapping."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from numbers(value, f"{prefix}{key}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{prefix}{key}"


def test_data_centre_gpus_and_the_toy_simulate() -> None:
    """A100, A30, H100, H200, H800 and L40S have every timing, measured or by proxy; the rest says what it lacks."""
    simulated = {name for name in NAMES if not load_gpu(name).missing_for_simulation()}
    a100 = {f"a100_{form}_{size}gb" for form in ("sxm4", "pcie") for size in (40, 80)}
    h100 = {"h100_sxm5_80gb", "h100_pcie_80gb", "h200_sxm_141gb", "h800_sxm5_80gb"}
    assert a100 | h100 | {"a30", "l40s", "canvas"} == simulated


@pytest.mark.parametrize("name", NAMES)
def test_it_lints_clean(name: str) -> None:
    """No error and no warning."""
    assert [] == lint_gpu(configs_dir() / f"{name}.yaml")


@pytest.mark.parametrize("name", NAMES)
def test_it_is_called_like_its_file(name: str) -> None:
    """The name in results is the name on the command line."""
    assert name == load_gpu(name).name


@pytest.mark.parametrize("name", NAMES)
def test_every_number_has_a_source_and_every_source_a_number(name: str) -> None:
    """Sources and numeric leaves are the same set."""
    values = load_gpu(name).model_dump()
    sources = set(values.pop("sources"))
    assert sources == set(numbers(values))


@pytest.mark.parametrize("name", NAMES)
def test_it_opens_with_a_comment_of_two_lines(name: str) -> None:
    """The head of the file says what the GPU is and where the numbers come from."""
    first, second, third, *_ = (configs_dir() / f"{name}.yaml").read_text().splitlines()
    assert [True, True, False] == [line.startswith("# ") for line in (first, second, third)]


@pytest.mark.parametrize("name", NAMES)
def test_memory_gets_slower_outwards(name: str) -> None:
    """SRAM, then L2, then HBM at its peak and as reached: the reason for attention schedules, as far as it is known."""
    spec = load_gpu(name)
    l2 = spec.memory.l2.bandwidth_bytes_per_s if spec.memory.l2 else None
    hbm = spec.memory.hbm
    rates = [spec.smem_bandwidth_bytes_per_s, l2, hbm.peak_bandwidth_bytes_per_s, hbm.stream_bandwidth_bytes_per_s]
    known = [rate for rate in rates if rate is not None]
    assert known == sorted(known, reverse=True)


@pytest.mark.parametrize("name", NAMES)
def test_its_page_can_be_printed(name: str) -> None:
    """The page names product and architecture."""
    spec = load_gpu(name)
    assert gpu_text(spec).startswith(f"{name}: {spec.product} ({spec.architecture}")
