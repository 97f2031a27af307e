"""Attention of the flash schedules on numbers: what a graph computes, and what the definition says it should."""

import random

import numpy as np

from gpusim.numeric import attention_reference, execute
from gpusim.schedules import Choices, WarpgroupChoices
from gpusim.taskgraph import TaskGraph
from gpusim.workloads import AttentionWorkload


def attended(
    graph: TaskGraph,
    choices: Choices,
    problem: AttentionWorkload,
    inputs: dict[str, np.ndarray],
    rng: random.Random | None = None,
    name: str = "O",
) -> np.ndarray:
    """An output of the graph, (batch · heads, N_q, columns); a packed tile has rows query · group + head."""
    is_packed = isinstance(choices, WarpgroupChoices) and choices.pack_gqa
    group = problem.heads // problem.kv_heads if is_packed else 1
    q = inputs["Q"].reshape(-1, group, *inputs["Q"].shape[1:]).swapaxes(1, 2)
    laid_out = inputs | {"Q": q.reshape(len(q), -1, q.shape[-1])}
    if "key_lengths" in inputs:
        laid_out["key_lengths"] = inputs["key_lengths"][::group]
    out = execute(graph, laid_out, rng=rng)[name]
    heads = out.reshape(len(out), problem.seqlen_q, group, -1).swapaxes(1, 2)
    return heads.reshape(-1, problem.seqlen_q, out.shape[-1])


def bias(problem: AttentionWorkload, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """What masks add to the scores, (batch · heads, N_q, N_k): 0, or −∞ where the key is hidden."""
    n_q, n_k = problem.seqlen_q, problem.seqlen_k
    hidden = np.zeros((problem.batch * problem.heads, n_q, n_k), bool)
    if problem.causal:
        hidden |= np.arange(n_k) > np.arange(n_q)[:, None] + n_k - n_q
    if problem.mask == "padding":
        hidden |= np.arange(n_k) >= inputs["key_lengths"]
    return np.where(hidden, -np.inf, 0.0)


def repeated(problem: AttentionWorkload, inputs: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Q, and K and V once for every query head."""
    group = problem.heads // problem.kv_heads
    return inputs["Q"], np.repeat(inputs["K"], group, axis=0), np.repeat(inputs["V"], group, axis=0)


def expected_output(problem: AttentionWorkload, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """The definition in float64, and zeros for rows that see no key."""
    added = bias(problem, inputs)
    has_keys = np.isfinite(added).any(axis=-1, keepdims=True)
    return np.where(has_keys, attention_reference(*repeated(problem, inputs), np.where(has_keys, added, 0.0)), 0.0)
