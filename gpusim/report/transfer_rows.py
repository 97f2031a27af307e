"""Loads and stores of one track overlap: here they are spread over rows in which they do not."""

from collections.abc import Sequence

from gpusim.trace import Transfer


def transfer_rows(transfers: Sequence[Transfer]) -> list[list[Transfer]]:
    """As few rows as it takes, each in order of time, from transfers in the order they were asked for."""
    rows: list[list[Transfer]] = []
    for transfer in transfers:
        free = next((row for row in rows if row[-1].end_ps <= transfer.asked_ps), None)
        if free is None:
            rows.append(free := [])
        free.append(transfer)
    return rows
