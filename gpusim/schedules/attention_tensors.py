"""Q, K, V, O and log-sum-exp as tensors, cut into the tiles a schedule works on."""

from gpusim.dtypes import DType
from gpusim.taskgraph import Role, Tensor
from gpusim.workloads import AttentionWorkload


def matrix(
    name: str,
    workload: AttentionWorkload,
    shape: tuple[int, int],
    role: Role,
    tile: tuple[int, int],
    heads: int | None = None,
) -> Tensor:
    """One rows × cols matrix a batch entry and head, in the workload's format; `heads` of K and V may be fewer."""
    return Tensor(name, workload.batch * (heads or workload.heads), *shape, workload.dtype, role, *tile)


def queries(workload: AttentionWorkload, tile_rows: int, tile_cols: int | None = None, packed: int = 1) -> Tensor:
    """Q, (batch · heads, seqlen_q, head_dim); a tile is as wide as the head dim unless `tile_cols` says less.

    With `packed` heads side by side (batch · heads / packed, seqlen_q · packed, head_dim).
    """
    shape = workload.seqlen_q * packed, workload.head_dim
    return matrix("Q", workload, shape, Role.INPUT, (tile_rows, tile_cols or shape[1]), workload.heads // packed)


def keys(workload: AttentionWorkload, tile_rows: int, tile_cols: int | None = None) -> Tensor:
    """K, (batch · kv_heads, seqlen_k, head_dim); a tile is as wide as the head dim unless `tile_cols` says less."""
    d = workload.head_dim
    return matrix("K", workload, (workload.seqlen_k, d), Role.INPUT, (tile_rows, tile_cols or d), workload.kv_heads)


def values(workload: AttentionWorkload, tile_rows: int, tile_cols: int | None = None) -> Tensor:
    """V, (batch · kv_heads, seqlen_k, head_dim_v); a tile is as wide as the head dim unless `tile_cols` says less."""
    d = workload.head_dim_v
    return matrix("V", workload, (workload.seqlen_k, d), Role.INPUT, (tile_rows, tile_cols or d), workload.kv_heads)


def output(workload: AttentionWorkload, tile_rows: int, tile_cols: int | None = None, packed: int = 1) -> Tensor:
    """O, (batch · heads, seqlen_q, head_dim_v); a tile is as wide as the head dim unless `tile_cols` says less.

    With `packed` heads side by side (batch · heads / packed, seqlen_q · packed, head_dim_v).
    """
    shape = workload.seqlen_q * packed, workload.head_dim_v
    return matrix("O", workload, shape, Role.OUTPUT, (tile_rows, tile_cols or shape[1]), workload.heads // packed)


def key_mask(workload: AttentionWorkload, tile_cols: int) -> Tensor:
    """What is added to every row of scores, (batch · heads, 1, seqlen_k): 0 for a key, −∞ for padding.

    Frameworks hold one byte a key and batch entry instead; beside the scores neither counts.
    """
    return matrix("key_mask", workload, (1, workload.seqlen_k), Role.INPUT, (1, tile_cols))


def causal_mask(workload: AttentionWorkload, tile: tuple[int, int]) -> Tensor:
    """Ones up to the diagonal, zeros beyond: one (seqlen_q, seqlen_k) mask for all heads, made before the call."""
    shape = workload.seqlen_q, workload.seqlen_k
    return Tensor("causal_mask", 1, *shape, workload.dtype, Role.INPUT, *tile, is_mask=True)


def key_lengths(workload: AttentionWorkload, packed: int = 1) -> Tensor:
    """How many keys of each sequence are no padding, (batch · heads / packed, 1, 1), 4 bytes each.

    Frameworks hold one number a batch entry; beside K and V neither counts.
    """
    return Tensor("key_lengths", workload.batch * workload.heads // packed, 1, 1, DType.FP32, Role.INPUT, 1, 1)


def row_values(
    name: str, workload: AttentionWorkload, dtype: DType, role: Role, tile_rows: int, packed: int = 1
) -> Tensor:
    """One number a query row, (batch · heads / packed, seqlen_q · packed, 1)."""
    heads, rows = workload.batch * workload.heads // packed, workload.seqlen_q * packed
    return Tensor(name, heads, rows, 1, dtype, role, tile_rows, 1)


def softmax_scale(workload: AttentionWorkload) -> float:
    """1/√d, the factor on the scores."""
    return float(workload.head_dim**-0.5)
