"""Consumer warpgroups of a CTA share what its loop loads: on the toy GPU, worked out step by step in picoseconds.

Every warpgroup multiplies each tile of K by a tile of ones and stores the sum. A product holds the pipe for 16 clocks.
"""

import pytest
from toy_gpu import CLOCK, LATENCY, LAUNCH, MOVE, NCU, PRODUCT, TILE_BYTES, toy

from gpusim.analytic import kernel_work
from gpusim.dtypes import DType
from gpusim.engine import Simulation, simulate
from gpusim.specs import GpuSpec
from gpusim.taskgraph import Fill, KernelBuilder, KernelCost, MatMul, Role, TaskGraph, Tensor
from gpusim.taskgraph.program import Scheduler
from gpusim.trace import Stall, TimelineRecorder

FIRST = LAUNCH + MOVE + LATENCY  # when a tile is usable that is asked for at the start


def matrix(name: str, role: Role, tiles: int) -> Tensor:
    """A column of tiles of 4 × 4."""
    return Tensor(name, 1, 4 * tiles, 4, DType.FP16, role, 4, 4)


def products(
    *,
    warpgroups: int = 2,
    ctas: int = 1,
    trips: int = 2,
    stages: int = 2,
    row_tiles: int | None = None,
    with_q: bool = False,
    shared_by: int = 1,
    scheduler: Scheduler = "hardware",
    cost: KernelCost | None = None,
) -> TaskGraph:
    """out = 0; for j: load K[j]; out += q K[j]; store Y[m]. `with_q` loads q instead of filling it with ones.

    Y has a tile for each warpgroup unless `row_tiles` says how many there are.
    """
    rows = warpgroups * ctas
    row_tiles = rows if row_tiles is None else row_tiles
    cta = KernelBuilder("toy", grid=[("m", rows), ("head", 1)], warps=1, compute_dtype=DType.FP16, accumulators="smem")
    q, k, out = cta.buffer("q", 4, 4), cta.buffer("k", 4, 4, stages=stages), cta.accumulator("out", 4, 4)
    if with_q:
        cta.load(matrix("Q", Role.INPUT, row_tiles).tile(row="m"), q)
    else:
        cta.do("q = 1", Fill(q, 1.0))
    cta.do("out = 0", Fill(out, 0.0))
    with cta.loop("j", trips):
        cta.load(matrix("K", Role.INPUT, trips).tile(row="j"), k, shared_by=shared_by)
        cta.do("multiply", MatMul(q, k, out, accumulate=True))
    cta.store(out, matrix("Y", Role.OUTPUT, row_tiles).tile(row="m"))
    return TaskGraph((cta.build(cost=cost, warpgroups=("m", warpgroups), scheduler=scheduler),))


def run(graph: TaskGraph, spec: GpuSpec | None = None) -> tuple[Simulation, TimelineRecorder]:
    """A run on SimPy with its timeline; machine code takes as long."""
    spec, recorder = toy() if spec is None else spec, TimelineRecorder()
    done = simulate(graph, spec, NCU, recorder)
    assert done.latency_ps == simulate(graph, spec, NCU, mode="compiled").latency_ps
    return done, recorder


def spans(recorder: TimelineRecorder, kind: Stall) -> dict[str, list[tuple[int, int]]]:
    """Where the time of each warpgroup went, as (start, end) in ps."""
    found: dict[str, list[tuple[int, int]]] = {}
    for span in recorder.spans:
        if span.kind is kind:
            found.setdefault(span.track, []).append((span.start_ps, span.end_ps))
    return found


def asked(recorder: TimelineRecorder, tensor: str) -> list[int]:
    """When tiles of a tensor were asked for."""
    return [transfer.asked_ps for transfer in recorder.transfers if transfer.tensor == tensor]


def held(start_ps: int) -> tuple[int, int]:
    """A product that starts then."""
    return start_ps, start_ps + PRODUCT


def test_two_warpgroups_take_turns_on_the_pipe() -> None:
    """Both wait for the first tile; the second has come when they have multiplied the first, and not a tick before."""
    done, recorder = run(products())
    second = FIRST + MOVE
    assert {
        "sm[0].slot[0].warpgroup[0]": [held(FIRST), held(second)],
        "sm[0].slot[0].warpgroup[1]": [held(FIRST + PRODUCT), held(second + PRODUCT)],
    } == spans(recorder, Stall.COMPUTE)
    assert [(133_001, 149_001), (165_002, 181_002)] == [held(FIRST), held(second)]
    assert second + PRODUCT + 2 * MOVE == done.latency_ps


def test_three_warpgroups_take_turns_on_the_pipe() -> None:
    """With one tile: one after the other, in their order."""
    _, recorder = run(products(warpgroups=3, trips=1))
    assert [[held(FIRST + n * PRODUCT)] for n in range(3)] == list(spans(recorder, Stall.COMPUTE).values())


def test_a_stage_is_asked_for_again_when_the_last_warpgroup_has_read_it() -> None:
    """One stage: the second tile is asked for after both products, at 165,001 and not when the first one ends."""
    _, recorder = run(products(stages=1))
    free = FIRST + 2 * PRODUCT
    assert [LAUNCH, free] == asked(recorder, "K")
    assert 165_001 == free
    second = free + MOVE + LATENCY
    computed = sorted(span for own in spans(recorder, Stall.COMPUTE).values() for span in own)
    assert [held(FIRST), held(FIRST + PRODUCT), held(second), held(second + PRODUCT)] == computed


def test_a_warpgroup_sleeps_until_its_tile_is_asked_for_and_then_until_it_arrives() -> None:
    """One stage: the first warpgroup waits for the second tile from the end of its product on, though nobody may ask
    for it yet; the second warpgroup asks for it at the end of its own."""
    _, recorder = run(products(stages=1))
    second = FIRST + 2 * PRODUCT + MOVE + LATENCY
    waits = spans(recorder, Stall.LOAD)
    assert [(LAUNCH, FIRST), (FIRST + PRODUCT, second)] == waits["sm[0].slot[0].warpgroup[0]"]
    assert [(LAUNCH, FIRST), (FIRST + 2 * PRODUCT, second)] == waits["sm[0].slot[0].warpgroup[1]"]


def test_sleepers_wake_in_the_order_of_their_cta() -> None:
    """Three warpgroups and one stage: the third asks for the second tile and goes on first, then the others.

    Only the first has rows, and writes them while the second computes.
    """
    done, recorder = run(products(warpgroups=3, stages=1, row_tiles=1))
    second = FIRST + 3 * PRODUCT + MOVE + LATENCY
    own = [held_spans[1] for held_spans in spans(recorder, Stall.COMPUTE).values()]
    assert [held(second + PRODUCT), held(second + 2 * PRODUCT), held(second)] == own
    assert second + 2 * PRODUCT + MOVE == done.latency_ps


def test_a_stage_more_is_a_tile_more_ahead() -> None:
    """Two stages and three tiles: two are asked for at the start, the third when both have read the first."""
    _, recorder = run(products(trips=3))
    assert [LAUNCH, LAUNCH, FIRST + 2 * PRODUCT] == asked(recorder, "K")


@pytest.mark.parametrize("warpgroups", [1, 2, 3])
def test_a_loop_loads_once_for_all_warpgroups(warpgroups: int) -> None:
    """Three tiles of K a CTA, however many warpgroups; a tile of Q each, and one of Y."""
    graph = products(warpgroups=warpgroups, ctas=2, trips=3, with_q=True)
    (kernel,) = run(graph)[0].kernels
    asked_bytes = 2 * (3 + warpgroups) * TILE_BYTES
    assert (asked_bytes, 2 * warpgroups * TILE_BYTES) == (kernel.hbm_read_bytes, kernel.hbm_write_bytes)
    work = kernel_work(graph.kernels[0])
    assert (asked_bytes, 2 * warpgroups * TILE_BYTES) == (work.read_bytes, work.write_bytes)
    assert 2 * warpgroups * 3 * 128 == work.flops


def test_warpgroups_share_the_loads_of_innermost_loops_only() -> None:
    """Two warpgroups, two outer iterations around two inner ones: X once an outer iteration and warpgroup, four tiles;
    K once an inner iteration for both, four more."""
    grid = [("m", 2), ("head", 1)]
    cta = KernelBuilder("toy", grid=grid, warps=1, compute_dtype=DType.FP16, accumulators="smem")
    x, k, out = cta.buffer("x", 4, 4), cta.buffer("k", 4, 4), cta.accumulator("out", 4, 4)
    cta.do("out = 0", Fill(out, 0.0))
    with cta.loop("i", 2):
        cta.load(matrix("X", Role.INPUT, 2).tile(row="i"), x)
        with cta.loop("j", 2):
            cta.load(matrix("K", Role.INPUT, 2).tile(row="j"), k)
            cta.do("multiply", MatMul(x, k, out, accumulate=True))
    cta.store(out, matrix("Y", Role.OUTPUT, 2).tile(row="m"))
    graph = TaskGraph((cta.build(warpgroups=("m", 2)),))
    done, recorder = run(graph)
    assert (4, 4) == (len(asked(recorder, "X")), len(asked(recorder, "K")))
    assert 8 * TILE_BYTES == done.kernels[0].hbm_read_bytes == kernel_work(graph.kernels[0]).read_bytes


def test_a_warpgroup_without_rows_computes_and_moves_nothing() -> None:
    """One tile of Q and Y for two warpgroups: both multiply whole tiles, as real kernels do; only one loads and
    stores."""
    graph = products(row_tiles=1, with_q=True)
    done, recorder = run(graph)
    (kernel,) = done.kernels
    assert (3 * TILE_BYTES, TILE_BYTES) == (kernel.hbm_read_bytes, kernel.hbm_write_bytes)
    assert [2, 2] == [len(own) for own in spans(recorder, Stall.COMPUTE).values()]
    assert 4 * PRODUCT == kernel.stall_ps[Stall.COMPUTE]


def test_what_delays_one_warpgroup_leaves_the_pipe_to_another() -> None:
    """24 clocks after each step: one product of the other warpgroup fits into the gap, and 8 clocks remain.

    Alone, a warpgroup leaves all 24 clocks idle.
    """
    cost = KernelCost(step_cycles=24)
    _, recorder = run(products(warpgroups=2, trips=3, stages=3, cost=cost))
    first, second = spans(recorder, Stall.COMPUTE).values()
    step = PRODUCT + 24 * CLOCK
    assert [held(FIRST + n * step) for n in range(3)] == first
    assert [held(FIRST + PRODUCT + n * step) for n in range(3)] == second


@pytest.mark.parametrize("scheduler", ["dynamic", "static"])
def test_the_first_warpgroup_of_a_persistent_cta_loads_for_its_next_work_item(scheduler: Scheduler) -> None:
    """Two work items of one tile, two stages: when the first warpgroup has multiplied, it goes on to the next item and
    asks for its tile, though the second still reads the one before."""
    _, recorder = run(products(ctas=2, trips=1, scheduler=scheduler))
    assert [LAUNCH, FIRST + PRODUCT] == asked(recorder, "K")


def test_hardware_launches_a_cta_when_all_warpgroups_of_the_last_have_ended() -> None:
    """Two CTAs of one tile on one SM, whose warpgroups have multiplied at 149,001 and 165,001: a persistent grid asks
    for the next tile at 149,001, hardware launches the next CTA at 166,001."""
    ends = FIRST + PRODUCT, FIRST + 2 * PRODUCT
    asks = {
        scheduler: asked(run(products(ctas=2, trips=1, stages=2, scheduler=scheduler), toy(count=1))[1], "K")
        for scheduler in ("hardware", "dynamic")
    }
    assert {"hardware": [LAUNCH, ends[1] + LAUNCH], "dynamic": [LAUNCH, ends[0]]} == asks


def test_one_stage_serves_one_work_item_at_a_time() -> None:
    """With one stage the tile of the next item is asked for when both warpgroups have read the one before."""
    _, recorder = run(products(ctas=2, trips=1, stages=1, scheduler="dynamic"))
    assert [LAUNCH, FIRST + 2 * PRODUCT] == asked(recorder, "K")


def test_ctas_of_a_cluster_ask_for_their_parts_and_both_get_the_tile() -> None:
    """Two SMs, one tile: 16 B each, one after the other over HBM; the second is launched 1,000 ps later."""
    half = TILE_BYTES // 2 * 1_000 + 1
    graph = products(warpgroups=1, ctas=2, trips=1, shared_by=2)
    done, recorder = run(graph, toy(count=2))
    assert TILE_BYTES == done.kernels[0].hbm_read_bytes == kernel_work(graph.kernels[0]).read_bytes
    usable = LAUNCH + half + LATENCY
    assert [[held(usable)], [held(usable + half)]] == list(spans(recorder, Stall.COMPUTE).values())
