"""What every page is held to: no text on text, contrast, nothing past the edge, no serious finding of axe-core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Page

SERIOUS = ("serious", "critical")

# The visible boxes of text, one a line box of a text node or an SVG text element; clipped ones are for screen readers.
_TEXT_BOXES = """() => {
  const boxes = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement, style = getComputedStyle(parent);
    if (!node.textContent.trim() || parent.closest('script, style, title, option, .sr')) continue;
    if (style.visibility !== 'visible' || !parent.checkVisibility()) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const clip = parent.closest('.scroll')?.getBoundingClientRect();
    for (const whole of range.getClientRects()) {
      const box = {left: Math.max(whole.left, clip?.left ?? -1e9), right: Math.min(whole.right, clip?.right ?? 1e9),
                   top: Math.max(whole.top, clip?.top ?? -1e9), bottom: Math.min(whole.bottom, clip?.bottom ?? 1e9)};
      if (box.right - box.left < 1 || box.bottom - box.top < 1) continue;
      boxes.push({text: node.textContent.trim().slice(0, 60), left: box.left, top: box.top + scrollY,
                  right: box.right, bottom: box.bottom + scrollY, size: parseFloat(style.fontSize)});
    }
  }
  return boxes;
}"""

# WCAG 2 contrast of each SVG text with the page behind it (axe-core leaves SVG text out).
_SVG_CONTRASTS = """() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgb = colour => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
                          return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const linear = value => { const c = value / 255; return c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4; };
  const luminance = c => .2126 * linear(c[0]) + .7152 * linear(c[1]) + .0722 * linear(c[2]);
  const behind = text => {
    const box = text.getBoundingClientRect(), x = box.left + box.width / 2, y = box.top + box.height / 2;
    for (const node of document.elementsFromPoint(x, y)) {
      if (node === text || node.tagName === 'text' || node.tagName === 'tspan') continue;
      const style = getComputedStyle(node);
      const colour = node.tagName === 'rect' ? style.fill : style.backgroundColor;
      if (colour.startsWith('url')) continue;
      const seen = rgb(colour);
      if (seen[3] > 250) return seen;
    }
    const body = rgb(getComputedStyle(document.body).backgroundColor);
    return body[3] > 250 ? body : [255, 255, 255, 255];
  };
  return [...document.querySelectorAll('svg text')].filter(text => text.checkVisibility()).map(text => {
    text.scrollIntoView({block: 'center', behavior: 'instant'});
    const pair = [luminance(rgb(getComputedStyle(text).fill)), luminance(behind(text))].sort((a, b) => b - a);
    return {text: text.textContent, contrast: (pair[0] + .05) / (pair[1] + .05)};
  });
}"""


def overlaps(page: Page, *, slack: float = 2.0) -> list[tuple[str, str]]:
    """Pairs of texts whose boxes cover each other by more than `slack` pixels both ways.

    A line box is taller than its letters, so a fifth of the letter's size is taken off above and below.
    """
    boxes = page.evaluate(_TEXT_BOXES)
    for box in boxes:
        box["top"] += box["size"] / 5
        box["bottom"] -= box["size"] / 5
    boxes.sort(key=lambda box: box["top"])
    found = []
    for number, box in enumerate(boxes):
        for other in boxes[number + 1 :]:
            if other["top"] >= box["bottom"]:
                break
            wide = min(box["right"], other["right"]) - max(box["left"], other["left"])
            high = min(box["bottom"], other["bottom"]) - max(box["top"], other["top"])
            if wide > slack and high > slack:
                found.append((box["text"], other["text"]))
    return found


def low_contrasts(page: Page, *, least: float = 4.5) -> list[dict[str, Any]]:
    """Texts in drawings whose contrast with their ground is below `least`."""
    return [item for item in page.evaluate(_SVG_CONTRASTS) if item["contrast"] < least]


def past_the_edge(page: Page) -> list[str]:
    """Texts that reach outside the page, unless they scroll in a box of their own; and the page if it scrolls."""
    script = """() => {
      const wide = document.documentElement.clientWidth;
      const out = [...document.querySelectorAll('body *')].filter(node => {
        if (!node.checkVisibility() || node.closest('.sr, .scroll, pre') || !node.textContent.trim()) return false;
        const box = node.getBoundingClientRect();
        return box.width > 0 && (box.right > wide + 1 || box.left < -1);
      }).map(node => node.tagName + ': ' + node.textContent.trim().slice(0, 60));
      if (document.documentElement.scrollWidth > wide) out.push('the page scrolls sideways');
      return out;
    }"""
    return list(page.evaluate(script))


def serious_findings(page: Page) -> list[str]:
    """What axe-core finds serious or critical, as "rule: element"."""
    from axe_playwright_python.sync_playwright import Axe

    violations = Axe().run(page).response["violations"]
    return [
        f"{finding['id']}: {node['html'][:200]}"
        for finding in violations
        if finding["impact"] in SERIOUS
        for node in finding["nodes"]
    ]
