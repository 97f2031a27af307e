"""`gpusim run --trace`: which files it writes, what it says, and what it refuses."""

import json
import sys
from pathlib import Path

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

from gpusim import AttentionWorkload, Conditions, Point, load_gpu, load_scenario, parse_request, run_scenario
from gpusim.traces import TraceRequest, record

CANVAS = ("run", "--gpu", "canvas", "--schedule", "flash2", "--seqlen", "8", "--head-dim", "4")
TILES_OF_4 = ("--tile-q", "4", "--tile-kv", "4")
A100 = ("run", "--gpu", "a100_sxm4_40gb", "--schedule", "flash2", "--seqlen", "256", "--head-dim", "64")


def traces(folder: Path) -> list[str]:
    """Names of the files that --trace adds."""
    return sorted(path.name for path in folder.iterdir() if path.name.startswith(("trace", "timeline")))


def processes(path: Path) -> list[str]:
    """Groups of tracks of a trace."""
    packets = Trace.FromString(path.read_bytes()).packet
    names = [packet.track_descriptor.process.process_name for packet in packets]
    return [name for name in names if name]


def test_one_point_leaves_a_trace_and_a_timeline(command, tmp_path: Path) -> None:
    """Both whole, and named on standard output; a run without --trace has neither."""
    done = command(*CANVAS, *TILES_OF_4, "--trace", "--out", "here")
    assert (0, "") == (done.code, done.err)
    assert ["timeline.png", "trace.pftrace"] == traces(tmp_path / "here")
    assert "Traces: trace.pftrace, timeline.png; a .pftrace opens at https://ui.perfetto.dev" in done.out
    assert ["GPU", "memory, whole GPU", "SM 0"] == processes(tmp_path / "here" / "trace.pftrace")
    command(*CANVAS, *TILES_OF_4, "--out", "without")
    assert [] == traces(tmp_path / "without")


def test_points_of_a_sweep_are_numbered_and_refused_ones_have_none(command, tmp_path: Path) -> None:
    """Four of five points of canvas_bytes run."""
    command("run", "canvas_bytes", "--workers", "1", "--trace", "--quiet", "--out", "here")
    names = [
        f"{stem}-{number}.{ending}"
        for stem, ending in (("timeline", "png"), ("trace", "pftrace"))
        for number in range(1, 5)
    ]
    assert names == traces(tmp_path / "here")


def test_the_answer_is_that_of_a_run_without(command, tmp_path: Path) -> None:
    """results.json to the last digit; and the traces are the same bytes again."""
    for folder, options in (("plain", ()), ("traced", ("--trace",)), ("again", ("--trace",))):
        assert 0 == command(*A100, *options, "--out", folder, "--quiet").code
    plain, traced = (json.loads((tmp_path / name / "results.json").read_text()) for name in ("plain", "traced"))
    assert plain == traced
    for name in ("trace.pftrace", "timeline.png"):
        assert (tmp_path / "traced" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_what_is_left_out_is_said_on_standard_error(command, tmp_path: Path) -> None:
    """Standard output keeps its one JSON document."""
    options = ("--heads", "8", "--trace", "--trace-sms", "3", "--trace-window-us", "0:5")
    done = command(*A100, *options, "--json", "--out", "here")
    assert "ok" == done.document["points"][0]["status"]
    first, second = done.err.splitlines()
    assert first.startswith("trace.pftrace: left out: ")
    assert first.endswith("events of SMs other than 3 (--trace-sms)")
    assert "outside 0:5 µs of" in second
    assert "SM 3" in processes(tmp_path / "here" / "trace.pftrace")


def test_an_sm_that_ran_nothing_is_named(command) -> None:
    """Two CTAs of 128 rows on an A100 reach SM 0 and 1, whatever stretch of time is shown."""
    sms = ("--trace", "--trace-sms", "1,99")
    assert "trace.pftrace: SM 99 ran no CTA (--trace-sms)" == command(*A100, *sms, "--out", "a").err.splitlines()[0]
    late = command(*A100, *sms, "--trace-window-us", "9e6:1e7", "--out", "b").err
    assert "SM 99 ran no CTA" in late
    assert "SM 1 ran no CTA" not in late


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--trace-sms", "0"), ["--trace-sms: say what a trace shows; add --trace"]),
        (("--trace", "--trace-sms", "1"), ["--trace-sms: got 1, but the last SM of canvas is 0"]),
        (("--trace", "--trace-sms", "-1"), ["--trace-sms: got '-1', but SMs are counted from 0"]),
        (
            ("--trace", "--trace-sms", "first", "--trace-window-us", "9"),
            [
                "--trace-sms: got 'first', expected numbers of SMs such as 0,1",
                "--trace-window-us: got '9', expected START:END in µs such as 0:200",
            ],
        ),
        (
            ("--trace", "--trace-window-us", "5:5"),
            ["--trace-window-us: got '5:5', but START has to be at least 0 and below END"],
        ),
    ],
)
def test_options_that_cannot_be_meant_are_refused_before_the_run(
    command, tmp_path: Path, options: tuple[str, ...], words: list[str]
) -> None:
    """With every problem at once, and nothing written."""
    done = command(*CANVAS, *options, "--out", "here")
    assert (2, [f"command line: {word}" for word in words]) == (done.code, done.problems)
    assert not (tmp_path / "here").exists()


def test_without_the_extra_it_says_what_to_install(command, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that cannot be imported."""
    monkeypatch.setitem(sys.modules, "perfetto", None)
    done = command(*CANVAS, "--trace")
    assert 2 == done.code
    (problem,) = done.problems
    assert "pip install -e '.[trace]'" in problem


def test_no_more_than_16_points_are_traced(command, tmp_path: Path) -> None:
    """Of 17 lengths the last has none, and the run says so."""
    lengths = [part for length in range(1, 18) for part in ("--seqlen", str(length))]
    options = ("--gpu", "canvas", "--schedule", "flash2", "--head-dim", "4", "--workers", "1")
    done = command("run", *options, *lengths, *TILES_OF_4, "--trace", "--quiet", "--out", "here")
    assert 0 == done.code
    assert 32 == len(traces(tmp_path / "here"))
    assert ["point 17: not traced: a run traces 16 points at most; run this one alone"] == done.err.splitlines()


def test_an_interrupt_keeps_the_traces_that_are_finished(tmp_path: Path) -> None:
    """After the first of four points; each file is whole."""

    def stop() -> None:
        raise KeyboardInterrupt

    done = run_scenario(load_scenario("canvas_bytes"), workers=1)
    written = done.write_traces(tmp_path, TraceRequest(), force=False, on_done=stop)
    assert written.was_interrupted
    assert ("trace-1.pftrace", "timeline-1.png") == written.files
    assert ["timeline-1.png", "trace-1.pftrace"] == traces(tmp_path)


def test_a_point_that_simpy_would_take_too_long_for_is_not_traced() -> None:
    """131,072 keys and queries, 64 heads: 67 million steps of the main loop are beyond the size guard of SimPy."""
    work = AttentionWorkload(batch=1, heads=64, seqlen_q=131_072, seqlen_k=131_072, head_dim=64)
    point = Point(load_gpu("a100_sxm4_40gb"), parse_request("flash2", "test"), work, Conditions())
    result, timeline = record(point, TraceRequest())
    assert timeline is None
    assert str(result.reason).startswith("size guard: ")
    assert "--force" in str(result.fix)
