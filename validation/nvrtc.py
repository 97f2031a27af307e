"""CUDA C to CUBIN with no GPU and no driver: NVRTC from pip, its resource report, constants and SASS.

NVRTC is pinned to CUDA 13.0 in the extra `nvrtc`: register counts move with the compiler. Loading and launching a CUBIN
needs a GPU and is not done here.
"""

import ctypes
import io
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gpusim.errors import GpusimError

INSTALL = "pip install -e '.[nvrtc]'"


class NvrtcError(GpusimError):
    """NVRTC or nvdisasm is missing, or a source does not compile: what is wrong, and the fix."""

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__(f"{problem}; {fix}")


@dataclass(frozen=True, slots=True)
class Resources:
    """What ptxas reports for one kernel: registers a thread; bytes of static shared memory, stack and spills."""

    registers: int
    static_smem_bytes: int
    stack_bytes: int
    spill_bytes: int
    barriers: int


@dataclass(frozen=True, slots=True)
class Cubin:
    """Machine code of one source for one architecture, and the compiler's log."""

    image: bytes
    log: str

    def resources(self, entry: str) -> Resources:
        """The report of one kernel. Raises NvrtcError when the source has no such entry point."""
        report = re.search(
            rf"Compiling entry function '{entry}'.*?(?=Compiling entry function|\Z)", self.log, re.DOTALL
        )
        if report is None:
            raise NvrtcError(f"the compiler's log names no kernel {entry}", "check the entry point")
        text = report[0]
        return Resources(
            registers=_reported(text, r"Used (\d+) registers"),
            static_smem_bytes=_reported(text, r"(\d+) bytes smem"),
            stack_bytes=_reported(text, r"(\d+) bytes stack frame"),
            spill_bytes=_reported(text, r"(\d+) bytes spill stores") + _reported(text, r"(\d+) bytes spill loads"),
            barriers=_reported(text, r"used (\d+) barriers"),
        )

    def constant(self, name: str) -> int:
        """Value of a 32-bit `__constant__` of the source. Raises NvrtcError when it has none of this name."""
        from elftools.elf.elffile import ELFFile
        from elftools.elf.sections import SymbolTableSection

        elf = ELFFile(io.BytesIO(self.image))
        symbols = elf.get_section_by_name(".symtab")
        found = symbols.get_symbol_by_name(name) if isinstance(symbols, SymbolTableSection) else None
        if not found:
            raise NvrtcError(f"the CUBIN has no constant {name}", "define it as extern __constant__ in the source")
        data = elf.get_section(found[0]["st_shndx"]).data()
        start = found[0]["st_value"]
        return int.from_bytes(data[start : start + 4], "little")

    def instructions(self) -> Counter[str]:
        """Static count of every SASS instruction by its full mnemonic, such as HMMA.16816.F32."""
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(self.image)
            file.flush()
            done = subprocess.run([_nvdisasm(), "-c", file.name], capture_output=True, text=True)
        if done.returncode:
            raise NvrtcError(f"nvdisasm failed: {done.stderr.strip()}", f"reinstall with {INSTALL}")
        return Counter(re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.a-z]*)", done.stdout))


def _reported(text: str, pattern: str) -> int:
    found = re.search(pattern, text)
    return int(found[1]) if found else 0


def check_installed() -> None:
    """Raises NvrtcError where NVRTC is not installed."""
    _nvrtc()


def compile_cubin(source: Path, arch: str, defines: Mapping[str, int | str], options: Sequence[str] = ()) -> Cubin:
    """Machine code of a .cu file for "sm_80", "sm_90a", …; its folder is on the include path.

    Raises NvrtcError with the compiler's own message when it does not compile, or when NVRTC is not installed.
    """
    library = _nvrtc()
    flags = [
        f"--gpu-architecture={arch}",
        "--std=c++17",
        "--ptxas-options=-v",
        f"-I{source.parent}",
        *(f"-D{name}={value}" for name, value in defines.items()),
        *options,
    ]
    program = ctypes.c_void_p()
    text, name = source.read_bytes(), source.name.encode()
    _check(library.nvrtcCreateProgram(ctypes.byref(program), text, name, 0, None, None), "nvrtcCreateProgram")
    try:
        given = (ctypes.c_char_p * len(flags))(*(flag.encode() for flag in flags))
        failed = library.nvrtcCompileProgram(program, len(flags), given)
        log = _bytes(library.nvrtcGetProgramLogSize, library.nvrtcGetProgramLog, program).rstrip(b"\0").decode()
        if failed:
            raise NvrtcError(f"{source.name} does not compile for {arch}:\n{log.strip()}", "fix the source")
        return Cubin(_bytes(library.nvrtcGetCUBINSize, library.nvrtcGetCUBIN, program), log)
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _bytes(size_of: Callable[..., int], read: Callable[..., int], program: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    _check(size_of(program, ctypes.byref(size)), "NVRTC")
    held = ctypes.create_string_buffer(size.value)
    _check(read(program, held), "NVRTC")
    return held.raw


def _check(status: int, what: str) -> None:
    if status:
        raise NvrtcError(f"{what} failed with status {status}", f"reinstall with {INSTALL}")


@cache
def _nvrtc() -> ctypes.CDLL:
    try:
        from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib
    except ImportError:
        raise NvrtcError("NVRTC is not installed", INSTALL) from None
    try:
        # a bare CDLL does not find NVRTC's builtins library; pathfinder's loader does
        return ctypes.CDLL(load_nvidia_dynamic_lib("nvrtc").abs_path)
    except DynamicLibNotFoundError:
        raise NvrtcError("NVRTC is not installed", INSTALL) from None


@cache
def _nvdisasm() -> str:
    try:
        from cuda.pathfinder import find_nvidia_binary_utility
    except ImportError:
        raise NvrtcError("nvdisasm is not installed", INSTALL) from None
    path = find_nvidia_binary_utility("nvdisasm")
    if path is None:
        raise NvrtcError("nvdisasm is not installed", INSTALL)
    return str(path)
