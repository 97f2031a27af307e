"""The one building block: a resource that serves one request after another, in arrival order."""

from gpusim.hardware.state import Numbers


def book(free_ps: Numbers, pipe: int, now_ps: int, duration_ps: int) -> int:
    """Finish time of a request that arrives now and occupies pipe number `pipe` for `duration_ps`.

    `free_ps` holds when each pipe next idles.
    """
    start_ps = free_ps[pipe]
    if start_ps < now_ps:
        start_ps = now_ps
    end_ps: int = start_ps + duration_ps
    free_ps[pipe] = end_ps
    return end_ps
