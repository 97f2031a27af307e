"""A GPU made of gpusim's own answers, in the place of hardware: its constants are known."""

import zlib
from collections.abc import Mapping

import numpy as np

from gpusim.compare import point_of
from gpusim.measured.cells import RowCells, RowError
from gpusim.measured.rows import measured_row
from gpusim.point import run_point
from gpusim.specs import GpuSpec
from validation.collect.device import DeviceError, Facts, NotHereError, facts_of
from validation.collect.work import Case, Check, Timed, Values, Work

CLOCKS = {"clocks.sm": 1980.0, "clocks.mem": 3201.0}


class SimulatedGpu:
    """Answers with the time that a GPU config gives, off by a normal error that is fixed for each case.

    What the simulator has no workload for takes a millisecond, or what the CTA launch rate of the config says. Results
    are right, but for programs named in `wrong`; cases named in `fails` run
    out of memory, and for those in `lacks` there is no kernel.
    """

    def __init__(
        self,
        spec: GpuSpec,
        *,
        noise: float = 0.0,
        wrong: tuple[str, ...] = (),
        fails: tuple[str, ...] = (),
        lacks: tuple[str, ...] = (),
    ) -> None:
        self._spec, self._noise, self._wrong, self._fails, self._lacks = spec, noise, wrong, fails, lacks
        self.timed: list[str] = []

    @property
    def facts(self) -> Facts:
        """Those of the config."""
        return facts_of(self._spec)

    def clocks(self) -> Mapping[str, float | str]:
        """Always the same."""
        return CLOCKS

    def outputs(self, check: Check) -> Mapping[str, Values]:
        """The expected values, one too many where the program is to be wrong."""
        extra = 1.0 if check.work.launches[0].program.entry in self._wrong else 0.0
        arrays = check.work.arrays
        return {
            name: arrays[name].packed((values + extra).astype(np.float32)) for name, values in check.expected().items()
        }

    def time(self, case: Case) -> Timed:
        """Three equal samples."""
        if case.name in self._fails:
            raise DeviceError("out of memory")
        if case.name in self._lacks:
            raise NotHereError("no available kernel")
        self.timed.append(case.name)
        error = np.random.default_rng(zlib.crc32(case.name.encode())).normal(0.0, self._noise)
        clocks = {"clocks": np.array([self._spec.sm.clock_hz / 1e3, 1e6])} if _reads_clocks(case) else {}
        return Timed([self._exact_ms(case) * (1 + error)] * 3, clocks)

    def counters(self, case: Case) -> Mapping[str, float]:
        """No profiler."""
        raise DeviceError("ncu is not on PATH")

    def _exact_ms(self, case: Case) -> float:
        """What turns into the simulated latency when the case's row is read; rows state times or rates."""
        cells = {"gpu": self._spec.name, "cache": case.cache, **case.cells, **case.measured(1.0)}
        try:
            row = measured_row("simulated", 2, RowCells({name: str(cell) for name, cell in cells.items()}))
        except RowError:
            launches = self._spec.timings().launch
            return case.cells.get("ctas", 0) / launches.ctas_per_s * 1e3 + 1.0  # type: ignore[operator]
        point, reason = point_of(row, lambda name: self._spec)
        assert point is not None, reason
        result = run_point(point, mode="compiled")
        assert result.latency_ms is not None, result.reason
        assert row.latency_ms is not None
        return result.latency_ms / row.latency_ms


def _reads_clocks(case: Case) -> bool:
    return isinstance(case.call, Work) and "clocks" in case.call.read_back
