"""The envelope example: eight tokens of four numbers, 2 bytes each, on a GPU with SRAM for 96 numbers."""

import pytest

from gpusim.analytic import kernel_work
from gpusim.implementations import parse_request, plan
from gpusim.point import Point, run_point
from gpusim.results import PointResult
from gpusim.specs import load_gpu
from gpusim.workloads import AttentionWorkload, Conditions

NUMBER = 2  # bytes
WORKLOAD = AttentionWorkload(batch=1, heads=1, seqlen_q=8, seqlen_k=8, head_dim=4)
FLASH_BYTES = {4: 384, 2: 640}


def simulated(schedule: object) -> PointResult:
    """The example's result on canvas, cold."""
    request = parse_request(schedule, "test")
    return run_point(Point(load_gpu("canvas"), request, WORKLOAD, Conditions(timing="ncu", cache="cold")))


def asked_bytes(schedule: object) -> int:
    """Closed-form bytes of all kernels together."""
    graph = plan(parse_request(schedule, "test"), load_gpu("canvas"), WORKLOAD).graph
    works = [kernel_work(kernel) for kernel in graph.kernels]
    return sum(work.read_bytes + work.write_bytes for work in works)


def flash(tile: int) -> dict[str, object]:
    """FlashAttention with square tiles, as a scenario writes it."""
    return {"name": "flash2", "tile_q": tile, "tile_kv": tile}


def test_naive_moves_768_bytes_through_hbm() -> None:
    """Q, K, V, O are 32 numbers and S, P are 64; S and P are written and read: 2·(4·32 + 4·64) = 768 bytes."""
    result = simulated("naive")
    assert 768 == result.hbm_read_bytes + result.hbm_write_bytes


def test_each_naive_kernel_moves_its_operands_once() -> None:
    """QK reads Q and K and writes S, softmax reads S and writes P, PV reads P and V and writes O."""
    kernels = simulated("naive").kernels
    numbers = [(kernel.hbm_read_bytes // NUMBER, kernel.hbm_write_bytes // NUMBER) for kernel in kernels]
    assert [(64, 64), (64, 64), (96, 32)] == numbers


@pytest.mark.parametrize("tile", FLASH_BYTES)
def test_flash_streams_k_and_v_once_a_query_tile(tile: int) -> None:
    """Q and O once, K and V once for each of the 8/B query tiles: 2·(64 + 64·8/B) bytes, 384 or 640."""
    result = simulated(flash(tile))
    assert FLASH_BYTES[tile] == result.hbm_read_bytes + result.hbm_write_bytes
    assert FLASH_BYTES[tile] == NUMBER * (64 + 64 * 8 // tile)


@pytest.mark.parametrize("tile", FLASH_BYTES)
def test_flash_writes_nothing_but_the_output(tile: int) -> None:
    """O is 32 numbers, written once."""
    assert 32 * NUMBER == simulated(flash(tile)).hbm_write_bytes


@pytest.mark.parametrize(("schedule", "bytes_"), [("naive", 768), (flash(4), 384), (flash(2), 640)])
def test_without_a_cache_analytic_and_simulated_bytes_agree(schedule: object, bytes_: int) -> None:
    """The closed form of the same graph gives the same bytes as the simulation."""
    assert bytes_ == asked_bytes(schedule)
    result = simulated(schedule)
    assert bytes_ == result.hbm_read_bytes + result.hbm_write_bytes


def test_flash1_also_carries_o_m_and_l_between_two_blocks() -> None:
    """Tiles of 4: K, V once (64), Q twice (64), O, m, ℓ written and read once between blocks (48 + 48), O out (32)."""
    result = simulated({"name": "flash1", "tile_q": 4, "tile_kv": 4})
    numbers = (64 + 64 + 48, 48 + 32)
    assert numbers == (result.hbm_read_bytes // NUMBER, result.hbm_write_bytes // NUMBER)
