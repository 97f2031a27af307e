"""Which tiles fit a GPU, and what they cost in shared memory and registers; nothing is simulated.

Whether a tile fits does not depend on sequence length, batch or heads.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from gpusim.analytic import occupancy, registers_per_thread
from gpusim.dtypes import DType
from gpusim.errors import DoesNotFitError
from gpusim.schedules import SCHEDULES, FlashChoices
from gpusim.specs import GpuSpec
from gpusim.workloads import AttentionWorkload

DEFAULT_TILES = (16, 32, 64, 128, 256)
DEFAULT_WARPS = (4, 8)
DEFAULT_STAGES = (1, 2)


@dataclass(frozen=True, slots=True)
class TileFit:
    """One tile choice on one GPU: shared memory in bytes, registers, CTAs per SM, or why it does not fit."""

    tile_q: int
    tile_kv: int
    stages: int
    warps: int
    accumulators: str
    smem_bytes_per_cta: int
    registers_per_thread: int
    ctas_per_sm: int
    limited_by: str
    reason: str | None

    @property
    def fits(self) -> bool:
        """Whether an SM holds at least one CTA."""
        return self.reason is None


def fit_tiles(
    spec: GpuSpec,
    schedule: str,
    *,
    head_dim: int,
    dtype: DType = DType.FP16,
    tiles_q: Sequence[int] = DEFAULT_TILES,
    tiles_kv: Sequence[int] = DEFAULT_TILES,
    stages: Sequence[int] = DEFAULT_STAGES,
    warps: Sequence[int] = DEFAULT_WARPS,
) -> list[TileFit]:
    """Every combination of the given choices, in order. A GPU without registers keeps accumulators in shared memory."""
    if spec.sm.register_file is None:
        stages, warps = (1,), (1,)
    combinations = itertools.product(tiles_q, tiles_kv, stages, warps)
    return [_fit(spec, schedule, head_dim, dtype, *combination) for combination in combinations]


def _fit(
    spec: GpuSpec, schedule: str, head_dim: int, dtype: DType, tile_q: int, tile_kv: int, stages: int, warps: int
) -> TileFit:
    accumulators = "smem" if spec.sm.register_file is None else "registers"
    choices = FlashChoices(
        tile_q=tile_q,
        tile_kv=tile_kv,
        stages=stages,
        warps=warps,
        accumulators=accumulators,
        accumulator_bytes=spec.sm.accumulator_bytes,
    )
    workload = AttentionWorkload.model_validate(
        {"batch": 1, "heads": 1, "seqlen_q": tile_q, "seqlen_k": 2 * tile_kv, "head_dim": head_dim, "dtype": dtype}
    )
    (kernel,) = SCHEDULES[schedule].build(workload, choices, {}).kernels
    ctas, limited_by, reason = 0, "", None
    try:
        found = occupancy(kernel, spec)
        ctas, limited_by = found.ctas_per_sm, found.limited_by
    except DoesNotFitError as error:
        reason = f"{error.reason}; {error.fix}"
    return TileFit(
        tile_q,
        tile_kv,
        stages,
        warps,
        accumulators,
        kernel.smem_bytes,
        max(registers_per_thread(kernel, spec.sm), kernel.accumulator_registers_per_thread)
        if spec.sm.register_file is not None
        else 0,
        ctas,
        limited_by,
        reason,
    )
