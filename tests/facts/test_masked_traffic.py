"""Bytes and FLOPs of causal, multicast and warp-specialised attention: counted tile by tile, in formula and machine."""

import numpy as np
import pytest

from gpusim.analytic import KernelWork, kernel_work, occupancy
from gpusim.engine import simulate
from gpusim.engine.simulate import KernelRun
from gpusim.implementations import parse_request, plan
from gpusim.schedules import SCHEDULES, FlashChoices, WarpgroupChoices
from gpusim.specs import load_gpu
from gpusim.taskgraph import TaskGraph
from gpusim.workloads import AttentionWorkload, Conditions

COLD = Conditions(timing="ncu", cache="cold")
H100 = load_gpu("h100_sxm5_80gb")
D = 64
SHAPES = [(1024, 1024), (1000, 1000), (300, 1100), (1100, 300), (1, 700)]
TILES = [(128, 128), (128, 64), (64, 128)]


def workload(seqlen_q: int, seqlen_k: int, *, causal: bool, heads: int = 2, kv_heads: int = 2) -> AttentionWorkload:
    """One batch entry in fp16 with d = 64."""
    shape = {"batch": 1, "heads": heads, "kv_heads": kv_heads, "seqlen_q": seqlen_q, "seqlen_k": seqlen_k}
    return AttentionWorkload.model_validate(shape | {"head_dim": D, "causal": causal})


def tiles_needed(problem: AttentionWorkload, tile_q: int, tile_kv: int) -> list[int]:
    """K/V tiles of every tile of queries: up to the last one of which a query sees a key, at least one."""
    n_q, n_k = problem.seqlen_q, problem.seqlen_k
    seen = np.arange(n_k) <= np.arange(n_q)[:, None] + n_k - n_q if problem.causal else np.ones((n_q, n_k), bool)
    last_keys = [np.flatnonzero(seen[row : row + tile_q].any(axis=0)) for row in range(0, n_q, tile_q)]
    return [1 if len(keys) == 0 else int(keys[-1]) // tile_kv + 1 for keys in last_keys]


def kv_rows(problem: AttentionWorkload, tile_q: int, tile_kv: int) -> int:
    """Rows of K that one head asks for: whole tiles, of which the last may be ragged."""
    return sum(min(tiles * tile_kv, problem.seqlen_k) for tiles in tiles_needed(problem, tile_q, tile_kv))


def flash2(problem: AttentionWorkload, tile_q: int, tile_kv: int, **choices: object) -> TaskGraph:
    """FlashAttention 2 with these tiles."""
    return SCHEDULES["flash2"].build(problem, FlashChoices(tile_q=tile_q, tile_kv=tile_kv, **choices), {})


def flash3(problem: AttentionWorkload, tile_q: int, tile_kv: int, **choices: object) -> TaskGraph:
    """FlashAttention 3 with these tiles and two stages."""
    chosen = WarpgroupChoices(tile_q=tile_q, tile_kv=tile_kv, stages=2, **choices)
    return SCHEDULES["flash3"].build(problem, chosen, {})


def work_of(graph: TaskGraph) -> KernelWork:
    """Totals of the only kernel."""
    (kernel,) = graph.kernels
    return kernel_work(kernel)


def cold(graph: TaskGraph) -> KernelRun:
    """A simulated run of the only kernel on an H100."""
    (kernel,) = simulate(graph, H100, COLD).kernels
    return kernel


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tiles", TILES)
@pytest.mark.parametrize("shape", SHAPES)
def test_causal_flash2_asks_for_the_tiles_up_to_its_diagonal(
    shape: tuple[int, int], tiles: tuple[int, int], causal: bool
) -> None:
    """Q once, and Σ over query tiles of the K and V rows each sees; two heads of 64 numbers of 2 bytes."""
    problem = workload(*shape, causal=causal)
    graph = flash2(problem, *tiles)
    read = 2 * (problem.seqlen_q + 2 * kv_rows(problem, *tiles)) * D * 2
    work, done = work_of(graph), cold(graph)
    assert (read, problem.output_bytes) == (work.read_bytes, work.write_bytes)
    assert read == done.hbm_read_bytes + done.l2_hit_bytes


@pytest.mark.parametrize(("tile_q", "tile_kv"), TILES)
def test_a_square_causal_mask_sums_to_the_textbook_triangle(tile_q: int, tile_kv: int) -> None:
    """Σ ⌈(m + 1)·B_q / B_kv⌉ tiles at N = 1,024: with B_q = B_kv = B it is T(T + 1)/2 of T² for T = N/B."""
    problem = workload(1024, 1024, causal=True)
    expected = sum(-(-(m + 1) * tile_q // tile_kv) for m in range(1024 // tile_q))
    assert expected == sum(tiles_needed(problem, tile_q, tile_kv))
    assert tile_q != tile_kv or expected == 8 * 9 // 2
    assert 2 * (1024 + 2 * expected * tile_kv) * D * 2 == work_of(flash2(problem, tile_q, tile_kv)).read_bytes


@pytest.mark.parametrize("tiles", TILES)
@pytest.mark.parametrize("shape", SHAPES)
def test_executed_flops_are_those_of_the_tiles_that_run(shape: tuple[int, int], tiles: tuple[int, int]) -> None:
    """2·B_q·B_kv·(d + d_v) FLOPs a tile, padding and masked scores included; B_q·(B_kv + 1) exponentials."""
    problem, (tile_q, tile_kv) = workload(*shape, causal=True), tiles
    ran = 2 * sum(tiles_needed(problem, tile_q, tile_kv))
    work = work_of(flash2(problem, tile_q, tile_kv))
    assert (ran * 2 * tile_q * tile_kv * 2 * D, ran * tile_q * (tile_kv + 1)) == (work.flops, work.exps)


def test_a_long_causal_sequence_executes_little_more_than_half() -> None:
    """N = 16,384 in tiles of 128: T(T + 1)/2 of T² tiles, T = 128, are 50.4 %."""
    full, half = (work_of(flash2(workload(16384, 16384, causal=causal), 128, 128)).flops for causal in (False, True))
    assert 129 / 256 == half / full


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tile_q", [64, 128, 192])
@pytest.mark.parametrize("shape", SHAPES)
def test_warpgroups_share_the_tiles_of_their_cta(shape: tuple[int, int], tile_q: int, causal: bool) -> None:
    """One to three warpgroups: K and V once a CTA, as flash2 asks with the same tile of queries."""
    problem = workload(*shape, causal=causal)
    read = 2 * (problem.seqlen_q + 2 * kv_rows(problem, tile_q, 80)) * D * 2
    graph = flash3(problem, tile_q, 80)
    done = cold(graph)
    assert read == work_of(graph).read_bytes == work_of(flash2(problem, tile_q, 80)).read_bytes
    assert (read, problem.output_bytes) == (done.hbm_read_bytes + done.l2_hit_bytes, work_of(graph).write_bytes)


@pytest.mark.parametrize("scheduler", ["hardware", "dynamic", "static"])
@pytest.mark.parametrize("cluster", [1, 2, 4])
def test_multicast_divides_what_is_asked_of_l2(cluster: int, scheduler: str) -> None:
    """Eight query tiles of 128 rows in clusters: K and V once a cluster, Q once; HBM sees all three once."""
    problem = workload(1024, 1024, causal=False)
    graph = flash3(problem, 128, 128, cluster=cluster, scheduler=scheduler)
    read = 2 * 1024 * (1 + 2 * 8 // cluster) * D * 2
    done = cold(graph)
    assert (read, read) == (work_of(graph).read_bytes, done.hbm_read_bytes + done.l2_hit_bytes)
    assert problem.input_bytes == done.hbm_read_bytes


def test_a_cluster_that_does_not_divide_the_query_tiles_shares_nothing() -> None:
    """Seven query tiles in pairs: the released kernel takes clusters of one."""
    problem = workload(7 * 128, 1024, causal=False)
    assert work_of(flash3(problem, 128, 128)) == work_of(flash3(problem, 128, 128, cluster=2))


def test_multicast_and_shared_memory_do_not_divide_what_is_computed() -> None:
    """Every CTA still writes whole tiles into its shared memory and multiplies them."""
    problem = workload(1024, 1024, causal=False)
    alone, together = (work_of(flash3(problem, 128, 128, cluster=cluster)) for cluster in (1, 2))
    assert (alone.flops, alone.smem_write_bytes) == (together.flops, together.smem_write_bytes)
    assert 2 * 2 * 1024 * 1024 * 2 * D == alone.flops


def test_the_order_does_not_change_what_is_asked() -> None:
    """Longest first on a counter asks for the same bytes as ascending in the hardware's queue."""
    problem = workload(1000, 1000, causal=True, heads=4, kv_heads=2)
    runs = [
        cold(flash2(problem, 128, 64, order=order, scheduler=scheduler))
        for order in ("ascending", "longest_first")
        for scheduler in ("hardware", "dynamic", "static")
    ]
    assert 1 == len({run.hbm_read_bytes + run.l2_hit_bytes for run in runs})
    assert {problem.input_bytes} == {run.hbm_read_bytes for run in runs}


def test_causal_masks_of_flash2_cost_two_instructions_a_masked_score() -> None:
    """N = 1,024, tiles of 128 × 64: two masked tiles for each of 8 query tiles and 2 heads."""
    causal, ends = workload(1024, 1024, causal=True), 2 * sum(range(2, 17, 2))
    scores = 128 * 64
    per_tile = 3.5 * scores + 128 * D  # softmax, and O rescaled
    once = 2 * 8 * (128 * D + 2 * 128 + 128 * D)  # O, m, ℓ = start; O / ℓ
    masks = 2 * 8 * 2 * 2 * scores
    assert ends * per_tile + once + masks == work_of(flash2(causal, 128, 64)).fp32_ops


@pytest.mark.parametrize(("head_dim", "registers"), [(64, 160), (128, 240), (256, 240)])
def test_released_flash3_fills_the_registers_of_an_sm(head_dim: int, registers: int) -> None:
    """12 consumer warps of 160 registers and 4 producer warps of 32, or 8 of 240 and 4 of 24: 64 Ki or 63 Ki of 64 Ki,
    so one CTA an SM."""
    problem = AttentionWorkload(batch=1, heads=1, seqlen_q=512, seqlen_k=512, head_dim=head_dim)
    (kernel,) = plan(parse_request("flash3", "test"), H100, problem).graph.kernels
    consumers, producers = kernel.warps - kernel.producer_warps, kernel.producer_warps
    held = 32 * (consumers * registers + producers * kernel.producer_registers_per_thread)
    assert (64 if registers == 160 else 63) << 10 == held
    assert (registers, 1) == (kernel.registers_per_thread, occupancy(kernel, H100).ctas_per_sm)
