"""L2 as a list of tiles, least recently used out first; and the way of a tile through fill port, L2 and HBM."""

import pytest

from gpusim.hardware import L2Cache, MemorySystem
from gpusim.specs import GpuSpec, L2Spec, load_gpu

# 1 ps a byte at the L2 port and 200 ns for a hit; 10 ps a byte and 400 ns for a miss; 4 ps a byte into an SM.
L2_PS, HBM_PS, FILL_PS, HIT_PS, MISS_PS = 1, 10, 4, 200_000, 400_000


def l2_spec(size_bytes: int) -> L2Spec:
    """An L2 of this size at 1 ps a byte and 200 ns a hit."""
    update = {"size_bytes": size_bytes, "bandwidth_bytes_per_s": 1e12, "latency_ns": 200.0}
    return load_gpu("a100_sxm4_40gb").memory.l2.model_copy(update=update)


def gpu(size_bytes: int | None, *, sms: int = 2) -> GpuSpec:
    """Toy GPU: 250 B a clock of 1 GHz into each SM; `size_bytes` of L2, None for none."""
    canvas = load_gpu("canvas")
    hbm = canvas.memory.hbm.model_copy(
        update={"stream_bandwidth_bytes_per_s": 1e11, "peak_bandwidth_bytes_per_s": 1e11, "latency_ns": 400.0}
    )
    l2 = None if size_bytes is None else l2_spec(size_bytes)
    sm = canvas.sm.model_copy(update={"count": sms, "l2_fill_bytes_per_clk": 250})
    return canvas.model_copy(update={"sm": sm, "memory": canvas.memory.model_copy(update={"l2": l2, "hbm": hbm})})


def memory(size_bytes: int | None) -> MemorySystem:
    """The toy's memory system at 1 GHz, idle and cold."""
    return MemorySystem(gpu(size_bytes), 1e9)


def tiles(*keys: int, size_bytes: int = 100) -> tuple[tuple[tuple[int, int], ...], int]:
    """Tiles of equal size in the form an access has."""
    return tuple((key, size_bytes) for key in keys), size_bytes * len(keys)


def resident(cache: L2Cache, *keys: int) -> list[int]:
    """Which of the tiles are in the cache; asks in the given order, so it also touches them."""
    return [key for key in keys if not cache.look_up(0, [(key, 100)])[2]]


def test_the_least_recently_used_tile_leaves_first() -> None:
    """Room for three tiles; 1 was touched after 2 came, so the fourth pushes 2 out."""
    cache = L2Cache(l2_spec(300))
    cache.insert(0, [(1, 100), (2, 100), (3, 100)], 0, is_dirty=False)
    cache.look_up(0, [(1, 100)])
    cache.insert(0, [(4, 100)], 0, is_dirty=False)
    assert [1, 3, 4] == resident(cache, 1, 2, 3, 4)


def test_a_full_cache_keeps_everything_until_one_byte_more_comes() -> None:
    """300 of 300 bytes stay; a tile of one byte more pushes the oldest out."""
    cache = L2Cache(l2_spec(300))
    assert 0 == cache.insert(0, [(1, 100), (2, 100), (3, 100)], 0, is_dirty=True)
    assert 100 == cache.insert(0, [(4, 1)], 0, is_dirty=True)
    assert [2, 3] == resident(cache, 1, 2, 3)


def test_only_dirty_tiles_are_written_back_and_once() -> None:
    """A clean tile leaves for nothing, a dirty one with its bytes."""
    cache = L2Cache(l2_spec(200))
    cache.insert(0, [(1, 100)], 0, is_dirty=False)
    cache.insert(0, [(2, 100)], 0, is_dirty=True)
    assert 100 == cache.dirty_bytes
    assert 0 == cache.insert(0, [(3, 100)], 0, is_dirty=False)
    assert 100 == cache.insert(0, [(4, 100)], 0, is_dirty=False)
    assert 0 == cache.dirty_bytes


def test_writing_a_tile_again_keeps_one_copy() -> None:
    """The second write of tile 1 replaces the first: 100 dirty bytes, and still room for another tile."""
    cache = L2Cache(l2_spec(200))
    cache.insert(0, [(1, 100)], 0, is_dirty=True)
    cache.insert(0, [(1, 100)], 0, is_dirty=True)
    assert 0 == cache.insert(0, [(2, 100)], 0, is_dirty=False)
    assert 100 == cache.dirty_bytes


def test_a_read_after_a_write_leaves_the_tile_dirty() -> None:
    """Reading does not clean: the bytes still have to go to HBM."""
    system = memory(1000)
    system.write(0, 0, tiles(1))
    system.read(0, 0, 0, tiles(1))
    assert (100, 0) == (system.l2.dirty_bytes, system.hbm.read_bytes)


def test_a_miss_is_usable_one_memory_latency_after_the_slowest_link() -> None:
    """100 B: 400 ps into the SM, 100 ps at L2, 1,000 ps at HBM, all from the start; then 400 ns."""
    assert 100 * HBM_PS + 1 + MISS_PS == memory(1000).read(0, 0, 0, tiles(1))


def test_a_hit_is_usable_one_l2_latency_after_the_slowest_link() -> None:
    """Long after the tile came: 400 ps into the SM are the slowest link of a hit, then 200 ns."""
    system, late = memory(1000), 10_000_000
    system.read(0, 0, 0, tiles(1))
    assert late + 100 * FILL_PS + 1 + HIT_PS == system.read(late, 0, 0, tiles(1))


def test_a_tile_on_its_way_is_a_hit_that_waits_for_it() -> None:
    """Another SM asks a little later and gets the tile when it arrives for the first, without another HBM read."""
    system = memory(1000)
    arrival = system.read(0, 0, 0, tiles(1))
    assert arrival == system.read(10, 1, 0, tiles(1))
    assert (100, 100) == (system.hbm.read_bytes, system.hit)


def test_the_wait_for_a_tile_on_its_way_ends_when_a_hit_would_take_as_long() -> None:
    """A hit takes 200,401 ps: asked for so long before the arrival it ends with it, a tick later a tick after it."""
    first = memory(1000)
    arrival = first.read(0, 0, 0, tiles(1))
    hit_ps = 100 * FILL_PS + 1 + HIT_PS
    assert arrival == first.read(arrival - hit_ps, 1, 0, tiles(1))
    second = memory(1000)
    second.read(0, 0, 0, tiles(1))
    assert arrival + 1 == second.read(arrival - hit_ps + 1, 1, 0, tiles(1))


def test_each_sm_has_its_own_fill_port_and_all_share_l2() -> None:
    """Two hits of 100 B at once: the second SM waits 101 ps at L2 only, the same SM also 401 ps at its port."""
    late = 10_000_000
    for sm, filled in ((1, 100 * FILL_PS + 1), (0, 2 * (100 * FILL_PS + 1))):
        system = memory(1000)
        system.read(0, 0, 0, tiles(1))
        system.read(late, 0, 0, tiles(1))
        assert late + max(filled, 2 * (100 * L2_PS + 1)) + HIT_PS == system.read(late, sm, 0, tiles(1))


def test_a_partial_miss_reads_only_what_is_missing() -> None:
    """Tile 1 is there, tile 2 is not: 100 B from HBM, 100 B hit."""
    system = memory(1000)
    system.read(0, 0, 0, tiles(1))
    system.read(1_000_000, 0, 0, tiles(1, 2))
    assert (200, 100, 300) == (system.hbm.read_bytes, system.hit, system.asked_read)


def test_a_write_is_accepted_when_l2_has_it() -> None:
    """100 B at 1 ps a byte; nothing goes to HBM while there is room."""
    system = memory(1000)
    assert 100 * L2_PS + 1 == system.write(0, 0, tiles(1))
    assert 0 == system.hbm.write_bytes


def test_a_write_that_pushes_dirty_tiles_out_waits_for_hbm() -> None:
    """Room for one tile: the second write is accepted when HBM has taken the first, 1,000 ps."""
    system = memory(100)
    system.write(0, 0, tiles(1))
    assert 1_000_000 + 100 * HBM_PS + 1 == system.write(1_000_000, 0, tiles(2))
    assert (100, 100) == (system.hbm.write_bytes, system.l2.dirty_bytes)


def test_a_read_that_pushes_dirty_tiles_out_occupies_hbm_but_does_not_wait() -> None:
    """The write-back queues behind the read: the next miss finds HBM busy with both."""
    system = memory(100)
    system.write(0, 0, tiles(1))
    assert 1_000_000 + 1001 + MISS_PS == system.read(1_000_000, 0, 0, tiles(2))
    assert 1_000_000 + 3 * 1001 + MISS_PS == system.read(1_000_000, 1, 0, tiles(3))


@pytest.mark.parametrize("base", [0, 50])
def test_keys_count_from_the_base(base: int) -> None:
    """The same offset under another base is another tile."""
    system = memory(1000)
    system.read(0, 0, 0, tiles(1))
    system.read(0, 0, base, tiles(1))
    assert (100 if base == 0 else 200) == system.hbm.read_bytes


def test_without_l2_every_request_goes_to_hbm() -> None:
    """Two reads of one tile are two reads of HBM, one after the other and one latency later; writes take turns."""
    system = memory(None)
    assert 1001 + MISS_PS == system.read(0, 0, 0, tiles(1))
    assert 2002 + MISS_PS == system.read(0, 0, 0, tiles(1))
    assert 3003 == system.write(0, 0, tiles(1))
    assert (200, 100, 0) == (system.hbm.read_bytes, system.hbm.write_bytes, system.hit)
