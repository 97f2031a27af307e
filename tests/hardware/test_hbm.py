"""Device memory: the time of a transfer, by hand. A transfer ends on the whole picosecond after its last byte."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusim.hardware import HBM_READ_BYTES, HBM_WRITE_BYTES, MemoryState, repeated_in_list, start_kernel
from gpusim.hardware.hbm import hbm_read, hbm_write
from gpusim.hardware.scatter import scattered
from gpusim.hardware.state import LAST_FREE_PS, Repeated, build_memory
from gpusim.specs import GpuSpec, load_gpu
from gpusim.units import MIB

CANVAS = load_gpu("canvas")
KEY = 7  # of any tile: one channel takes them all


def gpu(**hbm: float) -> GpuSpec:
    """Toy memory: one channel at 1e11 B/s, 10 ps a byte, unless stated otherwise."""
    rates = {"peak_bandwidth_bytes_per_s": 1e12, "stream_bandwidth_bytes_per_s": 1e11}
    changed = CANVAS.memory.hbm.model_copy(update=rates | hbm)
    return CANVAS.model_copy(update={"memory": CANVAS.memory.model_copy(update={"hbm": changed})})


def start(state: MemoryState, spec: GpuSpec, efficiency: float = 1.0, footprint_bytes: int = 0) -> None:
    """The next kernel; what an SM takes from L2 is not asked for here."""
    hbm = spec.timings().hbm
    start_kernel(state, hbm, efficiency=efficiency, fill_bytes_per_s=1e12, footprint_bytes=footprint_bytes)


def memory(repeated: Repeated, efficiency: float = 1.0, footprint_bytes: int = 0, **hbm: float) -> MemoryState:
    """The toy's memory, idle, at the start of a kernel."""
    state = build_memory(gpu(**hbm), 0, 0, repeated)
    start(state, gpu(**hbm), efficiency, footprint_bytes)
    return state


def test_a_transfer_takes_its_bytes_at_the_stream_rate(repeated: Repeated) -> None:
    """128 B at 10 ps a byte, and the next whole picosecond."""
    assert 50 + 1280 + 1 == hbm_read(memory(repeated), 50, KEY, 128)


def test_reads_and_writes_share_one_bus(repeated: Repeated) -> None:
    """A write that arrives one tick before the read leaves waits for it; one that arrives then does not."""
    early, late = memory(repeated), memory(repeated)
    assert 1281 == hbm_read(early, 0, KEY, 128) == hbm_read(late, 0, KEY, 128)
    assert 1281 + 641 == hbm_write(early, 1280, KEY, 64)
    assert 1281 + 641 == hbm_write(late, 1281, KEY, 64)


def test_bytes_are_counted_by_direction(repeated: Repeated) -> None:
    """Two reads and a write; the next kernel counts on."""
    state = memory(repeated)
    hbm_read(state, 0, KEY, 100)
    start(state, gpu())
    hbm_read(state, 0, KEY, 20)
    hbm_write(state, 0, KEY, 3)
    assert (120, 3) == (state.counts[HBM_READ_BYTES], state.counts[HBM_WRITE_BYTES])


def test_a_kernel_may_reach_only_a_share_of_the_rate(repeated: Repeated) -> None:
    """Half the efficiency is twice the time; the next kernel starts afresh."""
    state = memory(repeated, efficiency=0.5)
    assert 2561 == hbm_read(state, 0, KEY, 128)
    start(state, gpu())
    assert 2561 + 1281 == hbm_read(state, 0, KEY, 128)


def test_a_balanced_mix_loses_mix_loss(repeated: Repeated) -> None:
    """Half a MiB read, half written: f = 1, so from the first MiB on a byte takes 10 / (1 − 0.2) = 12.5 ps."""
    state, half = memory(repeated, mix_loss=0.2), MIB // 2
    assert 10 * half + 1 == hbm_read(state, 0, KEY, half)
    assert 10 * half + 1 + 12.5 * half + 1 == hbm_write(state, 0, KEY, half)


def test_the_mix_is_looked_at_once_a_mib(repeated: Repeated) -> None:
    """One byte less than a MiB, half of it written, still takes 10 ps a byte; the byte that completes it 12.5."""
    state, half = memory(repeated, mix_loss=0.2), MIB // 2
    hbm_read(state, 0, KEY, half)
    assert 10 * half + 1 + 10 * (half - 1) + 1 == hbm_write(state, 0, KEY, half - 1)
    start_ps = state.counts[LAST_FREE_PS]
    assert start_ps + 12 + 1 == hbm_write(state, 0, KEY, 1)


def test_a_kernel_starts_with_an_unmixed_bus(repeated: Repeated) -> None:
    """What the kernel before mixed does not slow the next one down."""
    state = memory(repeated, mix_loss=0.2)
    hbm_read(state, 0, KEY, MIB)
    hbm_write(state, 0, KEY, MIB)
    start(state, gpu(mix_loss=0.2))
    start_ps = state.counts[LAST_FREE_PS]
    assert start_ps + 1281 == hbm_read(state, 0, KEY, 128)


def test_a_lopsided_mix_loses_in_proportion(repeated: Repeated) -> None:
    """Three quarters read, one quarter written: f = 2·¼ = ½, a byte takes 10 / (1 − 0.1) ps."""
    state = memory(repeated, mix_loss=0.2)
    hbm_read(state, 0, KEY, 3 * MIB // 4)
    start_ps = state.counts[LAST_FREE_PS]
    written = hbm_write(state, 0, KEY, MIB // 4)
    assert 10 / 0.9 * (MIB // 4) == pytest.approx(written - start_ps, abs=1)


@pytest.mark.parametrize("move", [hbm_read, hbm_write])
def test_one_direction_loses_nothing(move: object, repeated: Repeated) -> None:
    """A stream of 4 MiB in one direction keeps 10 ps a byte, however large mix_loss is."""
    state = memory(repeated, mix_loss=0.5)
    assert [n * (10 * MIB + 1) for n in (1, 2, 3, 4)] == [move(state, 0, KEY, MIB) for _ in range(4)]


LARGE = {"large_footprint_bytes": 1000, "large_read_bandwidth_bytes_per_s": 8e10}  # 12.5 ps a byte over 1,000 B


@pytest.mark.parametrize(("footprint_bytes", "ps_per_byte"), [(1000, 10), (1001, 12.5)])
def test_a_kernel_of_a_large_footprint_reads_at_a_rate_of_its_own(
    footprint_bytes: int, ps_per_byte: float, repeated: Repeated
) -> None:
    """One byte more than the limit, and reads are slower from the first byte on."""
    state = memory(repeated, footprint_bytes=footprint_bytes, **LARGE)
    assert 128 * ps_per_byte + 1 == hbm_read(state, 0, KEY, 128)


def test_a_kernel_that_mostly_writes_is_not_slowed_by_its_footprint(repeated: Repeated) -> None:
    """The mix is looked at after 1 MiB: read as much as written is slow, one byte more written is not."""
    for more, ps_per_byte in ((0, 12.5), (1, 10)):
        state, half = memory(repeated, footprint_bytes=1001, **LARGE), MIB // 2
        hbm_read(state, 0, KEY, half)
        start_ps = hbm_write(state, 0, KEY, half + more)
        assert start_ps + 128 * ps_per_byte + 1 == hbm_write(state, 0, KEY, 128)


def test_a_slower_mix_of_a_large_footprint_stays_slower(repeated: Repeated) -> None:
    """The rate of its own is a ceiling, not a loss on top: half the efficiency is 20 ps a byte with it and without."""
    state = memory(repeated, efficiency=0.5, footprint_bytes=1001, **LARGE)
    assert 128 * 20 + 1 == hbm_read(state, 0, KEY, 128)


# Four channels of chunks of 100 B: each moves a byte in 40 ps.
FOUR = {"channels": 4, "channel_bytes": 100}
CHUNK_PS = 100 * 40 + 1


def key_on(channel: int, number: int = 0, channels: int = 4) -> int:
    """A key whose first chunk lies on this channel."""
    return [key for key in range(1000) if scattered(key) * channels >> 32 == channel][number]


def test_a_chunk_moves_at_the_rate_of_one_channel(repeated: Repeated) -> None:
    """100 B at 40 ps a byte; two tiles on one channel wait for each other, on two they do not."""
    state = memory(repeated, **FOUR)
    assert CHUNK_PS == hbm_read(state, 0, key_on(2), 100)
    assert 2 * CHUNK_PS == hbm_read(state, 0, key_on(2, 1), 100)
    assert CHUNK_PS == hbm_read(state, 0, key_on(1), 100)


@pytest.mark.parametrize(("arrives_ps", "ends_ps"), [(CHUNK_PS - 1, 2 * CHUNK_PS), (CHUNK_PS, 2 * CHUNK_PS)])
def test_a_channel_is_a_pipe(arrives_ps: int, ends_ps: int, repeated: Repeated) -> None:
    """Arriving one tick before the channel is free waits one tick; arriving when it is free does not wait."""
    state = memory(repeated, **FOUR)
    hbm_read(state, 0, key_on(3), 100)
    assert ends_ps == hbm_write(state, arrives_ps, key_on(3), 100)


@pytest.mark.parametrize(
    ("size_bytes", "duration_ps"),
    [
        (1, 41),  # one channel
        (101, 101 * 20 + 1),  # two, half of the bytes each
        (250, 3_333 + 1),  # three: 250 · 10 ps · 4 / 3
        (300, CHUNK_PS),
        (301, 3_010 + 1),  # all four: 10 ps a byte
        (400, 4_000 + 1),
        (4_000, 40_000 + 1),
    ],
)
def test_a_transfer_is_spread_over_as_many_channels_as_it_has_chunks(
    size_bytes: int, duration_ps: int, repeated: Repeated
) -> None:
    """Each takes an equal part; from a chunk for every channel on, it is one pipe at the whole rate."""
    assert duration_ps == hbm_read(memory(repeated, **FOUR), 0, KEY, size_bytes)


def test_the_chunks_lie_side_by_side_and_wrap_around(repeated: Repeated) -> None:
    """Two chunks from channel 3 on are on 3 and 0: whatever starts there waits, 1 and 2 are free."""
    ends = []
    for channel in range(4):
        state = memory(repeated, **FOUR)
        assert CHUNK_PS == hbm_read(state, 0, key_on(3), 200)
        ends.append(hbm_read(state, 0, key_on(channel), 100))
    assert [2 * CHUNK_PS, CHUNK_PS, CHUNK_PS, 2 * CHUNK_PS] == ends


def test_a_transfer_is_done_when_its_last_channel_is(repeated: Repeated) -> None:
    """Channel 1 is busy until 4,001: two chunks on 0 and 1 end at 8,002, and 0 is free again at 4,001."""
    state = memory(repeated, **FOUR)
    hbm_read(state, 0, key_on(1), 100)
    assert 2 * CHUNK_PS == hbm_read(state, 0, key_on(0), 200)
    assert 2 * CHUNK_PS == hbm_read(state, 0, key_on(0, 1), 100)


def test_a_transfer_over_all_channels_starts_on_each_when_it_is_free(repeated: Repeated) -> None:
    """Channel 2 is busy until 4,001, so the transfer ends there at 8,002 and elsewhere at 4,001."""
    state = memory(repeated, **FOUR)
    hbm_read(state, 0, key_on(2), 100)
    assert 2 * CHUNK_PS == hbm_read(state, 0, KEY, 400)
    assert 2 * CHUNK_PS == hbm_read(state, 0, key_on(0), 100)
    assert 3 * CHUNK_PS == hbm_read(state, 0, key_on(2), 100)


def test_a_pause_is_not_made_up_for(repeated: Repeated) -> None:
    """All channels idle from 4,001 on; what comes at 10,000 starts then, on one channel and on all."""
    state = memory(repeated, **FOUR)
    hbm_read(state, 0, KEY, 400)
    assert 10_000 + CHUNK_PS == hbm_read(state, 10_000, key_on(1), 100)
    assert 30_000 + CHUNK_PS == hbm_read(state, 30_000, KEY, 400)


transfers = st.lists(st.tuples(st.integers(0, 3_000), st.integers(0, 50), st.integers(1, 900)), max_size=40)


@settings(max_examples=100, derandomize=True, deadline=None, database=None)
@given(transfers, st.integers(1, 9))
def test_channels_are_pipes_side_by_side(walk: list[tuple[int, int, int]], channels: int) -> None:
    """Whatever comes when: every transfer ends as on separate first-come pipes that are booked one by one."""
    state = memory(repeated_in_list, channels=channels, channel_bytes=100)
    free_ps, now_ps = [0] * channels, 0
    for pause_ps, key, size_bytes in walk:
        now_ps += pause_ps
        chunks = min(channels, -(-size_bytes // 100))
        duration_ps = int(size_bytes * 10.0 * channels / chunks) + 1
        first = scattered(key) * channels >> 32
        used = [(first + chunk) % channels for chunk in range(chunks)]
        for channel in used:
            free_ps[channel] = max(free_ps[channel], now_ps) + duration_ps
        assert max(free_ps[channel] for channel in used) == hbm_read(state, now_ps, key, size_bytes)
