"""What nobody needs any more becomes NaN, so that using it shows."""

import math
import random

import numpy as np
import pytest

from gpusim.dtypes import DType
from gpusim.numeric import execute
from gpusim.taskgraph import Fill, Kernel, KernelBuilder, Role, TaskGraph, Tensor, UnrolledCta, unroll


def tensor(name: str, role: Role) -> Tensor:
    """A 2 × 2 matrix."""
    return Tensor(name, 1, 2, 2, DType.FP16, role, 2, 2)


X, T, Y, Z = (
    tensor("X", Role.INPUT),
    tensor("T", Role.TEMPORARY),
    tensor("Y", Role.OUTPUT),
    tensor("Z", Role.OUTPUT),
)
INPUTS = {"X": np.array([[[1.0, 2.0], [3.0, 4.0]]])}


def copy(name: str, src: Tensor, dst: Tensor) -> Kernel:
    """A kernel that copies one tensor to another."""
    cta = KernelBuilder(name, grid=[("head", 1)], warps=1, compute_dtype=DType.FP16)
    tile = cta.buffer("tile", 2, 2)
    cta.load(src.tile(), tile)
    cta.store(tile, dst.tile())
    return cta.build()


def test_a_temporary_carries_its_values_to_the_next_kernel() -> None:
    """X → T → Y hands the numbers on."""
    output = execute(TaskGraph((copy("one", X, T), copy("two", T, Y))), INPUTS)
    np.testing.assert_array_equal(INPUTS["X"], output["Y"])


def test_a_temporary_is_nan_before_anything_is_written() -> None:
    """Reading T before the kernel that writes it gives NaN, not zeros."""
    output = execute(TaskGraph((copy("early", T, Y), copy("late", X, T))), INPUTS)
    assert np.isnan(output["Y"]).all()


def test_a_temporary_is_nan_after_its_last_kernel() -> None:
    """Kernel three reads T behind the graph's back, after the last kernel that names T: it finds NaN."""
    graph = TaskGraph((copy("one", X, T), copy("two", T, Y), copy("three", X, Z)))
    behind_the_back = copy("three", T, Z)

    def unroller(kernel: Kernel, coordinates: tuple[int, ...]) -> UnrolledCta:
        return unroll(behind_the_back if kernel.name == "three" else kernel, coordinates)

    output = execute(graph, INPUTS, unroller=unroller)
    np.testing.assert_array_equal(INPUTS["X"], output["Y"])
    assert np.isnan(output["Z"]).all()


def test_a_temporary_lives_while_a_later_kernel_names_it() -> None:
    """The same read, declared: T is kept for kernel three."""
    output = execute(TaskGraph((copy("one", X, T), copy("two", T, Y), copy("three", T, Z))), INPUTS)
    np.testing.assert_array_equal(INPUTS["X"], output["Z"])


def test_a_buffer_that_a_step_overtakes_is_nan_not_stale() -> None:
    """Two loads into one buffer, and a store that no longer waits for the second load but for the first one's reader:
    it finds the first content gone."""
    cta = KernelBuilder("overtaken", grid=[("head", 1)], warps=1, compute_dtype=DType.FP16)
    tile = cta.buffer("tile", 2, 2)
    for target in (Y, Z):
        cta.load(X.tile(), tile)
        cta.store(tile, target.tile())
    load_y, store_y, load_z, store_z = range(4)

    def unroller(kernel: Kernel, coordinates: tuple[int, ...]) -> UnrolledCta:
        whole = unroll(kernel, coordinates)
        assert (load_z, store_z) in whole.edges
        return UnrolledCta(whole.steps, frozenset({(load_y, store_y), (store_y, store_z), (store_z, load_z)}))

    output = execute(TaskGraph((cta.build(),)), INPUTS, unroller=unroller, rng=random.Random(0))
    np.testing.assert_array_equal(INPUTS["X"], output["Y"])
    assert np.isnan(output["Z"]).all()


@pytest.mark.parametrize("value", [0.0, -math.inf, 7.0])
def test_a_buffer_starts_as_nan_until_it_is_filled(value: float) -> None:
    """A sum that nobody set to its start value is NaN; with the fill it is the value."""
    cta = KernelBuilder("fill", grid=[("head", 1)], warps=1, compute_dtype=DType.FP16)
    unset, filled = cta.accumulator("unset", 2, 2), cta.accumulator("filled", 2, 2)
    cta.do("fill", Fill(filled, value))
    cta.store(filled, Y.tile())
    cta.store(unset, Z.tile())
    output = execute(TaskGraph((cta.build(),)), {})
    assert (output["Y"] == value).all()
    assert np.isnan(output["Z"]).all()
