"""PyTorch's attention, which schedules are compared with."""

from typing import Protocol

import numpy as np
import pytest
import torch


class TorchAttention(Protocol):
    """`torch_attention(inputs)`: the output of Q, K and V."""

    def __call__(self, inputs: dict[str, np.ndarray], *, causal: bool = False) -> np.ndarray: ...


@pytest.fixture(scope="session")
def torch_attention() -> TorchAttention:
    """PyTorch's own attention in float64, on inputs that may already be rounded to their format."""

    def attention(inputs: dict[str, np.ndarray], *, causal: bool = False) -> np.ndarray:
        q, k, v = (torch.from_numpy(inputs[name].astype(np.float64)) for name in "QKV")
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal).numpy()

    return attention
