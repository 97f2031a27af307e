"""Our CUDA kernels compile without a GPU, and their machine code is what the simulator charges for."""

import re
import sys
from dataclasses import replace

import pytest
from cuda_kernels import GPUS, Variant, compiled, instructions, problem_of

from gpusim.analytic import occupancy
from gpusim.implementations import implementations
from gpusim.taskgraph.ops import MatMul, OnlineSoftmax
from validation import nvrtc
from validation.kernels import FOLDER, KERNELS, SOFTMAX_HELD_CHUNKS, CudaKernel, Problem

MBARRIER_BYTES = 8
MMA_FLOPS = 2 * 16 * 8 * 16  # of one mma.sync.m16n8k16, which a warp issues
WGMMA_ROWS, WGMMA_INNER = 64, 16
VARIANTS = (Variant(64, "fp16"), Variant(128, "bf16"))
CAUSAL_VARIANTS = (Variant(64, "bf16", causal=True), Variant(128, "fp16", causal=True))
REPORTS = [
    pytest.param(row, arch, variant, id=f"{row.entry}-{arch}-{variant}")
    for row in KERNELS
    for arch in row.architectures
    for variant in (*VARIANTS, *(CAUSAL_VARIANTS if "causal" in implementations()[row.implementation].masks else ()))
]
each_kernel = pytest.mark.parametrize(("row", "arch", "variant"), REPORTS)


def barriers_in_source(row: CudaKernel) -> int:
    """Barriers of the text; more in the machine code are copies of an unrolled loop."""
    return row.file.read_text().count("__syncthreads();")


def count(found: dict[str, int], mnemonic: str) -> int:
    """Instructions that begin so."""
    return sum(number for name, number in found.items() if name.startswith(mnemonic))


def test_the_table_lists_every_source() -> None:
    """A kernel is one .cu file and one row."""
    assert sorted(row.file for row in KERNELS) == sorted(FOLDER.glob("*.cu"))


@pytest.mark.parametrize("row", KERNELS, ids=lambda row: row.entry)
def test_a_header_names_the_architectures_of_the_table(row: CudaKernel) -> None:
    """The comment at the top of the source says what it compiles for."""
    (named,) = re.findall(r"^// Architectures: (.*)$", row.file.read_text(), re.MULTILINE)
    assert list(row.architectures) == named.split()


@each_kernel
def test_nothing_spills(row: CudaKernel, arch: str, variant: Variant) -> None:
    """It compiles with no driver, and all that a thread holds is in registers."""
    resources = compiled(row, arch, variant).resources(row.entry)
    assert (0, 0) == (resources.spill_bytes, resources.stack_bytes)


@each_kernel
def test_shared_memory_is_what_the_simulator_charges(row: CudaKernel, arch: str, variant: Variant) -> None:
    """Static plus dynamic bytes, exactly; the Hopper kernel has its mbarriers beside the tiles.

    One mbarrier says that Q is there; every stage of K and of V has one for full and one for empty.
    """
    cubin, problem = compiled(row, arch, variant), problem_of(row, arch, variant)
    barriers = 1 + 4 * problem.choices.stages if arch == "sm_90a" else 0
    charged = problem.kernel.smem_bytes + MBARRIER_BYTES * barriers
    assert charged == cubin.resources(row.entry).static_smem_bytes + cubin.constant("dynamic_smem_bytes")


@each_kernel
def test_registers_hold_the_accumulators_and_leave_the_ctas_per_sm(
    row: CudaKernel, arch: str, variant: Variant
) -> None:
    """No fewer than the accumulators that the simulator counts, no more than its CTAs on an SM leave.

    Warps of the Hopper kernel trade registers after they start: all together have as many as they were launched with.
    """
    registers = compiled(row, arch, variant).resources(row.entry).registers
    problem, spec = problem_of(row, arch, variant), GPUS[arch]
    kernel = problem.kernel
    real = replace(kernel, registers_per_thread=registers, producer_registers_per_thread=registers)
    assert occupancy(kernel, spec).ctas_per_sm == occupancy(real, spec).ctas_per_sm
    if kernel.registers_per_thread is None:
        assert kernel.accumulator_registers_per_thread < registers
    else:
        consumers = kernel.warps - kernel.producer_warps
        pool = kernel.registers_per_thread * consumers
        pool += kernel.producer_registers_per_thread * kernel.producer_warps
        assert registers * kernel.warps == pool


@each_kernel
def test_machine_code_has_the_instructions_it_is_about(row: CudaKernel, arch: str, variant: Variant) -> None:
    """Tensor cores, asynchronous copies, matrix loads and the special-function unit are really used."""
    found = instructions(row, arch, variant)
    assert [] == [mnemonic for mnemonic in row.instructions if not count(found, mnemonic)]


def loop_copies(row: CudaKernel, found: dict[str, int]) -> int:
    """How often the compiler wrote the main loop's body."""
    written = barriers_in_source(row)
    return count(found, "BAR.SYNC") // written if written else 1


def matmuls(problem: Problem) -> list[MatMul]:
    """Matrix products of one loop iteration."""
    return [task.op for task in problem.kernel.tasks() if isinstance(task.op, MatMul)]


@each_kernel
def test_matrix_instructions_do_the_flops_of_the_schedule(row: CudaKernel, arch: str, variant: Variant) -> None:
    """A loop iteration has as many HMMA a warp, or HGMMA a warpgroup, as the schedule has FLOPs.

    At 64 × 256 scores and d = 64 on 4 warps, say, QKᵀ is 2·64·256·64 / 4 / 4,096 = 128 mma.sync a warp.
    """
    found, problem = instructions(row, arch, variant), problem_of(row, arch, variant)
    if arch == "sm_90a":
        flops = [2 * WGMMA_ROWS * op.out.cols * WGMMA_INNER for op in matmuls(problem)]
        a_warpgroup = sum(op.flops // each for op, each in zip(matmuls(problem), flops, strict=True))
        assert a_warpgroup * loop_copies(row, found) == count(found, "HGMMA")
    else:
        a_warp = sum(op.flops for op in matmuls(problem)) // (MMA_FLOPS * problem.kernel.warps)
        assert a_warp * loop_copies(row, found) == count(found, "HMMA")


@each_kernel
def test_exponentials_are_those_of_the_schedule(row: CudaKernel, arch: str, variant: Variant) -> None:
    """A thread takes one for each of its scores, and the four lanes of a row one each for e^(m − m').

    The softmax kernel takes those of the columns that a lane keeps, and eight in each of the loops over the rest of a
    long row: for the sum and for the result.
    """
    found, problem = instructions(row, arch, variant), problem_of(row, arch, variant)
    softmax = [task.op.scores for task in problem.kernel.tasks() if isinstance(task.op, OnlineSoftmax)]
    threads = 128 if arch == "sm_90a" else 32 * problem.kernel.warps
    scores = sum(tile.rows * tile.cols // threads + 4 * tile.rows // threads for tile in softmax)
    if row.entry == "naive_softmax":
        scores = 8 * SOFTMAX_HELD_CHUNKS + 8 + 8
    assert scores * loop_copies(row, found) == count(found, "MUFU.EX2")


@pytest.mark.parametrize("row", [row for row in KERNELS if "sm_90a" in row.architectures], ids=lambda row: row.entry)
def test_wgmma_is_not_serialised(row: CudaKernel) -> None:
    """ptxas warns where it must wait for every wgmma; it has no cause to."""
    assert "serialized" not in compiled(row, "sm_90a", Variant(128, "fp16", True)).log


def test_a_source_that_does_not_compile_says_why() -> None:
    """The compiler's own message, with the file."""
    with pytest.raises(nvrtc.NvrtcError, match=r"naive_qk.cu does not compile for sm_80:[\s\S]*HEAD_DIM"):
        nvrtc.compile_cubin(FOLDER / "naive_qk.cu", "sm_80", {})


def test_a_missing_compiler_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, with the extra to install."""
    nvrtc._nvrtc.cache_clear()
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", None)
    with pytest.raises(nvrtc.NvrtcError, match=r"^NVRTC is not installed; pip install -e '\.\[nvrtc\]'$"):
        nvrtc.compile_cubin(FOLDER / "naive_qk.cu", "sm_80", {})
