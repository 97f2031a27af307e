"""Single kernels from their name to a graph: tiles, CTAs in flight, and what is refused in which words."""

from collections.abc import Mapping

import pytest

from gpusim.errors import DoesNotFitError, ScenarioError, UnsupportedError
from gpusim.implementations import implementations, names_that_compute, parse_request, plan
from gpusim.implementations.gemm_planner import GemmShape, quickest_kernel
from gpusim.schedules import SCHEDULES, Choices
from gpusim.specs import load_gpu
from gpusim.workloads import (
    AttentionWorkload,
    CacheReadWorkload,
    ChaseWorkload,
    GemmWorkload,
    RowsWorkload,
    StreamWorkload,
    Workload,
)

A100, H100, L40S, CANVAS = (load_gpu(name) for name in ("a100_sxm4_40gb", "h100_sxm5_80gb", "l40s", "canvas"))
ATTENTION = AttentionWorkload(batch=1, heads=1, seqlen_q=64, seqlen_k=64, head_dim=64)
PRODUCT = GemmWorkload(m=4096, n=4096, k=512)
ROWS = RowsWorkload(rows=4096, cols=4096)
COPY = StreamWorkload(elements=1 << 20, loads=1, stores=1)
CHASE = ChaseWorkload(footprint_bytes=1 << 20)
READS = CacheReadWorkload(footprint_bytes=1 << 20, part_bytes=1 << 16)


def choices(written: object, workload: Workload, gpu: str = "a100_sxm4_40gb") -> Choices:
    """What the plan of a request uses."""
    return plan(parse_request(written, "test"), load_gpu(gpu), workload).choices


@pytest.mark.parametrize("gpu", ["a100_sxm4_40gb", "h100_sxm5_80gb"])
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_a_product_takes_the_quickest_tile_of_its_library(gpu: str, dtype: str) -> None:
    """With the shape's share of the rate; a step of the main loop is one line: 64 numbers of 2 bytes or 32 of 4."""
    workload, spec = GemmWorkload(m=4096, n=4096, k=512, dtype=dtype), load_gpu(gpu)
    cost = implementations()["torch_matmul"].kernel_costs(spec, workload)["gemm"]
    tile = quickest_kernel(spec, cost, GemmShape(4096, 4096, 512, 1, workload.dtype), cluster=2).tile
    stages = 2 if dtype == "fp32" else {"a100_sxm4_40gb": 3, "h100_sxm5_80gb": 4}[gpu]
    planned = plan(parse_request("torch_matmul", "test"), spec, workload)
    asked = planned.choices
    assert (tile.rows, tile.cols, 64 if dtype == "bf16" else 32, stages) == (
        asked.tile_m,
        asked.tile_n,
        asked.tile_k,
        asked.stages,
    )
    (kernel,) = planned.graph.kernels
    assert cost.matmul_efficiency * tile.efficiency == kernel.cost.matmul_efficiency


@pytest.mark.parametrize(("gpu", "ctas"), [("a100_sxm4_40gb", 1), ("h100_sxm5_80gb", 2)])
def test_a_library_pins_the_residency_of_its_products(gpu: str, ctas: int) -> None:
    """One CTA an SM on A100, two on H100; stated tiles are no kernel of the library and take what fits."""
    assert ctas == choices("torch_matmul", PRODUCT, gpu).ctas_per_sm
    assert choices({"name": "torch_matmul", "tile_m": 64, "tile_n": 64}, PRODUCT, gpu).ctas_per_sm is None


def test_stated_sides_win_over_the_quickest_tile() -> None:
    """One may be stated alone; the point is custom."""
    request = parse_request({"name": "torch_matmul", "tile_n": 32}, "test")
    planned = plan(request, A100, PRODUCT)
    assert (32, "custom", "gemm") == (planned.choices.tile_n, planned.implementation, planned.schedule)


def test_a_short_inner_dimension_is_one_step() -> None:
    """K = 40 needs no step of 64."""
    assert 40 == choices("torch_matmul", GemmWorkload(m=64, n=64, k=40)).tile_k


def test_a_gpu_without_a_table_of_products_wants_tiles() -> None:
    """Ada has no constants; stated tiles run on ideal units."""
    with pytest.raises(UnsupportedError) as caught:
        plan(parse_request("torch_matmul", "test"), L40S, PRODUCT)
    assert "torch_matmul has no tile table for ada (compute capability 8.9)" == caught.value.reason
    assert "state tiles, as in {name: torch_matmul, tile_m: 128, tile_n: 128}" == caught.value.fix
    plan(parse_request({"name": "torch_matmul", "tile_m": 128, "tile_n": 128}, "test"), L40S, PRODUCT)


def test_a_tile_that_fits_is_named() -> None:
    """Two stages of (512 + 256) · 64 · 2 B are 196,608 B of 166,912 B. One stage fits, but 8 warps have 65,280
    registers for sums, so 512 × 128 and 256 × 256 are too many and 256 × 128 is the largest tile."""
    request = parse_request({"name": "torch_matmul", "tile_m": 512, "tile_n": 256}, "test")
    with pytest.raises(DoesNotFitError) as caught:
        plan(request, A100, PRODUCT)
    assert "196,608 B" in caught.value.reason
    assert "lower tile_m, tile_n or stages; tile_m: 256, tile_n: 128, stages: 2 fits" == caught.value.fix


def test_a_tile_of_a_product_is_whole_matrix_instructions() -> None:
    """m16n8k16: rows in multiples of 16, columns of 8; the nearest tile below 40 × 20 is 32 × 16."""
    with pytest.raises(
        DoesNotFitError, match="tile_m = 40 is no multiple of 16 and tile_n = 20 is no multiple of 8"
    ) as caught:
        plan(parse_request({"name": "torch_matmul", "tile_m": 40, "tile_n": 20}, "test"), A100, PRODUCT)
    assert "use such multiples; tile_m: 32, tile_n: 16, stages: 2 fits" == caught.value.fix
    assert 24 == choices({"name": "torch_matmul", "tile_m": 32, "tile_n": 24}, PRODUCT).tile_n


def test_a_stated_residency_of_a_product_is_no_more_than_the_sm_holds() -> None:
    """64 × 64 tiles of two stages take 32 KiB and 1 KiB reserved: four in 164 KiB."""
    tiles = {"name": "torch_matmul", "tile_m": 64, "tile_n": 64}
    with pytest.raises(DoesNotFitError, match=r"holds 4, limited by shared memory"):
        plan(parse_request(tiles | {"ctas_per_sm": 9}, "test"), A100, PRODUCT)
    assert 4 == choices(tiles | {"ctas_per_sm": 4}, PRODUCT).ctas_per_sm


@pytest.mark.parametrize(
    ("dtype", "cols", "cta_rows", "ctas_per_sm", "row_reads"),
    [
        ("fp16", 128, 8, 16, 1),  # two rows a warp of four
        ("fp16", 1024, 4, 16, 1),
        ("fp16", 2048, 1, 16, 3),  # 128 threads
        ("fp16", 4096, 1, 8, 3),  # 256
        ("fp16", 16384, 1, 4, 3),  # 512
        ("fp32", 4096, 1, 4, 3),  # 512: half as many numbers a vector
        ("fp32", 65536, 1, 4, 3),
    ],
)
def test_rows_in_flight_are_those_of_the_real_softmax(
    dtype: str, cols: int, cta_rows: int, ctas_per_sm: int, row_reads: int
) -> None:
    """2,048 threads an SM: CTAs of four warps for short rows, of half the row's vectors of 16 bytes for long ones."""
    asked = choices("torch_softmax", RowsWorkload(rows=1000, cols=cols, dtype=dtype))
    assert (cta_rows, ctas_per_sm, row_reads, 1) == (
        asked.cta_rows,
        asked.ctas_per_sm,
        asked.row_reads,
        asked.grain,
    )


def test_cycles_of_a_long_row_are_shared_out_over_its_reads() -> None:
    """0.556 clocks a score in all."""
    for cols, reads in ((1024, 1), (2048, 3)):
        graph = plan(parse_request("torch_softmax", "test"), A100, RowsWorkload(rows=8, cols=cols)).graph
        assert 0.556 == pytest.approx(reads * graph.kernels[0].cost.softmax_cycles_per_score)


@pytest.mark.parametrize(
    ("rows", "cols", "group_rows"),
    [
        (1, 512, 1),
        (108, 512, 1),  # one row an SM
        (200, 512, 2),  # two groups of one row each would leave no SM with fewer
        (108 * 16, 512, 16),  # 16 KiB, half of the vectors of 2,048 threads
        (100_000, 16384, 1),  # a row of 32 KiB
    ],
)
def test_a_pass_has_a_vector_a_thread_in_flight_on_every_sm(rows: int, cols: int, group_rows: int) -> None:
    """Two groups an SM, of rows that every SM has about as many of."""
    assert group_rows == choices("torch_elementwise", RowsWorkload(rows=rows, cols=cols)).group_rows


@pytest.mark.parametrize(
    ("name", "pattern", "kernel_name", "cycles"),
    [
        ("torch_elementwise", "contiguous", "scale", None),
        ("torch_broadcast_add", "broadcast", "add_row", 0.771),
        ("torch_strided_copy", "strided", "copy", 0.70),
        ("torch_transpose_copy", "transposed", "transpose", 1.5),
    ],
)
def test_passes_have_the_constants_of_the_library(
    name: str, pattern: str, kernel_name: str, cycles: float | None
) -> None:
    """Clocks an element where index arithmetic holds the SM."""
    planned = plan(parse_request(name, "test"), A100, ROWS)
    (kernel,) = planned.graph.kernels
    assert (pattern, kernel_name) == (planned.choices.pattern, kernel.name)
    assert (cycles, 0.957) == (kernel.cost.elementwise_cycles_per_element, kernel.cost.hbm_efficiency)


@pytest.mark.parametrize(
    ("workload", "said", "fix"),
    [
        (
            COPY.model_copy(update={"threads_per_cta": 2048}),
            "threads_per_cta is 2,048 but a CTA on a100_sxm4_40gb has at most 1,024",
            "lower threads_per_cta",
        ),
        (
            COPY.model_copy(update={"ctas_per_sm": 3}),
            "ctas_per_sm is 3 but an SM of a100_sxm4_40gb holds 2 CTAs of 1,024 threads",
            "ask for at most 2",
        ),
        (
            COPY.model_copy(update={"ctas_per_sm": 33, "threads_per_cta": 32}),
            "ctas_per_sm is 33 but an SM of a100_sxm4_40gb holds 32 CTAs of 32 threads",
            "ask for at most 32",
        ),
    ],
)
def test_a_stream_that_no_sm_holds_is_refused(workload: StreamWorkload, said: str, fix: str) -> None:
    """Threads of a CTA, threads of an SM, CTA slots."""
    with pytest.raises(DoesNotFitError) as caught:
        plan(parse_request("stream", "test"), A100, workload)
    assert (said, fix) == (caught.value.reason, caught.value.fix)


def test_more_parts_than_ctas_are_refused() -> None:
    """216 CTAs cannot read 256 parts: 4 MiB over 216 are 19,418.07 B."""
    with pytest.raises(UnsupportedError) as caught:
        plan(parse_request("cache_read", "test"), A100, CacheReadWorkload(footprint_bytes=1 << 22, part_bytes=1 << 14))
    assert caught.value.reason == (
        "the set of 4,194,304 B has 256 parts of 16,384 B, but a100_sxm4_40gb has 216 CTAs to read them"
    )
    assert "ask for part_bytes of at least 19,419" == caught.value.fix


@pytest.mark.parametrize(
    ("name", "workload"),
    [(name, w) for w in (PRODUCT, ROWS, COPY, CHASE, READS) for name in names_that_compute(type(w))],
)
def test_what_passes_through_registers_needs_some(name: str, workload: Workload) -> None:
    """The toy has none."""
    with pytest.raises(UnsupportedError, match="canvas has no register file"):
        plan(parse_request(name, "test"), CANVAS, workload)


@pytest.mark.parametrize(
    ("name", "workload", "said"),
    [
        ("torch_matmul", ATTENTION, "torch_matmul computes a matrix product, not attention"),
        ("flash2", PRODUCT, "flash2 computes attention, not a matrix product"),
        ("stream", CHASE, "stream computes a stream, not a pointer chase"),
        ("pointer_chase", READS, "pointer_chase computes a pointer chase, not reads of a cache"),
        ("torch_softmax", COPY, "torch_softmax computes a pass over rows, not a stream"),
    ],
)
def test_the_wrong_kind_of_workload_is_refused_with_names_of_the_right(
    name: str, workload: Workload, said: str
) -> None:
    """A schedule computes one kind."""
    with pytest.raises(UnsupportedError) as caught:
        plan(parse_request(name, "test"), A100, workload)
    assert said == caught.value.reason
    named = caught.value.fix.removeprefix("use one of ").split(", ")
    assert named == names_that_compute(type(workload))


def test_every_kind_of_workload_has_an_implementation() -> None:
    """And every schedule is used by one."""
    kinds = [type(workload) for workload in (ATTENTION, PRODUCT, ROWS, COPY, CHASE, READS)]
    assert all(names_that_compute(kind) for kind in kinds)
    assert set(SCHEDULES) == {known.schedule for known in implementations().values()}


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({"name": "stream", "num_sms": 4}, "schedule stream, num_sms: the machine states it; leave it out"),
        ({"name": "torch_matmul", "tile_q": 64}, "schedule torch_matmul, tile_q: unknown key"),
        ({"name": "torch_elementwise", "pattern": "diagonal"}, "pattern: got 'diagonal', expected one of contiguous"),
        ({"name": "torch_softmax", "row_reads": 2}, "schedule torch_softmax, row_reads: got 2, expected one of 1, 3"),
        ({"name": "torch_elementwise", "group_rows": 0}, "group_rows: got 0, expected a whole number greater than 0"),
    ],
)
def test_choices_of_single_kernels_are_checked(written: Mapping[str, object], said: str) -> None:
    """Before any GPU is known; what the table fills in is not missed."""
    with pytest.raises(ScenarioError) as caught:
        parse_request(written, "test")
    assert said in str(caught.value)
    assert 1 == len(caught.value.problems)


@pytest.mark.parametrize(("batch", "k"), [(2, 256), (1, 258)])
def test_a_split_is_of_one_product_and_by_a_divisor_of_k(batch: int, k: int) -> None:
    """Parts of several products, or unequal parts, are not what libraries run."""
    workload = GemmWorkload(batch=batch, m=256, n=256, k=k)
    with pytest.raises(UnsupportedError, match=rf"split_k is 4, but there are {batch} products of k = {k}; split one"):
        plan(parse_request({"name": "torch_matmul", "split_k": 4}, "test"), load_gpu("a100_sxm4_80gb"), workload)
