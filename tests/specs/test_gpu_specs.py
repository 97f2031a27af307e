"""GPU specs: datasheet arithmetic, and the rules that tie fields together."""

from typing import get_args

import pytest
from pydantic import BaseModel, ValidationError

from gpusim.datafiles import configs_dir, measured_dir, scenarios_dir
from gpusim.errors import ConfigError, UnsupportedError
from gpusim.gpu_page import WIDTH, gpu_text, gpus_table
from gpusim.specs import GpuSpec, Source, apply_overrides, gpu_names, load_gpu


def test_a100_dense_fp16_peak_is_the_datasheet_s() -> None:
    """2048 FLOP per clock on 108 SMs at 1410 MHz is 312 TFLOP/s."""
    assert load_gpu("a100_sxm4_40gb").tensor_peak_flop_per_s("fp16") == pytest.approx(312e12, rel=1e-3)


def test_h100_dense_bf16_peak_is_the_datasheet_s_at_its_clock() -> None:
    """The 989 TFLOP/s of the datasheet are stated at 1830 MHz, below the boost clock of 1980 MHz."""
    assert load_gpu("h100_sxm5_80gb").tensor_peak_flop_per_s("bf16", 1.83e9) == pytest.approx(989e12, rel=1e-3)


def test_fp32_and_exponential_peaks_are_the_datasheet_s() -> None:
    """19.5 and 67 TFLOP/s outside the tensor cores; 3.9 T exp/s on H100 at 1830 MHz, so 4.18 T at 1980."""
    assert load_gpu("a100_sxm4_80gb").fp32_peak_flop_per_s == pytest.approx(19.5e12, rel=1e-3)
    assert load_gpu("h100_sxm5_80gb").fp32_peak_flop_per_s == pytest.approx(67e12, rel=2e-3)
    assert load_gpu("h100_sxm5_80gb").sfu_peak_ops_per_s == pytest.approx(16 * 132 * 1.98e9)


def test_a100_shared_memory_moves_128_bytes_per_clock_and_sm() -> None:
    """108 SMs x 128 B x 1.41 GHz is 19.5 TB/s."""
    assert load_gpu("a100_sxm4_40gb").smem_bandwidth_bytes_per_s == pytest.approx(19.5e12, rel=1e-3)


def test_a_format_the_tensor_cores_lack_is_refused_with_those_they_have() -> None:
    """A100 has no fp8."""
    with pytest.raises(UnsupportedError, match=r"a100_sxm4_40gb do not take fp8; they take fp16, bf16, tf32"):
        load_gpu("a100_sxm4_40gb").tensor_peak_flop_per_s("fp8")


def test_h200_differs_from_h100_in_memory_and_launch_only() -> None:
    """The same die: what `base` supplies is taken over, numbers and sources alike."""
    h100, h200 = load_gpu("h100_sxm5_80gb"), load_gpu("h200_sxm_141gb")
    assert (h100.sm, h100.memory.l2, h100.power) == (h200.sm, h200.memory.l2, h200.power)
    assert h100.sources["sm.clock_hz"] == h200.sources["sm.clock_hz"]
    assert h100.sources["memory.hbm.capacity_bytes"] != h200.sources["memory.hbm.capacity_bytes"]


@pytest.mark.parametrize(
    ("name", "reported", "nominal"),
    [("a100_sxm4_40gb", 42406903808, 40 << 30), ("h100_sxm5_80gb", 85176483840, 80 << 30)],
)
def test_capacity_is_what_a_driver_reports(name: str, reported: int, nominal: int) -> None:
    """Usable memory is a little below the nominal GiB."""
    assert reported == load_gpu(name).memory.hbm.capacity_bytes
    assert 0.98 < reported / nominal < 1


def test_canvas_holds_96_numbers_of_2_bytes() -> None:
    """The toy has one SM, no register file and no L2."""
    canvas = load_gpu("canvas")
    assert 96 * 2 == canvas.sm.smem_per_cta_max_bytes == canvas.sm.smem_bytes
    assert (canvas.sm.count, canvas.sm.register_file, canvas.memory.l2) == (1, None, None)


def test_specs_are_frozen() -> None:
    """A spec does not change after it was built."""
    with pytest.raises(ValidationError):
        load_gpu("canvas").sm.count = 2


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (
            {"sm.smem_per_cta_max_bytes": "200000"},
            "plus smem_reserved_per_cta_bytes = 1024 exceeds smem_bytes = 167936",
        ),
        ({"sm.max_threads_per_cta": "4096"}, "max_threads_per_cta = 4096 exceeds max_threads = 2048"),
        ({"sm.max_warps": "32"}, "max_threads = 2048 exceeds max_warps = 32 of 32 threads"),
        ({"sm.register_file.working_registers_per_thread": "256"}, "exceeds max_registers_per_thread = 255"),
        ({"memory.hbm.peak_bandwidth_bytes_per_s": "1e12"}, "stream_bandwidth_bytes_per_s = 1.503e+12 exceeds"),
        ({"memory.hbm.mix_loss": "1"}, "memory.hbm.mix_loss: got 1, expected a number of at least 0 and below 1"),
        ({"memory.hbm.near_latency_ns": "500"}, "near_latency_ns = 500 exceeds far_latency_ns = 442; change both"),
        ({"memory.l2.far_latency_ns": "100"}, "near_latency_ns = 151 exceeds far_latency_ns = 100; change both"),
        ({"memory.l2.partitions": "3"}, "partitions = 3, but an L2 of one or two is all that is modelled"),
        ({"memory.l2.knee": "-0.1"}, "memory.l2.knee: got -0.1, expected a number of at least 0 or null"),
        ({"memory.l2.sector_bytes": "48"}, "line_bytes = 128 is not a multiple of sector_bytes = 48"),
        ({"memory.l2.size_bytes": "128"}, "less than one line in each of 2 parts"),
        ({"sm.tensor_flop_per_clk.int8": "4096"}, "unknown number format int8; choose from fp16, bf16, tf32, fp8"),
        ({"sm.tensor_paths": "[]"}, "sm.tensor_paths: "),
        (
            {"sm.mma_sync_share": "0.6"},
            "mma_sync_share = 0.6 with tensor_paths = ['mma_sync']; state the share of the wgmma rate",
        ),
        ({"sm.tensor_paths": "[mma_sync, wgmma]"}, "mma_sync_share = None with tensor_paths = ['mma_sync', 'wgmma']"),
    ],
)
def test_fields_that_contradict_one_another_are_refused(overrides: dict[str, str], words: str) -> None:
    """The message has both numbers, whichever way the contradiction came in."""
    with pytest.raises(ConfigError) as caught:
        apply_overrides(load_gpu("a100_sxm4_40gb"), overrides)
    assert words in str(caught.value)


def test_the_page_has_every_number_with_kind_and_source() -> None:
    """Each number of the spec has a row, each source a line, and nothing is wider than the terminal."""
    for name in gpu_names():
        spec = load_gpu(name)
        page = gpu_text(spec)
        unwrapped = " ".join(page.split())
        assert all(path.rpartition(".")[2] in page for path in spec.sources)
        assert all(source.source in unwrapped for source in spec.sources.values())
        assert max(map(len, page.splitlines())) <= WIDTH


def test_the_page_says_why_attention_schedules_exist() -> None:
    """A100: 19.49 : 5.4 : 1.555 TB/s is 12.5 : 3.5 : 1; a GPU without L2 leaves that level out."""
    assert "SRAM 19.49 TB/s : L2 5.4 TB/s : HBM 1.555 TB/s = 12.5 : 3.5 : 1" in gpu_text(load_gpu("a100_sxm4_40gb"))
    assert "SRAM 8 GB/s : HBM 1 GB/s = 8 : 1" in gpu_text(load_gpu("canvas"))


def test_the_table_has_one_aligned_line_per_gpu() -> None:
    """Header and rows have one width, at most that of the terminal."""
    lines = gpus_table([load_gpu(name) for name in gpu_names()]).splitlines()
    assert ["name", *gpu_names()] == [line.split()[0] for line in lines]
    assert len({len(line) for line in lines}) == 1
    assert len(lines[0]) <= WIDTH


def test_data_folders_of_a_checkout_lie_beside_the_package() -> None:
    """Configs, scenarios and measured tables have one home each."""
    assert (configs_dir() / "canvas.yaml").is_file()
    assert ["configs", "scenarios", "measured"] == [
        folder().name for folder in (configs_dir, scenarios_dir, measured_dir)
    ]


def test_every_model_of_the_spec_is_strict() -> None:
    """Frozen, no unknown keys, no coercion, no NaN: on the GPU and on every group below it, optional or in a dict."""
    pending: list[object] = [GpuSpec]
    visited: set[type[BaseModel]] = set()
    while pending:
        kind = pending.pop()
        pending += get_args(kind)
        if not (isinstance(kind, type) and issubclass(kind, BaseModel)) or kind in visited:
            continue
        visited.add(kind)
        config = kind.model_config
        assert all([config["frozen"], config["strict"], config["extra"] == "forbid", not config["allow_inf_nan"]])
        pending += [field.annotation for field in kind.model_fields.values()]
    assert {"L2Spec", "RegisterFile", "PowerSpec", "Source"} <= {model.__name__ for model in visited}


@pytest.mark.parametrize(
    ("file", "is_fitted"),
    [("stream.csv", True), ("other/stream.csv", True), ("my_stream.csv", False), ("s.csv", False)],
)
def test_a_gpu_was_fitted_to_the_files_its_fitted_numbers_name(file: str, is_fitted: bool) -> None:
    """Whole file names, wherever the file lies; a number that was measured names no fit."""
    spec = load_gpu("a100_sxm4_40gb")
    sources = {
        "memory.hbm.mix_loss": Source(kind="fitted", source="to stream.csv"),
        "sm.count": Source(kind="measured", source="s.csv"),
    }
    assert is_fitted == spec.model_copy(update={"sources": sources}).is_fitted_to(file)


def test_a_lock_above_the_boost_clock_is_refused() -> None:
    """A lock only caps; both clocks are named, and what would raise the other."""
    h100 = load_gpu("h100_sxm5_80gb")
    assert 1.98e9 == h100.at_clock(1980).sm.clock_hz
    with pytest.raises(UnsupportedError) as caught:
        h100.at_clock(1981)
    assert "sm_clock_mhz = 1981 but the boost clock of h100_sxm5_80gb is 1980 MHz" == caught.value.reason
    assert "sm.clock_hz" in caught.value.fix


def test_a_power_limit_that_nothing_follows_is_refused() -> None:
    """The A100's file states no energies; the H100's does."""
    with pytest.raises(ConfigError, match=r"changes nothing on a100_sxm4_80gb, whose file states no power\.energy"):
        apply_overrides(load_gpu("a100_sxm4_80gb"), {"power.limit_w": "200"})
    assert 350 == apply_overrides(load_gpu("h100_sxm5_80gb"), {"power.limit_w": "350"}).power.limit_w
