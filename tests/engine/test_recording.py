"""What a recorder hears of transfers and tasks, held against counters and spans."""

from collections import defaultdict

import pytest

from gpusim.engine import Simulation, simulate
from gpusim.implementations import parse_request, plan
from gpusim.specs import load_gpu
from gpusim.trace import Stall, TimelineRecorder
from gpusim.workloads import AttentionWorkload, Conditions

CANVAS_SHAPE = AttentionWorkload(batch=1, heads=1, seqlen_q=8, seqlen_k=8, head_dim=4)
A100_SHAPE = AttentionWorkload(batch=1, heads=2, seqlen_q=512, seqlen_k=512, head_dim=64)
CASES = [("canvas", CANVAS_SHAPE, name) for name in ("naive", "flash1", "flash2")]
CASES += [("a100_sxm4_40gb", A100_SHAPE, name) for name in ("pytorch_naive", "flash1", "flash2")]


def recorded(gpu: str, shape: AttentionWorkload, name: str) -> tuple[Simulation, TimelineRecorder]:
    """A cold run and what was recorded of it."""
    spec, recorder = load_gpu(gpu), TimelineRecorder()
    graph = plan(parse_request(name, "test"), spec, shape).graph
    return simulate(graph, spec, Conditions(timing="ncu", cache="cold"), recorder), recorder


@pytest.mark.parametrize(("gpu", "shape", "name"), CASES)
def test_transfers_account_for_every_byte_of_hbm(gpu: str, shape: AttentionWorkload, name: str) -> None:
    """Together they move what the kernels' counters say, on canvas and through an L2."""
    run, recorder = recorded(gpu, shape, name)
    moved = sum(kernel.hbm_read_bytes + kernel.hbm_write_bytes for kernel in run.kernels)
    assert moved == sum(transfer.hbm_bytes for transfer in recorder.transfers)


@pytest.mark.parametrize(("gpu", "shape", "name"), CASES)
def test_tasks_fill_the_time_that_the_pipe_is_held(gpu: str, shape: AttentionWorkload, name: str) -> None:
    """Track by track, the tasks of a hold last exactly as long as its span."""
    _, recorder = recorded(gpu, shape, name)
    held, worked = defaultdict(int), defaultdict(int)
    for span in recorder.spans:
        if span.kind is Stall.COMPUTE:
            held[span.track, span.kernel] += span.end_ps - span.start_ps
    for work in recorder.works:
        worked[work.track, work.kernel] += work.end_ps - work.start_ps
    assert held == {key: total for key, total in worked.items() if total}


def test_a_load_waits_for_the_bus_and_one_latency() -> None:
    """Canvas, tiles of 4: Q, K and V of 32 B go 32 ns each onto the bus and are usable 100 ns after their last byte."""
    _, recorder = recorded("canvas", CANVAS_SHAPE, "flash2")
    q, k, v = recorder.transfers[:3]
    assert ["Q", "K", "V"] == [q.tensor, k.tensor, v.tensor]
    assert q.asked_ps == k.asked_ps == v.asked_ps == q.bus_start_ps
    assert (q.bus_end_ps, k.bus_end_ps) == (k.bus_start_ps, v.bus_start_ps)
    for transfer in (q, k, v):
        assert 32_001 == transfer.bus_end_ps - transfer.bus_start_ps
        assert 100_000 == transfer.end_ps - transfer.bus_end_ps


def test_a_hold_is_shared_out_by_what_its_tasks_need() -> None:
    """Canvas, tiles of 4: S = QKᵀ is 128 FLOPs at 8 a clock, the softmax 56 FP32 operations, the rescale 16, at one."""
    _, recorder = recorded("canvas", CANVAS_SHAPE, "flash2")
    lasts = {work.task: work.end_ps - work.start_ps for work in recorder.works}
    assert (16_000, 56_000, 16_000) == (lasts["S = Q Kᵀ"], lasts["online softmax"], lasts["rescale O"])
    assert 0 == lasts["m = −∞"]
