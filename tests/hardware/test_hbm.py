"""Device memory: the time of a transfer, by hand. A transfer ends on the whole picosecond after its last byte."""

import pytest

from gpusim.hardware import HBM_READ_BYTES, HBM_WRITE_BYTES, MemoryState, start_kernel
from gpusim.hardware.hbm import hbm_read, hbm_write
from gpusim.hardware.state import HBM_FREE_PS, Repeated, build_memory
from gpusim.specs import HbmSpec, load_gpu
from gpusim.units import MIB

CANVAS = load_gpu("canvas")
FILL_BYTES_PER_S = 1e12  # not asked for here


def spec(mix_loss: float = 0.0) -> HbmSpec:
    """Toy memory: 1e11 B/s is 10 ps a byte."""
    rates = {"peak_bandwidth_bytes_per_s": 1e12, "stream_bandwidth_bytes_per_s": 1e11, "mix_loss": mix_loss}
    return CANVAS.memory.hbm.model_copy(update=rates)


def memory(repeated: Repeated, mix_loss: float = 0.0, efficiency: float = 1.0) -> MemoryState:
    """The toy's memory, idle, at the start of a kernel."""
    hbm = spec(mix_loss)
    gpu = CANVAS.model_copy(update={"memory": CANVAS.memory.model_copy(update={"hbm": hbm})})
    state = build_memory(gpu, 0, 0, repeated)
    start_kernel(state, hbm, efficiency, FILL_BYTES_PER_S)
    return state


def test_a_transfer_takes_its_bytes_at_the_stream_rate(repeated: Repeated) -> None:
    """128 B at 10 ps a byte, and the next whole picosecond."""
    assert 50 + 1280 + 1 == hbm_read(memory(repeated), 50, 128)


def test_reads_and_writes_share_one_bus(repeated: Repeated) -> None:
    """A write that arrives one tick before the read leaves waits for it; one that arrives then does not."""
    early, late = memory(repeated), memory(repeated)
    assert 1281 == hbm_read(early, 0, 128) == hbm_read(late, 0, 128)
    assert 1281 + 641 == hbm_write(early, 1280, 64)
    assert 1281 + 641 == hbm_write(late, 1281, 64)


def test_bytes_are_counted_by_direction(repeated: Repeated) -> None:
    """Two reads and a write; the next kernel counts on."""
    state = memory(repeated)
    hbm_read(state, 0, 100)
    start_kernel(state, spec(), 1.0, FILL_BYTES_PER_S)
    hbm_read(state, 0, 20)
    hbm_write(state, 0, 3)
    assert (120, 3) == (state.counts[HBM_READ_BYTES], state.counts[HBM_WRITE_BYTES])


def test_a_kernel_may_reach_only_a_share_of_the_rate(repeated: Repeated) -> None:
    """Half the efficiency is twice the time; the next kernel starts afresh."""
    state = memory(repeated, efficiency=0.5)
    assert 2561 == hbm_read(state, 0, 128)
    start_kernel(state, spec(), 1.0, FILL_BYTES_PER_S)
    assert 2561 + 1281 == hbm_read(state, 0, 128)


def test_a_balanced_mix_loses_mix_loss(repeated: Repeated) -> None:
    """Half a MiB read, half written: f = 1, so from the first MiB on a byte takes 10 / (1 − 0.2) = 12.5 ps."""
    state, half = memory(repeated, mix_loss=0.2), MIB // 2
    assert 10 * half + 1 == hbm_read(state, 0, half)
    assert 10 * half + 1 + 12.5 * half + 1 == hbm_write(state, 0, half)


def test_the_mix_is_looked_at_once_a_mib(repeated: Repeated) -> None:
    """One byte less than a MiB, half of it written, still takes 10 ps a byte; the byte that completes it 12.5."""
    state, half = memory(repeated, mix_loss=0.2), MIB // 2
    hbm_read(state, 0, half)
    assert 10 * half + 1 + 10 * (half - 1) + 1 == hbm_write(state, 0, half - 1)
    start = state.counts[HBM_FREE_PS]
    assert start + 12 + 1 == hbm_write(state, 0, 1)


def test_a_kernel_starts_with_an_unmixed_bus(repeated: Repeated) -> None:
    """What the kernel before mixed does not slow the next one down."""
    state = memory(repeated, mix_loss=0.2)
    hbm_read(state, 0, MIB)
    hbm_write(state, 0, MIB)
    start_kernel(state, spec(mix_loss=0.2), 1.0, FILL_BYTES_PER_S)
    start = state.counts[HBM_FREE_PS]
    assert start + 1281 == hbm_read(state, 0, 128)


def test_a_lopsided_mix_loses_in_proportion(repeated: Repeated) -> None:
    """Three quarters read, one quarter written: f = 2·¼ = ½, a byte takes 10 / (1 − 0.1) ps."""
    state = memory(repeated, mix_loss=0.2)
    hbm_read(state, 0, 3 * MIB // 4)
    start = state.counts[HBM_FREE_PS]
    written = hbm_write(state, 0, MIB // 4)
    assert 10 / 0.9 * (MIB // 4) == pytest.approx(written - start, abs=1)


@pytest.mark.parametrize("move", [hbm_read, hbm_write])
def test_one_direction_loses_nothing(move: object, repeated: Repeated) -> None:
    """A stream of 4 MiB in one direction keeps 10 ps a byte, however large mix_loss is."""
    state = memory(repeated, mix_loss=0.5)
    assert [n * (10 * MIB + 1) for n in (1, 2, 3, 4)] == [move(state, 0, MIB) for _ in range(4)]
