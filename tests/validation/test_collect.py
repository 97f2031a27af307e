"""The runner on a simulated GPU: what it leaves behind when all goes well, when it is cut, when a kernel is wrong."""

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from simulated_gpu import SimulatedGpu

from gpusim.errors import InputError, MeasuredError, UnknownNameError
from gpusim.measured import read_measured
from gpusim.specs import load_gpu
from validation.collect.attention import hopper_cases
from validation.collect.device import Facts, GroupError, HungError
from validation.collect.groups import GROUPS, Group, case_named, check_names
from validation.collect.record import RECORD, read_collected
from validation.collect.runner import collect, csv_text
from validation.collect.work import Case
from validation.kernels import KERNELS
from validation.microbenchmarks.cases import chase_cases, empty_cases, launch_cases, rate_cases

H200 = load_gpu("h200_sxm_141gb")
CHASE = Group("pointer_chase", "latency", 30, True, chase_cases)
SMALL = Group("small_kernels", "launches", 10, True, launch_cases)
RATES = Group("rates", "units", 20, False, rate_cases)
EMPTY = Group("launches", "empty kernels", 10, False, empty_cases)
TWO = (CHASE, SMALL)
VERSION = "1.2.3"


def record_of(folder: Path) -> dict:
    """What lies in the record."""
    return json.loads((folder / RECORD).read_text())


def rows_of(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV."""
    with path.open() as file:
        return list(csv.DictReader(file))


class Clock:
    """A clock that moves by so many seconds at every look."""

    def __init__(self, step_s: float) -> None:
        self._now, self._step = 0.0, step_s

    def __call__(self) -> float:
        """The time now."""
        self._now += self._step
        return self._now


def test_a_whole_run_is_complete_and_every_row_is_read(tmp_path: Path) -> None:
    """19 footprints, and 7 sizes in a graph and in a stream; nothing is skipped."""
    record = collect(SimulatedGpu(H200), tmp_path, version=VERSION, groups=TWO)
    assert record.complete
    assert record_of(tmp_path)["complete"] is True
    for name, rows in (("pointer_chase", 19), ("small_kernels", 14)):
        file = read_measured(tmp_path / f"{name}.csv")
        assert (rows, ()) == (len(file.rows), file.skipped)


def test_every_group_is_measured_without_a_fault(tmp_path: Path) -> None:
    """All but the profiler's, of attention every twelfth case: both formats, and each of our kernels."""
    groups = tuple(
        replace(group, cases=lambda facts, of=group: islice(of.cases(facts), None, None, 12))
        if group.name.startswith("attention")
        else group
        for group in GROUPS
        if not group.reads_counters
    )
    record = collect(SimulatedGpu(H200), tmp_path, version=VERSION, groups=groups)
    assert dict.fromkeys(record.groups, ("done", (), ())) == {
        name: (group.status, group.left_out, group.not_here) for name, group in record.groups.items()
    }
    rows = [row for name in ("attention", "attention_hopper") for row in rows_of(tmp_path / f"{name}.csv")]
    assert {"fp16", "bf16"} == {row["dtype"] for row in rows}
    assert {kernel.implementation for kernel in KERNELS} == {row["kernel"] for row in rows}


def test_a_row_states_what_was_measured(tmp_path: Path) -> None:
    """The H200 config's hit in the near partition takes 151 ns; a chase of 2 MiB stays there."""
    collect(SimulatedGpu(H200), tmp_path, version=VERSION, groups=(CHASE,))
    first = rows_of(tmp_path / "pointer_chase.csv")[0]
    assert ("h200_sxm_141gb", "2048", "warm", "ncu") == tuple(
        first[name] for name in ("gpu", "data_kb", "cache", "timing")
    )
    assert 151 == pytest.approx(float(first["latency_ns"]), rel=0.03)


def test_the_record_names_the_machine_its_clocks_and_versions(tmp_path: Path) -> None:
    """Clocks are read before and after each group."""
    collect(SimulatedGpu(H200), tmp_path, version=VERSION, groups=(CHASE,))
    record = record_of(tmp_path)
    assert (VERSION, "h200_sxm_141gb", "9.0", 132) == (
        record["gpusim"],
        record["machine"]["gpu"],
        record["machine"]["capability"],
        record["machine"]["sm_count"],
    )
    group = record["groups"]["pointer_chase"]
    assert 1980.0 == group["clocks_before"]["clocks.sm"] == group["clocks_after"]["clocks.sm"]


def test_the_same_run_writes_the_same_csv(tmp_path: Path) -> None:
    """Byte for byte, noise included."""
    texts = []
    for name in ("one", "two"):
        collect(SimulatedGpu(H200, noise=0.01), tmp_path / name, version=VERSION, groups=(CHASE,))
        texts.append((tmp_path / name / "pointer_chase.csv").read_bytes())
    assert texts[0] == texts[1]


def test_the_clock_under_load_is_cycles_over_time(tmp_path: Path) -> None:
    """1.98 million cycles in a millisecond are 1,980 MHz."""
    collect(SimulatedGpu(H200), tmp_path, version=VERSION, groups=(RATES,))
    assert {"1980.0"} == {row["clock_under_load_mhz"] for row in rows_of(tmp_path / "rates.csv")}


def test_a_wrong_kernel_is_not_timed(tmp_path: Path) -> None:
    """A pointer chase that ends at the wrong line: no row, no CSV, and the reason in the record."""
    gpu = SimulatedGpu(H200, wrong=("pointer_chase",))
    record = collect(gpu, tmp_path, version=VERSION, groups=TWO)
    assert not [name for name in gpu.timed if name.startswith("pointer_chase")]
    assert not (tmp_path / "pointer_chase.csv").exists()
    assert ("failed", "done") == (record.groups["pointer_chase"].status, record.groups["small_kernels"].status)
    assert "wrong result, pointer_chase: at is off by 1" in record.groups["pointer_chase"].reason
    assert "partial: pointer_chase missing" == record.shortfall()


def test_a_case_that_fails_stops_nothing(tmp_path: Path) -> None:
    """The other 18 footprints are there to read, but the group is not done, and the record says what is missing."""
    record = collect(SimulatedGpu(H200, fails=("pointer_chase 100 MiB",)), tmp_path, version=VERSION, groups=(CHASE,))
    group = record.groups["pointer_chase"]
    assert ("incomplete", 18, ("pointer_chase 100 MiB: out of memory",)) == (group.status, group.rows, group.left_out)
    assert (False, "partial: pointer_chase: 1 of 19 left out") == (record.complete, record.shortfall())
    assert ["pointer_chase"] == list(read_collected(tmp_path).files)


def test_an_incomplete_group_is_tried_again_when_it_is_named(tmp_path: Path) -> None:
    """A case that ran out of memory most likely does so again; `--only` asks for another try."""
    collect(SimulatedGpu(H200, fails=("pointer_chase 100 MiB",)), tmp_path, version=VERSION, groups=(CHASE,))
    said: list[str] = []
    again = SimulatedGpu(H200)
    collect(again, tmp_path, version=VERSION, groups=(CHASE,), say=said.append)
    assert [] == again.timed
    assert ["pointer_chase: measured before, 1 of 19 left out; --only pointer_chase tries it again"] == said
    assert collect(again, tmp_path, version=VERSION, groups=(CHASE,), only=("pointer_chase",)).complete
    assert 19 == len(rows_of(tmp_path / "pointer_chase.csv"))


def test_an_incomplete_group_stays_where_there_is_no_time_to_try_it_again(tmp_path: Path) -> None:
    """Its CSV and its record are those of before."""
    collect(SimulatedGpu(H200, fails=("pointer_chase 100 MiB",)), tmp_path, version=VERSION, groups=(CHASE,))
    before = record_of(tmp_path)["groups"]
    again = SimulatedGpu(H200)
    collect(again, tmp_path, version=VERSION, minutes=0.4, groups=(CHASE,), only=("pointer_chase",))
    assert [] == again.timed
    assert before == record_of(tmp_path)["groups"]
    assert ["pointer_chase"] == list(read_collected(tmp_path).files)


def test_what_a_gpu_does_not_have_is_no_fault(tmp_path: Path) -> None:
    """A backend without a kernel is told, and the group is done all the same."""
    gpu = SimulatedGpu(H200, lacks=("pointer_chase 100 MiB",))
    record = collect(gpu, tmp_path, version=VERSION, groups=(CHASE,))
    group = record.groups["pointer_chase"]
    assert ("done", (), ("pointer_chase 100 MiB: no available kernel",)) == (
        group.status,
        group.left_out,
        group.not_here,
    )
    assert (True, "") == (record.complete, record.shortfall())


def test_a_group_for_another_gpu_is_not_missing(tmp_path: Path) -> None:
    """An A100 has no case of the kernel for Hopper, and is complete without."""
    hopper = Group("attention_hopper", "wgmma", 30, False, hopper_cases)
    record = collect(SimulatedGpu(load_gpu("a100_sxm4_80gb")), tmp_path, version=VERSION, groups=(hopper, EMPTY))
    assert ("absent", "no case of it runs on this GPU") == (
        record.groups["attention_hopper"].status,
        record.groups["attention_hopper"].reason,
    )
    assert (True, "") == (record.complete, record.shortfall())


def test_an_error_of_ours_keeps_what_was_measured(tmp_path: Path) -> None:
    """Whatever ends the run: the rows so far lie in .csv.partial, and the record says that the group is cut."""

    def broken(facts: Facts) -> Iterator[Case]:
        yield from list(launch_cases(facts))[:2]
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        collect(
            SimulatedGpu(H200),
            tmp_path,
            version=VERSION,
            groups=(Group("small_kernels", "launches", 10, True, broken),),
        )
    assert "partial" == record_of(tmp_path)["groups"]["small_kernels"]["status"]
    assert 2 == len(rows_of(tmp_path / "small_kernels.csv.partial"))


def test_after_a_hang_rows_are_written_before_clocks_are_asked_for(tmp_path: Path) -> None:
    """A driver that hangs may never answer nvidia-smi."""
    seen: list[bool] = []

    class Watched(SimulatedGpu):
        def clocks(self) -> Mapping[str, float | str]:
            seen.append((tmp_path / "small_kernels.csv.partial").exists())
            return super().clocks()

    def hung(facts: Facts) -> Iterator[Case]:
        yield from list(launch_cases(facts))[:1]
        raise HungError("flash3 did not end within 60 s")

    with pytest.raises(HungError):
        collect(Watched(H200), tmp_path, version=VERSION, groups=(Group("small_kernels", "launches", 10, True, hung),))
    assert [False, True] == seen


@pytest.mark.parametrize(("counted", "status"), [(0, "failed"), (1, "partial")])
def test_a_profiler_that_hangs_ends_its_group_at_the_first_case(tmp_path: Path, counted: int, status: str) -> None:
    """Not two minutes for each of eight cases; the groups behind it are measured."""
    asked: list[str] = []

    class Profiled(SimulatedGpu):
        def counters(self, case: Case) -> Mapping[str, float]:
            asked.append(case.name)
            if len(asked) > counted:
                raise GroupError("ncu did not end within 120 s")
            return {"dram_bytes": 1.0}

    counters = Group("counters", "bytes", 10, False, launch_cases, True)
    record = collect(Profiled(H200), tmp_path, version=VERSION, groups=(counters, EMPTY))
    assert (status, "ncu did not end within 120 s", counted) == (
        record.groups["counters"].status,
        record.groups["counters"].reason,
        record.groups["counters"].rows,
    )
    assert counted + 1 == len(asked)
    assert "done" == record.groups["launches"].status


def test_a_group_that_no_longer_fits_is_not_begun(tmp_path: Path) -> None:
    """Half a minute has room for a group of 10 s, but not for one of 30 s."""
    gpu = SimulatedGpu(H200)
    record = collect(gpu, tmp_path, version=VERSION, minutes=0.5, groups=TWO, now=Clock(0.1))
    assert ("not_started", "done") == (record.groups["pointer_chase"].status, record.groups["small_kernels"].status)
    assert not record.complete


def test_a_group_that_is_cut_short_never_passes_for_a_whole_one(tmp_path: Path) -> None:
    """Time runs out within 19 cases: rows lie in .csv.partial, and nothing reads them as the group."""
    record = collect(SimulatedGpu(H200), tmp_path, version=VERSION, minutes=1, groups=(CHASE,), now=Clock(7))
    assert ("partial", "time is up") == (record.groups["pointer_chase"].status, record.groups["pointer_chase"].reason)
    assert not (tmp_path / "pointer_chase.csv").exists()
    assert 0 < record.groups["pointer_chase"].rows == len(rows_of(tmp_path / "pointer_chase.csv.partial")) < 19
    assert {} == read_collected(tmp_path).files


def test_an_interrupted_run_keeps_what_it_has_and_goes_on(tmp_path: Path) -> None:
    """Ctrl-C in the second group; a second run does not measure the first again, and clears the partial CSV."""

    def interrupted(facts: Facts) -> Iterator[Case]:
        yield from list(launch_cases(facts))[:2]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collect(
            SimulatedGpu(H200),
            tmp_path,
            version=VERSION,
            groups=(CHASE, Group("small_kernels", "launches", 10, True, interrupted)),
        )
    assert ["done", "partial"] == [group["status"] for group in record_of(tmp_path)["groups"].values()]
    assert 2 == len(rows_of(tmp_path / "small_kernels.csv.partial"))
    again = SimulatedGpu(H200)
    assert collect(again, tmp_path, version=VERSION, groups=TWO).complete
    assert {"small"} == {name.split()[0] for name in again.timed}
    assert not (tmp_path / "small_kernels.csv.partial").exists()


def test_a_call_that_never_ends_ends_the_run_with_what_there_is(tmp_path: Path) -> None:
    """The GPU is lost to the process: no further group is tried."""

    def hung(facts: Facts) -> Iterator[Case]:
        yield from list(launch_cases(facts))[:1]
        raise HungError("flash3 did not end within 60 s")

    groups = (Group("small_kernels", "launches", 10, True, hung), EMPTY)
    with pytest.raises(HungError):
        collect(SimulatedGpu(H200), tmp_path, version=VERSION, groups=groups)
    found = record_of(tmp_path)["groups"]
    assert ("partial", "flash3 did not end within 60 s") == tuple(
        found["small_kernels"][name] for name in ("status", "reason")
    )
    assert "not_started" == found["launches"]["status"]


def test_a_killed_run_leaves_a_record_that_says_so(tmp_path: Path) -> None:
    """While a group is measured, the record calls it running and the folder incomplete."""
    seen = []

    def watched(facts: Facts) -> Iterator[Case]:
        seen.append(record_of(tmp_path))
        yield from list(launch_cases(facts))[:1]

    groups = (Group("small_kernels", "launches", 10, True, watched),)
    collect(SimulatedGpu(H200), tmp_path, version=VERSION, groups=groups)
    assert ("running", False) == (seen[0]["groups"]["small_kernels"]["status"], seen[0]["complete"])


def test_a_choice_of_groups_leaves_the_folder_partial(tmp_path: Path) -> None:
    """What was not asked for is missing all the same."""
    record = collect(SimulatedGpu(H200), tmp_path, version=VERSION, groups=TWO, only=("small_kernels",))
    assert "partial: pointer_chase missing" == record.shortfall()


def test_a_folder_of_another_gpu_is_refused(tmp_path: Path) -> None:
    """Rows of two machines never meet."""
    collect(SimulatedGpu(H200), tmp_path, version=VERSION, groups=(EMPTY,))
    with pytest.raises(InputError, match=r"holds measurements of NVIDIA H200 SXM 141GB .* choose another --out"):
        collect(SimulatedGpu(load_gpu("h100_sxm5_80gb")), tmp_path, version=VERSION, groups=(EMPTY,))


def test_without_a_profiler_the_counters_say_why(tmp_path: Path) -> None:
    """Bytes need ncu; the group fails with that, and the run goes on."""
    counted = Group("counters", "bytes", 10, False, lambda facts: iter(list(launch_cases(facts))[:2]), True)
    record = collect(SimulatedGpu(H200), tmp_path, version=VERSION, groups=(counted, EMPTY))
    assert ("failed", "done") == (record.groups["counters"].status, record.groups["launches"].status)
    assert "ncu is not on PATH" in record.groups["counters"].reason


def test_a_folder_without_a_record_is_no_measurement(tmp_path: Path) -> None:
    """The command that makes one is named."""
    with pytest.raises(InputError, match=r"holds no machine.json; python -m validation collect --out"):
        read_collected(tmp_path)


def test_a_csv_that_went_missing_is_noticed(tmp_path: Path) -> None:
    """The record knows of it."""
    collect(SimulatedGpu(H200), tmp_path, version=VERSION, groups=(EMPTY,))
    (tmp_path / "launches.csv").unlink()
    with pytest.raises(InputError, match=r"launches.csv is gone"):
        read_collected(tmp_path)


def test_a_damaged_record_is_refused(tmp_path: Path) -> None:
    """As a file that was cut by hand."""
    (tmp_path / RECORD).write_text('{"gpusim": ')
    with pytest.raises(MeasuredError, match=RECORD):
        read_collected(tmp_path)


def test_an_unknown_group_is_refused_with_the_known_ones() -> None:
    """--only takes names of groups."""
    with pytest.raises(UnknownNameError, match=r"'streams' is not known; choose one of: stream, pointer_chase"):
        check_names(["streams"])


def test_names_of_cases_are_unique_within_their_group() -> None:
    """A profiler finds a case by its name."""
    facts = SimulatedGpu(H200).facts
    for group in (CHASE, SMALL, RATES, EMPTY):
        names = [case.name for case in group.cases(facts)]
        assert len(names) == len(set(names))
    assert "exp_rate" == case_named(facts, "exp_rate").name


def test_essential_groups_come_first_and_fit_four_minutes_all_fit_ten() -> None:
    """By the estimates for an H200."""
    flags = [group.essential for group in GROUPS]
    assert sorted(flags, reverse=True) == flags
    assert sum(group.seconds for group in GROUPS if group.essential) <= 240
    assert sum(group.seconds for group in GROUPS) <= 600


def test_columns_of_different_cases_share_one_header() -> None:
    """Blank where a row has none; what people look for first stands first."""
    rows = [{"kernel": "a", "gpu": "g", "tflops": 1.5}, {"kernel": "b", "gpu": "g", "note": "n", "stride": 2}]
    assert "gpu,kernel,tflops,stride,note\ng,a,1.5,,\ng,b,,2,n\n" == csv_text(rows)
