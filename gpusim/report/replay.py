"""The replay page: one HTML file that shows, event by event, what a small kernel moves and computes.

`Replay` is the contract between who simulates and who draws. The page adds bytes up from events, compares them with
the closed form, and computes full softmax itself to check O; it prints no total that it was handed. Numbers carry 9
digits, so that the last bit of an exponential, which machines do not agree on, does not change the file.
"""

import base64
import hashlib
import math
from dataclasses import dataclass, is_dataclass
from importlib.resources import files
from typing import Literal

from jinja2 import Environment, StrictUndefined

from gpusim.report.html import embedded_json

Unit = Literal["load", "mma", "softmax", "store", "note"]
Values = tuple[float, ...]
DIGITS = 9


@dataclass(frozen=True, slots=True)
class Region:
    """Rows row0 … row1 − 1 and columns col0 … col1 − 1 of a matrix."""

    row0: int
    row1: int
    col0: int
    col1: int

    @property
    def numbers(self) -> int:
        """Cells of the region."""
        return (self.row1 - self.row0) * (self.col1 - self.col0)


@dataclass(frozen=True, slots=True)
class Example:
    """What is computed: one head, Q and O with `rows` rows, K and V with `keys`; matrices are row by row."""

    gpu: str
    rows: int
    keys: int
    head_dim: int
    head_dim_v: int
    bytes_per_number: int
    sram_numbers: int
    Q: Values
    K: Values
    V: Values


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix in device memory; one that no kernel puts there, such as S of FlashAttention, is not `stored`."""

    name: str
    rows: int
    cols: int
    stored: bool


@dataclass(frozen=True, slots=True)
class Place:
    """Where a buffer lies in SRAM: `rows` × `cols` numbers from `start_slot` on; `name` is what it will hold."""

    buffer: str
    name: str
    rows: int
    cols: int
    start_slot: int


@dataclass(frozen=True, slots=True)
class Group:
    """One CTA, or a kernel of one CTA, and the plan of its SRAM."""

    name: str
    t0_ps: int
    t1_ps: int
    plan: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class HbmAccess:
    """What an event reads from or writes to device memory; the bus is busy from `bus0_ps` to `bus1_ps`."""

    matrix: str
    region: Region
    direction: Literal["read", "write"]
    bytes: int
    bus0_ps: int
    bus1_ps: int
    values: Values | None


@dataclass(frozen=True, slots=True)
class Content:
    """What a buffer holds after an event, row by row; None for a buffer that is only reserved."""

    buffer: str
    name: str
    label: str
    region: Region | None
    values: Values | None


@dataclass(frozen=True, slots=True)
class SoftmaxRow:
    """One row's statistics before and after a tile; `scores` are those of the tile. A plain softmax has no α."""

    row: int
    m_old: float
    m: float
    alpha: float | None
    l_old: float
    l: float  # noqa: E741 - ℓ is the paper's name
    scores: Values


@dataclass(frozen=True, slots=True)
class Event:
    """One step of the page: a transfer or a task of the trace, or a note that takes no time.

    `reads` and `writes` name buffers, `tile` the part of S it works on. After it, `contents` have changed, `spent`
    buffers are needed no more, `softmax` rows have new statistics, `done` says that the tile's P V is summed, and
    `finished` are rows of O that are final.
    """

    group: int
    unit: Unit
    t0_ps: int
    t1_ps: int
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    hbm: HbmAccess | None
    tile: Region | None
    skip: bool
    sentence: str
    contents: tuple[Content, ...] = ()
    spent: tuple[str, ...] = ()
    softmax: tuple[SoftmaxRow, ...] = ()
    done: bool = False
    finished: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class ClosedForm:
    """Bytes over the HBM bus by formula, how they come about, and what that says."""

    total_bytes: int
    text: str
    more: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A tile that does not fit, in numbers of SRAM, and what square tiles of other sizes need."""

    need: int
    have: int
    reason: str
    fix: str
    tiles: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Lane:
    """One schedule, run. `name` is short, `title` says which tiles; `max_abs_difference` is O against full softmax,
    to the digits that the page holds.
    """

    name: str
    title: str
    subtitle: str
    schedule: str
    example: int
    causal: bool
    tile: tuple[int, int]
    closed_form: ClosedForm
    matrices: tuple[Matrix, ...]
    groups: tuple[Group, ...]
    events: tuple[Event, ...]
    end_ps: int
    max_abs_difference: float | None
    refused: Refusal | None


@dataclass(frozen=True, slots=True)
class Demo:
    """One entry of the page's chooser: one lane or two on a common clock, opened at event number `start`."""

    id: str
    title: str
    subtitle: str
    lanes: tuple[int, ...]
    start: int
    intro: str


@dataclass(frozen=True, slots=True)
class Replay:
    """All a page shows."""

    title: str
    examples: tuple[Example, ...]
    lanes: tuple[Lane, ...]
    demos: tuple[Demo, ...]


def replay_html(replay: Replay) -> str:
    """The page as one file that loads nothing else, and whose policy lets no script run but its own."""
    script = _asset("replay.js")
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    return environment.from_string(_asset("replay.html")).render(
        title=replay.title,
        style=_asset("palette.css") + _asset("replay.css"),
        data=replay_json(replay),
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def replay_json(replay: Replay) -> str:
    """The data of the page; no text in it can end the script element that holds it."""
    return embedded_json({"digits": DIGITS, **_fields(replay)})


def _asset(name: str) -> str:
    return (files("gpusim.report") / "page" / name).read_text(encoding="utf-8")


def _plain(value: object) -> object:
    """Lists and dictionaries; −∞, which JSON has no number for, as text."""
    if is_dataclass(value):
        return _fields(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return "-inf" if value == -math.inf else _number(value)
    return value


def _fields(value: object) -> dict[str, object]:
    return {name: _plain(getattr(value, name)) for name in getattr(value, "__dataclass_fields__", ())}


def rounded(value: float) -> float:
    """The value to the digits that a page holds."""
    return float(f"{value:.{DIGITS}g}")


def _number(value: float) -> float | int:
    short = rounded(value)
    return int(short) if short.is_integer() else short
