"""Device memory: one pipe at the achieved rate, slower when reads and writes mix.

rate = stream rate × kernel efficiency × (1 − mix_loss · f), f = 2·min(r, w)/(r + w) over the kernel's bytes so far
(a fit on copy and triad against one-direction streams). Channels, banks and refresh are not modelled.
"""

from gpusim.hardware.pipe import Pipe
from gpusim.specs import HbmSpec
from gpusim.units import MIB, ps_per_byte

MIX_UPDATE_BYTES = MIB  # the mix is looked at again after this much traffic


class Hbm:
    """HBM over time; byte counters are exact."""

    __slots__ = (
        "_base_ps_per_byte",
        "_kernel_read",
        "_kernel_write",
        "_mix_loss",
        "_next_update",
        "_ps_per_byte",
        "pipe",
        "read_bytes",
        "write_bytes",
    )

    def __init__(self, spec: HbmSpec) -> None:
        self.pipe = Pipe()
        self.read_bytes = 0
        self.write_bytes = 0
        self._base_ps_per_byte = ps_per_byte(spec.stream_bandwidth_bytes_per_s)
        self._mix_loss = spec.mix_loss
        self.start_kernel(spec, 1.0)

    def start_kernel(self, spec: HbmSpec, efficiency: float) -> None:
        """Starts counting the read/write mix afresh; `efficiency` is the kernel's share of the stream rate."""
        self._base_ps_per_byte = ps_per_byte(spec.stream_bandwidth_bytes_per_s * efficiency)
        self._ps_per_byte = self._base_ps_per_byte
        self._kernel_read = 0
        self._kernel_write = 0
        self._next_update = MIX_UPDATE_BYTES

    def read(self, now_ps: int, size_bytes: int) -> int:
        """When the last byte of a read has left the bus."""
        self.read_bytes += size_bytes
        self._kernel_read += size_bytes
        return self._transfer(now_ps, size_bytes)

    def write(self, now_ps: int, size_bytes: int) -> int:
        """When the last byte of a write is in memory."""
        self.write_bytes += size_bytes
        self._kernel_write += size_bytes
        return self._transfer(now_ps, size_bytes)

    def _transfer(self, now_ps: int, size_bytes: int) -> int:
        if self._kernel_read + self._kernel_write >= self._next_update:
            self._update_mix()
        return self.pipe.book(now_ps, int(size_bytes * self._ps_per_byte) + 1)

    def _update_mix(self) -> None:
        total = self._kernel_read + self._kernel_write
        mix = 2 * min(self._kernel_read, self._kernel_write) / total
        self._ps_per_byte = self._base_ps_per_byte / (1.0 - self._mix_loss * mix)
        self._next_update = total + MIX_UPDATE_BYTES
