"""The shipped tables: every number has a source, and rows merge as documented."""

from pathlib import Path

import pytest

from gpusim.errors import ConfigError
from gpusim.implementations import Implementation, implementations, stacks
from gpusim.implementations import table as tables
from gpusim.schedules import SCHEDULES
from gpusim.specs import load_gpu
from gpusim.workloads import AttentionWorkload

A100 = load_gpu("a100_sxm4_40gb")
ALL = implementations()
WORKLOAD = AttentionWorkload(batch=1, heads=1, seqlen_q=64, seqlen_k=64, head_dim=64)


def implementation(tiles: list[dict[str, object]], costs: list[dict[str, object]]) -> Implementation:
    """An implementation with these tables."""
    head = {"name": "mine", "schedule": "flash2", "summary": "", "versions": [], "fitted_to": []}
    covers = {"dtypes": ["fp16"], "masks": [], "grouped_kv_heads": False}
    return Implementation.model_validate(head | covers | {"tiles": tiles, "costs": costs})


@pytest.mark.parametrize("name", ALL)
def test_every_constant_has_a_kind_and_a_source(name: str) -> None:
    """Fitted, measured, derived, assumed or datasheet, and where from."""
    for row in ALL[name].costs:
        for constant in row.constants.values():
            assert constant.kind in ("datasheet", "measured", "derived", "assumed", "fitted")
            assert constant.source.strip()


@pytest.mark.parametrize("name", ALL)
def test_every_tile_row_has_a_source(name: str) -> None:
    """The file it was read in, or that it is assumed; benchmarks of the machine leave nothing to choose."""
    assert all(row.source.strip() for row in ALL[name].tiles)
    assert bool(ALL[name].tiles) != (name in ("stream", "pointer_chase", "cache_read"))


@pytest.mark.parametrize("name", ALL)
def test_fitted_constants_name_what_they_were_fitted_to(name: str) -> None:
    """An implementation with fitted constants lists measured files, or its base does; one without lists none.

    A microbenchmark has no constants, but lists the file that the numbers of the GPUs were read off.
    """
    kinds = {constant.kind for row in ALL[name].costs for constant in row.constants.values()}
    fitted_to = [file for source in (name, ALL[name].base) if source for file in ALL[source].fitted_to]
    assert ("fitted" in kinds or name in ("pointer_chase", "cache_read")) == bool(fitted_to)


@pytest.mark.parametrize("name", ALL)
def test_it_names_a_schedule_that_exists(name: str) -> None:
    """And is found under its own name."""
    assert ALL[name].schedule in SCHEDULES
    assert name == ALL[name].name


def test_every_stack_says_where_its_floor_comes_from() -> None:
    """Host floors belong to software, by implementation, with a source."""
    for stack in stacks().values():
        assert stack.source.strip()
        assert set(stack.host_floor_ms) <= set(ALL)
        assert all(floor_ms > 0 for floor_ms in stack.host_floor_ms.values())


def test_a_later_row_only_adds_what_earlier_rows_left_open() -> None:
    """The first row that states a choice wins; one for another GPU does not count."""
    mine = implementation(
        [
            {"when": {"architecture": ["hopper"]}, "choices": {"tile_q": 1}, "source": "s"},
            {"when": {"head_dim": [64, 64]}, "choices": {"tile_q": 2}, "source": "s"},
            {"when": {}, "choices": {"tile_q": 3, "tile_kv": 4}, "source": "s"},
        ],
        [],
    )
    assert {"tile_q": 2, "tile_kv": 4} == mine.choices(A100, WORKLOAD)


@pytest.mark.parametrize(("head_dim", "holds"), [(31, False), (32, True), (64, True), (65, False)])
def test_ranges_are_inclusive(head_dim: int, holds: bool) -> None:
    """[32, 64] holds at 32 and at 64 and not beside them."""
    mine = implementation([{"when": {"head_dim": [32, 64]}, "choices": {"tile_q": 1}, "source": "s"}], [])
    assert holds == bool(mine.choices(A100, WORKLOAD.model_copy(update={"head_dim": head_dim})))


@pytest.mark.parametrize(
    ("when", "holding"),
    [
        ({"stack": ["mine", "yours"]}, [("mine", False), ("mine", True), ("yours", False), ("yours", True)]),
        ({"causal": True}, [(None, True), ("mine", True), ("yours", True)]),
        ({"causal": False}, [(None, False), ("mine", False), ("yours", False)]),
        ({"stack": ["mine"], "causal": True}, [("mine", True)]),
    ],
)
def test_a_row_may_be_for_a_stack_or_a_mask(when: dict[str, object], holding: list[tuple[str | None, bool]]) -> None:
    """Of three stacks, none among them, causal and not: a row that names a stack never holds without one."""
    mine = implementation([{"when": when, "choices": {"tile_q": 1}, "source": "s"}], [])
    held = [
        (stack, causal)
        for stack in (None, "mine", "yours")
        for causal in (False, True)
        if mine.choices(A100, WORKLOAD.model_copy(update={"causal": causal}), stack)
    ]
    assert holding == held


def test_a_row_may_be_for_a_version() -> None:
    """It holds for the version asked for or, where none is asked for, the default one."""
    rows = [
        {"when": {"version": [version]}, "choices": {"tile_q": size}, "source": "s"}
        for version, size in (("old", 1), ("new", 2))
    ]
    mine = implementation(rows, []).model_copy(update={"versions": ["old", "new"], "default_version": "new"})
    held = [mine.choices(A100, WORKLOAD, None, version) for version in ("old", "new", None)]
    assert [{"tile_q": 1}, {"tile_q": 2}, {"tile_q": 2}] == held


@pytest.mark.parametrize("name", ALL)
def test_versions_of_rows_are_versions_of_the_implementation(name: str) -> None:
    """No row is for a version nobody can ask for, and the default is one of them."""
    known = set(ALL[name].versions)
    named = {version for row in (*ALL[name].tiles, *ALL[name].costs) for version in row.when.version or []}
    assert named <= known
    assert {ALL[name].default_version} - {None} <= known


def cost_row(kernels: list[str], when: dict[str, object] | None = None, **values: float) -> dict[str, object]:
    """A row of a table of constants."""
    constants = {name: {"value": value, "kind": "assumed", "source": "s"} for name, value in values.items()}
    return {"when": when or {}, "kernels": kernels, "constants": constants}


def test_constants_of_a_stack_hold_under_it_alone() -> None:
    """What its row does not name comes from the others; a GPU's calibration has a name of its own for it."""
    of_stack = cost_row(["forward"], {"stack": ["mine", "his"], "head_dim": [1, 64]}, entry_cycles=5)
    table = implementation([], [of_stack, cost_row(["forward"], entry_cycles=1, step_cycles=3)])
    costs = [table.kernel_costs(A100, WORKLOAD, stack)["forward"] for stack in ("mine", "yours", None)]
    assert [(5, 3), (1, 3), (1, 3)] == [(cost.entry_cycles, cost.step_cycles) for cost in costs]
    assert ["forward@mine@d64", "forward"] == [row.address("forward") for row in table.costs]


def test_costs_merge_kernel_by_kernel() -> None:
    """Rows for several kernels add up; the first value of a constant wins."""
    costs = implementation(
        [], [cost_row(["qk"], entry_cycles=1), cost_row(["qk", "pv"], entry_cycles=2, step_cycles=3)]
    ).kernel_costs(A100, WORKLOAD)
    assert {"qk": (1, 3), "pv": (2, 3)} == {name: (cost.entry_cycles, cost.step_cycles) for name, cost in costs.items()}


def test_a_damaged_table_is_a_config_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """File, field and rule, no traceback of a parser."""
    (tmp_path / "flash2.yaml").write_text("name: flash2\nschedule: 5\nextra: 1\n")
    monkeypatch.setattr(tables, "_FOLDER", tmp_path)
    with pytest.raises(ConfigError) as caught:
        tables._read("flash2")
    assert "flash2.yaml: schedule: got 5, expected text" in str(caught.value)
    assert "flash2.yaml: extra: unknown key" in str(caught.value)
