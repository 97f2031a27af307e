"""How much slower than bare SimPy the engine is, and how much faster compiled, measured in one run.

A FlashAttention-2 forward pass with 262,144 K/V tiles (N = 16,384, d = 128, 16 heads, tiles of 128, A100-40) against
SimPy processes that do nothing but five timeouts a tile. Prints the times, their ratios and peak memory; the compiled
engine needs the extra `fast`, and its time is without the compilation, which is cached on disk.

    python benchmarks/engine_speed.py
"""

import resource
import time
from collections.abc import Callable, Generator
from typing import Any

import simpy

from gpusim import AttentionWorkload, Conditions, load_gpu, parse_request, plan, simulate

TIMEOUTS_PER_TILE = 5
REPEATS = 3


def bare_simpy(tiles: int, processes: int) -> None:
    """`processes` generators that share `tiles` tiles and wait five times for each."""

    def worker(env: simpy.Environment, waits: int) -> Generator[simpy.Event, Any, None]:
        for _ in range(waits):
            yield env.timeout(1)

    env = simpy.Environment()
    for _ in range(processes):
        env.process(worker(env, tiles * TIMEOUTS_PER_TILE // processes))
    env.run()


def best_s(task: Callable[[], object]) -> float:
    """Shortest wall time of a few runs, in seconds."""
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        task()
        times.append(time.perf_counter() - begin)
    return min(times)


def main() -> None:
    """Runs all three and prints their ratios."""
    gpu = load_gpu("a100_sxm4_40gb")
    workload = AttentionWorkload(batch=1, heads=16, seqlen_q=16384, seqlen_k=16384, head_dim=128)
    request = parse_request({"name": "flash2", "tile_q": 128, "tile_kv": 128, "warps": 8, "stages": 1}, "benchmark")
    graph = plan(request, gpu, workload).graph
    tiles = 16 * (16384 // 128) ** 2
    bare = best_s(lambda: bare_simpy(tiles, gpu.sm.count))
    engine = best_s(lambda: simulate(graph, gpu, Conditions(), mode="exhaustive"))
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"bare SimPy, {TIMEOUTS_PER_TILE} timeouts a tile   {bare:6.2f} s")
    print(f"gpusim, {tiles:,} K/V tiles      {engine:6.2f} s")
    print(f"ratio                            {engine / bare:6.2f}")
    print(f"peak memory                      {peak_mib:6.0f} MiB")
    simulate(graph, gpu, Conditions(), mode="compiled")
    compiled = best_s(lambda: simulate(graph, gpu, Conditions(), mode="compiled"))
    print(f"compiled                         {compiled:6.3f} s")
    print(f"exhaustive / compiled            {engine / compiled:6.1f}")


if __name__ == "__main__":
    main()
