"""A result that a notebook shows by itself. What draws it, and matplotlib with it, loads when it is shown."""

from typing import TYPE_CHECKING

from gpusim.results import PointResult

if TYPE_CHECKING:
    from gpusim.report.notebook import Picture


class ShownResult(PointResult):
    """What running a point gives: its result as a record, as a table in a notebook, and as a picture."""

    def plot(self) -> "Picture":
        """A picture of where its time goes, kernel by kernel; a notebook shows it."""
        from gpusim.report.notebook import time_picture

        return time_picture(self)

    def _repr_html_(self) -> str:
        from gpusim.report.notebook import point_html

        return point_html(self)
