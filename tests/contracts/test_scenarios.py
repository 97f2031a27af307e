"""What holds for every shipped scenario; a new file is tested by lying in scenarios/."""

from functools import cache

import pytest

from gpusim.datafiles import scenarios_dir
from gpusim.measured import measured_names
from gpusim.point import Point, run_point
from gpusim.results import PointResult
from gpusim.scenario import Scenario, load_scenario
from gpusim.workloads import AttentionWorkload, compulsory_bytes

NAMES = sorted(path.stem for path in scenarios_dir().glob("*.yaml"))
LARGEST_SEQLEN, LARGEST_BYTES = 512, 80_000_000  # longer points are the same code with more tiles
CANVAS_STATUS = ["ok", "ok", "ok", "ok", "refused"]


@cache
def scenario(name: str) -> Scenario:
    """The scenario, read once."""
    return load_scenario(name)


def small(point: Point) -> bool:
    """Whether a point is quick to simulate."""
    workload = point.workload
    if isinstance(workload, AttentionWorkload):
        return max(workload.seqlen_q, workload.seqlen_k) <= LARGEST_SEQLEN
    return compulsory_bytes(workload) <= LARGEST_BYTES


@cache
def results(name: str) -> list[PointResult]:
    """Results of the small points, simulated once."""
    return [run_point(point) for point in scenario(name).points if small(point)]


def test_the_first_scenarios_are_shipped() -> None:
    """The README's two."""
    assert {"canvas_bytes", "seqlen_sweep_a100"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_it_is_called_like_its_file(name: str) -> None:
    """The name in the run folder is the name on the command line."""
    assert name == scenario(name).name


@pytest.mark.parametrize("name", NAMES)
def test_its_points_differ(name: str) -> None:
    """No point is simulated twice."""
    labels = [(point.spec.name, point.request, point.workload, point.conditions) for point in scenario(name).points]
    assert labels
    assert all(label not in labels[:number] for number, label in enumerate(labels))


@pytest.mark.parametrize("name", NAMES)
def test_the_measured_files_it_draws_are_shipped(name: str) -> None:
    """What `measured` names can be read."""
    assert set(scenario(name).measured) <= set(measured_names())


@pytest.mark.parametrize("name", NAMES)
def test_its_small_points_run(name: str) -> None:
    """Every point up to N = 512 or 80 MB has an answer, at least one of them a time, none an error."""
    answers = results(name)
    assert "ok" in {answer.status for answer in answers}
    assert {answer.status for answer in answers} <= {"ok", "refused", "out_of_memory", "unsupported"}
    assert all(answer.bound_ms <= answer.latency_ms for answer in answers if answer.status == "ok")


def test_all_points_of_canvas_bytes_run_but_the_last() -> None:
    """Naive, tiles of 4 and 2 and FA-1 run; tiles of 8 are the refusal that the example shows."""
    assert CANVAS_STATUS == [answer.status for answer in results("canvas_bytes")]
