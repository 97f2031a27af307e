"""What the machine is: frozen values of one GPU, with the unit in every name and a source for every number.

Holds SMs, L2, HBM, launch costs and power limit; reads, overrides and checks the YAML files that state them. Leaves
out behaviour over time. Start with `gpu.py`, then `load.py`.
"""

from gpusim.specs.gpu import GpuSpec, LaunchSpec, PowerSpec, Source
from gpusim.specs.lint import Finding, lint_gpu
from gpusim.specs.load import apply_overrides, gpu_json_schema, gpu_names, load_gpu
from gpusim.specs.memory import HbmSpec, L2Spec, MemorySpec
from gpusim.specs.sm import RegisterFile, SmSpec
from gpusim.specs.timings import HbmTimings, L2Timings, LaunchTimings, Timings

__all__ = [
    "Finding",
    "GpuSpec",
    "HbmSpec",
    "HbmTimings",
    "L2Spec",
    "L2Timings",
    "LaunchSpec",
    "LaunchTimings",
    "MemorySpec",
    "PowerSpec",
    "RegisterFile",
    "SmSpec",
    "Source",
    "Timings",
    "apply_overrides",
    "gpu_json_schema",
    "gpu_names",
    "lint_gpu",
    "load_gpu",
]
