"""The audit that pages are held to finds what it looks for."""

from pathlib import Path

import pytest
from browser import audit

pytestmark = pytest.mark.browser

HEAD = "<!doctype html><html lang=en><head><meta charset=utf-8><title>t</title></head><body><main><h1>Page</h1>"


@pytest.fixture
def write(tmp_path: Path):
    """Writes a page with this body and returns its path."""

    def page(body: str) -> Path:
        path = tmp_path / "page.html"
        path.write_text(HEAD + body, encoding="utf-8")
        return path

    return page


def test_text_on_text_is_found(open_page, write):
    """Two labels on one place are a finding, two beside each other are not."""
    svg = "<svg width=300 height=60><text x=10 y=30>first</text><text x={x} y=32>second</text></svg>"
    assert [("first", "second")] == audit.overlaps(open_page(write(svg.format(x=12))))
    assert [] == audit.overlaps(open_page(write(svg.format(x=150))))


def test_weak_letters_are_found(open_page, write):
    """#777777 on white has a contrast of 4.48, #767676 of 4.54 (WCAG 2)."""
    svg = "<svg width=300 height=60><text x=10 y=30 fill='{}'>label</text></svg>"
    assert ["label"] == [item["text"] for item in audit.low_contrasts(open_page(write(svg.format("#777777"))))]
    assert [] == audit.low_contrasts(open_page(write(svg.format("#767676"))))


def test_a_wide_page_is_found(open_page, write):
    """What is wider than the window makes the page scroll sideways."""
    assert [] != audit.past_the_edge(open_page(write("<p style='width:2000px'>wide</p>")))
    assert [] == audit.past_the_edge(open_page(write("<p>narrow</p>")))


def test_axe_finds_a_nameless_button(open_page, write):
    """A button without a name is a serious finding of axe-core."""
    assert ["button-name"] == [
        found.partition(":")[0] for found in audit.serious_findings(open_page(write("<button></button>")))
    ]
