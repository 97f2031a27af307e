"""Where buffers lie in SRAM: one after another, in the order the kernel declares them."""

from gpusim.replay.values import Slot
from gpusim.report.replay import Place
from gpusim.taskgraph import Kernel, Space


def slot_name(kernel: Kernel, slot: Slot) -> str:
    """A buffer stage as the page names it: "K", or "K.0" and "K.1" where there are several stages."""
    name, stage = slot
    stages = next(buffer.stages for buffer in kernel.buffers if buffer.name == name)
    return name if stages == 1 else f"{name}.{stage}"


def shown_name(name: str) -> str:
    """A tensor's or buffer's name with the sign that papers use."""
    return "ℓ" if name == "l" else name


def places(kernel: Kernel) -> tuple[Place, ...]:
    """Every buffer stage of shared memory."""
    found: list[Place] = []
    start = 0
    for buffer in kernel.buffers:
        if buffer.space is not Space.SMEM:
            continue
        for stage in range(buffer.stages):
            name = slot_name(kernel, (buffer.name, stage))
            found.append(Place(name, shown_name(buffer.name), buffer.rows, buffer.cols, start))
            start += buffer.rows * buffer.cols
    return tuple(found)


def numbers(plan: tuple[Place, ...]) -> int:
    """Numbers that a plan takes."""
    return sum(place.rows * place.cols for place in plan)
