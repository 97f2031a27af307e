"""Device memory: one pipe at the achieved rate, slower when reads and writes mix.

rate = stream rate × kernel efficiency × (1 − mix_loss · f), f = 2·min(r, w)/(r + w) over the kernel's bytes so far
(a fit on copy and triad against one-direction streams). Channels, banks and refresh are not modelled.
"""

from gpusim.hardware.pipe import book
from gpusim.hardware.state import (
    FILL_PS_PER_BYTE,
    HBM_FREE_PS,
    HBM_PS_PER_BYTE,
    HBM_READ_BYTES,
    HBM_UNMIXED_PS_PER_BYTE,
    HBM_WRITE_BYTES,
    KERNEL_READ_BYTES,
    KERNEL_WRITE_BYTES,
    MIX_LOSS,
    NEXT_MIX_BYTES,
    MemoryState,
)
from gpusim.specs import HbmTimings
from gpusim.units import ps_per_byte

MIX_UPDATE_BYTES = 1 << 20  # the mix is looked at again after this much traffic


def start_kernel(state: MemoryState, timings: HbmTimings, efficiency: float, fill_bytes_per_s: float) -> None:
    """Starts counting the read/write mix afresh.

    `efficiency` is the kernel's share of the stream rate, `fill_bytes_per_s` what an SM takes from L2 at its clock.
    """
    state.rates[FILL_PS_PER_BYTE] = ps_per_byte(fill_bytes_per_s)
    unmixed = ps_per_byte(timings.stream_bandwidth_bytes_per_s * efficiency)
    state.rates[HBM_UNMIXED_PS_PER_BYTE] = state.rates[HBM_PS_PER_BYTE] = unmixed
    state.counts[KERNEL_READ_BYTES] = state.counts[KERNEL_WRITE_BYTES] = 0
    state.counts[NEXT_MIX_BYTES] = MIX_UPDATE_BYTES


def hbm_read(state: MemoryState, now_ps: int, size_bytes: int) -> int:
    """When the last byte of a read has left the bus."""
    state.counts[HBM_READ_BYTES] += size_bytes
    state.counts[KERNEL_READ_BYTES] += size_bytes
    return hbm_transfer(state, now_ps, size_bytes)


def hbm_write(state: MemoryState, now_ps: int, size_bytes: int) -> int:
    """When the last byte of a write is in memory."""
    state.counts[HBM_WRITE_BYTES] += size_bytes
    state.counts[KERNEL_WRITE_BYTES] += size_bytes
    return hbm_transfer(state, now_ps, size_bytes)


def hbm_transfer(state: MemoryState, now_ps: int, size_bytes: int) -> int:
    """When the bus has moved the bytes, at the rate of the kernel's present mix."""
    counts, rates = state.counts, state.rates
    total = counts[KERNEL_READ_BYTES] + counts[KERNEL_WRITE_BYTES]
    if total >= counts[NEXT_MIX_BYTES]:
        mix = 2 * min(counts[KERNEL_READ_BYTES], counts[KERNEL_WRITE_BYTES]) / total
        rates[HBM_PS_PER_BYTE] = rates[HBM_UNMIXED_PS_PER_BYTE] / (1.0 - rates[MIX_LOSS] * mix)
        counts[NEXT_MIX_BYTES] = total + MIX_UPDATE_BYTES
    return book(counts, HBM_FREE_PS, now_ps, int(size_bytes * rates[HBM_PS_PER_BYTE]) + 1)
