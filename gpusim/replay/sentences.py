"""One sentence an event: what happens, and why it costs or saves bytes."""

from collections.abc import Sequence
from dataclasses import dataclass

from gpusim.replay.plans import shown_name
from gpusim.replay.values import Change, Held
from gpusim.report.replay import Region, SoftmaxRow
from gpusim.taskgraph import (
    Fill,
    Load,
    LogSumExp,
    MaskCausal,
    MatMul,
    Normalise,
    OnlineSoftmax,
    Rescale,
    Role,
    RowSoftmax,
    Scale,
    Store,
    Tensor,
)


@dataclass(frozen=True, slots=True)
class Telling:
    """What a sentence depends on beside its step.

    `times_read` counts passes of the same tile before, `stored_names` are the tensors its kernel writes, and
    `statistics` the rows of its CTA after the last softmax.
    """

    times_read: int
    stored_names: frozenset[str]
    is_one_kernel: bool
    is_causal: bool
    statistics: Sequence[SoftmaxRow]


def rows_text(region: Region | tuple[int, int]) -> str:
    """One row or several, as in "rows 0–3"."""
    first, end = (region.row0, region.row1) if isinstance(region, Region) else region
    return f"row {first}" if end - first == 1 else f"rows {first}–{end - 1}"


def row_list(rows: Sequence[int]) -> str:
    """Rows one by one, as in "rows 0, 1 and 3"."""
    if len(rows) == 1:
        return f"row {rows[0]}"
    return f"rows {', '.join(map(str, rows[:-1]))} and {rows[-1]}"


def grown(rows: Sequence[SoftmaxRow]) -> list[int]:
    """Rows whose maximum grew after they had seen a score."""
    return [row.row for row in rows if row.alpha is not None and row.l_old > 0 and row.m > row.m_old]


def sentence(change: Change, telling: Telling, tensor: Tensor | None) -> str:
    """What the step of a change does, in the reader's words."""
    match change.step.task.op:
        case Load() if tensor is not None and change.region is not None:
            return _load(tensor, change.region, telling)
        case Store() if tensor is not None and change.region is not None:
            return _store(tensor, change.region, change.stored, telling)
        case MatMul(accumulate=accumulate):
            return _product(change, telling, is_added=accumulate)
        case MaskCausal():
            return "Scores of keys that come after their query become −∞: the mask hides them from the softmax."
        case OnlineSoftmax():
            return _online(change.softmax)
        case RowSoftmax():
            return "Whole rows are at hand, so maximum and sum come in one pass and nothing is ever rescaled."
        case Rescale():
            return _rescale(telling.statistics)
        case Normalise():
            return f"{_written(change)} of O are divided by the final sum ℓ: one division a row, at the very end."
        case Scale():
            return "Q is multiplied by 1/√d once, instead of every score."
        case LogSumExp():
            return "The log-sum-exp m + log ℓ of each row is formed, which the backward pass will need."
        case Fill():
            return "Nothing has been seen yet: m = −∞, ℓ = 0 and O = 0."
    return f"{change.step.task.name}."


def skipped(rows: tuple[int, int], keys: tuple[int, int], saved_bytes: int) -> str:
    """Why a causal schedule leaves a tile out."""
    first, end = keys
    whole = f"Keys {first}–{end - 1} lie" if end - first > 1 else f"Key {first} lies"
    return (
        f"{whole} in the future of {rows_text(rows)}, so {rows_text(keys)} of K and V are neither read nor multiplied: "
        f"{saved_bytes} B saved."
    )


def _load(tensor: Tensor, region: Region, telling: Telling) -> str:
    name, rows = tensor.name, rows_text(region)
    if tensor.role is Role.TEMPORARY and tensor.name in ("S", "P"):
        return f"{rows.capitalize()} of {name} come back from HBM, where the kernel before had to leave them."
    if tensor.role is not Role.INPUT:
        return f"{shown_name(name)} of {rows}, unfinished, comes back in from HBM to be carried on."
    if telling.times_read:
        seen = "the K and V up to its own rows" if telling.is_causal else "all of K and V"
        why = "each K/V tile needs all of Q" if name == "Q" else f"each Q tile needs {seen}"
        return f"{rows.capitalize()} of {name} come in from HBM again, pass {telling.times_read + 1}: {why}."
    return f"{rows.capitalize()} of {name} come in from HBM."


def _store(tensor: Tensor, region: Region, stored: Held | None, telling: Telling) -> str:
    name, rows = tensor.name, rows_text(region)
    if name == "O" and not telling.is_one_kernel:
        return f"{rows.capitalize()} of O go out to HBM: the only result anyone asked for."
    if stored is not None and stored.is_final and name == "O":
        only = ", all that this kernel writes" if telling.stored_names == {"O"} else ""
        return f"{rows.capitalize()} of O are finished and go out to HBM{only}."
    if name in ("S", "P"):
        return f"{rows.capitalize()} of {name} leave for HBM, because the next kernel starts with an empty SRAM."
    return f"{shown_name(name)} of {rows}, still unfinished, leaves for HBM until the next K/V tile."


def _product(change: Change, telling: Telling, *, is_added: bool) -> str:
    held = next(iter(change.written.values()), None)
    if held is None or held.region is None:
        return f"The matrix unit computes {change.step.task.name}."
    rows = rows_text(held.region)
    if held.name == "S":
        shape = f"{held.region.row1 - held.region.row0} × {held.region.col1 - held.region.col0}"
        fate = "" if "S" in telling.stored_names else ": they will never be written to HBM"
        return f"The matrix unit forms {shape} scores S = QKᵀ/√d of {rows} in SRAM{fate}."
    if is_added:
        return f"The matrix unit adds this tile's P V to O ({rows}), in SRAM and not yet normalised."
    return f"The matrix unit forms {rows} of {held.name} = PV."


def _online(rows: Sequence[SoftmaxRow]) -> str:
    if all(row.l_old == 0 for row in rows):
        return "First tile: each row takes its maximum m, turns its scores into e^(S − m) and starts its sum ℓ."
    up = grown(rows)
    if not up:
        return "No score beats the running maximum, so the sums just grow: α = 1."
    return (
        f"A bigger maximum arrives in {row_list(up)}: what was summed so far is too large by a known factor, "
        "so rescale by α = e^(m old − m new)."
    )


def _rescale(rows: Sequence[SoftmaxRow]) -> str:
    if all(row.l_old == 0 for row in rows):
        return "O holds zeros so far, so there is nothing to rescale."
    up = grown(rows)
    if not up:
        return "α = 1 in every row, so the unfinished O stays as it is."
    verb = "are" if len(up) > 1 else "is"
    return (
        f"{row_list(up).capitalize()} of the unfinished O {verb} multiplied by α: old and new terms now count from the "
        "same maximum."
    )


def _written(change: Change) -> str:
    held = next(iter(change.written.values()), None)
    return "The rows" if held is None or held.region is None else rows_text(held.region).capitalize()
