"""Which K/V tiles of a FlashAttention main loop are skipped, and which are masked.

Tiles wholly behind the diagonal are skipped; those that the diagonal cuts, or in which a sequence may end, are the last
of the loop, and masked.
"""

from gpusim.schedules.attention_tensors import key_lengths
from gpusim.taskgraph import Buffer, Diagonal, Guard, KernelBuilder, MaskCausal, MaskKeys
from gpusim.taskgraph.tensors import ceil_div
from gpusim.workloads import PADDED_KEYS, AttentionWorkload


def diagonal(
    workload: AttentionWorkload, index: str, tile_q: int, tile_kv: int, group: int = 1, packed: int = 1
) -> Diagonal | None:
    """Where a causal mask ends the loop over K/V tiles of the CTA with rows ⌊`index` / `group`⌋ · tile_q and on.

    The last query sees the last key, however many of each there are; a query has `packed` rows.
    """
    if not workload.causal:
        return None
    return Diagonal(index, tile_q, tile_kv, workload.seqlen_k - workload.seqlen_q, group, packed)


def masked_tiles(workload: AttentionWorkload, tile_q: int, tile_kv: int, packed: int = 1) -> int:
    """How many of the last tiles of a loop are masked, at most; a query has `packed` rows."""
    cut = 0
    if workload.seqlen_k % tile_kv:
        cut = 1
    if workload.mask == "padding":
        shortest = max(0, workload.seqlen_k - PADDED_KEYS)
        cut = ceil_div(workload.seqlen_k, tile_kv) - shortest // tile_kv
    ends = diagonal(workload, "m", tile_q, tile_kv, packed=packed)
    if ends is not None:
        tiles = ceil_div(workload.seqlen_k, tile_kv)
        for block in range(ceil_div(workload.seqlen_q * packed, tile_q)):
            first = block * tile_q // packed
            whole = max(0, first + ends.shift + 1) // tile_kv  # tiles that the block's first query sees in full
            cut = max(cut, ends.trips(block, tiles) - whole)
    return cut


def load_lengths(cta: KernelBuilder, workload: AttentionWorkload, packed: int = 1) -> Buffer | int:
    """Keys of a sequence: a number that the CTA loads where sequences are padded; it has `packed` heads."""
    if workload.mask != "padding":
        return workload.seqlen_k
    lengths = cta.register("length", 1)
    cta.load(key_lengths(workload, packed).tile(), lengths)
    return lengths


def mask(
    cta: KernelBuilder,
    workload: AttentionWorkload,
    scores: Buffer,
    row: str,
    length: Buffer | int,
    last: int,
    packed: int = 1,
) -> None:
    """Masks the scores of the last tiles of loop j; `row` is the grid index of the scores' rows, `packed` a query."""
    if last == 0:
        return
    guard = Guard("j", "last", last)
    if workload.causal:
        cta.do("mask", MaskCausal(scores, row, "j", workload.seqlen_k - workload.seqlen_q, packed), guard)
    if isinstance(length, Buffer) or not workload.causal:
        cta.do("mask keys", MaskKeys(scores, length, "j"), guard)
