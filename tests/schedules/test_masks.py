"""Which tiles of a masked loop are skipped, and which are masked: every score looked at, one by one."""

import numpy as np
import pytest

from gpusim.schedules.masks import diagonal, masked_tiles
from gpusim.workloads import PADDED_KEYS, AttentionWorkload

SHAPES = [(64, 64), (60, 64), (64, 60), (37, 53), (53, 37), (16, 100), (100, 16), (1, 40), (40, 1)]
TILES = [(16, 16), (32, 16), (16, 32), (8, 24), (24, 8), (1, 5)]


def workload(seqlen_q: int, seqlen_k: int, *, causal: bool, mask: str = "none") -> AttentionWorkload:
    """One head with these masks."""
    return AttentionWorkload(
        batch=1, heads=1, seqlen_q=seqlen_q, seqlen_k=seqlen_k, head_dim=4, causal=causal, mask=mask
    )


def visible(problem: AttentionWorkload, keys: int) -> np.ndarray:
    """Which of `keys` keys, some behind the end, each query sees; padding hides as many keys as it may."""
    row, key = np.arange(problem.seqlen_q)[:, None], np.arange(keys)
    shortest = problem.seqlen_k - (PADDED_KEYS if problem.mask == "padding" else 0)
    seen = np.broadcast_to(key < shortest, (problem.seqlen_q, keys))
    return seen & (key - row <= problem.seqlen_k - problem.seqlen_q) if problem.causal else seen


def tiles_of(problem: AttentionWorkload, tile_q: int, tile_kv: int) -> np.ndarray:
    """`visible` cut into (CTAs, rows, K/V tiles, keys); rows behind the last query see what it sees."""
    blocks, tiles = -(-problem.seqlen_q // tile_q), -(-problem.seqlen_k // tile_kv)
    seen = visible(problem, tiles * tile_kv)
    seen = np.concatenate((seen, np.repeat(seen[-1:], blocks * tile_q - problem.seqlen_q, axis=0)))
    return seen.reshape(blocks, tile_q, tiles, tile_kv)


@pytest.mark.parametrize("tiles", TILES)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_causal_loop_ends_behind_the_last_tile_that_a_query_sees(
    shape: tuple[int, int], tiles: tuple[int, int]
) -> None:
    """The last key of a tile of queries is that of its last row; a CTA that sees none still does one tile."""
    problem = workload(*shape, causal=True)
    needed = tiles_of(problem, *tiles).any(axis=(1, 3))
    most, ends = needed.shape[1], diagonal(problem, "m", *tiles)
    expected = [max(1, int(np.flatnonzero(row)[-1]) + 1 if row.any() else 1) for row in needed]
    assert expected == [ends.trips(block, most) for block in range(len(needed))]


@pytest.mark.parametrize("consumers", [2, 3])
def test_warpgroups_of_a_cta_end_together(consumers: int) -> None:
    """Tile number v of a warpgroup belongs to CTA ⌊v / consumers⌋, whose last row ends the loop for all of them."""
    problem = workload(64 * 2 * consumers, 64 * 2 * consumers, causal=True)
    one, shared = diagonal(problem, "m", 64 * consumers, 32), diagonal(problem, "m", 64 * consumers, 32, consumers)
    for value in range(2 * consumers):
        assert one.trips(value // consumers, 100) == shared.trips(value, 100)


@pytest.mark.parametrize("tiles", TILES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("causal", "mask"), [(False, "none"), (True, "none"), (False, "padding"), (True, "padding")])
def test_every_tile_that_a_mask_cuts_is_masked_and_no_loop_masks_more(
    shape: tuple[int, int], tiles: tuple[int, int], causal: bool, mask: str
) -> None:
    """As many last tiles as the worst CTA needs: from the first in which some query does not see some key."""
    problem = workload(*shape, causal=causal, mask=mask)
    cut = ~tiles_of(problem, *tiles).all(axis=(1, 3))
    ends, most = diagonal(problem, "m", *tiles), cut.shape[1]
    worst = 0
    for block, row in enumerate(cut):
        trips = most if ends is None else ends.trips(block, most)
        if row[:trips].any():
            worst = max(worst, trips - int(np.flatnonzero(row[:trips])[0]))
    masked = masked_tiles(problem, *tiles)
    assert worst <= masked
    if not (causal and mask == "padding"):
        assert worst == masked


@pytest.mark.parametrize(
    ("tile_q", "tile_kv", "masked"), [(128, 128, 1), (128, 64, 2), (64, 64, 1), (128, 32, 4), (192, 128, 2)]
)
def test_whole_causal_tiles_mask_as_many_as_the_released_kernel(tile_q: int, tile_kv: int, masked: int) -> None:
    """n_masking_steps of flash_fwd_kernel.h where N is whole tiles of both: ⌈kBlockM / kBlockN⌉."""
    assert masked == masked_tiles(workload(1536, 1536, causal=True), tile_q, tile_kv)


def test_without_a_mask_and_with_whole_tiles_nothing_is_masked() -> None:
    """No diagonal, no end inside a tile."""
    problem = workload(64, 64, causal=False)
    assert (None, 0) == (diagonal(problem, "m", 16, 16), masked_tiles(problem, 16, 16))
