"""The way of a tile: SM fill port, L2, HBM. Reads return when data is usable, writes when they are accepted."""

from gpusim.hardware.hbm import Hbm
from gpusim.hardware.l2 import L2Cache
from gpusim.hardware.pipe import Pipe
from gpusim.specs import GpuSpec
from gpusim.units import ps_from_ns, ps_per_byte

Tiles = tuple[tuple[tuple[int, int], ...], int]  # ((key offset, bytes) of each, bytes of all)


class MemorySystem:
    """All SMs' path to device memory. Without an L2 every request goes to HBM.

    A read occupies the SM's fill port, the L2 port and, on a miss, HBM, all from the moment it arrives, and is usable
    one latency after the last of them. A write is accepted when L2 has it and HBM has taken what it pushed out.
    """

    __slots__ = ("_fill_ps_per_byte", "_hit_ps", "_miss_ps", "_ports", "asked_read", "asked_write", "hbm", "hit", "l2")

    def __init__(self, spec: GpuSpec, sm_clock_hz: float) -> None:
        self.hbm = Hbm(spec.memory.hbm)
        self.l2 = None if spec.memory.l2 is None else L2Cache(spec.memory.l2)
        self._hit_ps = 0 if spec.memory.l2 is None else ps_from_ns(spec.memory.l2.latency_ns)
        self._miss_ps = ps_from_ns(spec.memory.hbm.latency_ns)
        self._fill_ps_per_byte = ps_per_byte(spec.sm.l2_fill_bytes_per_clk * sm_clock_hz)
        self._ports = [Pipe() for _ in range(spec.sm.count)]
        self.asked_read = 0
        self.asked_write = 0
        self.hit = 0

    def read(self, now_ps: int, sm: int, base: int, tiles: Tiles) -> int:
        """When tiles asked for now by this SM are usable there; their keys count from `base`."""
        pieces, size_bytes = tiles
        self.asked_read += size_bytes
        filled = self._ports[sm].book(now_ps, int(size_bytes * self._fill_ps_per_byte) + 1)
        l2 = self.l2
        if l2 is None:
            return max(filled, self.hbm.read(now_ps, size_bytes)) + self._miss_ps
        served = l2.serve(now_ps, size_bytes)
        arrival, missing_bytes, missing = l2.look_up(base, pieces)
        self.hit += size_bytes - missing_bytes
        if not missing:
            return max(max(filled, served) + self._hit_ps, arrival)
        usable = max(filled, served, self.hbm.read(now_ps, missing_bytes)) + self._miss_ps
        evicted = l2.insert(0, missing, usable, is_dirty=False)
        if evicted:
            self.hbm.write(now_ps, evicted)
        return max(usable, arrival)

    def write(self, now_ps: int, base: int, tiles: Tiles) -> int:
        """When a posted write of whole tiles is accepted."""
        pieces, size_bytes = tiles
        self.asked_write += size_bytes
        l2 = self.l2
        if l2 is None:
            return self.hbm.write(now_ps, size_bytes)
        served = l2.serve(now_ps, size_bytes)
        evicted = l2.insert(base, pieces, served, is_dirty=True)
        if evicted:
            return max(served, self.hbm.write(now_ps, evicted))
        return served
