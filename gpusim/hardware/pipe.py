"""The one building block: a resource that serves one request after another, in arrival order."""


class Pipe:
    """A FIFO resource. `free_ps` is when it next idles, `busy_ps` how long it has worked."""

    __slots__ = ("busy_ps", "free_ps")

    def __init__(self) -> None:
        self.free_ps = 0
        self.busy_ps = 0

    def book(self, now_ps: int, duration_ps: int) -> int:
        """Finish time of a request that arrives now and occupies the pipe for `duration_ps`."""
        start = self.free_ps if self.free_ps > now_ps else now_ps
        self.free_ps = start + duration_ps
        self.busy_ps += duration_ps
        return self.free_ps
