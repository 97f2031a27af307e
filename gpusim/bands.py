"""How far simulated latencies are off: the error band of each GPU and implementation, from the shipped measurements.

Versions of an implementation have bands of their own; where a name alone means no version of them, it has one of all.
`validation/bands.csv` is renewed together with the tables of errors (`python -m validation accuracy`).
"""

import csv
import io
from dataclasses import dataclass
from functools import cache

from gpusim.datafiles import bands_list
from gpusim.errors import ConfigError
from gpusim.specs import GpuSpec, gpu_names, load_gpu
from gpusim.strict_yaml import read_text

COLUMNS = ("gpu", "implementation", "version", "n", "band", "from_ms", "to_ms")
LEAST_ROWS = 5  # fewer measurements make no band
SHARE = 0.9  # of the measurements that lie within the band
REACH = 2.0  # a band also speaks for latencies this many times shorter or longer than any that was measured


@dataclass(frozen=True, slots=True)
class Band:
    """Simulated / measured − 1 lies within ± `band` for nine of ten of `n` measurements, of `from_ms` to `to_ms`.

    `version` is that of the implementation, empty where it has none, or none was stated.
    """

    gpu: str
    implementation: str
    version: str
    n: int
    band: float
    from_ms: float
    to_ms: float

    def covers(self, latency_ms: float) -> bool:
        """Whether a latency is like those that were measured."""
        return self.from_ms / REACH <= latency_ms <= self.to_ms * REACH

    def limits_ms(self, latency_ms: float) -> tuple[float, float]:
        """Between which hardware is expected where `latency_ms` is simulated."""
        return latency_ms / (1 + self.band), latency_ms / (1 - self.band)


def band_of(spec: GpuSpec, implementation: str, version: str | None, latency_ms: float) -> Band | None:
    """The band of a simulated latency; None for a GPU that is not as shipped, and where too little was measured."""
    band = _bands().get((spec.name, implementation, version or ""))
    if band is None or not band.covers(latency_ms) or spec != _preset(spec.name):
        return None
    return band


@cache
def _preset(name: str) -> GpuSpec | None:
    return load_gpu(name) if name in gpu_names() else None


@cache
def _bands() -> dict[tuple[str, str, str], Band]:
    """Raises ConfigError when the list is damaged."""
    path = bands_list()
    reader = csv.DictReader(io.StringIO(read_text(path), newline=""), strict=True)
    if tuple(reader.fieldnames or ()) != COLUMNS:
        raise ConfigError(str(path), [f"the columns must be {', '.join(COLUMNS)}"])
    return {(band.gpu, band.implementation, band.version): band for band in map(_band, reader)}


def _band(row: dict[str, str]) -> Band:
    numbers = (float(row[name]) for name in ("band", "from_ms", "to_ms"))
    return Band(row["gpu"], row["implementation"], row["version"], int(row["n"]), *numbers)
