"""What a replay page can show: one head, few rows, and an SRAM of which every number can be drawn."""

from collections.abc import Sequence

from gpusim.errors import ScenarioError
from gpusim.point import Point
from gpusim.specs import GpuSpec
from gpusim.workloads import AttentionWorkload

MOST_ROWS, MOST_HEAD_DIM, MOST_SRAM_NUMBERS = 32, 8, 512  # what can still be read on a page


def check_drawable(points: Sequence[Point], where: str) -> list[tuple[Point, AttentionWorkload]]:
    """Points with their attention. Raises ScenarioError with everything that a page cannot show, each reason once."""
    drawable = [(point, point.workload) for point in points if isinstance(point.workload, AttentionWorkload)]
    problems = [
        f"schedule: {point.request.name} computes {point.workload.title}; a replay shows attention"
        for point in points
        if not isinstance(point.workload, AttentionWorkload)
    ]
    problems += [problem for point, workload in drawable for problem in _machine_problems(point.spec, workload)]
    problems += _size_problems([workload for _, workload in drawable])
    if problems:
        raise ScenarioError(where, list(dict.fromkeys(problems)))
    return drawable


def sram_numbers(spec: GpuSpec, workload: AttentionWorkload) -> int:
    """Numbers that a CTA may keep in shared memory."""
    return spec.sm.smem_per_cta_max_bytes // workload.dtype.size_bytes


def _machine_problems(spec: GpuSpec, workload: AttentionWorkload) -> list[str]:
    problems = []
    numbers, size, accumulator = sram_numbers(spec, workload), workload.dtype.size_bytes, spec.sm.accumulator_bytes
    if spec.sm.register_file is not None:
        problems.append(
            f"gpu: {spec.name} has a register file, which a replay does not draw; use canvas or a file based on it"
        )
    elif numbers > MOST_SRAM_NUMBERS:
        problems.append(
            f"gpu: {spec.name} has an SRAM of {numbers:,} numbers a CTA; a replay draws at most {MOST_SRAM_NUMBERS}"
        )
    elif accumulator != size:
        problems.append(
            f"dtype: {workload.dtype} takes {size} B but an accumulator of {spec.name} {accumulator} B; a replay draws "
            "numbers of one size"
        )
    return problems


def _size_problems(workloads: Sequence[AttentionWorkload]) -> list[str]:
    """One line a size, from the smallest to the largest that cannot be drawn."""
    too_large: dict[tuple[str, int], list[int]] = {}
    for workload in workloads:
        for name, size, most in (
            ("batch × heads", workload.batch * workload.heads, 1),
            ("seqlen", max(workload.seqlen_q, workload.seqlen_k), MOST_ROWS),
            ("head_dim", max(workload.head_dim, workload.head_dim_v), MOST_HEAD_DIM),
        ):
            if size > most:
                too_large.setdefault((name, most), []).append(size)
    return [
        f"{name}: got {' to '.join(str(size) for size in sorted({min(sizes), max(sizes)}))}; a replay draws at most "
        f"{most}, so lower it"
        for (name, most), sizes in too_large.items()
    ]
