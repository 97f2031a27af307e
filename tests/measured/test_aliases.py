"""The alias table: what a spelling in a measured CSV stands for."""

from pathlib import Path

import pytest

from gpusim.measured import MeasuredFile, read_measured
from gpusim.measured.aliases import alias_table

_COLUMNS = "source,gpu,kernel,pass,dtype,batch,heads,seqlen_q,seqlen_k,head_dim,latency_ms"


def read(
    folder: Path, *, source: str = "s", gpu: str = "A100-SXM4-80GB", kernel: str = "flash2", dtype: str = "fp16"
) -> MeasuredFile:
    """A file with one row of these spellings, read back."""
    path = folder / "t.csv"
    path.write_text(f'{_COLUMNS}\n{source},{gpu},{kernel},fwd,"{dtype}",1,8,512,512,64,1\n', encoding="utf-8")
    return read_measured(path)


@pytest.mark.parametrize(
    ("spelling", "preset", "is_assumed"),
    [
        ("a100_sxm4_40gb", "a100_sxm4_40gb", False),
        ("A100-40GB", "a100_sxm4_40gb", True),
        ("A100-80GB-SXM4", "a100_sxm4_80gb", False),
        ("NVIDIA A100-SXM4-80GB", "a100_sxm4_80gb", False),
        ("A100-80GB", "a100_sxm4_80gb", True),
        ("A100", "a100_sxm4_80gb", True),
        ("H100-80GB-SXM5", "h100_sxm5_80gb", False),
        ("NVIDIA H100 80GB HBM3", "h100_sxm5_80gb", False),
        ("H100-SXM", "h100_sxm5_80gb", False),
        ("h100-80gb", "h100_sxm5_80gb", True),
        ("H100", "h100_sxm5_80gb", True),
        ("H200", "h200_sxm_141gb", True),
        ("H200-141GB", "h200_sxm_141gb", True),
        ("A100-40GB-PCIe", "a100_pcie_40gb", False),
        ("A100-80GB-PCIe", "a100_pcie_80gb", False),
        ("A100-PCIe", "a100_pcie_80gb", True),
        ("NVIDIA H100 PCIe", "h100_pcie_80gb", False),
        ("H100-80GB-PCIe", "h100_pcie_80gb", False),
        ("H800-SXM5 (per README)", "h800_sxm5_80gb", False),
        ("H800", "h800_sxm5_80gb", True),
        ("A30-24GB", "a30", False),
        ("NVIDIA A10G", "a10g", False),
        ("A10", "a10", False),
        ("L4", "l4", False),
        ("NVIDIA L40S", "l40s", False),
        ("Tesla T4", "t4", False),
        ("Tesla V100-SXM2-16GB", "v100_sxm2_16gb", False),
        ("V100", "v100_sxm2_16gb", True),
        ("NVIDIA GeForce RTX 3090", "rtx_3090", False),
        ("RTX4090", "rtx_4090", False),
        ("RTX-A5000", "rtx_a5000", False),
    ],
)
def test_gpu_spellings(tmp_path: Path, spelling: str, preset: str, is_assumed: bool) -> None:
    """A spelling names one preset; what it leaves open (memory size, form factor) is counted."""
    file = read(tmp_path, gpu=spelling)
    assert file.rows[0].gpu == preset
    assert file.assumed.get("gpu", 0) == int(is_assumed)


@pytest.mark.parametrize(
    ("spelling", "reason"),
    [
        ("H100-NVL", "H100 NVL"),
        ("H800-PCIe", "H800 PCIe"),
        ("H20", "H20"),
        ("GH200-SXM", "GH200"),
        ("B200", "Blackwell"),
        ("GB300", "Blackwell"),
        ("H100-class (inferred)", "does not say which GPU"),
        ("H100-class (Hopper stated)", "does not say which GPU"),
        ("", "gpu is blank"),
        ("MI300X", "gpu = 'MI300X' is not known"),
        ("x" * 5000, "is not known"),
    ],
)
def test_gpus_without_a_preset_are_skipped_with_the_reason(tmp_path: Path, spelling: str, reason: str) -> None:
    """A GPU we cannot simulate is named, not guessed."""
    (skip,) = read(tmp_path, gpu=spelling).skipped
    assert reason in skip.reason


def test_the_h200_of_gpu_benches_is_a_gh200(tmp_path: Path) -> None:
    """That source's H200 files are of another chip, so they are not taken for the preset."""
    (skip,) = read(tmp_path, source="te42kyfo/gpu-benches 1c36d509", gpu="H200").skipped
    assert "GH200" in skip.reason


def test_the_a100_pcie_of_the_hopper_study_has_40_gb(tmp_path: Path) -> None:
    """Its paper names the card that its files only call A100 PCIe."""
    (row,) = read(tmp_path, source="HPMLL/NVIDIA-Hopper-Benchmark ded6f576", gpu="A100-PCIe").rows
    assert "a100_pcie_40gb" == row.gpu


@pytest.mark.parametrize(
    ("kernel", "gpu", "implementation", "version", "stack", "timing"),
    [
        ("pytorch_naive", "A100", "pytorch_naive", None, None, "event"),
        ("flash1_newer", "A100", "flash1_newer", None, None, "event"),
        ("flash1_triton", "A100", "flash1_triton", None, None, "event"),
        ("torch_sdpa_flash", "H200", "flash2", None, None, "event"),
        ("flash2_2.4.2", "H100-SXM", "flash2", "2.4.2", None, "event"),
        ("flash3@2024-07", "H100-SXM", "flash3", "2024-07", None, "event"),
        ("vllm_flash_attn", "A100", "flash2", None, "vllm_graph", "graph"),
        ("vllm_flash_attn", "H100", "flash3", None, "vllm_graph", "graph"),
        ("sglang_flash_attention", "A100", "flash2", None, "sglang_graph", "graph"),
        ("sglang_flash_attention", "H100", "flash3", None, "sglang_graph", "graph"),
        ("vllm_flash_attn", "H800-SXM5", "flash3", None, "vllm_graph", "graph"),
        ("my_own_kernel", "H100", "my_own_kernel", None, None, "event"),
        ("fa1", "A100", "flash1", None, None, "event"),
        ("fa2", "A100", "flash2", None, None, "event"),
        ("FlashAttention-2", "A100", "flash2", None, None, "event"),
        ("flash_attn_v2", "A100", "flash2", None, None, "event"),
        ("Flash Attention 3", "H100", "flash3", None, None, "event"),
        ("fa3@2024-07", "H100", "flash3", "2024-07", None, "event"),
        ("pytorch_eager", "A100", "pytorch_naive", None, None, "event"),
    ],
)
def test_kernel_spellings(
    tmp_path: Path, kernel: str, gpu: str, implementation: str, version: str | None, stack: str | None, timing: str
) -> None:
    """A kernel name stands for implementation, version and stack; an unknown one is its own implementation."""
    (row,) = read(tmp_path, kernel=kernel, gpu=gpu).rows
    assert (row.kernel, row.implementation, row.version) == (kernel, implementation, version)
    assert (row.conditions.stack, row.conditions.timing) == (stack, timing)


@pytest.mark.parametrize(
    ("kernel", "wanted"),
    [
        ("flash_attn", "flash1, flash2 or flash3"),
        ("FlashAttention", "flash1, flash2 or flash3"),
        ("pytorch", "pytorch_naive"),
        ("sdpa", "torch_sdpa_flash"),
        ("torch_sdpa_cudnn", "no model of cuDNN"),
    ],
)
def test_a_name_of_several_kernels_is_not_guessed(tmp_path: Path, kernel: str, wanted: str) -> None:
    """The reason names the word and what to write instead."""
    (skip,) = read(tmp_path, kernel=kernel).skipped
    assert skip.reason.startswith(f"kernel = '{kernel}': ")
    assert wanted in skip.reason


@pytest.mark.parametrize(
    ("source", "stack"),
    [
        ("FA1 paper 2205.14135 App. E.6 T9", "fa1_paper"),
        ("xformers commit 78c40717 message", "xformers_bench"),
        ("fxmarty/efficient-attention-benchmark", "fxmarty"),
        ("yyin-dev/cs336-a2", "cs336"),
        ("FA2 paper 2307.08691 Fig. 4", "flash_attn_bench"),
        ("FA3 blog/repo figure flash3_fp16_fwd.png", "flash_attn_bench"),
        ("my laptop", None),
    ],
)
def test_the_source_names_the_stack(tmp_path: Path, source: str, stack: str | None) -> None:
    """The software around a kernel is known by who measured it; only its name is set here."""
    conditions = read(tmp_path, source=source).rows[0].conditions
    assert (conditions.stack, conditions.host_floor_ms) == (stack, None)


@pytest.mark.parametrize(
    ("spelling", "dtype", "assumed"),
    [
        ("bfloat16", "bf16", {}),
        ("half", "fp16", {}),
        ("Float32", "fp32", {}),
        ("bf16/fp16 not shown", "fp16", {"dtype": 1}),
        ("bf16 (script default, inferred)", "bf16", {"dtype (inferred in source)": 1}),
    ],
)
def test_dtype_spellings(tmp_path: Path, spelling: str, dtype: str, assumed: dict[str, int]) -> None:
    """Number formats have many names; an open one is counted."""
    file = read(tmp_path, dtype=spelling)
    assert file.rows[0].workload.dtype == dtype
    assert {field: n for field, n in file.assumed.items() if field.startswith("dtype")} == assumed


@pytest.mark.parametrize("spelling", ["fp8", "fp8_e4m3", "fp8 in, bf16 out", "mxfp8", "tf32"])
def test_formats_without_a_model_are_skipped(tmp_path: Path, spelling: str) -> None:
    """A format that is not modelled is named in the reason."""
    (skip,) = read(tmp_path, dtype=spelling).skipped
    assert f"dtype = '{spelling}'" in skip.reason


def test_every_implementation_name_is_one_word() -> None:
    """Names in the table are names that a scenario can hold."""
    names = [alias.implementation for alias in alias_table().kernels.values() if isinstance(alias.implementation, str)]
    assert all(name == name.strip().lower() and " " not in name for name in names)
