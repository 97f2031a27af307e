"""The power limit: energy over the time that the pipe is held, worked out by hand."""

import pytest

from gpusim import load_gpu
from gpusim.dtypes import DType
from gpusim.engine import simulate
from gpusim.engine.power import PowerBudget, power_budget
from gpusim.implementations import parse_request, plan
from gpusim.taskgraph import Buffer, MatMul, Space
from gpusim.workloads import AttentionWorkload, Conditions

A, B, C = (Buffer(name, 16, 16, 2, Space.SMEM) for name in "ABC")
PRODUCT = MatMul(A, B, C)  # 2 · 16³ = 8,192 FLOP


@pytest.mark.parametrize(
    ("exponent", "sustained_hz"),
    [
        (0, 0.25e9),  # energy stays 8,192 pJ a product: 8.192 µJ at 1,000 products a ms; a quarter of the clock is left
        (1, 0.5e9),  # energy falls with the clock: power with its square, so half the clock takes a quarter
        (3, 0.25e9 ** (1 / 4) * 1e9 ** (3 / 4)),
    ],
)
def test_a_step_runs_as_fast_as_its_power_allows(exponent: float, sustained_hz: float) -> None:
    """8,192 clocks at 1 GHz and 1 pJ a FLOP are 1 mW; the SM may take 0.25 mW."""
    budget = PowerBudget(sm_w=0.25e-3, flop_j=1e-12, exp_j=0.0, clock_hz=1e9, clock_exponent=exponent)
    assert sustained_hz == pytest.approx(budget.clock_for([PRODUCT], 8192, 1e9))


def test_a_step_within_its_power_keeps_the_clock() -> None:
    """1 mW of 1 mW."""
    budget = PowerBudget(sm_w=1.001e-3, flop_j=1e-12, exp_j=0.0, clock_hz=1e9, clock_exponent=1)
    assert 1e9 == budget.clock_for([PRODUCT], 8192, 1e9)


def test_the_budget_of_an_sm_is_what_idling_leaves() -> None:
    """H100: 700 W less 100 W over the SMs that work, 132 of them at most."""
    h100 = load_gpu("h100_sxm5_80gb")
    budgets = [power_budget(h100, DType.FP16, ctas) for ctas in (8, 132, 1000)]
    assert [600 / 8, 600 / 132, 600 / 132] == pytest.approx([budget.sm_w for budget in budgets if budget is not None])
    assert power_budget(load_gpu("a100_sxm4_80gb"), DType.FP16, 1000) is None


def test_a_nearly_idle_gpu_keeps_its_clock() -> None:
    """One head of 1,024 tokens is eight CTAs on 132 SMs."""
    spec = load_gpu("h100_sxm5_80gb")
    workload = AttentionWorkload(batch=1, heads=1, seqlen_q=1024, seqlen_k=1024, head_dim=128)
    (kernel,) = simulate(plan(parse_request("flash3", "test"), spec, workload).graph, spec).kernels
    assert spec.sm.clock_hz == kernel.sustained_hz


@pytest.mark.parametrize(("timing", "is_throttled"), [("event", True), ("graph", True), ("ncu", False)])
def test_a_loop_is_throttled_and_a_profiled_kernel_is_not(timing: str, is_throttled: bool) -> None:
    """flash3 on H100: below the boost clock in a loop, at it under a profiler."""
    spec = load_gpu("h100_sxm5_80gb")
    workload = AttentionWorkload(batch=1, heads=16, seqlen_q=1024, seqlen_k=1024, head_dim=128)
    graph = plan(parse_request("flash3", "test"), spec, workload).graph
    (kernel,) = simulate(graph, spec, Conditions(timing=timing)).kernels
    assert is_throttled == (kernel.sustained_hz < spec.sm.clock_hz)
