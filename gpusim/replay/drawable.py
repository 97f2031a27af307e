"""What a replay page can show: one head, few rows, and an SRAM of which every number can be drawn."""

from gpusim.errors import ScenarioError
from gpusim.point import Point
from gpusim.specs import GpuSpec
from gpusim.workloads import AttentionWorkload

MOST_ROWS, MOST_HEAD_DIM, MOST_SRAM_NUMBERS = 32, 8, 512  # what can still be read on a page


def check_drawable(point: Point, where: str) -> AttentionWorkload:
    """The attention of a point. Raises ScenarioError with everything about it that a page cannot show."""
    workload = point.workload
    if not isinstance(workload, AttentionWorkload):
        raise ScenarioError(
            where, [f"schedule: {point.request.name} computes {workload.title}; a replay shows attention"]
        )
    problems = [*_machine_problems(point.spec, workload), *_size_problems(workload)]
    if problems:
        raise ScenarioError(where, problems)
    return workload


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


def _size_problems(workload: AttentionWorkload) -> list[str]:
    sizes = {
        "batch × heads": (workload.batch * workload.heads, 1),
        "seqlen": (max(workload.seqlen_q, workload.seqlen_k), MOST_ROWS),
        "head_dim": (max(workload.head_dim, workload.head_dim_v), MOST_HEAD_DIM),
    }
    return [
        f"{name}: got {size}; a replay draws at most {most}, so lower it"
        for name, (size, most) in sizes.items()
        if size > most
    ]
