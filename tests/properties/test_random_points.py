"""Random shapes and tiles: what must hold whatever they are. Examples are derandomised, so every run tries the same."""

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusim.analytic import footprint, kernel_work, lower_bound
from gpusim.engine import Simulation, simulate
from gpusim.numeric import attention_reference, execute, inputs_for
from gpusim.schedules import SCHEDULES, Choices, FlashChoices, NaiveChoices
from gpusim.specs import load_gpu
from gpusim.taskgraph import Role, TaskGraph, check_graph, unroll
from gpusim.units import ms_from_ps
from gpusim.workloads import AttentionWorkload, Conditions

_A100 = load_gpu("a100_sxm4_40gb")
GPU = _A100.model_copy(update={"sm": _A100.sm.model_copy(update={"count": 2, "max_ctas": 4})})  # fewer slots to walk
NCU = Conditions(timing="ncu")
tiles = st.integers(1, 9)
few = settings(max_examples=60, derandomize=True, deadline=None, database=None)
many = settings(few, max_examples=250)

workloads = st.fixed_dictionaries(
    {
        "batch": st.integers(1, 2),
        "heads": st.integers(1, 2),
        "seqlen_q": st.integers(1, 20),
        "seqlen_k": st.integers(1, 20),
        "head_dim": st.integers(1, 6),
        "head_dim_v": st.integers(1, 6),
        "save_lse": st.booleans(),
    }
).map(AttentionWorkload.model_validate)
flash_choices = st.builds(
    FlashChoices,
    tile_q=tiles,
    tile_kv=tiles,
    stages=st.integers(1, 3),
    accumulators=st.sampled_from(["smem", "registers"]),
    fold_scale=st.booleans(),
    grain=st.integers(1, 3),
    partials=st.sampled_from(["output", "fp32"]),
)
naive_choices = st.builds(
    NaiveChoices,
    tile_q=tiles,
    tile_kv=tiles,
    stages=st.integers(1, 3),
    pv_tile_q=st.none() | tiles,
    pv_tile_d=st.none() | tiles,
    qk_step=st.none() | tiles,
    pv_step=st.none() | tiles,
    softmax_rows=st.integers(1, 8),
    accumulators=st.sampled_from(["smem", "registers"]),
    fold_scale=st.booleans(),
    prepare=st.lists(
        st.sampled_from(["copy_q", "copy_k", "copy_v", "transpose_k", "scale_q", "scale_k"]), unique=True, max_size=4
    )
    .filter(lambda passes: not {"scale_q", "scale_k"} <= set(passes))
    .map(tuple),
)
named_flash = st.tuples(st.sampled_from(["flash1", "flash2"]), flash_choices)
named_naive = st.tuples(st.just("naive"), naive_choices)
named_choices = named_flash | named_naive


def build(workload: AttentionWorkload, named: tuple[str, Choices]) -> TaskGraph:
    """The graph of a schedule and its choices."""
    name, choices = named
    return SCHEDULES[name].build(workload, choices, {})


def run(workload: AttentionWorkload, named: tuple[str, Choices]) -> tuple[TaskGraph, Simulation]:
    """The graph, and its cold simulation."""
    graph = build(workload, named)
    return graph, simulate(graph, GPU, NCU)


def assert_attention(workload: AttentionWorkload, named: tuple[str, Choices], seed: int) -> None:
    """The graph is legal, and a random legal order of it gives float64 attention."""
    graph, inputs = build(workload, named), inputs_for(workload, seed)
    check_graph(graph)
    output = execute(graph, inputs, rng=random.Random(seed))["O"]
    np.testing.assert_allclose(output, attention_reference(*inputs.values()), rtol=0, atol=1e-12)


@many
@given(workloads, named_flash, st.integers(0, 1000))
def test_flash_computes_attention_in_any_order(
    workload: AttentionWorkload, named: tuple[str, Choices], seed: int
) -> None:
    """Whatever the tiles, stages and grain: a legal graph, and float64 attention to 1e-12 in a random legal order."""
    assert_attention(workload, named, seed)


@many
@given(workloads, named_naive, st.integers(0, 1000))
def test_naive_computes_attention_in_any_order(
    workload: AttentionWorkload, named: tuple[str, Choices], seed: int
) -> None:
    """Whatever the tiles and passes: a legal graph, and float64 attention to 1e-12 in a random legal order."""
    assert_attention(workload, named, seed)


@few
@given(workloads, named_choices)
def test_bytes_are_conserved(workload: AttentionWorkload, named: tuple[str, Choices]) -> None:
    """Inputs cross HBM, nothing more often than asked, hits are the rest, and outputs end in HBM or dirty in L2."""
    graph, done = run(workload, named)
    asked = [kernel_work(kernel) for kernel in graph.kernels]
    assert asked == [kernel.work for kernel in done.kernels]
    read = sum(kernel.hbm_read_bytes for kernel in done.kernels)
    hit = sum(kernel.l2_hit_bytes for kernel in done.kernels)
    assert sum(work.read_bytes for work in asked) == read + hit
    assert workload.input_bytes <= read
    kept = sum(t.size_bytes for role in (Role.OUTPUT, Role.SAVED) for t in graph.with_role(role))
    written = sum(kernel.hbm_write_bytes for kernel in done.kernels) + done.l2_dirty_bytes
    assert kept <= written <= sum(work.write_bytes for work in asked)


@few
@given(workloads, named_choices)
def test_closed_form_bytes_are_those_of_the_unrolled_program(
    workload: AttentionWorkload, named: tuple[str, Choices]
) -> None:
    """Two independent readings of one program: products over index ranges, and every step of every CTA."""
    for kernel in build(workload, named).kernels:
        read = write = 0
        for coordinates in kernel.coordinates():
            for step in unroll(kernel, coordinates).steps:
                tile = getattr(step.task.op, "tile", None)
                if tile is None:
                    continue
                row, col = (step.indices[a] if isinstance(a, str) else a for a in (tile.row, tile.col))
                size_bytes = tile.row_extents()[row] * tile.col_extents()[col] * tile.tensor.dtype.size_bytes
                read += size_bytes if hasattr(step.task.op, "into") else 0
                write += 0 if hasattr(step.task.op, "into") else size_bytes
        work = kernel_work(kernel)
        assert (read, write) == (work.read_bytes, work.write_bytes)


@few
@given(workloads, named_choices)
def test_time_respects_its_bounds(workload: AttentionWorkload, named: tuple[str, Choices]) -> None:
    """Not faster than the closed form, no unit busier than time, slots' times account for every picosecond."""
    _, done = run(workload, named)
    assert lower_bound(workload, GPU, "cold").ms <= ms_from_ps(done.latency_ps)
    for kernel in done.kernels:
        assert {} == {unit: share for unit, share in kernel.busy.items() if not 0 <= share <= 1}
        assert min(kernel.stall_ps.values()) >= 0
        assert kernel.elapsed_ps * GPU.sm.count * kernel.ctas_per_sm == sum(kernel.stall_ps.values())


@few
@given(workloads, named_choices)
def test_the_same_input_gives_the_same_output(workload: AttentionWorkload, named: tuple[str, Choices]) -> None:
    """Simulated twice, equal to the last number."""
    assert run(workload, named)[1] == run(workload, named)[1]


@few
@given(workloads, named_choices, st.integers(2, 4))
def test_more_heads_scale_traffic_and_memory(
    workload: AttentionWorkload, named: tuple[str, Choices], times: int
) -> None:
    """Heads are independent: k times the batch asks for k times the bytes, FLOPs and extra memory."""
    more = workload.model_copy(update={"batch": times * workload.batch})
    one, many = build(workload, named), build(more, named)
    assert times * footprint(one).extra_bytes == footprint(many).extra_bytes
    for few_heads, many_heads in zip(one.kernels, many.kernels, strict=True):
        small, large = kernel_work(few_heads), kernel_work(many_heads)
        for field in ("read_bytes", "write_bytes", "operand_bytes", "flops", "exps", "smem_read_bytes"):
            assert times * getattr(small, field) == getattr(large, field)
