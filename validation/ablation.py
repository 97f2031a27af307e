"""What each mechanism of the machine and of the kernels is worth: errors with one of them taken away by `--set`."""

from collections.abc import Iterator

from gpusim.compare_page import run_comparison

ATTENTION = ("fa1_paper_a100_fwd", "fa3_h100_fp16_fwd")
MACHINE = ("gpu_benches_latency", "gpu_benches_stream", "gpu_benches_small_kernels")
KERNELS = "calibration.torch_kernels"
IDEAL_LANE = "0.015625"  # clocks an element on 64 FP32 lanes
IDEAL_EXP = "0.0625"  # clocks a score on 16 special-function units
NOTHING = "0.000001"  # a constant stays a number above zero

SWITCHES: dict[str, dict[str, str]] = {
    "nothing": {},
    "loss of mixed reads and writes": {"memory.hbm.mix_loss": "0"},
    "channels of HBM": {"memory.hbm.channels": "1"},
    "two partitions of L2": {"memory.l2.partitions": "1"},
    "soft end of L2": {"memory.l2.knee": "0"},
    "gaps between kernels": {"launch.stream_ns": "0", "launch.graph_ns": "0"},
    "sustained tensor clock": {"sm.tensor_clock_hz": "1e10"},
    "SM cost of softmax": {f"{KERNELS}.softmax@fp16.softmax_cycles_per_score": IDEAL_EXP},
    "SM cost of strided copies": {
        f"{KERNELS}.copy.elementwise_cycles_per_element": IDEAL_LANE,
        f"{KERNELS}.transpose.elementwise_cycles_per_element": IDEAL_LANE,
    },
    "SM cost of a broadcast operand": {f"{KERNELS}.broadcast.elementwise_cycles_per_element": IDEAL_LANE},
    "prologue and epilogue of GEMMs": {
        f"{KERNELS}.gemm@fp16.entry_cycles": NOTHING,
        f"{KERNELS}.gemm@fp16.epilogue_cycles_per_element": NOTHING,
    },
}


def ablation_rows(workers: int) -> Iterator[tuple[str, str, str, str]]:
    """Mechanism, switches, and the mean absolute error of trusted rows of attention and of microbenchmarks."""
    for name, switches in SWITCHES.items():
        is_kernel = any(path.startswith(KERNELS) for path in switches)
        machine = "" if is_kernel else _mape(MACHINE, switches, workers)
        yield (
            name,
            ", ".join(f"`{path}={value}`" for path, value in switches.items()),
            _mape(ATTENTION, switches, workers),
            machine,
        )


def _mape(files: tuple[str, ...], switches: dict[str, str], workers: int) -> str:
    figures = run_comparison(files, overrides=switches, workers=workers).comparison.trusted_figures()
    return "none" if figures is None else f"{figures.mape_pct:.1f} %"
