"""A whole GPU as frozen values: SMs, memory, launch costs, power, and where every number comes from."""

import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, Field, model_validator

from gpusim.errors import UnsupportedError
from gpusim.specs.memory import MemorySpec
from gpusim.specs.sm import SmSpec
from gpusim.specs.timings import Timings
from gpusim.strict_yaml import STRICT, NonNegativeNumber, PositiveNumber

Architecture = Literal["volta", "turing", "ampere", "ada", "hopper", "canvas"]
SourceKind = Literal["datasheet", "measured", "derived", "assumed", "fitted"]
Text = Annotated[str, Field(min_length=1)]
_SET_BY_USER = "set by the user to "


class LaunchSpec(BaseModel):
    """Cost of starting kernels.

    `isolated_ns`: from the call to the first CTA on an idle GPU. `stream_ns` and `graph_ns`: from the end of a kernel
    to the first CTA of the next, in a stream and in a CUDA graph. `ctas_per_s`: CTAs the whole GPU can start. None is
    unknown.
    """

    model_config = STRICT

    isolated_ns: NonNegativeNumber | None
    stream_ns: NonNegativeNumber | None
    graph_ns: NonNegativeNumber | None
    ctas_per_s: PositiveNumber | None


class EnergySpec(BaseModel):
    """What work costs at an SM clock of `clock_hz`, and how that falls with the clock.

    `idle_w` is what the board takes without work on its SMs. A tensor-core FLOP of a format takes
    `tensor_pj_per_flop`, an exponential `exp_pj` with the FP32 work of a softmax beside it; data in flight are counted
    with them. Energy an operation goes with the clock to the power `clock_exponent`: voltage falls with the clock.
    """

    model_config = STRICT

    clock_hz: PositiveNumber
    idle_w: NonNegativeNumber
    tensor_pj_per_flop: dict[str, PositiveNumber]
    exp_pj: NonNegativeNumber
    clock_exponent: NonNegativeNumber


class PowerSpec(BaseModel):
    """Power limit of the board in W, and the energy of its work, None where that is unknown."""

    model_config = STRICT

    limit_w: PositiveNumber
    energy: EnergySpec | None = None

    @model_validator(mode="after")
    def _leaves_something(self) -> Self:
        if self.energy is not None and self.energy.idle_w >= self.limit_w:
            raise ValueError(f"energy.idle_w = {self.energy.idle_w:g} leaves nothing of limit_w = {self.limit_w:g}")
        return self


class Source(BaseModel):
    """Where a number comes from: how it was obtained, and the document, measurement or reasoning behind it."""

    model_config = STRICT

    kind: SourceKind
    source: Text

    @classmethod
    def set_by_user(cls, value: str) -> Self:
        """The source of a number that a user set over that of the file, to `value` as written."""
        return cls(kind="assumed", source=_SET_BY_USER + value)

    @property
    def set_value(self) -> str | None:
        """What a user set the number to, as written; None where the number is the file's."""
        return self.source.removeprefix(_SET_BY_USER) if self.source.startswith(_SET_BY_USER) else None


class GpuSpec(BaseModel):
    """One GPU. `product` is the vendor's name of the board; `sources` maps dotted paths to origins.

    `calibration` holds timing constants of kernels that were fitted on this very GPU: table, kernel, constant → value.

    A GPU of which some timing is unknown is fit-only: its limits answer what fits, and simulation is refused.
    """

    model_config = STRICT

    name: Text
    product: Text
    architecture: Architecture
    compute_capability: Text
    sm: SmSpec
    memory: MemorySpec
    launch: LaunchSpec
    power: PowerSpec | None
    calibration: dict[str, dict[str, dict[str, float]]] = {}
    sources: dict[str, Source]

    def missing_for_simulation(self) -> tuple[str, ...]:
        """Dotted paths of the unknown numbers that simulation needs; empty unless the GPU is fit-only."""
        groups = {"memory.l2": self.memory.l2, "memory.hbm": self.memory.hbm, "launch": self.launch}
        return tuple(
            f"{path}.{name}"
            for path, group in groups.items()
            for name, value in (() if group is None else group)
            if value is None
        )

    def timings(self) -> Timings:
        """Every number that only simulation needs. Raises UnsupportedError on a fit-only GPU."""
        missing = self.missing_for_simulation()
        if missing:
            raise UnsupportedError(
                f"{self.name} is fit-only; simulation needs {', '.join(missing)}, which its file leaves unknown",
                f"state them in your own config with base: {self.name}, or use gpusim fit",
            )
        groups = {"l2": self.memory.l2, "hbm": self.memory.hbm, "launch": self.launch}
        return Timings.model_validate(groups, from_attributes=True)

    def at_clock(self, clock_mhz: float | None) -> Self:
        """This GPU with its SM clock locked, in MHz; itself for None. A lock caps the clock, and what a loop sustains
        under the power limit caps it further.

        Raises UnsupportedError for a lock above the boost clock.
        """
        if clock_mhz is None:
            return self
        if clock_mhz * 1e6 > self.sm.clock_hz:
            raise UnsupportedError(
                f"sm_clock_mhz = {clock_mhz:g} but the boost clock of {self.name} is {self.sm.clock_hz / 1e6:g} MHz",
                "lock it at that or below, or raise the boost clock with --set sm.clock_hz",
            )
        return self.model_copy(update={"sm": self.sm.model_copy(update={"clock_hz": clock_mhz * 1e6})})

    def is_fitted_to(self, file: str | Path) -> bool:
        """Whether the source of a fitted number names this measured file, as calibrate writes them."""
        name = re.compile(rf"(?<![\w.-]){re.escape(Path(file).name)}(?![\w-])")
        return any(source.kind == "fitted" and name.search(source.source) for source in self.sources.values())

    @property
    def overrides(self) -> str | None:
        """What was set over the file, as --set takes it: "power.limit_w=300 sm.clock_hz=1.5e9"; None if nothing was."""
        values = {path: source.set_value for path, source in sorted(self.sources.items())}
        return " ".join(f"{path}={value}" for path, value in values.items() if value is not None) or None

    @property
    def smem_bandwidth_bytes_per_s(self) -> float:
        """Shared-memory bandwidth of all SMs together at the boost clock, bytes/s."""
        return self.sm.count * self.sm.smem_bandwidth_bytes_per_clk * self.sm.clock_hz

    @property
    def fp32_peak_flop_per_s(self) -> float:
        """FP32 multiply-adds outside the tensor cores at the boost clock, FLOP/s (two per lane and clock)."""
        return 2 * self.sm.count * self.sm.fp32_lanes * self.sm.clock_hz

    @property
    def sfu_peak_ops_per_s(self) -> float:
        """Exponentials per second on the special-function units at the boost clock."""
        return self.sm.count * self.sm.sfu_ops_per_clk * self.sm.clock_hz

    def tensor_peak_flop_per_s(self, dtype: str, clock_hz: float | None = None) -> float:
        """Dense tensor-core peak in FLOP/s at `clock_hz` (Hz), by default the boost clock.

        Raises UnsupportedError when the tensor cores do not take this number format.
        """
        rate = self.sm.tensor_flop_per_clk.get(dtype)
        if rate is None:
            formats = ", ".join(self.sm.tensor_flop_per_clk) or "nothing"
            raise UnsupportedError(f"the tensor cores of {self.name} do not take {dtype}", f"they take {formats}")
        return rate * self.sm.count * (self.sm.clock_hz if clock_hz is None else clock_hz)
