"""How far a real kernel is from ideal hardware: cycles and shares, all zero or one for an ideal kernel.

The values live, with their sources, in `gpusim/implementations`. Cycles are clocks of one SM.
"""

from pydantic import BaseModel, ConfigDict, Field


class KernelCost(BaseModel):
    """Timing constants of one kernel on one architecture.

    `matmul_efficiency` is the share of the dense rate of its tensor path that it reaches, of which mma.sync reaches
    `narrow_warp_efficiency` where a warp has no more than 16 rows, one instruction's; `softmax_cycles_per_score`,
    `mask_cycles_per_score` (tiles on the diagonal or at the end), `rescale_cycles_per_element`,
    `elementwise_cycles_per_element` (copies, scales and adds) and `epilogue_cycles_per_element` occupy the SM's compute
    pipe (None: what ideal units need; an epilogue of 0 is free); with `epilogue_overlaps` (persistent kernels) only the
    part that outlasts the main loop does; `overlap` is the hidden share of the smaller of matrix and softmax work of
    one step. `entry_cycles` delays the first step each time a main loop is entered, and `step_cycles` follows every
    step; neither occupies the pipe. `hbm_efficiency` scales the HBM rate that this kernel's access pattern reaches.
    A real CTA of a kernel that groups them (`grain`) stays resident for `cta_ns` however little it moves: the next
    ones start no faster than those leave.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    matmul_efficiency: float = Field(default=1.0, gt=0, le=1)
    narrow_warp_efficiency: float = Field(default=1.0, gt=0, le=1)
    softmax_cycles_per_score: float | None = Field(default=None, gt=0)
    mask_cycles_per_score: float | None = Field(default=None, ge=0)
    rescale_cycles_per_element: float | None = Field(default=None, ge=0)
    elementwise_cycles_per_element: float | None = Field(default=None, gt=0)
    epilogue_cycles_per_element: float = Field(default=0.0, ge=0)
    epilogue_overlaps: bool = False
    overlap: float = Field(default=0.0, ge=0, le=1)
    entry_cycles: float = Field(default=0.0, ge=0)
    step_cycles: float = Field(default=0.0, ge=0)
    hbm_efficiency: float = Field(default=1.0, gt=0, le=1)
    cta_ns: float = Field(default=0.0, ge=0)
