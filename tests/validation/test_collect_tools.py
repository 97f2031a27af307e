"""What collect reads from other programs, and what it hands to the driver."""

import ctypes
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from validation.collect import child, counters, nvidia_smi, tensor_maps
from validation.collect.cubins import CubinCache
from validation.collect.device import DeviceError, GroupError
from validation.collect.work import Array, Case, Program, TensorMap, Timed, Work

METRICS = (*counters.HBM, *counters.L2)
NCU = "\n".join(
    [
        "==PROF== Connected to process 1",
        ",".join(f'"{name}"' for name in ("ID", "Kernel Name", *METRICS)),
        '"","","byte","byte","sector","sector","sector"',
        '"0","qk","1,000","200","100","10","25"',
        '"1","pv","500","300","300","20","75"',
    ]
)


def test_bytes_of_several_kernels_are_added_up() -> None:
    """Two kernels: 1,000 + 500 read and 200 + 300 written; 400 sectors of 32 B asked, 100 of them hits."""
    assert {
        "dram_bytes": 2000.0,
        "l2_read_bytes": 400 * 32,
        "l2_write_bytes": 30 * 32,
        "l2_hit_rate_pct": 25.0,
    } == counters.columns(NCU)


def test_a_profiler_that_saw_nothing_is_a_fault() -> None:
    """As with no permission to read counters."""
    with pytest.raises(DeviceError, match="ncu saw no kernel"):
        counters.columns("==PROF== Disconnected\n")


CASE = Case("case", Work((), {}), {}, lambda ms: {})


def ncu_that(script: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of that name on the path, in shell."""
    (folder / "ncu").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "ncu").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")


def test_a_gpu_without_these_l2_counters_is_asked_for_those_of_hbm(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """ncu refuses all of them together; 1,000 + 200 bytes remain."""
    told = "\n".join(
        ['"ID",' + ",".join(f'"{name}"' for name in counters.HBM), '"","byte","byte"', '"0","1,000","200"']
    )
    (tmp_path / "told").write_text(told + "\n")
    refuse = 'echo "==ERROR== Failed to find metric lts__t_sectors"; exit 1'
    ncu_that(f'case "$*" in *lts__*) {refuse};; esac; cat {tmp_path}/told', tmp_path, monkeypatch)
    assert {"dram_bytes": 1200.0} == counters.read(CASE, None)


def test_any_other_refusal_is_asked_for_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without permission to read counters, fewer of them are no help."""
    refused = f'echo asked >> {tmp_path}/log; echo "==ERROR== ERR_NVGPUCTRPERM"; exit 1'
    ncu_that(refused, tmp_path, monkeypatch)
    with pytest.raises(DeviceError, match="ncu ended with 1: ==ERROR== ERR_NVGPUCTRPERM"):
        counters.read(CASE, None)
    assert "asked\n" == (tmp_path / "log").read_text()


def test_a_profiler_that_does_not_end_ends_its_group(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The other cases would wait as long."""
    monkeypatch.setattr(counters, "TIMEOUT_S", 0.2)
    ncu_that("sleep 600", tmp_path, monkeypatch)
    with pytest.raises(GroupError, match=r"ncu did not end within 0.2 s on case"):
        counters.read(CASE, None)


def test_what_a_child_started_ends_with_it(tmp_path: Path) -> None:
    """A profiler starts the profiled process: both are gone after the timeout, and nothing waits for their pipes."""
    alive = tmp_path / "alive"
    grandchild = f"import time\nwhile True:\n open({str(alive)!r}, 'a').write('.')\n time.sleep(0.05)"
    command = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {grandchild!r}])"
    with pytest.raises(subprocess.TimeoutExpired):
        child.answer([sys.executable, "-c", command], 2)
    size = alive.stat().st_size
    assert size
    time.sleep(0.3)
    assert size == alive.stat().st_size


def test_nvidia_smi_answers_become_numbers_where_they_are() -> None:
    """Power is not told by every card."""
    found = nvidia_smi.parsed("1980, 3201, 35, [N/A]\n", nvidia_smi.CLOCKS)
    assert {"clocks.sm": 1980.0, "clocks.mem": 3201.0, "temperature.gpu": 35.0, "power.draw": "[N/A]"} == found


def test_no_nvidia_smi_is_no_answer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is raised: a record without clocks is still a record."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert {} == nvidia_smi.clocks("0000:01:00.0")


def test_bf16_numbers_travel_as_words() -> None:
    """1.0 is 0x3F80; 1 + 2⁻⁸ lies between two and goes to the even one, 1.0; 1 + 3·2⁻⁸ goes up to 1 + 2⁻⁶."""
    array = Array("bfloat16", 3)
    words = array.packed(np.array([1.0, 1 + 2**-8, 1 + 3 * 2**-8], np.float32))
    assert [0x3F80, 0x3F80, 0x3F82] == words.tolist()
    assert [1.0, 1.0, 1 + 2**-6] == array.unpacked(words).tolist()
    assert 6 == array.size_bytes


def test_median_and_spread_of_samples() -> None:
    """Of 1 to 5 the median is 3 and the middle half runs from 2 to 4."""
    timed = Timed([5.0, 1.0, 4.0, 2.0, 3.0])
    assert (3.0, pytest.approx(100 * 2 / 3)) == (timed.median_ms, timed.spread_pct)


def test_a_program_of_one_architecture_runs_there_alone() -> None:
    """wgmma is in sm_90a and nowhere else; plain code runs from sm_80 on."""
    plain, hopper = Program(Path("k.cu"), "k"), Program(Path("k.cu"), "k", least=(9, 0), suffix="a")
    assert [False, True, True, True] == [plain.runs_on(version) for version in ((7, 5), (8, 0), (9, 0), (10, 0))]
    assert [False, True, False] == [hopper.runs_on(version) for version in ((8, 0), (9, 0), (10, 0))]
    assert ("sm_86", "sm_90a") == (plain.architecture((8, 6)), hopper.architecture((9, 0)))


def test_a_cubin_is_kept_until_a_header_or_the_compiler_changes(tmp_path: Path) -> None:
    """Each gives another file name; the same text gives the same."""
    source, header = tmp_path / "k.cu", tmp_path / "k.h"
    source.write_text('#include "k.h"\nextern "C" __global__ void k() {}\n')
    header.write_text("// one\n")
    program, cache = Program(source, "k"), CubinCache(tmp_path / "cache", "NVRTC 13.0")
    before = cache.path_of(program, (9, 0))
    assert before == cache.path_of(program, (9, 0))
    assert before != CubinCache(tmp_path / "cache", "NVRTC 13.1").path_of(program, (9, 0))
    assert before != cache.path_of(program, (8, 0))
    header.write_text("// two\n")
    assert before != cache.path_of(program, (9, 0))


def test_a_tensor_map_asks_the_driver_in_its_own_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """(heads, N, d) = (2, 300, 128): sizes from the fastest dimension, strides in bytes of all but that."""
    asked: list[tuple] = []

    def encode(*arguments: object) -> int:
        asked.append(arguments)
        ctypes.memset(arguments[0], 7, 128)
        return 0

    monkeypatch.setattr(tensor_maps, "_driver", lambda: SimpleNamespace(cuTensorMapEncodeTiled=encode))
    tensor = TensorMap("k", "bfloat16", (2, 300, 128), (1, 64, 64), swizzle_bytes=128)
    argument = tensor_maps.encoded(tensor, 0x7F0000000000)
    place, kind, rank, address, sizes, strides, box, steps, interleave, swizzle, _, fill = asked[0]
    assert 0 == place.value % 64
    assert (9, 3, 0x7F0000000000, 0, 3, 0) == (
        kind.value,
        rank.value,
        address.value,
        interleave.value,
        swizzle.value,
        fill.value,
    )
    assert ([128, 300, 2], [256, 300 * 256], [64, 64, 1], [1, 1, 1]) == (
        list(sizes),
        list(strides),
        list(box),
        list(steps),
    )
    assert ((), 128, b"\x07" * 128) == (argument.shape, argument.dtype.itemsize, argument.tobytes())


def test_a_refused_tensor_map_names_its_status(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA_ERROR_INVALID_VALUE is 1."""
    monkeypatch.setattr(tensor_maps, "_driver", lambda: SimpleNamespace(cuTensorMapEncodeTiled=lambda *_: 1))
    with pytest.raises(DeviceError, match="status 1"):
        tensor_maps.encoded(TensorMap("k", "float16", (2, 8, 64), (1, 8, 64)), 0)
