"""PyTorch's scaled_dot_product_attention by each of its backends: the times that people see.

Every combination of backend, number format, head dim and mask is first compared with float64 at a small size. Output
is allocated by PyTorch inside the timed call, from its own cache.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from gpusim.dtypes import DType
from validation.collect.device import DeviceError, NotHereError
from validation.collect.work import TOLERANCES, Backend, SdpaCall

HOST_NS_PER_CALL = 200_000  # with room to spare
CHECK_SEQLEN, CHECK_HEADS = 200, 2
_NAMES: dict[Backend, str] = {
    "math": "MATH",
    "flash": "FLASH_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
    "cudnn": "CUDNN_ATTENTION",
}


def prepared(call: SdpaCall) -> Callable[[], None]:
    """The call on random inputs in device memory. Raises DeviceError where this backend cannot run it, or is wrong."""
    fault = _fault(call.backend, call.dtype, call.head_dim, call.causal)
    if fault is not None:
        raise DeviceError(fault)
    inputs = _inputs(call.dtype, call.batch, call.heads, call.seqlen, call.head_dim)

    def run() -> None:
        _attention(call.backend, inputs, call.causal)

    return run


@contextmanager
def on_stream(pointer: int) -> Iterator[None]:
    """PyTorch works on a stream of another library meanwhile."""
    torch = _torch()
    with torch.cuda.stream(torch.cuda.ExternalStream(pointer)), torch.no_grad():
        yield


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise DeviceError("PyTorch is not installed; pip install torch") from None
    if not torch.cuda.is_available():
        raise DeviceError(f"PyTorch {torch.__version__} finds no GPU; install its CUDA build from pytorch.org")
    return torch


def _inputs(dtype: str, batch: int, heads: int, seqlen: int, head_dim: int) -> tuple[Any, ...]:
    torch = _torch()
    kind = {"fp16": torch.float16, "bf16": torch.bfloat16}[dtype]
    generator = torch.Generator("cuda").manual_seed(0)
    shape = (batch, heads, seqlen, head_dim)
    return tuple(torch.randn(shape, generator=generator, device="cuda", dtype=kind) for _ in range(3))


def _attention(backend: Backend, inputs: tuple[Any, ...], causal: bool) -> Any:
    """One call. Raises DeviceError with PyTorch's reason, NotHereError where it has no such kernel."""
    torch = _torch()
    from torch.nn.attention import SDPBackend, sdpa_kernel

    try:
        with sdpa_kernel(getattr(SDPBackend, _NAMES[backend])), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # why other backends were not taken
            return torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=causal)
    except AttributeError as error:
        raise NotHereError(f"SDPA {backend}: {error}") from error
    except RuntimeError as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        kind = NotHereError if "No available kernel" in reason else DeviceError
        raise kind(f"SDPA {backend}: {reason}") from error


@cache
def _fault(backend: Backend, dtype: str, head_dim: int, causal: bool) -> str | None:
    """How far a small call is from float64, where that is too far."""
    inputs = _inputs(dtype, 1, CHECK_HEADS, CHECK_SEQLEN, head_dim)
    found = _attention(backend, inputs, causal).double()
    expected = _attention("math", tuple(item.double() for item in inputs), causal)
    worst, tolerance = float((found - expected).abs().max()), TOLERANCES[DType(dtype)]
    return (
        None if worst <= tolerance else f"wrong result, SDPA {backend} is off by {worst:.3g}, more than {tolerance:g}"
    )
