"""Attention in float64 NumPy, written as its definition."""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def attention_reference(q: Array, k: Array, v: Array, bias: Array | None = None) -> Array:
    """softmax(Q Kᵀ / √d + bias) V in float64. Shapes (heads, N, d); `bias` broadcasts to (heads, Nq, Nk)."""
    scores = _scores(q, k)
    if bias is not None:
        scores = scores + bias.astype(np.float64)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True) @ v.astype(np.float64))


def row_statistics(q: Array, k: Array) -> tuple[Array, Array]:
    """True maximum of every row of the scores, and the sum of e^(score − maximum); both (heads, Nq)."""
    scores = _scores(q, k)
    maxima = scores.max(axis=-1)
    return maxima, np.exp(scores - maxima[..., None]).sum(axis=-1)


def _scores(q: Array, k: Array) -> Array:
    wide = q.astype(np.float64) @ np.swapaxes(k.astype(np.float64), -1, -2)
    return np.asarray(wide / np.sqrt(q.shape[-1]))
