"""Loads and stores of one track overlap: here they are spread over lanes in which they do not."""

from collections.abc import Sequence

from gpusim.trace import Transfer


def lanes_of(transfers: Sequence[Transfer]) -> list[list[Transfer]]:
    """As few lanes as it takes, each in order of time, from transfers in the order they were asked for."""
    lanes: list[list[Transfer]] = []
    for transfer in transfers:
        free = next((lane for lane in lanes if lane[-1].end_ps <= transfer.asked_ps), None)
        if free is None:
            lanes.append(free := [])
        free.append(transfer)
    return lanes
