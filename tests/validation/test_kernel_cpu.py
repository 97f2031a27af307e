"""Our CUDA kernels on the CPU: right results under every schedule, no races, and planted bugs are found."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from cuda_kernels import expected, work_of

from gpusim.workloads import AttentionWorkload
from validation.collect.work import Launch, Work
from validation.kernels import FOLDER
from validation.shim import Conditions, Shim, ShimError, compiler

NAIVE, FLASH1, FLASH2 = "gpusim_cuda_naive", "gpusim_cuda_flash1", "gpusim_cuda"
FAIR = Conditions("fair", "lazy", seed=1)
LAZY = Conditions("unfair", "lazy", seed=2)
EAGER = Conditions("unfair", "eager", seed=3)
THREADS = Conditions(copies="eager", threads=True)
# Two warps a CTA and small tiles: as many barriers and buffers, a fraction of the work.
SMALL: Mapping[str, Mapping[str, object]] = {
    NAIVE: {"tile_q": 64, "tile_kv": 64, "pv_tile_q": 64, "warps": 2},
    FLASH1: {"tile_q": 32, "tile_kv": 64, "warps": 2},
    FLASH2: {"tile_q": 32, "tile_kv": 64, "warps": 2},
}


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Shim:
    """Binaries shared by the tests, and by the workers of one session."""
    base = tmp_path_factory.getbasetemp()
    return Shim((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shim")


@dataclass(frozen=True, slots=True)
class Shape:
    """A problem whose last tiles are ragged: odd numbers of queries and keys."""

    implementation: str
    head_dim: int
    dtype: str
    seqlen_q: int = 101
    seqlen_k: int = 301
    heads: int = 2
    causal: bool = False
    is_small: bool = False

    def __str__(self) -> str:
        size = f"{self.head_dim}-{self.dtype}-{self.seqlen_q}x{self.seqlen_k}"
        return f"{self.implementation}-{size}{'-causal' if self.causal else ''}"

    def work(self) -> Work:
        """Its launches."""
        return self._work_and_workload()[0]

    def _work_and_workload(self) -> tuple[Work, AttentionWorkload]:
        return work_of(
            self.implementation,
            SMALL[self.implementation] if self.is_small else None,
            heads=self.heads,
            seqlen_q=self.seqlen_q,
            seqlen_k=self.seqlen_k,
            head_dim=self.head_dim,
            dtype=self.dtype,
            causal=self.causal,
            save_lse=self.implementation != NAIVE,
        )

    def runs_right(self, shim: Shim, conditions: Conditions, edited: Work | None = None) -> bool:
        """Whether a run, of edited sources perhaps, gives the attention of its inputs. Raises ShimError."""
        work, workload = self._work_and_workload()
        return expected(work, workload).is_met(work, shim.run(edited or work, conditions).arrays)


@pytest.mark.parametrize("conditions", [FAIR, LAZY, EAGER], ids=["fair-lazy", "unfair-lazy", "unfair-eager"])
@pytest.mark.parametrize(
    "shape",
    [
        Shape(NAIVE, 64, "fp16"),
        Shape(NAIVE, 128, "bf16"),
        Shape(FLASH1, 64, "fp16"),
        Shape(FLASH1, 128, "bf16"),
        Shape(FLASH2, 64, "fp16"),
        Shape(FLASH2, 128, "bf16"),
        Shape(FLASH2, 64, "bf16", seqlen_q=301, causal=True),
        Shape(FLASH2, 128, "fp16", causal=True),
    ],
    ids=str,
)
def test_it_computes_attention(shim: Shim, shape: Shape, conditions: Conditions) -> None:
    """Output and log-sum-exp equal float64 attention within what rounding to 16 bits allows."""
    assert shape.runs_right(shim, conditions)


def test_queries_before_all_keys_get_zeros(shim: Shim) -> None:
    """The last query sees the last key: of 200 queries on 100 keys, the first 100 see none."""
    shape = Shape(FLASH2, 64, "fp16", seqlen_q=200, seqlen_k=100, heads=1, causal=True)
    assert shape.runs_right(shim, FAIR)


def test_rows_longer_than_a_warp_keeps(shim: Shim) -> None:
    """The naive softmax keeps 2,048 scores of a row in registers, and reads the other 53 again."""
    assert Shape(NAIVE, 64, "fp16", seqlen_q=3, seqlen_k=2101, heads=1).runs_right(shim, FAIR)


@pytest.mark.parametrize("implementation", [NAIVE, FLASH1, FLASH2])
def test_matrix_loads_have_no_bank_conflicts(shim: Shim, implementation: str) -> None:
    """The eight rows of a matrix lie in eight different bank groups."""
    work = Shape(implementation, 64, "fp16", heads=1).work()
    assert 0 == shim.run(work, FAIR).bank_conflicts


def test_unpermuted_tiles_have_bank_conflicts(shim: Shim, tmp_path: Path) -> None:
    """Without the permutation the eight rows of 128 bytes share one bank group: seven more passes a matrix."""
    shape = Shape(FLASH2, 64, "fp16", seqlen_q=32, seqlen_k=64, heads=1, is_small=True)
    work = planted(shape.work(), tmp_path, {"tiles.cuh": [("(chunk ^ (row % 8)) * CHUNK", "chunk * CHUNK")]})
    loads = 2 * (
        4 * 1 + 4 * 4 + 4 * 4
    )  # 2 warps: 4 steps of d with one of Q and four of K, 4 steps of keys with four of V
    assert 7 * 4 * loads == shim.run(work, FAIR).bank_conflicts


@pytest.mark.parametrize("implementation", [NAIVE, FLASH1, FLASH2])
def test_no_races(shim: Shim, implementation: str) -> None:
    """ThreadSanitizer sees every access to shared and device memory, each CUDA thread being a thread."""
    assert Shape(implementation, 64, "fp16", 63, 193, heads=1, is_small=True).runs_right(shim, THREADS)


Edits = Mapping[str, list[tuple[str, str]]]
FLASH1_EARLY: Edits = {"flash1_forward.cu": [("__syncthreads();  // nobody reads", "// nobody reads")]}
FLASH2_UNGUARDED: Edits = {"flash2_forward.cu": [("__syncthreads();", "")]}
FLASH2_EARLY: Edits = {
    "flash2_forward.cu": [
        ("        load_kv(j + STAGES - 1);\n", ""),
        ("cp_async_wait<STAGES - 2>();", "load_kv(j + STAGES - 1); cp_async_wait<STAGES - 1>();"),
    ]
}


def planted(work: Work, folder: Path, edits: Edits) -> Work:
    """The work with its sources copied and edited; every text to replace must stand there once."""
    copy = folder / "kernels"
    shutil.copytree(FOLDER, copy, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for name, replacements in edits.items():
        text = (copy / name).read_text()
        for old, new in replacements:
            assert 1 == text.count(old), f"{name} has '{old}' {text.count(old)} times"
            text = text.replace(old, new)
        (copy / name).write_text(text)
    return replace(work, launches=tuple(_moved(launch, copy, edits) for launch in work.launches))


def _moved(launch: Launch, folder: Path, edits: Edits) -> Launch:
    """The launch of the edited source; sources that no edit reaches stay what they were."""
    if launch.program.file.name not in edits and all(name.endswith(".cu") for name in edits):
        return launch
    return replace(launch, program=replace(launch.program, file=folder / launch.program.file.name))


@pytest.mark.parametrize(
    ("implementation", "edits", "conditions"),
    [
        pytest.param(NAIVE, {"naive_qk.cu": [("cp_async_wait<0>();", "")]}, LAZY, id="qk-no-wait"),
        pytest.param(NAIVE, {"naive_qk.cu": [("__syncthreads();", "")]}, LAZY, id="qk-no-barrier"),
        pytest.param(NAIVE, {"naive_pv.cu": [("cp_async_wait<STAGES - 2>();", "")]}, LAZY, id="pv-no-wait"),
        pytest.param(NAIVE, {"naive_pv.cu": [("__syncthreads();", "")]}, LAZY, id="pv-no-barrier"),
        pytest.param(FLASH1, {"flash1_forward.cu": [("cp_async_wait<0>();", "")]}, LAZY, id="flash1-no-wait"),
        pytest.param(FLASH1, FLASH1_EARLY, EAGER, id="flash1-early-reuse"),
        pytest.param(FLASH2, {"flash2_forward.cu": [("cp_async_wait<STAGES - 2>();", "")]}, LAZY, id="flash2-no-wait"),
        pytest.param(FLASH2, FLASH2_UNGUARDED, LAZY, id="flash2-no-barrier"),
        pytest.param(FLASH2, FLASH2_EARLY, EAGER, id="flash2-early-reuse"),
        pytest.param(
            FLASH2,
            {"flash2_forward.cu": [("if (first_key + TILE_KV > seqlen_k ||", "if (")]},
            FAIR,
            id="flash2-ragged-keys-unmasked",
        ),
    ],
)
def test_a_planted_bug_gives_wrong_numbers(
    shim: Shim, tmp_path: Path, implementation: str, edits: Edits, conditions: Conditions
) -> None:
    """A dropped wait, a dropped barrier, a buffer reused too early, a mask left out; the kernel without it is right."""
    shape = Shape(implementation, 64, "fp16", 63, 193, heads=1, is_small=True)
    assert shape.runs_right(shim, conditions)
    assert not shape.runs_right(shim, conditions, planted(shape.work(), tmp_path, edits))


@pytest.mark.parametrize(
    ("implementation", "edits"),
    [
        pytest.param(FLASH1, FLASH1_EARLY, id="flash1-early-reuse"),
        pytest.param(FLASH2, FLASH2_UNGUARDED, id="flash2-no-barrier"),
        pytest.param(FLASH2, FLASH2_EARLY, id="flash2-early-reuse"),
    ],
)
def test_a_planted_race_is_reported(shim: Shim, tmp_path: Path, implementation: str, edits: Edits) -> None:
    """ThreadSanitizer names it, whatever the numbers are."""
    shape = Shape(implementation, 64, "fp16", 63, 193, heads=1, is_small=True)
    with pytest.raises(ShimError, match="ThreadSanitizer: data race"):
        shim.run(planted(shape.work(), tmp_path, edits), THREADS)


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        pytest.param(
            {"flash2_forward.cu": [("__syncthreads();", "if (warp_index() == 0) __syncthreads();")]},
            "barrier divergence",
            id="one-warp-at-a-barrier",
        ),
        pytest.param(
            {"flash2_forward.cu": [("DYNAMIC_SMEM((Q_ELEMENTS", "DYNAMIC_SMEM((Q_ELEMENTS - 8")]},
            "wrote behind the dynamic shared memory",
            id="too-little-shared-memory",
        ),
        pytest.param(
            {"attention.cuh": [("if (query >= seqlen_q) continue;", "")]},
            "wrote outside a buffer in device memory",
            id="rows-behind-the-end-stored",
        ),
    ],
)
def test_a_broken_rule_ends_the_run(shim: Shim, tmp_path: Path, edits: Edits, message: str) -> None:
    """The run says what was broken."""
    shape = Shape(FLASH2, 64, "fp16", 63, 193, heads=1, is_small=True)
    with pytest.raises(ShimError, match=message):
        shim.run(planted(shape.work(), tmp_path, edits), FAIR)


def test_a_missing_compiler_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One line, with the package to install."""
    compiler.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ShimError, match=r"^g\+\+ is not installed; apt-get install g\+\+$"):
        Shim(tmp_path).run(Shape(FLASH2, 64, "fp16").work(), FAIR)
