"""What each mechanism of the machine and of the kernels is worth: errors with one of them taken away by `--set`.

What a kernel does otherwise, such as the order of its work items, is taken away by stating another choice.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from statistics import fmean

from gpusim.compare import point_of
from gpusim.compare_page import run_comparison
from gpusim.measured import find_measured, read_all, verdict
from gpusim.point import run_point
from gpusim.specs import load_gpu

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


# Of flash2 and flash3 on H100, in sustained loops and at a locked clock.
FLASH = ("fa3_h100_fp16_fwd", "flashgpusim_docs_h100_locked_clock")
FLASH_KERNELS = ("flash2", "flash3")
FLASH_SWITCHES: dict[str, dict[str, str]] = {
    "nothing": {},
    "power limit": {"power.limit_w": "100000"},
    "overlap of flash3": {"calibration.flash3.forward.overlap": "0"},
    "additive cost of flash2": {"calibration.flash2.forward.overlap": "1"},
    "masks of diagonal tiles": {
        "calibration.flash2.forward.mask_cycles_per_score": NOTHING,
        "calibration.flash3.forward.mask_cycles_per_score": NOTHING,
    },
    "prologue of a CTA": {
        "calibration.flash2.forward.entry_cycles": NOTHING,
        "calibration.flash3.forward.entry_cycles": NOTHING,
    },
    "latency of a step": {
        "calibration.flash2.forward.step_cycles": NOTHING,
        "calibration.flash3.forward.step_cycles": NOTHING,
    },
    "epilogue on the pipe": {"calibration.flash2.forward.epilogue_cycles_per_element": NOTHING},
    "limits of L2 and HBM": {
        "memory.l2.bandwidth_bytes_per_s": "1e15",
        "memory.hbm.stream_bandwidth_bytes_per_s": "3.35e12",
        "sm.l2_fill_bytes_per_clk": "100000",
    },
}
FLASH_CHOICES: dict[str, dict[str, object]] = {
    "work items from a counter": {"scheduler": "static"},
    "order of the version": {"order": "ascending"},
    "the second stage of K and V": {"stages": 1},
}


def ablation_rows(workers: int) -> Iterator[tuple[str, str, str, str]]:
    """Mechanism, switches, and the mean absolute error of trusted rows of attention and of microbenchmarks."""
    for name, switches in SWITCHES.items():
        is_kernel = any(path.startswith(KERNELS) for path in switches)
        machine = "" if is_kernel else _mape(MACHINE, switches, workers)
        yield name, _written(switches), _mape(ATTENTION, switches, workers), machine


def flash_ablation_rows(workers: int) -> Iterator[tuple[str, str, str, str]]:
    """Mechanism, what is stated, and the mean absolute error and the worst of flash2 and flash3 on H100."""
    for name, switches in FLASH_SWITCHES.items():
        done = run_comparison(FLASH, overrides=switches, workers=workers).comparison
        errors = [item.error for item in done.compared if item.row.implementation in FLASH_KERNELS and item.is_trusted]
        yield name, _written(switches), *_figures([error for error in errors if error is not None])
    for name, choices in FLASH_CHOICES.items():
        written = ", ".join(f"`{key}: {value}`" for key, value in choices.items())
        yield f"{name} (flash3)", written, *_figures(_with_choices("flash3", choices))


def _with_choices(kernel: str, choices: Mapping[str, object]) -> list[float]:
    """Errors of a kernel's trusted rows where it runs with other choices than it does."""
    errors = []
    files, _ = read_all([find_measured(name) for name in FLASH])
    for row in (row for file in files for row in file.rows if row.implementation == kernel and verdict(row).counts):
        point, _ = point_of(row, load_gpu)
        if point is not None and row.latency_ms is not None:
            changed = replace(point, request=replace(point.request, choices=choices))
            latency_ms = run_point(changed).latency_ms
            if latency_ms is not None:
                errors.append(latency_ms / row.latency_ms - 1)
    return errors


def _written(switches: Mapping[str, str]) -> str:
    return ", ".join(f"`{path}={value}`" for path, value in switches.items())


def _figures(errors: list[float]) -> tuple[str, str]:
    sizes = [abs(error) for error in errors]
    return (f"{100 * fmean(sizes):.1f} %", f"{100 * max(sizes):.0f} %") if sizes else ("none", "none")


def _mape(files: tuple[str, ...], switches: dict[str, str], workers: int) -> str:
    figures = run_comparison(files, overrides=switches, workers=workers).comparison.trusted_figures()
    return "none" if figures is None else f"{figures.mape_pct:.1f} %"
