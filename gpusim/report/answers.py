"""What a report says in words: the answer on top, and whether it fits, why it is slow and how far to trust it.

Every sentence is made from the points that the charts are drawn from.
"""

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from gpusim.report.panels import Panel, PanelSeries, line_by_place
from gpusim.report.wording import duration, listed, percent, significant, traffic
from gpusim.results import PointResult
from gpusim.specs import GpuSpec
from gpusim.trace import Stall
from gpusim.workloads import AttentionWorkload, ChaseWorkload

_BOUND_BY = {
    "compute pipe": "bound by the compute pipe",
    "hbm": "bound by HBM bandwidth",
    "l2": "bound by L2 bandwidth",
    "latency": "bound by latency, with no unit busy most of the time",
    "launch": "bound by its launches",
}
# What a kernel spends its time on, in words; the two that belong to the compute pipe are told together.
_STALL_WORDS = {
    (Stall.COMPUTE, Stall.PIPE): "at the compute pipe",
    (Stall.LOAD,): "waiting for tiles",
    (Stall.SYNC,): "in latency of steps",
    (Stall.STORE,): "waiting for writes",
    (Stall.LAUNCH,): "in launches",
    (Stall.IDLE,): "idle in waves and tails",
}
_TOLD_GPUS = 3  # that one sentence can tell apart
_STATUS_WORDS = {
    "out_of_memory": "out of memory",
    "refused": "refused",
    "unsupported": "not supported",
    "error": "ended in an error",
}


@dataclass(frozen=True)
class Measurement:
    """One measured latency of a simulated point.

    `point` is the number of the point, `source` the file, `role` "fitted" or "held_out", `citation` who measured.
    """

    point: int
    latency_ms: float
    source: str
    role: str
    citation: str = ""


@dataclass(frozen=True)
class SeriesTrust:
    """Errors of one series of a panel against one source, as fractions; `worst_place` is where the worst is."""

    series: int
    source: str
    role: str
    n: int
    mean_ape: float
    bias: float
    worst: float
    worst_place: int


@dataclass(frozen=True)
class Case:
    """A panel with its points, its measurements and what is compared in it.

    `place` is where the sentences are made, None where nothing was simulated; `subject` is the fastest series there and
    `baseline` the naive one, or the first where there is none.
    """

    panel: Panel
    points: Sequence[PointResult]
    measured: Sequence[Measurement]
    spec: GpuSpec | None
    place: int | None
    baseline: int
    subject: int

    def line(self, series: int) -> Mapping[int, PointResult]:
        """Simulated points of a series by place."""
        return line_by_place(self.panel, self.points, self.panel.series[series])

    @property
    def has_naive(self) -> bool:
        """Whether the baseline is attention with its score matrix in HBM."""
        return self.panel.series[self.baseline].schedule == "naive"

    @property
    def gpu(self) -> str:
        """The product's name where it is known, with what was set on it."""
        if self.spec is None:
            return self.panel.gpu
        overrides = self.spec.overrides
        return self.spec.product if overrides is None else f"{self.spec.product} with {overrides}"


def case_of(panel: Panel, points: Sequence[PointResult], measured: Sequence[Measurement], spec: GpuSpec | None) -> Case:
    """Chooses what to compare, and where: at the largest place that the baseline and another series reached."""
    lines = [line_by_place(panel, points, series) for series in panel.series]
    naive = [number for number, series in enumerate(panel.series) if series.schedule == "naive" and lines[number]]
    baseline = next(iter(naive), next((number for number, line in enumerate(lines) if line), 0))
    reached = set().union(*(line.keys() for number, line in enumerate(lines) if number != baseline))
    common = reached & lines[baseline].keys() or lines[baseline].keys()
    place = max(common, default=None)
    at_place = (
        {} if place is None else {number: _latency(line[place]) for number, line in enumerate(lines) if place in line}
    )
    subject = min(at_place, key=lambda number: at_place[number], default=baseline)
    return Case(panel, points, measured, spec, place, baseline, subject)


def answer(case: Case) -> str:
    """The panel in one sentence: which schedule is fastest, by how much, and what bounds it."""
    panel, place = case.panel, case.place
    if place is None:
        reasons = [point.reason for series in panel.series for point in _points(case, series) if point.reason]
        return f"Nothing was simulated: {reasons[0] if reasons else 'no point has an answer'}."
    subject, best = panel.series[case.subject].name, case.line(case.subject)[place]
    bound = _BOUND_BY.get(best.bottleneck or "", f"bound by {best.bottleneck}")
    where = f"At {panel.at(place)}"
    if case.subject == case.baseline:
        rival = _runner_up(case, place)
        if rival is None:
            return f"{where} {subject} takes {duration(_latency(best))} on {case.gpu}{_rate(case, best)}, {bound}."
        name, other = rival
        longer = f"{name} takes {significant(_latency(other) / _latency(best), 2)} times as long"
        return f"{where} {subject} is fastest with {duration(_latency(best))}, {bound}; {longer}."
    base = case.line(case.baseline)[place]
    ratio = significant(_latency(base) / _latency(best), 2)
    moved = _moved(best, base)
    return (
        f"{where} {subject} takes {duration(_latency(best))} where {panel.series[case.baseline].name} takes "
        f"{duration(_latency(base))}: {ratio} times faster, {bound}{moved}."
    )


def facts(case: Case) -> tuple[tuple[str, str], ...]:
    """Three questions and their answers: does it fit, why is it slow, how far to trust it."""
    return (("Does it fit?", _fits(case)), ("Why is it slow?", _slow(case)), ("How far to trust it?", _trust(case)))


def trust_of(case: Case) -> tuple[SeriesTrust, ...]:
    """Errors by series and source, in the panel's order."""
    found = []
    for number, series in enumerate(case.panel.series):
        place_of = {point: place for place, point in enumerate(series.numbers) if point is not None}
        ours = [item for item in case.measured if item.point in place_of and _is_ok(case.points[item.point])]
        for source, items in groupby(sorted(ours, key=lambda item: item.source), key=lambda item: item.source):
            group = list(items)
            errors = [(error_of(case, item), place_of[item.point]) for item in group]
            worst, worst_place = max(errors, key=lambda pair: abs(pair[0]))
            sizes = [abs(error) for error, _ in errors]
            mean, bias = statistics.fmean(sizes), statistics.fmean(error for error, _ in errors)
            found.append(SeriesTrust(number, source, group[0].role, len(group), mean, bias, worst, worst_place))
    return tuple(found)


def error_of(case: Case, item: Measurement) -> float:
    """simulated / measured − 1."""
    return _latency(case.points[item.point]) / item.latency_ms - 1


def overall_answer(cases: Sequence[Case]) -> str:
    """One sentence over all panels of a run."""
    if len(cases) == 1:
        return answer(cases[0])
    answered = [case for case in cases if case.place is not None]
    if not answered:
        return answer(cases[0])
    winner, wins = Counter(map(_winner, answered)).most_common(1)[0]
    compared = [case for case in answered if _winner(case) == winner and case.subject != case.baseline]
    if compared:
        ratios = sorted(
            {significant(_ratio(case), 2): _ratio(case) for case in compared}.items(), key=lambda item: item[1]
        )
        span = " to ".join(dict.fromkeys((ratios[0][0], ratios[-1][0])))
        bases = listed(sorted({case.panel.series[case.baseline].name for case in compared}))
        where = _settings(answered) if wins == len(answered) else f"in {wins} of {len(cases)} settings"
        return f"{winner} is the fastest {where}: {span} times faster than {bases}."
    if wins == len(answered) == len({case.panel.gpu for case in answered}) <= _TOLD_GPUS:
        return f"{winner} takes {_times(answered)}."
    return f"{answer(answered[0])} {len(cases) - 1} more settings below."


def _winner(case: Case) -> str:
    return case.panel.series[case.subject].name


def _settings(cases: Sequence[Case]) -> str:
    gpus = len({case.panel.gpu for case in cases})
    if gpus == len(cases) <= _TOLD_GPUS:
        return f"on {gpus} GPUs ({_times(cases)})"
    return f"in all {len(cases)} settings" + (f" on {gpus} GPUs" if gpus > 1 else "")


def _times(cases: Sequence[Case]) -> str:
    return listed([f"{duration(_subject_ms(case))} on {case.gpu} at {_at(case)}" for case in cases])


def _subject_ms(case: Case) -> float:
    assert case.place is not None
    return _latency(case.line(case.subject)[case.place])


def _at(case: Case) -> str:
    assert case.place is not None
    return case.panel.at(case.place)


def _ratio(case: Case) -> float:
    assert case.place is not None
    return _latency(case.line(case.baseline)[case.place]) / _subject_ms(case)


def _runner_up(case: Case, place: int) -> tuple[str, PointResult] | None:
    others = [
        (series.name, line[place])
        for number, series in enumerate(case.panel.series)
        if number != case.subject and place in (line := case.line(number))
    ]
    return min(others, key=lambda item: _latency(item[1]), default=None)


def _moved(best: PointResult, base: PointResult) -> str:
    """What the faster one moves, where that is less by a tenth or more."""
    ours, theirs = _hbm(best), _hbm(base)
    if not ours or not theirs or ours > 0.9 * theirs:
        return ""
    return f"; it moves {traffic(ours)} over HBM instead of {traffic(theirs)}"


def _hbm(point: PointResult) -> int | None:
    if point.hbm_read_bytes is None or point.hbm_write_bytes is None:
        return None
    return point.hbm_read_bytes + point.hbm_write_bytes


def _rate(case: Case, point: PointResult) -> str:
    if point.tflops and point.ceiling_ms:
        share = 100 * point.ceiling_ms / _latency(point)
        return f": {significant(point.tflops)} TFLOP/s, {significant(share, 2)} % of the dense peak"
    if case.panel.kind is ChaseWorkload and point.latency_per_hop_ns:
        return f": {significant(point.latency_per_hop_ns)} ns a hop"
    if point.gb_per_s:
        return f": {significant(point.gb_per_s)} GB/s"
    return ""


def _fits(case: Case) -> str:
    panel = case.panel
    everywhere = [series.name for series in panel.series if all(_is_ok(point) for point in _points(case, series))]
    several = len(panel.places) > 1
    sentences = []
    if everywhere:
        place = "at every one of them" if not panel.axis.symbol else f"at every {panel.axis.symbol}"
        sentences.append(f"{listed(everywhere)} ran{f' {place}' if several else ''}.")
    for number, series in enumerate(panel.series):
        sentences += _not_run(case, number, series)
    biggest = _biggest_extra(case)
    return " ".join([*sentences, biggest] if biggest else sentences)


def _not_run(case: Case, number: int, series: PanelSeries) -> Iterable[str]:
    missing = [
        (place, case.points[point])
        for place, point in enumerate(series.numbers)
        if point is not None and not _is_ok(case.points[point])
    ]
    if not missing:
        return
    place, first = missing[0]
    words = _STATUS_WORDS[first.status]
    reached = case.line(number)
    need = ""
    if first.status == "out_of_memory" and first.peak_memory_bytes and case.spec is not None:
        capacity = case.spec.memory.hbm.capacity_bytes
        need = f": it needs {traffic(first.peak_memory_bytes)}, the GPU has {traffic(capacity)}"
    if not reached:
        everywhere = f" at every {case.panel.axis.symbol}" if len(missing) > 1 and case.panel.axis.symbol else ""
        yield f"{series.name} is {words}{everywhere}{need}."
    else:
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        yield f"{series.name} is {words} at {case.panel.at(place)}{others}{need}."


def _biggest_extra(case: Case) -> str:
    if case.place is None or case.panel.kind is not AttentionWorkload:
        return ""
    base, best = (case.line(number).get(case.place) for number in (case.baseline, case.subject))
    if base is None or best is None or not base.extra_memory_bytes or base is best:
        return ""
    extra = best.extra_memory_bytes
    name = case.panel.series[case.subject].name
    ours = f"{name} none" if not extra else f"{name} {traffic(extra)}"
    return (
        f"Beyond inputs and output, {case.panel.series[case.baseline].name} takes {traffic(base.extra_memory_bytes)} "
        f"of device memory at {case.panel.at(case.place)}, {ours}."
    )


def _slow(case: Case) -> str:
    if case.place is None:
        return "Nothing was simulated."
    sentences = []
    for number in dict.fromkeys((case.baseline, case.subject)):
        point = case.line(number).get(case.place)
        if point is not None and point.stalls:
            sentences.append(f"{case.panel.series[number].name} spends {_top_stalls(point.stalls)}.")
    best = case.line(case.subject)[case.place]
    if best.bound_ms and best.bound_by and case.panel.kind is not ChaseWorkload:
        times = significant(_latency(best) / best.bound_ms, 2)
        name = case.panel.series[case.subject].name
        sentences.append(f"{name} takes {times} times its closed-form bound, which {_bound_words(best.bound_by)} sets.")
    if not sentences:
        return "Nothing is known of where the time goes."
    return f"At {case.panel.at(case.place)}: {' '.join(sentences)}"


def _bound_words(bound_by: str) -> str:
    pipe, _, dtype = bound_by.partition(" ")
    return (
        f"the {dtype} rate of the tensor cores"
        if pipe == "tensor"
        else {"hbm": "HBM", "l2": "L2"}.get(bound_by, bound_by)
    )


def _top_stalls(stalls: Mapping[Stall, float]) -> str:
    shares = [(sum(stalls.get(reason, 0.0) for reason in reasons), words) for reasons, words in _STALL_WORDS.items()]
    top = sorted(shares, key=lambda item: -item[0])[:2]
    (most, words), *others = [(round(100 * share), words) for share, words in top if share >= 0.005]
    return listed([f"{most} % of its CTAs' time {words}", *(f"{share} % {words}" for share, words in others)])


def _trust(case: Case) -> str:
    trust = trust_of(case)
    measured = {item.series for item in trust}
    without = [number for number in range(len(case.panel.series)) if number not in measured and case.line(number)]
    return " ".join([*_errors(case, trust), *_bands(case, without)])


def _errors(case: Case, trust: Sequence[SeriesTrust]) -> Iterator[str]:
    total = sum(item.n for item in trust)
    if not total:
        return
    held = [item for item in trust if item.role == "held_out"]
    apart = f" (those not used to fit: {percent(_mean(held))})" if held and len(held) < len(trust) else ""
    worst = max(trust, key=lambda item: abs(item.worst))
    name, where = case.panel.series[worst.series].name, case.panel.at(worst.worst_place)
    what = "measured points" if total > 1 else "measured point"
    yield f"Against {total} {what} the mean |error| is {percent(_mean(trust))}{apart};"
    yield f"the worst is {percent(worst.worst, signed=True)}, {name} at {where}."


def _mean(trust: Sequence[SeriesTrust]) -> float:
    return sum(item.mean_ape * item.n for item in trust) / sum(item.n for item in trust)


def _bands(case: Case, series: Sequence[int]) -> Iterator[str]:
    """What is known of series without a measurement here, told together where it is the same."""
    of_band: dict[str, list[str]] = {}
    for number in series:
        of_band.setdefault(_band_text(case.line(number).values()), []).append(case.panel.series[number].name)
    for text, names in of_band.items():
        yield f"{listed(names)} {'has' if len(names) == 1 else 'have'} no measurement here and {text}."


def _band_text(points: Iterable[PointResult]) -> str:
    """The widest error band of some points of a series, and how many have one; or why the first has none."""
    every = list(points)
    inside = [point for point in every if point.validated]
    if not inside:
        return f"no error band: {every[0].validation or 'not validated'}"
    widest = max(inside, key=lambda point: point.validated)
    part = "" if len(inside) == len(every) else f" at {len(inside)} of {len(every)} points"
    return f"an error band of ±{percent(float(widest.validated))}{part} ({widest.validation})"


def _points(case: Case, series: PanelSeries) -> list[PointResult]:
    return [case.points[number] for number in series.numbers if number is not None]


def _is_ok(point: PointResult) -> bool:
    return point.status == "ok"


def _latency(point: PointResult) -> float:
    assert point.latency_ms is not None
    return point.latency_ms
