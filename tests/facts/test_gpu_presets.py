"""What datasheets and programming guides say about each shipped GPU, and what its config comes to."""

import pytest

from gpusim.errors import UnsupportedError
from gpusim.specs import gpu_names, load_gpu

GPUS = [name for name in gpu_names() if name != "canvas"]

# SMs; dense fp16 peak in TFLOP/s with fp32 accumulation, and the clock in MHz at which the datasheet states it (0:
# boost); fp32 peak outside the tensor cores in TFLOP/s; memory in GB/s; L2 in MiB; board power in W.
DATASHEET = {
    "a10": (72, 125, 0, 31.2, 600, 6, 150),
    "a100_pcie_40gb": (108, 312, 0, 19.5, 1555, 40, 250),
    "a100_pcie_80gb": (108, 312, 0, 19.5, 1935, 40, 300),
    "a100_sxm4_40gb": (108, 312, 0, 19.5, 1555, 40, 400),
    "a100_sxm4_80gb": (108, 312, 0, 19.5, 2039, 40, 400),
    "a10g": (80, 70, 0, 35, 600, 6, 300),
    "a30": (56, 165, 0, 10.3, 933, 24, 165),
    "h100_pcie_80gb": (114, 756, 1620, 51, 2039, 50, 350),
    "h100_sxm5_80gb": (132, 989, 1830, 67, 3350, 50, 700),
    "h200_sxm_141gb": (132, 989, 1830, 67, 4800, 50, 700),
    "h800_sxm5_80gb": (132, 989, 1830, 59.3, 3350, 50, 700),
    "l4": (58, 121, 0, 30.3, 300, 48, 72),
    "l40s": (142, 362, 0, 91.6, 864, 96, 350),
    "rtx_3090": (82, 71, 0, 35.6, 936, 6, 350),
    "rtx_4090": (128, 165.2, 0, 82.6, 1008, 72, 450),
    "rtx_a5000": (64, 111.1, 0, 27.8, 768, 6, 230),
    "t4": (40, 65, 0, 8.1, 320, 4, 70),
    "v100_sxm2_16gb": (80, 125, 0, 15.7, 900, 6, 300),
}

# Of a compute capability: KiB of shared memory an SM and a CTA, threads, warps and CTAs an SM, FP32 lanes.
LIMITS = {
    "7.0": (96, 96, 2048, 64, 32, 64),
    "7.5": (64, 64, 1024, 32, 16, 64),
    "8.0": (164, 163, 2048, 64, 32, 64),
    "8.6": (100, 99, 1536, 48, 16, 128),
    "8.9": (100, 99, 1536, 48, 24, 128),
    "9.0": (228, 227, 2048, 64, 32, 128),
}


@pytest.mark.parametrize("name", GPUS)
def test_peaks_memory_and_power_are_the_datasheet_s(name: str) -> None:
    """Rates per clock times SMs times clock are the printed peaks within 1.5 %, and so is bus width times pin rate."""
    sms, tensor, clock_mhz, fp32, gb_per_s, l2_mib, watts = DATASHEET[name]
    spec = load_gpu(name)
    clock_hz = clock_mhz * 1e6 if clock_mhz else spec.sm.clock_hz
    assert tensor * 1e12 == pytest.approx(spec.tensor_peak_flop_per_s("fp16", clock_hz), rel=0.015)
    assert fp32 * 1e12 == pytest.approx(spec.fp32_peak_flop_per_s, rel=0.015)
    assert gb_per_s * 1e9 == pytest.approx(spec.memory.hbm.peak_bandwidth_bytes_per_s, rel=0.002)
    assert gb_per_s * 1e9 == pytest.approx(spec.memory.hbm.bus_bandwidth_bytes_per_s, rel=0.005)
    assert (sms, l2_mib << 20, watts) == (spec.sm.count, spec.memory.l2.size_bytes, spec.power.limit_w)


@pytest.mark.parametrize("name", GPUS)
def test_limits_of_an_sm_are_those_of_its_compute_capability(name: str) -> None:
    """CUDA Programming Guide, tables 30-32: 99 KiB a CTA of 100 an SM on 8.6 and 8.9; 64 Ki registers everywhere."""
    spec = load_gpu(name)
    smem_kib, cta_kib, threads, warps, ctas, lanes = LIMITS[spec.compute_capability]
    sm, file = spec.sm, spec.sm.register_file
    assert (smem_kib << 10, cta_kib << 10) == (sm.smem_bytes, sm.smem_per_cta_max_bytes)
    assert (smem_kib - cta_kib) << 10 == sm.smem_reserved_per_cta_bytes
    assert (threads, warps, ctas, lanes) == (sm.max_threads, sm.max_warps, sm.max_ctas, sm.fp32_lanes)
    assert (65_536, 255, 256, 1024) == (
        file.registers_per_sm,
        file.max_registers_per_thread,
        file.allocation_unit_registers,
        sm.max_threads_per_cta,
    )


@pytest.mark.parametrize("name", GPUS)
def test_exponentials_are_sixteen_a_clock_on_every_generation(name: str) -> None:
    """16 ex2 per clock and SM, from Volta to Hopper."""
    spec = load_gpu(name)
    assert 16 * spec.sm.count * spec.sm.clock_hz == spec.sfu_peak_ops_per_s


@pytest.mark.parametrize("name", ["v100_sxm2_16gb", "t4"])
def test_tensor_cores_before_ampere_take_no_bf16(name: str) -> None:
    """bf16 came with Ampere; the peak of V100 and T4 in it is refused, not made up."""
    with pytest.raises(UnsupportedError, match=f"{name} do not take bf16; they take fp16"):
        load_gpu(name).tensor_peak_flop_per_s("bf16")


@pytest.mark.parametrize(("geforce", "full"), [("rtx_3090", "rtx_a5000"), ("a10g", "a10"), ("rtx_4090", "l40s")])
def test_some_boards_of_a_die_have_tensor_cores_at_half_rate(geforce: str, full: str) -> None:
    """With fp32 accumulation GeForce cards and the A10G do 512 FLOP per clock and SM, others of their dies 1,024."""
    rates = [load_gpu(name).sm.tensor_flop_per_clk["fp16"] for name in (geforce, full)]
    assert [512, 1024] == rates


def test_an_h800_is_an_h100_but_for_its_stated_boost_clock() -> None:
    """What was cut, NVLink, no kernel on one GPU sees."""
    h100, h800 = load_gpu("h100_sxm5_80gb"), load_gpu("h800_sxm5_80gb")
    assert (h100.memory, h100.launch, h100.power) == (h800.memory, h800.launch, h800.power)
    assert h100.sm == h800.sm.model_copy(update={"clock_hz": 1.98e9})


def test_pcie_boards_keep_the_die_of_their_sibling() -> None:
    """An A100 on PCIe has the SXM4 board's SMs and L2, and less power."""
    for size in (40, 80):
        pcie, sxm = load_gpu(f"a100_pcie_{size}gb"), load_gpu(f"a100_sxm4_{size}gb")
        assert (sxm.sm, sxm.memory.l2) == (pcie.sm, pcie.memory.l2)
        assert pcie.power.limit_w < sxm.power.limit_w
