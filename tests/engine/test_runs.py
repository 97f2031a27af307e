"""What holds for every run: repeatable, watched or not, and no unit busier than time has passed."""

import itertools

import pytest

from gpusim.dtypes import DType
from gpusim.engine import Simulation, simulate
from gpusim.errors import DoesNotFitError, GraphError, UnsupportedError
from gpusim.implementations import parse_request, plan
from gpusim.schedules import SCHEDULES, FlashChoices
from gpusim.specs import load_gpu
from gpusim.taskgraph import KernelBuilder, Role, TaskGraph, Tensor
from gpusim.trace import Recorder, Stall, TimelineRecorder
from gpusim.workloads import AttentionWorkload, Conditions, compulsory_bytes

A100 = load_gpu("a100_sxm4_40gb")
WORKLOAD = AttentionWorkload(batch=2, heads=4, seqlen_q=300, seqlen_k=300, head_dim=64)
NAMES = ["naive", "pytorch_naive", "flash1", "flash2"]
SPEC_STALLS = (Stall.COMPUTE, Stall.PIPE, Stall.LOAD, Stall.SYNC, Stall.STORE, Stall.LAUNCH)


def run(schedule: object, recorder: Recorder | None = None, *, workload: AttentionWorkload = WORKLOAD) -> Simulation:
    """One simulation on an A100 as CUDA events would time it."""
    graph = plan(parse_request(schedule, "test"), A100, workload).graph
    return simulate(graph, A100, Conditions(timing="event"), recorder)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_run_twice_is_equal(name: str) -> None:
    """Every time, byte and share."""
    assert run(name) == run(name)


@pytest.mark.parametrize("name", NAMES)
def test_a_recorder_changes_nothing(name: str) -> None:
    """Watched or not, the simulation is the same."""
    assert run(name) == run(name, TimelineRecorder())


@pytest.mark.parametrize("name", NAMES)
def test_spans_add_up_to_the_stall_totals(name: str) -> None:
    """For every kernel and kind, the recorded spans of its slots are the time in its totals."""
    recorder = TimelineRecorder()
    done = run(name, recorder)
    for kernel in done.kernels:
        spans = [span for span in recorder.spans if span.kernel == kernel.name and span.track != "host"]
        for kind in SPEC_STALLS:
            recorded = sum(span.end_ps - span.start_ps for span in spans if span.kind is kind)
            assert recorded == kernel.stall_ps[kind], (kernel.name, kind)


@pytest.mark.parametrize("name", NAMES)
def test_spans_of_one_slot_do_not_overlap(name: str) -> None:
    """A slot does one thing at a time, within the kernel."""
    recorder = TimelineRecorder()
    done = run(name, recorder)
    for track in {span.track for span in recorder.spans}:
        spans = sorted((span.start_ps, span.end_ps) for span in recorder.spans if span.track == track)
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
        assert spans[-1][1] <= done.kernels[-1].end_ps


def test_only_one_slot_of_an_sm_computes_at_a_time() -> None:
    """The compute pipe of an SM serialises the tile steps of its CTAs."""
    recorder = TimelineRecorder()
    run("flash2", recorder, workload=WORKLOAD.model_copy(update={"batch": 20}))
    first_sm = sorted(
        (span.start_ps, span.end_ps)
        for span in recorder.spans
        if span.kind is Stall.COMPUTE and span.track.startswith("sm[0].")
    )
    assert 2 == len({span.track for span in recorder.spans if span.track.startswith("sm[0].")})
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(first_sm))


@pytest.mark.parametrize(
    ("tile_q", "tile_kv", "accumulators", "head_dim"),
    [(16, 16, "smem", 128), (32, 32, "smem", 64), (16, 16, "registers", 64), (128, 16, "registers", 16)],
)
def test_no_unit_is_busier_than_time_has_passed(tile_q: int, tile_kv: int, accumulators: str, head_dim: int) -> None:
    """Tensor cores, special functions, FP32, shared memory, L2 and HBM: at most all of the elapsed time, also where
    small tiles make shared memory the limit and loads fill it beside the arithmetic."""
    asked = {
        "name": "flash2",
        "tile_q": tile_q,
        "tile_kv": tile_kv,
        "accumulators": accumulators,
        "stages": 2,
    }
    workload = AttentionWorkload(batch=4, heads=27, seqlen_q=64, seqlen_k=256, head_dim=head_dim)
    busy = run(asked, workload=workload).kernels[0].busy
    assert {} == {name: share for name, share in busy.items() if share > 1}


def test_the_l2_port_is_busy_with_reads_and_writes_at_their_rates() -> None:
    """Both directions share one port: seconds of reading and seconds of writing over the seconds of the kernel."""
    l2 = A100.memory.l2
    for kernel in run("naive").kernels:
        read_s = kernel.work.read_bytes / l2.bandwidth_bytes_per_s
        write_s = kernel.work.write_bytes / l2.write_bandwidth_bytes_per_s
        assert kernel.busy["l2"] == pytest.approx((read_s + write_s) / (kernel.elapsed_ps / 1e12))


def test_a_warm_cache_saves_hbm_reads_where_everything_fits() -> None:
    """The second of two runs finds Q, K and V in 40 MiB of L2: nothing is read from HBM; a cold run reads them once."""
    graph = plan(parse_request("flash2", "test"), A100, WORKLOAD).graph
    cold, warm = (simulate(graph, A100, Conditions(timing="ncu", cache=cache)) for cache in ("cold", "warm"))
    assert (WORKLOAD.input_bytes, 0) == (cold.kernels[0].hbm_read_bytes, warm.kernels[0].hbm_read_bytes)
    assert warm.latency_ps < cold.latency_ps


def test_many_times_l2_is_cold_however_warm() -> None:
    """Sixteen caches of tensors leave little of the first run: warm is run once and equals cold."""
    workload = AttentionWorkload(batch=96, heads=32, seqlen_q=256, seqlen_k=256, head_dim=128)
    graph = plan(parse_request("flash2", "test"), A100, workload).graph
    cold, warm = (simulate(graph, A100, Conditions(timing="ncu", cache=cache)) for cache in ("cold", "warm"))
    assert compulsory_bytes(workload) > 16 * A100.memory.l2.size_bytes
    assert cold == warm


def test_an_illegal_graph_does_not_run() -> None:
    """The rules are checked before anything is simulated."""
    graph = plan(parse_request("naive", "test"), A100, WORKLOAD).graph
    with pytest.raises(GraphError, match="reads S before any kernel wrote it"):
        simulate(TaskGraph(graph.kernels[1:]), A100)


def test_a_load_that_its_loop_never_reads_is_refused_by_name() -> None:
    """Such a loop has no moment at which the tile is needed; the message names the kernel, nothing crashes."""
    x = Tensor("X", 1, 8, 4, DType.FP16, Role.INPUT, 4, 4)
    y = Tensor("Y", 1, 4, 4, DType.FP16, Role.OUTPUT, 4, 4)
    cta = KernelBuilder("last_tile", grid=[("head", 1)], warps=1, compute_dtype=DType.FP16)
    tile = cta.buffer("tile", 4, 4)
    with cta.loop("j", 2):
        cta.load(x.tile(row="j"), tile)
    cta.store(tile, y.tile())
    with pytest.raises(GraphError, match="last_tile"):
        simulate(TaskGraph((cta.build(),)), A100)


def test_a_kernel_that_does_not_fit_does_not_run() -> None:
    """Shared memory, registers and threads are checked before anything is simulated."""
    (kernel,) = SCHEDULES["flash2"].build(WORKLOAD, FlashChoices(tile_q=512, tile_kv=512, warps=16), {}).kernels
    with pytest.raises(DoesNotFitError, match="196,608 B"):
        simulate(TaskGraph((kernel,)), A100)


def test_a_format_without_a_matrix_rate_is_unsupported() -> None:
    """canvas multiplies in fp16 only."""
    workload = AttentionWorkload(batch=1, heads=1, seqlen_q=4, seqlen_k=4, head_dim=4, dtype="bf16")
    choices = FlashChoices(tile_q=2, tile_kv=2, warps=1, accumulators="smem", accumulator_bytes=2)
    graph = SCHEDULES["flash2"].build(workload, choices, {})
    with pytest.raises(UnsupportedError, match="bf16 but canvas states no matrix rate"):
        simulate(graph, load_gpu("canvas"))
