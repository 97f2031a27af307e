"""Random attention: workloads, and schedules with their choices, as Hypothesis strategies."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from gpusim.schedules import Choices, FlashChoices, KvOuterChoices, NaiveChoices, WarpgroupChoices
from gpusim.schedules.choices import WARPGROUP_ROWS
from gpusim.workloads import AttentionWorkload

Named = tuple[str, Choices]  # a schedule and its choices
ACCUMULATORS = st.sampled_from(["smem", "registers"])
ORDERS = st.sampled_from(["ascending", "longest_first"])
SCHEDULERS = st.sampled_from(["hardware", "dynamic", "static"])
PREPARE = ["copy_q", "copy_k", "copy_v", "transpose_k", "scale_q", "scale_k"]


def workloads(
    *, heads: int, seqlen: int, head_dim: int, grouped: bool = False, masks: tuple[str, ...] = (), queries: int = 0
) -> SearchStrategy[AttentionWorkload]:
    """One or two batch entries, and sizes up to those given; `queries` is another limit for N_q.

    `grouped` draws K/V heads among the divisors of heads; of `masks`, "causal" and "padding", any may be drawn.
    """
    fields = st.fixed_dictionaries(
        {
            "batch": st.integers(1, 2),
            "heads": st.integers(1, heads),
            "seqlen_q": st.integers(1, queries or seqlen),
            "seqlen_k": st.integers(1, seqlen),
            "head_dim": st.integers(1, head_dim),
            "head_dim_v": st.integers(1, head_dim),
            "save_lse": st.booleans(),
            "causal": st.booleans() if "causal" in masks else st.just(False),
            "mask": st.sampled_from(["none", *(mask for mask in masks if mask != "causal")]),
        }
    )
    if grouped:
        fields = fields.flatmap(
            lambda shape: st.sampled_from([n for n in range(1, shape["heads"] + 1) if shape["heads"] % n == 0]).map(
                lambda kv_heads: shape | {"kv_heads": kv_heads}
            )
        )
    return fields.map(AttentionWorkload.model_validate)


def flash1(*, tile: int, stages: int) -> SearchStrategy[Named]:
    """FlashAttention 1, with tiles and stages up to those given."""
    tiles = st.integers(1, tile)
    choices = st.builds(
        KvOuterChoices,
        tile_q=tiles,
        tile_kv=tiles,
        stages=st.integers(1, stages),
        accumulators=ACCUMULATORS,
        fold_scale=st.booleans(),
        grain=st.integers(1, 3),
        partials=st.sampled_from(["output", "fp32"]),
    )
    return st.tuples(st.just("flash1"), choices)


def flash2(*, tile: int, stages: int) -> SearchStrategy[Named]:
    """FlashAttention 2 in any order, with tiles and stages up to those given."""
    tiles = st.integers(1, tile)
    choices = st.builds(
        FlashChoices,
        tile_q=tiles,
        tile_kv=tiles,
        stages=st.integers(1, stages),
        accumulators=ACCUMULATORS,
        fold_scale=st.booleans(),
        order=ORDERS,
        scheduler=SCHEDULERS,
        tensor_path=st.sampled_from([None, "mma_sync"]),
    )
    return st.tuples(st.just("flash2"), choices)


def flash3(*, tile: int, stages: int) -> SearchStrategy[Named]:
    """FlashAttention 3 with one to three consumer warpgroups, in clusters of two or not, on any kind of grid."""
    choices = st.builds(
        WarpgroupChoices,
        tile_q=st.integers(1, 3).map(lambda warpgroups: warpgroups * WARPGROUP_ROWS),
        tile_kv=st.integers(1, tile),
        stages=st.integers(1, stages),
        fold_scale=st.booleans(),
        order=ORDERS,
        scheduler=SCHEDULERS,
        cluster=st.integers(1, 2),
        pack_gqa=st.booleans(),
    )
    return st.tuples(st.just("flash3"), choices)


def scales_at_most_once(passes: tuple[tuple[str, ...], tuple[str, ...]]) -> bool:
    """Whether 1/√d is multiplied in by one of the passes before QK and over the scores, or by none."""
    prepare, score_passes = passes
    return 1 >= len({"scale_q", "scale_k", "divide"} & {*prepare, *score_passes})


def naive(
    *, tile: int, stages: int, softmax_rows: int, score_passes: tuple[tuple[str, ...], ...] = ((),)
) -> SearchStrategy[Named]:
    """Naive attention with up to four passes before QK, and one of the lists of passes over the scores."""
    tiles = st.integers(1, tile)
    prepare = st.lists(st.sampled_from(PREPARE), unique=True, max_size=4).map(tuple)
    passes = st.tuples(prepare, st.sampled_from(score_passes)).filter(scales_at_most_once)
    choices = st.builds(
        lambda drawn, **rest: NaiveChoices(prepare=drawn[0], score_passes=drawn[1], **rest),
        passes,
        tile_q=tiles,
        tile_kv=tiles,
        stages=st.integers(1, stages),
        pv_tile_q=st.none() | tiles,
        pv_tile_d=st.none() | tiles,
        qk_step=st.none() | tiles,
        pv_step=st.none() | tiles,
        softmax_rows=st.integers(1, softmax_rows),
        softmax=st.sampled_from(["kernel", "passes"]),
        accumulators=ACCUMULATORS,
        fold_scale=st.booleans(),
    )
    return st.tuples(st.just("naive"), choices)
