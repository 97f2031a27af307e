"""What was measured: CSV files of many hands in, attention workloads with their conditions out.

Holds the reader, the table of spellings and the trust list. Leaves out simulation and errors, which `compare` adds.
Start with `reader.py`, then `rows.py`.
"""

from gpusim.measured.reader import (
    MeasuredFile,
    SkippedRow,
    find_measured,
    measured_names,
    read_all,
    read_measured,
)
from gpusim.measured.rows import MeasuredRow
from gpusim.measured.trust import Verdict, verdict

__all__ = [
    "MeasuredFile",
    "MeasuredRow",
    "SkippedRow",
    "Verdict",
    "find_measured",
    "measured_names",
    "read_all",
    "read_measured",
    "verdict",
]
