"""The order in which a grid is walked: bands, descending indices and warpgroups, written out."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from gpusim.dtypes import DType
from gpusim.taskgraph import Kernel, KernelBuilder


def kernel(*extents: int, **order: object) -> Kernel:
    """A kernel without a program on a grid of these extents, first index fastest."""
    grid = [(f"i{number}", extent) for number, extent in enumerate(extents)]
    return replace(KernelBuilder("k", grid=grid, warps=1, compute_dtype=DType.FP16).build(), **order)


def test_the_first_index_is_the_fastest() -> None:
    """Two columns of three rows."""
    assert [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)] == list(kernel(2, 3).coordinates())


def test_bands_are_walked_one_after_another() -> None:
    """Three columns in bands of two: rows 0 and 1 of the first two columns, then the third column."""
    expected = [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1)]
    assert [(n, m, 0) for n, m in expected] == list(kernel(3, 2, 1, band=2).coordinates())


def test_a_descending_index_runs_from_its_last_value_down() -> None:
    """Rows 2, 1, 0; columns still ascend."""
    expected = [(0, 2), (1, 2), (0, 1), (1, 1), (0, 0), (1, 0)]
    assert expected == list(kernel(2, 3, descending=("i1",)).coordinates())


def test_bands_and_a_descending_index_go_together() -> None:
    """The longest tiles of two heads, their short ones, then those of the third head."""
    expected = [(0, 1), (1, 1), (0, 0), (1, 0), (2, 1), (2, 0)]
    assert expected == list(kernel(3, 2, band=2, descending=("i1",)).coordinates())


def test_warpgroups_are_neighbours_and_belong_to_one_cta() -> None:
    """Six tiles in CTAs of three, two heads: four CTAs, whose warpgroups follow one another."""
    split = kernel(6, 2, warpgroups=("i0", 3))
    assert ((2, 2), 4, 3) == (split.cta_grid, split.ctas, split.warpgroups_per_cta)
    assert [(0, 0), (3, 0), (0, 1), (3, 1)] == [split.cta_coordinates(number) for number in range(4)]
    assert [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (5, 0)] == list(split.coordinates())[:6]


def test_descending_ctas_keep_their_warpgroups_in_order() -> None:
    """The last CTA comes first, its first warpgroup before its second."""
    assert [(2,), (3,), (0,), (1,)] == list(kernel(4, warpgroups=("i0", 2), descending=("i0",)).coordinates())


@settings(max_examples=100, derandomize=True, deadline=None, database=None)
@given(
    st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 3)),
    st.none() | st.integers(1, 6),
    st.lists(st.sampled_from(["i0", "i1", "i2"]), unique=True),
    st.none() | st.tuples(st.sampled_from(["i0", "i1", "i2"]), st.integers(1, 3)),
)
def test_every_place_of_the_grid_comes_once(
    extents: tuple[int, int, int], band: int | None, descending: list[str], split: tuple[str, int] | None
) -> None:
    """Whatever the order and the warpgroups."""
    counted = [extent * (split[1] if split and split[0] == f"i{n}" else 1) for n, extent in enumerate(extents)]
    ordered = kernel(*counted, band=band, descending=tuple(descending), warpgroups=split)
    expected = {(a, b, c) for a in range(counted[0]) for b in range(counted[1]) for c in range(counted[2])}
    walked = list(ordered.coordinates())
    assert expected == set(walked)
    assert len(expected) == len(walked) == ordered.ctas * ordered.warpgroups_per_cta
