"""L2: finite capacity, least recently used tile out first, write-back at eviction.

One entry a tile of a tensor, charged at its bytes. A tile that is still on its way from HBM is a hit that waits for
it. Partitions, sets and sectors are not modelled.
"""

from collections import OrderedDict

from gpusim.hardware.pipe import Pipe
from gpusim.specs import L2Spec
from gpusim.units import ps_per_byte


class L2Cache:
    """Tile LRU and the port that all SMs share."""

    __slots__ = ("_arrivals", "_capacity", "_dirty", "_ps_per_byte", "_tiles", "_used", "pipe")

    def __init__(self, spec: L2Spec) -> None:
        self.pipe = Pipe()
        self._capacity = spec.size_bytes
        self._ps_per_byte = ps_per_byte(spec.bandwidth_bytes_per_s)
        self._tiles: OrderedDict[int, int] = OrderedDict()  # key → bytes, oldest first
        self._arrivals: dict[int, int] = {}
        self._dirty: set[int] = set()
        self._used = 0

    @property
    def dirty_bytes(self) -> int:
        """Bytes written and not yet in HBM."""
        return sum(self._tiles[key] for key in self._dirty)

    def serve(self, now_ps: int, size_bytes: int) -> int:
        """When the port has moved the bytes."""
        return self.pipe.book(now_ps, int(size_bytes * self._ps_per_byte) + 1)

    def arrival(self, key: int) -> int | None:
        """When a resident tile is (or was) there, and makes it the most recently used; None on a miss."""
        if key not in self._tiles:
            return None
        self._tiles.move_to_end(key)
        return self._arrivals[key]

    def insert(self, key: int, size_bytes: int, arrival_ps: int, *, is_dirty: bool) -> int:
        """Puts a tile in as the most recently used; returns the dirty bytes that had to leave."""
        tiles = self._tiles
        self._used += size_bytes - tiles.get(key, 0)
        tiles[key] = size_bytes
        tiles.move_to_end(key)
        self._arrivals[key] = arrival_ps
        if is_dirty:
            self._dirty.add(key)
        return self._evict() if self._used > self._capacity else 0

    def _evict(self) -> int:
        written_back = 0
        while self._used > self._capacity:
            key, size_bytes = self._tiles.popitem(last=False)
            self._used -= size_bytes
            del self._arrivals[key]
            if key in self._dirty:
                self._dirty.remove(key)
                written_back += size_bytes
        return written_back
