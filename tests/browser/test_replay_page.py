"""The replay page in Chromium: counters, read-outs, keyboard, and what every page is held to."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from browser import audit
from browser.conftest import DESKTOP, PHONE, Expect, OpenPage

from gpusim.replay import GALLERY, build_replay
from gpusim.report.replay import Replay, replay_html
from gpusim.scenario import load_scenario

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

BYTES = {"naive-4": 768, "flash2-4": 384, "flash2-2": 640, "flash1-4": 512, "flash2-4-causal": 320}
DEMOS = [*BYTES, "bigger-maximum", "same-output", "flash2-8", "too-large-n16"]


@pytest.fixture(scope="module")
def replay() -> Replay:
    """The data of the gallery page."""
    return build_replay([load_scenario(name) for name in GALLERY]).replay


@pytest.fixture(scope="module")
def path(replay: Replay, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The gallery page as a file."""
    written = tmp_path_factory.mktemp("replay") / "page.html"
    written.write_text(replay_html(replay), encoding="utf-8")
    return written


def number(text: str) -> float:
    """A number as the page prints it."""
    return float(text.replace("−", "-").replace(",", "").replace("∞", "inf"))


def count(page: Page) -> int:
    """The byte counter of the first lane."""
    return int(number(page.locator(".big .now").first.inner_text()))


def step(page: Page) -> int:
    """Which step is shown."""
    return int(page.locator("#scrub").input_value())


def table(page: Page) -> list[tuple[float, float]]:
    """m and ℓ of every row as the softmax table shows them, after any change."""
    cells = [page.locator(f".soft td.{name}").all_inner_texts() for name in ("m", "l")]
    return [(number(m.split("→")[-1]), number(total.split("→")[-1])) for m, total in zip(*cells, strict=True)]


@pytest.mark.parametrize(("demo", "bytes_"), BYTES.items())
def test_the_counter_ends_at_the_closed_form(open_page: OpenPage, path: Path, demo: str, bytes_: int) -> None:
    """From 0 B at the start to every byte at the end, where the page confirms the formula and O."""
    page = open_page(path, fragment=f"#demo={demo}&step=0")
    assert 0 == count(page)
    page.keyboard.press("End")
    assert bytes_ == count(page)
    said = page.locator(".bytes .closed").inner_text()
    assert f"{bytes_} B. Counted {bytes_} B ✓" in said
    difference = re.search(r"max \|difference\| = ([\d.]+) × 10⁻([⁸⁹]|¹[⁰¹²])", said)
    assert difference is not None, said


@pytest.mark.parametrize("demo", ["flash2-4", "flash2-2", "flash1-4", "flash2-4-causal", "naive-4"])
def test_m_and_l_end_as_in_the_definition(open_page: OpenPage, path: Path, replay: Replay, demo: str) -> None:
    """Row maxima and sums of e^(score − m) of the whole score matrix, to the two decimals shown."""
    lane = replay.lanes[next(d for d in replay.demos if d.id == demo).lanes[0]]
    example = replay.examples[lane.example]
    q, k = (np.array(values).reshape(-1, example.head_dim) for values in (example.Q, example.K))
    scores = q @ k.T / np.sqrt(example.head_dim)
    if lane.causal:
        scores = np.where(np.tri(*scores.shape) > 0, scores, -np.inf)
    maxima = scores.max(axis=1)
    sums = np.exp(scores - maxima[:, None]).sum(axis=1)
    page = open_page(path, fragment=f"#demo={demo}")
    page.keyboard.press("End")
    shown = np.array(table(page))
    assert maxima == pytest.approx(shown[:, 0], abs=0.00501)
    assert sums == pytest.approx(shown[:, 1], abs=0.00501)


def test_a_bigger_maximum_shows_its_factor(open_page: OpenPage, path: Path, replay: Replay) -> None:
    """The demo opens on the event; α of rows 0–2 is e^(m old − m new), row 3 keeps 1.00."""
    demo = next(d for d in replay.demos if d.id == "bigger-maximum")
    rows = replay.lanes[demo.lanes[0]].events[demo.start - 1].softmax
    page = open_page(path, fragment="#demo=bigger-maximum")
    assert demo.start == step(page)
    expected = [f"{np.exp(row.m_old - row.m):.2f}" for row in rows]
    assert expected == page.locator(".soft td.a").all_inner_texts()[:4]
    assert 3 == page.locator(".soft tr.up").count()
    assert "A bigger maximum arrives in rows 0, 1 and 2" in page.locator("#say").inner_text()


def test_side_by_side_ends_with_the_same_output(open_page: OpenPage, path: Path) -> None:
    """768 and 384 B, and O of both lanes equal to all digits of the page."""
    page = open_page(path, fragment="#demo=same-output")
    page.keyboard.press("End")
    assert ["768", "384"] == page.locator(".big .now").all_inner_texts()
    assert "Same O, to all 9 digits, with 384 B instead of 768 B" in page.locator("#say").inner_text()


def test_tiles_of_8_show_the_refusal(open_page: OpenPage, path: Path) -> None:
    """208 of 96 numbers, what fits instead, and not one byte moved."""
    page = open_page(path, fragment="#demo=flash2-8")
    page.keyboard.press("End")
    assert "208 asked of 96" in page.locator(".sram .r").inner_text()
    assert ["fits", "fits", "refused"] == page.locator("table.fit td:last-child").all_inner_texts()
    assert "tiles of 4 (88 numbers) or tiles of 2 (40 numbers)" in page.locator(".soft .note").inner_text()
    assert 0 == count(page)
    assert "No events" in page.locator("#tl").text_content()


def test_sixteen_tokens_do_not_fit_their_scores(open_page: OpenPage, path: Path) -> None:
    """S alone is 256 numbers of 96; 2,560 B against 1,280 B in the end."""
    page = open_page(path, fragment="#demo=too-large-n16&step=0")
    assert "16 × 16 = 256 numbers and SRAM holds 96" in page.locator("#say").inner_text()
    page.keyboard.press("End")
    assert ["2,560", "1,280"] == page.locator(".big .now").all_inner_texts()


def test_the_causal_page_marks_what_it_skips(open_page: OpenPage, path: Path) -> None:
    """One of the four tiles says so at the end."""
    page = open_page(path, fragment="#demo=flash2-4-causal")
    page.keyboard.press("End")
    assert ["done", "done", "done", "skipped"] == sorted(page.locator(".mat.S .tag").all_text_contents())


def test_what_is_read_and_written_is_marked(open_page: OpenPage, path: Path) -> None:
    """First event of naive attention: all of K is read, its 32 cells are tinted and its buffer hatched."""
    page = open_page(path, fragment="#demo=naive-4&step=1")
    assert 32 == page.locator(".mat.K .tint-load").count()
    assert 1 == page.locator(".mat.K .ring-load").count()
    assert 2 == page.locator(".sram .ring-load").count()
    assert "read K rows 0–7: 32 numbers × 2 B = 64 B" in page.locator(".bus").inner_text()


def test_the_timeline_has_a_mark_for_each_event(open_page: OpenPage, path: Path, replay: Replay) -> None:
    """One for every transfer and task of the trace; a click goes there."""
    page = open_page(path, fragment="#demo=flash2-4")
    timed = [event for event in replay.lanes[1].events if event.unit != "note"]
    assert len(timed) == page.locator("#tl .ev").count()
    assert len(replay.lanes[1].events) == page.locator("#table tbody tr").count()
    page.locator("#tl .ev").nth(4).locator("rect").first.click()
    assert replay.lanes[1].events.index(timed[4]) + 1 == step(page)


def test_the_keyboard_does_everything(open_page: OpenPage, path: Path, replay: Replay, expect: Expect) -> None:
    """Arrows step, Home and End jump, digits choose a demo, Space plays and pauses; the address follows."""
    page = open_page(path, fragment="#demo=flash2-4&step=0")
    for key, expected in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("Home", 0), ("ArrowLeft", 0)):
        page.keyboard.press(key)
        assert expected == step(page)
    page.keyboard.press("5")
    expect(page).to_have_url(re.compile(f"#demo={replay.demos[4].id}&step=0$"))
    expect(page.locator("#demos input").nth(4)).to_be_checked()
    page.keyboard.press("Space")
    assert "Pause" == page.locator("#play").get_attribute("aria-label")
    expect(page.locator("#scrub")).not_to_have_value("0")
    page.keyboard.press("Space")
    assert "Play" == page.locator("#play").get_attribute("aria-label")


def test_play_stops_at_the_end_and_starts_over(open_page: OpenPage, path: Path, expect: Expect) -> None:
    """At 4× the last step ends the playback; playing again begins at the start."""
    page = open_page(path, fragment="#demo=flash2-8&step=6")
    page.locator("#speed").select_option("4")
    page.locator("#play").click()
    expect(page.locator("#play")).to_have_attribute("aria-label", "Play")
    assert 7 == step(page)
    page.locator("#play").click()
    assert 0 == step(page)


def test_the_scrubber_goes_anywhere_and_speaks(open_page: OpenPage, path: Path) -> None:
    """A slider whose spoken value is the sentence of its step."""
    page = open_page(path, fragment="#demo=flash2-4")
    page.locator("#scrub").fill("9")
    assert 9 == step(page)
    spoken = page.locator("#scrub").get_attribute("aria-valuetext")
    assert spoken == f"step 9 of 32: {page.locator('#say').inner_text()}"


def test_a_phone_chooses_demos_from_a_list(open_page: OpenPage, path: Path, expect: Expect) -> None:
    """At 390 px the tabs give way to a select, and controls are at least 44 px high."""
    page = open_page(path, size=PHONE)
    assert not page.locator("#demos").is_visible()
    page.locator("#pick").select_option("6")
    expect(page).to_have_url(re.compile("#demo=flash2-8"))
    for name in ("#pick", "#prev", "#play", "#next", "#theme"):
        assert 44 <= page.locator(name).bounding_box()["height"]


def test_the_button_overrides_the_system_theme(open_page: OpenPage, path: Path) -> None:
    """Dark on a light system, and back."""
    page = open_page(path)
    grounds = []
    for _ in range(3):
        grounds.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        page.locator("#theme").click()
    assert grounds[0] == grounds[2] == "rgb(255, 255, 255)"
    assert "rgb(21, 24, 27)" == grounds[1]


def test_markup_in_names_is_harmless(open_page: OpenPage, replay: Replay, tmp_path: Path) -> None:
    """A title, a GPU and a schedule called <script>alert(1)</script> are shown as text; a dialog would be an error."""
    name = "<script>alert(1)</script><img src=x onerror=alert(2)>"
    example = dataclasses.replace(replay.examples[0], gpu=name)
    lane = dataclasses.replace(replay.lanes[1], name=name, title=name)
    demo = dataclasses.replace(replay.demos[0], title=name, subtitle=name, intro=name, lanes=(0,))
    hostile = Replay(name, (example,), (lane,), (demo,))
    path = tmp_path / "page.html"
    path.write_text(replay_html(hostile), encoding="utf-8")
    page = open_page(path)
    page.keyboard.press("End")
    assert name in page.locator("#about").inner_text()
    assert 0 == page.locator("img").count()


LOOKS = [(DESKTOP, "light"), (PHONE, "dark")]  # each colour scheme and each width, for every demo
OTHER_LOOKS = [(DESKTOP, "dark"), (PHONE, "light")]  # and the rest for the demo of one lane and that of two


@pytest.mark.parametrize(
    ("demo", "size", "scheme"),
    [(demo, *look) for demo in DEMOS for look in LOOKS]
    + [(demo, *look) for demo in ("bigger-maximum", "same-output") for look in OTHER_LOOKS],
)
def test_every_demo_passes_the_audit(open_page: OpenPage, path: Path, demo: str, size: tuple, scheme: str) -> None:
    """Half way through: no text on text, nothing past the edge, contrast of at least 4.5, nothing serious by axe."""
    page = open_page(path, size=size, scheme=scheme, fragment=f"#demo={demo}")
    page.evaluate("go(Math.ceil(frames.length * .55))")
    page.add_style_tag(content=".dock { position: static !important; }")  # it covers what scrolls behind it, on purpose
    assert [] == audit.overlaps(page)
    assert [] == audit.past_the_edge(page)
    assert [] == audit.low_contrasts(page)
    assert [] == audit.serious_findings(page)
