"""The table of microbenchmarks: source, entry point, -D names, and a small run of each whose result is known."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gpusim.workloads.kernels import LINE_BYTES
from validation.collect.work import Array, Check, Fill, Launch, Program, Work

FOLDER = Path(__file__).parent
WORD_BYTES = 4
WARP = 32
MMA_FLOP = 2 * 16 * 8 * 16  # of one mma.sync m16n8k16
WGMMA_FLOP = 2 * 64 * 256 * 16  # of one wgmma m64n256k16
CHAINS = 8  # independent accumulators of a thread or warp in the rate kernels
WGMMA_PER_ROUND = 8
SMEM_READS_PER_ROUND = 8
SMEM_WORDS = 8192
EXP_FIXED_POINT = 0.6411857445049860  # x = 2^-x
OPERAND_WORDS = {"mma_sync_rate": WARP * 6, "wgmma_rate": (64 * 16 + 256 * 16) // 2}


def _program(name: str, entry: str = "", defines: tuple[tuple[str, str], ...] = ()) -> Program:
    return Program(FOLDER / f"{name}.cu", entry or name, defines)


def _hopper_program(name: str, defines: tuple[tuple[str, str], ...] = ()) -> Program:
    return Program(FOLDER / f"{name}.cu", name, defines, least=(9, 0), suffix="a")


def _define(name: str, value: int) -> tuple[tuple[str, str], ...]:
    return ((name, str(value)),)


_BF16 = _define("BF16", 1)
_CHAINS = _define("CHAINS", CHAINS)
_PER_ROUND = _define("PER_ROUND", WGMMA_PER_ROUND)
_SMEM = _define("READS_PER_ROUND", SMEM_READS_PER_ROUND) + _define("WORDS", SMEM_WORDS)

PROGRAMS: Mapping[str, Program] = {
    "stream_init": _program("stream", "stream_init"),
    "stream_read": _program("stream", "stream_read"),
    "stream_scale": _program("stream", "stream_scale"),
    "stream_triad": _program("stream", "stream_triad"),
    "pointer_chase": _program("pointer_chase", defines=_define("LINE_WORDS", LINE_BYTES // WORD_BYTES)),
    "cache_read": _program("cache_read"),
    "mma_sync_rate_fp16": _program("mma_sync_rate", defines=_CHAINS),
    "mma_sync_rate_bf16": _program("mma_sync_rate", defines=_CHAINS + _BF16),
    "wgmma_rate_fp16": _hopper_program("wgmma_rate", _PER_ROUND),
    "wgmma_rate_bf16": _hopper_program("wgmma_rate", _PER_ROUND + _BF16),
    "exp_rate": _program("exp_rate", defines=_CHAINS),
    "fp32_rate": _program("fp32_rate", defines=_CHAINS),
    **{
        f"smem_read_{stride}": _program("smem_read", defines=_SMEM + _define("STRIDE", stride))
        for stride in (1, 2, 4, 8, 16, 32)
    },
    "smem_read_wide": _program("smem_read", defines=_SMEM + _define("STRIDE", 1) + _define("WIDE", 1)),
    "empty": _program("empty"),
}

SPIN = _program("empty", "spin")


def ring(lines: int) -> npt.NDArray[np.uint32]:
    """A set of lines whose heads name the next one, in one random cycle through all; the same every time."""
    order = np.random.default_rng(lines).permutation(lines).astype(np.uint32)
    words = np.zeros((lines, LINE_BYTES // WORD_BYTES), np.uint32)
    words[order, 0] = np.roll(order, -1)
    return words


def _grid(ctas: int) -> tuple[int, int, int]:
    return (ctas, 1, 1)


def _stream_check(name: str) -> Check:
    """1,000 numbers by 4 CTAs of 64 threads, so that the last trip is ragged."""
    elements, threads = 1000, 256
    a, b = np.arange(elements, dtype=np.float64), np.arange(elements, dtype=np.float64)[::-1].copy()
    arrays = {"a": Array.of(a), "b": Array.of(b), "out": Array("float64", elements)}
    arguments: dict[str, tuple[str | np.generic, ...]] = {
        "stream_init": ("out", np.int64(elements)),
        "stream_read": ("a", "out", np.int64(elements), np.int32(1)),
        "stream_scale": ("a", "out", np.int64(elements)),
        "stream_triad": ("a", "b", "out", np.int64(elements)),
    }
    sums = np.array([a[first::threads].sum() for first in range(threads)])
    expected = {
        "stream_init": np.full(elements, 3.0),
        "stream_read": sums,
        "stream_scale": 2 * a,
        "stream_triad": a + 2 * b,
    }[name]
    launch = Launch(PROGRAMS[name], _grid(4), 64, arguments[name])
    return Check(name, Work((launch,), arrays, ("out",)), lambda: {"out": expected}, 0.0)


def _chase_check() -> Check:
    """Ten hops through 64 lines."""
    words, line = ring(64), 0
    for _ in range(10):
        line = int(words[line, 0])
    launch = Launch(PROGRAMS["pointer_chase"], _grid(1), 1, ("next", "at", np.int32(10)))
    arrays = {"next": Array.of(words), "at": Array("uint32", 1)}
    return Check("pointer_chase", Work((launch,), arrays, ("at",)), lambda: {"at": np.array([float(line)])}, 0.0)


def _cache_check() -> Check:
    """Two parts of 4,096 numbers, read thrice by two CTAs each: thread t of a CTA sums its 16 numbers three times."""
    threads, sharers, rounds = 256, 2, 3
    values = (np.arange(2 * 4096) % 7).astype(np.float32)
    by_thread = values.reshape(2, 4, threads, 4).sum(axis=(1, 3)).astype(np.float64) * rounds
    arguments = ("set", "sums", np.int32(4096 // 4), np.int32(sharers), np.int32(rounds))
    arrays = {"set": Array.of(values), "sums": Array("float32", 4 * threads)}
    expected = np.repeat(by_thread, sharers, axis=0)
    launch = Launch(PROGRAMS["cache_read"], _grid(4), threads, arguments)
    return Check("cache_read", Work((launch,), arrays, ("sums",)), lambda: {"sums": expected}, 0.0)


def rate_work(name: str, *, ctas: int, block: int, rounds: int, fill: Fill = "ones") -> Work:
    """A run of one of the kernels that load a unit of the SM. `fill` is what operands hold, ones for a check."""
    program = PROGRAMS[name]
    arrays = {"out": Array("float32", ctas * block), "clocks": Array("uint64", 2)}
    match program.entry:
        case "mma_sync_rate" | "wgmma_rate" as entry:
            halves = 2 * OPERAND_WORDS[entry]
            arrays["in"] = Array("bfloat16" if _BF16[0] in program.defines else "float16", halves, fill)
        case "fp32_rate":
            arrays["in"] = Array.of(np.array([0.5, 1.0, *range(8)], np.float32))
        case "smem_read":
            arrays["in"] = Array("float32", SMEM_WORDS, "ones")
        case _:
            arrays["in"] = Array("float32", block, "ones")
    launch = Launch(program, _grid(ctas), block, ("in", "out", "clocks", np.int32(rounds)))
    return Work((launch,), arrays, ("out", "clocks"))


def _rate_check(name: str) -> Check:
    """64 rounds on two CTAs: sums of ones are exact, the chains have run to their fixed points."""
    rounds, ctas = 64, 2
    block = 256 if name.startswith("wgmma") else 128
    match PROGRAMS[name].entry:
        case "mma_sync_rate":  # an accumulator gains k = 16 a step; 8 chains of 4 numbers
            value = 16.0 * rounds * CHAINS * 4
        case "wgmma_rate":
            value = 16.0 * rounds * WGMMA_PER_ROUND * 128
        case "exp_rate":
            value = EXP_FIXED_POINT
        case "fp32_rate":
            value = 2.0
        case _:
            value = rounds * SMEM_READS_PER_ROUND * (4.0 if name == "smem_read_wide" else 1.0)
    work = rate_work(name, ctas=ctas, block=block, rounds=rounds)
    tolerance = 1e-5 if name in ("exp_rate", "fp32_rate") else 0.0
    return Check(name, work, lambda: {"out": np.full(ctas * block, value)}, tolerance)


def _empty_check() -> Check:
    """Every one of 1,000 CTAs counts itself."""
    launch = Launch(PROGRAMS["empty"], _grid(1000), 32, ("ran",))
    work = Work((launch,), {"ran": Array("uint32", 1)}, ("ran",))
    return Check("empty", work, lambda: {"ran": np.array([1000.0])}, 0.0)


def check_of(name: str) -> Check:
    """The small run of a microbenchmark whose result is known."""
    match PROGRAMS[name].file.stem:
        case "stream":
            return _stream_check(name)
        case "pointer_chase":
            return _chase_check()
        case "cache_read":
            return _cache_check()
        case "empty":
            return _empty_check()
        case _:
            return _rate_check(name)
