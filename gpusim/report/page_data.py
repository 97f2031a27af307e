"""The data block of report.html: panels, points and kernels as rows, GPUs with their rates, errors and sources.

Texts that repeat stand once in `words` and are referred to by number, and points and kernels are rows in the order of
`point_columns` and `kernel_columns`: 5,000 points stay under 5 MB. Latencies carry six significant digits, shares are
in thousandths, bytes and FLOPs are whole.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpusim.report.answers import Case, error_of, facts, trust_of
from gpusim.report.answers import answer as answer_of
from gpusim.report.panels import PanelSeries
from gpusim.report.wording import unbroken
from gpusim.results import KernelResult, PointResult
from gpusim.specs import GpuSpec
from gpusim.trace import Stall
from gpusim.workloads import AttentionWorkload

POINT_COLUMNS = (
    *("status", "reason", "fix", "latency_ms", "latency_lo_ms", "latency_hi_ms", "tflops", "gb_per_s", "flops"),
    *("hbm_read_bytes", "hbm_write_bytes", "l2_read_bytes", "l2_write_bytes", "smem_read_bytes", "smem_write_bytes"),
    *("extra_memory_bytes", "peak_memory_bytes", "bound_ms", "bound_by", "bottleneck", "note", "kernels"),
)
KERNEL_COLUMNS = ("name", "latency_ms", "stalls", "hbm_bytes", "l2_bytes", "flops", "busy", "clock_mhz", "power_w")
BUSY = ("pipe", "tensor", "sfu", "fp32", "smem", "l2", "hbm")
_DIGITS = 6


@dataclass
class Words:
    """Texts that rows refer to by number."""

    numbers: dict[str, int] = field(default_factory=dict)

    def number(self, text: str | None) -> int | None:
        """The number of a text, a new one where it is new; None for None."""
        return None if text is None else self.numbers.setdefault(text, len(self.numbers))


def panel_record(case: Case, words: Words, loose: Sequence[tuple[int, float, float, str]]) -> dict[str, object]:
    """One panel with its points.

    `loose` are measurements without a point: series, axis value, latency in ms, source.
    """
    panel, varied = case.panel, _varied_beside(case)
    place_of = {
        number: (series, place)
        for series, line in enumerate(panel.series)
        for place, number in enumerate(line.numbers)
        if number is not None
    }
    return {
        "gpu": panel.gpu,
        "title": panel.title,
        "setting": panel.setting,
        "kind": panel.kind.title,
        "axis": {
            "symbol": panel.axis.symbol,
            "title": panel.axis.title,
            "label": panel.axis.label,
            "is_line": panel.axis.is_line,
        },
        "places": [[place.x, place.label] for place in panel.places],
        "baseline": case.baseline,
        "subject": case.subject,
        "has_naive": case.has_naive,
        "place": case.place,
        "answer": unbroken(answer_of(case)),
        "facts": [(question, unbroken(text)) for question, text in facts(case)],
        "roofs": _roofs(case),
        "series": [_series_record(case, series, varied, words) for series in panel.series],
        "measured": [
            [*place_of[item.point], item.latency_ms, words.number(item.source), _short(error_of(case, item))]
            for item in case.measured
            if item.point in place_of and case.points[item.point].latency_ms is not None
        ],
        "loose": [[series, x, latency_ms, words.number(source)] for series, x, latency_ms, source in loose],
        "errors": [
            {
                "series": item.series,
                "source": item.source,
                "role": item.role,
                "n": item.n,
                "mean": _short(item.mean_ape),
                "bias": _short(item.bias),
                "worst": _short(item.worst),
                "place": item.worst_place,
            }
            for item in trust_of(case)
        ],
    }


def gpu_record(spec: GpuSpec) -> dict[str, object]:
    """A GPU's name, and every number of its file with kind and source."""
    values = _flat("", spec.model_dump(mode="json", exclude={"sources", "calibration", "name", "product"}))
    return {
        "product": spec.product,
        "capacity_bytes": spec.memory.hbm.capacity_bytes,
        "numbers": [
            [path, value, spec.sources[path].kind if path in spec.sources else "", _source(spec, path)]
            for path, value in values.items()
        ],
    }


def _source(spec: GpuSpec, path: str) -> str:
    return spec.sources[path].source if path in spec.sources else ""


def _flat(prefix: str, value: object) -> dict[str, object]:
    """Dotted paths of the values of nested mappings."""
    if isinstance(value, Mapping):
        found: dict[str, object] = {}
        for name, inner in value.items():
            found |= _flat(f"{prefix}.{name}" if prefix else str(name), inner)
        return found
    if isinstance(value, list):
        return {prefix: ", ".join(map(str, value))}
    return {} if value is None else {prefix: value}


def _series_record(case: Case, series: PanelSeries, varied: Sequence[str], words: Words) -> dict[str, object]:
    rows = [None if number is None else _point_row(case.points[number], varied, words) for number in series.numbers]
    bands = sorted({float(case.points[number].validated) for number in series.numbers if number is not None})
    return {"name": series.name, "implementation": series.implementation, "band": bands[-1] or None, "points": rows}


def _point_row(point: PointResult, varied: Sequence[str], words: Words) -> list[object]:
    row: list[object] = []
    for column in POINT_COLUMNS:
        match column:
            case "kernels":
                row.append([_kernel_row(kernel, words) for kernel in point.kernels])
            case "note":
                row.append(words.number(", ".join(f"{name} {getattr(point, name)}" for name in varied) or None))
            case "status" | "reason" | "fix" | "bound_by" | "bottleneck":
                row.append(words.number(getattr(point, column)))
            case _:
                row.append(_short(getattr(point, column)))
    return row


def _varied_beside(case: Case) -> tuple[str, ...]:
    """What varies along the axis beside it, such as the batch at a constant number of tokens."""
    if case.panel.kind is not AttentionWorkload or not case.panel.axis.is_line:
        return ()
    members = [case.points[n] for series in case.panel.series for n in series.numbers if n is not None]
    fields = [name for name in ("batch", "heads") if name != case.panel.axis.field]
    return tuple(name for name in fields if len({getattr(member, name) for member in members}) > 1)


def _kernel_row(kernel: KernelResult, words: Words) -> list[object]:
    return [
        words.number(kernel.name),
        _short(kernel.latency_ms),
        [round(1000 * kernel.stalls.get(reason, 0.0)) for reason in Stall],
        kernel.hbm_read_bytes + kernel.hbm_write_bytes,
        kernel.l2_read_bytes + kernel.l2_write_bytes,
        kernel.executed_flops,
        [round(1000 * kernel.busy.get(unit, 0.0)) for unit in BUSY],
        round(kernel.sustained_clock_mhz),
        None if kernel.power_w is None else round(kernel.power_w),
    ]


def _short(value: float | None) -> float | None:
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value


def _roofs(case: Case) -> dict[str, float | None]:
    """Ceilings of the roofline: rates in TFLOP/s and GB/s, None where the GPU or the kind of work has none.

    The special-function ceiling is the rate of exponentials times the FLOPs of attention's two products a score.
    """
    point = next((p for number in range(len(case.panel.series)) for p in case.line(number).values()), None)
    if point is None or case.spec is None or not point.flops or not point.ceiling_ms:
        return {}
    spec = case.spec.at_clock(point.sm_clock_mhz)
    l2, hbm = spec.memory.l2, spec.memory.hbm
    peak = point.flops / point.ceiling_ms / 1e9
    sfu = None
    if case.panel.kind is AttentionWorkload and point.head_dim and point.head_dim_v:
        sfu = spec.sfu_peak_ops_per_s * 2 * (point.head_dim + point.head_dim_v) / 1e12
    return {
        "tensor_tflops": _short(peak),
        "sfu_tflops": _short(sfu),
        "hbm_gb_per_s": _giga(hbm.peak_bandwidth_bytes_per_s),
        "hbm_stream_gb_per_s": _giga(hbm.stream_bandwidth_bytes_per_s),
        "l2_gb_per_s": None if l2 is None else _giga(l2.bandwidth_bytes_per_s),
    }


def _giga(bytes_per_s: float | None) -> float | None:
    return None if bytes_per_s is None else _short(bytes_per_s / 1e9)
