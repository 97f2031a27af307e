"""Peak device memory of one forward and backward call, from lists of buffers with lifetimes.

`training_memory.yaml` holds the lists and says which program they belong to. Not modelled: dropout, masks, grouped
heads, cross-attention, library workspaces and the allocator's rounding.
"""

from functools import cache
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, Field, ValidationError, model_validator

from gpusim.analytic import Footprint
from gpusim.dtypes import DType
from gpusim.errors import ConfigError
from gpusim.implementations.table import implementations
from gpusim.specs import Source
from gpusim.strict_yaml import STRICT, NonNegativeWhole, PositiveWhole, load_strict, problems_from, read_text
from gpusim.taskgraph import Role
from gpusim.workloads import AttentionWorkload

_FILE = Path(__file__).with_name("training_memory.yaml")

Text = Annotated[str, Field(min_length=1)]
Elements = Literal["qkv", "nd", "nn", "rows"]


class Buffer(Source):
    """One allocation: how many elements, and the first and last step at which it is alive.

    It exists only where seqlen is above `beyond_seqlen`.
    """

    name: Text
    elements: Elements
    dtype: Annotated[DType, Field(strict=False)] | None = None
    role: Annotated[Role, Field(strict=False)]
    from_: Text = Field(alias="from")
    to: Text
    beyond_seqlen: NonNegativeWhole = 0

    @property
    def is_extra(self) -> bool:
        """Whether it is neither passed in by the caller nor handed back."""
        return self.role in (Role.SAVED, Role.TEMPORARY)

    def size_bytes(self, workload: AttentionWorkload) -> int:
        """Bytes in this call; 0 where the buffer does not exist."""
        if workload.seqlen_q <= self.beyond_seqlen:
            return 0
        return _count(self.elements, workload) * (self.dtype or workload.dtype).size_bytes


def _count(elements: Elements, workload: AttentionWorkload) -> int:
    rows = workload.batch * workload.heads * workload.seqlen_q
    match elements:
        case "qkv":
            return 3 * rows * workload.head_dim
        case "nd":
            return rows * workload.head_dim
        case "nn":
            return rows * workload.seqlen_k
        case "rows":
            return rows


class BufferList(BaseModel):
    """Steps of a forward and backward call in order, and the buffers that live during them.

    `implementations` says for each implementation it stands for how that is known.
    """

    model_config = STRICT

    implementations: dict[str, Source]
    max_head_dim: PositiveWhole | None = None
    steps: list[Text]
    buffers: list[Buffer]

    @model_validator(mode="after")
    def _lives_are_spans_of_steps(self) -> Self:
        for buffer in self.buffers:
            for step in (buffer.from_, buffer.to):
                if step not in self.steps:
                    raise ValueError(f"buffer {buffer.name}: no step {step}; steps are {', '.join(self.steps)}")
            if self.steps.index(buffer.from_) > self.steps.index(buffer.to):
                raise ValueError(f"buffer {buffer.name}: lives from {buffer.from_} to {buffer.to}, which comes earlier")
        return self

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        for names in (self.steps, [buffer.name for buffer in self.buffers]):
            twice = {name for name in names if names.count(name) > 1}
            if twice:
                raise ValueError(f"{', '.join(sorted(twice))}: appears twice; keep one or rename it")
        return self

    def alive(self, step: str) -> list[Buffer]:
        """Buffers that exist during a step."""
        number = self.steps.index(step)
        return [
            buffer for buffer in self.buffers if self.steps.index(buffer.from_) <= number <= self.steps.index(buffer.to)
        ]

    def footprint(self, workload: AttentionWorkload) -> Footprint:
        """Memory at the step that needs most; of equal steps, the first."""
        return max((_sum(self.alive(step), workload) for step in self.steps), key=lambda memory: memory.peak_bytes)


def _sum(buffers: list[Buffer], workload: AttentionWorkload) -> Footprint:
    return Footprint(
        sum(buffer.size_bytes(workload) for buffer in buffers),
        sum(buffer.size_bytes(workload) for buffer in buffers if buffer.is_extra),
    )


class _TrainingMemory(BaseModel):
    model_config = STRICT

    lists: list[BufferList]


@cache
def buffer_lists() -> dict[str, BufferList]:
    """Buffer lists by implementation. Raises ConfigError when the shipped file is damaged."""
    content = load_strict(read_text(_FILE), _FILE.name)
    try:
        memory = _TrainingMemory.model_validate(content)
    except ValidationError as error:
        raise ConfigError(_FILE.name, problems_from(error, _TrainingMemory)) from None
    return {name: buffers for buffers in memory.lists for name in buffers.implementations}


def training_footprint(implementation: str, workload: AttentionWorkload) -> Footprint | None:
    """Peak device memory in bytes of a forward and backward call, whatever pass the workload names.

    `extra_bytes` is what of the peak is none of qkv, O and their gradients as the caller sees them; a new gradient that
    is not yet added to qkv.grad is extra. None where no list covers the implementation or the workload.
    """
    buffers = buffer_lists().get(implementation)
    if buffers is None or not _is_plain_self_attention(workload):
        return None
    if workload.dtype not in implementations()[implementation].dtypes:
        return None
    if buffers.max_head_dim is not None and workload.head_dim > buffers.max_head_dim:
        return None
    return buffers.footprint(workload)


def _is_plain_self_attention(workload: AttentionWorkload) -> bool:
    is_self = (workload.heads, workload.seqlen_q, workload.head_dim) == (
        workload.kv_heads,
        workload.seqlen_k,
        workload.head_dim_v,
    )
    is_masked = workload.causal or workload.window is not None or workload.mask != "none"
    return is_self and not is_masked and workload.dropout == 0
