"""`gpusim doctor`: what is there, what is not, and how to get it."""

import re
import sys
import time
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

from gpusim.doctor import EXTRAS, Finding, ask_in_a_process, base_packages, diagnose, is_base_broken

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]

ABSENT = {"problem": "no NVIDIA driver (libnvidia-ml.so.1 is not there)", "is_absent": True}
H200 = {"driver": "580.95.05", "cuda": "13.0", "gpus": ["NVIDIA H200"]}


def names(requirements: list[str]) -> set[str]:
    """Packages without their versions."""
    return {re.split("[=<>~!;]", requirement)[0].strip() for requirement in requirements}


def part(name: str, driver: dict[str, object]) -> Finding:
    """What doctor says about a part on a machine whose driver answers so."""
    return next(finding for finding in diagnose(lambda: driver) if finding.part == name)


def test_it_lists_versions_and_ends_with_0(command) -> None:
    """A base install is usable whatever else is missing."""
    done = command("doctor")
    assert (0, "") == (done.code, done.err)
    assert f"ok      gpusim           {version('gpusim')}\n" in done.out


def test_json_is_one_document_with_every_part(command) -> None:
    """State, what was found, what it is for and how to install it."""
    document = command("doctor", "--json").document
    assert document["is_usable"] is True
    parts = {entry["part"]: entry for entry in document["parts"]}
    assert {"python", "gpusim", "numpy", "fast", "fit", "nvrtc", "gpu", "torch", "driver", "ncu"} <= parts.keys()
    assert version("numpy") == parts["numpy"]["found"]


def test_what_is_missing_says_on_one_line_how_to_get_it() -> None:
    """A machine without a driver."""
    line = part("driver", ABSENT).line()
    assert line.startswith("missing driver")
    assert line.endswith("install the NVIDIA driver")
    assert "\n" not in line


def test_a_gpu_is_named_with_its_driver() -> None:
    """An H200 with the first driver of CUDA 13."""
    assert ("ok", "580.95.05, CUDA 13.0") == (part("driver", H200).state, part("driver", H200).found)
    assert ("ok", "NVIDIA H200") == (part("GPU", H200).state, part("GPU", H200).found)


def test_a_driver_without_a_gpu_says_so() -> None:
    """As in a container that was started without --gpus."""
    found = part("GPU", H200 | {"gpus": []})
    assert ("missing", "the driver finds none") == (found.state, found.found)
    assert "--gpus all" in found.install


def test_a_broken_driver_is_broken_and_not_missing() -> None:
    """NVML status 9 is "driver not loaded"."""
    found = part("driver", {"problem": "the driver's library does not start (NVML status 9)"})
    assert ("broken", "the driver's library does not start (NVML status 9)") == (found.state, found.found)


def test_a_driver_that_never_answers_is_not_waited_for() -> None:
    """A process that would sleep for a minute is given up after the time limit."""
    begin = time.monotonic()
    answer = ask_in_a_process((sys.executable, "-c", "import time; time.sleep(60)"), timeout_s=0.2)
    assert {"problem": "the driver does not answer within 0.2 s"} == answer
    assert time.monotonic() - begin < 30


def test_a_driver_that_crashes_its_process_is_reported() -> None:
    """The exit code is what is known."""
    answer = ask_in_a_process((sys.executable, "-c", "import os; os._exit(7)"))
    assert {"problem": "asking the driver ended with code 7"} == answer


def test_the_driver_of_this_machine_answers_in_a_process_of_its_own() -> None:
    """Either a version, or the reason why there is none."""
    answer = ask_in_a_process()
    assert answer.get("driver") or answer["problem"]


@pytest.mark.parametrize(("state", "is_broken"), [("ok", False), ("missing", True)])
def test_only_a_missing_base_package_breaks_the_install(state, is_broken) -> None:
    """NumPy is needed by every command, CuPy is not."""
    findings = [Finding("numpy", state, "", "everything"), Finding("gpu", "missing", "", "measuring")]
    assert is_broken is is_base_broken(findings)


def test_base_packages_are_those_that_pyproject_names() -> None:
    """From the metadata of the install, without those of extras."""
    assert names(PROJECT["dependencies"]) == set(base_packages())


@pytest.mark.parametrize("extra", [extra for extra in EXTRAS if extra.name in PROJECT["optional-dependencies"]])
def test_an_extra_is_looked_up_package_by_package(extra) -> None:
    """All that `pip install -e '.[EXTRA]'` brings, so that none can be missing where doctor says ok."""
    looked_up = {name for alternatives in extra.packages for name in alternatives.split("|")}
    assert set() == names(PROJECT["optional-dependencies"][extra.name]) - looked_up
