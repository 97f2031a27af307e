"""TMA descriptors (CUtensorMap) from the driver, as a kernel argument of 128 bytes.

CuPy has no call for them, so the driver's cuTensorMapEncodeTiled is called through ctypes; numbers of its enumerations
are those of cuda.h. Checked without a GPU is only that arguments have the types and the order of the header.
"""

import ctypes
from functools import cache

import numpy as np
import numpy.typing as npt

from validation.collect.device import DeviceError
from validation.collect.work import TensorMap

MAP_BYTES, MAP_ALIGNMENT = 128, 64
ELEMENT_BYTES = 2
_DATA_TYPES = {"float16": 6, "bfloat16": 9}  # CUtensorMapDataType
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}  # CUtensorMapSwizzle
_NO_INTERLEAVE, _PROMOTE_TO_256_BYTES, _FILL_WITH_ZEROS = 0, 3, 0
_ARGUMENT = np.dtype([("words", np.uint64, MAP_BYTES // 8)])


def encoded(tensor: TensorMap, address: int) -> npt.NDArray[np.void]:
    """The descriptor of a tensor at a device address, as CuPy passes it by value. Raises DeviceError."""
    rank = len(tensor.shape)
    sizes, box = tensor.shape[::-1], tensor.box[::-1]  # the driver counts from the fastest dimension
    strides = [ELEMENT_BYTES * int(np.prod(sizes[:dimension], dtype=np.int64)) for dimension in range(1, rank)]
    held = (ctypes.c_ubyte * (MAP_BYTES + MAP_ALIGNMENT))()
    place = -ctypes.addressof(held) % MAP_ALIGNMENT
    status = _driver().cuTensorMapEncodeTiled(
        ctypes.c_void_p(ctypes.addressof(held) + place),
        ctypes.c_int(_DATA_TYPES[tensor.dtype]),
        ctypes.c_uint32(rank),
        ctypes.c_void_p(address),
        (ctypes.c_uint64 * rank)(*sizes),
        (ctypes.c_uint64 * max(1, rank - 1))(*strides),
        (ctypes.c_uint32 * rank)(*box),
        (ctypes.c_uint32 * rank)(*[1] * rank),
        ctypes.c_int(_NO_INTERLEAVE),
        ctypes.c_int(_SWIZZLES[tensor.swizzle_bytes]),
        ctypes.c_int(_PROMOTE_TO_256_BYTES),
        ctypes.c_int(_FILL_WITH_ZEROS),
    )
    if status:
        raise DeviceError(f"cuTensorMapEncodeTiled of {tensor.array} {tensor.shape} by {tensor.box}: status {status}")
    argument = np.zeros((), _ARGUMENT)
    argument["words"] = np.frombuffer(bytes(held)[place : place + MAP_BYTES], np.uint64)
    return argument


@cache
def _driver() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise DeviceError("libcuda.so.1 is not there; install the NVIDIA driver") from None
