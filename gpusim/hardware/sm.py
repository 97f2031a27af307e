"""One streaming multiprocessor: a compute pipe that tile steps hold one after another.

Independent pipes for tensor cores and special functions slide into free overlap, which measurements refute; one pipe
with a stated combination of unit times does not. Warps are folded into rates.
"""

from gpusim.hardware.pipe import Pipe


class StreamingMultiprocessor:
    """State of one SM: its number and its compute pipe."""

    __slots__ = ("number", "pipe")

    def __init__(self, number: int) -> None:
        self.number = number
        self.pipe = Pipe()
