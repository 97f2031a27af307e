"""A GPU through CuPy: CUBINs by NVRTC, times by CUDA events around queued calls or around replays of a graph.

Whatever is queued waits behind a kernel that spins, so that the host's own time per launch is not in a sample. A call
that breaks the context, or does not end within HANG_S seconds, ends the run: nothing can be done with that GPU from
this process any more.
Not checked without a GPU: everything that touches the driver.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from gpusim.errors import InputError
from gpusim.measured.aliases import alias_table, look_up
from validation.collect import baselines, counters, nvidia_smi
from validation.collect.cubins import CubinCache
from validation.collect.device import DeviceError, Facts, HungError, LostError, NotHereError
from validation.collect.tensor_maps import encoded
from validation.collect.work import Argument, Array, Case, Check, Launch, SdpaCall, TensorMap, Timed, Values, Work
from validation.microbenchmarks.programs import SPIN
from validation.nvrtc import NvrtcError, check_installed

CACHE = Path.home() / ".cache" / "gpusim" / "cubins"
HANG_S = 60.0
LEAST_SAMPLES, MOST_SAMPLES = 7, 31
SAMPLING_S = 0.25  # of a case
SAMPLE_MS = 2.0  # calls are repeated within a sample up to this time
MOST_CALLS = 100  # of a sample
HOST_NS_PER_LAUNCH = 20_000  # with room to spare
GRAPH_HOST_NS = 200_000
COLD_L2S, MOST_COPIES = 3, 512  # copies of cold inputs: as much as three times L2
CUDA_SUCCESS, CUDA_NOT_READY = 0, 600  # cudaSuccess and cudaErrorNotReady of driver_types.h
MEMORY_SHARE = 0.6  # of device memory that copies may take
_INSTALL = "pip install -e '.[gpu-cuda13]' (driver 580 or newer) or '.[gpu-cuda12]'"


def open_device(gpu: str | None = None, cache: Path = CACHE) -> "CupyDevice":
    """The first CUDA device. `gpu` names the preset to write rows for, where the driver's name is not known.

    Raises InputError or NvrtcError, in one line, for what is missing.
    """
    try:
        import cupy
    except ImportError as error:
        raise InputError("GPU", [f"CuPy is not installed ({error.name or error}); {_INSTALL}"]) from None
    runtime = cupy.cuda.runtime
    try:
        count = runtime.getDeviceCount()
        if not count:
            raise InputError("GPU", ["the driver finds no CUDA device; see nvidia-smi and CUDA_VISIBLE_DEVICES"])
        runtime.setDevice(0)
        runtime.free(0)  # makes the context: a broken driver shows here
    except RuntimeError as error:  # CUDARuntimeError, or CuPy's own where libcuda is not there
        raise InputError("GPU", [f"no usable NVIDIA driver or device ({error}); see gpusim doctor"]) from None
    check_installed()
    return CupyDevice(cupy, gpu, cache)


class CupyDevice:
    """Device 0 of CuPy, as `Device` describes it."""

    def __init__(self, cupy: Any, gpu: str | None, cache: Path) -> None:
        self._cupy = cupy
        self._gpu = gpu
        self._cubins = CubinCache(cache, self._compiler())
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._modules: dict[Path, Any] = {}
        self._pci = str(cupy.cuda.runtime.deviceGetPCIBusId(0))
        self._errors = (
            cupy.cuda.runtime.CUDARuntimeError,
            cupy.cuda.driver.CUDADriverError,
            cupy.cuda.memory.OutOfMemoryError,
            RuntimeError,  # PyTorch's, of which its out-of-memory error is one
            NvrtcError,
        )

    @staticmethod
    def _compiler() -> str:
        found = _versions("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12")
        return " ".join(f"{name} {number}" for name, number in found.items()) or "NVRTC of the system"

    @cached_property
    def facts(self) -> Facts:
        """What the driver says."""
        runtime = self._cupy.cuda.runtime
        told = runtime.getDeviceProperties(0)
        smi = nvidia_smi.query(self._pci, ("uuid", "driver_version"))
        product = told["name"].decode()
        alias = look_up(alias_table().gpus, product)
        return Facts(
            gpu=self._gpu or (alias.preset if alias else None) or product,
            product=product,
            uuid=str(smi.get("uuid") or bytes(told.get("uuid", b"")).hex()),
            capability=(told["major"], told["minor"]),
            sm_count=told["multiProcessorCount"],
            l2_bytes=told["l2CacheSize"],
            memory_bytes=told["totalGlobalMem"],
            smem_per_sm_bytes=told["sharedMemPerMultiprocessor"],
            smem_per_cta_max_bytes=told["sharedMemPerBlockOptin"],
            threads_per_sm=told["maxThreadsPerMultiProcessor"],
            versions={
                "driver": str(smi.get("driver_version", "unknown")),
                "driver CUDA": str(runtime.driverGetVersion()),
                "runtime CUDA": str(runtime.runtimeGetVersion()),
                "compiler": self._cubins.compiler,
                **_versions("cupy-cuda12x", "cupy-cuda13x", "torch", "numpy"),
            },
        )

    def clocks(self) -> Mapping[str, float | str]:
        """What nvidia-smi says now."""
        return nvidia_smi.clocks(self._pci)

    def outputs(self, check: Check) -> Mapping[str, Values]:
        """Runs the check's work once."""
        with self._working(check.name):
            arrays = self._allocated(check.work)
            self._prepared(check.work, arrays)()
            self._finish(check.name)
            return {name: self._cupy.asnumpy(arrays[name]) for name in check.work.read_back}

    def time(self, case: Case) -> Timed:
        """Warms up, finds how many calls make a sample, and takes samples."""
        with self._working(case.name):
            if isinstance(case.call, SdpaCall):
                with baselines.on_stream(self._stream.ptr):
                    return self._sampled([baselines.prepared(case.call)], case, baselines.HOST_NS_PER_CALL)
            work = case.call
            host_ns = HOST_NS_PER_LAUNCH * len(work.launches)
            sets = [self._allocated(work) for _ in range(self._copies(case, work))]
            timed = self._sampled([self._prepared(work, arrays) for arrays in sets], case, host_ns)
            read_back = {name: self._cupy.asnumpy(sets[-1][name]) for name in work.read_back if name == "clocks"}
            return Timed(timed.ms, read_back)

    def counters(self, case: Case) -> Mapping[str, float]:
        """Bytes of one call, by a profiler around a process of its own."""
        return counters.read(case, self._gpu)

    def profiled(self, case: Case) -> None:
        """Runs a case twice, the second time between the marks that a profiler waits for."""
        with self._working(case.name):
            if isinstance(case.call, SdpaCall):
                with baselines.on_stream(self._stream.ptr):
                    self._profile(baselines.prepared(case.call), case.name)
            else:
                self._profile(self._prepared(case.call, self._allocated(case.call)), case.name)

    def _profile(self, call: Callable[[], None], what: str) -> None:
        call()
        self._finish(what)
        self._cupy.cuda.profiler.start()
        call()
        self._finish(what)
        self._cupy.cuda.profiler.stop()

    def _sampled(self, calls: Sequence[Callable[[], None]], case: Case, host_ns: int) -> Timed:
        """Times calls in turn: each reads and writes arrays of its own, so that cold ones find nothing in L2.

        `host_ns` is what the host takes at most to queue one call.
        """
        for number in range(max(case.warm_calls, len(calls))):
            calls[number % len(calls)]()
            if number % MOST_CALLS == MOST_CALLS - 1:
                self._finish(case.name)
        self._finish(case.name)
        guess_ms = self._events(calls[0], host_ns, case.name)
        count = max(1, min(MOST_CALLS, round(SAMPLE_MS / max(guess_ms, 1e-3))))
        count = len(calls) * math.ceil(count / len(calls))  # every copy as often

        def queue() -> None:
            for number in range(count):
                calls[number % len(calls)]()

        run, busy_ns = queue, count * host_ns
        if case.timer == "graph":
            run, busy_ns = self._captured(queue).launch, GRAPH_HOST_NS
            run()
            self._finish(case.name)
        samples = max(LEAST_SAMPLES, min(MOST_SAMPLES, round(1e3 * SAMPLING_S / (guess_ms * count))))
        return Timed([self._events(run, busy_ns, case.name) / count for _ in range(samples)])

    def _captured(self, queue: Callable[[], None]) -> Any:
        self._stream.begin_capture()
        try:
            queue()
        finally:
            graph = self._stream.end_capture()
        graph.upload()
        return graph

    def _events(self, run: Callable[[], None], host_ns: int, what: str) -> float:
        """Milliseconds between two events around what `run` queues on the stream, in at most `host_ns`."""
        begin, end = self._cupy.cuda.Event(), self._cupy.cuda.Event()
        self._spin(host_ns)
        begin.record(self._stream)
        run()
        end.record(self._stream)
        self._finish(what)
        return float(self._cupy.cuda.get_elapsed_time(begin, end))

    def _spin(self, ns: int) -> None:
        self._kernel(Launch(SPIN, (1, 1, 1), 1, ()))((1, 1, 1), (1, 1, 1), (np.uint64(ns),))

    def _finish(self, what: str) -> None:
        """Waits for the stream. Raises HungError where it does not end, LostError where a kernel of it failed."""
        last = self._cupy.cuda.Event()
        last.record(self._stream)
        deadline = time.monotonic() + HANG_S
        # not `last.done`, which takes a failure for "not yet"; eventQuery returns the status and raises nothing
        while (status := self._cupy.cuda.runtime.eventQuery(last.ptr)) != CUDA_SUCCESS:
            if status != CUDA_NOT_READY:
                raise LostError(f"{what} ended with CUDA error {status}; the GPU is lost to this process")
            if time.monotonic() > deadline:
                raise HungError(f"{what} did not end within {HANG_S:.0f} s")
            time.sleep(1e-4)

    @contextmanager
    def _working(self, what: str) -> Iterator[None]:
        """On this device's stream; what CUDA raises becomes a DeviceError, and memory is given back."""
        try:
            with self._stream:
                yield
        except self._errors as error:
            reason = " ".join(str(error).split()) or f"{what}: {type(error).__name__}"
            if self._cupy.cuda.runtime.streamQuery(self._stream.ptr) not in (CUDA_SUCCESS, CUDA_NOT_READY):
                raise LostError(f"{reason}; the GPU is lost to this process") from error
            raise DeviceError(reason) from error
        self._cupy.get_default_memory_pool().free_all_blocks()  # not after a hung call: it would wait for it

    def _copies(self, case: Case, work: Work) -> int:
        size = sum(array.size_bytes for array in work.arrays.values())
        if case.cache == "warm" or not size:
            return 1
        wanted = 1 + math.ceil(COLD_L2S * self.facts.l2_bytes / size)
        return max(1, min(wanted, MOST_COPIES, int(MEMORY_SHARE * self.facts.memory_bytes) // size))

    def _allocated(self, work: Work) -> dict[str, Any]:
        return {name: self._filled(array) for name, array in work.arrays.items()}

    def _filled(self, array: Array) -> Any:
        held = self._cupy.empty(array.count, array.host_dtype)
        if array.make is None and array.fill == "zeros":
            held.data.memset_async(0, array.size_bytes, self._stream)
        else:
            held.set(array.values())
        return held

    def _prepared(self, work: Work, arrays: Mapping[str, Any]) -> Callable[[], None]:
        """One call of the work on these arrays, with nothing left to look up."""
        ready = [
            (
                kernel := self._kernel(launch),
                launch.grid,
                (launch.block, 1, 1),
                tuple(_argument(argument, arrays) for argument in launch.arguments),
                self._smem_bytes(launch, kernel),
            )
            for launch in work.launches
        ]

        def call() -> None:
            for kernel, grid, block, arguments, smem_bytes in ready:
                kernel(grid, block, arguments, shared_mem=smem_bytes)

        return call

    def _kernel(self, launch: Launch) -> Any:
        return self._module(launch).get_function(launch.program.entry)

    def _module(self, launch: Launch) -> Any:
        program, capability = launch.program, self.facts.capability
        if not program.runs_on(capability):
            needed = "{}.{}".format(*program.least)
            raise NotHereError(f"{program.entry} needs compute capability {needed}{program.suffix}")
        path = self._cubins.path(program, capability)
        if path not in self._modules:
            self._modules[path] = self._cupy.RawModule(path=str(path))
        return self._modules[path]

    def _smem_bytes(self, launch: Launch, kernel: Any) -> int:
        """Dynamic shared memory of a CTA; more than 48 KiB of it has to be asked for."""
        size = launch.smem_bytes
        if size is None:
            size = self._cubins.constant(launch.program, self.facts.capability, "dynamic_smem_bytes")
        if size:
            kernel.max_dynamic_shared_size_bytes = size
        return size


def _argument(argument: Argument, arrays: Mapping[str, Any]) -> object:
    match argument:
        case str():
            return arrays[argument]
        case TensorMap():
            return encoded(argument, arrays[argument.array].data.ptr)
        case None:
            return np.uint64(0)  # a null pointer
        case _:
            return argument


def _versions(*names: str) -> dict[str, str]:
    """Versions of those packages that are installed."""
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
