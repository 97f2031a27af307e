"""Measured files of a scenario: how many rows match a point, and what keeps the others from it."""

from pathlib import Path

import pytest

from gpusim.implementations import ScheduleRequest
from gpusim.overlay import overlay
from gpusim.point import Point, answer
from gpusim.specs import load_gpu
from gpusim.workloads import AttentionWorkload, Conditions

SHAPE = {"batch": 2, "heads": 4, "seqlen_q": 1024, "seqlen_k": 1024, "head_dim": 64}
HEADER = "gpu,kernel,batch,heads,seqlen,head_dim,latency_ms"
GOOD = "A100-40GB,flash2,2,4,1024,64,0.5"


def used(folder: Path, *rows: str, **changes: object) -> str:
    """What is said of a file with these rows beside one point of flash2 on an A100, its shape changed."""
    file = folder / "mine.csv"
    file.write_text("\n".join([HEADER, *rows]) + "\n")
    workload = AttentionWorkload.model_validate(SHAPE | changes)
    point = Point(load_gpu("a100_sxm4_40gb"), ScheduleRequest("flash2"), workload, Conditions())
    result = answer(point, status="unsupported", reason="not simulated here", fix="")
    (text,) = overlay([point], [result], [str(file)]).used
    return text.removeprefix(f"{folder}/")


@pytest.mark.parametrize(
    ("row", "changes", "difference"),
    [
        (GOOD.replace("1024", "1000"), {"seqlen_q": 1000}, "seqlen_k 1000 where the point has 1024"),
        (GOOD, {"save_lse": True}, "save_lse false where the point has true"),
        (GOOD, {"window": 128}, "window none where the point has 128"),
        (GOOD.replace("flash2", "flash1"), {}, "kernel flash1 where the point has flash2"),
        (GOOD.replace("40GB", "80GB"), {}, "gpu a100_sxm4_80gb where the point has a100_sxm4_40gb"),
    ],
)
def test_the_nearest_row_is_named_where_none_matches(
    tmp_path: Path, row: str, changes: dict[str, object], difference: str
) -> None:
    """With the field that differs; a row that is further off is not spoken of."""
    further = "H100,flash3,1,1,64,128,0.5"
    said = used(tmp_path, further, row, **changes)
    assert f"mine.csv: 0 of 2 rows match a point; the nearest, line 3, has {difference}" == said


def test_rows_that_match_are_counted(tmp_path: Path) -> None:
    """Rows of other points need no word where some match."""
    assert "mine.csv: 2 of 3 rows match a point" == used(tmp_path, GOOD, GOOD, GOOD.replace("1024", "2048"))


def test_a_row_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    """Its line and its fault, beside the row that matches."""
    said = used(tmp_path, GOOD, GOOD.replace("0.5", "fast"))
    fault = "line 3: latency_ms = 'fast' is not a number"
    assert f"mine.csv: 1 of 2 rows match a point; 1 cannot be used ({fault})" == said
