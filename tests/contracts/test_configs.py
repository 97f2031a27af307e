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


def test_the_first_gpus_are_shipped() -> None:
    """A100 in two sizes, H100, H200 and the toy."""
    assert {"a100_sxm4_40gb", "a100_sxm4_80gb", "h100_sxm5_80gb", "h200_sxm_141gb", "canvas"} <= set(NAMES)


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
    """SRAM, then L2, then HBM: the reason for attention schedules holds on every GPU."""
    spec = load_gpu(name)
    l2 = [spec.memory.l2.bandwidth_bytes_per_s] if spec.memory.l2 else []
    rates = [spec.smem_bandwidth_bytes_per_s, *l2, spec.memory.hbm.stream_bandwidth_bytes_per_s]
    assert rates == sorted(rates, reverse=True)


@pytest.mark.parametrize("name", NAMES)
def test_its_page_can_be_printed(name: str) -> None:
    """The page names product and architecture."""
    spec = load_gpu(name)
    assert gpu_text(spec).startswith(f"{name}: {spec.product} ({spec.architecture}")
