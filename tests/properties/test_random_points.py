"""Random shapes and tiles: what must hold whatever they are. Examples are derandomised, so every run tries the same."""

import random
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise

import numpy as np
from attention_on_numbers import attended, expected_output
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Named, flash1, flash2, flash3, naive, workloads

from gpusim.analytic import footprint, kernel_work, lower_bound
from gpusim.engine import Simulation, simulate
from gpusim.numeric import inputs_for
from gpusim.schedules import SCHEDULES
from gpusim.specs import load_gpu
from gpusim.taskgraph import Load, Role, Store, TaskGraph, Tile, check_graph, unroll
from gpusim.taskgraph.program import loops
from gpusim.trace import Span, Stall, TimelineRecorder
from gpusim.units import ms_from_ps
from gpusim.workloads import AttentionWorkload, Conditions

_A100 = load_gpu("a100_sxm4_40gb")
_SM = {"count": 2, "max_ctas": 4, "tensor_paths": ("mma_sync", "wgmma"), "mma_sync_share": 0.6}
GPU = _A100.model_copy(update={"sm": _A100.sm.model_copy(update=_SM)})  # fewer slots to walk, and wgmma for flash3
GPU_WITHOUT_L2 = GPU.model_copy(update={"memory": GPU.memory.model_copy(update={"l2": None})})
NCU = Conditions(timing="ncu")
few = settings(max_examples=60, derandomize=True, deadline=None, database=None)
many = settings(few, max_examples=250)

SIZES = {"heads": 2, "seqlen": 20, "head_dim": 6}
equal_heads = workloads(**SIZES)
named_naive = naive(tile=9, stages=3, softmax_rows=8)
# Passes over K and V have a matrix of their own for every query head, so naive attention has as many K/V heads.
flash_attention = (
    st.tuples(workloads(**SIZES, grouped=True, masks=("padding",)), flash1(tile=9, stages=3))
    | st.tuples(workloads(**SIZES, grouped=True, masks=("causal", "padding")), flash2(tile=9, stages=3))
    | st.tuples(workloads(**SIZES, grouped=True, masks=("causal", "padding"), queries=300), flash3(tile=9, stages=3))
)
attention = flash_attention | st.tuples(equal_heads, named_naive)
Case = tuple[AttentionWorkload, Named]


def build(workload: AttentionWorkload, named: Named) -> TaskGraph:
    """The graph of a schedule and its choices."""
    name, choices = named
    return SCHEDULES[name].build(workload, choices, {})


def run(workload: AttentionWorkload, named: Named) -> tuple[TaskGraph, Simulation]:
    """The graph, and its cold simulation."""
    graph = build(workload, named)
    return graph, simulate(graph, GPU, NCU)


def assert_attention(workload: AttentionWorkload, named: Named, seed: int) -> None:
    """The graph is legal, and a random legal order of it gives float64 attention, and zeros for rows without keys."""
    graph, inputs = build(workload, named), inputs_for(workload, seed)
    check_graph(graph)
    output = attended(graph, named[1], workload, inputs, random.Random(seed))
    np.testing.assert_allclose(output, expected_output(workload, inputs), rtol=0, atol=1e-12)


@many
@given(flash_attention, st.integers(0, 1000))
def test_flash_computes_attention_in_any_order(case: Case, seed: int) -> None:
    """Whatever tiles, stages, warpgroups and masks: a legal graph, and float64 attention in a random legal order."""
    assert_attention(*case, seed)


@many
@given(equal_heads, named_naive, st.integers(0, 1000))
def test_naive_computes_attention_in_any_order(workload: AttentionWorkload, named: Named, seed: int) -> None:
    """Whatever the tiles and passes: a legal graph, and float64 attention to 1e-12 in a random legal order."""
    assert_attention(workload, named, seed)


@few
@given(attention)
def test_bytes_are_conserved(case: Case) -> None:
    """Inputs cross HBM, nothing more often than asked, hits are the rest, and outputs end in HBM or dirty in L2.

    Without an L2 everything asked crosses HBM, kernel by kernel.
    """
    workload, _ = case
    graph, done = run(*case)
    asked = [kernel_work(kernel) for kernel in graph.kernels]
    bare = simulate(graph, GPU_WITHOUT_L2, NCU).kernels
    assert [(w.read_bytes, w.write_bytes) for w in asked] == [(k.hbm_read_bytes, k.hbm_write_bytes) for k in bare]
    read = sum(kernel.hbm_read_bytes for kernel in done.kernels)
    hit = sum(kernel.l2_hit_bytes for kernel in done.kernels)
    assert sum(work.read_bytes for work in asked) == read + hit
    assert workload.input_bytes <= read
    kept = sum(t.size_bytes for role in (Role.OUTPUT, Role.SAVED) for t in graph.with_role(role))
    written = sum(kernel.hbm_write_bytes for kernel in done.kernels) + done.l2_dirty_bytes
    assert kept <= written <= sum(work.write_bytes for work in asked)


@few
@given(attention)
def test_closed_form_bytes_are_those_of_the_unrolled_program(case: Case) -> None:
    """Two independent readings of one program: products over index ranges, and every step of every warpgroup.

    What a loop of several warpgroups loads counts once for all of them, what is multicast once a cluster.
    """
    for kernel in build(*case).kernels:
        read, write = Fraction(0), 0
        shared = {task for loop in loops(kernel.program) for task in loop.body} if kernel.warpgroups else set()
        for coordinates in kernel.coordinates():
            for step in unroll(kernel, coordinates).steps:
                match step.task.op:
                    case Load(tile=tile, shared_by=shared_by):
                        readers = shared_by * (kernel.warpgroups_per_cta if step.task in shared else 1)
                        read += Fraction(tile_bytes(tile, step.indices), readers)
                    case Store(tile=tile):
                        write += tile_bytes(tile, step.indices)
        work = kernel_work(kernel)
        assert (read, write) == (work.read_bytes, work.write_bytes)


def tile_bytes(tile: Tile, indices: Mapping[str, int]) -> int:
    """Bytes of a tile at these indices; none behind its tensor, where a warpgroup has no rows."""
    row, col = (indices[axis] if isinstance(axis, str) else axis for axis in (tile.row, tile.col))
    rows, cols = dict(enumerate(tile.row_extents())), dict(enumerate(tile.col_extents()))
    return rows.get(row, 0) * cols.get(col, 0) * tile.tensor.element_bytes


@few
@given(flash_attention)
def test_every_warpgroup_of_every_cta_runs_once(case: Case) -> None:
    """Whatever the scheduler and the order: each place of the grid does its iterations, one after the other, and no
    pipe serves two at once."""
    recorder = TimelineRecorder()
    (kernel,) = build(*case).kernels
    simulate(TaskGraph((kernel,)), GPU, NCU, recorder)
    softmaxes = [work for work in recorder.works if work.task == "online softmax"]
    expected = Counter(
        coordinates
        for coordinates in kernel.coordinates()
        for step in unroll(kernel, coordinates).steps
        if step.task.name == "online softmax"
    )
    assert expected == Counter(work.cta for work in softmaxes)
    assert set(kernel.coordinates()) == {work.cta for work in softmaxes}
    for spans in held_pipes(recorder).values():
        assert all(first.end_ps <= second.start_ps for first, second in pairwise(spans))


def held_pipes(recorder: TimelineRecorder) -> dict[str, list[Span]]:
    """When the pipe of each SM is held, in order of time."""
    held: dict[str, list[Span]] = {}
    for span in sorted(recorder.spans, key=lambda span: span.start_ps):
        if span.kind is Stall.COMPUTE:
            held.setdefault(sm_of(span), []).append(span)
    return held


def sm_of(span: Span) -> str:
    """The SM of a track such as "sm[1].slot[0]"."""
    return span.track.partition(".")[0]


@few
@given(flash_attention)
def test_work_is_conserved_whoever_takes_it(case: Case) -> None:
    """Every scheduler and order asks for the same bytes and holds pipes for the same time, and no pipe idles while a
    warpgroup waits for it."""
    workload, (name, choices) = case
    runs = []
    for scheduler in ("hardware", "dynamic", "static"):
        for order in ("ascending", "longest_first"):
            changed = choices.model_copy(update={"scheduler": scheduler, "order": order})
            recorder = TimelineRecorder()
            (done,) = simulate(build(workload, (name, changed)), GPU, NCU, recorder).kernels
            runs.append((done.hbm_read_bytes + done.l2_hit_bytes, done.stall_ps[Stall.COMPUTE]))
            assert_no_idle_pipe_is_waited_for(recorder)
    assert [runs[0]] * len(runs) == runs


def assert_no_idle_pipe_is_waited_for(recorder: TimelineRecorder) -> None:
    """Whenever a warpgroup waits for the pipe of its SM, others hold it, one after another."""
    held = held_pipes(recorder)
    for wait in recorder.spans:
        if wait.kind is Stall.PIPE:
            inside = (min(span.end_ps, wait.end_ps) - max(span.start_ps, wait.start_ps) for span in held[sm_of(wait)])
            assert wait.end_ps - wait.start_ps == sum(part for part in inside if part > 0)


@few
@given(attention)
def test_time_respects_its_bounds(case: Case) -> None:
    """Not faster than the closed form, no unit busier than time, slots' times account for every picosecond."""
    workload, _ = case
    graph, done = run(*case)
    assert lower_bound(workload, GPU, "cold").ms <= ms_from_ps(done.latency_ps)
    for kernel in done.kernels:
        assert {} == {unit: share for unit, share in kernel.busy.items() if not 0 <= share <= 1}
        assert min(kernel.stall_ps.values()) >= 0
    for kernel, run_of_it in zip(graph.kernels, done.kernels, strict=True):
        slots = GPU.sm.count * run_of_it.ctas_per_sm * kernel.warpgroups_per_cta
        assert run_of_it.elapsed_ps * slots == sum(run_of_it.stall_ps.values())


@few
@given(attention)
def test_the_same_input_gives_the_same_output(case: Case) -> None:
    """Simulated twice, equal to the last number."""
    assert run(*case)[1] == run(*case)[1]


@few
@given(attention, st.integers(2, 4))
def test_more_heads_scale_traffic_and_memory(case: Case, times: int) -> None:
    """Heads are independent: k times the batch asks for k times the bytes, FLOPs and extra memory."""
    workload, named = case
    more = workload.model_copy(update={"batch": times * workload.batch})
    one, many = build(workload, named), build(more, named)
    assert times * footprint(one).extra_bytes == footprint(many).extra_bytes
    for few_heads, many_heads in zip(one.kernels, many.kernels, strict=True):
        small, large = kernel_work(few_heads), kernel_work(many_heads)
        for field in ("read_bytes", "write_bytes", "operand_bytes", "flops", "exps", "smem_read_bytes"):
            assert times * getattr(small, field) == getattr(large, field)
