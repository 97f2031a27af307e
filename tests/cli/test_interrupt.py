"""Ctrl-C and SIGTERM: exit code 130, what is finished is kept, only whole files are left, and no process lives on."""

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
from gpusim.sweep import starting_order

FILES = {"report.html", "results.csv", "results.json", "latency.png", "traffic.png", "manifest.json"}
BATCHES = range(1, 101)
SCENARIO = f"""\
name: long
gpu: canvas
workload: {{seqlen: 96, heads: 1, head_dim: 4}}
schedule: {{name: flash2, tile_q: 4, tile_kv: 4}}
sweep: {{batch: {list(BATCHES)}}}
"""


LONG = """\
name: long
gpu: a100_sxm4_80gb
workload: {seqlen: 65536, batch: 64, heads: 32, head_dim: 64}
schedule: flash2
"""


@pytest.mark.parametrize(
    ("processes", "order"),
    [(1, [3, 1, 4, 0, 2]), (2, [2, 3, 1, 4, 0]), (3, [2, 0, 3, 1, 4]), (5, [2, 0, 4, 1, 3])],
)
def test_every_process_but_one_starts_with_a_long_point(processes: int, order: list[int]) -> None:
    """Points of 70, 20, 90, 10 and 40 steps: the last process takes the short ones, so there is soon one to keep."""
    assert order == starting_order([70, 20, 90, 10, 40], processes)


def test_finished_points_keep_their_places(tmp_path: Path) -> None:
    """The shortest point runs first, here the second of the file; it is drawn with its own shape."""
    (tmp_path / "mine.yaml").write_text(SCENARIO.replace(str(list(BATCHES)), "[3, 1, 2]"))

    def interrupt() -> None:
        raise KeyboardInterrupt

    run = run_scenario(load_scenario(str(tmp_path / "mine.yaml")), workers=1, on_done=interrupt)
    assert run.was_interrupted
    assert [1] == [item.number for item in run.finished]
    assert [1] == [result.batch for result in run.results]
    assert [1] == [point.workload.batch for point in run.points]
    assert FILES == {path.name for path in run.write(tmp_path / "out", command=[]).iterdir()}


def pids_of(session: int) -> list[int]:
    """Processes of a session that still run."""
    pids = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and os.getsid(int(folder.name)) == session and stat_of(int(folder.name))[0] != "Z":
                pids.append(int(folder.name))
        except OSError:
            continue  # it ended meanwhile
    return pids


def stat_of(pid: int) -> list[str]:
    """The fields of a process in /proc from its state on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def cpu_seconds(session: int) -> float:
    """Processor time of a session's processes."""
    ticks = 0
    for pid in pids_of(session):
        try:
            ticks += sum(map(int, stat_of(pid)[11:13]))
        except OSError:
            continue  # it ended meanwhile
    return ticks / os.sysconf("SC_CLK_TCK")


def started(folder: Path, scenario: str, *options: str, after_s: float) -> subprocess.Popen[str]:
    """`gpusim run` of a scenario in a session of its own, once it has used this much processor time."""
    (folder / "mine.yaml").write_text(scenario)
    program = "from gpusim.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "run", "mine.yaml", "--out", "out", *options],
        cwd=folder,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    while process.poll() is None and cpu_seconds(process.pid) < after_s:
        time.sleep(0.02)
    return process


needs_proc = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="needs /proc to know how far the run is and what still runs"
)


@needs_proc
@pytest.mark.parametrize(
    ("workers", "after_s", "sent"),
    [(1, 0.3, signal.SIGINT), (1, 3.0, signal.SIGINT), (2, 5.0, signal.SIGINT), (2, 5.0, signal.SIGTERM)],
)
def test_an_interrupted_run_keeps_what_is_finished(
    tmp_path: Path, workers: int, after_s: float, sent: signal.Signals
) -> None:
    """Interrupted during start-up, and amid the points on one worker and on two."""
    process = started(tmp_path, SCENARIO, "--mode", "exhaustive", "--workers", str(workers), after_s=after_s)
    os.killpg(process.pid, sent)
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


@needs_proc
def test_an_interrupt_does_not_wait_for_the_point(tmp_path: Path) -> None:
    """One worker computes a point of minutes in machine code, which is given up."""
    process = started(tmp_path, LONG, "--mode", "compiled", "--workers", "1", "--force", after_s=6.0)
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert (130, "interrupted: 0 of 1 points are finished\n") == (process.returncode, said)


@needs_proc
def test_workers_end_with_a_parent_that_was_killed(tmp_path: Path) -> None:
    """SIGKILL leaves it no time to end them; they end themselves, in the middle of points of minutes."""
    two = LONG.replace("batch: 64", "batch: [64, 65]")
    process = started(tmp_path, two, "--mode", "compiled", "--workers", "2", "--force", after_s=8.0)
    assert 2 < len(pids_of(process.pid))
    process.kill()
    process.communicate(timeout=60)
    until = time.monotonic() + 60
    while pids_of(process.pid) and time.monotonic() < until:
        time.sleep(0.1)
    assert [] == pids_of(process.pid)
