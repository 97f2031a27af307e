"""The list of what every number means: complete, and the same in the documentation."""

from pathlib import Path

from gpusim.report.metrics import METRICS, metrics_text
from gpusim.results import KernelResult, PointResult

DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_every_field_of_a_result_is_explained() -> None:
    """A field of a point or a kernel without an entry would be a number without unit and scope."""
    fields = {"pass" if name == "pass_" else name for name in (*PointResult.model_fields, *KernelResult.model_fields)}
    assert set() == fields - {"stalls"} - METRICS.keys()


def test_the_documentation_shows_the_list_as_it_is() -> None:
    """docs/metrics.md is made by `python -m gpusim.report.metrics docs/metrics.md`."""
    assert metrics_text() == DOCS.read_text(encoding="utf-8")
