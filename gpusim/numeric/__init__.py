"""The graph on NumPy: proves that a schedule computes attention.

Runs every CTA's steps in any legal order; what nobody needs any more is poisoned with NaN, so a missing dependency
shows as a wrong number. Models no time and no bank, and keeps ragged tiles at their true size where hardware pads.
Start with `executor.py`; `reference.py` is attention in float64.
"""

from gpusim.numeric.executor import Executed, Rescaling, execute, inputs_for
from gpusim.numeric.reference import attention_reference, row_statistics

__all__ = ["Executed", "Rescaling", "attention_reference", "execute", "inputs_for", "row_statistics"]
