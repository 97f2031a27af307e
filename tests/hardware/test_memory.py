"""The way of a tile through fill port, L2 and HBM, in picoseconds worked out by hand.

A hit is usable at max(fill port, L2 port) + hit latency, and not before the tile's own arrival. A miss arrives in L2 at
max(L2 port, HBM) + miss latency and is usable at the SM when the fill port's miss latency is over, too. The latency is
that of the farthest bytes. Unless a test says otherwise there is one partition with a hard end, and one HBM channel.
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
from gpusim.hardware.scatter import scattered
from gpusim.hardware.state import NONE, USED_BYTES, Repeated
from gpusim.specs import GpuSpec, L2Spec, load_gpu

# 1 ps a byte read and 2 a byte written at the L2 port, 200 ns for a hit, 300 on the far side; 10 ps a byte and 400 ns
# for a miss, or 500 and 700 for random loads; 4 ps a byte into an SM.
L2_PS, L2_WRITE_PS, HBM_PS, FILL_PS = 1, 2, 10, 4
HIT_PS, FAR_HIT_PS, MISS_PS, NEAR_MISS_PS, FAR_MISS_PS = 200_000, 300_000, 400_000, 500_000, 700_000
LATE = 10_000_000  # long after everything asked for at 0 has come
NUM_KEYS, NUM_NODES = 100, 60


def l2_spec(size_bytes: int, *, partitions: int, knee: float) -> L2Spec:
    """An L2 of this size with lines of 50 B and sectors of single bytes, so that tiles of 100 B can be split."""
    changed = {"size_bytes": size_bytes, "partitions": partitions, "knee": knee, "line_bytes": 50, "sector_bytes": 1}
    rates = {"bandwidth_bytes_per_s": 1e12, "write_bandwidth_bytes_per_s": 5e11}
    latencies = {"near_latency_ns": 200.0, "far_latency_ns": 300.0}
    return load_gpu("a100_sxm4_40gb").memory.l2.model_copy(update=changed | rates | latencies)


def gpu(
    size_bytes: int | None, *, sms: int = 2, fill_ps: int = FILL_PS, partitions: int = 1, knee: float = 0.0
) -> GpuSpec:
    """Toy GPU at 1 GHz: `fill_ps` a byte into each SM; `size_bytes` of L2, None for none."""
    canvas = load_gpu("canvas")
    rates = {"stream_bandwidth_bytes_per_s": 1e11, "peak_bandwidth_bytes_per_s": 1e11}
    latencies = {"stream_latency_ns": 400.0, "near_latency_ns": 500.0, "far_latency_ns": 700.0}
    hbm = canvas.memory.hbm.model_copy(update=rates | latencies)
    l2 = None if size_bytes is None else l2_spec(size_bytes, partitions=partitions, knee=knee)
    sm = canvas.sm.model_copy(update={"count": sms, "l2_fill_bytes_per_clk": 1_000 // fill_ps})
    return canvas.model_copy(update={"sm": sm, "memory": canvas.memory.model_copy(update={"l2": l2, "hbm": hbm})})


def start(state: MemoryState, spec: GpuSpec, **kernel: object) -> None:
    """The next kernel."""
    fill_bytes_per_s = spec.sm.l2_fill_bytes_per_clk * spec.sm.clock_hz
    hbm = spec.timings().hbm
    start_kernel(state, hbm, efficiency=1.0, fill_bytes_per_s=fill_bytes_per_s, footprint_bytes=0, **kernel)


def machine(repeated: Repeated, spec: GpuSpec, **kernel: object) -> Machine:
    """An idle and cold machine at the start of a kernel."""
    built = build_machine(spec, NUM_KEYS, NUM_NODES, repeated)
    start(built.memory, spec, **kernel)
    return built


def memory(repeated: Repeated, size_bytes: int | None, *, fill_ps: int = FILL_PS) -> MemoryState:
    """The toy's memory system, idle and cold."""
    return machine(repeated, gpu(size_bytes, fill_ps=fill_ps)).memory


def two_sided(repeated: Repeated, size_bytes: int = 2000, **kernel: object) -> MemoryState:
    """The toy with two partitions and four SMs: even ones are on side 0, odd ones on side 1."""
    return machine(repeated, gpu(size_bytes, sms=4, partitions=2), **kernel).memory


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
    assert [0] == list(built.memory.channel_free_ps)
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
    """Behind 10,001 ps of a write at the L2 port, the 101 ps of the read there end after HBM's 1,001; then 400 ns."""
    state = memory(repeated, 10_000)
    write_tiles(state, 0, 0, [1], [5_000], 0, 1, 5_000)
    assert 10_001 + 101 + MISS_PS == read(state, 0, 0, 2)


def test_tiles_of_one_miss_travel_together(repeated: Repeated) -> None:
    """Three tiles: 300 B in one piece at HBM, 3,000 ps, then 400 ns; from then on all three are there."""
    state = memory(repeated, 1000)
    assert 300 * HBM_PS + 1 + MISS_PS == read(state, 0, 0, 1, 2, 3)
    assert LATE + 300 * FILL_PS + 1 + HIT_PS == read(state, LATE, 0, 1, 2, 3)
    assert (300, 0, 300) == moved(state)


def test_a_write_is_accepted_when_l2_has_it(repeated: Repeated) -> None:
    """100 B at 2 ps a byte; nothing goes to HBM while there is room."""
    state = memory(repeated, 1000)
    assert 100 * L2_WRITE_PS + 1 == write(state, 0, 1)
    assert (0, 0, 0) == moved(state)


def test_a_write_takes_no_fill_port(repeated: Repeated) -> None:
    """A hit right after a write of another tile waits 302 ps for the L2 port, less than the 401 ps at its own port."""
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


def test_reads_and_writes_share_the_l2_port_each_at_its_rate(repeated: Repeated) -> None:
    """A read of 100 B holds it for 101 ps, the write behind it for 201, the next one ends at 503."""
    state = memory(repeated, 1000)
    read(state, 0, 0, 1)
    assert [302, 503] == [write(state, 0, key) for key in (2, 3)]


def test_one_partition_is_near_to_every_sm(repeated: Repeated) -> None:
    """An odd and an even SM hit with the near latency; a random load misses with the near latency."""
    spec = gpu(1000)
    state = machine(repeated, spec, is_random=True).memory
    assert 1001 + NEAR_MISS_PS == read(state, 0, 1, 1)
    assert LATE + 401 + HIT_PS == read(state, LATE, 0, 1)
    assert LATE + 802 + HIT_PS == read(state, LATE, 0, 1)


def test_the_side_that_reads_again_hits_near_and_the_other_side_far(repeated: Repeated) -> None:
    """SM 0 and SM 2 share a side. SM 1 finds half of the tile on its own, takes a copy of the other, and hits near."""
    state = two_sided(repeated)
    assert 1001 + MISS_PS == read(state, 0, 0, 1)
    assert LATE + 401 + HIT_PS == read(state, LATE, 2, 1)
    assert 2 * LATE + 401 + FAR_HIT_PS == read(state, 2 * LATE, 1, 1)
    assert 3 * LATE + 401 + HIT_PS == read(state, 3 * LATE, 3, 1)
    assert (100, 0, 300) == moved(state)


def test_what_was_written_lies_half_on_the_far_side_for_everyone(repeated: Repeated) -> None:
    """The first read of each side after a write is a far hit, and the write drops the copies that were made."""
    state = two_sided(repeated)
    for turn in range(2):
        write(state, 6 * turn * LATE, 1)
        for number, (sm, latency_ps) in enumerate(
            [(0, FAR_HIT_PS), (0, HIT_PS), (1, FAR_HIT_PS), (1, HIT_PS)], start=1
        ):
            now_ps = (6 * turn + number) * LATE
            assert now_ps + 401 + latency_ps == read(state, now_ps, sm, 1)
    assert (0, 0, 800) == moved(state)


def test_a_tile_on_its_way_is_waited_for_on_either_side(repeated: Repeated) -> None:
    """SM 1 asks 10 ps after SM 0: its half comes with the other, at 401,001, later than a far hit of its own."""
    state = two_sided(repeated)
    assert 1001 + MISS_PS == read(state, 0, 0, 1) == read(state, 10, 1, 1)
    assert (100, 0, 100) == moved(state)


def test_a_copy_on_its_way_from_the_far_side_is_waited_for(repeated: Repeated) -> None:
    """SM 0 hits far; the copy is in its partition after 101 ps at the port and 300 ns. SM 2, near, asks 10 ps later."""
    state = two_sided(repeated)
    write(state, 0, 1)
    assert LATE + 401 + FAR_HIT_PS == read(state, LATE, 0, 1)
    assert LATE + 101 + FAR_HIT_PS == read(state, LATE + 10, 2, 1)


def test_one_far_tile_makes_the_whole_read_far(repeated: Repeated) -> None:
    """Tile 1 has been read from this side, tile 2 was only written."""
    state = two_sided(repeated)
    read(state, 0, 0, 1)
    write(state, 0, 2)
    assert LATE + 801 + FAR_HIT_PS == read(state, LATE, 0, 1, 2)


def read_line(state: MemoryState, now_ps: int, sm: int, key: int) -> int:
    """When a tile of one line of 50 B is usable."""
    return read_tiles(state, now_ps, sm, key, [0], [50], 0, 1, 50)


def test_a_half_that_was_lost_is_all_that_hbm_reads(repeated: Repeated) -> None:
    """200 B a side. Eight lines that live on side 0 push the tile out there; side 1 still has its half. 50 B come from
    HBM in 501 ps and 400 ns, and the far hit is over by then; of random loads the near half alone missed: 500 ns."""
    for kernel, latency_ps in (({}, MISS_PS), ({"is_random": True}, NEAR_MISS_PS)):
        state = two_sided(repeated, 400, **kernel)
        read(state, 0, 0, 1)
        for key in range(10, 26, 2):
            read_line(state, LATE, 0, key)
        assert 100 + 8 * 50 == state.counts[HBM_READ_BYTES]
        assert 2 * LATE + 501 + latency_ps == read(state, 2 * LATE, 0, 1)
        assert 100 + 8 * 50 + 50 == state.counts[HBM_READ_BYTES]


@pytest.mark.parametrize(
    ("sm", "key", "latency_ps"),
    [(0, 4, NEAR_MISS_PS), (0, 5, FAR_MISS_PS), (1, 4, FAR_MISS_PS), (1, 5, NEAR_MISS_PS)],
)
def test_a_random_load_misses_near_or_far_by_the_home_of_its_line(
    sm: int, key: int, latency_ps: int, repeated: Repeated
) -> None:
    """Even keys live on side 0, odd ones on side 1. A stream has one latency for both."""
    assert 501 + latency_ps == read_line(two_sided(repeated, is_random=True), 0, sm, key)
    assert 501 + MISS_PS == read_line(two_sided(repeated), 0, sm, key)


def test_a_tile_of_a_random_kernel_misses_far_with_its_far_half(repeated: Repeated) -> None:
    """Both halves come from HBM; the farther one is the last."""
    assert 1001 + FAR_MISS_PS == read(two_sided(repeated, is_random=True), 0, 0, 1)


def test_the_next_kernel_has_its_own_latency_and_weight(repeated: Repeated) -> None:
    """A random kernel whose lines weigh 40 fills a side with one of them; then comes a stream whose lines weigh 1."""
    spec = gpu(4000, partitions=2)
    state = machine(repeated, spec, is_random=True, line_weight=40).memory
    assert [501 + NEAR_MISS_PS, LATE + 501 + NEAR_MISS_PS] == [read_line(state, LATE * n, 0, 2 * n) for n in range(2)]
    assert NONE == state.node_of_key[0]
    start(state, spec)
    assert 2 * LATE + 501 + MISS_PS == read_line(state, 2 * LATE, 0, 4)
    assert 50 == state.zones[USED_BYTES]


def chase(repeated: Repeated, lines: int, line_weight: int = 1) -> float:
    """Mean latency in ps of a third lap of dependent loads over this many lines from SM 0; 100 lines fill a side."""
    spec = gpu(10_000 * line_weight, partitions=2)
    built = build_machine(spec, lines, 4 * lines, repeated)
    start(built.memory, spec, is_random=True, line_weight=line_weight)
    now_ps, laps = 0, []
    for _ in range(3):
        laps.append(now_ps)
        for key in range(lines):
            now_ps = read_line(built.memory, now_ps, 0, key)
    return (now_ps - laps[-1]) / lines


@pytest.mark.parametrize("line_weight", [1, 5])
@pytest.mark.parametrize(
    ("lines", "first", "second"),
    [
        (100, 201 + HIT_PS, 201 + HIT_PS),  # one partition holds homes and copies; 50 B take 201 ps into the SM
        (102, 201 + FAR_HIT_PS, 501 + NEAR_MISS_PS),  # thrashed there; the other side still has its own
        (200, 201 + FAR_HIT_PS, 501 + NEAR_MISS_PS),
        (202, 501 + FAR_MISS_PS, 501 + NEAR_MISS_PS),  # nothing is left on either side
    ],
)
def test_a_pointer_chase_has_three_plateaus(
    lines: int, first: int, second: int, line_weight: int, repeated: Repeated
) -> None:
    """Near hits, then the mean of far hits and near misses, then of far and near misses; with a hard end, at one step
    beyond one partition and at two. Lines that weigh five times as much fill five times the cache."""
    assert (first + second) / 2 == chase(repeated, lines, line_weight)


def test_of_a_tile_beyond_the_capacity_only_what_left_is_read(repeated: Repeated) -> None:
    """1,000 B with a knee of 0.2: the 11th tile of 100 B pushes the first a zone down, which leaves 77 B of it. 23 B
    come from HBM: 231 ps, less than the 401 into the SM, and 400 ns."""
    state = machine(repeated, gpu(1000, knee=0.2)).memory
    for key in range(11):
        read(state, 0, 0, key)
    assert LATE + 401 + MISS_PS == read(state, LATE, 0, 0)
    assert (1100 + 23, 0, 77) == moved(state)


def test_a_dirty_tile_goes_to_hbm_when_it_is_pushed_beyond_the_capacity(repeated: Repeated) -> None:
    """The 11th write pushes the first out of the capacity, and waits 1,001 ps for HBM; 77 B stay to be read."""
    state = machine(repeated, gpu(1000, knee=0.2)).memory
    for key in range(10):
        write(state, 0, key)
    assert LATE + 1001 == write(state, LATE, 10)
    read(state, LATE, 0, 0)
    assert ((23, 200, 77), 900) == (moved(state), dirty_bytes(state))


def test_a_read_that_comes_over_may_push_dirty_bytes_out(repeated: Repeated) -> None:
    """200 B a side, full of dirty halves. A read copies 50 B to side 0, which pushes out one dirty half: nothing is
    missing, and 50 B are written to HBM."""
    state = two_sided(repeated, 400)
    for key in range(4):
        write(state, 0, key)
    assert LATE + 401 + FAR_HIT_PS == read(state, LATE, 0, 3)
    assert ((0, 50, 100), 350) == (moved(state), dirty_bytes(state))


def test_the_first_missing_tile_says_which_channels_are_used(repeated: Repeated) -> None:
    """Two channels of 100 B chunks: 20 ps a byte on each. The tile that hits does not count: the miss has the channel
    of its own key, as a read of that tile alone shows."""
    spec = gpu(1000)
    hbm = spec.memory.hbm.model_copy(update={"channels": 2, "channel_bytes": 100})
    spec = spec.model_copy(update={"memory": spec.memory.model_copy(update={"hbm": hbm})})
    for channel in (0, 1):
        key, other = ([key for key in range(50) if scattered(key) * 2 >> 32 == side] for side in (channel, 1 - channel))
        state = machine(repeated, spec).memory
        assert 2001 + MISS_PS == read(state, 0, 0, other[0])
        assert LATE + 2001 + MISS_PS == read(state, LATE, 0, other[0], key[0])
        busy_until_ps = [LATE + 2001 if number == channel else 2001 for number in range(2)]
        assert busy_until_ps == list(state.channel_free_ps)


def walked(repeated: Repeated) -> tuple[list[int], list[list[float]]]:
    """Answers to 200 reads and writes of two tiles each, which evict all the time, and the state after them."""
    state, answers = machine(repeated, gpu(1000, partitions=2, knee=0.2)).memory, []
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
