"""What people read: files, plots and tables, each a pure function of results.

`files` writes CSV and JSON, `tables` makes text for a terminal, `plots` makes PNGs. Start with `series`, which says
which points make up one line. Leaves out simulation, and measured CSVs: measurements arrive as `MeasuredPoint`.
"""

from gpusim.report.files import json_text, manifest_json, next_run_dir, results_csv, results_json, write_whole
from gpusim.report.series import Axis, MeasuredPoint, Series, axis_of, series_names, series_of

# `plots` and `tables` are imported by who draws: matplotlib and rich take longer to load than all of gpusim.
__all__ = [
    "Axis",
    "MeasuredPoint",
    "Series",
    "axis_of",
    "json_text",
    "manifest_json",
    "next_run_dir",
    "results_csv",
    "results_json",
    "series_names",
    "series_of",
    "write_whole",
]
