"""The table of our CUDA kernels: launches that follow from a schedule's choices, and what is refused."""

from pathlib import Path

import numpy as np
import pytest
import yaml
from cuda_kernels import A100, H100, planned

from gpusim.errors import UnsupportedError
from validation.collect.work import TensorMap, Work
from validation.kernels import KERNELS, attention_work

SCENARIOS = Path(__file__).parents[2] / "scenarios"
SIZES = {"batch": 2, "heads": 3, "seqlen_q": 1000, "seqlen_k": 500}


def launched(implementation: str, choices: dict[str, object] | None = None, **fields: object) -> Work:
    """The launches on an H100, of 6 heads with 1,000 queries and 500 keys unless said otherwise."""
    plan, workload = planned(implementation, H100, choices, **(SIZES | fields))
    return attention_work(plan, H100, workload)


@pytest.mark.parametrize(
    ("implementation", "grids", "blocks"),
    [
        ("gpusim_cuda", [(8, 6, 1)], [128]),  # ⌈1,000 / 128⌉ Q tiles
        ("gpusim_cuda_flash1", [(6, 1, 1)], [128]),
        ("gpusim_cuda_flash3", [(8, 6, 1)], [384]),  # one producer and two consumer warpgroups
        # ⌈500 / 128⌉ × ⌈1,000 / 128⌉ tiles of S; four rows a CTA; ⌈1,000 / 256⌉ tiles of O
        ("gpusim_cuda_naive", [(4, 8, 6), (250, 6, 1), (1, 4, 6)], [256, 128, 256]),
    ],
)
def test_grid_and_block_are_those_of_the_schedule(
    implementation: str, grids: list[tuple[int, int, int]], blocks: list[int]
) -> None:
    """At d = 64 with the tiles of the implementation's table."""
    launches = launched(implementation).launches
    assert (grids, blocks) == ([launch.grid for launch in launches], [launch.block for launch in launches])


def test_sizes_are_those_of_the_choices() -> None:
    """Every choice arrives as a -D name; 64 × 64 tiles with three stages of 8 KiB for K and V leave four CTAs an SM."""
    (launch,) = launched("gpusim_cuda", {"tile_q": 64, "stages": 3}, dtype="bf16", causal=True).launches
    sizes = {"HEAD_DIM": "64", "TILE_Q": "64", "TILE_KV": "64", "WARPS": "4", "STAGES": "3"}
    assert sizes | {"CAUSAL": "1", "BF16": "1", "CTAS_PER_SM": "4"} == dict(launch.program.defines)


def test_arguments_stand_in_the_order_of_the_source() -> None:
    """Arrays by name, sizes as 32-bit integers, 1/√64 in fp32, and a null pointer where nobody wants log-sum-exp."""
    sizes = (np.int32(1000), np.int32(500), np.float32(0.125))
    for save_lse, lse in ((False, None), (True, "lse")):
        work = launched("gpusim_cuda", save_lse=save_lse)
        assert ("q", "k", "v", "o", lse, *sizes) == work.launches[0].arguments
        assert {"q", "k", "v", "o"} | ({"lse"} if save_lse else set()) == set(work.arrays)


def test_rows_of_scores_start_on_16_bytes() -> None:
    """Of 500 fp16 numbers, rounded up to 504."""
    work = launched("gpusim_cuda_naive")
    assert np.int32(504) == work.launches[0].arguments[5]
    assert 6 * 1000 * 504 == work.arrays["s"].count == work.arrays["p"].count


def test_tma_boxes_are_tiles_of_64_columns() -> None:
    """Under the 128-byte swizzle a box has 64 numbers of 2 bytes a row; Q, K and V end with their head."""
    q, k, v = launched("gpusim_cuda_flash3", head_dim=128).launches[0].arguments[:3]
    assert TensorMap("q", "float16", (6, 1000, 128), (1, 128, 64), swizzle_bytes=128) == q
    assert TensorMap("k", "float16", (6, 500, 128), (1, 128, 64), swizzle_bytes=128) == k
    assert TensorMap("v", "float16", (6, 500, 128), (1, 128, 64), swizzle_bytes=128) == v


def test_q_k_and_v_differ() -> None:
    """Random numbers of their own: with K = Q every query would find itself."""
    arrays = launched("gpusim_cuda", seqlen_q=500).arrays
    q, k, v = (arrays[name].values() for name in ("q", "k", "v"))
    assert not np.array_equal(q, k)
    assert not np.array_equal(k, v)


@pytest.mark.parametrize(
    ("implementation", "choices", "fields", "message"),
    [
        ("flash2", {}, {}, "no CUDA kernel of ours computes flash2; choose one of gpusim_cuda_naive, "),
        ("flash2", {"stages": 2}, {"kv_heads": 1}, "no CUDA kernel of ours has kv_heads = 1 below heads = 3"),
        ("flash2", {"tile_kv": 64}, {"head_dim_v": 128}, "has head_dim_v = 128 beside head_dim = 64"),
        ("flash2", {"stages": 2}, {"mask": "padding"}, "no CUDA kernel of ours has mask 'padding'"),
        ("gpusim_cuda", {"order": "longest_first"}, {}, "flash2_forward.cu has no order = longest_first; leave order"),
        ("gpusim_cuda_flash1", {"stages": 2}, {}, "flash1_forward.cu has no stages = 2; leave stages at 1"),
        ("gpusim_cuda", {}, {"batch": 65_536, "heads": 1}, r"grid of 8 × 65536 × 1 CTAs but CUDA allows 65,535"),
    ],
)
def test_what_no_kernel_computes_is_refused(
    implementation: str, choices: dict[str, object], fields: dict[str, object], message: str
) -> None:
    """Never another kernel in its place."""
    with pytest.raises(UnsupportedError, match=message):
        launched(implementation, choices, **fields)


def test_scenarios_of_the_repository_cover_the_table() -> None:
    """Each of our implementations is simulated in a scenarios/validation_*.yaml."""
    scenarios = [yaml.safe_load(path.read_text()) for path in SCENARIOS.glob("validation_*.yaml")]
    named = {name for found in scenarios for name in np.atleast_1d(found["schedule"])}
    assert {kernel.implementation for kernel in KERNELS} == named


def test_an_a100_has_no_hopper_kernel() -> None:
    """The simulator refuses wgmma before there is anything to launch."""
    with pytest.raises(UnsupportedError, match="wgmma"):
        planned("gpusim_cuda_flash3", A100)
