"""Kernels as flat arrays, and how many keys and tiles they need, all by hand."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusim.dtypes import DType
from gpusim.engine.keys import first_keys, most_l2_nodes, num_keys
from gpusim.engine.lower import (
    AccessTable,
    Block,
    LoweredKernel,
    MainLoop,
    OuterLoop,
    Phase,
    Straight,
    StreamedLoad,
    access_table,
)
from gpusim.engine.tables import (
    END,
    LOOP_FIRST_LOAD,
    LOOP_NUM_LAST,
    MAIN_LOOP,
    NEXT_TRIP,
    OUTER_LOOP,
    STRAIGHT,
    Tables,
    flatten,
)
from gpusim.hardware import read_tiles, repeated_in_list, start_kernel, write_tiles
from gpusim.hardware.state import NODE_FIELDS, SIZE_BYTES, build_memory
from gpusim.specs import GpuSpec, load_gpu
from gpusim.taskgraph import Diagonal, Kernel, KernelBuilder, Role, TaskGraph, Tensor

W = AccessTable(0, 2, 1, 2, 0, 0, 0, 0, 1, begin=[0, 2], total=[48], offsets=[0, 1], sizes=[32, 16])
X = AccessTable(6, 2, 1, 3, 3, 0, 0, 0, 1, begin=[0, 1, 2, 3], total=[32, 32, 8], offsets=[0, 1, 2], sizes=[32, 32, 8])
Y = AccessTable(15, 2, 3, 1, 0, 0, 1, 0, 1, begin=[0, 1], total=[32], offsets=[0], sizes=[32])
KERNEL = KernelBuilder("by_hand", grid=[("m", 4), ("head", 3)], warps=1, compute_dtype=DType.FP16).build()

INNER = MainLoop(
    slot=4,
    trips=5,
    loads=(StreamedLoad(1, 2), StreamedLoad(0, 3)),
    phases=(Phase((0,), 70, (), (), 70), Phase((1,), 80, (0, 1), (2,), 95)),
    entry_ps=11,
    step_ps=12,
)
NO_MASK = [0] * 7  # no masked iterations at the end of a loop, and no diagonal that ends it
FIRST, MIDDLE, LAST = (Straight((1,), use_ps, ()) for use_ps in (1, 2, 3))


def flat(*blocks: Block) -> Tables:
    """The tables of a kernel on a 4 × 3 grid with loops at slots 3 and 4."""
    return flatten(LoweredKernel(blocks, (W, X, Y), 5), KERNEL, 8)


def test_a_two_level_loop_is_a_program_of_rows() -> None:
    """W, then three iterations with a body each around one inner loop, then the stores of Y.

    The lists that ranges point into: W's load, 0; X's load, 1; the inner loop's waits and issues by load number and its
    store, 0, 1, 0 1, 2; X's load again for the other two bodies; Y's store.
    """
    tables = flat(
        Straight((0,), 0, ()),
        OuterLoop(3, ((FIRST, INNER), (MIDDLE,), (LAST,))),
        Straight((), 9, (2, 2)),
    )
    assert [
        [STRAIGHT, 0, 1, 0, 1, 1, 0],  # row 0: one load; no time, no store
        [OUTER_LOOP, 3, 3, 2, 5, 7, 9],  # row 1: index slot 3, three trips, bodies at 2, 5 and 7, then row 9
        [STRAIGHT, 1, 2, 1, 2, 2, 0],
        [MAIN_LOOP, 0, 0, 0, 0, 0, 0],
        [NEXT_TRIP, 1, 0, 0, 0, 0, 0],
        [STRAIGHT, 7, 8, 2, 8, 8, 0],
        [NEXT_TRIP, 1, 0, 0, 0, 0, 0],
        [STRAIGHT, 8, 9, 3, 9, 9, 0],
        [NEXT_TRIP, 1, 0, 0, 0, 0, 0],
        [STRAIGHT, 9, 9, 9, 9, 11, 0],
        [END, 0, 0, 0, 0, 0, 0],
    ] == tables.program.tolist()
    assert [0, 1, 0, 1, 0, 1, 2, 1, 1, 2, 2] == tables.refs.tolist()
    assert [[4, 5, 11, 12, 0, 2, 0, 2, *NO_MASK]] == tables.loops.tolist()
    assert [[1, 2, 0], [0, 3, 2]] == tables.loads.tolist()  # access, stages, first arrival time
    assert [[70, 70, 2, 3, 3, 3, 3, 3], [80, 95, 3, 4, 4, 6, 6, 7]] == tables.phases.tolist()
    assert (5, 5, [4, 3]) == (tables.num_ready, tables.num_slots, tables.grid.tolist())


def test_accesses_share_one_list_of_tiles() -> None:
    """Blocks and tiles are counted over all accesses; each has one `begin` more than blocks."""
    tables = flat()
    assert [
        [0, 2, 1, 2, 0, 0, 0, 0, 1, 0, 1],
        [6, 2, 1, 3, 3, 0, 0, 0, 1, 2, 1],
        [15, 2, 3, 1, 0, 0, 1, 0, 1, 6, 1],
    ] == tables.accesses.tolist()
    assert [0, 2, 2, 3, 4, 5, 5, 6] == tables.begin.tolist()
    assert [48, 0, 32, 32, 8, 0, 32, 0] == tables.total.tolist()
    assert [0, 1, 0, 1, 2, 0] == tables.offsets.tolist()
    assert [32, 16, 32, 32, 8, 32] == tables.sizes.tolist()


def test_a_second_loop_counts_on() -> None:
    """Its loads, phases and arrival times come after those of the first, and its lists name its own loads."""
    tables = flat(INNER, INNER)
    assert [[0, 2, 0, 2], [2, 4, 2, 4]] == tables.loops[:, LOOP_FIRST_LOAD:LOOP_NUM_LAST].tolist()
    assert [0, 2, 5, 7] == tables.loads[:, 2].tolist()
    assert [0, 1, 0, 1, 2, 2, 3, 2, 3, 2] == tables.refs.tolist()
    assert 10 == tables.num_ready


def test_a_causal_loop_says_where_its_diagonal_and_its_masks_are() -> None:
    """The last two tiles are masked; values of index slot 1, in pairs, have 64 rows, 4 a query; tiles have 16 keys;
    shift 7."""
    diagonal = Diagonal("m", rows=64, cols=16, shift=7, group=2, packed=4)
    causal = replace(INNER, num_last=2, diagonal=diagonal, diagonal_slot=1)
    assert [[2, 1, 64, 16, 7, 2, 4]] == flat(causal).loops[:, LOOP_NUM_LAST:].tolist()


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (KERNEL, ([4, 3], [0, 0], 4, -1, 1, 0, True)),
        (replace(KERNEL, band=2, descending=("head",)), ([4, 3], [0, 1], 2, -1, 1, 0, True)),
        (replace(KERNEL, warpgroups=("m", 2)), ([2, 3], [0, 0], 2, 0, 2, 0, True)),
        (replace(KERNEL, scheduler="dynamic"), ([4, 3], [0, 0], 4, -1, 1, 0, False)),
        (replace(KERNEL, scheduler="static"), ([4, 3], [0, 0], 4, -1, 1, 8, False)),
    ],
)
def test_the_order_of_ctas_is_in_the_tables(kernel: Kernel, expected: tuple[object, ...]) -> None:
    """CTAs of each grid index, which of them run down, the band, whose values are warpgroups and how many, the stride
    of a static grid of 8 resident CTAs, and whether each CTA is launched."""
    tables = flatten(LoweredKernel((), (W, X, Y), 5), kernel, 8)
    order = (tables.band, tables.split, tables.warpgroups, tables.stride, tables.is_launched)
    assert expected == (tables.grid.tolist(), tables.descending.tolist(), *order)


def test_blocks_behind_a_tensor_are_empty() -> None:
    """Three tiles of 32, 32 and 16 B, and a fourth for a warpgroup that has no rows left."""
    tensor = Tensor("A", 1, 10, 4, DType.FP16, Role.INPUT, 4, 4)
    table = access_table(tensor.tile(row="m"), 0, {"head": 2, "m": 1}, {"head": 1, "m": 4})
    assert ([0, 1, 2, 3, 3], [32, 32, 16, 0]) == (table.begin, table.total)


@pytest.mark.parametrize(
    ("trips", "rows"),
    [(1, [1, 1, 1, 3]), (2, [1, 3, 3, 5]), (3, [1, 3, 5, 7]), (4, [1, 3, 5, 7])],
)
def test_a_body_that_repeats_is_written_once(trips: int, rows: list[int]) -> None:
    """Only the first, one middle and the last iteration can differ: one, two or three bodies, two rows each."""
    middle = ((MIDDLE,),)
    bodies = ((FIRST,),) if trips == 1 else ((FIRST,), *middle * (trips - 2), (LAST,))
    tables = flat(OuterLoop(3, bodies))
    assert [OUTER_LOOP, 3, trips, *rows] == tables.program[0].tolist()
    assert rows[-1] + 1 == len(tables.program)


def test_blocks_of_a_ragged_tensor_list_their_tiles_row_by_row() -> None:
    """5 × 6 numbers in tiles of 2 × 4, loaded as blocks of 2 × 1 tiles: rows 2 2 1, columns 4 2, 2 bytes each."""
    tensor = Tensor("A", 3, 5, 6, DType.FP16, Role.INPUT, 2, 4)
    table = access_table(tensor.tile(row="i", col=1, row_tiles=2), 7, {"head": 2, "i": 4}, {"head": 6, "i": 1})
    assert (7, 2, 2, 6) == (table.base, table.head_slot, table.heads_per_matrix, table.head_stride)
    assert (4, 0, 0, 1, 2) == (table.row_slot, table.first_row, table.col_slot, table.first_col, table.col_blocks)
    assert [0, 2, 4, 5, 6] == table.begin
    assert [0, 2, 1, 3, 4, 5] == table.offsets
    assert [16, 16, 8, 8, 8, 4] == table.sizes
    assert [32, 16, 8, 4] == table.total


def tensors(*shapes: tuple[int, int, int, int], heads: int = 1) -> TaskGraph:
    """One kernel that loads tensors of these rows, columns, tile rows and tile columns."""
    cta = KernelBuilder("reader", grid=[("head", heads)], warps=1, compute_dtype=DType.FP16)
    for number, (rows, cols, tile_rows, tile_cols) in enumerate(shapes):
        tensor = Tensor(f"T{number}", heads, rows, cols, DType.FP16, Role.INPUT, tile_rows, tile_cols)
        cta.load(tensor.tile(), cta.buffer(f"b{number}", tile_rows, tile_cols))
    return TaskGraph((cta.build(),))


def test_every_tile_of_every_head_has_a_key() -> None:
    """3 × 2 tiles of two heads, then 2 × 1: keys 0 to 11 and 12 to 15."""
    graph = tensors((5, 6, 2, 4), (4, 4, 2, 4), heads=2)
    assert ({"T0": 0, "T1": 12}, 16) == (first_keys(graph), num_keys(graph))


def with_l2(size_bytes: int, partitions: int = 1, knee: float = 0.0) -> GpuSpec:
    """An A100 with such an L2; lines have 16 B, two rows of the 4 × 4 tiles below."""
    a100 = load_gpu("a100_sxm4_40gb")
    changed = {"size_bytes": size_bytes, "partitions": partitions, "knee": knee, "line_bytes": 16}
    l2 = a100.memory.l2.model_copy(update=changed)
    return a100.model_copy(update={"memory": a100.memory.model_copy(update={"l2": l2})})


@pytest.mark.parametrize(
    ("shapes", "capacity", "held"),
    [
        ([(16, 4, 4, 4)], 64, 3),  # four tiles of 32 B: two fit, a third pushes one out
        ([(16, 4, 4, 4)], 63, 2),
        ([(16, 4, 4, 4)], 1_000, 4),  # all of them
        ([(16, 4, 4, 4)], 31, 1),  # none fits, one passes
        ([(9, 4, 4, 4)], 40, 3),  # 32, 32 and a ragged 8 B: 8 and 32 fit, the other passes
        ([(8, 4, 4, 4), (4, 4, 1, 4)], 40, 5),  # four of 8 B fit, and one of 32 B passes
    ],
)
def test_the_smallest_tiles_fill_a_cache_first(
    shapes: list[tuple[int, int, int, int]], capacity: int, held: int
) -> None:
    """As many as fit, and the one that is about to leave; a place more does no harm."""
    assert held <= most_l2_nodes(tensors(*shapes), with_l2(capacity).memory.l2) <= held + 1


def test_halves_of_two_sides_and_the_soft_end_need_more_entries() -> None:
    """Four tiles of 32 B in 64 B. Two sides of 32 B hold two halves and pass a third each; a line of 8 B is not halved.
    A knee of 0.5 adds six zones of a quarter of the size: 160 B hold all four."""
    graph = tensors((16, 4, 4, 4))
    assert 2 * 3 == most_l2_nodes(graph, with_l2(64, partitions=2).memory.l2)
    assert 2 * 4 == most_l2_nodes(tensors((4, 4, 1, 4)), with_l2(48, partitions=2).memory.l2)
    assert 4 == most_l2_nodes(graph, with_l2(64, knee=0.5).memory.l2)
    assert 0 == most_l2_nodes(graph, None)


dims = st.integers(1, 9)
shapes = st.lists(st.tuples(dims, dims, dims, dims), min_size=1, max_size=3)


@settings(max_examples=60, derandomize=True, deadline=None, database=None)
@given(
    shapes,
    st.integers(1, 2),
    st.integers(2, 120),
    st.integers(1, 2),
    st.sampled_from([0.0, 0.3]),
    st.randoms(use_true_random=False),
)
def test_no_walk_ever_needs_more_entries(
    sizes: list[tuple[int, int, int, int]], heads: int, capacity: int, partitions: int, knee: float, rng: object
) -> None:
    """Tiles that are read and written at random, or the smallest first: with room for the bound and 1,000 entries more,
    which are given out last, no more than the bound is ever used."""
    graph, spec = tensors(*sizes, heads=heads), with_l2(capacity, partitions, knee)
    tile_bytes = [
        2 * height * width
        for tensor in graph.tensors()
        for _ in range(heads)
        for height in tensor.tile().row_extents()
        for width in tensor.tile().col_extents()
    ]
    assert num_keys(graph) == len(tile_bytes)
    bound = most_l2_nodes(graph, spec.memory.l2)
    state = build_memory(spec, len(tile_bytes), bound + 1_000, repeated_in_list)
    start_kernel(state, spec.timings().hbm, efficiency=1.0, fill_bytes_per_s=1e12, footprint_bytes=0)
    smallest_first = sorted(range(len(tile_bytes)), key=lambda key: tile_bytes[key])
    shuffled = rng.sample(smallest_first, len(smallest_first))
    for number, key in enumerate((*smallest_first, *shuffled, *smallest_first)):
        size = tile_bytes[key]
        if rng.random() < 0.5:
            read_tiles(state, number, number % 2, 0, [key], [size], 0, 1, size)
        else:
            write_tiles(state, number, 0, [key], [size], 0, 1, size)
    assert [0] * 1_000 == state.nodes[bound * NODE_FIELDS + SIZE_BYTES :: NODE_FIELDS]
