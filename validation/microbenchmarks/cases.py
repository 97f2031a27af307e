"""At which sizes the microbenchmarks are measured, and what row of a measured CSV each becomes.

Streams, chases, reads of a cache and small kernels are workloads of the simulator. Bare rates of a unit, empty kernels
and CTA launches are not: their rows are for people and for `python -m validation calibrate`, and compare skips them.
"""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from gpusim.taskgraph.tensors import ceil_div
from gpusim.units import KIB, MIB
from gpusim.workloads import Cache
from gpusim.workloads.kernels import LINE_BYTES, STREAM_ELEMENT_BYTES
from validation.collect.device import Facts
from validation.collect.work import Argument, Array, Case, Launch, Timer, Work
from validation.microbenchmarks.programs import (
    CHAINS,
    MMA_FLOP,
    PROGRAMS,
    SMEM_READS_PER_ROUND,
    WARP,
    WGMMA_FLOP,
    WGMMA_PER_ROUND,
    WORD_BYTES,
    check_of,
    rate_work,
    ring,
)

STREAMS = {"stream_init": (0, 1), "stream_read": (1, 0), "stream_scale": (1, 1), "stream_triad": (2, 1)}
STREAM_SIZES = tuple(1 << power for power in (16, 18, 20, 21, 22, 23, 24))  # elements: 512 KiB to 128 MiB an array
LONG_READ_ELEMENTS = 1 << 25  # 256 MiB: beyond L2, below where a large footprint slows reads
LARGE_READ_ELEMENTS = (1 << 26, 1 << 27)  # 512 MiB and 1 GiB
OCCUPANCY_ELEMENTS = 1 << 23  # 64 MiB an array
# A triad's 192 MiB leave nothing useful in L2. A read of 64 MiB would: it reads copies in turn.
OCCUPANCY_STREAMS: tuple[tuple[str, Cache], ...] = (("stream_read", "cold"), ("stream_triad", "warm"))
OCCUPANCY_CTAS = (1, 2, 4)  # on each SM
OCCUPANCY_BLOCK = 512
FULL_BLOCK, FULL_CTAS = 1024, 2  # the simulator's default grid of a stream
# Footprints as shares of L2, close together where its capacity ends.
CHASE_SHARES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.05, 1.1, 1.15, 1.2, 1.3, 1.5, 2.0, 4.0)
CHASE_HOPS = 16384
READ_BLOCK, READ_CTAS = 1024, 2
READ_SHARED_MIB = (2, 4, 8, 16, 24, 32, 40, 48, 64, 96)
READ_PART_KIB = 512
READ_DISJOINT_KIB = (64, 128, 192, 256)  # a CTA's own part
READ_ROUNDS = 16
SMALL_ELEMENTS = (1024, 8192, 65536, 262144, 1 << 20, 1 << 21, 1 << 22)
CTA_COUNTS = (1 << 14, 1 << 17, 1 << 20)
RATE_ROUNDS = {"mma_sync_rate": 8192, "wgmma_rate": 2048, "exp_rate": 4096, "fp32_rate": 16384, "smem_read": 4096}
RATE_WARM_CALLS = 200  # some tenths of a second: clocks settle under the load
RATE_CTAS = 4  # of 256 threads on each SM; one of wgmma, whose accumulators fill the registers
RATE_BLOCK = 256

Cells = Mapping[str, object]


def gb_per_s(moved_bytes: int) -> Callable[[float], Cells]:
    """Milliseconds to GB/s of this many bytes."""
    return lambda ms: {"gb_per_s": moved_bytes / ms / 1e6}


def stream_cases(facts: Facts) -> Iterator[Case]:
    """Fill, read, copy and triad: first against the number of threads, then against the size of the arrays."""
    for name, cache in OCCUPANCY_STREAMS:
        for ctas in OCCUPANCY_CTAS:
            yield _stream(facts, name, OCCUPANCY_ELEMENTS, OCCUPANCY_BLOCK, ctas, cache)
    for name in STREAMS:
        for elements in STREAM_SIZES:
            yield _stream(facts, name, elements, FULL_BLOCK, FULL_CTAS)
    yield _stream(facts, "stream_read", LONG_READ_ELEMENTS, FULL_BLOCK, FULL_CTAS)


def large_read_cases(facts: Facts) -> Iterator[Case]:
    """Reads of so much that pages and rows of HBM show, where a GPU has such an effect."""
    for elements in LARGE_READ_ELEMENTS:
        yield _stream(facts, "stream_read", elements, FULL_BLOCK, FULL_CTAS)


def _stream(facts: Facts, name: str, elements: int, block: int, ctas_per_sm: int, cache: Cache = "warm") -> Case:
    loads, stores = STREAMS[name]
    arrays = {array: Array("float64", elements) for array in ("a", "b")[:loads]}
    arrays["out"] = Array("float64", elements if stores else facts.sm_count * ctas_per_sm * block)
    keep: tuple[Argument, ...] = () if stores else (np.int32(0),)
    arguments = (*arrays, np.int64(elements), *keep)
    launch = Launch(
        PROGRAMS[name], (_stream_ctas(facts, elements, block, ctas_per_sm), 1, 1), block, arguments,
        _smem_that_holds(facts, ctas_per_sm),
    )  # fmt: skip
    moved_bytes = (loads + stores) * elements * STREAM_ELEMENT_BYTES
    return Case(
        f"{name} {elements} x{ctas_per_sm}x{block}",
        Work((launch,), arrays),
        {
            "kernel": name,
            "elements": elements,
            "block_size": block,
            "threads_total": facts.sm_count * ctas_per_sm * block,
            "timing": "graph",
        },
        gb_per_s(moved_bytes),
        timer="graph",
        cache=cache,
        checks=(check_of(name),),
    )


def _stream_ctas(facts: Facts, elements: int, block: int, ctas_per_sm: int) -> int:
    """CTAs that share the tiles evenly, no more than fit: as the simulator's stream has them."""
    tiles = ceil_div(elements, block)
    return ceil_div(tiles, ceil_div(tiles, facts.sm_count * ctas_per_sm))


def _smem_that_holds(facts: Facts, ctas_per_sm: int) -> int:
    """Dynamic shared memory of a CTA of which this many, and no more, fit an SM; in whole KiB."""
    share = facts.smem_per_sm_bytes // ctas_per_sm - KIB  # the KiB that the system keeps of each CTA
    return max(0, min(facts.smem_per_cta_max_bytes, share) // KIB * KIB)


def chase_cases(facts: Facts) -> Iterator[Case]:
    """Latency of a dependent load against the size of the set, from well inside L2 to well outside."""
    for size_mib in sorted({max(1, round(share * facts.l2_bytes / MIB)) for share in CHASE_SHARES}):
        lines = size_mib * MIB // LINE_BYTES
        launch = Launch(PROGRAMS["pointer_chase"], (1, 1, 1), 1, ("next", "at", np.int32(CHASE_HOPS)))
        to_fill_l2 = min(lines, 2 * facts.l2_bytes // LINE_BYTES)
        yield Case(
            f"pointer_chase {size_mib} MiB",
            Work((launch,), {"next": _ring(lines), "at": Array("uint32", 1)}),
            {"kernel": "pointer_chase", "data_kb": size_mib * 1024, "timing": "ncu"},
            lambda ms: {"latency_ns": 1e6 * ms / CHASE_HOPS},
            warm_calls=1 + ceil_div(to_fill_l2, CHASE_HOPS),
            checks=(check_of("pointer_chase"),),
        )


def _ring(lines: int) -> Array:
    return Array("uint32", lines * LINE_BYTES // WORD_BYTES, make=lambda: ring(lines))


def cache_cases(facts: Facts) -> Iterator[Case]:
    """Bandwidth of L2: parts of 512 KiB that several CTAs share, then parts that each CTA has for itself."""
    ctas = facts.sm_count * READ_CTAS
    for size_mib in READ_SHARED_MIB:
        parts = size_mib * MIB // (READ_PART_KIB * KIB)
        if parts > ctas:
            break
        yield _cache_read(parts, ctas // parts, READ_PART_KIB)
    for part_kib in READ_DISJOINT_KIB:
        yield _cache_read(ctas, 1, part_kib)


def _cache_read(parts: int, sharers: int, part_kib: int) -> Case:
    part_bytes, ctas = part_kib * KIB, parts * sharers
    vectors = part_bytes // 16
    arguments = ("set", "sums", np.int32(vectors), np.int32(sharers), np.int32(READ_ROUNDS))
    arrays = {"set": Array("float32", parts * part_bytes // 4), "sums": Array("float32", ctas * READ_BLOCK)}
    shared = "disjoint" if sharers == 1 else f"shared by {sharers} CTAs"
    return Case(
        f"cache_read {parts} x {part_kib} KiB, {shared}",
        Work((Launch(PROGRAMS["cache_read"], (ctas, 1, 1), READ_BLOCK, arguments),), arrays),
        {
            "kernel": "cache_read",
            "data_kb": parts * part_kib,
            "per_block_kb": part_kib,
            "timing": "ncu",
            "note": f"parts {shared}",
        },
        gb_per_s(READ_ROUNDS * ctas * part_bytes),
        timer="graph",
        checks=(check_of("cache_read"),),
    )


def launch_cases(facts: Facts) -> Iterator[Case]:
    """What a kernel of few bytes takes behind another, in a stream and in a graph."""
    timers: tuple[tuple[str, Timer], ...] = (("CUDA graph", "graph"), ("stream launches", "event"))
    for mode, timer in timers:
        for elements in SMALL_ELEMENTS:
            arrays = {"a": Array("float64", elements), "out": Array("float64", elements)}
            ctas = _stream_ctas(facts, elements, FULL_BLOCK, FULL_CTAS)
            launch = Launch(PROGRAMS["stream_scale"], (ctas, 1, 1), FULL_BLOCK, ("a", "out", np.int64(elements)))
            yield Case(
                f"small kernel {elements}, {mode}",
                Work((launch,), arrays),
                {"kernel": "small_kernels", "mode": mode, "elements": elements},
                lambda ms: {"us_per_kernel": 1e3 * ms},
                timer=timer,
                checks=(check_of("stream_scale"),),
            )


def empty_cases(facts: Facts) -> Iterator[Case]:
    """Empty kernels: one CTA in a stream and in a graph, then many CTAs."""
    yield _empty("empty_kernel_stream", 1, "event")
    yield _empty("empty_kernel_graph", 1, "graph")
    for ctas in CTA_COUNTS:
        yield _empty("cta_launch", ctas, "graph")


def _empty(kernel: str, ctas: int, timer: Timer) -> Case:
    return Case(
        f"{kernel} {ctas}",
        Work((Launch(PROGRAMS["empty"], (ctas, 1, 1), WARP, (None,)),), {}),
        {"kernel": kernel, "ctas": ctas, "timing": timer},
        lambda ms: {"latency_us": 1e3 * ms},
        timer=timer,
        checks=(check_of("empty"),),
    )


def rate_cases(facts: Facts) -> Iterator[Case]:
    """Rates of the units of an SM, with the clock that each was run at."""
    for name, program in PROGRAMS.items():
        if program.entry in RATE_ROUNDS and program.runs_on(facts.capability):
            yield _rate(facts, name)


def _rate(facts: Facts, name: str) -> Case:
    program = PROGRAMS[name]
    ctas = facts.sm_count * (1 if program.entry == "wgmma_rate" else RATE_CTAS)
    rounds = RATE_ROUNDS[program.entry]
    threads, warps = ctas * RATE_BLOCK, ctas * RATE_BLOCK // WARP
    dtype = "bf16" if "bf16" in name else "fp16"
    match program.entry:
        case "mma_sync_rate":
            cells, work_done, column = {"dtype": dtype}, warps * CHAINS * MMA_FLOP, "tflops"
        case "wgmma_rate":
            cells, work_done, column = {"dtype": dtype}, warps // 4 * WGMMA_PER_ROUND * WGMMA_FLOP, "tflops"
        case "exp_rate":
            cells, work_done, column = {"dtype": "fp32"}, threads * CHAINS, "tera_ops_per_s"
        case "fp32_rate":
            cells, work_done, column = {"dtype": "fp32"}, threads * CHAINS * 2, "tflops"
        case _:
            is_wide = name == "smem_read_wide"
            cells = {"stride_words": "1 of 16 B" if is_wide else name.removeprefix("smem_read_")}
            work_done, column = threads * SMEM_READS_PER_ROUND * (16 if is_wide else 4), "tb_per_s"
    return Case(
        name,
        rate_work(name, ctas=ctas, block=RATE_BLOCK, rounds=rounds, fill="normal"),
        {"kernel": program.entry, "timing": "graph", **cells},
        lambda ms: {column: rounds * work_done / ms / 1e9},
        timer="graph",
        warm_calls=RATE_WARM_CALLS,
        checks=(check_of(name),),
    )
