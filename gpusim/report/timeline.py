"""One SM over time as a PNG: who holds the compute pipe, what every CTA slot waits for, which tiles are on their way.

Above stands everything that was recorded; below, one CTA close up: its prologue, some iterations of its main loop, and
its epilogue, all at one scale. The main loop is found in what was recorded: it is the tasks that a CTA does more than
once. Equal input, equal bytes.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from gpusim.report import chart
from gpusim.report.states import LOAD_COLOUR, QUIET_COLOUR, STATES, STORE_COLOUR
from gpusim.report.transfer_rows import transfer_rows
from gpusim.report.wording import duration
from gpusim.results import PointResult
from gpusim.trace import Transfer, Work
from gpusim.trace_window import CtaLife, Timeline
from gpusim.units import ms_from_ps

_PS_PER_US = 1e6
_MOST_ROWS = 8
_STEPS_CLOSE_UP = 3.0  # iterations in a close-up, at the least
_WHOLE_FROM_SHARE = 0.9  # a CTA that three close-ups would nearly cover is shown whole

_TASK_COLOURS = ("#2e8a63", "#8a3a8f", "#c08a1e", "#93cbb0", "#6a737d", "#a8104f")


@dataclass(frozen=True, slots=True)
class Phases:
    """A CTA's life cut in three, in ps: prologue to `loop_start_ps`, epilogue from `loop_end_ps`.

    `steps` is how often the main loop ran, 1 where no task ran twice.
    """

    start_ps: int
    loop_start_ps: int
    loop_end_ps: int
    end_ps: int
    steps: int

    @property
    def step_ps(self) -> float:
        """One iteration on average."""
        return (self.loop_end_ps - self.loop_start_ps) / self.steps


def phases_of(cta: CtaLife, works: Iterable[Work]) -> Phases | None:
    """The phases of a CTA from what it worked on, of which only its own counts; None where it did nothing."""
    own = [
        work
        for work in works
        if (work.track, work.kernel, work.cta) == (cta.track, cta.kernel, cta.cta)
        and cta.start_ps <= work.start_ps < cta.end_ps
    ]
    if not own:
        return None
    counts = Counter(work.task for work in own)
    steps = max(counts.values())
    loop = [work for work in own if steps == 1 or counts[work.task] > 1]
    start_ps, end_ps = min(work.start_ps for work in loop), max(work.end_ps for work in loop)
    return Phases(cta.start_ps, start_ps, end_ps, cta.end_ps, steps)


def timeline_png(timeline: Timeline, result: PointResult) -> bytes:
    """The first recorded SM over time, as a PNG of 1,200 × 800 pixels."""
    return chart.png(lambda: timeline_figure(timeline, result))


def timeline_figure(timeline: Timeline, result: PointResult) -> Figure:
    """The figure behind `timeline_png`."""
    sm = timeline.window.sms[0]
    tracks = timeline.tracks(sm)
    figure = chart.titled_figure(f"SM {sm} over time", _setting(timeline, result, tracks))
    shown = _first_cta(timeline, tracks)
    if shown is None:
        axes = figure.subplots()
        axes.axis("off")
        axes.text(
            0.5,
            0.5,
            f"SM {sm} ran no CTA" if sm in timeline.idle_sms else "no CTA was recorded whole in this window",
            ha="center",
            va="center",
            color=chart.MUTED,
            fontsize=13,
        )
        return figure
    cta, phases = shown
    edges_ps = (phases.loop_start_ps, phases.loop_end_ps)
    panels = _panels(cta, phases, timeline.transfers)
    whole, *close_ups = _axes(figure, [end_ps - start_ps for _, start_ps, end_ps in panels], len(tracks))
    _draw_whole(whole, timeline, tracks, panels)
    tasks = list(dict.fromkeys(work.task for work in timeline.works if work.kernel == cta.kernel))
    for number, (axes, panel) in enumerate(zip(close_ups, panels, strict=True)):
        _draw_close_up(axes, timeline, tracks, cta, panel, tasks=tasks)
        for edge_ps in edges_ps:
            axes.axvline(edge_ps / _PS_PER_US, color=chart.INK, linewidth=1.0, linestyle=(0, (4, 3)))
        if number:
            axes.tick_params(labelleft=False)
    _write_legend(figure, timeline, tasks)
    return figure


_Panel = tuple[str, float, float]  # heading, and from when to when in ps


def _setting(timeline: Timeline, result: PointResult, tracks: Sequence[str]) -> str:
    parts = [result.machine, result.implementation]
    if result.seqlen_q is not None:
        parts += [f"{result.pass_} {result.dtype}", f"N {result.seqlen_k:,}", f"head dim {result.head_dim}"]
    if result.latency_ms is not None:
        parts.append(f"latency {duration(result.latency_ms)}")
    if len(tracks) > _MOST_ROWS:
        parts.append(f"the first {_MOST_ROWS} of {len(tracks)} slots")
    return " · ".join(parts)


def _first_cta(timeline: Timeline, tracks: Sequence[str]) -> tuple[CtaLife, Phases] | None:
    """The first CTA of the SM, in the longest kernel that has one there, that lies in the window and does something."""
    ends_ps = {span.track: span.end_ps for span in timeline.spans}
    found: dict[str, tuple[CtaLife, Phases]] = {}
    for cta in sorted(timeline.ctas, key=lambda cta: (cta.start_ps, cta.track)):
        is_whole = timeline.window.start_ps <= cta.start_ps and cta.end_ps <= ends_ps.get(cta.track, 0)
        if cta.track in tracks and is_whole and cta.kernel not in found:
            phases = phases_of(cta, timeline.works)
            if phases is not None:
                found[cta.kernel] = cta, phases
    by_length = sorted(timeline.kernels, key=lambda kernel: kernel.start_ps - kernel.end_ps)
    return next((found[kernel.name] for kernel in by_length if kernel.name in found), None)


def _panels(cta: CtaLife, phases: Phases, transfers: Sequence[Transfer]) -> list[_Panel]:
    """Close-ups of the three phases at one scale, or the whole CTA where they would nearly cover it."""
    end_ps = max(
        [cta.end_ps, *(t.end_ps for t in transfers if (t.track, t.kernel, t.cta) == (cta.track, cta.kernel, cta.cta))]
    )
    prologue_ps, epilogue_ps = phases.loop_start_ps - phases.start_ps, end_ps - phases.loop_end_ps
    width_ps = max(_STEPS_CLOSE_UP * phases.step_ps, max(prologue_ps, epilogue_ps) + 1.5 * phases.step_ps)
    margin_ps = 0.03 * width_ps
    names = [
        f"prologue {_time(prologue_ps)}",
        f"main loop {_time(phases.loop_end_ps - phases.loop_start_ps)}, {phases.steps:,} iterations",
        f"epilogue {_time(epilogue_ps)}",
    ]
    if 3 * width_ps > _WHOLE_FROM_SHARE * (end_ps - phases.start_ps):
        names[1] = names[1] if phases.steps > 1 else f"work {_time(phases.loop_end_ps - phases.loop_start_ps)}"
        return [(" · ".join(names), phases.start_ps - margin_ps, end_ps + margin_ps)]
    middle_ps = phases.loop_start_ps + phases.steps // 2 * phases.step_ps
    return [
        (names[0], phases.start_ps - margin_ps, phases.start_ps - margin_ps + width_ps),
        (names[1], middle_ps - width_ps / 2, middle_ps + width_ps / 2),
        (names[2], end_ps + margin_ps - width_ps, end_ps + margin_ps),
    ]


def _time(time_ps: float) -> str:
    return duration(ms_from_ps(round(time_ps)))


def _axes(figure: Figure, widths: Sequence[float], num_tracks: int) -> list[Axes]:
    """Axes for everything recorded above those of the close-ups, whose widths are in proportion."""
    rows = min(num_tracks, _MOST_ROWS)
    parts = figure.add_gridspec(2, 1, height_ratios=(1 + rows, 8 + rows))
    whole = figure.add_subplot(parts[0, 0])
    grid = parts[1, 0].subgridspec(1, len(widths), width_ratios=widths, wspace=0.04)
    axes = [whole, *(figure.add_subplot(grid[0, place]) for place in range(len(widths)))]
    for one in axes:
        chart.style_axes(one)
        one.grid(visible=False, axis="y")
        one.tick_params(axis="y", length=0, labelsize=11, labelcolor=chart.INK)
        one.xaxis.set_major_locator(MaxNLocator(5 if one is not whole else 10))
    return axes


def _draw_whole(axes: Axes, timeline: Timeline, tracks: Sequence[str], panels: Sequence[_Panel]) -> None:
    rows = tracks[:_MOST_ROWS]
    _draw_states(axes, timeline, rows, first_row=0)
    for _, start_ps, end_ps in panels:
        axes.axvspan(start_ps / _PS_PER_US, end_ps / _PS_PER_US, facecolor="none", edgecolor=chart.INK, linewidth=1.4)
    recorded = [span for span in timeline.spans if span.track in rows]
    start_ps, end_ps = min(span.start_ps for span in recorded), max(span.end_ps for span in recorded)
    axes.set_xlim(start_ps / _PS_PER_US, end_ps / _PS_PER_US)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks(range(len(rows)), [_slot_name(track) for track in rows])
    axes.set_title("everything recorded; framed: close up below", loc="left", color=chart.MUTED, fontsize=11)


def _draw_close_up(
    axes: Axes, timeline: Timeline, tracks: Sequence[str], cta: CtaLife, panel: _Panel, *, tasks: Sequence[str]
) -> None:
    """Compute pipe, slots, and the loads and stores of the CTA's slot, tensor by tensor."""
    heading, start_ps, end_ps = panel
    rows = tracks[:_MOST_ROWS]
    labels = ["compute pipe", *(_slot_name(track) for track in rows)]
    works = [w for w in timeline.works if w.track in tracks and w.end_ps > start_ps and w.start_ps < end_ps]
    for work in works:
        colour = _TASK_COLOURS[tasks.index(work.task) % len(_TASK_COLOURS)] if work.task in tasks else QUIET_COLOUR
        _bar(axes, 0, work.start_ps, work.end_ps, face=colour, edge="white")
    _draw_states(axes, timeline, rows, first_row=1)
    slot = cta.track.partition(".warpgroup")[0]
    moved = [t for t in timeline.transfers if t.track.partition(".warpgroup")[0] == slot and t.kernel == cta.kernel]
    for direction, tensor in dict.fromkeys((t.direction, t.tensor) for t in moved):
        group = transfer_rows([t for t in moved if (t.direction, t.tensor) == (direction, tensor)])
        for place, moves in enumerate(group):
            row = len(labels) + (place + 0.5) / len(group) - 0.5
            for t in moves:
                colour = LOAD_COLOUR if direction == "read" else STORE_COLOUR
                _bar(axes, row, t.asked_ps, t.end_ps, face=colour, edge=colour, height=0.7 / len(group))
        labels.append(f"{'load' if direction == 'read' else 'store'} {tensor}")
    axes.set_xlim(start_ps / _PS_PER_US, end_ps / _PS_PER_US)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.set_yticks(range(len(labels)), labels)
    axes.set_title(heading, loc="left", color=chart.INK, fontsize=12)
    axes.set_xlabel("time, µs", color=chart.INK, fontsize=12)


def _draw_states(axes: Axes, timeline: Timeline, rows: Sequence[str], *, first_row: int) -> None:
    for row, track in enumerate(rows, start=first_row):
        for kind, state in STATES.items():
            bars = [
                (span.start_ps / _PS_PER_US, (span.end_ps - span.start_ps) / _PS_PER_US)
                for span in timeline.spans
                if span.track == track and span.kind is kind
            ]
            drawn = axes.broken_barh(bars, (row - 0.35, 0.7), facecolor=state.face, edgecolor=state.edge)
            drawn.set(hatch=state.hatch, linewidth=0.4)


def _bar(axes: Axes, row: float, start_ps: int, end_ps: int, *, face: str, edge: str, height: float = 0.7) -> None:
    bars = [(start_ps / _PS_PER_US, (end_ps - start_ps) / _PS_PER_US)]
    axes.broken_barh(bars, (row - height / 2, height), facecolor=face, edgecolor=edge, linewidth=0.5)


def _slot_name(track: str) -> str:
    """A track without its SM: "slot 0, warpgroup 1"."""
    _, slot, *warpgroup = track.replace("[", " ").replace("]", "").split(".")
    return ", ".join([slot, *warpgroup])


def _write_legend(figure: Figure, timeline: Timeline, tasks: Sequence[str]) -> None:
    seen = {span.kind for span in timeline.spans}
    states = [state.patch() for kind, state in STATES.items() if kind in seen]
    named = [
        Patch(facecolor=_TASK_COLOURS[place % len(_TASK_COLOURS)], label=f"pipe: {task}")
        for place, task in enumerate(tasks)
    ]
    figure.legend(handles=[*states, *named], loc="outside lower left", ncols=4, fontsize=10, frameon=False)
