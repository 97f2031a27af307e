"""L2: finite capacity, least recently used tile out first, write-back at eviction.

One entry a tile of a tensor, charged at its bytes. A tile that is still on its way from HBM is a hit that waits for
it. Partitions, sets and sectors are not modelled.
"""

from collections import OrderedDict
from collections.abc import Iterable

from gpusim.hardware.pipe import Pipe
from gpusim.specs import L2Spec
from gpusim.units import ps_per_byte

Pieces = Iterable[tuple[int, int]]  # (key offset, bytes) of tiles


class L2Cache:
    """Tile LRU and the port that all SMs share."""

    __slots__ = ("_capacity", "_ps_per_byte", "_tiles", "_used", "pipe")

    def __init__(self, spec: L2Spec) -> None:
        self.pipe = Pipe()
        self._capacity = spec.size_bytes
        self._ps_per_byte = ps_per_byte(spec.bandwidth_bytes_per_s)
        self._tiles: OrderedDict[int, tuple[int, int, bool]] = OrderedDict()  # key → bytes, arrival, is dirty
        self._used = 0

    @property
    def dirty_bytes(self) -> int:
        """Bytes written and not yet in HBM."""
        return sum(size_bytes for size_bytes, _, is_dirty in self._tiles.values() if is_dirty)

    def serve(self, now_ps: int, size_bytes: int) -> int:
        """When the port has moved the bytes."""
        return self.pipe.book(now_ps, int(size_bytes * self._ps_per_byte) + 1)

    def look_up(self, base: int, pieces: Pieces) -> tuple[int, int, list[tuple[int, int]]]:
        """Latest arrival of the tiles that are resident, bytes of the others, and the others as (key, bytes).

        Resident tiles become the most recently used.
        """
        tiles = self._tiles
        latest_ps = missing_bytes = 0
        missing = []
        for offset, size_bytes in pieces:
            key = base + offset
            held = tiles.get(key)
            if held is None:
                missing.append((key, size_bytes))
                missing_bytes += size_bytes
            else:
                tiles.move_to_end(key)
                if held[1] > latest_ps:
                    latest_ps = held[1]
        return latest_ps, missing_bytes, missing

    def insert(self, base: int, pieces: Pieces, arrival_ps: int, *, is_dirty: bool) -> int:
        """Puts tiles in as the most recently used; returns the dirty bytes that had to leave."""
        tiles, used = self._tiles, self._used
        for offset, size_bytes in pieces:
            key = base + offset
            held = tiles.pop(key, None)
            if held is not None:
                used -= held[0]
            used += size_bytes
            tiles[key] = (size_bytes, arrival_ps, is_dirty)
        written_back = 0
        while used > self._capacity:
            _, (size_bytes, _, was_dirty) = tiles.popitem(last=False)
            used -= size_bytes
            if was_dirty:
                written_back += size_bytes
        self._used = used
        return written_back
