"""What single kernels compute, in random legal orders, against NumPy."""

import random

import numpy as np
import pytest

from gpusim.numeric import execute
from gpusim.schedules import SCHEDULES
from gpusim.taskgraph import Role, TaskGraph, check_graph
from gpusim.workloads import CacheReadWorkload, ChaseWorkload, GemmWorkload, RowsWorkload, StreamWorkload, Workload

ROWS = RowsWorkload(rows=13, cols=10)


def build(schedule: str, workload: Workload, **choices: object) -> TaskGraph:
    """A legal graph with these choices."""
    graph = SCHEDULES[schedule].build(workload, SCHEDULES[schedule].choices.model_validate(choices), {})
    check_graph(graph)
    return graph


def run(graph: TaskGraph) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Random inputs by name, and the output."""
    generator = np.random.default_rng(3)
    inputs = {t.name: generator.standard_normal((t.heads, t.rows, t.cols)) for t in graph.with_role(Role.INPUT)}
    (output,) = execute(graph, inputs, rng=random.Random(4)).values()
    return inputs, output


@pytest.mark.parametrize("tiles", [(4, 4, 4), (8, 2, 3), (16, 16, 16)])
@pytest.mark.parametrize("stages", [1, 3])
def test_gemm_multiplies(tiles: tuple[int, int, int], stages: int) -> None:
    """Two products of 13 × 10 by 10 × 7, whole and ragged tiles."""
    choices = dict(zip(("tile_m", "tile_n", "tile_k"), tiles, strict=True))
    inputs, output = run(build("gemm", GemmWorkload(batch=2, m=13, n=7, k=10), stages=stages, **choices))
    np.testing.assert_allclose(output, inputs["A"] @ inputs["B"], rtol=0, atol=1e-12)


@pytest.mark.parametrize("band", [None, 2])
@pytest.mark.parametrize("split", [1, 2, 4])
def test_a_split_product_is_the_sum_of_its_parts(split: int, band: int | None) -> None:
    """13 × 32 by 32 × 15: blocks of columns of A times blocks of rows of B, in bands of two column tiles too."""
    choices = {"tile_m": 8, "tile_n": 4, "tile_k": 4, "split_k": split, "band": band}
    inputs, output = run(build("gemm", GemmWorkload(m=13, n=15, k=32), **choices))
    expected = np.hstack(list(inputs["A"])) @ np.vstack(list(inputs["B"]))
    np.testing.assert_allclose(output[0], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("row_reads", [1, 3])
@pytest.mark.parametrize(("cta_rows", "grain"), [(1, 1), (1, 13), (4, 1), (2, 8)])
def test_row_softmax_is_that_of_every_row(row_reads: int, cta_rows: int, grain: int) -> None:
    """e^x over its sum, read once or three times, in groups that divide the rows and that do not."""
    choices = {"row_reads": row_reads, "cta_rows": cta_rows, "grain": grain, "ctas_per_sm": 8}
    inputs, output = run(build("row_softmax", ROWS, **choices))
    weights = np.exp(inputs["X"])
    np.testing.assert_allclose(output, weights / weights.sum(axis=2, keepdims=True), rtol=0, atol=1e-12)


@pytest.mark.parametrize("group_rows", [1, 4, 16])
@pytest.mark.parametrize("pattern", ["contiguous", "broadcast", "strided", "transposed"])
def test_elementwise_passes_do_what_they_say(pattern: str, group_rows: int) -> None:
    """Half of X, X and a row, X, Xᵀ."""
    inputs, output = run(build("elementwise", ROWS, pattern=pattern, group_rows=group_rows))
    x = inputs["X"]
    expected = {
        "contiguous": x / 2,
        "broadcast": x + inputs.get("row", 0.0),
        "strided": x,
        "transposed": x.swapaxes(1, 2),
    }
    np.testing.assert_array_equal(output, expected[pattern])


@pytest.mark.parametrize("loads", [0, 1, 2, 3])
def test_a_stream_stores_the_sum_of_its_arrays(loads: int) -> None:
    """Two SMs with one CTA of 4 threads each; of no array the sum is zero."""
    workload = StreamWorkload(elements=30, loads=loads, stores=1, threads_per_cta=4, ctas_per_sm=1)
    inputs, output = run(build("stream", workload, num_sms=2))
    np.testing.assert_allclose(output, sum(inputs.values(), np.zeros_like(output)), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("schedule", "workload", "choices"),
    [
        ("stream", StreamWorkload(elements=30, loads=2, stores=0, threads_per_cta=4), {"num_sms": 2}),
        ("pointer_chase", ChaseWorkload(footprint_bytes=1280, hops=25), {}),
        ("pointer_chase", ChaseWorkload(footprint_bytes=12800, hops=25), {}),
        ("cache_read", CacheReadWorkload(footprint_bytes=5000, part_bytes=2500), {"num_sms": 3, "tile_bytes": 512}),
    ],
)
def test_what_only_reads_is_legal(schedule: str, workload: Workload, choices: dict[str, object]) -> None:
    """Every loaded buffer is looked at, and nothing is written."""
    graph = build(schedule, workload, **choices)
    inputs = {t.name: np.ones((t.heads, t.rows, t.cols)) for t in graph.with_role(Role.INPUT)}
    assert {} == execute(graph, inputs, rng=random.Random(5))
