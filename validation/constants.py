"""Which constants are fitted, and how wide the error bands are: lists made from the data, not written by hand."""

import csv
import io
import statistics
from collections import defaultdict
from collections.abc import Iterator

from gpusim.bands import COLUMNS, LEAST_ROWS, SHARE
from gpusim.compare import ComparedRow, Comparison
from gpusim.implementations import implementations
from gpusim.specs import GpuSpec, gpu_names, load_gpu


def fitted_of_gpus() -> dict[str, list[str]]:
    """GPU → its constants of kind "fitted", those of its base included."""
    return {name: _fitted(load_gpu(name)) for name in gpu_names() if _fitted(load_gpu(name))}


def _fitted(spec: GpuSpec) -> list[str]:
    return [path for path, source in spec.sources.items() if source.kind == "fitted"]


def fitted_of_kernels() -> dict[str, list[str]]:
    """Kernel of a table, on a compute capability → its constants of kind "fitted"."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for capability, gpu in (("8.0", "a100_sxm4_80gb"), ("9.0", "h100_sxm5_80gb")):
        for implementation in implementations().values():
            for path, (constant, _) in implementation.constants_on(load_gpu(gpu)).items():
                _, table, kernel, name = path.split(".")
                if constant.kind == "fitted":
                    found[f"{table}, {kernel}, {capability}"][name] = None
    return {kernel: list(names) for kernel, names in sorted(found.items())}


def constant_rows() -> list[tuple[str, str, str]]:
    """Owner, how many, and which."""
    owners = fitted_of_gpus() | fitted_of_kernels()
    return [(owner, str(len(names)), ", ".join(f"`{name}`" for name in names)) for owner, names in owners.items()]


def bands_text(done: Comparison) -> str:
    """The list of error bands as CSV, from the rows that count."""
    groups: dict[tuple[str, str, str], list[ComparedRow]] = defaultdict(list)
    for item in done.compared:
        name = item.row.implementation
        versions = {item.result.version or ""} | ({""} if implementations()[name].default_version is None else set())
        for version in versions if item.is_trusted and item.error is not None else ():
            groups[item.result.gpu, name, version].append(item)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(_band_cells(key, items) for key, items in sorted(groups.items()) if len(items) >= LEAST_ROWS)
    return text.getvalue()


def _band_cells(key: tuple[str, str, str], items: list[ComparedRow]) -> Iterator[object]:
    errors = [abs(item.error) for item in items if item.error is not None]
    latencies_ms = [item.row.latency_ms for item in items if item.row.latency_ms is not None]
    band = statistics.quantiles(errors, n=100, method="inclusive")[round(100 * SHARE) - 1]
    return iter((*key, len(items), f"{band:.3f}", f"{min(latencies_ms):.4g}", f"{max(latencies_ms):.4g}"))
