"""docs/tutorial.md says what it does: its blocks run one after another, and print what stands under them."""

import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

TUTORIAL = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def cells() -> Iterator[tuple[str, str]]:
    """Every block of code with the output that is shown for it, empty where none is."""
    code = None
    for kind, content in BLOCK.findall(TUTORIAL.read_text(encoding="utf-8")):
        if kind == "text":
            yield code, content
            code = None
            continue
        if code is not None:
            yield code, ""
        code = content
    if code is not None:
        yield code, ""


def test_every_block_runs_and_prints_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one namespace, in an empty folder, in the order of the page."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "tutorial"}
    shown, printed = [], []
    for code, output in cells():
        said = StringIO()
        with redirect_stdout(said):
            exec(compile(code, "tutorial.md", "exec"), names)
        shown.append(output)
        printed.append(said.getvalue())
    assert len(shown) >= 8
    assert shown == printed
    pictures = {"flash2.png", "lengths.png", "timeline.png"}
    assert pictures <= {path.name for path in tmp_path.iterdir() if path.read_bytes().startswith(b"\x89PNG")}
