"""A short list of points whose latency and bytes are kept, so that a change of the model is seen and meant.

`python -m validation golden` renews golden.csv; a difference is reviewed like code.
"""

import csv
import io
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path

from gpusim import AttentionWorkload, Conditions, Point, load_gpu, parse_request, run_point

GOLDEN = Path(__file__).parent / "golden.csv"


@dataclass(frozen=True, slots=True)
class GoldenRow:
    """One point, and what it gave when the list was last renewed: latency in ms and HBM bytes read and written."""

    gpu: str
    schedule: str
    stack: str
    batch: int
    heads: int
    seqlen: int
    head_dim: int
    causal: bool
    latency_ms: float
    hbm_bytes: int

    def simulated(self) -> "GoldenRow":
        """The same point with what it gives now."""
        workload = AttentionWorkload(
            batch=self.batch,
            heads=self.heads,
            seqlen_q=self.seqlen,
            seqlen_k=self.seqlen,
            head_dim=self.head_dim,
            causal=self.causal,
        )
        conditions = Conditions(timing="ncu", cache="cold", stack=self.stack or None)
        result = run_point(Point(load_gpu(self.gpu), parse_request(self.schedule, "golden"), workload, conditions))
        if result.latency_ms is None or result.hbm_read_bytes is None or result.hbm_write_bytes is None:
            raise ValueError(f"{self}: {result.status}: {result.reason}")
        hbm_bytes = result.hbm_read_bytes + result.hbm_write_bytes
        return replace(self, latency_ms=result.latency_ms, hbm_bytes=hbm_bytes)


def golden_rows() -> list[GoldenRow]:
    """The list as it stands."""
    with GOLDEN.open(encoding="utf-8", newline="") as file:
        return list(_rows(csv.DictReader(file)))


def _rows(reader: "csv.DictReader[str]") -> Iterator[GoldenRow]:
    for row in reader:
        sizes = (int(row[name]) for name in ("batch", "heads", "seqlen", "head_dim"))
        causal, latency_ms = row["causal"] == "true", float(row["latency_ms"])
        yield GoldenRow(row["gpu"], row["schedule"], row["stack"], *sizes, causal, latency_ms, int(row["hbm_bytes"]))


def golden_text(rows: list[GoldenRow]) -> str:
    """The list as CSV; latencies with six digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([field.name for field in fields(GoldenRow)])
    for row in rows:
        writer.writerow([_cell(value) for value in astuple(row)])
    return text.getvalue()


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.6g}" if isinstance(value, float) else str(value)
