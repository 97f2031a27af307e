"""What can be checked of a measurement without a GPU: that kernels compile, and that rows are understood.

Every program of every group is compiled for each architecture that it is for, without spills, and our attention kernels
hold the instructions that they are written for. Every case's row is read as a measured CSV would be.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from gpusim.compare import point_of
from gpusim.measured.cells import RowCells, RowError
from gpusim.measured.rows import measured_row
from gpusim.specs import load_gpu
from validation.collect.cubins import compiled
from validation.collect.device import Facts, facts_of
from validation.collect.groups import GROUPS
from validation.collect.runner import SOURCE
from validation.collect.work import Case, Program
from validation.kernels import KERNELS
from validation.nvrtc import NvrtcError

GPUS = ("a100_sxm4_80gb", "h200_sxm_141gb")
LATER_CAPABILITY = (10, 0)  # no config yet: what is not for one architecture alone must compile there all the same


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: what it is, what was found, and whether that is a fault."""

    what: str
    found: str
    is_fault: bool


def compile_findings() -> Iterator[Finding]:
    """Every program for every architecture. Raises NvrtcError where no compiler is installed."""
    instructions = {kernel.file: kernel.instructions for kernel in KERNELS}
    for program, capability in _programs():
        architecture = program.architecture(capability)
        name = " ".join((program.entry, *(f"{key}={value}" for key, value in program.defines), architecture))
        try:
            cubin = compiled(program, architecture)
        except NvrtcError as error:
            if "not installed" in str(error):
                raise
            yield Finding(name, str(error), True)
            continue
        report = cubin.resources(program.entry)
        wanted = instructions.get(program.file, ())
        held = cubin.instructions() if wanted else {}
        missing = [word for word in wanted if not any(operation.startswith(word) for operation in held)]
        found = f"{report.registers} registers, {report.spill_bytes} B spilled"
        if missing:
            found += f", no {', '.join(missing)}"
        yield Finding(name, found, bool(missing or report.spill_bytes))


def _programs() -> list[tuple[Program, tuple[int, int]]]:
    found: dict[tuple[Program, tuple[int, int]], None] = {}
    for facts in map(facts_of, map(load_gpu, GPUS)):
        for program in (program for case in _cases(facts) for program in case.programs()):
            found[program, facts.capability] = None
            if program.runs_on(LATER_CAPABILITY):
                found[program, LATER_CAPABILITY] = None
    return list(found)


def _cases(facts: Facts) -> Iterator[Case]:
    for group in GROUPS:
        yield from group.cases(facts)


def row_findings() -> Iterator[Finding]:
    """How the rows of every group are read on each GPU, as if each call had taken a millisecond.

    A group without a case is a fault where none of these GPUs has one.
    """
    used = {group.name for group in GROUPS for gpu in GPUS if any(group.cases(facts_of(load_gpu(gpu))))}
    for gpu in GPUS:
        facts = facts_of(load_gpu(gpu))
        for group in GROUPS:
            reasons: dict[str, int] = {}
            for case in group.cases(facts):
                reason = _read(gpu, case, counts_bytes=group.reads_counters)
                reasons[reason] = reasons.get(reason, 0) + 1
            told = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
            is_fault = group.name not in used or any(reason.startswith("unreadable") for reason in reasons)
            yield Finding(f"{gpu}, rows of {group.name}", told or "no case", is_fault)


def _read(gpu: str, case: Case, *, counts_bytes: bool) -> str:
    """Either "read", or "skipped" and why where compare has no workload for such rows, or "unreadable" and why."""
    measured = {"dram_bytes": 1.0} if counts_bytes else case.measured(1.0)
    cells = {"source": SOURCE, "gpu": gpu, "cache": case.cache, **case.cells, **measured}
    try:
        row = measured_row("check", 2, RowCells({name: str(cell) for name, cell in cells.items()}))
    except RowError as error:
        is_known = "no workload" in str(error) or "no model" in str(error)
        return f"{'skipped' if is_known else 'unreadable'}: {error}"
    point, reason = point_of(row, load_gpu)
    return f"unreadable: {reason}" if point is None else "read"
