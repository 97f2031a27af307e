"""The command line: reads options, calls the library, prints. Exit codes stand in `ExitCode`."""

import io
import json
import logging
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Optional

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from gpusim.errors import GpusimError, InputError, ScenarioError

if TYPE_CHECKING:
    from gpusim.traces import TraceRequest

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="How fast an attention kernel runs on a GPU, and why, without the GPU at hand.",
)


class ExitCode(IntEnum):
    """What the exit code says."""

    OK = 0  # at least one point is ok
    FAILED = 1  # a point ended in an error, or a bar was missed
    BAD_INPUT = 2
    NO_POINT_OK = 3  # every point was refused, unsupported or out of memory
    INTERRUPTED = 130


def _path(written: str) -> Path:
    """The path of --out; an empty one, as of a variable that is not set, would mean the working folder."""
    if not written:
        raise InputError("--out", ["the path is empty; name one"])
    return Path(written)


GpuOption = Annotated[Optional[list[str]], typer.Option("--gpu", help="GPU name or YAML file; repeatable.")]  # noqa: UP045 - typer
SetOption = Annotated[
    Optional[list[str]],  # noqa: UP045 - typer
    typer.Option("--set", help="path=value, any field of the GPU, e.g. sm.clock_hz=1.5e9; repeatable."),
]
WorkersOption = Annotated[Optional[int], typer.Option(min=1, help="Processes; default all cores.")]  # noqa: UP045 - typer
OutOption = Annotated[
    Optional[Path],  # noqa: UP045 - typer
    typer.Option(parser=_path, metavar="PATH", help="Folder for the files; default runs/NAME-n."),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Simulate what the size guard refuses.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on standard output, nothing else there.")]
QuietOption = Annotated[bool, typer.Option("--quiet", help="Print nothing but problems.")]
ExplainOption = Annotated[
    bool, typer.Option("--explain", help="Four lines a point: what bounds it, where time goes, what would change it.")
]
TraceOption = Annotated[
    bool, typer.Option("--trace", help="Write a Perfetto trace and a timeline of every point, up to 16; on SimPy.")
]
TraceSmsOption = Annotated[Optional[str], typer.Option(help="SMs that traces show; default 0,1.")]  # noqa: UP045 - typer
TraceWindowOption = Annotated[
    Optional[str],  # noqa: UP045 - typer
    typer.Option(help="START:END in µs that traces show; default 0:200."),
]
ModeOption = Annotated[
    Literal["auto", "exhaustive", "compiled"],
    typer.Option(help="All simulate every CTA with one result: on SimPy, in machine code, or as the length suggests."),
]
_POINT_FIELDS = (
    *("gpu", "schedule", "seqlen", "head_dim", "batch", "heads", "dtype"),
    *("tile_q", "tile_kv", "stages", "warps"),
)
_ARGUMENTS = ("scenario", "measured")


def main() -> None:
    """Runs the command line; a user's mistake ends in exit code 2 with every problem on its own line."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without µ or ≠ shows ? there
    # Where its cache folder is read-only, matplotlib uses a temporary one and says so in lines of warnings.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        app()
    except InputError as error:
        for problem in error.problems:
            print(f"error: {error.where}: {problem}", file=sys.stderr)
        raise SystemExit(ExitCode.BAD_INPUT) from None
    except GpusimError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(ExitCode.FAILED) from None
    except BrokenPipeError:
        sys.stderr.close()
        raise SystemExit(ExitCode.FAILED) from None
    except OSError as error:
        print(f"error: {error.filename or 'operating system'}: {error.strerror or error}", file=sys.stderr)
        raise SystemExit(ExitCode.BAD_INPUT) from None


def _print_version(is_asked: bool) -> None:
    if is_asked:
        print(f"gpusim {version('gpusim')}")
        raise typer.Exit(ExitCode.OK)


@app.callback()
def _gpusim(
    version_: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """What stands before a command."""


@app.command()
def run(
    scenario: Annotated[Optional[str], typer.Argument(help="Scenario file or the name of a shipped one.")] = None,  # noqa: UP045 - typer
    gpu: GpuOption = None,
    schedule: Annotated[Optional[list[str]], typer.Option(help="Implementation; repeatable.")] = None,  # noqa: UP045 - typer
    seqlen: Annotated[Optional[list[int]], typer.Option(help="Rows of Q and of K/V; repeatable.")] = None,  # noqa: UP045 - typer
    head_dim: Annotated[Optional[int], typer.Option(help="Head dimension.")] = None,  # noqa: UP045 - typer
    batch: Annotated[Optional[int], typer.Option(help="Batch; default 1.")] = None,  # noqa: UP045 - typer
    heads: Annotated[Optional[int], typer.Option(help="Heads; default 1.")] = None,  # noqa: UP045 - typer
    dtype: Annotated[Optional[str], typer.Option(help="fp16, bf16 or fp32; default fp16.")] = None,  # noqa: UP045 - typer
    workload: Annotated[
        Optional[list[str]],  # noqa: UP045 - typer
        typer.Option(help="FIELD=VALUE, any field of what is computed, e.g. m=4096 or causal=true; repeatable."),
    ] = None,
    tile_q: Annotated[Optional[int], typer.Option(help="Rows of a Q tile instead of the table's.")] = None,  # noqa: UP045 - typer
    tile_kv: Annotated[Optional[int], typer.Option(help="Rows of a K/V tile instead of the table's.")] = None,  # noqa: UP045 - typer
    stages: Annotated[Optional[int], typer.Option(help="Buffers of a streamed tile.")] = None,  # noqa: UP045 - typer
    warps: Annotated[Optional[int], typer.Option(help="Warps of a CTA.")] = None,  # noqa: UP045 - typer
    set_: SetOption = None,
    mode: ModeOption = "auto",
    workers: WorkersOption = None,
    out: OutOption = None,
    force: ForceOption = False,
    trace: TraceOption = False,
    trace_sms: TraceSmsOption = None,
    trace_window_us: TraceWindowOption = None,
    explain: ExplainOption = False,
    json_: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Simulate every point of a scenario, or one point given by options.

    Example: gpusim run seqlen_sweep_a100

    Example: gpusim run --gpu a100_sxm4_80gb --schedule flash2 --seqlen 4096 --head-dim 128 --heads 16

    Example: gpusim run --gpu a100_sxm4_80gb --schedule torch_matmul --workload m=4096 --workload n=4096 --workload k=64
    """
    from gpusim.runs import check_out, run_scenario
    from gpusim.scenario import build_scenario, load_scenario
    from gpusim.traces import check_trace

    asked_trace = _trace_request(trace, trace_sms, trace_window_us)
    _refuse_repeated(gpu=gpu, schedule=schedule, seqlen=seqlen)
    overrides = _overrides(set_)
    shape = _given(seqlen=seqlen, batch=batch, heads=heads, head_dim=head_dim, dtype=dtype)
    choices = _given(tile_q=tile_q, tile_kv=tile_kv, stages=stages, warps=warps)
    if scenario is not None:
        _refuse_point_options(_given(schedule=schedule, workload=workload) | shape | choices)
        loaded = load_scenario(scenario, gpus=gpu or (), overrides=overrides)
    else:
        content = _point_content(gpu, schedule, _with_fields(shape, workload), choices)
        text = json.dumps(content)
        try:
            loaded = build_scenario(content, where="command line", text=text, overrides=overrides)
        except ScenarioError as error:
            raise ScenarioError(error.where, [_as_option(problem) for problem in error.problems]) from None
    if asked_trace is not None:
        check_trace(asked_trace, loaded.points)
    check_out(out)
    with _progress("simulating", len(loaded.points), quiet=quiet or json_) as advance:
        done = run_scenario(loaded, workers=workers, mode=mode, force=force, on_done=advance)
    if done.was_interrupted:
        print(f"interrupted: {len(done.finished)} of {len(loaded.points)} points are finished", file=sys.stderr)
    if done.was_interrupted and not done.finished:
        raise typer.Exit(ExitCode.INTERRUPTED)
    folder = done.write(out, command=_command())
    traces = None
    if asked_trace is not None and not done.was_interrupted:
        with _progress("tracing", None, quiet=quiet or json_) as advance:
            traces = done.write_traces(folder, asked_trace, force=force, on_done=advance)
        for line in traces.left_out:
            print(line, file=sys.stderr)
    was_interrupted = done.was_interrupted or (traces is not None and traces.was_interrupted)
    if json_:
        sys.stdout.write(done.json(str(folder), explained=explain))
    elif quiet:
        for line in done.refusals():
            print(line, file=sys.stderr)
    else:
        done.print(_console(), folder)
        if explain:
            done.print_explanations(_console())
        if traces is not None and traces.files:
            print(traces.line())
    raise typer.Exit(_exit_code([result.status for result in done.results], interrupted=was_interrupted))


def _trace_request(is_asked: bool, sms: str | None, window_us: str | None) -> "TraceRequest | None":
    """What to trace, None without --trace. Raises InputError for options that say nothing without it."""
    from gpusim.traces import parse_trace_request

    lone = [name for name, value in (("--trace-sms", sms), ("--trace-window-us", window_us)) if value is not None]
    if lone and not is_asked:
        raise InputError("command line", [f"{', '.join(lone)}: say what a trace shows; add --trace"])
    return parse_trace_request(sms, window_us) if is_asked else None


def _point_content(
    gpu: list[str] | None, schedule: list[str] | None, workload: dict[str, object], choices: dict[str, object]
) -> dict[str, object]:
    is_attention = _computes_attention(schedule or [])
    needed: dict[str, object] = {"--gpu": gpu, "--schedule": schedule}
    if is_attention:
        has_lengths = "seqlen" in workload or {"seqlen_q", "seqlen_k"} <= workload.keys()
        needed |= {"--seqlen": has_lengths, "--head-dim": "head_dim" in workload}
        workload = {"batch": 1, "heads": 1} | workload
    missing = [name for name, value in needed.items() if not value]
    if missing:
        raise ScenarioError(
            "command line", [f"{name}: missing; give it, or a scenario file (gpusim run --help)" for name in missing]
        )
    names: list[object] = list(schedule or [])
    schedules = [{"name": name, **choices} for name in names] if choices else names
    return {"name": "point", "gpu": gpu, "workload": workload, "schedule": schedules}


def _computes_attention(schedules: Sequence[str]) -> bool:
    """Whether attention is what a point of these schedules is about, as far as they are known."""
    from gpusim.implementations import parse_request
    from gpusim.workloads import AttentionWorkload

    kinds = []
    for name in schedules:
        try:
            kinds.append(parse_request(name, "command line").schedule.workload)
        except InputError:
            continue  # a scenario of it will say what is wrong with the name
    return all(kind is AttentionWorkload for kind in kinds)


def _with_fields(workload: dict[str, object], written: list[str] | None) -> dict[str, object]:
    """The workload with `--workload FIELD=VALUE` options, whose values are read as those of a scenario file.

    Raises ScenarioError for what is no such pair, cannot be read, or is given twice.
    """
    from gpusim.strict_yaml import load_strict

    fields = dict(workload)
    problems = []
    for item in written or []:
        field, _, value = item.partition("=")
        if not field or not value:
            problems.append(f"got '{item}', expected FIELD=VALUE, e.g. m=4096")
        elif field in fields:
            problems.append(f"{field} is given twice; keep one")
        else:
            fields[field] = load_strict(value, f"--workload {field}", ScenarioError)
    if problems:
        raise ScenarioError("--workload", problems)
    return fields


def _as_option(problem: str) -> str:
    """A problem of a point under its option: "--tile-q: got 0 (schedule naive)" for "schedule naive, tile_q: got 0"."""
    place, _, rest = problem.partition(": ")
    schedule, _, field = place.rpartition(", ")
    if field not in _POINT_FIELDS:
        return problem
    return f"{_option(field)}: {rest}" + (f" ({schedule})" if schedule else "")


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _given(**options: object) -> dict[str, object]:
    """The options that stand on the command line."""
    return {name: value for name, value in options.items() if value is not None}


def _refuse_repeated(**lists: Sequence[object] | None) -> None:
    """Raises InputError where an option, or an argument, holds a value twice: it would only be done again."""
    problems = [
        f"{name if name in _ARGUMENTS else _option(name)}: {value} is given {count} times; keep one"
        for name, values in lists.items()
        for value, count in Counter(values).items()
        if count > 1
    ]
    if problems:
        raise InputError("command line", problems)


def _refuse_point_options(options: Iterable[str]) -> None:
    given = [_option(name) for name in options]
    if given:
        raise ScenarioError(
            "command line", [f"{', '.join(given)} would change the scenario; edit the file, or leave the file out"]
        )


@app.command()
def compare(
    measured: Annotated[list[str], typer.Argument(help="Measured CSV files, or names of shipped ones.")],
    gpu: GpuOption = None,
    set_: SetOption = None,
    mode: ModeOption = "auto",
    workers: WorkersOption = None,
    out: OutOption = None,
    force: ForceOption = False,
    explain: ExplainOption = False,
    json_: JsonOption = False,
    quiet: QuietOption = False,
    max_mape: Annotated[
        Optional[float],  # noqa: UP045 - typer
        typer.Option(min=0, help="Exit 1 when the mean |error| of the rows, but for suspects, is above this percent."),
    ] = None,
) -> None:
    """Simulate every measured row under its own conditions, and print the errors.

    With --gpu only rows of those GPUs are simulated; a YAML file stands in for the preset it is based on.
    --explain prints its lines for the worst row of every series; with --json every point has them.

    Example: gpusim compare fa1_paper_a100_fwd
    """
    from gpusim.compare_page import run_comparison
    from gpusim.runs import check_out

    _refuse_repeated(measured=measured, gpu=gpu)
    check_out(out)
    with _progress("simulating", None, quiet=quiet or json_) as advance:
        done = run_comparison(
            measured,
            gpus=gpu or (),
            overrides=_overrides(set_),
            workers=workers,
            mode=mode,
            force=force,
            on_start=advance.total,
            on_done=advance,
        )
    folder = done.write(out, command=_command())
    if json_:
        sys.stdout.write(done.json(str(folder), explained=explain))
    elif quiet:
        for error in done.comparison.unreadable:
            print(f"unreadable: {error}", file=sys.stderr)
    else:
        done.print(_console(), folder)
        if explain:
            done.print_explanations(_console())
    figures = done.comparison.figures()
    missed = max_mape is not None and (figures is None or figures.mape_pct > max_mape)
    if missed and max_mape is not None:
        none = "no simulated row counts" if done.comparison.compared else "no row was simulated"
        reached = none if figures is None else f"the mean absolute error is {figures.mape_pct:.1f} %"
        print(f"error: --max-mape {max_mape:g}: {reached}", file=sys.stderr)
    if done.comparison.was_interrupted:
        print(f"interrupted: {len(done.comparison.compared)} rows are simulated", file=sys.stderr)
        raise typer.Exit(ExitCode.INTERRUPTED)
    if missed or done.comparison.failed:
        raise typer.Exit(ExitCode.FAILED)
    if not done.comparison.compared:
        print("no row was simulated; the reasons stand in compare.json", file=sys.stderr)
        raise typer.Exit(ExitCode.NO_POINT_OK)
    raise typer.Exit(ExitCode.OK)


@app.command()
def calibrate(
    measured: Annotated[list[str], typer.Argument(help="Measured CSV files, or names of shipped ones.")],
    gpu: Annotated[str, typer.Option("--gpu", help="GPU name or YAML file that the rows were taken on.")],
    out: Annotated[
        Path, typer.Option("-o", "--out", parser=_path, metavar="PATH", help="GPU file to write, ending in .yaml.")
    ],
    implementation: Annotated[
        Optional[str],  # noqa: UP045 - typer
        typer.Option(help="Fit the constants of its kernels that are marked fitted, instead of the GPU's."),
    ] = None,
    constant: Annotated[Optional[list[str]], typer.Option(help="Fit this one, by dotted path; repeatable.")] = None,  # noqa: UP045 - typer
    hold_out: Annotated[
        Optional[list[str]],  # noqa: UP045 - typer
        typer.Option(help="Leave this file out of the fit; repeatable. Default: every third series."),
    ] = None,
    mode: ModeOption = "auto",
    workers: WorkersOption = None,
    json_: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Fit named constants of a GPU, or of an implementation on it, to measured rows taken on it.

    The result is a GPU file whose fitted numbers say so; errors of fitted and of held-out series stand apart.

    Example: gpusim calibrate gpu_benches_stream --gpu a100_sxm4_40gb --constant memory.hbm.mix_loss -o mine.yaml
    """
    from gpusim.calibrate_page import run_calibration

    _refuse_repeated(measured=measured, constant=constant, hold_out=hold_out)
    with _progress("simulating", None, quiet=quiet or json_) as advance:
        done = run_calibration(
            measured,
            gpu=gpu,
            out=out,
            implementation=implementation,
            constants=constant or (),
            hold_out=hold_out or (),
            workers=workers,
            mode=mode,
            on_round=advance,
        )
    done.write()
    if json_:
        sys.stdout.write(done.json())
    elif not quiet:
        done.print(_console())


@app.command()
def fit(
    gpu: Annotated[list[str], typer.Option("--gpu", help="GPU name or YAML file; repeatable.")],
    head_dim: Annotated[int, typer.Option(min=1, help="Head dimension.")],
    schedule: Annotated[str, typer.Option(help="Implementation of attention in one kernel, e.g. flash3.")] = "flash2",
    dtype: Annotated[Literal["fp16", "bf16", "fp32"], typer.Option(help="Number format.")] = "fp16",
    tile_q: Annotated[Optional[list[int]], typer.Option(min=1, help="Rows of a Q tile; repeatable.")] = None,  # noqa: UP045 - typer
    tile_kv: Annotated[Optional[list[int]], typer.Option(min=1, help="Rows of a K/V tile; repeatable.")] = None,  # noqa: UP045 - typer
    stages: Annotated[Optional[list[int]], typer.Option(min=1, help="Buffers of a streamed tile; repeatable.")] = None,  # noqa: UP045 - typer
    warps: Annotated[Optional[list[int]], typer.Option(min=1, help="Warps of a CTA; repeatable.")] = None,  # noqa: UP045 - typer
    set_: SetOption = None,
    json_: JsonOption = False,
) -> None:
    """Which tiles fit a GPU, and what they cost in shared memory and registers; nothing is simulated.

    Example: gpusim fit --gpu a100_sxm4_80gb --head-dim 128 --tile-q 128
    """
    from gpusim.fit_page import print_fits, run_fits

    _refuse_repeated(gpu=gpu, tile_q=tile_q, tile_kv=tile_kv, stages=stages, warps=warps)
    fits = run_fits(
        gpu,
        schedule,
        head_dim=head_dim,
        dtype=dtype,
        overrides=_overrides(set_),
        choices={"tiles_q": tile_q, "tiles_kv": tile_kv, "stages": stages, "warps": warps},
    )
    if json_:
        sys.stdout.write(fits.json())
    else:
        print_fits(fits, _console())
    raise typer.Exit(ExitCode.OK if fits.any_fits else ExitCode.NO_POINT_OK)


@app.command()
def replay(
    scenario: Annotated[
        Optional[list[str]],  # noqa: UP045 - typer
        typer.Argument(help="Scenario files or names of shipped ones; default: the demos of the gallery."),
    ] = None,
    out: Annotated[Path, typer.Option("-o", "--out", parser=_path, metavar="PATH", help="Page to write.")] = Path(
        "replay.html"
    ),
    gpu: GpuOption = None,
    set_: SetOption = None,
    seed: Annotated[Optional[int], typer.Option(help="Draws Q, K and V; default: that of the gallery.")] = None,  # noqa: UP045 - typer
    quiet: QuietOption = False,
) -> None:
    """Write a page that plays small scenarios event by event: HBM, SRAM, softmax state and every byte.

    Every point is simulated and computed in float64. A page shows one head of at most 32 rows on a GPU without a
    register file, such as canvas.

    Example: gpusim replay canvas_bytes -o page.html
    """
    from gpusim.replay import GALLERY, SEED, build_replay
    from gpusim.report.files import write_whole
    from gpusim.report.replay import replay_html
    from gpusim.scenario import load_scenario

    if out.is_dir():
        raise InputError("-o", [f"got {out}, which is a folder; name a file, as in {out / 'replay.html'}"])
    _refuse_repeated(scenario=scenario, gpu=gpu)
    overrides = _overrides(set_)
    loaded = [load_scenario(name, gpus=gpu or (), overrides=overrides) for name in scenario or GALLERY]
    built = build_replay(loaded, SEED if seed is None else seed)
    for line in built.left_out:
        print(f"left out: {line}", file=sys.stderr)
    if not built.replay.lanes:
        raise typer.Exit(ExitCode.NO_POINT_OK)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(out, replay_html(built.replay))
    except OSError as error:
        raise InputError(str(out), [f"cannot be written: {error.strerror}; choose another file with -o"]) from None
    if not quiet:
        titles = "; ".join(demo.title for demo in built.replay.demos)
        print(f"{out}: {len(built.replay.demos)} demos ({titles})")


@app.command()
def gpus(
    name: Annotated[Optional[str], typer.Argument(help="GPU to show, by name or YAML file.")] = None,  # noqa: UP045 - typer
    check: Annotated[Optional[str], typer.Option(help="Lint this GPU file, or a shipped GPU.")] = None,  # noqa: UP045 - typer
    set_: SetOption = None,
) -> None:
    """List the GPUs, show one with its sources, or lint a GPU file.

    Example: gpusim gpus a100_sxm4_40gb
    """
    from gpusim.gpu_page import gpu_text, gpus_table
    from gpusim.specs import apply_overrides, gpu_names, lint_gpu, load_gpu

    if check is not None and (name is not None or set_):
        raise ScenarioError("command line", ["--check lints one file as it stands; leave the name and --set out"])
    if name is None and set_:
        raise ScenarioError("command line", ["--set changes one GPU; name it, as in gpusim gpus NAME --set …"])
    if check is not None:
        findings = lint_gpu(check)
        for finding in findings:
            print(f"{check}: {finding}")
        has_error = any(finding.severity == "error" for finding in findings)
        if not findings:
            print(f"{check}: no findings")
        raise typer.Exit(ExitCode.BAD_INPUT if has_error else ExitCode.OK)
    if name is None:
        print(gpus_table([load_gpu(known) for known in gpu_names()]), end="")
        return
    overrides = _overrides(set_)
    spec = load_gpu(name)
    print(gpu_text(apply_overrides(spec, overrides) if overrides else spec), end="")


@app.command()
def schedules(
    name: Annotated[Optional[str], typer.Argument(help="Implementation (NAME@VERSION too) or schedule.")] = None,  # noqa: UP045 - typer
) -> None:
    """List schedules and implementations, or show one with its tables and sources.

    Example: gpusim schedules flash2
    """
    from gpusim.schedule_page import schedule_text, schedules_table

    print(schedules_table() if name is None else schedule_text(name))


@app.command()
def doctor(json_: JsonOption = False) -> None:
    """Versions, optional parts, NVIDIA driver and GPU: found or not, and what to install for what.

    Example: gpusim doctor
    """
    from gpusim.doctor import diagnose, is_base_broken, report, report_json

    findings = diagnose()
    sys.stdout.write(report_json(findings) if json_ else report(findings))
    raise typer.Exit(ExitCode.FAILED if is_base_broken(findings) else ExitCode.OK)


def _overrides(written: list[str] | None) -> dict[str, str]:
    """`--set path=value` options as a mapping. Raises ScenarioError for what is no such pair, or names a path again."""
    overrides: dict[str, str] = {}
    problems = []
    for item in written or []:
        path, _, value = item.partition("=")
        if not path or not value:
            problems.append(f"got '{item}', expected path=value, e.g. sm.clock_hz=1.5e9")
        elif path in overrides:
            problems.append(f"{path} is given twice, as {overrides[path]} and {value}; keep one")
        overrides[path] = value
    if problems:
        raise ScenarioError("--set", problems)
    return overrides


def _exit_code(statuses: Sequence[str], *, interrupted: bool) -> ExitCode:
    if interrupted:
        return ExitCode.INTERRUPTED
    if "error" in statuses:
        return ExitCode.FAILED
    return ExitCode.OK if "ok" in statuses else ExitCode.NO_POINT_OK


def _command() -> list[str]:
    return [Path(sys.argv[0]).name, *sys.argv[1:]]


def _console() -> Console:
    """A terminal, or COLUMNS, as wide as it is; a pipe gets 100 columns. Text is printed as it stands."""
    is_stated = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(width=None if is_stated else 100, highlight=False, markup=False, emoji=False)


class _Advance:
    """Moves the one bar of a progress display."""

    def __init__(self, progress: Progress, title: str, total: int | None) -> None:
        self._progress = progress
        self._task = progress.add_task(title, total=total)

    def __call__(self) -> None:
        self._progress.advance(self._task)

    def total(self, count: int) -> None:
        self._progress.update(self._task, total=count)


@contextmanager
def _progress(title: str, total: int | None, *, quiet: bool) -> Iterator[_Advance]:
    """A progress bar on standard error when that is a terminal."""
    is_hidden = quiet or not sys.stderr.isatty()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True, quiet=is_hidden)  # rich 13.7 ends even a disabled display with a line break
    with Progress(*columns, console=console, transient=True, disable=is_hidden) as progress:
        yield _Advance(progress, title, total)
