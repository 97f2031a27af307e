"""The command line, run in this process from an empty folder."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

from gpusim.cli import main


@dataclass(frozen=True)
class Answer:
    """What a command said and how it ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict:
        """Standard output, which has to be one JSON document and nothing else."""
        return json.loads(self.out)

    @property
    def problems(self) -> list[str]:
        """The lines of standard error, each of which has to be a problem."""
        lines = self.err.splitlines()
        assert all(line.startswith("error: ") for line in lines), self.err
        return [line.removeprefix("error: ") for line in lines]


class Command(Protocol):
    """`command("run", "canvas_bytes")` is `gpusim run canvas_bytes`."""

    def __call__(self, *arguments: str | Path) -> Answer: ...


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs gpusim in an empty folder; anything but an exit, a traceback say, fails the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)

    def run(*arguments: str | Path) -> Answer:
        monkeypatch.setattr(sys, "argv", ["gpusim", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            main()
        return Answer(caught.value.code, *capsys.readouterr())

    return run
