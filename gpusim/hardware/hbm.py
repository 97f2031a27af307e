"""Device memory: channels side by side, together at the achieved rate, slower when reads and writes mix.

rate = stream rate × kernel efficiency × (1 − mix_loss · f), f = 2·min(r, w)/(r + w) over the kernel's bytes so far
(a fit on copy and triad against one-direction streams); a kernel of a large footprint that mostly reads has a rate of
its own above which it never gets. A transfer is cut into chunks that lie on neighbouring channels, from a hashed one
on; each channel serves its chunks in arrival order at its part of the rate. Banks and refresh are not modelled.

A large transfer occupies every channel for the same time. That is booked in one step for all of them: channel c is
free at max(channel_free_ps[c] + ALL_ADDED_PS, ALL_FREE_PS).
"""

from gpusim.hardware.scatter import scattered
from gpusim.hardware.state import (
    ALL_ADDED_PS,
    ALL_FREE_PS,
    CHANNEL_BYTES,
    CHANNELS,
    HBM_LARGE_READ_PS_PER_BYTE,
    HBM_PS_PER_BYTE,
    HBM_READ_BYTES,
    HBM_UNMIXED_PS_PER_BYTE,
    HBM_WRITE_BYTES,
    KERNEL_READ_BYTES,
    KERNEL_WRITE_BYTES,
    LAST_FREE_PS,
    MIX_LOSS,
    NEXT_MIX_BYTES,
    MemoryState,
)

MIX_UPDATE_BYTES = 1 << 20  # the mix is looked at again after this much traffic


def hbm_read(state: MemoryState, now_ps: int, key: int, size_bytes: int) -> int:
    """When the last byte of a read has left the bus."""
    state.counts[HBM_READ_BYTES] += size_bytes
    state.counts[KERNEL_READ_BYTES] += size_bytes
    return hbm_transfer(state, now_ps, key, size_bytes)


def hbm_write(state: MemoryState, now_ps: int, key: int, size_bytes: int) -> int:
    """When the last byte of a write is in memory."""
    state.counts[HBM_WRITE_BYTES] += size_bytes
    state.counts[KERNEL_WRITE_BYTES] += size_bytes
    return hbm_transfer(state, now_ps, key, size_bytes)


def hbm_transfer(state: MemoryState, now_ps: int, key: int, size_bytes: int) -> int:
    """When the channels have moved the bytes, at the rate of the kernel's present mix; `key` says on which."""
    counts = state.counts
    if counts[KERNEL_READ_BYTES] + counts[KERNEL_WRITE_BYTES] >= counts[NEXT_MIX_BYTES]:
        update_rate(state)
    channels = counts[CHANNELS]
    chunks = (size_bytes + counts[CHANNEL_BYTES] - 1) // counts[CHANNEL_BYTES]
    if chunks < channels:
        return book_some_channels(state, now_ps, key, size_bytes, chunks)
    duration_ps = int(size_bytes * state.rates[HBM_PS_PER_BYTE]) + 1
    counts[ALL_ADDED_PS] += duration_ps
    counts[ALL_FREE_PS] = max(counts[ALL_FREE_PS], now_ps) + duration_ps
    end_ps: int = max(counts[LAST_FREE_PS], now_ps) + duration_ps
    counts[LAST_FREE_PS] = end_ps
    return end_ps


def book_some_channels(state: MemoryState, now_ps: int, key: int, size_bytes: int, chunks: int) -> int:
    """When the last of `chunks` channels has moved its part of the bytes."""
    counts, free_ps = state.counts, state.channel_free_ps
    channels, added_ps = counts[CHANNELS], counts[ALL_ADDED_PS]
    idle_ps = max(counts[ALL_FREE_PS], now_ps)
    duration_ps = int(size_bytes * state.rates[HBM_PS_PER_BYTE] * channels / chunks) + 1
    channel, last_ps = scattered(key) * channels >> 32, 0
    for _ in range(chunks):
        end_ps = max(free_ps[channel] + added_ps, idle_ps) + duration_ps
        free_ps[channel] = end_ps - added_ps
        last_ps = max(last_ps, end_ps)
        channel = channel + 1 if channel + 1 < channels else 0
    counts[LAST_FREE_PS] = max(counts[LAST_FREE_PS], last_ps)
    return last_ps


def update_rate(state: MemoryState) -> None:
    """The rate of the running kernel, by what it has read and written so far."""
    counts, rates = state.counts, state.rates
    read, written = counts[KERNEL_READ_BYTES], counts[KERNEL_WRITE_BYTES]
    counts[NEXT_MIX_BYTES] = read + written + MIX_UPDATE_BYTES
    mix = 2 * min(read, written) / max(read + written, 1)
    rates[HBM_PS_PER_BYTE] = rates[HBM_UNMIXED_PS_PER_BYTE] / (1.0 - rates[MIX_LOSS] * mix)
    if read >= written:
        rates[HBM_PS_PER_BYTE] = max(rates[HBM_PS_PER_BYTE], rates[HBM_LARGE_READ_PS_PER_BYTE])
