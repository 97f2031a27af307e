"""The replay page as a file: self-contained, escaped, the same bytes each time."""

import dataclasses
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from gpusim.replay import GALLERY, build_replay
from gpusim.report.replay import Replay, replay_html, replay_json
from gpusim.scenario import load_scenario

ROOT = Path(__file__).parents[2]
HOSTILE = "</script><script>alert(1)</script>"


@pytest.fixture(scope="module")
def gallery() -> Replay:
    """The data of the gallery page."""
    return build_replay([load_scenario(name) for name in GALLERY]).replay


class Tags(HTMLParser):
    """Every start tag with its attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_a_page_names_nothing_to_load(gallery: Replay) -> None:
    """No address, no import, no external style sheet, picture or script."""
    html = replay_html(gallery)
    assert [] == [found for found in Tags(html).found if {"src", "href", "srcset"} & found[1].keys()]
    assert [] == re.findall(r"https?://|@import|url\((?!#)", html.replace("url(#", ""))


def test_the_shipped_gallery_is_what_the_command_makes(gallery: Replay) -> None:
    """`gpusim replay -o docs/gallery/index.html`; numbers carry 9 digits, so any machine writes these bytes."""
    assert replay_html(gallery) == (ROOT / "docs" / "gallery" / "index.html").read_text(encoding="utf-8")


def test_names_cannot_end_the_data_or_start_a_script(gallery: Replay) -> None:
    """A title and a GPU's name that hold markup stay text."""
    example = dataclasses.replace(gallery.examples[0], gpu=HOSTILE)
    hostile = dataclasses.replace(gallery, title=HOSTILE, examples=(example, *gallery.examples[1:]))
    html = replay_html(hostile)
    assert 2 == [tag for tag, _ in Tags(html).found].count("script")
    assert HOSTILE not in html
    assert HOSTILE == json.loads(replay_json(hostile))["examples"][0]["gpu"]


def test_minus_infinity_is_text_in_the_data(gallery: Replay) -> None:
    """JSON has no number for it; the start value of m is −∞ in every row."""
    flash = json.loads(replay_json(gallery))["lanes"][1]
    start = next(event for event in flash["events"] if event["unit"] == "note")
    assert ["-inf"] * 4 == next(c["values"] for c in start["contents"] if c["buffer"] == "m")
