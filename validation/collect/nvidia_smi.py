"""Clocks and names from nvidia-smi, which every driver brings; a run does without where it is missing or slow."""

import csv
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from validation.collect import child

CLOCKS = ("clocks.sm", "clocks.mem", "temperature.gpu", "power.draw")
THROTTLED_BY = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")  # the newer and the older name
TIMEOUT_S = 10


def query(gpu: str, fields: Sequence[str]) -> Mapping[str, float | str]:
    """Fields of a GPU, by PCI bus id or UUID, numbers in nvidia-smi's units; empty where it says nothing."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return {}
    asked = [command, "-i", gpu, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    try:
        done = child.answer(asked, TIMEOUT_S)
    except (subprocess.TimeoutExpired, OSError):
        return {}
    return {} if done.returncode else parsed(done.stdout, fields)


def clocks(gpu: str) -> Mapping[str, float | str]:
    """Clocks, temperature, power and the bits of what throttles a GPU."""
    reasons = next((found for name in THROTTLED_BY if (found := query(gpu, (name,)))), {})
    return {**query(gpu, CLOCKS), **reasons}


def parsed(answer: str, fields: Sequence[str]) -> Mapping[str, float | str]:
    """The first line of an answer as numbers, or as text where it is none."""
    cells = next(csv.reader(answer.splitlines(), skipinitialspace=True), [])
    return {field: _number(cell) for field, cell in zip(fields, cells, strict=False)}


def _number(cell: str) -> float | str:
    try:
        return float(cell)
    except ValueError:
        return cell.strip()
