"""What the machine is: frozen values of one GPU, with the unit in every name and a source for every number.

Holds SMs, L2, HBM, launch costs and power limit; reads, overrides and checks the YAML files that state them. Leaves
out behaviour over time. Start with `gpu.py`, then `load.py`.
"""

from gpusim.specs.gpu import GpuSpec, LaunchSpec, PowerSpec, Source
from gpusim.specs.lint import Finding, lint_gpu
from gpusim.specs.load import apply_overrides, gpu_json_schema, gpu_names, load_gpu
from gpusim.specs.memory import HbmSpec, L2Spec, MemorySpec
from gpusim.specs.sm import RegisterFile, SmSpec

__all__ = [
    "Finding",
    "GpuSpec",
    "HbmSpec",
    "L2Spec",
    "LaunchSpec",
    "MemorySpec",
    "PowerSpec",
    "RegisterFile",
    "SmSpec",
    "Source",
    "apply_overrides",
    "gpu_json_schema",
    "gpu_names",
    "lint_gpu",
    "load_gpu",
]
