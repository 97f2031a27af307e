"""Single kernels to measure a machine with: matrix products, passes over rows, streams, and reads of a small set.

They tell whether the machine is right before attention is asked of it. `title` says in words what a kind of workload
is; `size_field` names the field that a sweep is drawn against.
"""

from typing import ClassVar, Self

from pydantic import BaseModel, Field, model_validator

from gpusim.dtypes import DType
from gpusim.strict_yaml import STRICT, PositiveWhole

STREAM_ELEMENT_BYTES = 8  # the stream benchmarks move fp64
LINE_BYTES = 128  # what a hop of a pointer chase fetches


class GemmWorkload(BaseModel):
    """C = A · B for `batch` matrices: A is m × k, B is k × n, C is m × n; sizes are counts."""

    model_config = STRICT
    title: ClassVar[str] = "a matrix product"
    size_field: ClassVar[str] = "m"
    exps: ClassVar[int] = 0

    batch: PositiveWhole = 1
    m: PositiveWhole
    n: PositiveWhole
    k: PositiveWhole
    dtype: DType = Field(default=DType.FP16, strict=False)

    @property
    def flops(self) -> int:
        """Two a multiply-add."""
        return 2 * self.batch * self.m * self.n * self.k

    @property
    def input_bytes(self) -> int:
        """Bytes of A and B."""
        return self.batch * (self.m * self.k + self.k * self.n) * self.dtype.size_bytes

    @property
    def output_bytes(self) -> int:
        """Bytes of C."""
        return self.batch * self.m * self.n * self.dtype.size_bytes


class RowsWorkload(BaseModel):
    """A pass that reads a matrix of rows × cols numbers and writes one like it: softmax, copy, add, …"""

    model_config = STRICT
    title: ClassVar[str] = "a pass over rows"
    size_field: ClassVar[str] = "cols"
    flops: ClassVar[int] = 0
    exps: ClassVar[int] = 0

    rows: PositiveWhole
    cols: PositiveWhole
    dtype: DType = Field(default=DType.FP16, strict=False)

    @property
    def input_bytes(self) -> int:
        """Bytes of the matrix."""
        return self.rows * self.cols * self.dtype.size_bytes

    @property
    def output_bytes(self) -> int:
        """Bytes of the result."""
        return self.input_bytes


class StreamWorkload(BaseModel):
    """Arrays of `elements` numbers of 8 bytes that pass once, `loads` of them read and `stores` written.

    Every thread has one number of each array in flight; `threads_per_cta` and `ctas_per_sm` say how many threads there
    are. So bandwidth is seen against occupancy.
    """

    model_config = STRICT
    title: ClassVar[str] = "a stream"
    size_field: ClassVar[str] = "elements"
    dtype: ClassVar[DType] = DType.FP32
    flops: ClassVar[int] = 0
    exps: ClassVar[int] = 0

    elements: PositiveWhole
    loads: int = Field(ge=0, le=5)
    stores: int = Field(ge=0, le=1)
    threads_per_cta: PositiveWhole = 1024
    ctas_per_sm: PositiveWhole = 2

    @model_validator(mode="after")
    def _moves_something(self) -> Self:
        if self.loads + self.stores == 0:
            raise ValueError("loads = 0 and stores = 0 move nothing; raise one of them")
        return self

    @property
    def input_bytes(self) -> int:
        """Bytes of the arrays that are read."""
        return self.loads * self.elements * STREAM_ELEMENT_BYTES

    @property
    def output_bytes(self) -> int:
        """Bytes of the arrays that are written."""
        return self.stores * self.elements * STREAM_ELEMENT_BYTES


class ChaseWorkload(BaseModel):
    """A pointer chase by one thread: each of `hops` reads one line of a set of `footprint_bytes` and waits for it.

    Latency a hop is the point's latency over `hops`; with `cache: warm` the set was walked once before.
    """

    model_config = STRICT
    title: ClassVar[str] = "a pointer chase"
    size_field: ClassVar[str] = "footprint_bytes"
    dtype: ClassVar[DType] = DType.FP32
    flops: ClassVar[int] = 0
    exps: ClassVar[int] = 0
    output_bytes: ClassVar[int] = 0

    footprint_bytes: PositiveWhole
    hops: PositiveWhole = 4096

    @property
    def input_bytes(self) -> int:
        """Bytes that the hops ask for, or those of the set where it is smaller."""
        return min(self.footprint_bytes, self.hops * LINE_BYTES)


class CacheReadWorkload(BaseModel):
    """CTAs that read parts of one set over and over: bandwidth of a cache against the size of the set.

    The set of `footprint_bytes` is cut into parts of `part_bytes`. Every CTA reads its part `rounds` times; where there
    are more CTAs than parts, neighbours share one.
    """

    model_config = STRICT
    title: ClassVar[str] = "reads of a cache"
    size_field: ClassVar[str] = "footprint_bytes"
    dtype: ClassVar[DType] = DType.FP32
    flops: ClassVar[int] = 0
    exps: ClassVar[int] = 0
    output_bytes: ClassVar[int] = 0

    footprint_bytes: PositiveWhole
    part_bytes: PositiveWhole
    rounds: PositiveWhole = 8
    ctas_per_sm: PositiveWhole = 2

    @property
    def input_bytes(self) -> int:
        """Bytes of the set."""
        return self.footprint_bytes
