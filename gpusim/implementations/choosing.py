"""What all planning does: values of tables and users into choices, and whether the kernels made of them fit."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from pydantic import ValidationError

from gpusim.analytic import MMA_ROWS, occupancy
from gpusim.errors import DoesNotFitError, ScenarioError
from gpusim.schedules import Choices, Schedule, WarpgroupChoices
from gpusim.specs import GpuSpec
from gpusim.strict_yaml import problems_from
from gpusim.taskgraph import TaskGraph
from gpusim.workloads import AttentionWorkload, Workload

NOTHING_FITS = "no smaller tile fits; lower head_dim or seqlen, or choose another schedule"
_PINS = ("ctas_per_sm", "grain")
_MMA_ROWS = MMA_ROWS["mma_sync"]
_MMA_DEPTH = 16  # numbers of the inner dimension that one instruction on 16-bit numbers takes
_MMA_COLS = 8
# What a tile's side is a multiple of: rows, columns or depth of m16n8k16 (PTX ISA, mma; those of wgmma are multiples of
# them). Keys are columns of QKᵀ and the depth of PV.
_SIDE_MULTIPLES = {
    "tile_q": _MMA_ROWS,
    "tile_kv": _MMA_DEPTH,
    "pv_tile_q": _MMA_ROWS,
    "pv_step": _MMA_DEPTH,
    "tile_m": _MMA_ROWS,
    "tile_n": _MMA_COLS,
}
_MOST_STAGES_TRIED = 8


def with_tuples(values: Mapping[str, object]) -> dict[str, object]:
    """YAML has lists; choices hold tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def over_table(table: Mapping[str, object], stated: Mapping[str, object]) -> dict[str, object]:
    """Choices of the table and, over them, those that were stated; the released kernel's pins bind no other kernel."""
    if stated:
        table = {name: value for name, value in table.items() if name not in _PINS}
    return {**table, **stated}


def validated(schedule: Schedule, values: Mapping[str, object]) -> Choices:
    """`values` were checked when the request was parsed, but not together with those of the table."""
    try:
        return schedule.choices.model_validate(with_tuples(values))
    except ValidationError as error:
        raise ScenarioError(f"schedule {schedule.name}", problems_from(error, schedule.choices)) from None


def check_kernels(graph: TaskGraph, spec: GpuSpec) -> None:
    """Raises DoesNotFitError when an SM holds no CTA of some kernel."""
    for kernel in graph.kernels:
        occupancy(kernel, spec)


def check_graph_fits(
    graph: TaskGraph, schedule: Schedule, choices: Choices, spec: GpuSpec, workload: Workload, sides: tuple[str, str]
) -> None:
    """Raises DoesNotFitError for tiles that no matrix instruction makes and for kernels that no SM holds.

    Its fix names choices that are accepted, where there are any; `sides` are the choices that hold a tile's sides.
    """
    search = _Search(schedule, choices, spec, workload, sides)
    try:
        _check_sides(choices, spec, workload)
    except DoesNotFitError as error:
        raise DoesNotFitError(error.reason, search.with_tile(error.fix)) from None
    try:
        check_kernels(graph, spec)
    except DoesNotFitError as error:
        raise DoesNotFitError(error.reason, search.fix()) from None


def partial_sides(choices: Choices, spec: GpuSpec, workload: Workload) -> dict[str, int]:
    """Sides of a tile that are no multiple of a matrix instruction's, by choice; none where no tensor core multiplies.

    Sums in shared memory stand for a machine without tensor cores.
    """
    in_registers = spec.sm.register_file is not None and getattr(choices, "accumulators", "registers") == "registers"
    if not in_registers or workload.dtype not in spec.sm.tensor_flop_per_clk:
        return {}
    stated = {name: getattr(choices, name, None) for name in _SIDE_MULTIPLES}
    return {name: size for name, size in stated.items() if size is not None and size % _SIDE_MULTIPLES[name]}


def _check_sides(choices: Choices, spec: GpuSpec, workload: Workload) -> None:
    wrong = partial_sides(choices, spec, workload)
    if wrong:
        sides = " and ".join(
            f"{name} = {size} is no multiple of {_SIDE_MULTIPLES[name]}" for name, size in wrong.items()
        )
        raise DoesNotFitError(
            f"{sides}, which {workload.dtype} matrix instructions of {spec.name} need (m16n8k16)",
            "use such multiples",
        )


def check_residency(graph: TaskGraph, spec: GpuSpec) -> None:
    """A residency that a user states is no more than the SM holds; one in a table may stand for loads in flight."""
    for kernel in graph.kernels:
        found = occupancy(replace(kernel, ctas_per_sm=None), spec)
        if kernel.ctas_per_sm is not None and kernel.ctas_per_sm > found.ctas_per_sm:
            raise DoesNotFitError(
                f"{kernel.name}: ctas_per_sm is {kernel.ctas_per_sm} but an SM of {spec.name} holds "
                f"{found.ctas_per_sm}, limited by {found.limited_by}",
                f"state at most {found.ctas_per_sm}, or lower the tiles",
            )


@dataclass(frozen=True, slots=True)
class _Search:
    """Looks for choices that an SM holds beside those that were refused: other warps, smaller tiles, fewer stages."""

    schedule: Schedule
    choices: Choices
    spec: GpuSpec
    workload: Workload
    sides: tuple[str, str]

    def fix(self) -> str:
        """What to change, with the largest tile that fits."""
        warps, tile = self._first(self._other_warps()), self._first(self._smaller_tiles())
        if warps is None and tile is None:
            both = self._first(warps | tile for warps in self._other_warps() for tile in self._smaller_tiles())
            return self._nothing_fits() if both is None else f"{self._warps_text(both)} and {self._tile_text(both)}"
        texts = [None if warps is None else self._warps_text(warps), None if tile is None else self._tile_text(tile)]
        return ", or ".join(text for text in texts if text is not None)

    def with_tile(self, rule: str) -> str:
        """A rule, with the largest tile that keeps it and fits."""
        tile = self._first(self._smaller_tiles())
        return rule if tile is None else f"{rule}; {_listed(tile)} fits"

    def _first(self, updates: Iterable[dict[str, int]]) -> dict[str, int] | None:
        return next((update for update in updates if self._fits(update)), None)

    def _fits(self, update: dict[str, int]) -> bool:
        follows = {"warps"} if isinstance(self.choices, WarpgroupChoices) else set()  # from tile_q
        values = self.choices.model_dump(exclude=follows) | update
        try:
            choices = self.schedule.choices.model_validate(values)
            _check_sides(choices, self.spec, self.workload)
            check_kernels(self.schedule.build(self.workload, choices, {}), self.spec)
        except (ValidationError, DoesNotFitError):
            return False
        return True

    def _other_warps(self) -> Iterator[dict[str, int]]:
        """Powers of two from the nearest on, no more than there are rows of instructions in a tile."""
        if isinstance(self.choices, WarpgroupChoices) or not hasattr(self.choices, "warps"):
            return
        asked, rows = self.choices.warps, getattr(self.choices, self.sides[0])
        for warps in sorted(_halves(max(1, rows // _MMA_ROWS)), key=lambda warps: abs(warps - asked)):
            yield {"warps": warps}

    def _smaller_tiles(self) -> Iterator[dict[str, int]]:
        """Sides and stages no larger than asked, but for the least side of a tile, from the largest tile on."""
        most = min(getattr(self.choices, "stages", 1), _MOST_STAGES_TRIED)
        rows, cols = (_sizes(getattr(self.choices, side), _SIDE_MULTIPLES[side]) for side in self.sides)
        sizes = list(itertools.product(rows, cols, range(most, 0, -1)))
        sizes.sort(key=lambda size: (-size[0] * size[1], abs(size[0] - size[1]), -size[2]))
        for size in sizes:
            yield dict(zip((*self.sides, "stages"), size, strict=True))

    def _warps_text(self, update: Mapping[str, int]) -> str:
        asked = getattr(self.choices, "warps", 0)
        return f"{'raise' if update['warps'] > asked else 'lower'} warps to {update['warps']}"

    def _tile_text(self, update: Mapping[str, int]) -> str:
        staged = " or stages" if getattr(self.choices, "stages", 1) > 1 else ""
        return f"lower {', '.join(self.sides)}{staged}; {_listed(update)} fits"

    def _nothing_fits(self) -> str:
        if getattr(self.choices, "accumulators", "registers") == "smem":
            return NOTHING_FITS
        other = "lower head_dim, or " if isinstance(self.workload, AttentionWorkload) else ""
        return f"no smaller tile fits; {other}choose another schedule"


def _listed(update: Mapping[str, int]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in update.items())


def _sizes(size: int, multiple: int) -> set[int]:
    """A side rounded to whole instructions and halved, the powers of two below it, and the side as it is."""
    return {*_halves(size), *_halves(max(size // multiple, 1) * multiple), *_halves(1 << (size.bit_length() - 1))}


def _halves(size: int) -> list[int]:
    return [size >> shift for shift in range(size.bit_length())]
