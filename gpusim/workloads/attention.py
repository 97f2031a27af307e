"""The attention problem: O = softmax(Q Kᵀ / √d) V over a batch of heads."""

from typing import ClassVar, Literal, Self

from pydantic import BaseModel, Field, model_validator

from gpusim.dtypes import DType
from gpusim.strict_yaml import STRICT, PositiveWhole

Pass = Literal["fwd", "bwd", "fwd_bwd"]

PADDED_KEYS = 20  # a padding mask hides up to so many keys at a sequence's end, as in the FlashAttention-1 benchmark

_PASS_FLOP_FACTOR = {"fwd": 1.0, "bwd": 2.5, "fwd_bwd": 3.5}


class AttentionWorkload(BaseModel):
    """Shape, number format and options of one attention call.

    Q is (batch, heads, seqlen_q, head_dim); K and V have `kv_heads` heads and `seqlen_k` rows. Sizes are counts.
    `kv_heads` and `head_dim_v` follow `heads` and `head_dim` when they are not given; `mask` is "none" or the name
    of a mask; `window` is a sliding-window width or None. `save_lse` also writes log-sum-exp, 4 bytes a row and head.
    """

    model_config = STRICT
    title: ClassVar[str] = "attention"
    size_field: ClassVar[str] = "seqlen_k"

    batch: PositiveWhole
    heads: PositiveWhole
    kv_heads: PositiveWhole
    seqlen_q: PositiveWhole
    seqlen_k: PositiveWhole
    head_dim: PositiveWhole
    head_dim_v: PositiveWhole
    dtype: DType = Field(default=DType.FP16, strict=False)
    pass_: Pass = Field(default="fwd", alias="pass")
    causal: bool = False
    window: PositiveWhole | None = None
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    mask: str = "none"
    save_lse: bool = False

    @model_validator(mode="before")
    @classmethod
    def _follow_query_side(cls, values: object) -> object:
        if not isinstance(values, dict):
            return values
        filled = dict(values)
        for name, origin in (("kv_heads", "heads"), ("head_dim_v", "head_dim")):
            if filled.get(name) is None and origin in filled:
                filled[name] = filled[origin]
        return filled

    @model_validator(mode="after")
    def _heads_divide(self) -> Self:
        if self.heads % self.kv_heads:
            raise ValueError(
                f"heads = {self.heads} is not a multiple of kv_heads = {self.kv_heads}; change one of them"
            )
        return self

    @model_validator(mode="after")
    def _causal_has_its_own_field(self) -> Self:
        if self.mask == "causal":
            raise ValueError("mask = causal: a causal mask has a field of its own; write causal: true")
        return self

    @property
    def flops(self) -> int:
        """FLOPs by the convention of the published benchmarks: forward 4·B·H·Nq·Nk·d, halved when causal,
        backward 2.5 times that, both 3.5 times (Dao-AILab/flash-attention benchmark scripts)."""
        forward = 2 * self.batch * self.heads * self.seqlen_q * self.seqlen_k * (self.head_dim + self.head_dim_v)
        return round(forward * _PASS_FLOP_FACTOR[self.pass_] * (0.5 if self.causal else 1.0))

    @property
    def visible_scores(self) -> int:
        """Scores of all heads that a softmax needs: all or, causal, those up to the diagonal; the last query sees the
        last key. Padding, which hides up to 20 keys, is left out."""
        scores = self.seqlen_q * self.seqlen_k
        if self.causal:
            rows = min(self.seqlen_q, self.seqlen_k)  # from the last up they see all keys, all but one, …
            scores = rows * self.seqlen_k - rows * (rows - 1) // 2
        return self.batch * self.heads * scores

    @property
    def least_flops(self) -> int:
        """FLOPs that no schedule can leave out. With more queries than keys a causal mask hides more than the half that
        `flops` takes off."""
        visible = 2 * self.visible_scores * (self.head_dim + self.head_dim_v)
        return min(self.flops, round(visible * _PASS_FLOP_FACTOR[self.pass_]))

    @property
    def exps(self) -> int:
        """Exponentials of the forward softmax: one a visible score."""
        return self.visible_scores

    @property
    def input_bytes(self) -> int:
        """Bytes of Q, K and V."""
        rows = self.batch * self.heads * self.seqlen_q * self.head_dim
        kv_rows = self.batch * self.kv_heads * self.seqlen_k * (self.head_dim + self.head_dim_v)
        return (rows + kv_rows) * self.dtype.size_bytes

    @property
    def output_bytes(self) -> int:
        """Bytes of O, and of log-sum-exp (fp32, one a row and head) when it is saved."""
        rows = self.batch * self.heads * self.seqlen_q
        return rows * self.head_dim_v * self.dtype.size_bytes + (4 * rows if self.save_lse else 0)
