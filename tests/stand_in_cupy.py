"""The few parts of CuPy that collect uses, on NumPy: every kernel launch takes a millisecond of a made-up clock.

It stands for the library and its hardware, so that the code that drives them runs without either. Kernels compute
nothing.
"""

from pathlib import Path
from types import SimpleNamespace, TracebackType

import numpy as np

PROPERTIES = {
    "name": b"NVIDIA H200",
    "uuid": bytes(range(16)),
    "major": 9,
    "minor": 0,
    "multiProcessorCount": 132,
    "l2CacheSize": 50 << 20,
    "totalGlobalMem": 141_000_000_000,
    "sharedMemPerMultiprocessor": 233_472,
    "sharedMemPerBlockOptin": 232_448,
    "maxThreadsPerMultiProcessor": 2048,
}


class RuntimeFaultError(RuntimeError):
    """CUDARuntimeError: it carries a status."""

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        super().__init__(text)


class _Array:
    """A flat array in device memory."""

    def __init__(self, count: int, dtype: np.dtype) -> None:
        self.values = np.empty(count, dtype)
        self.data = SimpleNamespace(ptr=4096, memset_async=lambda value, size, stream: self.values.fill(value))

    def set(self, values: np.ndarray) -> None:
        """Copies from the host; shapes and types must agree, as they must in CuPy."""
        assert (values.shape, values.dtype) == (self.values.shape, self.values.dtype)
        self.values[:] = values


class StandInCupy:
    """The module. `launched` lists entry point, grid, block, arguments and shared memory; `captured` counts graphs.

    A kernel named in `endless` never ends, one named in `failing` is refused, and one named in `crashing` is launched
    and leaves the context with CUDA error 700.
    """

    def __init__(
        self, *, endless: str = "", failing: str = "", crashing: str = "", devices: int = 1, status: int = 0
    ) -> None:
        self.launched: list[tuple] = []
        self.captured = 0
        self._ms, self._capturing, self._query_status = 0.0, False, 0
        self._graph_ms = 0.0
        self._endless, self._failing, self._crashing = endless, failing, crashing
        stand_in = self

        class Stream:
            """One stream."""

            ptr = 1

            def __init__(self, non_blocking: bool) -> None:
                assert non_blocking

            def __enter__(self) -> "Stream":
                return self

            def __exit__(
                self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
            ) -> None:
                return None

            def begin_capture(self) -> None:
                """From here on launches are recorded."""
                stand_in._capturing, stand_in._graph_ms = True, 0.0

            def end_capture(self) -> SimpleNamespace:
                """A graph that takes as long as what was recorded."""
                stand_in._capturing = False
                stand_in.captured += 1
                took = stand_in._graph_ms

                def launch() -> None:
                    stand_in._ms += took

                return SimpleNamespace(launch=launch, upload=lambda: None)

        class Event:
            """A point in time."""

            at = 0.0
            ptr = 2

            def record(self, stream: Stream) -> None:
                """Now."""
                self.at = stand_in._ms

        class RawModule:
            """A CUBIN."""

            def __init__(self, *, path: str) -> None:
                assert Path(path).exists()

            def get_function(self, name: str) -> "_Kernel":
                """A kernel of it."""
                return _Kernel(stand_in, name)

        def count() -> int:
            if status:
                raise RuntimeFaultError(status, "cudaErrorInsufficientDriver: too old")
            return devices

        runtime = SimpleNamespace(
            CUDARuntimeError=RuntimeFaultError,
            getDeviceCount=count,
            setDevice=lambda number: None,
            free=lambda pointer: None,
            getDeviceProperties=lambda number: PROPERTIES,
            deviceGetPCIBusId=lambda number: "0000:01:00.0",
            driverGetVersion=lambda: 13000,
            runtimeGetVersion=lambda: 13020,
            eventQuery=lambda pointer: self._query_status,
            streamQuery=lambda pointer: self._query_status,
        )
        self.cuda = SimpleNamespace(
            runtime=runtime,
            driver=SimpleNamespace(CUDADriverError=RuntimeFaultError),
            memory=SimpleNamespace(OutOfMemoryError=MemoryError),
            profiler=SimpleNamespace(
                start=lambda: self.launched.append("start"), stop=lambda: self.launched.append("stop")
            ),
            Stream=Stream,
            Event=Event,
            get_elapsed_time=lambda begin, end: end.at - begin.at,
        )
        self.RawModule = RawModule
        self.empty = _Array

    def asnumpy(self, array: _Array) -> np.ndarray:
        """To the host."""
        return array.values.copy()

    def get_default_memory_pool(self) -> SimpleNamespace:
        """A pool that forgets."""
        return SimpleNamespace(free_all_blocks=lambda: None)


class _Kernel:
    """A kernel: a launch takes a millisecond, a spin none."""

    def __init__(self, cupy: StandInCupy, name: str) -> None:
        self._cupy, self._name = cupy, name
        self.max_dynamic_shared_size_bytes = 0

    def __call__(self, grid: tuple, block: tuple, arguments: tuple, shared_mem: int = 0) -> None:
        cupy = self._cupy
        if self._name == "spin":
            return
        if self._name == cupy._failing:
            raise RuntimeFaultError(1, "CUDA_ERROR_INVALID_VALUE: invalid argument")
        assert shared_mem <= max(48 << 10, self.max_dynamic_shared_size_bytes)
        cupy.launched.append((self._name, grid, block, arguments, shared_mem))
        cupy._query_status = {cupy._endless: 600, cupy._crashing: 700}.get(self._name, 0)
        if cupy._capturing:
            cupy._graph_ms += 1.0
        else:
            cupy._ms += 1.0
