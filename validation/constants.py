"""Which constants are fitted, and how wide the error bands are: lists made from the data, not written by hand."""

import statistics
from collections import defaultdict
from pathlib import Path

from gpusim.bands import LEAST_ROWS, SHARE, Band, Setting, bands_csv, ranges_of, setting_of
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
    """The list of error bands as CSV: of rows that count, those of one file that share their conditions."""
    groups: dict[tuple[str, ...], list[tuple[ComparedRow, Setting]]] = defaultdict(list)
    specs = {name: load_gpu(name) for name in {item.result.gpu for item in done.compared}}
    for item in done.compared:
        row, name = item.row, item.row.implementation
        spec = specs[item.result.gpu]
        versions = {item.result.version or ""} | ({""} if implementations()[name].default_version is None else set())
        for version in versions if item.is_trusted and item.error is not None else ():
            setting = setting_of(spec, name, version, row.workload, row.conditions)
            groups[spec.name, name, Path(row.file).stem, *setting.words.values()].append((item, setting))
    return bands_csv(_band(items) for _, items in sorted(groups.items()) if len(items) >= LEAST_ROWS)


def _band(items: list[tuple[ComparedRow, Setting]]) -> Band:
    """The band of rows that share GPU, implementation, file and the words of their setting."""
    first, setting = items[0]
    errors = [abs(item.error) for item, _ in items if item.error is not None]
    return Band(
        gpu=first.result.gpu,
        implementation=first.row.implementation,
        source=Path(first.row.file).stem,
        words=setting.words,
        sizes=ranges_of(setting for _, setting in items),
        n=len(items),
        band=statistics.quantiles(errors, n=100, method="inclusive")[round(100 * SHARE) - 1],
    )
