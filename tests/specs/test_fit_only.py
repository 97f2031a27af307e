"""GPUs whose limits are known and whose timings are not: they answer what fits, and refuse to simulate."""

from pathlib import Path

import pytest

from gpusim.engine import simulate
from gpusim.errors import ConfigError, UnsupportedError
from gpusim.fit import fit_tiles
from gpusim.gpu_page import gpu_text, gpus_table
from gpusim.implementations import parse_request, plan
from gpusim.point import Point, run_point
from gpusim.specs import GpuSpec, Timings, apply_overrides, gpu_names, load_gpu
from gpusim.workloads import AttentionWorkload, Conditions

SOURCE = "{kind: assumed, source: a test}"
HBM = tuple(
    f"memory.hbm.{name}"
    for name in (
        "stream_bandwidth_bytes_per_s",
        "large_read_bandwidth_bytes_per_s",
        "large_footprint_bytes",
        "mix_loss",
        "stream_latency_ns",
        "near_latency_ns",
        "far_latency_ns",
        "channels",
        "channel_bytes",
    )
)
L2 = tuple(
    f"memory.l2.{name}"
    for name in ("bandwidth_bytes_per_s", "write_bandwidth_bytes_per_s", "near_latency_ns", "far_latency_ns", "knee")
)
LAUNCH = ("launch.isolated_ns", "launch.stream_ns", "launch.graph_ns", "launch.ctas_per_s")
GA102 = (L2[0], L2[1], L2[4], *HBM[:5], *HBM[7:], LAUNCH[3])  # latencies are those of an A40
FIT_ONLY = {
    "a10": GA102,
    "a10g": GA102,
    "l4": (*L2, *HBM, *LAUNCH),
    "rtx_3090": (L2[0], L2[1], L2[4], *HBM[1:], LAUNCH[3]),
    "rtx_4090": (L2[1], HBM[0], HBM[1], HBM[3], HBM[4]),
    "rtx_a5000": GA102,
    "t4": (*L2, *HBM, *LAUNCH),
    "v100_sxm2_16gb": (L2[1], L2[4], HBM[4], HBM[7], HBM[8], *LAUNCH),
}
LAUNCH_STATED = {"launch.isolated_ns": "5000", "launch.stream_ns": "3000", "launch.graph_ns": "1500"}
V100_STATED = {
    **LAUNCH_STATED,
    "launch.ctas_per_s": "1e9",
    "memory.l2.write_bandwidth_bytes_per_s": "1.5e12",
    "memory.l2.knee": "0.17",
    "memory.hbm.stream_latency_ns": "270",
    "memory.hbm.channels": "32",
    "memory.hbm.channel_bytes": "1024",
}


def head(dtype: str = "fp16") -> AttentionWorkload:
    """One head of 256 rows at head dim 64."""
    return AttentionWorkload(batch=1, heads=1, seqlen_q=256, seqlen_k=256, head_dim=64, dtype=dtype)


def point(spec: GpuSpec, dtype: str = "fp16") -> Point:
    """The textbook three kernels on this GPU, in small tiles that fit everywhere."""
    request = parse_request({"name": "naive", "tile_q": 64, "tile_kv": 64}, "test")
    return Point(spec, request, head(dtype), Conditions(timing="ncu"))


def test_what_is_missing_is_listed_by_path() -> None:
    """The shipped GPUs without every timing, and what each lacks."""
    missing = {name: load_gpu(name).missing_for_simulation() for name in gpu_names()}
    assert FIT_ONLY == {name: paths for name, paths in missing.items() if paths}


def test_simulate_refuses_with_gpu_missing_numbers_and_fix() -> None:
    """The message holds everything that is needed to go on."""
    spec = load_gpu("rtx_4090")
    graph = plan(parse_request("flash2", "test"), spec, head()).graph
    with pytest.raises(UnsupportedError) as caught:
        simulate(graph, spec)
    assert (
        "rtx_4090 is fit-only; simulation needs memory.l2.write_bandwidth_bytes_per_s, "
        "memory.hbm.stream_bandwidth_bytes_per_s, memory.hbm.large_read_bandwidth_bytes_per_s, memory.hbm.mix_loss, "
        "memory.hbm.stream_latency_ns, which its file leaves unknown" == caught.value.reason
    )
    assert "state them in your own config with base: rtx_4090, or use gpusim fit" == caught.value.fix


@pytest.mark.parametrize("name", FIT_ONLY)
def test_a_point_on_it_is_unsupported_and_keeps_what_needs_no_time(name: str) -> None:
    """Status, reason and fix in place of a latency; tiles and memory stand there all the same."""
    result = run_point(point(load_gpu(name)))
    assert ("unsupported", None) == (result.status, result.latency_ms)
    assert all(path in result.reason for path in FIT_ONLY[name])
    assert (64, 64) == (result.tile_q, result.tile_kv)
    assert 4 * 256 * 64 * 2 < result.peak_memory_bytes


@pytest.mark.parametrize("name", FIT_ONLY)
def test_fit_answers_on_it(name: str) -> None:
    """A tile of 64 x 64 at head dim 64 takes (64 + 2·64)·64·2 = 24,576 B of shared memory and fits them all."""
    choices = {"tiles_q": [64], "tiles_kv": [64], "stages": [1], "warps": [4]}
    (found,) = fit_tiles(load_gpu(name), "flash2", head_dim=64, **choices)
    assert found.fits
    assert 24_576 == found.smem_bytes_per_cta


def test_99_kib_are_the_limit_on_compute_capability_8_6() -> None:
    """128 x 32 in two stages at d = 192 is (128 + 2·2·32)·192·2 = 98,304 B of 101,376; d = 200 runs as 224: 114,688."""
    choices = {"tiles_q": [128], "tiles_kv": [32], "stages": [2], "warps": [8]}
    for head_dim, size_bytes, fits in ((192, 98_304, True), (200, 114_688, False)):
        (found,) = fit_tiles(load_gpu("rtx_3090"), "flash2", head_dim=head_dim, **choices)
        assert (size_bytes, fits) == (found.smem_bytes_per_cta, found.fits)


def test_stating_what_is_missing_makes_it_simulate() -> None:
    """`--set` and a file of one's own are the same way out."""
    spec = apply_overrides(load_gpu("v100_sxm2_16gb"), V100_STATED)
    assert () == spec.missing_for_simulation()
    assert "ok" == run_point(point(spec)).status


def test_a_config_with_a_fit_only_base_states_the_rest(tmp_path: Path) -> None:
    """What the base leaves open takes a number and a source like any other."""
    path = tmp_path / "mine.yaml"
    rates = "stream_bandwidth_bytes_per_s: 9.4e11, large_read_bandwidth_bytes_per_s: 9.4e11"
    hbm = f"hbm: {{{rates}, mix_loss: 0.06, stream_latency_ns: 210}}"
    values = f"memory: {{l2: {{write_bandwidth_bytes_per_s: 2.4e12}}, {hbm}}}\n"
    sources = "".join(f"  {field}: {SOURCE}\n" for field in FIT_ONLY["rtx_4090"])
    path.write_text(f"base: rtx_4090\nname: mine\n{values}sources:\n{sources}")
    mine = load_gpu(str(path))
    assert (9.4e11, 0.06) == (mine.timings().hbm.stream_bandwidth_bytes_per_s, mine.timings().hbm.mix_loss)


def test_a_number_of_the_base_can_be_taken_back(tmp_path: Path) -> None:
    """`stream_latency_ns: null` needs no source, and none of the base stays behind."""
    path = tmp_path / "mine.yaml"
    path.write_text("base: a100_sxm4_40gb\nname: mine\nmemory: {hbm: {stream_latency_ns: null}}\n")
    mine = load_gpu(str(path))
    assert ("memory.hbm.stream_latency_ns",) == mine.missing_for_simulation()
    assert "memory.hbm.stream_latency_ns" not in mine.sources


@pytest.mark.parametrize("field", ["sm.count: null", "memory.hbm.peak_bandwidth_bytes_per_s: null"])
def test_a_limit_cannot_be_unknown(tmp_path: Path, field: str) -> None:
    """Only timings may be left open; what fit and the bound need may not."""
    path = tmp_path / "mine.yaml"
    *groups, leaf = field.split(".")
    path.write_text(
        "base: canvas\nname: mine\n" + "".join(f"{group}: {{" for group in groups) + leaf + "}" * len(groups)
    )
    with pytest.raises(ConfigError, match="got null"):
        load_gpu(str(path))


def test_timings_are_the_numbers_of_the_spec() -> None:
    """The engine reads what the file states; a GPU without an L2 has no timings of one."""
    spec, timings = load_gpu("a100_sxm4_40gb"), load_gpu("a100_sxm4_40gb").timings()
    for group, stated in ((timings.l2, spec.memory.l2), (timings.hbm, spec.memory.hbm), (timings.launch, spec.launch)):
        assert all(value == getattr(stated, name) for name, value in group)
    assert load_gpu("canvas").timings().l2 is None
    assert {"l2", "hbm", "launch"} == set(Timings.model_fields)


@pytest.mark.parametrize("name", ["v100_sxm2_16gb", "t4"])
def test_bf16_is_refused_where_the_tensor_cores_lack_it(name: str) -> None:
    """No timing that a user could state would change that, so it is what the refusal names."""
    result = run_point(point(load_gpu(name), "bf16"))
    assert "unsupported" == result.status
    assert f"qk multiplies in bf16 but {name} states no matrix rate for it" == result.reason
    assert "use one of fp16, fp32" == result.fix


def test_the_page_says_unknown_and_what_the_gpu_is_good_for() -> None:
    """Null leaves are shown, not left out; the head of the page says that fit answers."""
    page = gpu_text(load_gpu("rtx_4090"))
    lines = [line.split() for line in page.splitlines()]
    assert ["mix_loss", "unknown"] in lines
    assert ["stream_bandwidth_bytes_per_s", "unknown"] in lines
    assert "Fit-only: gpusim fit answers" in page
    assert "unknown" not in gpu_text(load_gpu("a100_sxm4_40gb"))


def test_the_page_leaves_an_unknown_l2_out_of_the_ratio() -> None:
    """T4: 40 SMs x 128 B x 1.59 GHz is 8.141 TB/s against 320 GB/s."""
    assert "SRAM 8.141 TB/s : HBM 320 GB/s = 25.4 : 1" in gpu_text(load_gpu("t4"))


def test_the_table_tells_them_apart() -> None:
    """Second column: simulate, or fit-only."""
    rows = [line.split() for line in gpus_table([load_gpu(name) for name in gpu_names()]).splitlines()[1:]]
    assert {name: "fit-only" if name in FIT_ONLY else "simulate" for name in gpu_names()} == {
        name: answers for name, answers, *_ in rows
    }
