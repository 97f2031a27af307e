"""Checks of a GPU file beyond what loading refuses: numbers that contradict one another or the product they name."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gpusim.errors import InputError
from gpusim.specs.gpu import GpuSpec
from gpusim.specs.load import check_gpu_file, gpu_names, gpu_path, load_gpu

BUS_TOLERANCE = 0.02
PRODUCT_TOLERANCE = 0.10

# Dense FLOP per clock and SM by compute capability, fp32 accumulation, of its fastest boards. Volta: NVIDIA forum
# 244727 (whitepaper: 8 tensor cores x 64 FMA). Turing: T4, 65 TFLOP/s / (40 SMs x 1.59 GHz). A100, Hopper: openxla
# cuda_core_info_table.cc, which cites the whitepapers. 8.6: A40, 149.7 TFLOP/s / (84 SMs x 1.74 GHz). Ada: L40S,
# 362 TFLOP/s / (142 SMs x 2.52 GHz).
_DENSE_FLOP_PER_CLK: Mapping[str, Mapping[str, int]] = {
    "7.0": {"fp16": 1024},
    "7.5": {"fp16": 1024},
    "8.0": {"fp16": 2048, "bf16": 2048, "tf32": 1024},
    "8.6": {"fp16": 1024, "bf16": 1024, "tf32": 512},
    "8.9": {"fp16": 1024, "bf16": 1024, "tf32": 512, "fp8": 2048},
    "9.0": {"fp16": 4096, "bf16": 4096, "tf32": 2048, "fp8": 8192},
}
# Clock at which the datasheet states tensor peaks where that is not the boost clock: 989 TFLOP/s = 132 SMs x 4096 x
# 1830 MHz (openxla cuda_core_info_table.cc, citing H100 whitepaper table 3).
_DATASHEET_TENSOR_CLOCK_HZ = {"hopper": 1.83e9}


@dataclass(frozen=True)
class Finding:
    """One remark on a GPU file. An error keeps the file from loading; a warning does not."""

    severity: Literal["error", "warning"]
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.field}: {self.message}" if self.field else f"{self.severity}: {self.message}"


def lint_gpu(name_or_path: str | Path) -> list[Finding]:
    """Everything that is wrong or doubtful in a GPU file or shipped GPU; empty when it is clean. Raises nothing.

    Doubts are reported once the file loads: a peak bandwidth that does not follow from bus width and pin rate, a tensor
    rate above the dense one of the architecture, and numbers far from those of the shipped GPU of the same product.
    """
    try:
        path = Path(name_or_path)
        checked = check_gpu_file(path if path.suffix else gpu_path(str(path)))
    except InputError as fault:
        return [Finding("error", "", problem) for problem in fault.problems]
    if checked.spec is None:
        return [
            Finding("error", problem.field, _with_line(problem.message, problem.line)) for problem in checked.problems
        ]
    return [*_bus_warnings(checked.spec), *_sparse_warnings(checked.spec), *_product_warnings(checked.spec)]


def _with_line(message: str, line: int | None) -> str:
    return message if line is None else f"{message} (line {line})"


def _bus_warnings(spec: GpuSpec) -> Iterator[Finding]:
    hbm = spec.memory.hbm
    stated, implied = hbm.peak_bandwidth_bytes_per_s, hbm.bus_bandwidth_bytes_per_s
    if abs(stated / implied - 1) > BUS_TOLERANCE:
        yield Finding(
            "warning",
            "memory.hbm.peak_bandwidth_bytes_per_s",
            f"{stated / 1e9:.1f} GB/s stated, but {hbm.bus_width_bits} bits x {hbm.pin_rate_bits_per_s / 1e9:g} Gbit/s "
            f"per pin / 8 = {implied / 1e9:.1f} GB/s",
        )


def _sparse_warnings(spec: GpuSpec) -> Iterator[Finding]:
    dense_rates = _DENSE_FLOP_PER_CLK.get(spec.compute_capability, {})
    clock_hz = _DATASHEET_TENSOR_CLOCK_HZ.get(spec.architecture, spec.sm.clock_hz)
    for dtype, rate in spec.sm.tensor_flop_per_clk.items():
        dense = dense_rates.get(dtype)
        if dense is None or rate <= dense:
            continue
        stated, peak = (_tflops(value * spec.sm.count * clock_hz) for value in (rate, dense))
        what = "the 2:4 sparse peak" if rate == 2 * dense else "more than the tensor cores do"
        yield Finding(
            "warning",
            f"sm.tensor_flop_per_clk.{dtype}",
            f"{rate} FLOP per clock is {what} of {spec.architecture}; dense is {dense}: "
            f"{stated} against {peak} TFLOP/s dense at {clock_hz / 1e6:.0f} MHz",
        )


def _tflops(flop_per_s: float) -> str:
    return f"{flop_per_s / 1e12:.0f}"


@dataclass(frozen=True)
class _Compared:
    field: str
    value: Callable[[GpuSpec], float]
    scale: float
    unit: str


_COMPARED = (
    _Compared("sm.count", lambda spec: spec.sm.count, 1, "SMs"),
    _Compared("sm.clock_hz", lambda spec: spec.sm.clock_hz, 1e6, "MHz"),
    _Compared("sm.smem_per_cta_max_bytes", lambda spec: spec.sm.smem_per_cta_max_bytes, 1, "bytes"),
    _Compared("memory.l2.size_bytes", lambda spec: spec.memory.l2.size_bytes if spec.memory.l2 else 0, 1, "bytes"),
    _Compared(
        "memory.hbm.peak_bandwidth_bytes_per_s", lambda spec: spec.memory.hbm.peak_bandwidth_bytes_per_s, 1e9, "GB/s"
    ),
)


def _product_warnings(spec: GpuSpec) -> Iterator[Finding]:
    presets = [preset for preset in map(load_gpu, gpu_names()) if _same_product(spec.product, preset.product)]
    for compared in _COMPARED if presets else ():
        own = compared.value(spec)
        nearest = min(presets, key=lambda preset: abs(own - compared.value(preset)))
        usual = compared.value(nearest)
        if abs(own - usual) > PRODUCT_TOLERANCE * usual:
            stated, shipped = (f"{value / compared.scale:,.10g}" for value in (own, usual))
            yield Finding(
                "warning",
                compared.field,
                f"{stated} {compared.unit}, but {nearest.product} has {shipped} {compared.unit}",
            )


def _same_product(stated: str, shipped: str) -> bool:
    """Every word of what the file calls itself is in the shipped name: "NVIDIA H100" means the shipped H100."""
    return set(stated.casefold().split()) <= set(shipped.casefold().split())
