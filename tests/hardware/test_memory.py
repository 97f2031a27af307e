"""The way of a tile through fill port, L2 and HBM, in picoseconds worked out by hand.

A hit is usable at max(fill port, L2 port) + hit latency, and not before the tile's own arrival. A miss arrives in L2 at
max(L2 port, HBM) + miss latency and is usable at the SM when the fill port's miss latency is over, too.
"""

import pytest

from gpusim.hardware import (
    HBM_READ_BYTES,
    HBM_WRITE_BYTES,
    HIT_BYTES,
    Machine,
    MemoryState,
    build_machine,
    dirty_bytes,
    read_tiles,
    repeated_in_array,
    repeated_in_list,
    start_kernel,
    write_tiles,
)
from gpusim.hardware.state import NONE, Repeated
from gpusim.specs import GpuSpec, L2Spec, load_gpu

# 1 ps a byte at the L2 port and 200 ns for a hit; 10 ps a byte and 400 ns for a miss; 4 ps a byte into an SM.
L2_PS, HBM_PS, FILL_PS, HIT_PS, MISS_PS = 1, 10, 4, 200_000, 400_000
LATE = 10_000_000  # long after everything asked for at 0 has come
NUM_KEYS, NUM_NODES = 100, 12


def l2_spec(size_bytes: int) -> L2Spec:
    """An L2 of this size at 1 ps a byte and 200 ns a hit."""
    update = {"size_bytes": size_bytes, "bandwidth_bytes_per_s": 1e12, "latency_ns": 200.0}
    return load_gpu("a100_sxm4_40gb").memory.l2.model_copy(update=update)


def gpu(size_bytes: int | None, *, sms: int = 2, fill_ps: int = FILL_PS) -> GpuSpec:
    """Toy GPU at 1 GHz: `fill_ps` a byte into each SM; `size_bytes` of L2, None for none."""
    canvas = load_gpu("canvas")
    hbm = canvas.memory.hbm.model_copy(
        update={"stream_bandwidth_bytes_per_s": 1e11, "peak_bandwidth_bytes_per_s": 1e11, "latency_ns": 400.0}
    )
    l2 = None if size_bytes is None else l2_spec(size_bytes)
    sm = canvas.sm.model_copy(update={"count": sms, "l2_fill_bytes_per_clk": 1_000 // fill_ps})
    return canvas.model_copy(update={"sm": sm, "memory": canvas.memory.model_copy(update={"l2": l2, "hbm": hbm})})


def machine(repeated: Repeated, spec: GpuSpec) -> Machine:
    """An idle and cold machine at the start of a kernel."""
    built = build_machine(spec, NUM_KEYS, NUM_NODES, repeated)
    start_kernel(built.memory, spec.memory.hbm, 1.0, spec.sm.l2_fill_bytes_per_clk * spec.sm.clock_hz)
    return built


def memory(repeated: Repeated, size_bytes: int | None, *, fill_ps: int = FILL_PS) -> MemoryState:
    """The toy's memory system, idle and cold."""
    return machine(repeated, gpu(size_bytes, fill_ps=fill_ps)).memory


def read(state: MemoryState, now_ps: int, sm: int, *keys: int, base: int = 0) -> int:
    """When tiles of 100 B, asked for together, are usable."""
    offsets, sizes = [key - base for key in keys], [100] * len(keys)
    return read_tiles(state, now_ps, sm, base, offsets, sizes, 0, len(keys), 100 * len(keys))


def write(state: MemoryState, now_ps: int, *keys: int) -> int:
    """When tiles of 100 B, written together, are accepted."""
    return write_tiles(state, now_ps, 0, list(keys), [100] * len(keys), 0, len(keys), 100 * len(keys))


def moved(state: MemoryState) -> tuple[int, int, int]:
    """Bytes read from and written to HBM, and found in L2."""
    return state.counts[HBM_READ_BYTES], state.counts[HBM_WRITE_BYTES], state.counts[HIT_BYTES]


def test_a_machine_starts_idle_and_cold(repeated: Repeated) -> None:
    """A fill port and a compute pipe an SM, one launcher, all free at 0; nothing in L2, no byte moved."""
    built = machine(repeated, gpu(1000, sms=3))
    assert [[0, 0, 0], [0, 0, 0], [0]] == [
        list(pipes) for pipes in (built.memory.port_free_ps, built.pipe_free_ps, built.launcher_free_ps)
    ]
    assert [NONE] * NUM_KEYS == list(built.memory.node_of_key)
    assert (0, 0, 0, 0) == (*moved(built.memory), dirty_bytes(built.memory))


def test_a_read_after_a_write_leaves_the_tile_dirty(repeated: Repeated) -> None:
    """Reading does not clean: the bytes still have to go to HBM."""
    state = memory(repeated, 1000)
    write(state, 0, 1)
    read(state, 0, 0, 1)
    assert (100, (0, 0, 100)) == (dirty_bytes(state), moved(state))


def test_a_miss_is_usable_one_memory_latency_after_the_slowest_link(repeated: Repeated) -> None:
    """100 B: 400 ps into the SM, 100 ps at L2, 1,000 ps at HBM, all from the start; then 400 ns."""
    assert 100 * HBM_PS + 1 + MISS_PS == read(memory(repeated, 1000), 0, 0, 1)


def test_a_slow_fill_port_is_the_slowest_link_of_a_miss(repeated: Repeated) -> None:
    """At 100 ps a byte into the SM, 10,000 ps are more than HBM's 1,000; then 400 ns."""
    assert 100 * 100 + 1 + MISS_PS == read(memory(repeated, 1000, fill_ps=100), 0, 0, 1)


def test_a_hit_is_usable_one_l2_latency_after_the_slowest_link(repeated: Repeated) -> None:
    """Long after the tile came: 400 ps into the SM are the slowest link of a hit, then 200 ns."""
    state = memory(repeated, 1000)
    read(state, 0, 0, 1)
    assert LATE + 100 * FILL_PS + 1 + HIT_PS == read(state, LATE, 0, 1)


def test_a_tile_on_its_way_is_a_hit_that_waits_for_it(repeated: Repeated) -> None:
    """Another SM asks a little later and gets the tile when it arrives for the first, without another HBM read."""
    state = memory(repeated, 1000)
    arrival = read(state, 0, 0, 1)
    assert arrival == read(state, 10, 1, 1)
    assert (100, 0, 100) == moved(state)


def test_a_tile_arrives_in_l2_however_busy_the_port_of_its_sm_is(repeated: Repeated) -> None:
    """SM 0 can use the tile after 10,001 ps at its port and 400 ns; in L2 it is 1,001 ps and 400 ns after the start,
    which is when SM 1 has it, whose own port and hit latency are done by then."""
    state = memory(repeated, 1000, fill_ps=100)
    assert 10_001 + MISS_PS == read(state, 0, 0, 1)
    assert 1_001 + MISS_PS == read(state, 0, 1, 1)


def test_the_wait_for_a_tile_on_its_way_ends_when_a_hit_would_take_as_long(repeated: Repeated) -> None:
    """A hit takes 200,401 ps: asked for so long before the arrival it ends with it, a tick later a tick after it."""
    first, second = memory(repeated, 1000), memory(repeated, 1000)
    arrival, hit_ps = read(first, 0, 0, 1), 100 * FILL_PS + 1 + HIT_PS
    assert arrival == read(first, arrival - hit_ps, 1, 1)
    read(second, 0, 0, 1)
    assert arrival + 1 == read(second, arrival - hit_ps + 1, 1, 1)


@pytest.mark.parametrize(("sm", "filled"), [(1, 100 * FILL_PS + 1), (0, 2 * (100 * FILL_PS + 1))])
def test_each_sm_has_its_own_fill_port_and_all_share_l2(sm: int, filled: int, repeated: Repeated) -> None:
    """Two hits of 100 B at once: the second SM waits 101 ps at L2 only, the same SM also 401 ps at its port."""
    state = memory(repeated, 1000)
    read(state, 0, 0, 1)
    read(state, LATE, 0, 1)
    assert LATE + max(filled, 2 * (100 * L2_PS + 1)) + HIT_PS == read(state, LATE, sm, 1)


def test_a_partial_miss_reads_only_what_is_missing(repeated: Repeated) -> None:
    """Tile 1 is there, tile 2 is not: 100 B from HBM, 100 B hit, usable with the last of them: 1,001 ps and 400 ns."""
    state = memory(repeated, 1000)
    read(state, 0, 0, 1)
    assert LATE + 100 * HBM_PS + 1 + MISS_PS == read(state, LATE, 0, 1, 2)
    assert (200, 0, 100) == moved(state)


def test_a_partial_miss_comes_after_a_hit_tile_on_its_way(repeated: Repeated) -> None:
    """Tile 8 is the last of eight that queue at HBM. Asked for together with tile 9, it is a hit; 9 queues behind."""
    state = memory(repeated, 1000)
    for key in range(1, 9):
        read(state, 0, 0, key)
    assert 9 * (100 * HBM_PS + 1) + MISS_PS == read(state, 0, 1, 8, 9)
    assert (900, 0, 100) == moved(state)


def test_a_busy_l2_port_is_the_slowest_link_of_a_miss(repeated: Repeated) -> None:
    """Behind 5,001 ps of a write at the L2 port, the 101 ps of the read there end after HBM's 1,001; then 400 ns."""
    state = memory(repeated, 10_000)
    write_tiles(state, 0, 0, [1], [5_000], 0, 1, 5_000)
    assert 5_001 + 101 + MISS_PS == read(state, 0, 0, 2)


def test_tiles_of_one_miss_travel_together(repeated: Repeated) -> None:
    """Three tiles: 300 B in one piece at HBM, 3,000 ps, then 400 ns; from then on all three are there."""
    state = memory(repeated, 1000)
    assert 300 * HBM_PS + 1 + MISS_PS == read(state, 0, 0, 1, 2, 3)
    assert LATE + 300 * FILL_PS + 1 + HIT_PS == read(state, LATE, 0, 1, 2, 3)
    assert (300, 0, 300) == moved(state)


def test_a_write_is_accepted_when_l2_has_it(repeated: Repeated) -> None:
    """100 B at 1 ps a byte; nothing goes to HBM while there is room."""
    state = memory(repeated, 1000)
    assert 100 * L2_PS + 1 == write(state, 0, 1)
    assert (0, 0, 0) == moved(state)


def test_a_write_takes_no_fill_port(repeated: Repeated) -> None:
    """A hit right after a write of another tile waits 202 ps for the L2 port, less than the 401 ps at its own port."""
    state = memory(repeated, 1000)
    read(state, 0, 0, 1)
    write(state, LATE, 2)
    assert LATE + 100 * FILL_PS + 1 + HIT_PS == read(state, LATE, 0, 1)


def test_a_write_that_pushes_dirty_tiles_out_waits_for_hbm(repeated: Repeated) -> None:
    """Room for one tile: the second write is accepted when HBM has taken the first, 1,000 ps."""
    state = memory(repeated, 100)
    write(state, 0, 1)
    assert 1_000_000 + 100 * HBM_PS + 1 == write(state, 1_000_000, 2)
    assert (100, (0, 100, 0)) == (dirty_bytes(state), moved(state))


def test_a_read_that_pushes_dirty_tiles_out_occupies_hbm_but_does_not_wait(repeated: Repeated) -> None:
    """The write-back queues behind the read: the next miss finds HBM busy with both."""
    state = memory(repeated, 100)
    write(state, 0, 1)
    assert 1_000_000 + 1001 + MISS_PS == read(state, 1_000_000, 0, 2)
    assert 1_000_000 + 3 * 1001 + MISS_PS == read(state, 1_000_000, 1, 3)


@pytest.mark.parametrize(("base", "read_bytes"), [(0, 100), (50, 200)])
def test_keys_count_from_the_base(base: int, read_bytes: int, repeated: Repeated) -> None:
    """The same offset under another base is another tile."""
    state = memory(repeated, 1000)
    read(state, 0, 0, 1)
    read(state, 0, 0, base + 1, base=base)
    assert read_bytes == state.counts[HBM_READ_BYTES]


def test_an_access_is_a_range_of_its_table(repeated: Repeated) -> None:
    """Tiles 1 and 2 of four with 100, 30, 20 and 100 B: 50 B from HBM, and neither neighbour is in L2 afterwards."""
    state = memory(repeated, 1000)
    usable = read_tiles(state, 0, 0, 10, [0, 3, 5, 7], [100, 30, 20, 100], 1, 3, 50)
    assert (50 * HBM_PS + 1 + MISS_PS, 50) == (usable, state.counts[HBM_READ_BYTES])
    assert [13, 15] == [key for key in range(NUM_KEYS) if state.node_of_key[key] != NONE]


def test_without_l2_every_request_goes_to_hbm(repeated: Repeated) -> None:
    """Two reads of one tile are two reads of HBM, one after the other and one latency later; writes take turns."""
    state = memory(repeated, None)
    assert 1001 + MISS_PS == read(state, 0, 0, 1)
    assert 2002 + MISS_PS == read(state, 0, 0, 1)
    assert 3003 == write(state, 0, 1)
    assert (200, 100, 0) == moved(state)


def walked(repeated: Repeated) -> tuple[list[int], list[list[float]]]:
    """Answers to 200 reads and writes of two tiles each, which evict all the time, and the state after them."""
    state, answers = memory(repeated, 1000), []
    for step in range(200):
        first, now_ps = 7 * step % 23, 300 * step
        if step % 3:
            answers.append(read(state, now_ps, step % 2, first, first + 1 + step % 5))
        else:
            answers.append(write(state, now_ps, first, first + 30))
    return answers, [list(part) for part in state]


def test_lists_and_arrays_give_the_same_numbers() -> None:
    """Every answer, and every number of the state."""
    assert walked(repeated_in_list) == walked(repeated_in_array)
