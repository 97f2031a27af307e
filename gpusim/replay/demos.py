"""Scenarios into a page: every point a lane, and the demos that lanes make alone and side by side."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpusim.errors import InputError, PointError, ScenarioError
from gpusim.point import Point
from gpusim.replay.drawable import check_drawable, sram_numbers
from gpusim.replay.lanes import lane_of
from gpusim.replay.sentences import grown
from gpusim.replay.values import Array, example_inputs
from gpusim.report.replay import Demo, Example, Lane, Replay
from gpusim.scenario import Scenario
from gpusim.workloads import AttentionWorkload

GALLERY = ("canvas_bytes", "replay_n16", "replay_causal")
"""Shipped scenarios that make up the gallery page."""

SEED = 377  # any would do; with this one a bigger maximum arrives in some rows of the first tile and not in others


@dataclass(frozen=True, slots=True)
class BuiltReplay:
    """A page's data, and the points that it leaves out with the reason."""

    replay: Replay
    left_out: tuple[str, ...]


def build_replay(scenarios: Sequence[Scenario], seed: int = SEED) -> BuiltReplay:
    """Runs every point. Raises ScenarioError, with all problems, where a point is too large to draw."""
    examples: list[Example] = []
    lanes: list[Lane] = []
    left_out = []
    for scenario, point, workload in _drawable(scenarios):
        inputs = example_inputs(workload, seed)
        example = _example(point.spec.name, sram_numbers(point.spec, workload), workload, inputs)
        if example not in examples:
            examples.append(example)
        try:
            lanes.append(lane_of(point, workload, examples.index(example), inputs))
        except PointError as error:
            left_out.append(f"{scenario.name}, {point.request.name}: {error.reason}; {error.fix}")
    title = ", ".join(scenario.name for scenario in scenarios)
    return BuiltReplay(Replay(title, tuple(examples), tuple(lanes), tuple(_demos(examples, lanes))), tuple(left_out))


def _drawable(scenarios: Sequence[Scenario]) -> list[tuple[Scenario, Point, AttentionWorkload]]:
    found = []
    problems: list[str] = []
    for scenario in scenarios:
        try:
            drawable = check_drawable(scenario.points, scenario.name)
        except InputError as error:
            problems.extend(f"{error.where}: {problem}" for problem in error.problems)
        else:
            found += [(scenario, point, workload) for point, workload in drawable]
    if problems:
        raise ScenarioError("replay", problems)
    return found


def _example(gpu: str, numbers: int, workload: AttentionWorkload, inputs: Mapping[str, Array]) -> Example:
    q, k, v = (tuple(float(value) for value in inputs[name].ravel()) for name in ("Q", "K", "V"))
    return Example(
        gpu=gpu,
        rows=workload.seqlen_q,
        keys=workload.seqlen_k,
        head_dim=workload.head_dim,
        head_dim_v=workload.head_dim_v,
        bytes_per_number=workload.dtype.size_bytes,
        sram_numbers=numbers,
        Q=q,
        K=k,
        V=v,
    )


def _demos(examples: Sequence[Example], lanes: Sequence[Lane]) -> Iterator[Demo]:
    """Each lane alone, one demo at its first bigger maximum, and naive beside flash; of later sizes only the latter."""
    shown_pairs: set[int] = set()
    has_maximum = False
    for number, lane in enumerate(lanes):
        pair = _pair(lanes, lane.example)
        is_first_size = lane.example == lanes[0].example
        if is_first_size or pair is None:
            yield _single(number, lane, examples[lane.example], is_first_size=is_first_size)
        arrival = _arrival(lane)
        if arrival and not has_maximum:
            has_maximum = True
            intro = "Watch the running maximum m when the second K tile arrives."
            yield Demo("bigger-maximum", "A bigger max", "rescale ℓ and O by α", (number,), arrival, intro)
        if pair is not None and number == max(pair) and lane.example not in shown_pairs:
            shown_pairs.add(lane.example)
            yield _side_by_side(lanes, pair, examples[lane.example], is_first_size=is_first_size)


def _single(number: int, lane: Lane, example: Example, *, is_first_size: bool) -> Demo:
    size = "" if is_first_size else f"N = {example.keys}: "
    tile = "x".join(str(rows) for rows in dict.fromkeys(lane.tile))
    mark = ("-causal" if lane.causal else "") + ("" if is_first_size else f"-n{example.keys}")
    return Demo(f"{lane.schedule}-{tile}{mark}", size + lane.title, lane.subtitle, (number,), 0, _intro(lane, example))


def _intro(lane: Lane, example: Example) -> str:
    tiles = -(-example.rows // lane.tile[0])
    if lane.refused is not None:
        return f"Before anything moves, the numbers that {lane.title.partition(', ')[2]} need in SRAM are counted."
    if lane.causal:
        return "A token may look only at itself and earlier tokens, so whole tiles above the diagonal can be skipped."
    match lane.schedule:
        case "naive":
            return "Q, K and V are in HBM; three kernels will each read their input there and write their result back."
        case "flash1":
            return "K and V tiles stay while Q tiles pass, so O, m and ℓ must leave for HBM between two K/V tiles."
        case "flash2":
            return f"One kernel, {tiles} Q tiles: K and V stream past each of them, and the scores stay on chip."
    return "Q, K and V are in HBM."


def _arrival(lane: Lane) -> int:
    """The step at which a row's maximum first grows, 0 if never."""
    return next((number for number, event in enumerate(lane.events, start=1) if grown(event.softmax)), 0)


def _pair(lanes: Sequence[Lane], example: int) -> tuple[int, int] | None:
    """Naive attention and the first FlashAttention of the same numbers."""
    first: dict[str, int] = {}
    for number, lane in enumerate(lanes):
        if lane.example == example and lane.refused is None and not lane.causal:
            first.setdefault(lane.schedule, number)
    return (first["naive"], first["flash2"]) if {"naive", "flash2"} <= first.keys() else None


def _side_by_side(lanes: Sequence[Lane], pair: tuple[int, int], example: Example, *, is_first_size: bool) -> Demo:
    naive, flash = (lanes[number].closed_form.total_bytes for number in pair)
    subtitle = f"{flash:,} B instead of {naive:,} B"
    scores = example.rows * example.keys
    if scores > example.sram_numbers:
        intro = (
            f"S alone is {example.rows} × {example.keys} = {scores} numbers and SRAM holds {example.sram_numbers}, "
            "as at real sizes: naive must send it to HBM, flash never has it whole."
        )
        return Demo(f"too-large-n{example.keys}", f"N = {example.keys}", f"{flash:,}, not {naive:,} B", pair, 0, intro)
    intro = "Both schedules start on one clock with the same Q, K and V."
    title = "Same output" if is_first_size else f"N = {example.keys}: same output"
    return Demo("same-output" if is_first_size else f"same-output-n{example.keys}", title, subtitle, pair, 0, intro)
