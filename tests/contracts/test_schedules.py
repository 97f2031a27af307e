"""What holds for every schedule of attention; a new one is tested by standing in the dictionary."""

import random

import kernel_shapes
import numpy as np
import pytest

from gpusim.analytic import footprint, graph_operand_bytes, kernel_work
from gpusim.implementations import parse_request, plan
from gpusim.numeric import attention_reference, execute, inputs_for
from gpusim.schedules import SCHEDULES
from gpusim.specs import load_gpu
from gpusim.taskgraph import Role, TaskGraph, check_graph
from gpusim.workloads import AttentionWorkload

A100 = load_gpu("a100_sxm4_80gb")
SHAPES = {
    "one tile": AttentionWorkload(batch=1, heads=1, seqlen_q=4, seqlen_k=4, head_dim=4),
    "ragged": AttentionWorkload(batch=2, heads=2, seqlen_q=13, seqlen_k=10, head_dim=4),
    "one query": AttentionWorkload(batch=1, heads=2, seqlen_q=1, seqlen_k=9, head_dim=8),
    "one key": AttentionWorkload(batch=1, heads=1, seqlen_q=5, seqlen_k=1, head_dim=4),
    "wide V": AttentionWorkload(batch=1, heads=2, seqlen_q=8, seqlen_k=8, head_dim=4, head_dim_v=12),
    "log-sum-exp": AttentionWorkload(batch=1, heads=2, seqlen_q=9, seqlen_k=9, head_dim=4, save_lse=True),
}
ATTENTION = [name for name, schedule in SCHEDULES.items() if schedule.workload is AttentionWorkload]
ALL = [(name, shape) for name in ATTENTION for shape in SHAPES]


def build(name: str, shape: str) -> TaskGraph:
    """The schedule's graph with small tiles for one of the shapes."""
    return SCHEDULES[name].build(SHAPES[shape], kernel_shapes.small_choices(name), {})


@pytest.mark.parametrize(("name", "shape"), ALL)
def test_its_graph_is_legal(name: str, shape: str) -> None:
    """No rule is broken."""
    check_graph(build(name, shape))


@pytest.mark.parametrize(("name", "shape"), ALL)
def test_it_computes_attention_in_a_random_legal_order(name: str, shape: str) -> None:
    """Float64 attention to 1e-12."""
    inputs = inputs_for(SHAPES[shape], seed=1)
    output = execute(build(name, shape), inputs, rng=random.Random(2))["O"]
    np.testing.assert_allclose(output, attention_reference(*inputs.values()), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("name", "shape"), ALL)
def test_it_reads_q_k_v_and_writes_o(name: str, shape: str) -> None:
    """Inputs and output are the workload's, in shape and bytes."""
    graph, workload = build(name, shape), SHAPES[shape]
    inputs = graph.with_role(Role.INPUT)
    assert ["K", "Q", "V"] == sorted(tensor.name for tensor in inputs)
    assert workload.input_bytes == sum(tensor.size_bytes for tensor in inputs)
    (output,) = graph.with_role(Role.OUTPUT)
    heads = workload.batch * workload.heads
    assert (heads, workload.seqlen_q, workload.head_dim_v) == (output.heads, output.rows, output.cols)


@pytest.mark.parametrize(("name", "shape"), ALL)
def test_it_moves_at_least_what_is_compulsory(name: str, shape: str) -> None:
    """Every input byte is read and every output byte written at least once; operands lie between."""
    graph, workload = build(name, shape), SHAPES[shape]
    works = [kernel_work(kernel) for kernel in graph.kernels]
    output_bytes = sum(t.size_bytes for role in (Role.OUTPUT, Role.SAVED) for t in graph.with_role(role))
    assert workload.input_bytes <= sum(work.read_bytes for work in works)
    assert output_bytes <= sum(work.write_bytes for work in works)
    moved = sum(work.read_bytes + work.write_bytes for work in works)
    assert workload.input_bytes + output_bytes <= graph_operand_bytes(graph) <= moved


@pytest.mark.parametrize(("name", "shape"), ALL)
def test_it_does_at_least_the_work_of_the_definition(name: str, shape: str) -> None:
    """2·N_q·N_k·(d + d_v) FLOPs and N_q·N_k exponentials a head; whole tiles may only add."""
    works = [kernel_work(kernel) for kernel in build(name, shape).kernels]
    assert SHAPES[shape].flops <= sum(work.flops for work in works)
    assert SHAPES[shape].exps <= sum(work.exps for work in works)


@pytest.mark.parametrize(("name", "shape"), ALL)
def test_its_memory_is_inputs_outputs_and_the_extra(name: str, shape: str) -> None:
    """The peak is what the caller owns plus what the schedule adds."""
    graph, workload = build(name, shape), SHAPES[shape]
    memory = footprint(graph)
    plain_output = workload.model_copy(update={"save_lse": False}).output_bytes
    assert workload.input_bytes + plain_output == memory.peak_bytes - memory.extra_bytes


@pytest.mark.parametrize(("name", "shape"), kernel_shapes.CASES)
def test_single_kernels_are_legal_and_move_what_is_compulsory(name: str, shape: str) -> None:
    """Every byte of inputs and outputs at least once; nothing but them lives in device memory."""
    workload = kernel_shapes.SHAPES[name][shape]
    graph = plan(parse_request(name, "test"), A100, workload).graph
    check_graph(graph)
    (work,) = (kernel_work(kernel) for kernel in graph.kernels)
    assert workload.input_bytes <= work.read_bytes
    assert workload.output_bytes <= work.write_bytes
    assert workload.flops <= work.flops
    assert (0, work.operand_bytes) == (footprint(graph).extra_bytes, footprint(graph).peak_bytes)


@pytest.mark.parametrize("name", SCHEDULES)
def test_it_says_what_it_is_and_where_it_comes_from(name: str) -> None:
    """One line each for `gpusim schedules`; the source names a paper, that of a single kernel its code."""
    schedule = SCHEDULES[name]
    assert name == schedule.name
    assert "arXiv" in schedule.source if name in ATTENTION else "/" in schedule.source
    assert 0 < len(schedule.summary.splitlines()) < 2
