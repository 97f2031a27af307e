"""How many CTAs an SM holds, what limits it, and whether one fits at all.

Limits are those of the CUDA programming guide (compute-capability tables): shared memory with its reserve and
granularity, registers in units a warp, threads, warps and CTA slots.
"""

from dataclasses import dataclass

from gpusim.errors import DoesNotFitError, UnsupportedError
from gpusim.specs import GpuSpec, SmSpec
from gpusim.specs.sm import WARP_THREADS
from gpusim.taskgraph import Kernel
from gpusim.taskgraph.tensors import ceil_div


@dataclass(frozen=True, slots=True)
class Occupancy:
    """CTAs (or CTA groups) resident on an SM at once, and the resource that limits them."""

    ctas_per_sm: int
    limited_by: str


def registers_per_thread(kernel: Kernel, sm: SmSpec) -> int:
    """Registers a thread is given: accumulator tiles plus the working registers, capped as a compiler caps them.

    What a kernel's table pins wins. 0 on a machine without a register file.
    """
    if sm.register_file is None:
        return 0
    if kernel.registers_per_thread is not None:
        return kernel.registers_per_thread
    needed = kernel.accumulator_registers_per_thread + sm.register_file.working_registers_per_thread
    return min(needed, sm.register_file.max_registers_per_thread)


def check_fits(kernel: Kernel, spec: GpuSpec) -> None:
    """Raises DoesNotFitError when one CTA exceeds the SM's shared memory, registers or threads.

    UnsupportedError where the GPU lacks its matrix instructions, whatever its size.
    """
    sm = spec.sm
    if kernel.tensor_path is not None and kernel.tensor_path not in sm.tensor_paths:
        raise UnsupportedError(
            f"{kernel.name} multiplies with {kernel.tensor_path} but {spec.name} has only {', '.join(sm.tensor_paths)}",
            "use a GPU that has it, or a schedule without",
        )
    if kernel.smem_bytes > sm.smem_per_cta_max_bytes:
        raise DoesNotFitError(_smem_reason(kernel, spec), _smem_knobs(kernel))
    threads = WARP_THREADS * kernel.warps
    if threads > sm.max_threads_per_cta:
        raise DoesNotFitError(
            f"{kernel.name} has {kernel.warps} warps = {threads} threads per CTA but {spec.name} allows "
            f"{sm.max_threads_per_cta}",
            "lower warps",
        )
    _check_registers(kernel, spec)


def check_dtype(kernel: Kernel, spec: GpuSpec) -> None:
    """Raises UnsupportedError where the GPU states no rate for products in the kernel's number format."""
    known = [*spec.sm.tensor_flop_per_clk, "fp32"]
    if kernel.compute_dtype not in known:
        raise UnsupportedError(
            f"{kernel.name} multiplies in {kernel.compute_dtype} but {spec.name} states no matrix rate for it",
            f"use one of {', '.join(known)}",
        )


def _check_registers(kernel: Kernel, spec: GpuSpec) -> None:
    file = spec.sm.register_file
    needed = kernel.accumulator_registers_per_thread
    pinned = kernel.registers_per_thread
    if file is not None and pinned is not None and needed > pinned:
        raise DoesNotFitError(
            f"{kernel.name} has {pinned} registers per thread but its accumulator tiles need {needed}",
            "raise registers, or lower tile_kv",
        )
    if file is None or needed <= file.max_registers_per_thread:
        return
    raise DoesNotFitError(
        f"{kernel.name} needs {needed} registers per thread for its accumulator tiles on {kernel.warps} warps but "
        f"{spec.name} allows {file.max_registers_per_thread}",
        "raise warps, or lower tile_q or tile_kv",
    )


def _smem_reason(kernel: Kernel, spec: GpuSpec) -> str:
    need, limit = kernel.smem_bytes, spec.sm.smem_per_cta_max_bytes
    sizes = {buffer.element_bytes for buffer in kernel.buffers}
    numbers_need = numbers_limit = ""
    if kernel.accumulators == "smem" and len(sizes) == 1:
        (size,) = sizes
        numbers_need, numbers_limit = f" ({need // size} numbers of {size} B)", f" ({limit // size} numbers)"
    return (
        f"{kernel.name} needs {need:,} B of shared memory per CTA{numbers_need} but {spec.name} allows "
        f"{limit:,} B{numbers_limit}"
    )


def _smem_knobs(kernel: Kernel) -> str:
    staged = any(buffer.stages > 1 for buffer in kernel.buffers)
    return f"lower tile_q, tile_kv{' or stages' if staged else ''}"


def occupancy(kernel: Kernel, spec: GpuSpec) -> Occupancy:
    """Resident CTAs per SM; a residency that the kernel's table pins wins. Raises DoesNotFitError if none fits."""
    check_fits(kernel, spec)
    if kernel.ctas_per_sm is not None:
        return Occupancy(kernel.ctas_per_sm, "table")
    limits = _limits(kernel, spec.sm)
    reason = min(limits, key=lambda name: limits[name])
    if limits[reason] < 1:
        raise DoesNotFitError(
            f"{kernel.name}: no CTA fits an SM of {spec.name}, limited by {reason}", "lower the tiles"
        )
    return Occupancy(limits[reason], reason)


def _limits(kernel: Kernel, sm: SmSpec) -> dict[str, int]:
    limits = {
        "CTA slots": sm.max_ctas,
        "warps": sm.max_warps // kernel.warps,
        "threads": sm.max_threads // (WARP_THREADS * kernel.warps),
    }
    charged = ceil_div(kernel.smem_bytes, sm.smem_allocation_unit_bytes) * sm.smem_allocation_unit_bytes
    charged += sm.smem_reserved_per_cta_bytes
    if charged:
        limits["shared memory"] = sm.smem_bytes // charged
    if sm.register_file is not None:
        unit = sm.register_file.allocation_unit_registers
        cta_registers = 0
        for warps, registers in (
            (kernel.warps - kernel.producer_warps, registers_per_thread(kernel, sm)),
            (kernel.producer_warps, kernel.producer_registers_per_thread),
        ):
            cta_registers += warps * ceil_div(registers * WARP_THREADS, unit) * unit
        limits["registers"] = sm.register_file.registers_per_sm // cta_registers
    return limits
