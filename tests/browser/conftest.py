"""Debian's Chromium, driven headless by Playwright, for tests of the pages that gpusim writes.

Needs the extra `browser` and Chromium itself: `apt-get install chromium`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Scheme = Literal["light", "dark"]
OpenPage = Callable[..., "Page"]
Expect = Callable[..., Any]

DESKTOP, PHONE = (1400, 1000), (390, 844)  # CSS pixels
_FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --force-color-profile=srgb"
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One headless Chromium for all tests; every page gets a context, and so a profile, of its own."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.fail("Chromium is not installed; apt-get install chromium")
    with sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=chromium, args=_FLAGS.split())
        yield running
        running.close()


@pytest.fixture(scope="session")
def expect(browser: Browser) -> Expect:
    """Playwright's assertions, which wait: what a page does in a task of its own is not there when a click returns."""
    from playwright.sync_api import expect

    return expect


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Opens a file offline, at a size in CSS pixels and in a colour scheme, and returns Playwright's page.

    At the end of the test no page may have asked for anything but its own file, or have logged an error.
    """
    contexts = []
    complaints: list[str] = []

    def open_file(path: Path, *, size: tuple[int, int] = DESKTOP, scheme: Scheme = "light", fragment: str = "") -> Page:
        width, height = size
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            offline=True,
            accept_downloads=True,
            has_touch=size == PHONE,
            reduced_motion="reduce",
        )
        contexts.append(context)
        page = context.new_page()
        address = path.resolve().as_uri() + fragment
        page.on("request", lambda request: None if _is_own(request.url, address) else complaints.append(request.url))
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        page.goto(address)
        return page

    yield open_file
    for context in contexts:
        context.close()
    assert [] == complaints


def _is_own(url: str, address: str) -> bool:
    """Whether a request is for the page itself, or for what it holds already (a download it made)."""
    return url.partition("#")[0] == address.partition("#")[0] or url.startswith(("blob:", "data:"))
