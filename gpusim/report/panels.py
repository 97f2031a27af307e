"""Which points are shown together in a report: panels of one GPU and one setting, each with an axis and its series.

Points of one panel share GPU, pass, number format, mask and conditions. What varies most is the axis; what else tells
two points of one place apart makes further panels (sizes) or further series (versions, tiles). Where products or rows
vary in several sizes at once, the axis is their FLOPs or bytes and every shape is a place of its own.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpusim.report.series import axis_of
from gpusim.report.wording import binary_size
from gpusim.results import PointResult
from gpusim.workloads import AttentionWorkload, GemmWorkload, RowsWorkload, Workload

_CUSTOM = "custom"
_MOST_PANELS_OF_SIZES = 12  # of one GPU and setting; beyond, every shape becomes a place of one panel
_PASSES = {"fwd": "forward", "bwd": "backward", "fwd_bwd": "forward and backward"}
_SHARED = ("machine", "pass_", "dtype", "causal", "mask", "dropout", "window", "save_lse", "timing", "cache")
_ATTENTION_SIZES = ("head_dim", "head_dim_v", "sm_clock_mhz", "batch", "heads", "kv_heads", "seqlen_k", "seqlen_q")
_ALWAYS_APART = ("head_dim", "sm_clock_mhz")
_CHOICES = (
    *("version", "stack", "tile_q", "tile_kv", "tile_m", "tile_n", "tile_k", "stages", "warps", "accumulators"),
)
_KERNEL_CHOICES = (
    "loads",
    "stores",
    "threads_per_cta",
    "ctas_per_sm",
    "footprint_bytes",
    "part_bytes",
    "hops",
    "rounds",
)
_BYTES = ("footprint_bytes", "part_bytes")


@dataclass(frozen=True)
class PanelAxis:
    """What a panel is drawn against: its symbol in a sentence, its name in a title, and its label with the unit.

    `is_line` says whether neighbouring points may be joined.
    """

    field: str
    symbol: str
    title: str
    label: str
    is_line: bool = True


_ATTENTION_AXES = {
    axis.field: axis
    for axis in (
        PanelAxis("seqlen_k", "N", "sequence length", "sequence length N, tokens"),
        PanelAxis("head_dim", "d", "head dimension", "head dimension d"),
        PanelAxis("batch", "batch", "batch", "batch"),
        PanelAxis("heads", "heads", "heads", "heads"),
        PanelAxis("kv_heads", "K/V heads", "K/V heads", "K/V heads"),
        PanelAxis("seqlen_q", "query rows", "query rows", "query rows"),
        PanelAxis("sm_clock_mhz", "SM clock", "SM clock", "SM clock, MHz"),
        PanelAxis("window", "window", "window", "sliding window, tokens"),
        PanelAxis("dropout", "dropout", "dropout", "dropout probability"),
    )
}
_SYMBOLS = {"m": "M", "n": "N", "k": "K", "threads_per_cta": "threads per CTA", "ctas_per_sm": "CTAs per SM"}
_SYMBOLS |= {"footprint_bytes": "footprint", "part_bytes": "part"}


@dataclass(frozen=True)
class Place:
    """One value of the axis, or one shape: where it stands (a positive number) and what it is called."""

    x: float
    label: str


@dataclass(frozen=True)
class PanelSeries:
    """The points of one line: its name, and the number of its point at each place, None where it has none."""

    name: str
    schedule: str
    implementation: str
    numbers: tuple[int | None, ...]


@dataclass(frozen=True)
class Panel:
    """Points that are drawn together, on the GPU that they call `gpu`, with what was set on it.

    `setting` says what all share, `title` what tells this panel from others.
    """

    gpu: str
    kind: type[Workload]
    axis: PanelAxis
    title: str
    setting: str
    places: tuple[Place, ...]
    series: tuple[PanelSeries, ...]

    def at(self, place: int) -> str:
        """The place as a sentence says it: "N = 4,096"."""
        label = self.places[place].label
        return f"{self.axis.symbol} = {label}" if self.axis.symbol else label


def panels_of(points: Sequence[PointResult]) -> tuple[Panel, ...]:
    """All panels of these points, in order of first appearance; series and places carry numbers of points."""
    kinds: dict[type[Workload], list[int]] = {}
    for number, point in enumerate(points):
        kinds.setdefault(point.kind, []).append(number)
    drafts: list[tuple[PanelAxis, list[int]]] = []
    for kind, numbers in kinds.items():
        drafts += _groups(points, numbers, kind)
    varied = [field for field in _title_fields() if len({_shown(points, group, field) for _, group in drafts}) > 1]
    return tuple(_panel(points, axis, group, varied) for axis, group in drafts)


def _groups(
    points: Sequence[PointResult], numbers: list[int], kind: type[Workload]
) -> list[tuple[PanelAxis, list[int]]]:
    axis = _axis([points[number] for number in numbers], kind)
    sizes = [field for field in _sizes(kind) if field != axis.field]
    apart = [field for field in (*_SHARED, *_ALWAYS_APART) if field != axis.field]
    drafts: list[tuple[PanelAxis, list[int]]] = []
    for group in _split(numbers, lambda number: tuple(getattr(points[number], field) for field in apart)):
        parts = _apart(points, [group], sizes, axis)
        is_scattered = kind in (GemmWorkload, RowsWorkload) and len(parts) > 1
        if is_scattered or len(parts) > _MOST_PANELS_OF_SIZES:
            drafts.append((_shape_axis(points[group[0]]), group))
        else:
            drafts += [(axis, part) for part in parts]
    return drafts


def _axis(points: Sequence[PointResult], kind: type[Workload]) -> PanelAxis:
    if kind is AttentionWorkload:
        counts = {field: len({getattr(point, field) for point in points}) for field in _ATTENTION_AXES}
        return _ATTENTION_AXES[max(counts, key=lambda field: counts[field])]  # the first of equals: sequence length
    axis = axis_of(points)
    return PanelAxis(axis.field, _SYMBOLS.get(axis.field, axis.field), axis.title, axis.label)


def _shape_axis(point: PointResult) -> PanelAxis:
    if point.flops:
        return PanelAxis("flops", "", "FLOPs", "shapes, each at its FLOPs", is_line=False)
    return PanelAxis("operand_bytes", "", "bytes", "shapes, each at its bytes", is_line=False)


def _sizes(kind: type[Workload]) -> tuple[str, ...]:
    if kind is AttentionWorkload:
        return _ATTENTION_SIZES
    return tuple(field for field in kind.model_fields if field not in (*_SHARED, *_KERNEL_CHOICES))


def _choices(kind: type[Workload]) -> tuple[str, ...]:
    """What makes another series of the same shape."""
    return (*_CHOICES, *(field for field in _KERNEL_CHOICES if field in kind.model_fields))


def _split(numbers: Iterable[int], key: Callable[[int], Hashable]) -> list[list[int]]:
    groups: dict[Hashable, list[int]] = {}
    for number in numbers:
        groups.setdefault(key(number), []).append(number)
    return list(groups.values())


def _apart(
    points: Sequence[PointResult], groups: list[list[int]], fields: Sequence[str], axis: PanelAxis
) -> list[list[int]]:
    """The groups, split by each field that tells two points of one line and one place apart."""
    for field in fields:
        if any(_tells_apart(points, group, field, axis) for group in groups):
            groups = [part for group in groups for part in _split(group, lambda n: getattr(points[n], field))]  # noqa: B023
    return groups


def _tells_apart(points: Sequence[PointResult], group: Sequence[int], field: str, axis: PanelAxis) -> bool:
    seen: dict[tuple[object, ...], object] = {}
    for number in group:
        point = points[number]
        place = (point.schedule, point.implementation, _key(point, axis))
        if seen.setdefault(place, getattr(point, field)) != getattr(point, field):
            return True
    return False


def _key(point: PointResult, axis: PanelAxis) -> Hashable:
    """What is one place: the axis value, or the whole shape."""
    if axis.is_line:
        return _number(getattr(point, axis.field))
    return tuple(getattr(point, field) for field in _sizes(point.kind))


def _panel(points: Sequence[PointResult], axis: PanelAxis, group: list[int], varied: Sequence[str]) -> Panel:
    first = points[group[0]]
    keys = sorted(
        {_key(points[number], axis): points[number] for number in group}.items(), key=lambda item: _x(item[1], axis)
    )
    place_of = {key: place for place, (key, _) in enumerate(keys)}
    lines = _apart(points, _split(group, lambda number: _family(points[number])), _choices(first.kind), axis)
    families = Counter(_family(points[line[0]]) for line in lines)
    series = []
    for line in lines:
        siblings = [other for other in lines if _family(points[other[0]]) == _family(points[line[0]])]
        name = _series_name(points, line, siblings if families[_family(points[line[0]])] > 1 else [])
        numbers: list[int | None] = [None] * len(keys)
        for number in line:
            numbers[place_of[_key(points[number], axis)]] = number
        series.append(PanelSeries(name, points[line[0]].schedule, points[line[0]].implementation, tuple(numbers)))
    return Panel(
        gpu=first.machine,
        kind=first.kind,
        axis=axis,
        title=", ".join(filter(None, (_word(first, field) for field in varied if _is_constant(points, group, field)))),
        setting=", ".join(filter(None, (_word(first, field) for field in _setting_fields(points, group, axis)))),
        places=tuple(Place(_x(point, axis), _place_label(point, axis)) for _, point in keys),
        series=tuple(series),
    )


def _family(point: PointResult) -> str:
    return f"{point.schedule} (custom)" if point.implementation == _CUSTOM else point.implementation


def _series_name(points: Sequence[PointResult], line: Sequence[int], siblings: Sequence[Sequence[int]]) -> str:
    """The family and, where it has several lines, the choices in which they differ."""
    point = points[line[0]]
    values = {field: [getattr(points[other[0]], field) for other in siblings] for field in _choices(point.kind)}
    differ = [field for field, found in values.items() if len({value for value in found if value is not None}) > 1]
    told = _told(point, [field for field in differ if getattr(point, field) is not None])
    return " ".join([point.schedule if told and point.implementation == _CUSTOM else _family(point), *told])


def _told(point: PointResult, fields: Sequence[str]) -> list[str]:
    """Choices as a name holds them: "64×128" for a tile, "2 stages", "loads=1"."""
    told = []
    for field in fields:
        value = getattr(point, field)
        match field:
            case "tile_q" if "tile_kv" in fields:
                told.append(f"{value}×{point.tile_kv}")
            case "tile_kv" if "tile_q" in fields:
                continue
            case "stages" | "warps":
                told.append(f"{value} {field if value > 1 else field[:-1]}")
            case "version":
                told.append(f"@{value}")
            case "stack" | "accumulators":
                told.append(value)
            case _:
                told.append(f"{field}={value}")
    return told


def _x(point: PointResult, axis: PanelAxis) -> float:
    return _number(getattr(point, axis.field))


def _number(value: float | None) -> float:
    """A positive number, as a logarithmic axis needs; None and 0 mean that there is no window, lock or dropout."""
    return float(value) if value else 1.0


def _place_label(point: PointResult, axis: PanelAxis) -> str:
    if axis.is_line:
        value = getattr(point, axis.field)
        return binary_size(value) if axis.field in _BYTES else "none" if value is None else f"{value:,}"
    if point.kind is AttentionWorkload:
        return f"B {point.batch}, H {point.heads}, N {point.seqlen_k:,}, d {point.head_dim}"
    shape = [getattr(point, field) for field in _sizes(point.kind) if field != "batch"]
    sizes = "×".join(f"{size:,}" for size in shape if size is not None)
    return sizes if (point.batch or 1) == 1 else f"{point.batch} of {sizes}"


def _title_fields() -> tuple[str, ...]:
    return ("machine", "kind", *_SHARED[1:], *_ATTENTION_SIZES)


def _shown(points: Sequence[PointResult], group: Sequence[int], field: str) -> object:
    return getattr(points[group[0]], field) if _is_constant(points, group, field) else ""


def _is_constant(points: Sequence[PointResult], group: Sequence[int], field: str) -> bool:
    return len({getattr(points[number], field) for number in group}) == 1


def _setting_fields(points: Sequence[PointResult], group: Sequence[int], axis: PanelAxis) -> list[str]:
    kind = points[group[0]].kind
    sizes = [field for field in (*_sizes(kind), *kind.model_fields, "timing", "cache") if field != axis.field]
    fields = list(dict.fromkeys(("kind", "pass_", "dtype", *sizes)))
    return [field for field in fields if _is_constant(points, group, field)]


def _word(point: PointResult, field: str) -> str:
    """A field as words; empty for what goes without saying."""
    value = getattr(point, field)
    if value is None:
        return ""
    match field:
        case "kind":
            return "" if point.kind is AttentionWorkload else point.kind.title
        case "pass_":
            return _PASSES[value]
        case "causal":
            return "causal" if value else "not causal"
        case "heads":
            return f"{value} head" if value == 1 else f"{value} heads"
        case "kv_heads":
            return "" if value == point.heads else f"{value} K/V heads"
        case "head_dim":
            return f"head dim {value}"
        case "head_dim_v":
            return "" if value == point.head_dim else f"head dim of V {value}"
        case "seqlen_k":
            return f"N = {value:,}"
        case "seqlen_q":
            return "" if value == point.seqlen_k else f"{value:,} query rows"
        case "sm_clock_mhz":
            return f"SM clock {value:,g} MHz"
        case "mask" | "dropout" | "save_lse" if value in ("none", 0, False):
            return ""
        case "save_lse":
            return "log-sum-exp saved"
        case "timing":
            return f"timed by {value}"
        case "cache":
            return f"{value} L2"
        case "machine" | "dtype":
            return str(value)
        case _ if field in _BYTES:
            return f"{field.removesuffix('_bytes')} {binary_size(value)}"
        case _:
            return f"{field.replace('_', ' ')} {value:,}" if isinstance(value, int) else f"{field} {value}"


def line_by_place(panel: Panel, points: Sequence[PointResult], series: PanelSeries) -> Mapping[int, PointResult]:
    """The points of a series that were simulated, by place."""
    return {
        place: points[number]
        for place, number in enumerate(series.numbers)
        if number is not None and points[number].status == "ok"
    }
