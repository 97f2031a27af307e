"""What people read: files, plots and tables, each a pure function of results.

`files` writes CSV and JSON, `tables` makes text for a terminal, `plots` makes PNGs, `html` the page of a run. Start
with `series`, which says which points make up one line of a plot, and `panels`, which says what the page shows
together.
Leaves out simulation, and measured CSVs: measurements arrive as `MeasuredPoint` and `Measurement`.
"""

from gpusim.report.answers import Measurement
from gpusim.report.files import json_text, manifest_json, next_run_dir, results_csv, results_json, write_whole
from gpusim.report.series import Axis, MeasuredPoint, Series, axis_of, series_names, series_of

# `plots`, `tables` and `html` are imported by who draws: matplotlib, rich and jinja2 take longer to load than gpusim.
__all__ = [
    "Axis",
    "MeasuredPoint",
    "Measurement",
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
