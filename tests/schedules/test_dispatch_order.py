"""In which order work items are taken, worked out by hand."""

import pytest

from gpusim.schedules.dispatch import dispatch_order, heads_in_l2
from gpusim.workloads import AttentionWorkload


def test_ascending_walks_the_tiles_of_one_head_after_those_of_another() -> None:
    """m fastest, nothing runs down, no sections."""
    order = dispatch_order("ascending", 5, 3, 2)
    assert ([("m", 5), ("head", 3)], (), None) == (order.grid, order.descending, order.band)


def test_longest_first_walks_all_heads_of_a_section_down_from_the_last_tile() -> None:
    """Heads fastest, m from its last value down, in sections of as many heads as are given."""
    order = dispatch_order("longest_first", 5, 3, 2)
    assert ([("head", 3), ("m", 5)], ("m",), 2) == (order.grid, order.descending, order.band)


@pytest.mark.parametrize(
    ("seqlen", "heads", "kv_heads", "section"),
    [
        (16384, 32, 32, 4),  # 16,384 · 256 · 2 B are 8 MiB a head: four are 32 MiB
        (16384, 32, 8, 16),  # four K/V heads serve sixteen query heads
        (10000, 32, 32, 4),  # six would fit; the largest power of two is four
        (2048, 64, 64, 32),  # 1 MiB a head
        (131072, 32, 32, 1),  # none fits: one all the same
        (131072, 32, 4, 8),
    ],
)
def test_k_and_v_of_a_section_fit_32_mib(seqlen: int, heads: int, kv_heads: int, section: int) -> None:
    """In fp16 with d = 128; hopper/tile_scheduler.hpp counts a power of two of K/V heads."""
    shape = {"seqlen_q": seqlen, "seqlen_k": seqlen, "head_dim": 128, "kv_heads": kv_heads}
    assert section == heads_in_l2(AttentionWorkload.model_validate({"batch": 1, "heads": heads} | shape))
