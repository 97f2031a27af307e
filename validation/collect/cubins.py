"""Machine code of programs, compiled once and kept in a folder under the hash of all that goes into it."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from gpusim.report import write_whole
from validation.collect.work import Program
from validation.nvrtc import Cubin, compile_cubin

_SOURCES = ("*.cu", "*.cuh", "*.h")


@dataclass(frozen=True, slots=True)
class CubinCache:
    """A folder of CUBINs. `compiler` is the compiler's version: another one compiles anew."""

    folder: Path
    compiler: str

    def path(self, program: Program, capability: tuple[int, int]) -> Path:
        """The CUBIN of a program for a GPU. Raises NvrtcError where it does not compile."""
        path = self.path_of(program, capability)
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(path, compiled(program, program.architecture(capability)).image)
        return path

    def path_of(self, program: Program, capability: tuple[int, int]) -> Path:
        """Where the CUBIN lies, or will."""
        architecture = program.architecture(capability)
        return self.folder / f"{program.entry}-{architecture}-{self._key(program, architecture)}.cubin"

    def constant(self, program: Program, capability: tuple[int, int], name: str) -> int:
        """Value of a constant of a program's source. Raises NvrtcError where it has none of this name."""
        return Cubin(self.path(program, capability).read_bytes(), "").constant(name)

    def _key(self, program: Program, architecture: str) -> str:
        digest = hashlib.sha256(f"{self.compiler} {architecture} {program.defines}".encode())
        sources = sorted(path for pattern in _SOURCES for path in program.file.parent.glob(pattern))
        for path in (program.file, *(path for path in sources if path.suffix != ".cu")):
            digest.update(path.read_bytes())
        return digest.hexdigest()[:16]


def compiled(program: Program, architecture: str) -> Cubin:
    """The CUBIN of a program, with the compiler's report. Raises NvrtcError where it does not compile."""
    return compile_cubin(program.file, architecture, dict(program.defines))
