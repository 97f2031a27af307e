"""Pictures of the pages for the README: `python docs/screenshots.py`, with the extra `browser` and Debian's chromium.

Runs the scenarios and comparisons named below, keeps their report.html as `docs/report-NAME.html`, opens it, and the
replay page of docs/gallery, in headless Chromium and writes `docs/report-NAME-WIDTH-SCHEME.png` and
`docs/gallery-WIDTH-SCHEME.png`. Leaves out what scrolls off the first screen.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Browser, sync_playwright

DOCS = Path(__file__).parent
REPORTS = {
    "a100": ("run", "seqlen_sweep_a100"),
    "h100": ("compare", "fa3_h100_fp16_fwd"),
}
PICTURES = ((1400, 1300, "light"), (390, 844, "dark"))  # CSS pixels, and the colour scheme


def main() -> None:
    """Writes every picture of every report."""
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("Chromium is not installed; apt-get install chromium")
    with TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for name, (command, what) in REPORTS.items():
            out = Path(folder) / name
            subprocess.run(
                [Path(sys.executable).with_name("gpusim"), command, what, "--quiet", "--out", out], check=True
            )
            page = DOCS / f"report-{name}.html"
            shutil.copyfile(out / "report.html", page)
            photograph(browser, page, f"report-{name}")
        photograph(browser, DOCS / "gallery" / "index.html", "gallery", fragment="#demo=bigger-maximum")
        browser.close()


def photograph(browser: Browser, page: Path, name: str, *, fragment: str = "") -> None:
    """Writes the pictures of one page, opened at an address within it, into docs/."""
    for width, height, scheme in PICTURES:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if scheme == "dark" else "light",
            offline=True,
            reduced_motion="reduce",
        )
        tab = context.new_page()
        tab.goto(page.resolve().as_uri() + fragment)
        tab.screenshot(path=DOCS / f"{name}-{width}-{scheme}.png")
        context.close()


if __name__ == "__main__":
    main()
