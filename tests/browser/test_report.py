"""report.html in Chromium: it draws every point, answers mouse and keyboard, and everyone can read it."""

import csv
import io

import pytest
from browser import audit
from browser.conftest import DESKTOP, PHONE

from gpusim.report.answers import Measurement
from gpusim.report.html import Provenance, report_html
from gpusim.results import PointResult
from gpusim.specs import load_gpu

pytestmark = pytest.mark.browser

GPUS = {name: load_gpu(name) for name in ("a100_sxm4_40gb", "h100_sxm5_80gb")}
LENGTHS = (512, 1024, 2048, 4096)
STALLS = {"compute": 0.5, "pipe": 0.2, "load": 0.15, "sync": 0.05, "store": 0.04, "launch": 0.03, "idle": 0.03}
BUSY = {"pipe": 0.9, "tensor": 0.5, "sfu": 0.3, "fp32": 0.2, "smem": 0.4, "l2": 0.3, "hbm": 0.2}
NEEDS = {"peak_memory_bytes": 10**11, "extra_memory_bytes": 10**11}
HOSTILE = "<script>alert(1)</script>"


def point(implementation: str, seqlen: int, slowness: float = 1.0, **fields: object) -> PointResult:
    """A point whose latency is `slowness` times its length in µs."""
    flops = 4 * 16 * 8 * seqlen * seqlen * 64
    latency_ms = slowness * seqlen / 1000
    kernel = {
        "name": f"{implementation}_kernel",
        "latency_ms": latency_ms,
        "operand_bytes": 4096 * seqlen,
        "l2_read_bytes": 9000 * seqlen,
        "l2_write_bytes": 1000 * seqlen,
        "l2_hit_rate": 0.5,
        "hbm_read_bytes": int(3000 * slowness * seqlen),
        "hbm_write_bytes": int(1000 * slowness * seqlen),
        "smem_read_bytes": 20000 * seqlen,
        "smem_write_bytes": 5000 * seqlen,
        "executed_flops": flops,
        "smem_bytes_per_cta": 49152,
        "registers_per_thread": 128,
        "ctas": 1024,
        "ctas_per_sm": 2,
        "limited_by": "registers",
        "waves": 4.5,
        "bottleneck": "compute pipe",
        "stalls": STALLS,
        "busy": BUSY,
        "sustained_clock_mhz": 1410.0,
        "power_w": 300.0,
    }
    shape = {
        "gpu": "a100_sxm4_40gb",
        "schedule": "naive" if "naive" in implementation else implementation,
        "implementation": implementation,
        "version": None,
        "pass_": "fwd",
        "dtype": "fp16",
        **dict.fromkeys(("heads", "kv_heads"), 8),
        "batch": 16,
        **dict.fromkeys(("seqlen_q", "seqlen_k"), seqlen),
        **dict.fromkeys(("head_dim", "head_dim_v"), 64),
        "causal": False,
        "window": None,
        "dropout": 0.0,
        "mask": "none",
        "save_lse": False,
        "sm_clock_mhz": None,
        "timing": "event",
        "cache": "warm",
        "stack": None,
    }
    if fields.get("status", "ok") != "ok":
        return PointResult.model_validate(shape | {"reason": "needs too much", "fix": "ask for less"} | fields)
    same = (
        "l2_read_bytes",
        "l2_write_bytes",
        "hbm_read_bytes",
        "hbm_write_bytes",
        "smem_read_bytes",
        "smem_write_bytes",
    )
    answer = {
        "status": "ok",
        "latency_ms": latency_ms,
        "latency_lo_ms": 0.9 * latency_ms,
        "latency_hi_ms": 1.1 * latency_ms,
        "validated": 0.1,
        "tflops": flops / latency_ms / 1e9,
        "flops": flops,
        "ceiling_ms": flops / 312e9,
        "bound_ms": flops / 312e9,
        "bound_by": "tensor fp16",
        "bottleneck": "compute pipe",
        "stalls": STALLS,
        "extra_memory_bytes": 512 * seqlen * seqlen if "naive" in implementation else 0,
        "peak_memory_bytes": 1024 * seqlen * seqlen,
        "kernels": [kernel],
        **{name: kernel[name] for name in same},
    }
    return PointResult.model_validate(shape | answer | fields)


def sweep(gpu: str = "a100_sxm4_40gb", names: tuple[str, ...] = ("flash1", "flash2")) -> list[PointResult]:
    """Eager attention that is out of memory at the last length, and faster schedules at all four."""
    points = [point("pytorch_naive", length, 4.0, gpu=gpu) for length in LENGTHS[:-1]]
    points.append(point("pytorch_naive", LENGTHS[-1], gpu=gpu, status="out_of_memory", **NEEDS))
    return points + [
        point(name, length, 2.0 / (number + 1), gpu=gpu) for number, name in enumerate(names) for length in LENGTHS
    ]


def measured(points: list[PointResult]) -> list[Measurement]:
    """Eager attention and the next schedule as measured: 5 % above what was simulated."""
    return [
        Measurement(number, found.latency_ms * 1.05, "paper_a100_fwd", "held_out")
        for number, found in enumerate(points)
        if found.latency_ms is not None and found.implementation in ("pytorch_naive", "flash1")
    ]


@pytest.fixture
def write(tmp_path):
    """Writes the page of some points and returns its path."""

    def page(points, found=(), title="sweep", gpus=GPUS, **more):
        provenance = Provenance("0.1.0", ["gpusim", "run", "sweep.yaml"], {"scenario": "name: sweep"})
        path = tmp_path / "report.html"
        content = report_html(title, points, gpus=gpus, measured=found, provenance=provenance, **more)
        path.write_text(content, encoding="utf-8")
        return path

    return page


@pytest.fixture
def report(write, open_page):
    """The page of one sweep, opened at desktop size."""
    points = sweep()
    return open_page(write(points, measured(points)))


def unfold(page):
    """Opens every details element in sight and waits until each has drawn its table, which it does after the click."""
    for summary in page.locator("summary").all():
        if summary.is_visible():
            summary.click()
    page.wait_for_function(
        """() => { const open = [...document.querySelectorAll('details[open]')];
                   return open.length && open.every(one => one.querySelector('td')); }"""
    )


PAGES = {
    "one sweep": lambda: (points := sweep(), measured(points)),
    "two GPUs": lambda: (points := [*sweep(), *sweep("h100_sxm5_80gb")], measured(points)),
    "eight series": lambda: (points := sweep(names=tuple(f"schedule_number_{n}" for n in range(7))), measured(points)),
    "one point": lambda: (points := [point("flash2", 1024)], measured(points)),
    "nothing ran": lambda: ([point("flash2", 1024, status="refused")], []),
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("name", PAGES)
def test_everyone_can_read_it(write, open_page, name, size, scheme):
    """No text on text, contrast of 4.5 or more, nothing past the edge, no serious finding of axe-core."""
    page = open_page(write(*PAGES[name]()), size=size, scheme=scheme)
    unfold(page)
    assert [] == audit.overlaps(page)
    assert [] == audit.low_contrasts(page)
    assert [] == audit.past_the_edge(page)
    assert [] == audit.serious_findings(page)


def test_charts_have_a_mark_for_every_number(report):
    """Three lines, seven measurements with seven errors, one cross for what ran out of memory, one kernel each."""
    counts = {
        "#latency .line": 3,
        "#latency .measured": 7,
        "#latency .residual": 7,
        "#latency .band": 3,
        "#latency .status": 1,
        "#traffic .bar": 9,  # three series at three levels
        "#roofline .roof": 5,  # HBM peak and stream, L2, tensor cores, special functions
        "#roofline .hbm-mark": 3,
        "#roofline .l2-mark": 3,
        "#time .part": 21,  # three kernels of seven reasons
        "#speedup .line": 2,
        "#memory .line": 3,
        "#memory .status": 1,
        "#errors tbody tr": 3,
        "#not-run tbody tr": 1,
    }
    assert counts == {query: report.locator(query).count() for query in counts}


def test_the_answer_and_the_read_out_agree(report):
    """At N = 2,048 eager attention takes 8.19 ms and flash2 2.05 ms, a quarter of it."""
    assert (
        report.locator("h1")
        .inner_text()
        .startswith("At N = 2,048 flash2 takes 2.05\xa0ms where pytorch_naive takes 8.19\xa0ms: 4.0 times faster")
    )
    assert "N = 2,048" == report.locator("#read .at b").inner_text()
    rows = report.locator("#read tbody tr").all_inner_texts()
    assert ["8.19 ms", "4.10 ms", "2.05 ms"] == [next(t for t in row.split() if "." in t) + " ms" for row in rows]
    assert "8.60 ms\t−4.8\xa0%" in rows[0]


def test_arrow_keys_move_the_pin(report):
    """The latency chart is a slider: arrows step, Home and End jump, and the value is spoken as text."""
    chart = report.locator("#latency")
    chart.focus()
    report.keyboard.press("End")
    assert "4" == chart.get_attribute("aria-valuenow")
    assert "N = 4,096: pytorch_naive out of memory, flash1 8.19 ms, flash2 4.10 ms" == chart.get_attribute(
        "aria-valuetext"
    )
    assert "✕ out of memory" in report.locator("#read").inner_text()
    report.keyboard.press("ArrowLeft")
    assert "N = 2,048" == report.locator("#read .at b").inner_text()
    report.keyboard.press("Home")
    assert "N = 512" == report.locator("#traffic").locator("xpath=..").locator(".pin").inner_text()


def test_buttons_move_the_pin_and_keep_the_focus(report):
    """Whoever steps by button can go on stepping."""
    report.get_by_role("button", name="Previous place").focus()
    report.keyboard.press("Enter")
    report.keyboard.press("Enter")
    assert "N = 512" == report.locator("#read .at b").inner_text()
    assert report.locator("#spoken").inner_text().startswith("N = 512: ")


def test_pointing_reads_and_clicking_pins(report, expect):
    """Hovering shows a place until the pointer leaves; a click stays."""
    chart = report.locator("#latency")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    report.mouse.move(box["x"] + 70, box["y"] + 200)
    expect(report.locator("#read .at b")).to_have_text("N = 512")
    report.mouse.move(box["x"] + 70, box["y"] - 60)
    expect(report.locator("#read .at b")).to_have_text("N = 2,048")
    report.mouse.click(box["x"] + 70, box["y"] + 200)
    report.mouse.move(box["x"] + 70, box["y"] - 60)
    expect(report.locator("#read .at b")).to_have_text("N = 512")


def test_a_table_behind_each_chart_can_be_saved_as_csv(report, expect):
    """The CSV of the points has a row a point and plain numbers."""
    report.get_by_text("All points as a table").click()
    expect(report.locator('[data-table="points"] tbody tr')).to_have_count(12)
    with report.expect_download() as saved:
        report.locator('[data-table="points"]').get_by_role("button", name="Save as CSV").click()
    rows = list(csv.DictReader(io.StringIO(saved.value.path().read_text(encoding="utf-8"))))
    assert "points.csv" == saved.value.suggested_filename
    assert 12 == len(rows)
    assert ("flash2", "4,096", "4.096") == (rows[-1]["series"], rows[-1]["N"], rows[-1]["simulated, ms"])
    for summary in report.locator("details[data-table] summary").all():
        if summary.is_visible() and "All points" not in summary.inner_text():
            summary.click()
    expect(report.locator("details[data-table] tbody")).to_have_count(6)


def test_a_cell_that_a_spreadsheet_would_run_is_escaped(write, open_page):
    """A series named like a formula gets an apostrophe in the CSV."""
    page = open_page(write([point("=1+1", 512), point("=1+1", 1024)]))
    page.get_by_text("All points as a table").click()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as CSV").click()
    assert "\n'=1+1,512," in saved.value.path().read_text(encoding="utf-8")


def test_the_theme_follows_the_system_until_the_button_is_pressed(write, open_page):
    """Dark on a dark system, light after the button."""
    page = open_page(write(sweep()), scheme="dark")
    shade = "getComputedStyle(document.body).backgroundColor"
    assert "rgb(21, 24, 27)" == page.evaluate(shade)
    page.locator("#theme").click()
    assert "rgb(255, 255, 255)" == page.evaluate(shade)


def test_several_gpus_are_small_multiples_that_choose_what_is_shown(write, open_page):
    """Two GPUs: two small charts; the second one's button shows its points, by mouse and from the list."""
    points = [*sweep(), *[point("flash2", length, 0.1, gpu="h100_sxm5_80gb") for length in LENGTHS]]
    page = open_page(write(points, measured(points)))
    assert 2 == page.locator("#multiples button").count()
    page.locator("#multiples button").nth(1).click()
    assert "true" == page.locator("#multiples button").nth(1).get_attribute("aria-pressed")
    assert 1 == page.locator("#latency .line").count()
    assert page.locator("#answer").inner_text().startswith("At N = 4,096 flash2 takes 0.410\xa0ms on NVIDIA H100 SXM5")
    page.locator("#panel").select_option("0")
    assert 3 == page.locator("#latency .line").count()


def test_more_than_four_series_are_small_multiples(write, open_page):
    """Eight series: four in the chart, all eight as small charts; choosing one brings it into the chart."""
    page = open_page(write(sweep(names=tuple(f"schedule_{number}" for number in range(7)))))
    assert 4 == page.locator("#latency .line").count()
    assert 8 == page.locator("#each button").count()
    assert "schedule_0" not in page.locator("#latency-legend").inner_text()
    page.locator("#each button", has_text="schedule_0").click()
    assert "schedule_0" in page.locator("#latency-legend").inner_text()
    assert 4 == page.locator("#latency .line").count()


def test_crossover_is_marked_and_named(write, open_page):
    """Halfway between 1,024 (twice as slow) and 2,048 (twice as fast) on both logarithmic axes the series cross."""
    points = [point("pytorch_naive", length, 1.0) for length in LENGTHS]
    points += [point("flash2", length, slowness) for length, slowness in zip(LENGTHS, (2, 2, 0.5, 0.5), strict=True)]
    page = open_page(write(points))
    assert 1 == page.locator("#speedup .crossover").count()
    assert "flash2 overtakes pytorch_naive near N = 1,448" in page.locator("#speedup-sub").inner_text()


def test_a_sweep_of_head_dims_reads_as_one(write, open_page):
    """Every head dim is a place of the axis."""
    points = [
        point("flash2", 1024, head_dim / 64, head_dim=head_dim, head_dim_v=head_dim) for head_dim in (32, 64, 128)
    ]
    page = open_page(write(points))
    assert "Latency against head dimension" == page.locator("#h-latency").inner_text()
    assert "d = 128" == page.locator("#read .at b").inner_text()


def test_names_that_are_markup_are_text(write, open_page):
    """No dialog opens, no element appears, and the names are shown as they stand."""
    points = [point(HOSTILE, length, gpu=HOSTILE) for length in LENGTHS]
    points.append(point("flash2", 512, gpu=HOSTILE, status="error", reason=HOSTILE, fix=HOSTILE))
    found = [Measurement(0, 1.0, HOSTILE, HOSTILE)]
    page = open_page(write(points, found, title=HOSTILE, gpus={}))
    unfold(page)
    assert 2 == page.locator("script").count()
    assert HOSTILE in page.locator("header").inner_text()
    assert HOSTILE in page.locator("#not-run").inner_text()


def test_no_other_script_may_run(write, browser):
    """The page's policy refuses a script that is not its own, should one ever slip in."""
    path = write(sweep())
    page = browser.new_page(offline=True)
    page.goto(path.as_uri())
    page.evaluate(
        """() => { addEventListener('securitypolicyviolation', () => { window.isRefused = true; });
                   const script = document.createElement('script');
                   script.textContent = 'window.hasRun = true';
                   document.body.append(script); }"""
    )
    page.wait_for_function("window.isRefused")
    assert page.evaluate("window.hasRun === undefined")
    page.close()


def test_five_thousand_points_answer_at_once(write, open_page, expect):
    """A step of the pin redraws charts and read-out in well under a second."""
    points = [point(name, 64 * number, 1.0) for name in ("flash1", "flash2") for number in range(1, 2501)]
    page = open_page(write(points))
    page.locator("#latency").focus()
    page.keyboard.press("End")
    assert "N = 160,000" == page.locator("#read .at b").inner_text()
    assert 2 == page.locator("#latency .line").count()
    page.get_by_text("All points as a table").click()
    expect(page.locator("[data-table=points] tbody tr")).to_have_count(1000)
