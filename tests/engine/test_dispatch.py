"""Which CTA runs where and when: the queue of the hardware, persistent grids, and causal loops of unequal length.

On the toy GPU, worked out by hand. CTA m of a causal kernel multiplies m + 1 tiles and touches no memory: it holds the
pipe for 16 clocks a tile.
"""

import pytest
from toy_gpu import CLOCK, LATENCY, LAUNCH, MOVE, NCU, PRODUCT, toy

from gpusim.dtypes import DType
from gpusim.engine import Simulation, simulate
from gpusim.schedules.dispatch import dispatch_order
from gpusim.specs import GpuSpec
from gpusim.taskgraph import (
    Buffer,
    Diagonal,
    Fill,
    Guard,
    KernelBuilder,
    KernelCost,
    MaskKeys,
    MatMul,
    Role,
    TaskGraph,
    Tensor,
)
from gpusim.taskgraph.program import Scheduler
from gpusim.trace import Stall, TimelineRecorder


def multiplying(cta: KernelBuilder) -> tuple[Buffer, Buffer]:
    """A tile of ones and one of sums, which take no time to fill."""
    q, out = cta.buffer("q", 4, 4), cta.accumulator("out", 4, 4)
    cta.do("q = 1", Fill(q, 1.0))
    cta.do("out = 0", Fill(out, 0.0))
    return q, out


def causal(
    *,
    ctas: int = 4,
    scheduler: Scheduler = "hardware",
    descending: bool = False,
    warpgroups: int = 1,
    shift: int = 0,
    packed: int = 1,
) -> TaskGraph:
    """for j up to the diagonal: out += q qᵀ. Without a shift CTA m does m + 1 iterations for each of its warpgroups."""
    grid = [("m", warpgroups * ctas), ("head", 1)]
    cta = KernelBuilder("toy", grid=grid, warps=1, compute_dtype=DType.FP16, accumulators="smem")
    q, out = multiplying(cta)
    with cta.loop("j", ctas, Diagonal("m", rows=4, cols=4, shift=shift, group=warpgroups, packed=packed)):
        cta.do("multiply", MatMul(q, q, out, transpose_b=True, accumulate=True))
    kernel = cta.build(
        scheduler=scheduler,
        descending=("m",) if descending else (),
        warpgroups=("m", warpgroups) if warpgroups > 1 else None,
    )
    return TaskGraph((kernel,))


def run(graph: TaskGraph, spec: GpuSpec) -> tuple[Simulation, TimelineRecorder]:
    """A run on SimPy with its timeline; machine code takes as long."""
    recorder = TimelineRecorder()
    done = simulate(graph, spec, NCU, recorder)
    assert done.latency_ps == simulate(graph, spec, NCU, mode="compiled").latency_ps
    return done, recorder


def products(recorder: TimelineRecorder) -> dict[str, list[tuple[int, int, int]]]:
    """By track: the CTA of every product, and when it started and ended."""
    found: dict[str, list[tuple[int, int, int]]] = {}
    for work in recorder.works:
        if work.task == "multiply":
            found.setdefault(work.track, []).append((work.cta[0], work.start_ps, work.end_ps))
    return found


def walked(recorder: TimelineRecorder) -> dict[str, list[int]]:
    """By track: the CTA of every product, in order."""
    return {track: [cta for cta, *_ in own] for track, own in products(recorder).items()}


def test_a_causal_cta_stops_at_its_diagonal() -> None:
    """CTAs 0 to 3 on one SM: 1, 2, 3 and 4 tiles, each CTA launched when the one before has retired."""
    done, recorder = run(causal(), toy())
    assert {"sm[0].slot[0]": [0, 1, 1, 2, 2, 2, 3, 3, 3, 3]} == walked(recorder)
    assert 4 * LAUNCH + 10 * PRODUCT == done.latency_ps


@pytest.mark.parametrize(
    ("shift", "tiles"), [(0, [1, 2, 3, 4]), (4, [2, 3, 4, 4]), (3, [2, 3, 4, 4]), (-8, [1, 1, 1, 2])]
)
def test_more_keys_than_queries_shift_the_diagonal(shift: int, tiles: list[int]) -> None:
    """4 more keys are a tile more, 3 more begin one; never more tiles than there are, and one where no key is seen."""
    _, recorder = run(causal(shift=shift), toy())
    (order,) = walked(recorder).values()
    assert tiles == [order.count(cta) for cta in range(4)]


@pytest.mark.parametrize(
    ("packed", "shift", "tiles"), [(2, 0, [1, 1, 2, 2]), (3, 0, [1, 1, 1, 2]), (2, 8, [3, 3, 4, 4])]
)
def test_packed_rows_see_the_keys_of_their_query(packed: int, shift: int, tiles: list[int]) -> None:
    """Four rows a CTA are two queries, or one and a third: 2, 4, 6, 8 or 2, 3, 4, 6 keys in tiles of 4; 8 keys more."""
    _, recorder = run(causal(packed=packed, shift=shift), toy())
    (order,) = walked(recorder).values()
    assert tiles == [order.count(cta) for cta in range(4)]


def test_warpgroups_of_a_cta_have_one_diagonal() -> None:
    """Two warpgroups of 4 rows that share a diagonal a CTA: both do as many tiles as the CTA."""
    _, recorder = run(causal(ctas=2, warpgroups=2), toy())
    first, second = walked(recorder).values()
    assert ([0, 2, 2], [1, 3, 3]) == (first, second)


START = {0: LAUNCH, 1: 2 * LAUNCH}  # of the first CTA of each SM: the GPU launches one after the other


@pytest.mark.parametrize(
    ("scheduler", "descending", "order", "ends"),
    [
        # 1 and 3 tiles on SM 0, 2 and 4 on SM 1; every CTA is launched, the second when the first has retired.
        ("hardware", False, ([0, 2], [1, 3]), (2 * LAUNCH + 4 * PRODUCT, 3 * LAUNCH + 6 * PRODUCT)),
        # The same without the second launch.
        ("dynamic", False, ([0, 2], [1, 3]), (LAUNCH + 4 * PRODUCT, 2 * LAUNCH + 6 * PRODUCT)),
        ("static", False, ([0, 2], [1, 3]), (LAUNCH + 4 * PRODUCT, 2 * LAUNCH + 6 * PRODUCT)),
        # Longest first: SM 1 is done with 3 tiles before SM 0 with 4, and takes the CTA of 2; SM 0 that of 1.
        ("hardware", True, ([3, 0], [2, 1]), (2 * LAUNCH + 5 * PRODUCT, 3 * LAUNCH + 5 * PRODUCT)),
        ("dynamic", True, ([3, 0], [2, 1]), (LAUNCH + 5 * PRODUCT, 2 * LAUNCH + 5 * PRODUCT)),
        # With a stride of 2, SM 0 has 4 and 2 tiles, SM 1 has 3 and 1.
        ("static", True, ([3, 1], [2, 0]), (LAUNCH + 6 * PRODUCT, 2 * LAUNCH + 4 * PRODUCT)),
    ],
)
def test_two_sms_share_a_causal_grid(
    scheduler: Scheduler, descending: bool, order: tuple[list[int], list[int]], ends: tuple[int, int]
) -> None:
    """Four CTAs of 1 to 4 tiles: who takes which, and when each SM is done."""
    done, recorder = run(causal(scheduler=scheduler, descending=descending), toy(count=2))
    found = products(recorder)
    for sm in (0, 1):
        own = found[f"sm[{sm}].slot[0]"]
        assert order[sm] == list(dict.fromkeys(cta for cta, *_ in own))
        assert (START[sm], ends[sm]) == (own[0][1], own[-1][2])
    assert max(ends) == done.latency_ps


@pytest.mark.parametrize(("scheduler", "launches"), [("hardware", 5), ("dynamic", 3), ("static", 3)])
def test_a_persistent_grid_pays_the_launch_once_a_resident_cta(scheduler: Scheduler, launches: int) -> None:
    """1,000 ps on SM 0 and 2,000 on SM 1, whose launch waits for the first; the hardware launches two CTAs more."""
    done, _ = run(causal(scheduler=scheduler), toy(count=2))
    assert launches * LAUNCH == done.kernels[0].stall_ps[Stall.LAUNCH]


@pytest.mark.parametrize(("scheduler", "on_first"), [("dynamic", [0, 2, 4]), ("static", [0, 2, 4])])
def test_work_items_that_the_grid_does_not_divide(scheduler: Scheduler, on_first: list[int]) -> None:
    """Five CTAs on two SMs: the first has one more."""
    _, recorder = run(causal(ctas=5, scheduler=scheduler), toy(count=2))
    order = walked(recorder)
    assert on_first == list(dict.fromkeys(order["sm[0].slot[0]"]))
    assert [1, 3] == list(dict.fromkeys(order["sm[1].slot[0]"]))


@pytest.mark.parametrize("scheduler", ["hardware", "dynamic", "static"])
def test_fewer_ctas_than_sms_leave_sms_idle(scheduler: Scheduler) -> None:
    """Two CTAs on four SMs: nothing runs on the others."""
    done, recorder = run(causal(ctas=2, scheduler=scheduler), toy(count=4))
    assert {"sm[0].slot[0]": [0], "sm[1].slot[0]": [1, 1]} == walked(recorder)
    assert 2 * LAUNCH + 2 * PRODUCT == done.latency_ps


def test_longest_first_walks_the_last_tiles_of_all_heads_first() -> None:
    """Two Q tiles of three heads in sections of two heads: long tiles of a section, its short ones, then the rest."""
    order = dispatch_order("longest_first", 2, 3, 2)
    kernel = KernelBuilder("toy", grid=order.grid, warps=1, compute_dtype=DType.FP16)
    built = kernel.build(descending=order.descending, band=order.band)
    assert [("head", 3), ("m", 2)] == list(built.grid)
    assert [(0, 1), (1, 1), (0, 0), (1, 0), (2, 1), (2, 0)] == list(built.coordinates())


def masked(last: int, *, trips: int = 4, cost: KernelCost | None = None) -> TaskGraph:
    """for j: out += q qᵀ, masked in the last iterations."""
    cta = KernelBuilder("toy", grid=[("head", 1)], warps=1, compute_dtype=DType.FP16, accumulators="smem")
    q, out = multiplying(cta)
    with cta.loop("j", trips):
        cta.do("multiply", MatMul(q, q, out, transpose_b=True, accumulate=True))
        cta.do("mask", MaskKeys(out, 4 * trips, "j"), Guard("j", "last", last))
    return TaskGraph((cta.build(cost=cost),))


@pytest.mark.parametrize(("constant", "clocks"), [(None, 32), (3.0, 48)])
@pytest.mark.parametrize(("last", "trips"), [(0, 4), (1, 4), (2, 4), (4, 4), (2, 1)])
def test_only_the_last_tiles_pay_for_their_mask(last: int, trips: int, constant: float | None, clocks: int) -> None:
    """A compare and a select a score, 32 clocks on one lane, or as many clocks as the kernel's constant says."""
    cost = KernelCost(mask_cycles_per_score=constant)
    done, recorder = run(masked(last, trips=trips, cost=cost), toy())
    durations = [span.end_ps - span.start_ps for span in recorder.spans if span.kind is Stall.COMPUTE]
    assert [PRODUCT + (clocks * CLOCK if trip >= trips - last else 0) for trip in range(trips)] == durations
    assert LAUNCH + sum(durations) == done.latency_ps


def test_a_causal_cta_masks_the_last_of_its_own_tiles() -> None:
    """CTA m has m + 1 tiles, whose last is masked: 16 clocks each, and 32 more once a CTA."""
    cta = KernelBuilder("toy", grid=[("m", 3), ("head", 1)], warps=1, compute_dtype=DType.FP16, accumulators="smem")
    q, out = multiplying(cta)
    with cta.loop("j", 3, Diagonal("m", rows=4, cols=4, shift=0)):
        cta.do("multiply", MatMul(q, q, out, transpose_b=True, accumulate=True))
        cta.do("mask", MaskKeys(out, 12, "j"), Guard("j", "last"))
    done, recorder = run(TaskGraph((cta.build(),)), toy())
    mask = 32 * CLOCK
    durations = [span.end_ps - span.start_ps for span in recorder.spans if span.kind is Stall.COMPUTE]
    assert [PRODUCT + mask, PRODUCT, PRODUCT + mask, PRODUCT, PRODUCT, PRODUCT + mask] == durations
    assert 3 * LAUNCH + 6 * PRODUCT + 3 * mask == done.latency_ps


def test_a_causal_loop_asks_for_no_tile_behind_its_diagonal() -> None:
    """Four stages, but the first CTA asks for one tile of X and the second for two: 3 tiles, one after the other."""
    x = Tensor("X", 1, 16, 4, DType.FP16, Role.INPUT, 4, 4)
    cta = KernelBuilder("toy", grid=[("m", 2), ("head", 1)], warps=1, compute_dtype=DType.FP16, accumulators="smem")
    q, out = multiplying(cta)
    k = cta.buffer("k", 4, 4, stages=4)
    with cta.loop("j", 4, Diagonal("m", rows=4, cols=4, shift=0)):
        cta.load(x.tile(row="j"), k)
        cta.do("multiply", MatMul(q, k, out, transpose_b=True, accumulate=True))
    done, recorder = run(TaskGraph((cta.build(),)), toy())
    first = LAUNCH + MOVE + LATENCY
    second = first + PRODUCT + LAUNCH  # when the second CTA starts
    assert [(0, LAUNCH), (0, second), (1, second)] == [(read.row, read.asked_ps) for read in recorder.transfers]
    assert second + 2 * MOVE + LATENCY + PRODUCT == done.latency_ps
