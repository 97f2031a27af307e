"""What is computed: the shape of an attention problem, with no word about how.

Holds shapes, ideal FLOPs, compulsory bytes and the conditions of a measurement. Leaves out tiles, kernels and
hardware. Start with `attention.py`.
"""

from gpusim.workloads.attention import AttentionWorkload, Pass
from gpusim.workloads.conditions import Cache, Conditions, Timing

__all__ = ["AttentionWorkload", "Cache", "Conditions", "Pass", "Timing"]
