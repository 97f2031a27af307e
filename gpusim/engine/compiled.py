"""The event loop of `loop.py` and the functions of `hardware`, compiled by numba (extra `fast`).

The functions exist once, as plain Python. Compiling rebinds the names they call each other by to compiled versions;
nothing is written twice. Machine code is cached on disk under a key of the sources, so that an edit is never missed;
where no folder can be written, every process compiles for itself.
"""

import hashlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from gpusim.engine import loop, tables
from gpusim.hardware import hbm, l2, memory, pipe, scatter, state

RunKernel = Callable[..., int]

# Callees first: a function is compiled after those that it calls.
_FUNCTIONS = (
    pipe.book,
    scatter.scattered,
    hbm.book_some_channels,
    hbm.update_rate,
    hbm.hbm_transfer,
    hbm.hbm_read,
    hbm.hbm_write,
    l2.home_bytes,
    l2.resident_bytes,
    l2.touch,
    l2.unlink,
    l2.append_newest,
    l2.remove,
    l2.sink,
    l2.look_up,
    l2.settle,
    l2.put,
    l2.renew_home,
    l2.fetch,
    memory.settle_arrivals,
    memory.read_tiles,
    memory.overwrite,
    memory.write_tiles,
    loop.first_block,
    loop.first_key,
    loop.load_access,
    loop.store_access,
    loop.hold_pipe,
    loop.is_before,
    loop.replay,
    loop.place_cta,
    loop.take_item,
    loop.wake_warpgroups,
    loop.all_ended,
    loop.go_to_next_cta,
    loop.next_trip,
    loop.start_straight,
    loop.trips_of,
    loop.ask_tile,
    loop.start_main_loop,
    loop.start_row,
    loop.use_straight,
    loop.store_straight,
    loop.start_phase,
    loop.use_phase,
    loop.end_trip,
    loop.end_phase,
    loop.advance,
    loop.run_kernel,
)


# Nothing is allocated inside, so reference counts are left out: they would be two thirds of the time. What runs every
# phase is inlined; inlining the rest as well doubles the time to compile and gains nothing. The interpreter stays free
# for Ctrl-C and the progress bar meanwhile.
_OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False, "nogil": True}
_NOT_INLINED = (
    hbm.hbm_transfer,
    l2.put,
    memory.write_tiles,
    loop.store_access,
    loop.go_to_next_cta,
    loop.next_trip,
    loop.start_straight,
    loop.start_main_loop,
    loop.start_row,
    loop.use_straight,
    loop.store_straight,
    loop.run_kernel,
)


def has_numba() -> bool:
    """Whether the extra `fast` is installed."""
    return importlib.util.find_spec("numba") is not None


@cache
def compiled_run_kernel() -> RunKernel:
    """`loop.run_kernel` as machine code. Raises ImportError without numba."""
    import numba  # an optional extra, and slow to import

    folder = _cache_folder(numba)
    settings: Any = numba.config
    others_folder = settings.CACHE_DIR
    settings.CACHE_DIR = others_folder if folder is None else str(folder)
    namespace: dict[str, Any] = {}
    for module in _modules():
        namespace |= vars(module)
    for function in _FUNCTIONS:
        rebound = FunctionType(function.__code__, namespace, function.__name__, function.__defaults__)
        namespace[function.__name__] = numba.njit(
            cache=folder is not None, forceinline=function not in _NOT_INLINED, **_OPTIONS
        )(rebound)
    settings.CACHE_DIR = others_folder
    run_kernel: RunKernel = namespace["run_kernel"]
    return run_kernel


def _modules() -> list[ModuleType]:
    modules = dict.fromkeys(inspect.getmodule(function) for function in _FUNCTIONS)
    return [module for module in modules if module is not None]


def _cache_folder(numba: ModuleType) -> Path | None:
    """A folder of its own for this version of the sources, None where it cannot be written.

    The numbers of columns are compiled in, and numba's own key does not see them: their modules count as sources too.
    """
    digest = hashlib.sha256(numba.__version__.encode())
    for module in (*_modules(), state, tables, sys.modules[__name__]):
        digest.update(inspect.getsource(module).encode())
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = home / "gpusim" / digest.hexdigest()[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None
