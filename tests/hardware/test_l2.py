"""L2 as lists of tiles, the least recently used out first: one side, its soft end, and what two sides hold."""

import math
from collections import OrderedDict
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusim.hardware import MemoryState, dirty_bytes, repeated_in_array, repeated_in_list, start_kernel, zone_limits
from gpusim.hardware.l2 import fetch, home_bytes, look_up, resident_bytes, settle, touch
from gpusim.hardware.l2 import put as put_entry
from gpusim.hardware.memory import overwrite
from gpusim.hardware.scatter import scattered
from gpusim.hardware.state import (
    ARRIVAL_PS,
    DIRTY_BYTES,
    FREE_NODE,
    KEY,
    LAST,
    LIMIT_BYTES,
    NEWER,
    NEWEST,
    NONE,
    OLDER,
    OLDEST,
    PARTITIONS,
    SIDE_FIELDS,
    SIDE_ZONES,
    SIZE_BYTES,
    SOFT_BYTES,
    SOFT_LIMIT_BYTES,
    UNKNOWN_PS,
    USED_BYTES,
    ZONE,
    ZONE_FIELDS,
    Repeated,
    build_memory,
    zone_shares,
)
from gpusim.specs import L2Spec, load_gpu

A100 = load_gpu("a100_sxm4_40gb")
NUM_KEYS, NUM_NODES = 10, 5  # of a hard end: at most four tiles, and the one that is about to leave


def l2_spec(size_bytes: int, partitions: int, knee: float) -> L2Spec:
    """An L2 of lines of 50 B, so that tiles of 100 B are larger; sectors are single bytes."""
    changed = {"size_bytes": size_bytes, "partitions": partitions, "knee": knee, "line_bytes": 50, "sector_bytes": 1}
    return A100.memory.l2.model_copy(update=changed)


def cache(
    repeated: Repeated,
    size_bytes: int,
    *,
    partitions: int = 1,
    knee: float = 0.0,
    num_keys: int = NUM_KEYS,
    num_nodes: int = NUM_NODES,
    line_weight: int = 1,
) -> MemoryState:
    """An empty L2 of this size, at the start of a kernel."""
    l2 = l2_spec(size_bytes, partitions, knee)
    gpu = A100.model_copy(update={"memory": A100.memory.model_copy(update={"l2": l2})})
    state = build_memory(gpu, num_keys, num_nodes, repeated)
    hbm = gpu.timings().hbm
    start_kernel(state, hbm, efficiency=1.0, fill_bytes_per_s=1e12, footprint_bytes=0, line_weight=line_weight)
    return state


def put(state: MemoryState, *keys: int, size_bytes: int = 100, is_dirty: bool = False) -> int:
    """Tiles that live on side 0, put in one after another; the dirty bytes that had to leave."""
    return sum(put_entry(state, key, 0, size_bytes, size_bytes * is_dirty, 0) for key in keys)


def fill(state: MemoryState, side: int, keys: Iterable[int], size_bytes: int = 50) -> int:
    """Clean tiles put in on a side, to push others out; the dirty bytes that had to leave."""
    return sum(put_entry(state, key, side, size_bytes, 0, 0) for key in keys)


def node_of(state: MemoryState, key: int, side: int = 0) -> int:
    """Node of a tile on a side, where it is; NONE where there is none."""
    return state.node_of_key[key * state.counts[PARTITIONS] + side]


def find(state: MemoryState, key: int) -> int:
    """Node of a tile that is still on side 0, made the newest; NONE where there is none."""
    node = node_of(state, key)
    if node not in (NONE, state.sides[NEWEST]):
        touch(state, 0, node)
    return node


def depth_of(state: MemoryState, key: int, side: int = 0) -> int:
    """How many zones beyond the capacity a tile is by now."""
    return int(state.nodes[look_up(state, key, side) + ZONE] - side * SIDE_ZONES) // ZONE_FIELDS


def resident(state: MemoryState, side: int = 0) -> list[int]:
    """Keys from the least to the most recently used; the links, zones and sums are checked on the way."""
    nodes, ends, found, node = state.nodes, side * SIDE_FIELDS, [], state.sides[side * SIDE_FIELDS + NEWEST]
    while node != NONE:
        found.insert(0, node)
        node = nodes[node + OLDER]
    for older, newer in zip([NONE, *found], [*found, NONE], strict=True):
        assert older == (state.sides[ends + NEWEST] if newer == NONE else nodes[newer + OLDER])
        assert newer == (state.sides[ends + LAST] if older == NONE else nodes[older + NEWER])
    first = side * SIDE_ZONES
    for zone in range(first, first + SIDE_ZONES, ZONE_FIELDS):
        inside = [node for node in found if nodes[node + ZONE] == zone]
        assert (inside[0] if inside else NONE) == state.zones[zone + OLDEST]
        assert sum(nodes[node + SIZE_BYTES] for node in inside) == state.zones[zone + USED_BYTES]
    soft_bytes = sum(nodes[node + SIZE_BYTES] for node in found if nodes[node + ZONE] > first)
    assert soft_bytes == state.sides[ends + SOFT_BYTES] <= state.sides[ends + SOFT_LIMIT_BYTES]
    assert state.zones[first + USED_BYTES] <= state.zones[first + LIMIT_BYTES]
    zones = [nodes[node + ZONE] for node in found]
    assert zones == sorted(zones, reverse=True)
    keys = [int(nodes[node + KEY]) for node in found]
    assert found == [node_of(state, key, side) for key in keys]
    return keys


def test_the_least_recently_used_tile_leaves_first(repeated: Repeated) -> None:
    """Room for three tiles; 1 was touched after 2 came, so the fourth pushes 2 out."""
    state = cache(repeated, 300)
    put(state, 1, 2, 3)
    assert NONE != find(state, 1)
    put(state, 4)
    assert [3, 1, 4] == resident(state)
    assert NONE == find(state, 2)


def test_a_full_cache_keeps_everything_until_one_byte_more_comes(repeated: Repeated) -> None:
    """300 of 300 bytes stay; a tile of one byte more pushes the oldest out."""
    state = cache(repeated, 300)
    assert 0 == put(state, 1, 2, 3, is_dirty=True)
    assert 100 == put(state, 4, size_bytes=1, is_dirty=True)
    assert [2, 3, 4] == resident(state)


def test_a_large_tile_pushes_as_many_out_as_it_needs(repeated: Repeated) -> None:
    """150 B need the places of the two oldest tiles; one of them was dirty."""
    state = cache(repeated, 300)
    put(state, 1, is_dirty=True)
    put(state, 2, 3)
    assert 100 == put(state, 4, size_bytes=150)
    assert [3, 4] == resident(state)


@pytest.mark.parametrize("knee", [0.0, 0.2])
def test_a_tile_larger_than_the_cache_leaves_at_once(knee: float, repeated: Repeated) -> None:
    """It pushes everything out and itself, through every zone; what is dirty goes to HBM, and the cache is usable."""
    state = cache(repeated, 300, knee=knee)
    put(state, 1, is_dirty=True)
    assert 100 + 301 == put(state, 2, size_bytes=301, is_dirty=True)
    assert [] == resident(state)
    put(state, 3)
    assert [3] == resident(state)


def test_only_dirty_tiles_are_written_back_and_once(repeated: Repeated) -> None:
    """A clean tile leaves for nothing, a dirty one with its bytes."""
    state = cache(repeated, 200)
    put(state, 1)
    put(state, 2, is_dirty=True)
    assert 100 == dirty_bytes(state)
    assert 0 == put(state, 3)
    assert 100 == put(state, 4)
    assert 0 == dirty_bytes(state)


def test_writing_a_tile_again_keeps_one_copy(repeated: Repeated) -> None:
    """The second write of tile 1 replaces the first: 100 dirty bytes, and still room for another tile."""
    state = cache(repeated, 200)
    put(state, 1, 1, is_dirty=True)
    assert 0 == put(state, 2)
    assert (100, [1, 2]) == (dirty_bytes(state), resident(state))


def test_a_tile_that_is_touched_keeps_its_node(repeated: Repeated) -> None:
    """Oldest, middle or newest: it becomes the newest and stays where it was."""
    for key, order in ((1, [2, 3, 1]), (2, [1, 3, 2]), (3, [1, 2, 3])):
        state = cache(repeated, 300)
        put(state, 1, 2, 3)
        node = node_of(state, key)
        assert node == find(state, key)
        assert order == resident(state)


def test_nodes_are_used_again(repeated: Repeated) -> None:
    """Room for two tiles and one on its way out: three nodes hold any number of tiles one after another."""
    state = cache(repeated, 200, num_nodes=3)
    put(state, *range(NUM_KEYS), *range(NUM_KEYS))
    assert [8, 9] == resident(state)


def test_a_cache_that_holds_what_fits_lets_nothing_leave(repeated: Repeated) -> None:
    """Nothing to do, nothing done."""
    state = cache(repeated, 200)
    put(state, 1, 2, is_dirty=True)
    assert 0 == settle(state, 0)
    assert [1, 2] == resident(state)


sizes = st.integers(20, 120)  # of 80 B: at most four tiles at once, and the one about to leave
steps = st.lists(st.tuples(st.integers(0, NUM_KEYS - 1), st.booleans(), st.booleans()), max_size=40)


@settings(max_examples=100, derandomize=True, deadline=None, database=None)
@given(st.lists(sizes, min_size=NUM_KEYS, max_size=NUM_KEYS), steps)
def test_a_hard_end_is_the_textbook_lru(size_of_key: list[int], walk: list[tuple[int, bool, bool]]) -> None:
    """Any walk of touches and inserts leaves the tiles, their order and the written-back bytes of an ordered dict."""
    capacity, state, book = 80, cache(repeated_in_list, 80), OrderedDict[int, bool]()
    for key, is_insert, is_dirty in walk:
        if not is_insert:
            assert (find(state, key) == NONE) == (key not in book)
            if key in book:
                book.move_to_end(key)
            continue
        book[key] = is_dirty
        book.move_to_end(key)
        left = 0
        while sum(size_of_key[held] for held in book) > capacity:
            oldest, was_dirty = book.popitem(last=False)
            left += size_of_key[oldest] if was_dirty else 0
        assert left == put(state, key, size_bytes=size_of_key[key], is_dirty=is_dirty)
        assert list(book) == resident(state)
        assert sum(size_of_key[held] for held, was_dirty in book.items() if was_dirty) == dirty_bytes(state)


# A knee of 0.2 on 1,000 B: six zones of 100 B behind the capacity. Of 100 B there are left exp(−0.25), exp(−0.75), …:
KEPT = [100, 77, 47, 28, 17, 10, 6]


def test_zones_are_half_a_knee_deep_and_end_after_three() -> None:
    """exp(−(D/C − 1)/knee) in the middle of each: D/C − 1 is ¼, ¾, 1¼, … of the knee. A hard end has none of them."""
    assert [1000, 100, 100, 100, 100, 100, 100] == zone_limits(1000, 0.2)
    assert [1000, 0, 0, 0, 0, 0, 0] == zone_limits(1000, 0.0)
    middles = [0.05, 0.15, 0.25, 0.35, 0.45, 0.55]
    assert [1.0, *(pytest.approx(math.exp(-excess / 0.2)) for excess in middles)] == zone_shares()


def soft(repeated: Repeated) -> MemoryState:
    """1,000 B with a knee of 0.2, and room for 16 tiles of 100 B in all zones together."""
    return cache(repeated, 1000, knee=0.2, num_keys=100, num_nodes=17)


def test_a_tile_beyond_the_capacity_loses_bytes_zone_by_zone(repeated: Repeated) -> None:
    """Ten tiles fit; with each further one the first is a zone deeper, and with the 17th it is gone."""
    state = soft(repeated)
    put(state, *range(10))
    for depth, kept in enumerate(KEPT):
        assert depth == depth_of(state, 0)
        assert kept == resident_bytes(state, 0, 100, state.nodes[node_of(state, 0) + ZONE])
        put(state, 10 + depth)
    assert NONE == node_of(state, 0)
    assert list(range(1, 17)) == resident(state)


def test_zones_are_the_same_however_late_one_looks(repeated: Repeated) -> None:
    """Sixteen tiles at once: the first is in the last zone, the second before it, …, and ten within the capacity."""
    state = soft(repeated)
    put(state, *range(16))
    assert [6, 5, 4, 3, 2, 1, *[0] * 10] == [depth_of(state, key) for key in range(16)]


def test_a_tile_is_as_deep_as_the_bytes_that_came_after_it(repeated: Repeated) -> None:
    """A tile of 250 B beyond the capacity is larger than a zone: it goes down with 100 B beyond the capacity behind it,
    and again with 200."""
    for more, depth in ((0, 1), (99, 1), (100, 2), (199, 2), (200, 3)):
        state = soft(repeated)
        put(state, 0, size_bytes=250)
        put(state, *([1] if more else []), size_bytes=more)
        put(state, *range(10, 20))
        assert depth == depth_of(state, 0)


def test_a_tile_is_written_back_when_it_leaves_the_capacity(repeated: Repeated) -> None:
    """The eleventh dirty tile pushes the first beyond the capacity: its 100 B go to HBM, and what is left is clean."""
    state = soft(repeated)
    assert 0 == put(state, *range(10), is_dirty=True)
    assert [100] * 7 == [put(state, 10 + more, is_dirty=True) for more in range(7)]
    assert 1000 == dirty_bytes(state)


def test_what_was_written_back_is_clean_when_it_comes_again(repeated: Repeated) -> None:
    """A dirty tile is pushed out and read again, 23 B of it from HBM; pushed out once more it has nothing to write."""
    state = soft(repeated)
    put(state, 0, is_dirty=True)
    assert 100 == put(state, *range(1, 11))
    assert (23, 0) == fetch(state, 0, 100, 0, 0)[::4]
    assert 0 == put(state, *range(1, 11))


def test_a_tile_keeps_whole_sectors(repeated: Repeated) -> None:
    """77.88 B of 100 are two sectors of 32."""
    l2 = l2_spec(1000, 1, 0.2).model_copy(update={"sector_bytes": 32})
    gpu = A100.model_copy(update={"memory": A100.memory.model_copy(update={"l2": l2})})
    assert 64 == resident_bytes(build_memory(gpu, 1, 1, repeated), 0, 100, ZONE_FIELDS)


def test_a_line_is_there_or_not(repeated: Repeated) -> None:
    """Tiles of at most 50 B: of 4,000 keys the share of the zone is left, whole, and who lost once has lost."""
    state = soft(repeated)
    survivors = [
        {key for key in range(4000) if resident_bytes(state, key, 50, zone * ZONE_FIELDS)} for zone in range(7)
    ]
    assert {0, 50} == {resident_bytes(state, key, 50, 3 * ZONE_FIELDS) for key in range(100)}
    for zone, share in enumerate(zone_shares()):
        assert abs(len(survivors[zone]) - 4000 * share) < 4 * math.sqrt(1000)
        assert zone == 0 or survivors[zone] < survivors[zone - 1]
    assert {key for key in range(4000) if scattered(key) < 2**32 * math.exp(-0.25)} == survivors[1]


soft_steps = st.lists(st.tuples(st.integers(0, 29), st.sampled_from("pdl")), min_size=40, max_size=90)


@settings(max_examples=100, derandomize=True, deadline=None, database=None)
@given(st.lists(st.integers(51, 260), min_size=30, max_size=30), soft_steps)
def test_a_soft_end_is_a_list_with_borders(size_of_key: list[int], walk: list[tuple[int, str]]) -> None:
    """Tiles put in, clean or dirty, and looked up: what is beyond 1,000 B from the newest is clean, a tile is as deep
    as it was when one last looked or as the bytes beyond the capacity that came after it say, and 600 B are the end."""
    state = cache(repeated_in_list, 1000, knee=0.2, num_keys=30, num_nodes=31)
    within, beyond, depth = OrderedDict[int, bool](), OrderedDict[int, None](), {}  # oldest first
    for key, what in walk:
        if what == "l":
            newer_bytes = 0
            for other in reversed(beyond if key in beyond else {}):
                depth[other] = max(depth[other], min(6, 1 + newer_bytes // 100))
                newer_bytes += size_of_key[other]
            assert (look_up(state, key, 0) == NONE) == (key not in within and key not in beyond)
            if key in beyond:
                assert depth[key] == depth_of(state, key)
            continue
        beyond.pop(key, None)
        within.pop(key, None)
        within[key], left = what == "d", 0
        while sum(size_of_key[other] for other in within) > 1000:
            oldest, was_dirty = within.popitem(last=False)
            left += size_of_key[oldest] if was_dirty else 0
            beyond[oldest], depth[oldest] = None, 1
        while sum(size_of_key[other] for other in beyond) > 600:
            beyond.popitem(last=False)
        assert left == put(state, key, size_bytes=size_of_key[key], is_dirty=what == "d")
        assert [*beyond, *within] == resident(state)
        assert sum(size_of_key[other] for other, dirty in within.items() if dirty) == dirty_bytes(state)


@pytest.mark.parametrize(
    ("partitions", "size_bytes", "homes"),
    [
        (1, 101, {7: (101,), 8: (101,)}),
        (2, 101, {7: (50, 51), 8: (50, 51)}),  # larger than a line: half on each side
        (2, 51, {7: (25, 26), 8: (25, 26)}),
        (2, 50, {7: (0, 50), 8: (50, 0)}),  # one line: where its key says
        (2, 8, {7: (0, 8), 8: (8, 0)}),
    ],
)
def test_a_tile_lives_half_on_each_side_and_a_line_on_one(
    partitions: int, size_bytes: int, homes: dict[int, tuple[int, ...]], repeated: Repeated
) -> None:
    """Together the homes are the tile."""
    state = cache(repeated, 1000, partitions=partitions)
    for key, expected in homes.items():
        assert expected == tuple(home_bytes(state, key, size_bytes, side) for side in range(partitions))
        assert size_bytes == sum(expected)


def two_sides(repeated: Repeated, size_bytes: int = 800, knee: float = 0.0, line_weight: int = 1) -> MemoryState:
    """Two partitions of half the size each."""
    return cache(repeated, size_bytes, partitions=2, knee=knee, num_keys=30, num_nodes=40, line_weight=line_weight)


def write(state: MemoryState, key: int, size_bytes: int = 100) -> int:
    """A whole tile written; the dirty bytes that had to leave."""
    return sum(overwrite(state, key, size_bytes, side, 0) for side in range(2))


def arrival_of(state: MemoryState, key: int, side: int) -> int:
    """When a tile arrives on a side."""
    return state.nodes[node_of(state, key, side) + ARRIVAL_PS]


def weights(state: MemoryState) -> tuple[int, int]:
    """Bytes taken of the capacity of each side."""
    return state.zones[USED_BYTES], state.zones[SIDE_ZONES + USED_BYTES]


def test_a_tile_weighs_1_when_written_1_5_read_from_one_side_and_2_from_both(repeated: Repeated) -> None:
    """Its home bytes on each side, and a copy of the other half on the side that reads; a write drops the copies."""
    state = two_sides(repeated)
    write(state, 3)
    assert (50, 50) == weights(state)
    fetch(state, 3, 100, 0, 0)
    assert (100, 50) == weights(state)
    fetch(state, 3, 100, 1, 0)
    assert (100, 100) == weights(state)
    write(state, 3)
    assert (50, 50) == weights(state)
    assert 100 == dirty_bytes(state)


def test_a_line_weighs_1_on_its_own_side_and_2_read_from_the_other(repeated: Repeated) -> None:
    """Key 4 lives on side 0: 40 B there, and as many on side 1 once that has read it; a write takes the copy away."""
    state = two_sides(repeated)
    fetch(state, 4, 40, 0, 0)
    assert (40, 0) == weights(state)
    fetch(state, 4, 40, 1, 0)
    assert (40, 40) == weights(state)
    write(state, 4, 40)
    assert ((40, 0), NONE) == (weights(state), node_of(state, 4, 1))


def test_a_line_weight_multiplies_what_is_taken_of_the_capacity_alone(repeated: Repeated) -> None:
    """A line of 40 B that stands for seven: 280 B of each side that holds it, 40 B missing, 40 B dirty."""
    state = two_sides(repeated, line_weight=7)
    assert (0, 40) == fetch(state, 4, 40, 1, 0)[:2]
    assert (280, 280) == weights(state)
    write(state, 4, 40)
    assert ((280, 0), 40) == (weights(state), dirty_bytes(state))


def test_a_cold_tile_is_missing_half_here_and_half_there(repeated: Repeated) -> None:
    """From side 1, 51 of 101 B are its own; nothing comes over; both sides wait for the read."""
    state = two_sides(repeated)
    assert (51, 50, 0, 0, 0) == fetch(state, 3, 101, 1, 77)
    assert [UNKNOWN_PS] * 2 == [arrival_of(state, 3, side) for side in (0, 1)]


def test_what_the_other_side_has_comes_over(repeated: Repeated) -> None:
    """Written: the own half is there, the other comes over until 77. Read by side 0 before: so for side 1."""
    state = two_sides(repeated)
    write(state, 3)
    assert (0, 0, 50, 77, 0) == fetch(state, 3, 100, 0, 77)
    assert (0, 0, 50, 88, 0) == fetch(state, 3, 100, 1, 88)


def test_a_tile_on_its_way_comes_over_when_it_has_arrived(repeated: Repeated) -> None:
    """Its arrival on the other side is later than the copy would be, or earlier: the later of the two."""
    for arrival_ps, known_ps in ((60, 77), (90, 90)):
        state = two_sides(repeated)
        for side in (0, 1):
            put_entry(state, 3, side, 50, 0, arrival_ps)
        assert known_ps == fetch(state, 3, 100, 0, 77)[3]
        assert (known_ps, arrival_ps) == (arrival_of(state, 3, 0), arrival_of(state, 3, 1))


@pytest.mark.parametrize(("lost", "reader", "expected"), [(0, 0, (50, 0, 50)), (1, 0, (0, 50, 0)), (1, 1, (50, 0, 50))])
def test_only_the_half_that_was_lost_is_missing(
    lost: int, reader: int, expected: tuple[int, int, int], repeated: Repeated
) -> None:
    """A tile that was written, then pushed out of one side by lines that live there."""
    state = two_sides(repeated)
    write(state, 9)
    fill(state, lost, range(10 + lost, 26 + lost, 2))
    assert NONE == node_of(state, 9, lost)
    assert expected == fetch(state, 9, 100, reader, 0)[:3]


def test_a_dirty_half_that_is_pushed_out_goes_to_hbm_alone(repeated: Repeated) -> None:
    """50 of the 100 dirty bytes live on the side that is too full."""
    state = two_sides(repeated)
    write(state, 9)
    assert 50 == fill(state, 0, range(0, 16, 2))
    assert 50 == dirty_bytes(state)


def large(repeated: Repeated) -> MemoryState:
    """2,000 B a side, zones of 200 B: ten tiles of 200 B fit a side, and then one a zone. Tile 9 is read by side 0."""
    state = cache(repeated, 4000, partitions=2, knee=0.2, num_nodes=60, num_keys=60)
    fetch(state, 9, 200, 0, 0)
    return state


def test_bytes_that_either_side_still_has_are_not_missing(repeated: Repeated) -> None:
    """Tile 9 went a zone down on side 0 when ten others came: of each half of 100 B 77 are left. The other side is
    untouched: 23 B of the own half are missing, 23 come over. After three zones 28 B of a half are left."""
    for depth, kept in ((1, 77), (3, 28)):
        state = large(repeated)
        fill(state, 0, range(10, 19 + depth), 200)
        assert depth == depth_of(state, 9)
        assert (100 - kept, 0, 100 - kept) == fetch(state, 9, 200, 0, 0)[:3]


def test_a_copy_that_lost_bytes_is_given_up_when_only_its_home_is_asked_for(repeated: Repeated) -> None:
    """Side 0 holds the whole tile a zone down; side 1, which lost it, asks for side 0's half: 23 B of that are missing
    and all of its own. Side 0 keeps its home alone."""
    state = large(repeated)
    fill(state, 0, range(10, 20), 200)
    fill(state, 1, range(20, 40), 200)
    assert (NONE, 1) == (node_of(state, 9, 1), depth_of(state, 9))
    assert (100, 23, 77) == fetch(state, 9, 200, 1, 0)[:3]
    assert 100 == state.nodes[node_of(state, 9) + SIZE_BYTES]


accesses = st.lists(st.tuples(st.integers(0, 11), st.sampled_from("rw"), st.integers(0, 1)), max_size=120)


@settings(max_examples=150, derandomize=True, deadline=None, database=None)
@given(
    st.lists(st.integers(1, 130), min_size=12, max_size=12),
    accesses,
    st.integers(1, 2),
    st.sampled_from([0.0, 0.2]),
    st.integers(1, 700),
)
def test_bytes_are_conserved(
    size_of_key: list[int], walk: list[tuple[int, str, int]], partitions: int, knee: float, size_bytes: int
) -> None:
    """Bytes written = bytes to HBM + bytes still dirty + dirty bytes that were written again before they left. No read
    misses more than its tile, and one right after it misses nothing where the tile is still whole."""
    state = cache(repeated_in_list, size_bytes, partitions=partitions, knee=knee, num_keys=12, num_nodes=30)
    written = left = overwritten = 0
    for key, what, reader in walk:
        side, size = reader % partitions, size_of_key[key]
        if what == "w":
            nodes = [node_of(state, key, half) for half in range(partitions)]
            overwritten += sum(state.nodes[node + DIRTY_BYTES] for node in nodes if node != NONE)
            left += sum(overwrite(state, key, size, half, 0) for half in range(partitions))
            written += size
        else:
            near, far, over, _, gone = fetch(state, key, size, side, 0)
            left += gone
            assert 0 <= near + far + over <= size
            node = node_of(state, key, side)
            if node != NONE and state.nodes[node + ZONE] == side * SIDE_ZONES:
                assert (0, 0, 0) == fetch(state, key, size, side, 0)[:3]
        for half in range(partitions):
            resident(state, half)
        assert written == left + dirty_bytes(state) + overwritten
    free, node = 0, state.counts[FREE_NODE]
    while node != NONE:
        free, node = free + 1, state.nodes[node + OLDER]
    assert 30 == free + sum(len(resident(state, half)) for half in range(partitions))


def test_lists_and_arrays_give_the_same_numbers() -> None:
    """Every answer, and every number of the state, over 300 accesses of two sides that evict all the time."""
    runs = []
    for repeated in (repeated_in_list, repeated_in_array):
        state = cache(repeated, 700, partitions=2, knee=0.2, num_nodes=40)
        answers: list[object] = []
        for step in range(300):
            key = 7 * step % 10
            answers.append(write(state, key) if step % 3 == 0 else fetch(state, key, 90 + 5 * key, step % 2, step))
        runs.append((answers, [list(part) for part in state]))
    assert runs[0] == runs[1]
