"""Ctrl-C: exit code 130, what is finished is kept, and only whole files are left."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpusim.runs import run_scenario
from gpusim.scenario import load_scenario

FILES = {"report.html", "results.csv", "results.json", "latency.png", "traffic.png", "manifest.json"}
BATCHES = range(1, 101)
SCENARIO = f"""\
name: long
gpu: canvas
workload: {{seqlen: 96, heads: 1, head_dim: 4}}
schedule: {{name: flash2, tile_q: 4, tile_kv: 4}}
sweep: {{batch: {list(BATCHES)}}}
"""


def test_finished_points_keep_their_places(tmp_path: Path) -> None:
    """The longest point runs first, so the one that is kept is the last of the file, drawn with its own shape."""
    (tmp_path / "mine.yaml").write_text(SCENARIO.replace(str(list(BATCHES)), "[1, 2, 3]"))

    def interrupt() -> None:
        raise KeyboardInterrupt

    run = run_scenario(load_scenario(str(tmp_path / "mine.yaml")), workers=1, on_done=interrupt)
    assert run.was_interrupted
    assert [3] == [result.batch for result in run.results]
    assert [3] == [point.workload.batch for point in run.points]
    assert FILES == {path.name for path in run.write(tmp_path / "out", command=[]).iterdir()}


def cpu_seconds(session: int) -> float:
    """Processor time of a session's processes."""
    ticks = 0
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and os.getsid(int(folder.name)) == session:
                ticks += sum(map(int, (folder / "stat").read_text().rpartition(")")[2].split()[11:13]))
        except OSError:
            continue  # it ended meanwhile
    return ticks / os.sysconf("SC_CLK_TCK")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to know how far the run is")
@pytest.mark.parametrize(("workers", "after_s"), [(1, 0.3), (1, 3.0), (2, 5.0)])
def test_an_interrupted_run_keeps_what_is_finished(tmp_path: Path, workers: int, after_s: float) -> None:
    """Interrupted during start-up, and amid the points on one worker and on two."""
    (tmp_path / "mine.yaml").write_text(SCENARIO)
    program = "from gpusim.cli import main; main()"
    options = ["run", "mine.yaml", "--mode", "exhaustive", "--workers", str(workers), "--out", "out"]
    process = subprocess.Popen(
        [sys.executable, "-c", program, *options],
        cwd=tmp_path,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    while process.poll() is None and cpu_seconds(process.pid) < after_s:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert 130 == process.returncode, said
    assert "Traceback" not in said
    if after_s < 1:
        assert not (tmp_path / "out").exists()
        return
    assert FILES == {path.name for path in (tmp_path / "out").iterdir()}
    points = json.loads((tmp_path / "out" / "results.json").read_text())["points"]
    assert 0 < len(points) < len(BATCHES)
    assert f"interrupted: {len(points)} of {len(BATCHES)} points are finished" in said
