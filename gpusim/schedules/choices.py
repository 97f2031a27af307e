"""What a schedule leaves open: tiles, stages, warps, where accumulators live."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, Field, model_validator

from gpusim.specs.sm import TensorPath
from gpusim.strict_yaml import STRICT, PositiveWhole
from gpusim.taskgraph.program import Scheduler
from gpusim.workloads import AttentionWorkload

WARPGROUP_ROWS = 64  # of the left operand of one wgmma
WARPGROUP_WARPS = 4
WarpgroupRows = Annotated[PositiveWhole, Field(multiple_of=WARPGROUP_ROWS)]


class FlashChoices(BaseModel):
    """Choices of a FlashAttention schedule.

    `tile_q` and `tile_kv` are rows of a Q and of a K/V tile; `compiled_head_dim` is how wide they are, the head dim
    that the kernel was compiled for (None: the workload's own), and `compiled_head_dim_v` how wide those of V and O are
    where V has another head dim; `stages` buffers a streamed tile has; `fold_scale`
    multiplies 1/√d into Q once instead of into every score tile. `accumulator_bytes` is the machine's accumulator size;
    `ctas_per_sm` pins the residency of a released kernel. `order` is that in which work items are taken: Q tiles
    ascending within a head, or the longest first where a mask makes them differ; `scheduler` is the hardware's queue or
    a persistent grid; `tensor_path` the matrix instructions, None the fastest of the GPU.
    """

    model_config = STRICT

    tile_q: PositiveWhole
    tile_kv: PositiveWhole
    compiled_head_dim: PositiveWhole | None = None
    compiled_head_dim_v: PositiveWhole | None = None
    warps: PositiveWhole = 4
    stages: PositiveWhole = 1
    accumulators: Literal["smem", "registers"] = "registers"
    fold_scale: bool = False
    accumulator_bytes: PositiveWhole = 4
    ctas_per_sm: PositiveWhole | None = None
    order: Literal["ascending", "longest_first"] = "ascending"
    scheduler: Scheduler = "hardware"
    tensor_path: TensorPath | None = None

    def tile_cols(self, workload: AttentionWorkload) -> tuple[int, int]:
        """Columns of a Q or K tile, and of a V or O tile."""
        d, d_v = workload.head_dim, workload.head_dim_v
        padded = max(d, self.compiled_head_dim or d)
        return padded, padded if d_v == d else max(d_v, self.compiled_head_dim_v or d_v)


class KvOuterChoices(FlashChoices):
    """Choices of the FA-1 order: one CTA a head, so work items have one order and the hardware's queue.

    `grain` loop steps of the real kernel stand behind one step of the graph. `partials` is where O is kept between K/V
    blocks: "output" re-reads and re-writes O itself in its own format, "fp32" uses a wide scratch tensor.
    """

    grain: PositiveWhole = 1
    partials: Literal["output", "fp32"] = "output"
    order: Literal["ascending"] = "ascending"
    scheduler: Literal["hardware"] = "hardware"


class WarpgroupChoices(FlashChoices):
    """Choices of a warp-specialised FlashAttention: one producer warpgroup and several consumers of 64 rows each.

    `cluster` CTAs side by side in Q share each K/V tile by multicast, where their number divides that of the Q tiles.
    `registers` and `producer_registers` a thread are those that the released kernel sets. `warps` follow from `tile_q`.
    With `pack_gqa` the query heads that share K and V are rows of one Q tile.
    """

    tile_q: WarpgroupRows
    tensor_path: Literal["wgmma"] | None = None
    cluster: Literal[1, 2, 4, 8] = 1
    registers: PositiveWhole | None = None
    producer_registers: PositiveWhole = 24
    pack_gqa: bool = False

    @property
    def consumers(self) -> int:
        """Consumer warpgroups of a CTA."""
        return self.tile_q // WARPGROUP_ROWS

    @model_validator(mode="before")
    @classmethod
    def _warps_follow(cls, values: object) -> object:
        if isinstance(values, dict) and isinstance(values.get("tile_q"), int):
            warps = (values["tile_q"] // WARPGROUP_ROWS + 1) * WARPGROUP_WARPS
            return {"warps": warps} | values
        return values

    @model_validator(mode="after")
    def _warps_are_warpgroups(self) -> Self:
        warps = (self.consumers + 1) * WARPGROUP_WARPS
        if self.warps != warps:
            raise ValueError(
                f"warps = {self.warps}, but tile_q = {self.tile_q} takes {self.consumers} consumer warpgroups and a "
                f"producer, {warps} warps; leave warps out"
            )
        return self


ScorePass = Literal["divide", "add_causal_mask", "where_causal", "mask_keys"]
MASK_PASSES: dict[str, tuple[ScorePass, ...]] = {
    "causal": ("add_causal_mask", "where_causal"),
    "padding": ("mask_keys",),
}
PreparePass = Literal["copy_q", "copy_k", "copy_v", "transpose_k", "scale_q", "scale_k"]


class NaiveChoices(BaseModel):
    """Choices of the three-kernel schedule.

    `tile_q` × `tile_kv` is an output tile of QKᵀ, whose main loop advances by `qk_step` of the head dim (all of it
    when None); `pv_tile_q` × `pv_tile_d` is one of PV (`tile_q` × head_dim when None), advancing by `pv_step` keys
    (`tile_kv` when None). At most `softmax_rows` rows make one CTA group of a pass over the scores. `prepare` lists the
    passes over Q, K and V that a framework runs first, `score_passes` those between QKᵀ and the softmax, which is one
    kernel or, written out in `passes`, five. 1/√d is multiplied in by a scale pass of `prepare`, by a "divide" over the
    scores, with `fold_scale` by a pass over Q of its own, else by the GEMM. A warp, or a warpgroup of wgmma, computes
    64 rows and `warp_cols` columns of an output tile; `tensor_path` is by which instructions, None the fastest of the
    GPU. With `accumulators` in smem, K (then V) stays in shared memory, Q, S, P and O pass in row tiles, and none of
    these passes runs.
    """

    model_config = STRICT

    tile_q: PositiveWhole
    tile_kv: PositiveWhole
    warps: PositiveWhole = 8
    stages: PositiveWhole = 2
    accumulators: Literal["smem", "registers"] = "registers"
    fold_scale: bool = False
    pv_tile_q: PositiveWhole | None = None
    pv_tile_d: PositiveWhole | None = None
    qk_step: PositiveWhole | None = None
    pv_step: PositiveWhole | None = None
    softmax_rows: PositiveWhole = 32
    prepare: tuple[PreparePass, ...] = ()
    score_passes: tuple[ScorePass, ...] = ()
    softmax: Literal["kernel", "passes"] = "kernel"
    warp_cols: PositiveWhole = 64
    tensor_path: TensorPath | None = None
    accumulator_bytes: PositiveWhole = 4
    ctas_per_sm: PositiveWhole | None = None

    @property
    def scaling_passes(self) -> tuple[str, ...]:
        """The passes that multiply 1/√d in."""
        return tuple(name for name in (*self.prepare, *self.score_passes) if name.startswith(("scale", "divide")))

    @property
    def masks(self) -> tuple[str, ...]:
        """Masks that are put on the scores; with accumulators in smem no pass runs over them."""
        if self.accumulators == "smem":
            return ()
        return tuple(mask for mask, names in MASK_PASSES.items() if set(names) & set(self.score_passes))

    @model_validator(mode="after")
    def _scale_once(self) -> Self:
        if len(self.scaling_passes) > 1:
            raise ValueError(f"{', '.join(self.scaling_passes)} scale by 1/√d more than once; keep one of them")
        for name, passes in (("prepare", self.prepare), ("score_passes", self.score_passes)):
            if len(set(passes)) < len(passes):
                raise ValueError(f"{name} = {list(passes)} names a pass twice; name each once")
        return self
