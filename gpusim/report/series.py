"""Which points make up one line of a plot, and what that line is called."""

from collections.abc import Sequence
from dataclasses import dataclass

from gpusim.results import PointResult

_CUSTOM = "custom"

# Tried in this order: a field enters the names only when the fields before it leave two points of one length apart.
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
}


@dataclass(frozen=True)
class MeasuredPoint:
    """One measurement to draw beside a simulated line.

    `series` is a name from `series_names`, `label` says who measured. `seqlen` is the K/V length in tokens; latency
    in ms and HBM traffic (read + written) in bytes, None where it was not measured.
    """

    series: str
    label: str
    seqlen: int
    latency_ms: float | None
    hbm_bytes: float | None = None


@dataclass(frozen=True)
class Series:
    """The points of one line, shortest sequence first: `family` is the implementation, `variant` what else differs."""

    family: str
    variant: str
    points: tuple[PointResult, ...]

    @property
    def name(self) -> str:
        """Family and variant, as legends and tables print them."""
        return _name(self.family, self.variant)


def series_names(points: Sequence[PointResult]) -> tuple[str, ...]:
    """The name of each point's line: its implementation, then only what tells it from other lines of these points."""
    return tuple(_name(_family(point), variant) for point, variant in zip(points, _variants(points), strict=True))


def series_of(points: Sequence[PointResult]) -> tuple[Series, ...]:
    """All lines of these points, in order of first appearance."""
    members: dict[tuple[str, str], list[PointResult]] = {}
    for point, variant in zip(points, _variants(points), strict=True):
        members.setdefault((_family(point), variant), []).append(point)
    return tuple(
        Series(family, variant, tuple(sorted(found, key=lambda point: (point.seqlen_k, point.seqlen_q))))
        for (family, variant), found in members.items()
    )


def _name(family: str, variant: str) -> str:
    return f"{family} {variant}".strip()


def _family(point: PointResult) -> str:
    return f"{point.schedule} (custom)" if point.implementation == _CUSTOM else point.implementation


def _variants(points: Sequence[PointResult]) -> list[str]:
    several_gpus = len({point.gpu for point in points}) > 1
    variants = [point.gpu if several_gpus else "" for point in points]
    for field, label in _VARIANT_FIELDS.items():
        if _tells_apart(points, variants, field):
            variants = [
                f"{variant} {_labelled(label, getattr(point, field))}".strip()
                for point, variant in zip(points, variants, strict=True)
            ]
    return variants


def _labelled(label: str, value: object) -> str:
    if value is None:
        return ""
    return label.format(str(value).lower() if isinstance(value, bool) else value)


def _tells_apart(points: Sequence[PointResult], variants: Sequence[str], field: str) -> bool:
    """Whether two points of one length, so far in one line, differ in this field."""
    values: dict[tuple[str, str, int, int], object] = {}
    for point, variant in zip(points, variants, strict=True):
        place = (_family(point), variant, point.seqlen_q, point.seqlen_k)
        if values.setdefault(place, getattr(point, field)) != getattr(point, field):
            return True
    return False
