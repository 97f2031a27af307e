"""Which points make up one line of a plot, what that line is called, and what it is drawn against."""

from collections.abc import Sequence
from dataclasses import dataclass

from gpusim.results import PointResult
from gpusim.workloads import AttentionWorkload

_CUSTOM = "custom"


@dataclass(frozen=True)
class Axis:
    """What points are drawn against: a field of theirs, its name in a title, and its label with the unit."""

    field: str
    title: str
    label: str

    def value(self, point: PointResult) -> int:
        """Where the point stands."""
        found: int = getattr(point, self.field)
        return found


_AXES = {
    axis.field: axis
    for axis in (
        Axis("seqlen_k", "sequence length", "sequence length N, tokens"),
        Axis("m", "rows of the product", "rows of the product, M"),
        Axis("n", "columns of the product", "columns of the product, N"),
        Axis("k", "inner dimension", "inner dimension, K"),
        Axis("batch", "batch", "products of a batch"),
        Axis("cols", "columns", "columns, numbers of a row"),
        Axis("rows", "rows", "rows"),
        Axis("elements", "elements", "elements of an array"),
        Axis("threads_per_cta", "threads per CTA", "threads per CTA"),
        Axis("ctas_per_sm", "CTAs per SM", "CTAs per SM"),
        Axis("footprint_bytes", "footprint", "footprint of the set, bytes"),
        Axis("part_bytes", "part size", "part that a CTA reads, bytes"),
        Axis("hops", "hops", "hops"),
        Axis("rounds", "rounds", "rounds"),
    )
}

# Tried in this order: a field enters the names only when the fields before it leave two points of one place apart.
_VARIANT_FIELDS = {
    "version": "@{}",
    "pass_": "{}",
    "head_dim": "d={}",
    "causal": "causal={}",
    "dtype": "{}",
    "tile_q": "tile_q={}",
    "tile_kv": "tile_kv={}",
    "stages": "stages={}",
    "warps": "warps={}",
    "accumulators": "{}",
    "batch": "batch={}",
    "heads": "heads={}",
    "kv_heads": "kv_heads={}",
    "head_dim_v": "head_dim_v={}",
    "window": "window={}",
    "dropout": "dropout={}",
    "mask": "mask={}",
    "save_lse": "save_lse={}",
    "sm_clock_mhz": "{} MHz",
    "timing": "{}",
    "cache": "{}",
    "stack": "{}",
    "m": "m={}",
    "n": "n={}",
    "k": "k={}",
    "tile_m": "tile_m={}",
    "tile_n": "tile_n={}",
    "tile_k": "tile_k={}",
    "rows": "rows={}",
    "cols": "cols={}",
    "loads": "loads={}",
    "stores": "stores={}",
    "elements": "elements={}",
    "threads_per_cta": "threads={}",
    "ctas_per_sm": "CTAs={}",
    "footprint_bytes": "footprint={}",
    "part_bytes": "part={}",
    "hops": "hops={}",
    "rounds": "rounds={}",
}


@dataclass(frozen=True)
class MeasuredPoint:
    """One measurement to draw beside a simulated line.

    `series` is a name from `series_names`, `label` says who measured. `place` is the value of the axis that the
    simulated points are drawn against; latency in ms and HBM traffic (read + written) in bytes, None where it was not
    measured.
    """

    series: str
    label: str
    place: int
    latency_ms: float | None
    hbm_bytes: float | None = None


@dataclass(frozen=True)
class Series:
    """The points of one line, smallest first: `family` is the implementation, `variant` what else differs."""

    family: str
    variant: str
    points: tuple[PointResult, ...]

    @property
    def name(self) -> str:
        """Family and variant, as legends and tables print them."""
        return _name(self.family, self.variant)


def axis_of(points: Sequence[PointResult]) -> Axis:
    """What these points, all of one kind, are drawn against: their size, or what varies instead where it does not."""
    kind = points[0].kind if points else AttentionWorkload
    if kind is AttentionWorkload:
        return _AXES[kind.size_field]
    counts = {field: len({getattr(point, field) for point in points}) for field in _AXES if field in kind.model_fields}
    if counts[kind.size_field] > 1:
        return _AXES[kind.size_field]
    return _AXES[max((kind.size_field, *counts), key=lambda field: counts[field])]


def series_names(points: Sequence[PointResult]) -> tuple[str, ...]:
    """The name of each point's line: its implementation, then only what tells it from other lines of these points."""
    return tuple(_name(_family(point), variant) for point, variant in zip(points, _variants(points), strict=True))


def series_of(points: Sequence[PointResult]) -> tuple[Series, ...]:
    """All lines of these points, in order of first appearance."""
    axis = axis_of(points)
    members: dict[tuple[str, str], list[PointResult]] = {}
    for point, variant in zip(points, _variants(points), strict=True):
        members.setdefault((_family(point), variant), []).append(point)
    return tuple(
        Series(family, variant, tuple(sorted(found, key=lambda point: _place(point, axis))))
        for (family, variant), found in members.items()
    )


def _name(family: str, variant: str) -> str:
    return f"{family} {variant}".strip()


def _family(point: PointResult) -> str:
    return f"{point.schedule} (custom)" if point.implementation == _CUSTOM else point.implementation


def _place(point: PointResult, axis: Axis) -> tuple[int, ...]:
    """Where the point stands on its line; attention of one K/V length may have several query lengths."""
    return (axis.value(point),) if point.seqlen_q is None else (axis.value(point), point.seqlen_q)


def _variants(points: Sequence[PointResult]) -> list[str]:
    axis = axis_of(points)
    several_gpus = len({point.machine for point in points}) > 1
    variants = [point.machine if several_gpus else "" for point in points]
    for field, label in _VARIANT_FIELDS.items():
        if field != axis.field and _tells_apart(points, variants, field, axis):
            variants = [
                f"{variant} {_labelled(label, getattr(point, field))}".strip()
                for point, variant in zip(points, variants, strict=True)
            ]
    return variants


def _labelled(label: str, value: object) -> str:
    if value is None:
        return ""
    return label.format(str(value).lower() if isinstance(value, bool) else value)


def _tells_apart(points: Sequence[PointResult], variants: Sequence[str], field: str, axis: Axis) -> bool:
    """Whether two points of one place, so far in one line, differ in this field."""
    values: dict[tuple[object, ...], object] = {}
    for point, variant in zip(points, variants, strict=True):
        place = (_family(point), variant, *_place(point, axis))
        if values.setdefault(place, getattr(point, field)) != getattr(point, field):
            return True
    return False
