"""Error bands: what they say, and which conditions have none."""

from dataclasses import replace

import pytest

from gpusim import (
    AttentionWorkload,
    Conditions,
    Point,
    PointResult,
    apply_overrides,
    load_gpu,
    parse_request,
    run_point,
)
from gpusim.bands import Band, band_of, bands_csv, ranges_of, read_bands, setting_of, widest_band
from gpusim.compare import ComparedRow, Comparison
from gpusim.datafiles import bands_list
from gpusim.errors import ConfigError
from gpusim.implementations import implementations
from gpusim.measured import MeasuredRow, find_measured, measured_names, read_all, verdict
from gpusim.point import answer
from gpusim.specs import GpuSpec, gpu_names
from gpusim.workloads import ChaseWorkload, GemmWorkload, RowsWorkload, Workload
from validation.constants import bands_text

A100 = load_gpu("a100_sxm4_40gb")
A100_80 = load_gpu("a100_sxm4_80gb")
H100 = load_gpu("h100_sxm5_80gb")
PAPER = AttentionWorkload(batch=16, heads=8, seqlen_q=1024, seqlen_k=1024, head_dim=64)
CALL = Conditions(timing="event", cache="warm")
LONG_MS, BRIEF_MS = 10.0, 0.1


def attention(**changed: object) -> AttentionWorkload:
    """The case of the FlashAttention-1 paper with some fields changed; `seqlen` sets both lengths."""
    fields: dict[str, object] = {"batch": 16, "heads": 8, "seqlen_q": 1024, "seqlen_k": 1024, "head_dim": 64}
    if "seqlen" in changed:
        fields |= dict.fromkeys(("seqlen_q", "seqlen_k"), changed.pop("seqlen"))
    return AttentionWorkload.model_validate(fields | changed)


def band_from(*workloads: Workload, conditions: Conditions = CALL) -> Band:
    """A band of flash2 on the A100 from rows of these workloads."""
    settings = [setting_of(A100, "flash2", None, workload, conditions) for workload in workloads]
    return Band(A100.name, "flash2", "file", settings[0].words, ranges_of(settings), n=5, band=0.25)


MEASURED = band_from(attention(seqlen=512), attention(seqlen=4096, head_dim=128))


def differing(workload: Workload, conditions: Conditions = CALL, latency_ms: float = LONG_MS) -> list[str]:
    """In what a point differs from what was measured."""
    return MEASURED.differences(setting_of(A100, "flash2", None, workload, conditions), latency_ms)


def result(spec: GpuSpec, schedule: object, **changed: object) -> PointResult:
    """A point of the FlashAttention-1 paper."""
    workload = attention(**changed)
    return run_point(Point(spec, parse_request(schedule, "test"), workload, Conditions(stack="fa1_paper")))


def test_a_band_encloses_what_hardware_would_take() -> None:
    """simulated / measured − 1 = ± 0.25 and 10 ms simulated: measured between 10 / 1.25 and 10 / 0.75."""
    assert (8.0, pytest.approx(13.3333, rel=1e-4)) == MEASURED.limits_ms(10.0)


@pytest.mark.parametrize("inside", [{"seqlen": 512}, {"seqlen": 2048}, {"dtype": "bf16"}, {"head_dim": 128}])
def test_a_band_speaks_for_what_lies_within_the_measured_sizes(inside: dict[str, object]) -> None:
    """Lengths between the measured ones, either head dim that was measured, and both formats of 16 bits."""
    assert [] == differing(attention(**inside))


@pytest.mark.parametrize(
    ("outside", "names"),
    [
        ({"dtype": "fp32"}, ["dtype"]),
        ({"causal": True, "seqlen": 2048}, ["options"]),
        ({"mask": "padding"}, ["options"]),
        ({"kv_heads": 2}, ["options", "heads_per_kv_head"]),
        ({"seqlen_q": 512}, ["options"]),
        ({"head_dim": 96}, ["head_dim"]),
        ({"seqlen": 1001}, ["options"]),
        ({"seqlen": 504}, ["seqlen_k", "flops"]),
        ({"batch": 32}, ["batch_heads"]),
        ({"pass": "bwd"}, ["options"]),
        ({"save_lse": True}, ["options"]),
    ],
)
def test_a_band_says_nothing_beyond_its_conditions(outside: dict[str, object], names: list[str]) -> None:
    """Other formats, masks, heads, head dims between two that are compiled, unaligned lengths and larger batches."""
    assert names == differing(attention(**outside))


def test_another_clock_was_not_measured() -> None:
    """The rows ran at the boost clock."""
    assert ["sm_clock_mhz"] == differing(PAPER, CALL.model_copy(update={"sm_clock_mhz": 1000.0}))


def test_only_a_short_call_depends_on_timer_and_cache() -> None:
    """From 0.2 ms on they change little; a call of 0.1 ms must be timed as the rows were."""
    cold = Conditions(timing="graph", cache="cold")
    assert [] == differing(PAPER, cold, LONG_MS)
    assert ["timing", "cache"] == differing(PAPER, cold, BRIEF_MS)


def test_a_stack_is_a_condition_where_it_runs_other_kernels() -> None:
    """vLLM on A100 runs another kernel, xformers' benchmark has eager passes of its own; others have neither."""

    def stack(implementation: str, name: str) -> str:
        return setting_of(A100, implementation, None, PAPER, Conditions(stack=name)).words["stack"]

    assert ("vllm_graph", "") == (stack("flash2", "vllm_graph"), stack("flash2", "xformers_bench"))
    assert ("xformers_bench", "") == (stack("pytorch_naive", "xformers_bench"), stack("pytorch_naive", "fa1_paper"))


def test_a_host_time_of_ones_own_was_not_measured() -> None:
    """That of a stack is in its rows; one that the user states may be anything."""
    stated = [{"host_floor_ms": 50.0}, {"host_overhead_ms": 0.1}, {"stack": "fa1_paper"}]
    words = [setting_of(A100, "flash1", None, PAPER, Conditions.model_validate(field)).words for field in stated]
    assert [True, True, False] == ["stated host time" in found["options"] for found in words]


def test_a_profiler_that_lifts_the_power_limit_is_a_condition() -> None:
    """H100 states energies, so that its clock falls under a timer and not under ncu; A100 does not."""
    profiled = Conditions(timing="ncu")
    options = [setting_of(spec, "flash2", None, PAPER, profiled).words["options"] for spec in (H100, A100)]
    assert ["unthrottled clock", ""] == options


def test_single_kernels_have_options_of_their_own() -> None:
    """Columns that are no power of two, rows that are not whole vectors of 16 B, and a chase's cache."""

    def options(name: str, workload: Workload, cache: str = "warm") -> str:
        return setting_of(A100, name, None, workload, Conditions.model_validate({"cache": cache})).words["options"]

    assert "" == options("torch_softmax", RowsWorkload(rows=8, cols=1024))
    assert "cols not a power of two" == options("torch_softmax", RowsWorkload(rows=8, cols=3072))
    assert "unaligned rows" == options("torch_matmul", GemmWorkload(m=64, n=64, k=100))
    assert "" == options("torch_matmul", GemmWorkload.model_validate({"m": 64, "n": 64, "k": 100, "dtype": "fp32"}))
    assert "cold cache" == options("pointer_chase", ChaseWorkload(footprint_bytes=2**20), "cold")


def test_formats_of_16_bits_run_alike() -> None:
    """Every GPU multiplies fp16 and bf16 at one rate and energy, or lacks one; no table has rows for one alone."""
    formats = {"fp16", "bf16"}
    for spec in map(load_gpu, gpu_names()):
        rates = [rate for name, rate in spec.sm.tensor_flop_per_clk.items() if name in formats]
        energy = spec.power.energy if spec.power is not None else None
        energies = [] if energy is None else [pj for name, pj in energy.tensor_pj_per_flop.items() if name in formats]
        assert max(len(set(rates)), len(set(energies))) <= 1
    for known in implementations().values():
        for when in (*(row.when for row in known.tiles), *(row.when for row in known.costs)):
            assert when.dtype is None or len(formats & set(when.dtype)) in (0, 2)


def test_a_list_of_bands_is_read_as_it_was_written() -> None:
    """Words, listed head dims, ranges and the band."""
    assert (MEASURED,) == read_bands(bands_csv([MEASURED]), "list")
    with pytest.raises(ConfigError, match="columns must be"):
        read_bands("gpu,band\n", "list")


def test_a_measured_gpu_and_implementation_prints_its_error_beside_the_answer() -> None:
    """The paper's own case is validated, and its band encloses the simulated latency."""
    found = result(A100, "pytorch_naive")
    assert found.validated is not False
    assert 0 < found.validated < 0.15
    assert found.latency_lo_ms < found.latency_ms < found.latency_hi_ms
    assert "nine in ten of 5 measured rows, fa1_paper_a100_fwd" == found.validation


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"dtype": "fp32"}, "not validated for fp32; measured: fp16, bf16"),
        ({"causal": True}, "not validated for causal mask; measured: calls without that or padding mask"),
        ({"head_dim": 128}, "not validated for head_dim 128; measured: head_dim 64"),
        ({"seqlen": 256}, "not validated for seqlen_k 256; measured: seqlen_k 512 to 8,192"),
    ],
)
def test_what_was_not_measured_says_what_was(changed: dict[str, object], said: str) -> None:
    """The paper's table of eager attention: fp16, d = 64, N = 512 to 8,192, with and without padding."""
    found = result(A100, "pytorch_naive", **changed)
    assert (False, None, None, said) == (found.validated, found.latency_lo_ms, found.latency_hi_ms, found.validation)


def test_changed_hardware_and_stated_choices_are_not_validated() -> None:
    """`--set` makes another GPU, a mapping another kernel; neither was measured."""
    changed = apply_overrides(A100, {"memory.l2.size_bytes": "80e6"})
    for found in (result(changed, "pytorch_naive"), result(A100, {"name": "pytorch_naive", "tile_q": 64})):
        assert "ok" == found.status
        assert (False, None, None) == (found.validated, found.latency_lo_ms, found.latency_hi_ms)
        assert str(found.validation).startswith("not validated: ")


def test_unaligned_eager_attention_is_not_validated() -> None:
    """The trust list leaves out N = 82 and 197: rows that are no multiple of 8 numbers take slow kernels."""
    conditions = Conditions(stack="xformers_bench", cache="warm")
    found = [
        band_of(A100_80, "pytorch_naive", None, attention(batch=32, heads=16, seqlen=seqlen), conditions, 0.4)
        for seqlen in (256, 197)
    ]
    assert isinstance(found[0], Band)
    assert "not validated for unaligned rows; measured: calls without that" == found[1]


def test_the_nearest_band_is_the_one_with_the_fewest_other_words() -> None:
    """On H100 fp32 products came in batches of 12 and more: not the format of a single one was new, but its sizes."""
    product = GemmWorkload.model_validate(dict.fromkeys("mnk", 4096) | {"dtype": "fp32"})
    found = band_of(H100, "torch_matmul", None, product, CALL, 1.0)
    assert "not validated for batch 1, k 4,096; measured: batch 12 to 16,384, k 64 to 3,072" == found


def test_one_long_row_of_a_softmax_is_not_validated() -> None:
    """Measured were thousands of rows of up to 32,768 numbers."""
    found = band_of(A100_80, "torch_softmax", None, RowsWorkload(rows=1, cols=1_000_000), CALL, 1.0)
    assert isinstance(found, str)


def trusted_rows() -> list[MeasuredRow]:
    """Shipped rows that count in an error figure and have a latency."""
    files, _ = read_all([find_measured(name) for name in measured_names()])
    rows = [row for file in files for row in file.rows if row.implementation in implementations()]
    return [row for row in rows if row.latency_ms is not None and verdict(row).counts]


def test_every_trusted_row_lies_within_the_band_of_its_own_series() -> None:
    """Where a shipped list has a band of a row's file and words, the row's sizes are inside."""
    bands = read_bands(bands_list().read_text(encoding="utf-8"), "bands.csv")
    specs = {name: load_gpu(name) for name in gpu_names()}
    looked_at = 0
    for row in trusted_rows():
        default = implementations()[row.implementation].default_version
        setting = setting_of(specs[row.gpu], row.implementation, row.version or default, row.workload, row.conditions)
        for band in bands:
            about = (band.gpu, band.implementation, band.source, band.words)
            if about == (row.gpu, row.implementation, row.file.removesuffix(".csv"), setting.words):
                assert [] == band.differences(setting, row.latency_ms or 0.0)
                looked_at += 1
    own = [
        band for band in bands if band.implementation != "flash1" or band.words["version"]
    ]  # without those of a name
    assert sum(band.n for band in own) == looked_at


def measured(version: str | None, latency_ms: float, seqlen: int = 1024) -> ComparedRow:
    """A trusted row of flash1 on the A100 that the simulation puts at 1 ms."""
    simulated = answer(
        Point(A100, parse_request("flash1", "test"), PAPER, CALL), status="ok", latency_ms=1.0, version=version
    )
    row = MeasuredRow(
        "f.csv", 2, "", "flash1", A100.name, "flash1", version, attention(seqlen=seqlen), CALL, latency_ms, {}, "", {}
    )
    return ComparedRow(row, simulated, is_trusted=True, trust_reason="")


def compared(*rows: ComparedRow) -> tuple[Band, ...]:
    """The bands of rows that were compared."""
    return read_bands(bands_text(Comparison(rows, (), {}, {}, (), (), 0, 0, was_interrupted=False)), "list")


def test_bands_are_made_for_each_version_and_for_all_of_a_name_without_a_default() -> None:
    """Five rows of one version that are exact, five of another off by a quarter, seen in nine of ten of them."""
    rows = [measured(version, ms) for version, ms in (("2022-05", 1.0), ("2022-12", 0.8)) for _ in range(5)]
    found = [(band.words["version"], band.n, band.band) for band in compared(*rows)]
    assert [("", 10, 0.25), ("2022-05", 5, 0.0), ("2022-12", 5, 0.25)] == found


def test_a_band_is_the_error_that_nine_in_ten_rows_keep() -> None:
    """Errors of 0, 10, …, 100 % (1 ms simulated, 1 / (1 + error) measured): nine in ten are at most 90 %."""
    errors = [number / 10 for number in range(11)]
    rows = [measured("2022-05", 1 / (1 + error), seqlen=1024 * (1 + number)) for number, error in enumerate(errors)]
    band = compared(*rows)[-1]
    assert (11, 0.9) == (band.n, band.band)
    assert ((1024.0, 11264.0),) == band.sizes["seqlen_k"]


def test_too_few_rows_and_rows_of_other_files_make_no_band() -> None:
    """Four rows of one file and four of another, of the same conditions."""
    rows = [measured("2022-05", 1.0) for _ in range(4)]
    others = [replace(item, row=replace(item.row, file="g.csv")) for item in rows]
    assert () == compared(*rows, *others)


def test_the_widest_of_several_bands_is_given() -> None:
    """Two files measured the same; the point gets the wider error."""
    narrow, wide = (replace(MEASURED, band=share) for share in (0.1, 0.2))
    setting = setting_of(A100, "flash2", None, PAPER, CALL)
    assert [wide, wide] == [widest_band(bands, setting, LONG_MS) for bands in ((wide, narrow), (narrow, wide))]
