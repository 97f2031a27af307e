"""Which attention is measured, and what our kernels are checked against."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gpusim.dtypes import DType
from gpusim.specs import load_gpu
from gpusim.workloads import AttentionWorkload
from validation.collect.attention import CHECK_SEQLENS, counter_cases, hopper_cases, own_cases, own_checks, sdpa_cases
from validation.collect.device import DeviceError, facts_of
from validation.collect.groups import GROUPS
from validation.collect.work import SdpaCall

H200 = load_gpu("h200_sxm_141gb")


def kernels_on(gpu: str) -> dict[str, int]:
    """Our implementations that are measured on a GPU, and the longest N of each."""
    found: dict[str, int] = {}
    facts = facts_of(load_gpu(gpu))
    for case in (*own_cases(facts), *hopper_cases(facts)):
        name, seqlen = str(case.cells["kernel"]), int(str(case.cells["seqlen_q"]))
        found[name] = max(seqlen, found.get(name, 0))
    return found


def test_an_a100_runs_all_but_the_hopper_kernel() -> None:
    """S and P of the three kernels are 4.3 GB each at N = 4,096, where they stop."""
    assert {"gpusim_cuda": 16384, "gpusim_cuda_naive": 4096, "gpusim_cuda_flash1": 8192} == kernels_on("a100_sxm4_80gb")


def test_the_kernel_that_could_wait_forever_comes_last() -> None:
    """TMA and mbarriers: when it hangs, all else is measured, other groups included."""
    names = list(kernels_on("h200_sxm_141gb"))
    assert ["gpusim_cuda", "gpusim_cuda_naive", "gpusim_cuda_flash1", "gpusim_cuda_flash3"] == names
    facts = facts_of(H200)
    *before, last = GROUPS
    assert {"gpusim_cuda_flash3"} == {case.cells["kernel"] for case in last.cases(facts)}
    assert "gpusim_cuda_flash3" not in {case.cells["kernel"] for group in before for case in group.cases(facts)}


def test_every_case_has_16k_tokens_and_a_hidden_size_of_2048() -> None:
    """As the published benchmarks have."""
    facts = facts_of(H200)
    for case in (*own_cases(facts), *hopper_cases(facts), *sdpa_cases(facts), *counter_cases(facts)):
        cells = {name: int(str(case.cells[name])) for name in ("batch", "heads", "seqlen_q", "head_dim")}
        assert 16384 == cells["batch"] * cells["seqlen_q"]
        assert 2048 == cells["heads"] * cells["head_dim"]


def test_all_four_backends_of_pytorch_are_baselines() -> None:
    """Each full and causal, at both head dims."""
    seen = {
        (case.call.backend, case.call.causal, case.call.head_dim)
        for case in sdpa_cases(facts_of(H200))
        if isinstance(case.call, SdpaCall)
    }
    assert {
        (b, c, d) for b in ("math", "flash", "efficient", "cudnn") for c in (False, True) for d in (64, 128)
    } == seen


def test_a_gpu_without_a_config_has_no_tiles() -> None:
    """Microbenchmarks run there, our attention kernels do not."""
    unknown = replace(facts_of(H200), gpu="NVIDIA X1")
    with pytest.raises(DeviceError, match="no config for NVIDIA X1"):
        next(iter(own_cases(unknown)))


@pytest.mark.parametrize(("dtype", "causal"), [(DType.FP16, False), (DType.FP16, True), (DType.BF16, False)])
def test_checks_expect_attention_of_the_rounded_inputs(dtype: DType, causal: bool) -> None:
    """PyTorch's attention in float64 on the same q, k and v; the length is ragged."""
    workload = AttentionWorkload(
        batch=2, heads=16, seqlen_q=8192, seqlen_k=8192, head_dim=128, dtype=dtype, causal=causal
    )
    check = own_checks("gpusim_cuda", H200, workload)[0]
    shape = (2, CHECK_SEQLENS[0], 128)
    arrays = (check.work.arrays[name] for name in ("q", "k", "v"))
    q, k, v = (torch.from_numpy(array.unpacked(array.values()).reshape(shape)) for array in arrays)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal).numpy()
    np.testing.assert_allclose(expected, check.expected()["o"], rtol=0, atol=1e-12)


def test_a_result_of_the_right_size_but_of_other_inputs_is_a_fault() -> None:
    """The tolerance is far below what a wrong kernel gives: outputs of zero differ by more."""
    workload = AttentionWorkload(batch=2, heads=16, seqlen_q=8192, seqlen_k=8192, head_dim=128)
    check = own_checks("gpusim_cuda", H200, workload)[0]
    right = check.expected()["o"].astype(np.float16)
    assert check.fault({"o": right}) is None
    assert "o is off by" in str(check.fault({"o": np.zeros_like(right)}))
    assert "off by nan" in str(check.fault({"o": np.full_like(right, np.nan)}))
