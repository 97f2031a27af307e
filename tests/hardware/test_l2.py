"""L2 as a list of tiles, the least recently used out first."""

from collections import OrderedDict

from hypothesis import given, settings
from hypothesis import strategies as st

from gpusim.hardware import MemoryState, dirty_bytes, repeated_in_list
from gpusim.hardware.l2 import evict, insert, touch
from gpusim.hardware.state import L2_CAPACITY_BYTES, L2_USED_BYTES, NEWEST, NONE, OLDEST, Repeated, build_memory
from gpusim.specs import load_gpu

A100 = load_gpu("a100_sxm4_40gb")
NUM_KEYS, NUM_NODES = 10, 5  # an L2 of at most four of the tiles, and the one that is about to leave


def cache(repeated: Repeated, size_bytes: int, num_nodes: int = NUM_NODES) -> MemoryState:
    """An empty L2 of this size."""
    l2 = A100.memory.l2.model_copy(update={"size_bytes": size_bytes})
    gpu = A100.model_copy(update={"memory": A100.memory.model_copy(update={"l2": l2})})
    return build_memory(gpu, NUM_KEYS, num_nodes, repeated)


def put(state: MemoryState, *keys: int, size_bytes: int = 100, is_dirty: bool = False) -> int:
    """Tiles inserted one after another; the dirty bytes that had to leave."""
    return sum(insert(state, key, size_bytes, 0, int(is_dirty)) for key in keys)


def resident(state: MemoryState) -> list[int]:
    """Keys from the least to the most recently used, by the links in both directions."""
    keys, node = [], state.counts[OLDEST]
    while node != NONE:
        keys.append(int(state.key[node]))
        node = state.newer[node]
    backwards, node = [], state.counts[NEWEST]
    while node != NONE:
        backwards.append(int(state.key[node]))
        node = state.older[node]
    assert backwards == keys[::-1]
    return keys


def test_the_least_recently_used_tile_leaves_first(repeated: Repeated) -> None:
    """Room for three tiles; 1 was touched after 2 came, so the fourth pushes 2 out."""
    state = cache(repeated, 300)
    put(state, 1, 2, 3)
    assert NONE != touch(state, 1)
    put(state, 4)
    assert [3, 1, 4] == resident(state)
    assert NONE == touch(state, 2)


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


def test_a_tile_larger_than_the_cache_leaves_at_once(repeated: Repeated) -> None:
    """It pushes everything out and itself; what is dirty goes to HBM, and the cache is empty and usable."""
    state = cache(repeated, 300)
    put(state, 1, is_dirty=True)
    assert 100 + 301 == put(state, 2, size_bytes=301, is_dirty=True)
    assert ([], 0) == (resident(state), state.counts[L2_USED_BYTES])
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
        node = state.node_of_key[key]
        assert node == touch(state, key)
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
    assert 0 == evict(state)
    assert [1, 2] == resident(state)


sizes = st.integers(20, 120)  # of 80 B: at most four tiles at once, and the one about to leave
steps = st.lists(st.tuples(st.integers(0, NUM_KEYS - 1), st.booleans(), st.booleans()), max_size=40)


@settings(max_examples=100, derandomize=True, deadline=None, database=None)
@given(st.lists(sizes, min_size=NUM_KEYS, max_size=NUM_KEYS), steps)
def test_it_is_the_textbook_lru(size_of_key: list[int], walk: list[tuple[int, bool, bool]]) -> None:
    """Any walk of touches and inserts leaves the tiles, their order and the written-back bytes of an ordered dict."""
    capacity, state, book = 80, cache(repeated_in_list, 80), OrderedDict[int, bool]()
    assert capacity == state.counts[L2_CAPACITY_BYTES]
    for key, is_insert, is_dirty in walk:
        if not is_insert:
            assert (touch(state, key) == NONE) == (key not in book)
            if key in book:
                book.move_to_end(key)
            continue
        book[key] = is_dirty
        book.move_to_end(key)
        left = 0
        while sum(size_of_key[held] for held in book) > capacity:
            oldest, was_dirty = book.popitem(last=False)
            left += size_of_key[oldest] if was_dirty else 0
        assert left == insert(state, key, size_of_key[key], 0, int(is_dirty))
        assert list(book) == resident(state)
        assert sum(size_of_key[held] for held in book) == state.counts[L2_USED_BYTES]
        assert sum(size_of_key[held] for held, was_dirty in book.items() if was_dirty) == dirty_bytes(state)
