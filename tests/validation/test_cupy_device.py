"""The code that drives a GPU through CuPy, on a stand-in for CuPy: what is launched, how often, and how it is timed."""

import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from stand_in_cupy import StandInCupy

from gpusim.errors import InputError
from validation.collect import baselines, cupy_device
from validation.collect.cupy_device import CupyDevice, open_device
from validation.collect.device import DeviceError, HungError, LostError, NotHereError
from validation.collect.work import Array, Case, Check, Launch, Program, SdpaCall, Work
from validation.microbenchmarks.programs import SPIN
from validation.nvrtc import INSTALL, NvrtcError


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """A kernel of no use."""
    source = tmp_path / "k.cu"
    source.write_text('extern "C" __global__ void k(float* x, int n) {}\n')
    return Program(source, "k")


def device_on(cupy: StandInCupy, folder: Path, *programs: Program) -> CupyDevice:
    """The device, with these programs compiled before."""
    device = CupyDevice(cupy, None, folder / "cubins")
    for program in (SPIN, *programs):
        path = device._cubins.path_of(program, (9, 0))
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"cubin")
    return device


def work_of(program: Program, *, launches: int = 1, smem_bytes: int = 0) -> Work:
    """So many launches on one array of 8 numbers."""
    launch = Launch(program, (3, 1, 1), 64, ("x", np.int32(8)), smem_bytes)
    return Work((launch,) * launches, {"x": Array("float32", 8, "ones")}, ("x",))


def case_of(work: Work, **options: object) -> Case:
    """A case of it."""
    return Case("case", work, {}, lambda ms: {"latency_ms": ms}, **options)


def test_the_driver_tells_what_the_gpu_is(tmp_path: Path) -> None:
    """The driver calls it NVIDIA H200, which is a spelling of the preset."""
    facts = device_on(StandInCupy(), tmp_path).facts
    assert ("h200_sxm_141gb", "NVIDIA H200", (9, 0), 132) == (
        facts.gpu,
        facts.product,
        facts.capability,
        facts.sm_count,
    )
    assert "13000" == facts.versions["driver CUDA"]


def test_a_check_runs_once_and_reads_back(tmp_path: Path, program: Program) -> None:
    """One launch with the array, the number, and no shared memory."""
    cupy = StandInCupy()
    device = device_on(cupy, tmp_path, program)
    found = device.outputs(Check("k", work_of(program), dict, 0.0))
    assert [1.0] * 8 == found["x"].tolist()
    ((name, grid, block, arguments, smem_bytes),) = cupy.launched
    assert ("k", (3, 1, 1), (64, 1, 1), np.int32(8), 0) == (name, grid, block, arguments[1], smem_bytes)


@pytest.mark.parametrize("timer", ["event", "graph"])
@pytest.mark.parametrize("launches", [1, 3])
def test_a_call_takes_as_long_as_its_launches(tmp_path: Path, program: Program, timer: str, launches: int) -> None:
    """A millisecond each, however often a sample repeats the call."""
    cupy = StandInCupy()
    timed = device_on(cupy, tmp_path, program).time(case_of(work_of(program, launches=launches), timer=timer))
    assert float(launches) == timed.median_ms
    assert (1 if timer == "graph" else 0) == cupy.captured


def test_cold_calls_go_through_copies_beyond_l2(tmp_path: Path, program: Program) -> None:
    """Arrays of 32 MiB against 50 MiB of L2: three times as much and one more, 6 copies, each as often."""
    cupy = StandInCupy()
    work = Work((Launch(program, (1, 1, 1), 32, ("x",)),), {"x": Array("float32", 8 << 20)})
    device_on(cupy, tmp_path, program).time(case_of(work, cache="cold", timer="graph"))
    uses = [id(arguments[0]) for *_, arguments, _ in cupy.launched]
    assert 6 == len(set(uses))
    captured = uses[-6 * (len(uses) // 6) :]
    assert 1 == len({captured.count(copy) for copy in set(captured)})


def test_much_shared_memory_is_asked_for(tmp_path: Path, program: Program) -> None:
    """The stand-in refuses a launch of more than 48 KiB that was not."""
    cupy = StandInCupy()
    device_on(cupy, tmp_path, program).outputs(Check("k", work_of(program, smem_bytes=200 << 10), dict, 0.0))
    assert 200 << 10 == cupy.launched[0][-1]


def test_a_null_pointer_is_a_zero_of_eight_bytes(tmp_path: Path, program: Program) -> None:
    """CuPy would take None for one as well; a number says how wide it is."""
    cupy = StandInCupy()
    work = Work((Launch(program, (1, 1, 1), 32, (None,)),), {})
    device_on(cupy, tmp_path, program).outputs(Check("k", work, dict, 0.0))
    (argument,) = cupy.launched[0][3]
    assert (np.uint64, 0) == (type(argument), argument)


def test_a_refused_launch_fails_its_case_alone(tmp_path: Path, program: Program) -> None:
    """The driver's words are the reason."""
    device = device_on(StandInCupy(failing="k"), tmp_path, program)
    with pytest.raises(DeviceError, match="CUDA_ERROR_INVALID_VALUE"):
        device.time(case_of(work_of(program)))


def test_a_call_that_never_ends_is_given_up(tmp_path: Path, program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """After HANG_S the GPU counts as lost."""
    monkeypatch.setattr(cupy_device, "HANG_S", 0.05)
    device = device_on(StandInCupy(endless="k"), tmp_path, program)
    with pytest.raises(HungError, match="case did not end"):
        device.time(case_of(work_of(program)))


def test_a_kernel_that_crashes_loses_the_gpu_at_once(tmp_path: Path, program: Program) -> None:
    """Status 700 is an illegal address: nobody waits a minute for what has ended, and the number is told."""
    device = device_on(StandInCupy(crashing="k"), tmp_path, program)
    with pytest.raises(LostError, match="k ended with CUDA error 700; the GPU is lost") as caught:
        device.outputs(Check("k", work_of(program), dict, 0.0))
    assert not isinstance(caught.value, HungError)


def test_what_is_refused_after_a_crash_loses_the_gpu_too(tmp_path: Path, program: Program) -> None:
    """The driver answers the next call with the same error: no further case is tried on that context."""
    second = Program(program.file, "refused")
    device = device_on(StandInCupy(crashing="k", failing="refused"), tmp_path, program, second)
    launches = (*work_of(program).launches, *work_of(second).launches)
    work = Work(launches, work_of(program).arrays)
    with pytest.raises(LostError, match=r"CUDA_ERROR_INVALID_VALUE.*; the GPU is lost"):
        device.outputs(Check("k", work, dict, 0.0))


def test_what_pytorch_raises_fails_its_case_alone(
    tmp_path: Path, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its out-of-memory error, which is a RuntimeError, may come from the inputs already."""

    def out_of_memory(call: SdpaCall) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 8 GiB")

    monkeypatch.setattr(baselines, "on_stream", lambda pointer: nullcontext())
    monkeypatch.setattr(baselines, "prepared", out_of_memory)
    case = Case("sdpa", SdpaCall("math", "fp16", 1, 1, 64, 64, False), {}, lambda ms: {"latency_ms": ms})
    with pytest.raises(DeviceError, match="CUDA out of memory"):
        device_on(StandInCupy(), tmp_path).time(case)


def test_a_program_of_another_architecture_is_not_compiled(tmp_path: Path, program: Program) -> None:
    """An H200 does not run what needs compute capability 10.0."""
    blackwell = Program(program.file, "k", least=(10, 0), suffix="a")
    with pytest.raises(NotHereError, match=r"k needs compute capability 10.0a"):
        device_on(StandInCupy(), tmp_path).outputs(Check("k", work_of(blackwell), dict, 0.0))


def test_a_profiler_sees_one_call(tmp_path: Path, program: Program) -> None:
    """The first call is before the mark."""
    cupy = StandInCupy()
    device_on(cupy, tmp_path, program).profiled(case_of(work_of(program)))
    assert ["k", "start", "k", "stop"] == [item if isinstance(item, str) else item[0] for item in cupy.launched]


def test_no_compiler_is_said_before_anything_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once for every program."""

    def missing() -> None:
        raise NvrtcError("NVRTC is not installed", INSTALL)

    monkeypatch.setitem(sys.modules, "cupy", StandInCupy())
    monkeypatch.setattr(cupy_device, "check_installed", missing)
    with pytest.raises(NvrtcError, match=r"NVRTC is not installed; pip install -e '.\[nvrtc\]'"):
        open_device()


@pytest.mark.parametrize(
    ("module", "problem"),
    [
        (None, r"CuPy is not installed .*; pip install -e '.\[gpu-cuda13\]'"),
        (StandInCupy(devices=0), r"the driver finds no CUDA device; see nvidia-smi"),
        (
            StandInCupy(status=35),
            r"no usable NVIDIA driver or device \(cudaErrorInsufficientDriver: .*; see gpusim doctor",
        ),
    ],
)
def test_what_is_missing_is_said_in_one_line(module, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No CuPy, no device, no driver."""
    monkeypatch.setitem(sys.modules, "cupy", module)
    with pytest.raises(InputError, match=problem) as caught:
        open_device()
    assert 1 == len(str(caught.value).splitlines())
