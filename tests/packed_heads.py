"""Runs a graph on numbers, with the query heads of a group laid side by side where its schedule packs them."""

import random

import numpy as np

from gpusim.numeric import execute
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
