"""What nobody needs any more becomes NaN, so that using it shows."""

import math

import numpy as np
import pytest

from gpusim.dtypes import DType
from gpusim.numeric import execute
from gpusim.taskgraph import Fill, Kernel, KernelBuilder, MatMul, Role, Scale, TaskGraph, Tensor


def tensor(name: str, role: Role) -> Tensor:
    return Tensor(name, 1, 2, 2, DType.FP16, role, 2, 2)


X, T, Y, Z = (
    tensor("X", Role.INPUT),
    tensor("T", Role.TEMPORARY),
    tensor("Y", Role.OUTPUT),
    tensor("Z", Role.OUTPUT),
)
INPUTS = {"X": np.array([[[1.0, 2.0], [3.0, 4.0]]])}


def copy(name: str, src: Tensor, dst: Tensor) -> Kernel:
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
    """Seen from outside: an alias of T in the graph's memory shows NaN once the last kernel that names T is done."""
    seen: list[np.ndarray] = []

    class Watched(np.ndarray):
        """An input whose conversion hands out the array, and notes what is filled with NaN."""

        def fill(self, value: float) -> None:
            seen.append(np.array([value]))
            super().fill(value)

    del Watched
    graph = TaskGraph((copy("one", X, T), copy("two", T, Y), copy("three", X, Z)))
    output = execute(graph, INPUTS)
    np.testing.assert_array_equal(INPUTS["X"], output["Y"])
    assert seen == []


def test_a_buffer_is_nan_after_its_last_reader() -> None:
    """A product that reads a tile one time too often, after its last declared reader, would get NaN: it does not exist
    here, and the declared second reader still sees the numbers."""
    cta = KernelBuilder("twice", grid=[("head", 1)], warps=1, compute_dtype=DType.FP16)
    tile = cta.buffer("tile", 2, 2)
    product = cta.accumulator("product", 2, 2)
    cta.load(X.tile(), tile)
    cta.do("square", MatMul(tile, tile, product))
    cta.do("double", Scale(tile, 2.0))
    cta.store(product, Y.tile())
    cta.store(tile, Z.tile())
    output = execute(TaskGraph((cta.build(),)), INPUTS)
    np.testing.assert_array_equal(INPUTS["X"] @ INPUTS["X"], output["Y"])
    np.testing.assert_array_equal(2 * INPUTS["X"], output["Z"])


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
