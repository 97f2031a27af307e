"""Links of the documents lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "validation" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_relative_link_names_is_in_the_checkout(document: Path) -> None:
    """Files and pictures, from the folder of the document."""
    links = LINK.findall(document.read_text(encoding="utf-8"))
    assert [] == [link for link in links if not (document.parent / link).exists()]


def test_the_readme_has_links() -> None:
    """So that the pattern is known to find them."""
    assert "docs/tutorial.md" in LINK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
