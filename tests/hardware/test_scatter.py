"""The hash that stands for address bits: fixed, even, and blind to regular steps."""

import math

import pytest

from gpusim.hardware.scatter import scattered

WHOLE = 2**32


def test_it_is_worked_out_by_hand_for_small_keys() -> None:
    """Key 0 stays 0. Key 1: 1·f = 0x045D9F3B; xor its upper half 0x045D, ·f, modulo 2³², xor the upper half again."""
    f = 0x045D9F3B
    first = f ^ 0x045D
    assert 0x045D9B66 == first
    second = first * f % WHOLE
    assert [0, second ^ second // 2**16] == [scattered(0), scattered(1)]


@pytest.mark.parametrize("step", [1, 2, 4, 32, 1000])
def test_keys_in_regular_steps_fall_evenly_on_32_channels(step: int) -> None:
    """8,192 keys: 256 a channel, within four standard deviations of a fair draw."""
    counts = [0] * 32
    for key in range(0, 8192 * step, step):
        counts[scattered(key) * 32 >> 32] += 1
    assert max(abs(count - 256) for count in counts) < 4 * math.sqrt(256)


def test_even_and_odd_keys_are_alike() -> None:
    """What decides the home of a line says nothing about which lines survive: half of either lie below the middle."""
    for parity in (0, 1):
        below = sum(scattered(key) < WHOLE // 2 for key in range(parity, 4000, 2))
        assert abs(below - 1000) < 4 * math.sqrt(500)
