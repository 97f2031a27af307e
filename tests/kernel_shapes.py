"""Small workloads for every implementation of a single kernel, whole and ragged, and small tiles for attention."""

from gpusim.implementations import implementations, names_that_compute
from gpusim.schedules import SCHEDULES, AttentionChoices, WarpgroupChoices
from gpusim.schedules.choices import WARPGROUP_ROWS
from gpusim.workloads import (
    AttentionWorkload,
    CacheReadWorkload,
    ChaseWorkload,
    GemmWorkload,
    RowsWorkload,
    StreamWorkload,
    Workload,
)

ATTENTION = names_that_compute(AttentionWorkload)
SINGLE_KERNELS = [name for name in implementations() if name not in ATTENTION]

_SHAPES: dict[type[Workload], dict[str, Workload]] = {
    GemmWorkload: {
        "product": GemmWorkload(m=256, n=128, k=64),
        "ragged products": GemmWorkload(batch=3, m=200, n=136, k=72, dtype="bf16"),
        "fp32 product": GemmWorkload(m=128, n=96, k=80, dtype="fp32"),
    },
    RowsWorkload: {
        "short rows": RowsWorkload(rows=300, cols=100),
        "long rows": RowsWorkload(rows=37, cols=3000, dtype="fp32"),
    },
    StreamWorkload: {
        "read": StreamWorkload(elements=100_001, loads=1, stores=0, threads_per_cta=96, ctas_per_sm=3),
        "copy": StreamWorkload(elements=3000, loads=1, stores=1, threads_per_cta=128, ctas_per_sm=1),
        "triad": StreamWorkload(elements=300_000, loads=2, stores=1, ctas_per_sm=1),
        "fill": StreamWorkload(elements=200_000, loads=0, stores=1, threads_per_cta=256),
    },
    ChaseWorkload: {
        "walked twice and a half": ChaseWorkload(footprint_bytes=200 * 128, hops=500),
        "of a large set": ChaseWorkload(footprint_bytes=1 << 26, hops=256),
    },
    CacheReadWorkload: {
        "shared parts": CacheReadWorkload(footprint_bytes=300_000, part_bytes=50_000, rounds=3, ctas_per_sm=1),
        "own parts": CacheReadWorkload(footprint_bytes=1 << 20, part_bytes=1 << 15, rounds=2, ctas_per_sm=1),
    },
}

SHAPES: dict[str, dict[str, Workload]] = {name: _SHAPES[kind] for kind in _SHAPES for name in names_that_compute(kind)}
CASES = [(name, shape) for name, shapes in SHAPES.items() for shape in shapes]


def small_choices(schedule: str) -> AttentionChoices:
    """Choices of a schedule of attention with tiles of 4 rows; a warpgroup has 64 query rows, no fewer."""
    kind = SCHEDULES[schedule].choices
    return kind(tile_q=WARPGROUP_ROWS if kind is WarpgroupChoices else 4, tile_kv=4)
