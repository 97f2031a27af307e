"""What of gpusim works on this machine: versions, optional parts, NVIDIA driver and GPU, and what to install for what.

Nothing here imports an optional package or opens a GPU: packages are looked up by their metadata, the driver through
NVML, its management library. A broken driver can hang whoever asks it, so it is asked from a process that nobody waits
for longer than TIMEOUT_S.
"""

import ctypes
import json
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Literal

from gpusim.extras import install_command

TIMEOUT_S = 15
CUDA_13_DRIVER = 580  # the first of CUDA 13, CUDA Toolkit release notes
_NAME_BYTES = 96  # NVML_DEVICE_NAME_V2_BUFFER_SIZE
_VERSION_BYTES = 80  # NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE

State = Literal["ok", "missing", "broken"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One part: its state, what was found, what it is for, and how to get it where it is missing."""

    part: str
    state: State
    found: str
    purpose: str
    install: str = ""

    def line(self) -> str:
        """The finding on one line."""
        told = f"{self.state:7} {self.part:<16} {self.found}"
        return told if self.state == "ok" else f"{told}; {self.purpose}: {self.install}"


@dataclass(frozen=True, slots=True)
class _Extra:
    """An optional part: the packages that make it (alternatives by `|`), and what it is for."""

    name: str
    packages: tuple[str, ...]
    purpose: str
    install: str


EXTRAS = (
    _Extra("fast", ("numba",), "compiled event loop, the same result 20 to 70 times sooner", install_command("fast")),
    _Extra("fit", ("scipy",), "gpusim calibrate", install_command("fit")),
    _Extra("trace", ("perfetto",), "gpusim run --trace", install_command("trace")),
    _Extra(
        "browser",
        ("playwright", "axe-playwright-python"),
        "testing and picturing the pages of a checkout, with Debian's Chromium",
        "pip install -e '.[browser]'",
    ),
    _Extra(
        "nvrtc",
        ("nvidia-cuda-nvrtc|nvidia-cuda-nvrtc-cu12", "cuda-pathfinder", "nvidia-cuda-nvdisasm", "pyelftools"),
        "compiling the CUDA kernels of a checkout",
        "pip install -e '.[nvrtc]'",
    ),
    _Extra(
        "gpu",
        ("cupy-cuda13x|cupy-cuda12x",),
        "measuring this machine's GPU from a checkout",
        "pip install -e '.[gpu-cuda13]', or '.[gpu-cuda12]' for a driver below 580",
    ),
    _Extra("torch", ("torch",), "PyTorch's attention as a baseline of collect", "pip install torch"),
)

_ASK = (sys.executable, "-c", "from gpusim.doctor import main; main()")

Ask = Callable[[], Mapping[str, object]]


def diagnose(ask_driver: Ask | None = None) -> list[Finding]:
    """Everything that was looked at. `ask_driver` answers as `ask_nvml` does; by default that, in another process."""
    return [
        Finding("python", "ok", platform.python_version(), "everything"),
        *(_package(name) for name in ("gpusim", *base_packages())),
        *(_extra(extra) for extra in EXTRAS),
        *_gpu(ask_driver or ask_in_a_process),
        _tool("ncu", "byte counters of collect", "install Nsight Compute, package nsight-compute of CUDA's repository"),
        _tool("nvidia-smi", "clocks in the record of collect", "it comes with the NVIDIA driver"),
    ]


def base_packages() -> tuple[str, ...]:
    """Packages that every command needs, as gpusim's own metadata names them; none where gpusim is not installed."""
    try:
        lines = requires("gpusim") or []
    except PackageNotFoundError:  # a finding of its own
        return ()
    return tuple(re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in lines if "extra ==" not in line)


def is_base_broken(findings: Sequence[Finding]) -> bool:
    """Whether a package that every command needs is missing."""
    base = ("gpusim", *base_packages())
    return any(finding.part in base and finding.state != "ok" for finding in findings)


def report(findings: Sequence[Finding]) -> str:
    """One line a part."""
    return "".join(f"{finding.line()}\n" for finding in findings)


def report_json(findings: Sequence[Finding]) -> str:
    """One JSON document."""
    parts = [
        {"part": item.part, "state": item.state, "found": item.found, "purpose": item.purpose, "install": item.install}
        for item in findings
    ]
    return json.dumps({"is_usable": not is_base_broken(findings), "parts": parts}, indent=2, ensure_ascii=False) + "\n"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _package(name: str) -> Finding:
    found = _version(name)
    return Finding(
        name,
        "ok" if found else "missing",
        found or "not installed",
        "everything",
        install_command(),
    )


def _extra(extra: _Extra) -> Finding:
    found, missing = [], []
    for alternatives in extra.packages:
        there = [f"{name} {number}" for name in alternatives.split("|") if (number := _version(name))]
        found += there
        if not there:
            missing.append(" or ".join(alternatives.split("|")))
        elif len(there) > 1 and extra.name == "gpu":
            told = f"{' and '.join(there)} disturb each other"
            return Finding(extra.name, "broken", told, extra.purpose, "uninstall one of them")
    if missing:
        return Finding(extra.name, "missing", f"{', '.join(missing)} not installed", extra.purpose, extra.install)
    return Finding(extra.name, "ok", ", ".join(found), extra.purpose)


def _tool(name: str, purpose: str, install: str) -> Finding:
    path = shutil.which(name)
    return Finding(name, "ok" if path else "missing", path or "not on PATH", purpose, install)


def _gpu(ask: Ask) -> list[Finding]:
    """Driver and GPUs, by what the driver's management library answers."""
    purpose = "measuring this machine's GPU; simulation needs none"
    told = ask()
    problem, driver = str(told.get("problem", "")), str(told.get("driver", ""))
    if not driver:
        fix = "install the NVIDIA driver" if told.get("is_absent") else "reboot, or reinstall the NVIDIA driver"
        state: State = "missing" if told.get("is_absent") else "broken"
        return [Finding("driver", state, problem or "no answer", purpose, fix)]
    found = [Finding("driver", "ok", f"{driver}, CUDA {told.get('cuda')}", purpose)]
    gpus = told.get("gpus")
    names = [str(name) for name in gpus] if isinstance(gpus, list) else []
    if not names:
        fix = "check that the GPU is in the machine and that the container may see it (--gpus all)"
        return [*found, Finding("GPU", "missing", problem or "the driver finds none", purpose, fix)]
    return [*found, Finding("GPU", "ok", ", ".join(names), purpose), *_cupy_for(driver)]


def _cupy_for(driver: str) -> list[Finding]:
    """A finding where the installed CuPy is of a later CUDA than the driver."""
    number = driver.split(".")[0]
    if _version("cupy-cuda13x") is None or not number.isdigit() or int(number) >= CUDA_13_DRIVER:
        return []
    told = f"cupy-cuda13x needs driver {CUDA_13_DRIVER}, this is {driver}"
    fix = "update the driver, or pip uninstall cupy-cuda13x and pip install -e '.[gpu-cuda12]'"
    return [Finding("gpu", "broken", told, "measuring this machine's GPU from a checkout", fix)]


def ask_in_a_process(command: Sequence[str] = _ASK, timeout_s: float = TIMEOUT_S) -> Mapping[str, object]:
    """What `ask_nvml` says in a process of its own; "problem" where that says nothing in time."""
    try:
        asked = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        said, _ = asked.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        _give_up(asked)
        return {"problem": f"the driver does not answer within {timeout_s:g} s"}
    except OSError as error:
        return {"problem": f"the driver was not asked: {error}"}
    try:
        answer = json.loads(said)
    except ValueError:
        return {"problem": f"asking the driver ended with code {asked.returncode}"}
    return answer if isinstance(answer, dict) else {}


def _give_up(process: subprocess.Popen[str]) -> None:
    """Ends a process, but does not wait for one that is stuck in the driver and cannot be ended."""
    process.kill()
    if process.stdout is not None:
        process.stdout.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=1)


def main() -> None:
    """Prints what NVML says as JSON."""
    print(json.dumps(ask_nvml()))


def ask_nvml() -> Mapping[str, object]:
    """Driver version, its CUDA version and names of GPUs; "problem" where something fails. May hang.

    Calls and return codes are those of nvml.h.
    """
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return {"problem": "no NVIDIA driver (libnvidia-ml.so.1 is not there)", "is_absent": True}
    status = nvml.nvmlInit_v2()
    if status:
        return {"problem": f"the driver's library does not start (NVML status {status})"}
    driver, cuda, count = ctypes.create_string_buffer(_VERSION_BYTES), ctypes.c_int(), ctypes.c_uint()
    nvml.nvmlSystemGetDriverVersion(driver, ctypes.c_uint(_VERSION_BYTES))
    nvml.nvmlSystemGetCudaDriverVersion_v2(ctypes.byref(cuda))
    nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    names = [_gpu_name(nvml, number) for number in range(count.value)]
    return {
        "driver": driver.value.decode(),
        "cuda": f"{cuda.value // 1000}.{cuda.value % 1000 // 10}",
        "gpus": [name for name in names if name],
    }


def _gpu_name(nvml: ctypes.CDLL, number: int) -> str:
    device, name = ctypes.c_void_p(), ctypes.create_string_buffer(_NAME_BYTES)
    if nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(number), ctypes.byref(device)):
        return ""
    nvml.nvmlDeviceGetName(device, name, ctypes.c_uint(_NAME_BYTES))
    return name.value.decode()
