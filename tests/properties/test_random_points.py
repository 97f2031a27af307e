"""Random shapes and tiles: what must hold whatever they are. Examples are derandomised, so every run tries the same."""

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Named, flash, naive, workloads

from gpusim.analytic import footprint, kernel_work, lower_bound
from gpusim.engine import Simulation, simulate
from gpusim.numeric import attention_reference, execute, inputs_for
from gpusim.schedules import SCHEDULES
from gpusim.specs import load_gpu
from gpusim.taskgraph import Role, TaskGraph, check_graph, unroll
from gpusim.units import ms_from_ps
from gpusim.workloads import AttentionWorkload, Conditions

_A100 = load_gpu("a100_sxm4_40gb")
GPU = _A100.model_copy(update={"sm": _A100.sm.model_copy(update={"count": 2, "max_ctas": 4})})  # fewer slots to walk
GPU_WITHOUT_L2 = GPU.model_copy(update={"memory": GPU.memory.model_copy(update={"l2": None})})
NCU = Conditions(timing="ncu")
few = settings(max_examples=60, derandomize=True, deadline=None, database=None)
many = settings(few, max_examples=250)

SIZES = {"heads": 2, "seqlen": 20, "head_dim": 6}
equal_heads = workloads(**SIZES)
grouped_heads = workloads(**SIZES, grouped=True)
named_flash = flash(tile=9, stages=3)
named_naive = naive(tile=9, stages=3, softmax_rows=8)
# Passes over K and V have a matrix of their own for every query head, so naive attention has as many K/V heads.
attention = st.tuples(grouped_heads, named_flash) | st.tuples(equal_heads, named_naive)
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
    """The graph is legal, and a random legal order of it gives float64 attention."""
    graph, inputs = build(workload, named), inputs_for(workload, seed)
    check_graph(graph)
    output = execute(graph, inputs, rng=random.Random(seed))["O"]
    group = workload.heads // workload.kv_heads
    k, v = (np.repeat(inputs[name], group, axis=0) for name in "KV")
    np.testing.assert_allclose(output, attention_reference(inputs["Q"], k, v), rtol=0, atol=1e-12)


@many
@given(grouped_heads, named_flash, st.integers(0, 1000))
def test_flash_computes_attention_in_any_order(workload: AttentionWorkload, named: Named, seed: int) -> None:
    """Whatever the tiles, stages and grain: a legal graph, and float64 attention to 1e-12 in a random legal order."""
    assert_attention(workload, named, seed)


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
    """Two independent readings of one program: products over index ranges, and every step of every CTA."""
    for kernel in build(*case).kernels:
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
@given(attention)
def test_time_respects_its_bounds(case: Case) -> None:
    """Not faster than the closed form, no unit busier than time, slots' times account for every picosecond."""
    workload, _ = case
    _, done = run(*case)
    assert lower_bound(workload, GPU, "cold").ms <= ms_from_ps(done.latency_ps)
    for kernel in done.kernels:
        assert {} == {unit: share for unit, share in kernel.busy.items() if not 0 <= share <= 1}
        assert min(kernel.stall_ps.values()) >= 0
        assert kernel.elapsed_ps * GPU.sm.count * kernel.ctas_per_sm == sum(kernel.stall_ps.values())


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
