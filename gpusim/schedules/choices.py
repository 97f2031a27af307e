"""What a schedule leaves open: tiles, stages, warps, where accumulators live."""

from typing import Literal, Self

from pydantic import BaseModel, model_validator

from gpusim.strict_yaml import STRICT, PositiveWhole


class FlashChoices(BaseModel):
    """Choices of a FlashAttention schedule.

    `tile_q` and `tile_kv` are rows of a Q and of a K/V tile; `stages` buffers a streamed tile has; `fold_scale`
    multiplies 1/√d into Q once instead of into every score tile. `grain` loop steps of the real kernel stand behind one
    step of the graph. `partials` is where the FA-1 order keeps O between K/V blocks: "output" re-reads and re-writes O
    itself in its own format, "fp32" uses a wide scratch tensor. `accumulator_bytes` is the machine's accumulator size;
    `ctas_per_sm` pins the residency of a released kernel.
    """

    model_config = STRICT

    tile_q: PositiveWhole
    tile_kv: PositiveWhole
    warps: PositiveWhole = 4
    stages: PositiveWhole = 1
    accumulators: Literal["smem", "registers"] = "registers"
    fold_scale: bool = False
    grain: PositiveWhole = 1
    partials: Literal["output", "fp32"] = "output"
    accumulator_bytes: PositiveWhole = 4
    ctas_per_sm: PositiveWhole | None = None


PreparePass = Literal["copy_q", "copy_k", "copy_v", "transpose_k", "scale_q", "scale_k"]


class NaiveChoices(BaseModel):
    """Choices of the three-kernel schedule.

    `tile_q` × `tile_kv` is a tile of the scores, and `pv_tile_q` the rows of an output tile of PV (`tile_q` when None),
    which walks the keys in steps of `tile_kv`. At most `softmax_rows` rows make one CTA group of the row softmax.
    `prepare` lists the passes over Q, K and V that a framework runs first, at most one of which scales; where none
    does, 1/√d is multiplied into the scores, or with `fold_scale` into Q by a pass of its own. With `accumulators` in
    smem, K (then V) stays in shared memory, and Q, S, P and O pass in row tiles.
    """

    model_config = STRICT

    tile_q: PositiveWhole
    tile_kv: PositiveWhole
    warps: PositiveWhole = 8
    stages: PositiveWhole = 2
    accumulators: Literal["smem", "registers"] = "registers"
    fold_scale: bool = False
    pv_tile_q: PositiveWhole | None = None
    softmax_rows: PositiveWhole = 32
    prepare: tuple[PreparePass, ...] = ()
    accumulator_bytes: PositiveWhole = 4
    ctas_per_sm: PositiveWhole | None = None

    @property
    def scaling_passes(self) -> tuple[PreparePass, ...]:
        """The passes of `prepare` that multiply 1/√d in."""
        return tuple(name for name in self.prepare if name.startswith("scale"))

    @model_validator(mode="after")
    def _scale_once(self) -> Self:
        if len(self.scaling_passes) > 1:
            raise ValueError(f"prepare = {list(self.prepare)} scales by 1/√d more than once; keep one scale pass")
        if len(set(self.prepare)) < len(self.prepare):
            raise ValueError(f"prepare = {list(self.prepare)} names a pass twice; name each once")
        return self
