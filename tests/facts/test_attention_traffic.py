"""Bytes that real tiles ask of L2, and what of them reaches HBM."""

import pytest

from gpusim.analytic import graph_operand_bytes, kernel_work
from gpusim.engine import simulate
from gpusim.implementations import parse_request, plan
from gpusim.point import Point, run_point
from gpusim.schedules import SCHEDULES, NaiveChoices
from gpusim.specs import gpu_names, load_gpu
from gpusim.units import MIB
from gpusim.workloads import AttentionWorkload, Conditions

COLD = Conditions(timing="ncu", cache="cold")
SPECS = {name: load_gpu(name) for name in gpu_names()}
SIMULATED = [name for name, spec in SPECS.items() if spec.sm.register_file and not spec.missing_for_simulation()]
FLASH_MIB = {1024: 2.25, 4096: 33, 16384: 516}
NAIVE_MIB = {1024: 8.5, 4096: 130, 16384: 2056}
FLASH_TILES = {"name": "flash2", "tile_q": 128, "tile_kv": 128}


def one_head(seqlen: int, head_dim: int = 64) -> AttentionWorkload:
    """Self-attention of a single head in fp16."""
    return AttentionWorkload(batch=1, heads=1, seqlen_q=seqlen, seqlen_k=seqlen, head_dim=head_dim)


@pytest.mark.parametrize("seqlen", FLASH_MIB)
def test_flash_asks_l2_for_k_and_v_once_a_query_tile(seqlen: int) -> None:
    """2Nd + 2N²d/B numbers of 2 bytes at d = 64 and tiles of 128: 2.25, 33 and 516 MiB a head."""
    planned = plan(parse_request(FLASH_TILES, "test"), load_gpu("a100_sxm4_40gb"), one_head(seqlen))
    (work,) = (kernel_work(kernel) for kernel in planned.graph.kernels)
    numbers = 2 * seqlen * 64 + 2 * seqlen**2 * 64 // 128
    assert FLASH_MIB[seqlen] * MIB == 2 * numbers
    assert FLASH_MIB[seqlen] * MIB == work.read_bytes + work.write_bytes


@pytest.mark.parametrize("gpu", SIMULATED)
def test_simulated_flash_asks_the_same_and_reads_hbm_once(gpu: str) -> None:
    """At N = 1,024 hits and HBM reads are Q once and K, V for each of 8 query tiles: N·d·(1 + 2·8) numbers of 2 bytes.

    With O written that is 2.25 MiB; cold HBM reads are Q, K and V once: 3·N·d numbers.
    """
    spec = load_gpu(gpu)
    graph = plan(parse_request(FLASH_TILES, "test"), spec, one_head(1024)).graph
    (kernel,) = simulate(graph, spec, COLD).kernels
    assert 1024 * 64 * (1 + 2 * 8) * 2 == kernel.hbm_read_bytes + kernel.l2_hit_bytes
    assert 3 * 1024 * 64 * 2 == kernel.hbm_read_bytes
    result = run_point(Point(spec, parse_request(FLASH_TILES, "test"), one_head(1024), COLD))
    assert 2.25 * MIB == result.l2_read_bytes + result.l2_write_bytes
    assert 3 * 1024 * 64 * 2 == result.hbm_read_bytes


@pytest.mark.parametrize("seqlen", NAIVE_MIB)
@pytest.mark.parametrize("gpu", SIMULATED)
def test_naive_operands_do_not_depend_on_the_gpu(gpu: str, seqlen: int) -> None:
    """Each kernel's inputs once and outputs once are 2·(4N² + 4Nd) bytes: 8.5, 130 and 2,056 MiB a head at d = 64."""
    planned = plan(parse_request("naive", "test"), load_gpu(gpu), one_head(seqlen))
    assert NAIVE_MIB[seqlen] * MIB == 2 * (4 * seqlen**2 + 4 * seqlen * 64)
    assert NAIVE_MIB[seqlen] * MIB == graph_operand_bytes(planned.graph)


@pytest.mark.parametrize("gpu", SIMULATED)
def test_a_simulated_point_reports_the_naive_operands(gpu: str) -> None:
    """`operand_bytes` of the point is 8.5 MiB at N = 1,024."""
    result = run_point(Point(load_gpu(gpu), parse_request("naive", "test"), one_head(1024), COLD))
    assert 8.5 * MIB == result.operand_bytes


@pytest.mark.parametrize(("tile_q", "tile_kv"), [(128, 128), (256, 128), (64, 256)])
def test_tiled_gemms_ask_l2_by_their_tiles(tile_q: int, tile_kv: int) -> None:
    """QKᵀ: N²d(1/Bm + 1/Bn) + N² numbers; PV, whose tile spans all d columns: N² + N²d/Bm + Nd numbers."""
    n, d = 1024, 64
    graph = SCHEDULES["naive"].build(one_head(n, d), NaiveChoices(tile_q=tile_q, tile_kv=tile_kv), {})
    qk, softmax, pv = (kernel_work(kernel) for kernel in graph.kernels)
    assert n * n * d // tile_q + n * n * d // tile_kv + n * n == (qk.read_bytes + qk.write_bytes) // 2
    assert 2 * n * n == (softmax.read_bytes + softmax.write_bytes) // 2
    assert n * n + n * n * d // tile_q + n * d == (pv.read_bytes + pv.write_bytes) // 2


@pytest.mark.parametrize("seqlen", [256, 1024, 4096])
def test_naive_hbm_bytes_lie_between_compulsory_and_asked(seqlen: int) -> None:
    """Cold inputs cross HBM at least once, nothing more often than asked, and writes end in HBM or dirty in L2."""
    spec, workload = load_gpu("a100_sxm4_40gb"), one_head(seqlen)
    result = run_point(Point(spec, parse_request("naive", "test"), workload, COLD))
    assert workload.input_bytes <= result.hbm_read_bytes <= result.l2_read_bytes
    written = result.hbm_write_bytes + result.l2_dirty_bytes
    assert workload.output_bytes <= written <= result.l2_write_bytes


def test_what_does_not_fit_l2_goes_to_hbm_and_comes_back() -> None:
    """Eight heads at N = 4,096 make S 256 MiB against 40 MiB of L2: all but L2's size is written and read again."""
    workload = AttentionWorkload(batch=1, heads=8, seqlen_q=4096, seqlen_k=4096, head_dim=64)
    spec = load_gpu("a100_sxm4_40gb")
    qk, softmax, _ = run_point(Point(spec, parse_request("naive", "test"), workload, COLD)).kernels
    scores = 8 * 4096**2 * 2
    l2 = spec.memory.l2.size_bytes
    assert scores - l2 <= qk.hbm_write_bytes <= scores
    assert scores - l2 <= softmax.hbm_read_bytes <= scores
