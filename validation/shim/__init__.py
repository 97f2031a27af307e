"""Kernels on the CPU: the text of a .cu file compiled by g++ and run under a schedule that a GPU might choose.

It finds wrong results, missing barriers and waits, buffers used too early, and accesses outside of memory; with
ThreadSanitizer, races. It says nothing about speed, and cannot run what is Hopper's own (TMA, wgmma). See `cuda_cpu.h`.
"""

import hashlib
import os
import struct
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np

from gpusim.errors import GpusimError
from validation.collect.work import Launch, Program, Values, Work

FOLDER = Path(__file__).parent
INSTALL = "apt-get install g++"
FLAGS = ("-std=c++20", "-O1", "-march=native", "-pthread", "-Wall", "-Wno-unknown-pragmas", f"-I{FOLDER}")
THREAD_FLAGS = ("-DGPUSIM_CPU_THREADS", "-g", "-fsanitize=thread")
HANG_S = 300.0


class ShimError(GpusimError):
    """A kernel that does not compile for the CPU, or that broke a rule while it ran; the message says which."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """How a kernel is run.

    "unfair" lets one warp run as far as it goes before the next, "fair" takes all in turns. Asynchronous copies land
    when they are issued ("eager": finds buffers overwritten too early) or when they are waited for ("lazy": finds
    missing waits). With `threads` every CUDA thread is an OS thread under ThreadSanitizer, and `warps` does not matter.
    """

    warps: Literal["fair", "unfair"] = "fair"
    copies: Literal["eager", "lazy"] = "lazy"
    seed: int = 0
    threads: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """Arrays after a run, and how many more passes through shared memory its ldmatrix took for bank conflicts."""

    arrays: Mapping[str, Values]
    bank_conflicts: int


@dataclass(frozen=True, slots=True)
class Shim:
    """Binaries of kernels, kept in a folder under the hash of all that goes into them."""

    folder: Path

    def run(self, work: Work, conditions: Conditions) -> Outcome:
        """Runs the launches in their order. Raises ShimError."""
        arrays = {name: array.values() for name, array in work.arrays.items()}
        conflicts = 0
        for launch in work.launches:
            binary = self.binary(launch.program, conditions.threads)
            outcome = _run(binary, launch, arrays, conditions)
            arrays |= outcome.arrays
            conflicts += outcome.bank_conflicts
        return Outcome(arrays, conflicts)

    def binary(self, program: Program, threads: bool) -> Path:
        """The program for the CPU. Raises ShimError where it does not compile or g++ is missing."""
        flags = (
            *FLAGS,
            *(THREAD_FLAGS if threads else ()),
            f"-I{program.file.parent}",
            f'-DKERNEL_FILE="{program.file.name}"',
            f"-DKERNEL={program.entry}",
            *(f"-D{name}={value}" for name, value in program.defines),
        )
        path = self.folder / f"{program.entry}-{_key(program.file.parent, flags)}"
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(f".{os.getpid()}")
            _compile([compiler(), *flags, str(FOLDER / "driver.cpp"), "-o", str(partial)])
            partial.replace(path)
        return path


def _key(folder: Path, flags: tuple[str, ...]) -> str:
    digest = hashlib.sha256(repr(flags).encode())
    for path in sorted((*folder.glob("*.cu*"), *FOLDER.glob("*.h"), FOLDER / "driver.cpp")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@cache
def compiler() -> str:
    """g++, once it has been found to be there."""
    try:
        subprocess.run(["g++", "--version"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        raise ShimError(f"g++ is not installed; {INSTALL}") from None
    return "g++"


def _compile(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise ShimError(f"the kernel does not compile for the CPU:\n{done.stderr.strip()}")


def _run(binary: Path, launch: Launch, arrays: Mapping[str, Values], conditions: Conditions) -> Outcome:
    given = b"".join(_input(launch, arrays, conditions))
    environment = os.environ | {"TSAN_OPTIONS": "halt_on_error=1"}
    try:
        done = subprocess.run([binary], input=given, capture_output=True, timeout=HANG_S, env=environment)
    except subprocess.TimeoutExpired:
        raise ShimError(f"{launch.program.entry} does not end within {HANG_S:g} s") from None
    if done.returncode:
        raise ShimError(f"{launch.program.entry}: {done.stderr.decode().strip() or f'signal {-done.returncode}'}")
    (conflicts,), rest = struct.unpack("=Q", done.stdout[:8]), done.stdout[8:]
    after: dict[str, Values] = {}
    for name in (argument for argument in launch.arguments if isinstance(argument, str)):
        before = arrays[name]
        after[name] = np.frombuffer(rest[: before.nbytes], before.dtype)
        rest = rest[before.nbytes :]
    return Outcome(after, conflicts)


def _input(launch: Launch, arrays: Mapping[str, Values], conditions: Conditions) -> Iterator[bytes]:
    """What driver.cpp reads."""
    yield struct.pack("=3I3I", *launch.grid, launch.block, 1, 1)
    yield struct.pack("=3I", conditions.seed, conditions.warps == "unfair", conditions.copies == "eager")
    yield struct.pack("=I", len(launch.arguments))
    for argument in launch.arguments:
        match argument:
            case str():
                values = arrays[argument].tobytes()
                yield struct.pack("=IQ", 1, len(values)) + values
            case None:
                yield struct.pack("=IQ", 0, 8) + bytes(8)
            case np.generic():
                yield struct.pack("=IQ", 0, argument.nbytes) + argument.tobytes()
            case _:
                raise ShimError(f"{launch.program.entry}: TMA is not emulated")
