"""Which kernel is the faster one on an H100: the simulator ranks them as the FlashAttention-3 paper's chart does."""

import itertools
from collections import defaultdict
from functools import cache

import pytest

from gpusim import load_gpu
from gpusim.compare import point_of
from gpusim.measured import MeasuredRow, find_measured, read_all, verdict
from gpusim.point import run_point

CLEAR = 1.10  # kernels closer than this on the chart may come in either order
LONGEST = 4096

Place = tuple[int, bool, int]

# validation/DEVIATIONS.md, triton on H100: pairs (faster on the chart, slower) that the simulator turns round.
KNOWN: dict[Place, set[tuple[str, str]]] = {(64, True, 1024): {("triton", "flash2")}}


@cache
def chart() -> dict[Place, list[MeasuredRow]]:
    """Rows of figure 5 that count, by head dim, causal or not, and N."""
    places: dict[Place, list[MeasuredRow]] = defaultdict(list)
    files, _ = read_all([find_measured("fa3_h100_fp16_fwd")])
    for row in files[0].rows:
        if point_of(row, load_gpu)[0] is not None and verdict(row).counts and row.workload.seqlen_k <= LONGEST:
            places[row.workload.head_dim, row.workload.causal, row.workload.seqlen_k].append(row)
    return places


def test_the_chart_has_four_kernels_at_most_places() -> None:
    """Eager attention, Triton, FlashAttention-2 and -3; two head dims, causal or not, four lengths up to 4,096."""
    assert 16 == len(chart())
    kernels = {row.implementation for rows in chart().values() for row in rows}
    assert {"pytorch_naive", "triton", "flash2", "flash3"} == kernels


@pytest.mark.parametrize("place", sorted(chart()), ids=lambda place: "d{}-causal{}-N{}".format(*place))
def test_kernels_rank_as_measured(place: Place) -> None:
    """Of every two that are a tenth apart on the chart, the same one is faster, known gaps aside."""
    simulated = {}
    for row in chart()[place]:
        point, _ = point_of(row, load_gpu)
        simulated[row.implementation] = run_point(point).latency_ms
    measured = {row.implementation: row.latency_ms for row in chart()[place]}
    turned = {
        (one, other)
        for one, other in itertools.permutations(measured, 2)
        if measured[other] > CLEAR * measured[one] and simulated[one] >= simulated[other]
    }
    assert KNOWN.get(place, set()) == turned
