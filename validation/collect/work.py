"""What can be launched on a GPU, how it is checked, and how it is timed; all of it plain data."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from gpusim.dtypes import DType
from gpusim.workloads import Cache

Values = npt.NDArray[np.generic]
Fill = Literal["zeros", "ones", "normal"]
Backend = Literal["math", "flash", "efficient", "cudnn"]
Timer = Literal["event", "graph"]

SEED = 0
# Largest error of attention outputs against float64: about four times what fp16 and bf16 round to, causal or not.
TOLERANCES = {DType.FP16: 5e-3, DType.BF16: 4e-2}
NORMAL_PERIOD = 1 << 22  # random numbers repeat after as many: drawing more takes longer than measuring with them


@dataclass(frozen=True, slots=True)
class Program:
    """A kernel in a .cu file, its sizes as -D names, and the compute capability it needs.

    `suffix` is "a" where the code uses instructions of one architecture only, as wgmma does: such a program runs on
    `least` alone, all others from there on.
    """

    file: Path
    entry: str
    defines: tuple[tuple[str, str], ...] = ()
    least: tuple[int, int] = (8, 0)
    suffix: Literal["", "a"] = ""

    def runs_on(self, capability: tuple[int, int]) -> bool:
        """Whether a GPU of this compute capability runs it."""
        return capability == self.least if self.suffix else capability >= self.least

    def architecture(self, capability: tuple[int, int]) -> str:
        """What to compile for, such as sm_80 or sm_90a."""
        return f"sm_{capability[0]}{capability[1]}{self.suffix}"


@dataclass(frozen=True, slots=True)
class Array:
    """An array in device memory: how it is filled ("normal" is seeded), or what makes its values.

    NumPy has no bf16: such an array travels as its 2-byte words.
    """

    dtype: str
    count: int
    fill: Fill = "zeros"
    make: Callable[[], Values] | None = None
    seed: int = SEED

    @classmethod
    def of(cls, values: Values) -> "Array":
        """The array that holds these values."""
        return cls(values.dtype.name, values.size, make=lambda: values)

    @property
    def host_dtype(self) -> np.dtype[np.generic]:
        """Its numbers as NumPy sees them."""
        return np.dtype("uint16" if self.dtype == "bfloat16" else self.dtype)

    @property
    def size_bytes(self) -> int:
        """Bytes of device memory."""
        return self.count * self.host_dtype.itemsize

    def values(self) -> Values:
        """Its values, flat."""
        if self.make is not None:
            return np.ascontiguousarray(self.make()).ravel()
        match self.fill:
            case "zeros":
                return np.zeros(self.count, self.host_dtype)
            case "ones":
                return self.packed(np.ones(self.count, np.float32))
            case "normal":
                return np.resize(self.packed(_normal(self.seed)[: self.count]), self.count)

    def packed(self, values: npt.NDArray[np.float32]) -> Values:
        """These numbers in the format of this array."""
        if self.dtype != "bfloat16":
            return values.astype(self.host_dtype)
        bits = values.view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)  # to the nearest, ties to even

    def unpacked(self, values: Values) -> npt.NDArray[np.float64]:
        """The float64 numbers that values of this array stand for."""
        if self.dtype != "bfloat16":
            return values.astype(np.float64)
        return (values.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


@cache
def _normal(seed: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(NORMAL_PERIOD, np.float32)


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A TMA descriptor as a kernel argument: a tile of `box` of a row-major array of `shape` (2-byte numbers).

    Shapes run from the slowest to the fastest dimension. `swizzle_bytes` is 0, 32, 64 or 128.
    """

    array: str
    dtype: Literal["float16", "bfloat16"]
    shape: tuple[int, ...]
    box: tuple[int, ...]
    swizzle_bytes: int = 0


Argument = str | np.generic | TensorMap | None  # an array by name, a number, a descriptor, or a null pointer


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of a program; `smem_bytes` None is what the source states as its constant `dynamic_smem_bytes`."""

    program: Program
    grid: tuple[int, int, int]
    block: int
    arguments: tuple[Argument, ...]
    smem_bytes: int | None = 0


@dataclass(frozen=True, slots=True)
class Work:
    """Launches in their order and the arrays they share; what stands in `read_back` is fetched after a run."""

    launches: tuple[Launch, ...]
    arrays: Mapping[str, Array]
    read_back: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SdpaCall:
    """torch.nn.functional.scaled_dot_product_attention by one of its backends, forward."""

    backend: Backend
    dtype: Literal["fp16", "bf16"]
    batch: int
    heads: int
    seqlen: int
    head_dim: int
    causal: bool


@dataclass(frozen=True, slots=True)
class Check:
    """A small run whose result is known: float64 values of the arrays that are read back."""

    name: str
    work: Work
    expected: Callable[[], Mapping[str, npt.NDArray[np.float64]]]
    tolerance: float

    def fault(self, found: Mapping[str, Values]) -> str | None:
        """What is wrong with the values that came back; None where nothing is."""
        for name, expected in self.expected().items():
            values = self.work.arrays[name].unpacked(found[name]).ravel()[: expected.size]
            worst = float(np.max(np.abs(values - expected.ravel())))
            if not worst <= self.tolerance:  # NaN is a fault too
                return f"{self.name}: {name} is off by {worst:.3g}, more than {self.tolerance:g}"
        return None


@dataclass(frozen=True, slots=True)
class Case:
    """One measurement: what to run, how to time it, and the row it becomes.

    `cells` are the columns known beforehand. `measured` turns the milliseconds of one call into further columns.
    `warm_calls` run before the first timed call; with `cache: cold` every call reads copies that are not in L2.
    """

    name: str
    call: Work | SdpaCall
    cells: Mapping[str, object]
    measured: Callable[[float], Mapping[str, object]]
    timer: Timer = "event"
    cache: Cache = "warm"
    warm_calls: int = 3
    checks: tuple[Check, ...] = ()

    def programs(self) -> tuple[Program, ...]:
        """The programs that it launches."""
        return tuple(launch.program for launch in self.call.launches) if isinstance(self.call, Work) else ()


@dataclass(frozen=True, slots=True)
class Timed:
    """Milliseconds of a call, one number a sample, and what was read back after the last."""

    ms: Sequence[float]
    read_back: Mapping[str, Values] = field(default_factory=dict)

    @property
    def median_ms(self) -> float:
        """The median of the samples."""
        return float(np.median(self.ms))

    @property
    def spread_pct(self) -> float:
        """Middle half of the samples over their median, in percent."""
        low, high = np.percentile(self.ms, [25, 75])
        return 100 * float(high - low) / self.median_ms
