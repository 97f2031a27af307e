"""Each legality rule refuses the graph that breaks it, and says where."""

from dataclasses import replace

import pytest
from kernel_shapes import small_choices

from gpusim.dtypes import DType
from gpusim.errors import GraphError
from gpusim.schedules import SCHEDULES
from gpusim.taskgraph import (
    Buffer,
    Diagonal,
    Fill,
    Guard,
    Kernel,
    KernelBuilder,
    MatMul,
    Role,
    Scale,
    Space,
    TaskGraph,
    Tensor,
    check_graph,
)
from gpusim.taskgraph.program import Scheduler
from gpusim.workloads import AttentionWorkload


def tensor(name: str, role: Role, rows: int = 8) -> Tensor:
    """A column of tiles of 4 × 4."""
    return Tensor(name, 1, rows, 4, DType.FP16, role, 4, 4)


X, T, Y = tensor("X", Role.INPUT), tensor("T", Role.TEMPORARY), tensor("Y", Role.OUTPUT)


def builder(name: str = "bad", grid: list[tuple[str, int]] | None = None) -> KernelBuilder:
    """An empty kernel."""
    grid = [("m", 2), ("head", 1)] if grid is None else grid
    return KernelBuilder(name, grid=grid, warps=1, compute_dtype=DType.FP16)


def copy(name: str, src: Tensor, dst: Tensor) -> Kernel:
    """A kernel that copies one tensor to another, tile by tile."""
    cta = builder(name)
    tile = cta.buffer("tile", 4, 4)
    cta.load(src.tile(row="m"), tile)
    cta.store(tile, dst.tile(row="m"))
    return cta.build()


def problems(*kernels: Kernel) -> list[str]:
    """What the rules say about a graph of these kernels."""
    with pytest.raises(GraphError) as caught:
        check_graph(TaskGraph(kernels))
    return str(caught.value).splitlines()


def test_a_legal_graph_passes() -> None:
    """Copy through a temporary: every rule holds."""
    check_graph(TaskGraph((copy("one", X, T), copy("two", T, Y))))


@pytest.mark.parametrize("name", [name for name in SCHEDULES if SCHEDULES[name].workload is AttentionWorkload])
def test_every_schedule_of_attention_is_legal(name: str) -> None:
    """What ships passes the rules, ragged and with log-sum-exp."""
    workload = AttentionWorkload(batch=1, heads=2, seqlen_q=10, seqlen_k=7, head_dim=4, save_lse=True)
    check_graph(SCHEDULES[name].build(workload, small_choices(name), {}))


def test_the_grid_needs_a_head_index() -> None:
    """Without it no tile knows its matrix."""
    cta = builder(grid=[("m", 2)])
    tile = cta.buffer("tile", 4, 4)
    cta.load(X.tile(row="m"), tile)
    cta.store(tile, Y.tile(row="m"))
    assert ["bad: the grid has no 'head' index"] == problems(cta.build())


def test_a_buffer_has_to_be_declared() -> None:
    """A buffer that the kernel does not list would cost no shared memory."""
    stray = Buffer("stray", 4, 4, 2, Space.SMEM)
    cta = builder()
    cta.load(X.tile(row="m"), stray)
    cta.store(stray, Y.tile(row="m"))
    assert [
        "bad, load X: buffer stray is not declared",
        "bad, store Y: buffer stray is not declared",
    ] == problems(cta.build())


def test_a_buffer_has_to_be_written_before_it_is_read() -> None:
    """Storing a sum that nobody started."""
    cta = builder()
    total = cta.accumulator("total", 4, 4)
    cta.store(total, Y.tile(row="m"))
    assert ["bad, store Y: reads total before anything wrote it"] == problems(cta.build())


def test_a_sum_has_to_start_somewhere() -> None:
    """An accumulating product reads its output."""
    cta = builder()
    tile, total = cta.buffer("tile", 4, 4), cta.accumulator("total", 4, 4)
    cta.load(X.tile(row="m"), tile)
    cta.do("sum up", MatMul(tile, tile, total, accumulate=True))
    cta.store(total, Y.tile(row="m"))
    assert ["bad, sum up: reads total before anything wrote it"] == problems(cta.build())


def test_a_guard_names_an_index_that_exists() -> None:
    """A guard on a loop that is not there would never be decided."""
    cta = builder()
    tile = cta.buffer("tile", 4, 4)
    cta.load(X.tile(row="m"), tile)
    cta.do("double", Scale(tile, 2.0), Guard("j", "first"))
    cta.store(tile, Y.tile(row="m"))
    assert ["bad, double: guard names index j, which is no loop or grid index"] == problems(cta.build())


@pytest.mark.parametrize("axis", ["row", "col"])
def test_a_tile_names_an_index_that_exists(axis: str) -> None:
    """A tile at an unknown index has no address."""
    cta = builder()
    tile = cta.buffer("tile", 4, 4)
    cta.load(X.tile(**{axis: "j"}), tile)
    cta.store(tile, Y.tile(row="m"))
    assert ["bad, load X: tile of X uses index j, which is no loop or grid index"] == problems(cta.build())


def test_a_tile_fills_its_buffer() -> None:
    """Two tiles of four rows do not go into a buffer of four."""
    cta = builder()
    tile = cta.buffer("tile", 4, 4)
    cta.load(X.tile(row_tiles=2), tile)
    cta.store(tile, Y.tile(row="m"))
    assert ["bad, load X: a 8×4 tile does not fill buffer tile of 4×4"] == problems(cta.build())


@pytest.mark.parametrize(("transpose_b", "inner"), [(False, "3×4"), (True, "4×3")])
def test_product_shapes_agree(transpose_b: bool, inner: str) -> None:
    """4×4 times 3×4 has no inner dimension, and times its transpose gives 4×3, not 4×4."""
    cta = builder()
    a, b, out = cta.buffer("a", 4, 4), cta.buffer("b", 3, 4), cta.accumulator("out", 4, 4)
    cta.load(X.tile(row="m"), a)
    cta.do("b = 0", Fill(b, 0.0))
    cta.do("multiply", MatMul(a, b, out, transpose_b=transpose_b))
    cta.store(out, Y.tile(row="m"))
    assert [f"bad, multiply: shapes 4×4 · {inner} do not give 4×4"] == problems(cta.build())


def test_a_kernel_reads_only_what_an_earlier_one_wrote() -> None:
    """The temporary is written one kernel too late."""
    assert ["two: reads T before any kernel wrote it"] == problems(copy("two", T, Y), copy("one", X, T))


def test_inputs_are_never_written() -> None:
    """A caller's Q, K and V stay what they are."""
    assert ["bad: writes the input X"] == problems(copy("good", X, Y), copy("bad", X, X))


def test_a_name_means_one_tensor() -> None:
    """Two cuts of one tensor would be two sets of cache entries."""
    assert ["two: two different tensors are called X"] == problems(
        copy("one", X, Y), copy("two", tensor("X", Role.INPUT, rows=12), Y)
    )


def test_an_index_stays_inside_the_tensor() -> None:
    """Three iterations over a tensor of two tiles would leave it."""
    cta = builder(grid=[("head", 1)])
    tile = cta.buffer("tile", 4, 4)
    with cta.loop("j", 3):
        cta.load(X.tile(row="j"), tile)
    cta.store(tile, Y.tile())
    assert any("bad, load X" in problem for problem in problems(cta.build()))


def test_rows_and_columns_follow_different_indices() -> None:
    """A walk along the diagonal is no product of rows and columns, and could not be summed in closed form."""
    square = Tensor("X", 1, 8, 8, DType.FP16, Role.INPUT, 4, 4)
    cta = builder()
    tile = cta.buffer("tile", 4, 4)
    cta.load(square.tile(row="m", col="m"), tile)
    cta.store(tile, Y.tile(row="m"))
    assert any("bad, load X" in problem for problem in problems(cta.build()))


def test_a_buffer_name_means_one_buffer() -> None:
    """Readers know buffers by name."""
    cta = builder()
    first, second = cta.buffer("tile", 4, 4), cta.buffer("tile", 8, 4)
    cta.load(X.tile(), first)
    cta.load(X.tile(row_tiles=2), second)
    cta.store(first, Y.tile())
    assert any("bad" in problem and "tile" in problem for problem in problems(cta.build()))


def copied_by_three_heads(src_heads: int, dst_heads: int) -> Kernel:
    """A kernel of three heads that copies tensors of these many matrices."""
    cta = builder(grid=[("m", 2), ("head", 3)])
    tile = cta.buffer("tile", 4, 4)
    cta.load(replace(X, heads=src_heads).tile(row="m"), tile)
    cta.store(tile, replace(Y, heads=dst_heads).tile(row="m"))
    return cta.build()


@pytest.mark.parametrize("src_heads", [1, 3])
def test_one_matrix_may_be_read_by_every_head(src_heads: int) -> None:
    """Three heads of CTAs read a matrix each, or all the same one."""
    check_graph(TaskGraph((copied_by_three_heads(src_heads, 3),)))


@pytest.mark.parametrize(
    ("src_heads", "dst_heads", "problem"),
    [
        (2, 3, "bad, load X: the grid has 3 heads, but X has 2"),
        (3, 2, "bad, store Y: the grid has 3 heads, but Y has 2"),
        (3, 1, "bad, store Y: the grid has 3 heads, but Y has 1"),
    ],
)
def test_the_grid_has_as_many_heads_as_its_tensors(src_heads: int, dst_heads: int, problem: str) -> None:
    """Neither fewer nor more; a matrix that three heads write would hold whichever came last."""
    assert [problem] == problems(copied_by_three_heads(src_heads, dst_heads))


def test_all_problems_arrive_together() -> None:
    """One error lists every broken rule."""
    cta = builder(grid=[("m", 2)])
    total = cta.accumulator("total", 4, 4)
    cta.store(total, X.tile(row="k"))
    assert 4 == len(problems(cta.build()))


def test_bands_need_a_second_index() -> None:
    """There is no second index to move on where a grid has one."""
    assert ["bad: bands need a grid of two indices"] == problems(replace(product_of_one_index(), band=2))


def product_of_one_index() -> Kernel:
    """A copy whose grid has nothing but heads."""
    cta = builder(grid=[("head", 1)])
    tile = cta.buffer("tile", 4, 4)
    cta.load(X.tile(), tile)
    cta.store(tile, Y.tile())
    return cta.build()


def test_what_descends_is_an_index_of_the_grid() -> None:
    """Loops always ascend."""
    expected = ["bad: j is to descend, but is no grid index"]
    assert expected == problems(replace(product_of_one_index(), descending=("j",)))


def test_a_diagonal_belongs_to_an_index_of_the_grid() -> None:
    """Otherwise nothing says which rows a CTA has."""
    cta = builder(grid=[("head", 1)])
    tile = cta.buffer("tile", 4, 4)
    with cta.loop("j", 2, Diagonal("m", rows=4, cols=4, shift=0)):
        cta.load(X.tile(row="j"), tile)
        cta.store(tile, Y.tile(row="j"))
    assert ["bad: loop j ends with m, which is no grid index"] == problems(cta.build())


def test_warpgroups_divide_their_index() -> None:
    """Two query tiles cannot be shared out in CTAs of three."""
    kernel = replace(copy("bad", X, Y), warpgroups=("m", 3))
    assert ["bad: 3 warpgroups a CTA do not divide the 2 values of m"] == problems(kernel)


@pytest.mark.parametrize("scheduler", ["dynamic", "static"])
def test_warpgroups_of_a_persistent_cta_share_a_stream(scheduler: Scheduler) -> None:
    """Without one, nothing keeps a warpgroup from running away from the others; hardware waits for all of a CTA."""
    kernel = replace(copy("bad", X, Y), warpgroups=("m", 2))
    check_graph(TaskGraph((kernel,)))
    assert ["bad: nothing keeps the warpgroups of a persistent CTA together, as no loop loads anything"] == problems(
        replace(kernel, scheduler=scheduler)
    )


@pytest.mark.parametrize(("values", "is_legal"), [(2, True), (4, True), (6, False)])
def test_only_the_last_cta_may_have_warpgroups_without_rows(values: int, is_legal: bool) -> None:
    """Three tiles for pairs of warpgroups are two CTAs, whose last warpgroup has nothing to do; no third."""
    src, dst = tensor("X", Role.INPUT, rows=12), tensor("Y", Role.OUTPUT, rows=12)
    cta = builder(grid=[("m", values), ("head", 1)])
    tile = cta.buffer("tile", 4, 4)
    cta.load(src.tile(row="m"), tile)
    cta.store(tile, dst.tile(row="m"))
    kernel = cta.build(warpgroups=("m", 2))
    if is_legal:
        check_graph(TaskGraph((kernel,)))
    else:
        load, store = problems(kernel)
        assert load.startswith("bad, load X: tile of X reaches block 5")
        assert store.startswith("bad, store Y: tile of Y reaches block 5")
