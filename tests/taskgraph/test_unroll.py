"""Steps and dependencies of one CTA, worked out by hand."""

import pytest

from gpusim.dtypes import DType
from gpusim.taskgraph import Guard, Kernel, KernelBuilder, Role, Scale, Tensor, UnrolledCta, unroll

X = Tensor("X", 1, 8, 4, DType.FP16, Role.INPUT, 4, 4)
Y = Tensor("Y", 1, 8, 4, DType.FP16, Role.OUTPUT, 4, 4)
T = Tensor("T", 1, 4, 4, DType.FP16, Role.TEMPORARY, 4, 4)

LOAD_0, SCALE_0, STORE_0, LOAD_1, SCALE_1, STORE_1 = range(6)


def two_trips(stages: int) -> UnrolledCta:
    """for j in 0, 1: load X[j]; X *= 2; store Y[j]."""
    cta = KernelBuilder("two_trips", grid=[("head", 1)], warps=1, compute_dtype=DType.FP16)
    tile = cta.buffer("tile", 4, 4, stages=stages)
    with cta.loop("j", 2):
        cta.load(X.tile(row="j"), tile)
        cta.do("double", Scale(tile, 2.0))
        cta.store(tile, Y.tile(row="j"))
    return unroll(cta.build(), (0,))


def guarded(guard: Guard, trips: int) -> Kernel:
    """A loop whose middle task is guarded."""
    cta = KernelBuilder("guarded", grid=[("head", 1)], warps=1, compute_dtype=DType.FP16)
    tile = cta.buffer("tile", 4, 4)
    with cta.loop("j", trips):
        cta.load(X.tile(), tile)
        cta.do("double", Scale(tile, 2.0), guard)
        cta.store(tile, Y.tile())
    return cta.build()


def test_steps_follow_the_program() -> None:
    """Two iterations of three tasks, with their index values."""
    steps = two_trips(stages=1).steps
    assert ["load X", "double", "store Y"] * 2 == [step.task.name for step in steps]
    assert [{"head": 0, "j": 0}] * 3 + [{"head": 0, "j": 1}] * 3 == [dict(step.indices) for step in steps]


def test_one_stage_makes_the_next_load_wait_for_every_reader() -> None:
    """Read after write within an iteration; the second load waits for the last writer and the reader of the buffer."""
    within = {(LOAD_0, SCALE_0), (SCALE_0, STORE_0), (LOAD_1, SCALE_1), (SCALE_1, STORE_1)}
    between = {(SCALE_0, LOAD_1), (STORE_0, LOAD_1)}
    assert within | between == two_trips(stages=1).edges


def test_two_stages_leave_the_iterations_independent() -> None:
    """Each load has its own stage, so nothing connects the two iterations."""
    within = {(LOAD_0, SCALE_0), (SCALE_0, STORE_0), (LOAD_1, SCALE_1), (SCALE_1, STORE_1)}
    cta = two_trips(stages=2)
    assert within == cta.edges
    assert [0, 0, 0, 1, 1, 1] == [step.stages["tile"] for step in cta.steps]


def test_only_a_load_drops_the_old_content() -> None:
    """Scaling works on what is there; loading replaces it, in its stage."""
    overwrites = [step.overwrites for step in two_trips(stages=2).steps]
    assert [(("tile", 0),), (), (), (("tile", 1),), (), ()] == overwrites


def test_device_memory_that_is_stored_and_loaded_again_is_ordered() -> None:
    """store T, load T: the second waits for the first though they use different buffers."""
    cta = KernelBuilder("again", grid=[("head", 1)], warps=1, compute_dtype=DType.FP16)
    first, second = cta.buffer("first", 4, 4), cta.buffer("second", 4, 4)
    cta.load(X.tile(), first)
    cta.store(first, T.tile())
    cta.load(T.tile(), second)
    cta.store(second, Y.tile())
    assert {(0, 1), (1, 2), (2, 3)} == unroll(cta.build(), (0,)).edges


def test_a_block_of_tiles_conflicts_with_each_of_its_tiles() -> None:
    """A store of both tiles of Y waits for the stores of either."""
    cta = KernelBuilder("block", grid=[("head", 1)], warps=1, compute_dtype=DType.FP16)
    small, large = cta.buffer("small", 4, 4), cta.buffer("large", 8, 4)
    cta.load(X.tile(), small)
    cta.load(X.tile(row_tiles=2), large)
    cta.store(small, Y.tile(row=1))
    cta.store(large, Y.tile(row_tiles=2))
    assert {(0, 2), (1, 3), (2, 3)} == unroll(cta.build(), (0,)).edges


@pytest.mark.parametrize(
    ("when", "trips", "runs"),
    [
        ("first", 3, [0]),
        ("not_first", 3, [1, 2]),
        ("last", 3, [2]),
        ("not_last", 3, [0, 1]),
        ("first", 1, [0]),
        ("not_first", 1, []),
        ("last", 1, [0]),
        ("not_last", 1, []),
    ],
)
def test_guards_choose_iterations(when: str, trips: int, runs: list[int]) -> None:
    """First, last and the rest; a single iteration is both first and last."""
    steps = unroll(guarded(Guard("j", when), trips), (0,)).steps
    assert runs == [step.indices["j"] for step in steps if step.task.name == "double"]


def test_coordinates_run_with_the_first_index_fastest() -> None:
    """The dispatch order of a 2×3 grid."""
    cta = KernelBuilder("grid", grid=[("m", 2), ("head", 3)], warps=1, compute_dtype=DType.FP16)
    assert [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)] == list(cta.build().coordinates())
    assert 6 == cta.build().ctas


def test_grid_coordinates_become_indices() -> None:
    """The CTA at (1, 2) of a grid (m, head) has m = 1 and head = 2."""
    x = Tensor("X", 3, 8, 4, DType.FP16, Role.INPUT, 4, 4)
    cta = KernelBuilder("grid", grid=[("m", 2), ("head", 3)], warps=1, compute_dtype=DType.FP16)
    cta.load(x.tile(row="m"), cta.buffer("tile", 4, 4))
    (step,) = unroll(cta.build(), (1, 2)).steps
    assert {"m": 1, "head": 2} == dict(step.indices)
