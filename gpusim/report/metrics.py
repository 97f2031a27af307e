"""What every number of a result is: its unit, what it is counted over, and its name in Nsight Compute.

`python -m gpusim.report.metrics docs/metrics.md` renews the list in the documentation.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpusim.report.files import write_whole
from gpusim.trace import Stall

GPU, CTA, SM, CALL, POINT = "whole GPU", "one CTA", "one SM", "whole call", "input of the point"


@dataclass(frozen=True, slots=True)
class Metric:
    """One column: unit, scope, meaning, and the counter of Nsight Compute that it compares with, where there is one."""

    unit: str
    scope: str
    meaning: str
    nsight: str = ""


_INPUTS: Mapping[str, Metric] = {
    "gpu": Metric("name", POINT, "GPU config"),
    "schedule": Metric("name", POINT, "how it is computed"),
    "implementation": Metric("name", POINT, "what really ships, or custom where choices were stated"),
    "version": Metric("name", POINT, "version of the implementation, where one was asked for"),
    "pass": Metric("name", POINT, "fwd, bwd or fwd_bwd"),
    "dtype": Metric("name", POINT, "number format of the operands"),
    "batch": Metric("count", POINT, "batch entries, or matrices of a batched GEMM"),
    "heads": Metric("count", POINT, "query heads"),
    "kv_heads": Metric("count", POINT, "key and value heads"),
    "seqlen_q": Metric("count", POINT, "query rows"),
    "seqlen_k": Metric("count", POINT, "key rows"),
    "head_dim": Metric("count", POINT, "columns of Q and K"),
    "head_dim_v": Metric("count", POINT, "columns of V"),
    "causal": Metric("true or false", POINT, "causal mask"),
    "window": Metric("count", POINT, "sliding window"),
    "dropout": Metric("probability", POINT, "dropout"),
    "mask": Metric("name", POINT, "other mask"),
    "save_lse": Metric("true or false", POINT, "log-sum-exp is written too"),
    "m": Metric("count", POINT, "rows of a product"),
    "n": Metric("count", POINT, "columns of a product"),
    "k": Metric("count", POINT, "inner dimension of a product"),
    "rows": Metric("count", POINT, "rows of a pass"),
    "cols": Metric("count", POINT, "columns of a pass"),
    "elements": Metric("count", POINT, "numbers of 8 bytes in each array of a stream"),
    "loads": Metric("count", POINT, "arrays that a stream reads"),
    "stores": Metric("count", POINT, "arrays that a stream writes"),
    "threads_per_cta": Metric("count", POINT, "threads of a CTA of a stream"),
    "footprint_bytes": Metric("bytes", GPU, "set that is chased or read over and over"),
    "part_bytes": Metric("bytes", CTA, "part of the set that a CTA reads"),
    "hops": Metric("count", POINT, "hops of a pointer chase"),
    "rounds": Metric("count", POINT, "times a CTA reads its part"),
    "sm_clock_mhz": Metric("MHz", POINT, "locked SM clock; n/a for the boost clock"),
    "timing": Metric("name", POINT, "what the latency includes: graph, event, ncu or host"),
    "cache": Metric("name", POINT, "L2 before the call: cold (empty) or warm (after the same call)"),
    "stack": Metric("name", POINT, "software around the kernels"),
    "overrides": Metric("text", POINT, "fields of the GPU set over its config, as --set takes them"),
}

_ANSWERS: Mapping[str, Metric] = {
    "status": Metric("name", CALL, "ok, refused, out_of_memory, unsupported or error"),
    "reason": Metric("text", CALL, "why there is no answer"),
    "fix": Metric("text", CALL, "what would change that"),
    "latency_ms": Metric("ms", CALL, "simulated time, as `timing` defines it", "gpu__time_duration.sum (timing ncu)"),
    "latency_lo_ms": Metric("ms", CALL, "lower end of the error band"),
    "latency_hi_ms": Metric("ms", CALL, "upper end of the error band"),
    "validated": Metric("share", CALL, "nine of ten measurements under these conditions lie within; or false"),
    "validation": Metric("text", CALL, "what the error band rests on, or what was measured instead"),
    "tflops": Metric("10¹² FLOP/s", GPU, "flops / latency"),
    "operand_gb_per_s": Metric("10⁹ bytes/s", GPU, "operand_bytes / latency: bytes over seconds, no clock in it"),
    "latency_per_hop_ns": Metric("ns", CALL, "latency of one dependent load"),
    "operand_bytes": Metric("bytes", GPU, "each kernel's inputs once and outputs once"),
    "l2_read_bytes": Metric(
        "bytes", GPU, "asked of L2 by the SMs, whole sectors of 32 B", "lts__t_sectors_srcunit_tex_op_read.sum × 32 B"
    ),
    "l2_write_bytes": Metric("bytes", GPU, "written by the SMs", "lts__t_sectors_srcunit_tex_op_write.sum × 32 B"),
    "l2_hit_rate": Metric(
        "share",
        GPU,
        "read sectors hit / read sectors; writes allocate and are in neither number; n/a where nothing is read",
        "lts__t_sectors_srcunit_tex_op_read_lookup_hit.sum / lts__t_sectors_srcunit_tex_op_read.sum",
    ),
    "l2_dirty_bytes": Metric("bytes", GPU, "written and still in L2 at the end, not yet in hbm_write_bytes"),
    "hbm_read_bytes": Metric("bytes", GPU, "read from HBM, 32 B a sector", "dram__bytes_read.sum"),
    "hbm_write_bytes": Metric("bytes", GPU, "written to HBM, 32 B a sector", "dram__bytes_write.sum"),
    "smem_read_bytes": Metric("bytes", GPU, "operand tiles read from shared memory"),
    "smem_write_bytes": Metric("bytes", GPU, "tiles written to shared memory"),
    "extra_memory_bytes": Metric("bytes", GPU, "device memory beyond inputs and outputs"),
    "peak_memory_bytes": Metric("bytes", GPU, "largest sum of live buffers"),
    "flops": Metric("FLOP", CALL, "by the benchmarks' convention: causal halves it, backward is 2.5 times forward"),
    "executed_flops": Metric("FLOP", GPU, "what the schedule really multiplies, padding included"),
    "tile_q": Metric("count", CTA, "query rows of a tile"),
    "tile_kv": Metric("count", CTA, "key rows of a tile"),
    "tile_m": Metric("count", CTA, "rows of an output tile"),
    "tile_n": Metric("count", CTA, "columns of an output tile"),
    "tile_k": Metric("count", CTA, "inner step of the main loop"),
    "stages": Metric("count", CTA, "buffers of a streamed tile"),
    "warps": Metric("count", CTA, "warps"),
    "accumulators": Metric("name", CTA, "where sums live: smem or registers"),
    "order": Metric("name", GPU, "order in which CTAs are taken: ascending or longest_first"),
    "scheduler": Metric(
        "name", GPU, "who hands CTAs out: the hardware's queue, or a persistent grid, dynamic or static"
    ),
    "smem_bytes_per_cta": Metric("bytes", CTA, "shared memory", "launch__shared_mem_per_block"),
    "registers_per_thread": Metric("count", "one thread", "32-bit registers", "launch__registers_per_thread"),
    "ctas": Metric("count", GPU, "CTAs of the longest kernel", "launch__grid_size"),
    "ctas_per_sm": Metric("count", SM, "CTAs resident at once", "launch__occupancy_limit_*"),
    "waves": Metric("count", GPU, "CTAs / resident CTAs", "launch__waves_per_multiprocessor"),
    "sustained_clock_mhz": Metric(
        "MHz", GPU, "SM clock that the longest kernel's main loop holds under the power limit"
    ),
    "power_w": Metric("W", GPU, "mean power while the longest kernel runs: idling, matrix and softmax work"),
    "bound_ms": Metric("ms", CALL, "closed-form lower bound: no simulation is below it"),
    "bound_by": Metric("name", CALL, "the pipe or memory that sets the bound"),
    "roofline_ms": Metric("ms", CALL, "larger of FLOPs / peak of the pipe and operand bytes / HBM peak"),
    "ceiling_ms": Metric("ms", CALL, "FLOPs / dense peak at the SM clock: no measurement is below it"),
    "bottleneck": Metric("name", GPU, "busiest resource of the longest kernel"),
    "mode": Metric("name", CALL, "how it was simulated: exhaustive or compiled, with one result"),
    "sampled_error": Metric("share", CALL, "error of a sampled simulation; n/a: none was sampled"),
}

_STALLS: Mapping[str, Metric] = {
    f"stall_{reason.value}": Metric("share of slot time", "mean of all CTA slots", meaning)
    for reason, meaning in {
        Stall.COMPUTE: "holding the SM's compute pipe",
        Stall.PIPE: "waiting for another CTA to leave the compute pipe",
        Stall.LOAD: "waiting for tiles",
        Stall.SYNC: "latency of steps and loops that occupies no unit",
        Stall.STORE: "waiting for posted writes",
        Stall.LAUNCH: "launches of kernels and CTAs, host time",
        Stall.IDLE: "no CTA left: waves and tails",
    }.items()
}

_KERNELS: Mapping[str, Metric] = {
    "name": Metric("name", "one kernel", "kernel"),
    "limited_by": Metric("name", SM, "what limits resident CTAs"),
    "stalls": Metric("share of slot time", "mean of all CTA slots", "as the columns stall_*"),
    "busy": Metric("share of elapsed time", GPU, "what each unit needs at its own peak"),
    "kernels": Metric("list", CALL, "the same numbers for every kernel"),
}

METRICS: Mapping[str, Metric] = {**_INPUTS, **_ANSWERS, **_STALLS, **_KERNELS}


def metrics_text() -> str:
    """The list as Markdown."""
    lines = [
        "# What the numbers mean",
        "",
        "Every column of `results.csv` and every field of the JSON: its unit, and what it is counted over. A sum over",
        "all SMs is never mixed with a value of one. The last column is what to compare with in Nsight Compute.",
        "Cells that do not apply, or that the model does not have, hold `n/a` (`null` in JSON).",
        "",
        "| name | unit | scope | meaning | Nsight Compute |",
        "|---|---|---|---|---|",
    ]
    for name, metric in METRICS.items():
        nsight = f"`{metric.nsight}`" if metric.nsight else ""
        lines.append(f"| `{name}` | {metric.unit} | {metric.scope} | {metric.meaning} | {nsight} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    write_whole(Path(sys.argv[1]), metrics_text())
