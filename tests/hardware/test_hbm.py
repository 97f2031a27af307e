"""Device memory: the time of a transfer, by hand. A transfer ends on the whole picosecond after its last byte."""

import pytest

from gpusim.hardware import Hbm
from gpusim.specs import HbmSpec, load_gpu
from gpusim.units import MIB


def spec(bandwidth: float = 1e11, mix_loss: float = 0.0) -> HbmSpec:
    """Toy memory: 1e11 B/s is 10 ps a byte."""
    rates = {"peak_bandwidth_bytes_per_s": 1e12, "stream_bandwidth_bytes_per_s": bandwidth, "mix_loss": mix_loss}
    return load_gpu("canvas").memory.hbm.model_copy(update=rates)


def test_a_transfer_takes_its_bytes_at_the_stream_rate() -> None:
    """128 B at 10 ps a byte, and the next whole picosecond."""
    assert 50 + 1280 + 1 == Hbm(spec()).read(50, 128)


def test_reads_and_writes_share_one_bus() -> None:
    """A write that arrives one tick before the read leaves waits for it; one that arrives then does not."""
    early, late = Hbm(spec()), Hbm(spec())
    assert 1281 == early.read(0, 128) == late.read(0, 128)
    assert 1281 + 641 == early.write(1280, 64)
    assert 1281 + 641 == late.write(1281, 64)


def test_bytes_are_counted_by_direction() -> None:
    """Two reads and a write."""
    hbm = Hbm(spec())
    hbm.read(0, 100)
    hbm.read(0, 20)
    hbm.write(0, 3)
    assert (120, 3) == (hbm.read_bytes, hbm.write_bytes)


def test_a_kernel_may_reach_only_a_share_of_the_rate() -> None:
    """Half the efficiency is twice the time; the next kernel starts afresh."""
    hbm = Hbm(spec())
    hbm.start_kernel(spec(), 0.5)
    assert 2561 == hbm.read(0, 128)
    hbm.start_kernel(spec(), 1.0)
    assert 2561 + 1281 == hbm.read(0, 128)


def test_a_balanced_mix_loses_mix_loss() -> None:
    """Half a MiB read, half written: f = 1, so from the first MiB on a byte takes 10 / (1 − 0.2) = 12.5 ps."""
    hbm = Hbm(spec(mix_loss=0.2))
    half = MIB // 2
    assert 10 * half + 1 == hbm.read(0, half)
    assert 10 * half + 1 + 12.5 * half + 1 == hbm.write(0, half)


def test_a_lopsided_mix_loses_in_proportion() -> None:
    """Three quarters read, one quarter written: f = 2·¼ = ½, a byte takes 10 / (1 − 0.1) ps."""
    hbm = Hbm(spec(mix_loss=0.2))
    hbm.read(0, 3 * MIB // 4)
    start = hbm.pipe.free_ps
    written = hbm.write(0, MIB // 4)
    assert 10 / 0.9 * (MIB // 4) == pytest.approx(written - start, abs=1)


@pytest.mark.parametrize("direction", ["read", "write"])
def test_one_direction_loses_nothing(direction: str) -> None:
    """A stream of 4 MiB in one direction keeps 10 ps a byte, however large mix_loss is."""
    hbm = Hbm(spec(mix_loss=0.5))
    move = getattr(hbm, direction)
    assert [n * (10 * MIB + 1) for n in (1, 2, 3, 4)] == [move(0, MIB) for _ in range(4)]
