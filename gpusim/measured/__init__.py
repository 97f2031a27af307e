"""What was measured: CSV files of many hands in, workloads with their conditions out.

Holds the reader, the table of spellings, the trust list, and what no GPU can reach. Leaves out simulation and errors,
which `compare` adds. Start with `reader.py`, then `rows.py` (attention) and `kernel_rows.py` (single kernels).
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
from gpusim.measured.trust import NOT_LISTED, OTHER_FILE, Verdict, verdict

__all__ = [
    "NOT_LISTED",
    "OTHER_FILE",
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
