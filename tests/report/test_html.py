"""The page of a run, as text; what a browser makes of it stands in tests/browser."""

import json
import re

import pytest

from gpusim.report.answers import Measurement
from gpusim.report.html import Provenance, Table, embedded_json, repeat_command, report_html
from gpusim.specs import apply_overrides, load_gpu

GPUS = {name: load_gpu(name) for name in ("a100_sxm4_40gb", "h100_sxm5_80gb")}
HOSTILE = "<script>alert(1)</script>"


def page(points, measured=(), title="sweep", command=("gpusim", "run", "sweep.yaml"), gpus=GPUS, **more) -> str:
    """The page of these points."""
    provenance = Provenance("0.1.0", command, {"scenario": "name: sweep"})
    return report_html(title, points, gpus=gpus, measured=measured, provenance=provenance, **more)


def block(text: str) -> dict:
    """The data block of a page."""
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    return json.loads(found)


@pytest.fixture
def sweep(make_point, make_refusal):
    """Three series at three lengths, one of them refused."""
    points = [make_point(name, seqlen) for name in ("flash1", "flash2") for seqlen in (512, 1024, 2048)]
    return [*points, make_refusal("flash3", 512)]


def test_equal_runs_have_equal_pages_wherever_their_files_go(sweep):
    """The folder, the number of processes and what is printed are no part of a page."""
    one = page(sweep, command=["gpusim", "run", "sweep.yaml", "--out", "/tmp/a", "--workers=2", "--mode", "compiled"])
    other = page(sweep, command=["gpusim", "run", "--out=/tmp/b", "sweep.yaml", "--quiet", "--mode", "compiled"])
    assert one == other
    assert "gpusim run sweep.yaml --mode compiled" in one


def test_a_command_can_be_pasted_into_a_shell():
    """What a shell would take apart is quoted."""
    command = ["gpusim", "run", "my sweep.yaml", "--set", "sm.clock_hz=1.5e9", "it's"]
    assert "gpusim run 'my sweep.yaml' --set sm.clock_hz=1.5e9 'it'\\''s'" == repeat_command(command)


def test_the_block_holds_what_was_simulated(sweep):
    """Bytes are exact; refused points come with reason and fix."""
    data = block(page(sweep))
    (panel,) = data["panels"]
    columns = data["point_columns"]
    row = dict(zip(columns, panel["series"][1]["points"][2], strict=True))
    assert (600 * 2048, 424 * 2048, 2.048) == (row["hbm_read_bytes"], row["hbm_write_bytes"], row["latency_ms"])
    refused = dict(zip(columns, panel["series"][2]["points"][0], strict=True))
    words = data["words"]
    assert ["refused", "needs 208 of 96 numbers", "tile_kv=4 fits"] == [
        words[refused[name]] for name in ("status", "reason", "fix")
    ]
    assert [None, None] == panel["series"][2]["points"][1:]


def test_measurements_stand_at_their_point_with_their_error(sweep):
    """0.512 ms simulated against 0.4 ms measured is +28 %."""
    (panel,) = block(page(sweep, [Measurement(3, 0.4, "paper", "held_out")]))["panels"]
    assert [[1, 0, 0.4, 0.28]] == [[*row[:3], row[4]] for row in panel["measured"]]
    assert ["held_out"] == [item["role"] for item in panel["errors"]]


def test_who_measured_is_cited_under_the_command(sweep):
    """Each file once, with the sources that its rows name."""
    found = [
        Measurement(number, 0.4, "paper.csv", "held_out", cited) for number, cited in ((0, "T9"), (1, "T9"), (2, "T10"))
    ]
    assert "<dd>paper.csv: T9; T10</dd>" in page(sweep, found)


def test_ceilings_come_from_the_gpu(make_point):
    """A100: 1,555 GB/s of HBM, 5,400 of L2, and 16 exponentials a clock and SM with 4·64 FLOP each."""
    point = make_point(flops=10**12, ceiling_ms=1e15 / 312e12, tflops=100.0)
    (panel,) = block(page([point]))["panels"]
    assert {
        "tensor_tflops": 312.0,
        "sfu_tflops": round(108 * 16 * 1.41e9 * 256 / 1e12, 3),
        "hbm_gb_per_s": 1555.0,
        "hbm_stream_gb_per_s": 1503.0,
        "l2_gb_per_s": 5400.0,
    } == panel["roofs"]


def test_one_gpu_with_several_settings_keeps_the_numbers_of_each(make_point):
    """As shipped and with half the bandwidth: two panels, each with its own ceiling, and two lists of numbers."""
    path = "memory.hbm.peak_bandwidth_bytes_per_s"
    plain = GPUS["a100_sxm4_40gb"]
    half = apply_overrides(plain, {path: "0.7775e12", "memory.hbm.stream_bandwidth_bytes_per_s": "0.7e12"})
    points = [make_point(flops=10**12, ceiling_ms=1.0, tflops=1.0, overrides=spec.overrides) for spec in (plain, half)]
    data = block(page(points, gpus={point.machine: spec for point, spec in zip(points, (plain, half), strict=True)}))
    assert [1555.0, 777.5] == [panel["roofs"]["hbm_gb_per_s"] for panel in data["panels"]]
    assert [point.machine for point in points] == list(data["gpus"]) == [panel["gpu"] for panel in data["panels"]]
    numbers = [gpu["numbers"] for gpu in data["gpus"].values()]
    assert [1.555e12, 0.7775e12] == [value for rows in numbers for name, value, *_ in rows if name == path]


def test_names_from_files_are_escaped(make_point):
    """A title, GPU, series, source or reason that is markup stays text, in the page and in the block."""
    points = [
        make_point(HOSTILE, 512, gpu=HOSTILE),
        make_point("flash2", 512, gpu=HOSTILE, status="error", reason=HOSTILE),
    ]
    text = page(
        points,
        [Measurement(0, 0.4, HOSTILE, HOSTILE)],
        title=HOSTILE,
        command=["gpusim", HOSTILE],
        gpus={},
        headline=HOSTILE,
        tables=[Table(HOSTILE, HOSTILE, [HOSTILE], [[HOSTILE]])],
        notes={HOSTILE: HOSTILE},
    )
    assert HOSTILE not in text
    assert 2 == text.count("<script")
    assert HOSTILE == block(text)["title"]


def test_a_block_cannot_close_its_element():
    """No angle bracket is left, and the text reads back."""
    document = {"name": "</script><!--", "line": "\u2028"}
    text = embedded_json(document)
    assert "<" not in text
    assert document == json.loads(text)


def test_nan_is_refused():
    """JSON has no NaN."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        embedded_json({"latency_ms": float("nan")})


def test_a_hundred_points_stay_under_a_megabyte_and_five_thousand_under_five(make_point):
    """A point of eager attention has seven kernels, each with its stalls, bytes and busy units."""
    kernel = {
        "name": "softmax",
        "latency_ms": 31.4159265,
        **dict.fromkeys(("operand_bytes", "l2_read_bytes", "l2_write_bytes", "hbm_read_bytes"), 34_359_738_368),
        **dict.fromkeys(("hbm_write_bytes", "smem_read_bytes", "smem_write_bytes"), 34_359_738_368),
        "l2_hit_rate": 0.36199145,
        "executed_flops": 549_755_813_888,
        "smem_bytes_per_cta": 98304,
        "registers_per_thread": 176,
        "ctas": 524_288,
        "ctas_per_sm": 2,
        "limited_by": "registers",
        "waves": 75.85,
        "bottleneck": "compute pipe",
        "stalls": dict.fromkeys(("compute", "pipe", "load", "sync", "store", "launch", "idle"), 0.142857),
        "busy": dict.fromkeys(("pipe", "tensor", "sfu", "fp32", "smem", "l2", "hbm"), 0.987654),
        "sustained_clock_mhz": 1234.5,
        "power_w": 345.6,
    }

    def points(count):
        names = ("pytorch_naive", "flash1", "flash2", "flash3", "other")
        kernels = {"pytorch_naive": [kernel] * 7}
        return [
            make_point(name, 64 * (1 + number), kernels=kernels.get(name, [kernel]), latency_ms=12.3456789 + number)
            for name in names
            for number in range(count // len(names))
        ]

    assert len(page(points(100)).encode()) < 1_000_000
    assert len(page(points(5000)).encode()) < 5_000_000


def test_no_points_make_a_page_that_says_so():
    """An interrupted run may have no point."""
    assert "No point has finished." in page([])
