"""Our own CUDA kernels: the table of them, and the launches that compute attention with a schedule's choices.

A row says which source computes which kernel of which implementation of the simulator, and turns the schedule's choices
into -D names. Tiles, warps, stages and grid come from the simulator's task graph: they have no second home. README.md
says how to add a kernel.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from gpusim.analytic import occupancy
from gpusim.dtypes import DType
from gpusim.errors import UnsupportedError
from gpusim.implementations import CUSTOM, Plan, implementations
from gpusim.schedules import AttentionChoices, FlashChoices, NaiveChoices
from gpusim.schedules.gemm import WARP_ROWS
from gpusim.specs import GpuSpec
from gpusim.specs.sm import WARP_THREADS
from gpusim.taskgraph import Kernel
from gpusim.taskgraph.tensors import ceil_div
from gpusim.workloads import AttentionWorkload
from validation.collect.work import Argument, Array, Launch, Program, TensorMap, Work

FOLDER = Path(__file__).parent
SOFTMAX_HELD_CHUNKS = 8  # 16-byte chunks of a row that a lane of naive_softmax keeps: 2,048 columns a row
SCORE_ALIGNMENT = 8  # numbers: rows of S and P start on 16 bytes
MAX_GRID_YZ = 65_535
TMA_BOX_COLS = 64  # columns of a TMA box under the 128-byte swizzle
_DTYPES: Mapping[DType, Literal["float16", "bfloat16"]] = {DType.FP16: "float16", DType.BF16: "bfloat16"}


@dataclass(frozen=True, slots=True)
class Problem:
    """A kernel of a task graph, and what it was made from."""

    workload: AttentionWorkload
    choices: AttentionChoices
    kernel: Kernel

    @property
    def heads(self) -> int:
        """Matrices of Q."""
        return self.workload.batch * self.workload.heads

    @property
    def flash(self) -> FlashChoices:
        """The choices of a FlashAttention schedule."""
        assert isinstance(self.choices, FlashChoices)
        return self.choices

    @property
    def naive(self) -> NaiveChoices:
        """The choices of the three-kernel schedule."""
        assert isinstance(self.choices, NaiveChoices)
        return self.choices

    @property
    def score_stride(self) -> int:
        """Numbers from one row of S or P to the next."""
        return ceil_div(self.workload.seqlen_k, SCORE_ALIGNMENT) * SCORE_ALIGNMENT


Defines = Mapping[str, int]
Grid = tuple[int, ...]


def _grid_of_graph(problem: Problem) -> Grid:
    """The grid of the task graph, its first index fastest, as CUDA numbers CTAs."""
    return tuple(extent for _, extent in problem.kernel.grid)


@dataclass(frozen=True, slots=True)
class CudaKernel:
    """One kernel: `entry` in `entry`.cu computes kernel `kernel` of the simulator's `implementation`.

    `instructions` begin the SASS mnemonics that its machine code must hold; `arguments` name those of `_arguments`;
    `fixed` are choices of the schedule that the source does not leave open.
    """

    implementation: str
    kernel: str
    entry: str
    defines: Callable[[Problem], Defines]
    arguments: tuple[str, ...]
    instructions: tuple[str, ...]
    fixed: Mapping[str, object] = field(hash=False)
    architectures: tuple[str, ...] = ("sm_80", "sm_90", "sm_100")
    grid: Callable[[Problem], Grid] = _grid_of_graph

    @property
    def file(self) -> Path:
        """Its source."""
        return FOLDER / f"{self.entry}.cu"

    def program(self, problem: Problem, spec: GpuSpec) -> Program:
        """The source with its sizes.

        The compiler may take as many registers as leave the CTAs an SM that the simulator counts with.
        """
        common = {
            "HEAD_DIM": problem.workload.head_dim,
            "WARPS": problem.kernel.warps,
            "BF16": int(problem.workload.dtype is DType.BF16),
            "CTAS_PER_SM": occupancy(problem.kernel, spec).ctas_per_sm,
        }
        defines = tuple((name, str(value)) for name, value in (common | dict(self.defines(problem))).items())
        if "sm_90a" in self.architectures:
            return Program(self.file, self.entry, defines, least=(9, 0), suffix="a")
        return Program(self.file, self.entry, defines)

    def launch(self, problem: Problem, spec: GpuSpec) -> Launch:
        """One launch. Raises UnsupportedError for choices that the source does not have, or too large a grid."""
        for name, value in self.fixed.items():
            if getattr(problem.choices, name) != value:
                raise UnsupportedError(
                    f"{self.entry}.cu has no {name} = {getattr(problem.choices, name)}", f"leave {name} at {value}"
                )
        x, y, z = (*self.grid(problem), 1, 1)[:3]
        if max(y, z) > MAX_GRID_YZ:
            raise UnsupportedError(
                f"{self.entry} needs a grid of {x} × {y} × {z} CTAs but CUDA allows {MAX_GRID_YZ:,} in y and z",
                "lower batch or heads",
            )
        known = _arguments(problem)
        arguments = tuple(known[name] for name in self.arguments)
        block = WARP_THREADS * problem.kernel.warps
        return Launch(self.program(problem, spec), (x, y, z), block, arguments, smem_bytes=None)


def _flash_defines(problem: Problem) -> Defines:
    choices = problem.flash
    return {
        "TILE_Q": choices.tile_q,
        "TILE_KV": choices.tile_kv,
        "STAGES": choices.stages,
        "CAUSAL": int(problem.workload.causal),
    }


def _flash3_defines(problem: Problem) -> Defines:
    return {**_flash_defines(problem), "PANEL": TMA_BOX_COLS}


def _flash3_grid(problem: Problem) -> Grid:
    """One CTA a Q tile; the graph counts its warpgroups."""
    return (ceil_div(problem.workload.seqlen_q, problem.flash.tile_q), problem.heads)


def _flash1_defines(problem: Problem) -> Defines:
    return {"TILE_Q": problem.flash.tile_q, "TILE_KV": problem.flash.tile_kv}


def _qk_defines(problem: Problem) -> Defines:
    choices = problem.naive
    return {"TILE_Q": choices.tile_q, "TILE_KV": choices.tile_kv, **_warp_tile(choices)}


def _pv_defines(problem: Problem) -> Defines:
    choices = problem.naive
    tile_q, step = choices.pv_tile_q or choices.tile_q, choices.pv_step or choices.tile_kv
    return {"TILE_Q": tile_q, "STEP": step, "STAGES": choices.stages, **_warp_tile(choices)}


def _warp_tile(choices: NaiveChoices) -> Defines:
    return {"WARP_ROWS": WARP_ROWS, "WARP_COLS": choices.warp_cols}


def _softmax_defines(_: Problem) -> Defines:
    return {"HELD_CHUNKS": SOFTMAX_HELD_CHUNKS}


def _softmax_grid(problem: Problem) -> Grid:
    """A warp a row; the graph counts CTAs in groups."""
    return (ceil_div(problem.workload.seqlen_q, problem.kernel.warps), problem.heads)


_FLASH_FIXED = {"accumulators": "registers", "fold_scale": False}
_STREAMING_FIXED = _FLASH_FIXED | {"order": "ascending", "scheduler": "hardware"}
_NAIVE_FIXED = {
    "accumulators": "registers",
    "fold_scale": False,
    "prepare": (),
    "score_passes": (),
    "softmax": "kernel",
    "qk_step": None,
    "pv_tile_d": None,
}
_MMA = ("HMMA.16816.F32", "LDGSTS", "LDSM")
_SCORES = ("seqlen_q", "seqlen_k", "score_stride")

KERNELS: tuple[CudaKernel, ...] = (
    CudaKernel(
        "gpusim_cuda_naive",
        "qk",
        "naive_qk",
        _qk_defines,
        ("q", "k", "s", *_SCORES, "scale"),
        _MMA,
        _NAIVE_FIXED,
    ),
    CudaKernel(
        "gpusim_cuda_naive",
        "softmax",
        "naive_softmax",
        _softmax_defines,
        ("s", "p", *_SCORES),
        ("MUFU.EX2", "LDG.E.128", "STG.E.128"),
        _NAIVE_FIXED,
        grid=_softmax_grid,
    ),
    CudaKernel(
        "gpusim_cuda_naive",
        "pv",
        "naive_pv",
        _pv_defines,
        ("p", "v", "o", *_SCORES),
        _MMA,
        _NAIVE_FIXED,
    ),
    CudaKernel(
        "gpusim_cuda_flash1",
        "flash1_forward",
        "flash1_forward",
        _flash1_defines,
        ("q", "k", "v", "o", "o_partial", "m_partial", "l_partial", "lse", "seqlen_q", "seqlen_k", "scale"),
        (*_MMA, "MUFU.EX2"),
        _FLASH_FIXED | {"grain": 1, "stages": 1, "partials": "fp32"},
    ),
    CudaKernel(
        "gpusim_cuda",
        "flash2_forward",
        "flash2_forward",
        _flash_defines,
        ("q", "k", "v", "o", "lse", "seqlen_q", "seqlen_k", "scale"),
        (*_MMA, "MUFU.EX2"),
        _STREAMING_FIXED,
    ),
    CudaKernel(
        "gpusim_cuda_flash3",
        "flash3_forward",
        "flash3_forward",
        _flash3_defines,
        ("q_map", "k_map", "v_map", "o", "lse", "seqlen_q", "seqlen_k", "scale"),
        ("HGMMA.64x", "UTMALDG.3D", "SYNCS", "USETMAXREG", "MUFU.EX2"),
        _STREAMING_FIXED | {"cluster": 1},
        architectures=("sm_90a",),
        grid=_flash3_grid,
    ),
)


def attention_work(plan: Plan, spec: GpuSpec, workload: AttentionWorkload) -> Work:
    """The launches and arrays that compute a workload with the choices of a plan; q, k and v hold normal numbers.

    Arrays are as the simulator has them: (batch · heads, N, d), contiguous. A plan with stated choices takes our kernel
    of its schedule. Raises UnsupportedError where the table has none, or none that computes this.
    """
    rows = {row.kernel: row for row in KERNELS if _computes(row, plan)}
    if not rows:
        known = ", ".join(dict.fromkeys(row.implementation for row in KERNELS))
        raise UnsupportedError(f"no CUDA kernel of ours computes {plan.implementation}", f"choose one of {known}")
    for what, is_asked in (
        (
            f"head_dim_v = {workload.head_dim_v} beside head_dim = {workload.head_dim}",
            workload.head_dim_v != workload.head_dim,
        ),
        (f"mask '{workload.mask}'", workload.mask != "none"),
        (f"kv_heads = {workload.kv_heads} below heads = {workload.heads}", workload.kv_heads != workload.heads),
    ):
        if is_asked:
            raise UnsupportedError(f"no CUDA kernel of ours has {what}", "ask for a forward pass without that")
    assert isinstance(plan.choices, get_args(AttentionChoices))
    problems = [Problem(workload, plan.choices, kernel) for kernel in plan.graph.kernels]
    launches = tuple(rows[problem.kernel.name].launch(problem, spec) for problem in problems)
    used = {name for launch in launches for name in _array_names(launch)}
    arrays = {name: array for name, array in _arrays(problems[0]).items() if name in used}
    return Work(launches, arrays, ("o", "lse") if workload.save_lse else ("o",))


def _computes(row: CudaKernel, plan: Plan) -> bool:
    """Whether a kernel is that of the plan's implementation, or one of the same schedule where choices were stated."""
    if plan.implementation == CUSTOM:
        return implementations()[row.implementation].schedule == plan.schedule
    return row.implementation == plan.implementation


def _array_names(launch: Launch) -> list[str]:
    names = (argument.array if isinstance(argument, TensorMap) else argument for argument in launch.arguments)
    return [name for name in names if isinstance(name, str)]


def _arrays(problem: Problem) -> Mapping[str, Array]:
    """Every array that some kernel takes; what kernels write starts as zeros."""
    workload, heads = problem.workload, problem.heads
    dtype = _DTYPES[workload.dtype]
    queries, keys = heads * workload.seqlen_q, heads * workload.seqlen_k
    d, scores = workload.head_dim, queries * problem.score_stride
    inputs = {"q": queries * d, "k": keys * d, "v": keys * d}  # each has random numbers of its own
    narrow = {"o": queries * d, "s": scores, "p": scores}
    wide = {"lse": queries, "m_partial": queries, "l_partial": queries, "o_partial": queries * d}
    return {
        **{name: Array(dtype, count, "normal", seed=seed) for seed, (name, count) in enumerate(inputs.items())},
        **{name: Array(dtype, count) for name, count in narrow.items()},
        **{name: Array("float32", count) for name, count in wide.items()},
    }


def _arguments(problem: Problem) -> Mapping[str, Argument]:
    """Every argument that some kernel takes, by the name it has in the sources."""
    workload = problem.workload
    known: dict[str, Argument] = {name: name for name in _arrays(problem)}
    if not workload.save_lse:
        known["lse"] = None
    known |= {
        "seqlen_q": np.int32(workload.seqlen_q),
        "seqlen_k": np.int32(workload.seqlen_k),
        "score_stride": np.int32(problem.score_stride),
        "scale": np.float32(workload.head_dim**-0.5),
    }
    tile_q, tile_kv = problem.choices.tile_q, problem.choices.tile_kv
    for name, rows, tile in (
        ("q", workload.seqlen_q, tile_q),
        ("k", workload.seqlen_k, tile_kv),
        ("v", workload.seqlen_k, tile_kv),
    ):
        shape, box = (problem.heads, rows, workload.head_dim), (1, tile, TMA_BOX_COLS)
        known[f"{name}_map"] = TensorMap(name, _DTYPES[workload.dtype], shape, box, swizzle_bytes=128)
    return known
