"""The data of a replay page: order, bytes and numbers are those of the trace and of attention's definition."""

import itertools
from functools import cache

import numpy as np
import pytest

from gpusim.errors import ScenarioError
from gpusim.replay import GALLERY, SEED, build_replay
from gpusim.report.replay import Event, Lane, Replay
from gpusim.scenario import build_scenario, load_scenario

BYTES = {
    "naive-4": 768,
    "flash2-4": 384,
    "flash2-2": 640,
    "flash1-4": 512,
    "flash2-4-causal": 320,
}
ONLINE = ("flash2-4", "flash2-2", "flash1-4", "flash2-4-causal")
DIGITS = 1e-8  # the page rounds to 9 digits, and values stay below 10
CANVAS = {"name": "t", "gpu": "canvas", "workload": {"batch": 1, "heads": 1, "seqlen": 8, "head_dim": 4}}


@cache
def replay() -> Replay:
    """The gallery, built once."""
    return build_replay([load_scenario(name) for name in GALLERY]).replay


def lane(demo: str, number: int = 0) -> Lane:
    """A lane of a demo."""
    found = next(entry for entry in replay().demos if entry.id == demo)
    return replay().lanes[found.lanes[number]]


def inputs(of: Lane) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Q, K and V of a lane."""
    example = replay().examples[of.example]
    shapes = (
        (example.Q, example.rows, example.head_dim),
        (example.K, example.keys, example.head_dim),
        (example.V, example.keys, example.head_dim_v),
    )
    q, k, v = (np.array(values).reshape(rows, cols) for values, rows, cols in shapes)
    return q, k, v


def scores(of: Lane) -> np.ndarray:
    """Q Kᵀ / √d, −∞ where the mask hides a key."""
    q, k, _ = inputs(of)
    full = q @ k.T / np.sqrt(q.shape[1])
    return np.where(np.tri(*full.shape) > 0, full, -np.inf) if of.causal else full


def moved(events: tuple[Event, ...]) -> int:
    """Bytes over the bus."""
    return sum(event.hbm.bytes for event in events if event.hbm is not None)


@pytest.mark.parametrize("demo", BYTES)
def test_the_events_of_a_lane_add_up_to_the_closed_form(demo: str) -> None:
    """2 B × 384, 192, 320 and 256 numbers; causal, 3 of 4 tile pairs: 2 · (64 + 96) = 320."""
    assert BYTES[demo] == moved(lane(demo).events)
    assert BYTES[demo] == lane(demo).closed_form.total_bytes


@pytest.mark.parametrize(("number", "bytes_"), [(0, 2560), (1, 1280)])
def test_twice_the_tokens_move_by_the_same_formulas(number: int, bytes_: int) -> None:
    """N = 16: naive 2·(4·64 + 4·256), tiles of 4 2·(2·64 + 2·64·4)."""
    assert bytes_ == moved(lane("too-large-n16", number).events)
    assert bytes_ == lane("too-large-n16", number).closed_form.total_bytes


@pytest.mark.parametrize("demo", BYTES)
def test_each_access_moves_its_cells_at_2_bytes(demo: str) -> None:
    """Canvas has no cache, so what an event names is what crosses the bus."""
    for access in (event.hbm for event in lane(demo).events if event.hbm is not None):
        assert 2 * access.region.numbers == access.bytes


@pytest.mark.parametrize("demo", BYTES)
def test_events_stand_in_order_of_time_and_start_at_zero(demo: str) -> None:
    """As the page steps through them."""
    starts = [event.t0_ps for event in lane(demo).events]
    assert 0 == starts[0]
    assert sorted(starts) == starts
    assert all(event.t0_ps <= event.t1_ps <= lane(demo).end_ps for event in lane(demo).events)


@pytest.mark.parametrize("demo", BYTES)
def test_the_bus_carries_one_tile_at_a_time_at_one_byte_a_nanosecond(demo: str) -> None:
    """Canvas' HBM: 1 GB/s on one channel, rounded up to the next picosecond."""
    spans = [(e.hbm.bus0_ps, e.hbm.bus1_ps, e.hbm.bytes) for e in lane(demo).events if e.hbm is not None]
    assert all(1000 * size + 1 == end - begin for begin, end, size in spans)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))


@pytest.mark.parametrize("demo", BYTES)
def test_nothing_is_read_from_sram_before_it_is_there(demo: str) -> None:
    """Every buffer an event reads was written by an earlier one of its CTA that has ended."""
    written: dict[tuple[int, str], int] = {}
    for event in lane(demo).events:
        assert all(written[event.group, buffer] <= event.t0_ps for buffer in event.reads)
        written |= {(event.group, buffer): event.t1_ps for buffer in event.writes}


@pytest.mark.parametrize("demo", BYTES)
def test_buffers_lie_side_by_side_within_sram(demo: str) -> None:
    """No slot belongs to two buffers, none lies beyond the 96."""
    for group in lane(demo).groups:
        slots = [
            slot for place in group.plan for slot in range(place.start_slot, place.start_slot + place.rows * place.cols)
        ]
        assert list(range(len(slots))) == slots
        assert len(slots) <= 96


def test_tiles_of_4_reserve_88_numbers() -> None:
    """4·B·d + B² + 2·B."""
    plan = lane("flash2-4").groups[0].plan
    assert 4 * 4 * 4 + 4**2 + 2 * 4 == sum(place.rows * place.cols for place in plan)


@pytest.mark.parametrize("demo", ONLINE)
def test_m_and_l_are_those_of_the_keys_seen_so_far(demo: str) -> None:
    """After each tile, m is the largest score up to it and ℓ the sum of e^(score − m); after the last, of all."""
    expected, seen = scores(lane(demo)), np.zeros(len(scores(lane(demo))), dtype=int)
    for row in (row for event in lane(demo).events for row in event.softmax):
        seen[row.row] += len(row.scores)
        part = expected[row.row, : seen[row.row]]
        assert part.max() == pytest.approx(row.m, abs=DIGITS)
        assert np.exp(part - part.max()).sum() == pytest.approx(row.l, abs=DIGITS)
    hidden = 4 if lane(demo).causal else 0  # keys that the first CTA skips
    assert [8 - hidden] * 4 + [8] * 4 == seen.tolist()


@pytest.mark.parametrize("demo", ONLINE)
def test_alpha_carries_the_old_sum_to_the_new_maximum(demo: str) -> None:
    """α = e^(m old − m new), ℓ new = α · ℓ old + Σ e^(score − m new)."""
    for row in (row for event in lane(demo).events for row in event.softmax):
        assert np.exp(row.m_old - row.m) == pytest.approx(row.alpha, abs=DIGITS)
        added = np.exp(np.array(row.scores) - row.m).sum()
        assert row.alpha * row.l_old + added == pytest.approx(row.l, abs=DIGITS)


def test_naive_attention_sees_whole_rows_and_never_rescales() -> None:
    """One softmax a row, with m and ℓ of all 8 scores and no α."""
    rows = [row for event in lane("naive-4").events for row in event.softmax]
    expected = scores(lane("naive-4"))
    assert list(range(8)) == [row.row for row in rows]
    assert all(row.alpha is None for row in rows)
    assert expected.max(axis=1) == pytest.approx([row.m for row in rows])
    sums = np.exp(expected - expected.max(axis=1, keepdims=True)).sum(axis=1)
    assert sums == pytest.approx([row.l for row in rows])


@pytest.mark.parametrize("demo", BYTES)
def test_what_is_stored_in_o_is_full_softmax(demo: str) -> None:
    """softmax(Q Kᵀ / √d) V, written out here in float64."""
    weights = np.exp(scores(lane(demo)) - scores(lane(demo)).max(axis=1, keepdims=True))
    expected = weights / weights.sum(axis=1, keepdims=True) @ inputs(lane(demo))[2]
    found = np.full(expected.shape, np.nan)
    for access in (event.hbm for event in lane(demo).events if event.hbm is not None and event.hbm.matrix == "O"):
        if access.direction == "write":
            part = access.region
            found[part.row0 : part.row1, part.col0 : part.col1] = np.reshape(access.values, (-1, expected.shape[1]))
    assert expected == pytest.approx(found, abs=DIGITS)
    assert lane(demo).max_abs_difference < DIGITS


def test_scores_of_flash_attention_never_leave_sram() -> None:
    """No event moves S or P, and neither is a matrix of device memory; naive attention moves both twice."""
    moved_by = {demo: [e.hbm.matrix for e in lane(demo).events if e.hbm is not None] for demo in BYTES}
    assert not {"S", "P"} & set(moved_by["flash2-4"])
    assert not [matrix for matrix in lane("flash2-4").matrices if matrix.stored and matrix.name in ("S", "P")]
    assert (4, 4) == (moved_by["naive-4"].count("S"), moved_by["naive-4"].count("P"))


def test_the_fa1_order_sends_o_m_and_l_out_and_back() -> None:
    """Two Q tiles, two K/V tiles: each of the three leaves twice unfinished and returns twice; O leaves twice more."""
    accesses = [(e.hbm.matrix, e.hbm.direction) for e in lane("flash1-4").events if e.hbm is not None]
    assert [2, 2, 2] == [accesses.count((name, "read")) for name in ("O", "m", "l")]
    assert [4, 2, 2] == [accesses.count((name, "write")) for name in ("O", "m", "l")]


def test_the_maximum_demo_opens_where_a_row_outgrows_its_maximum() -> None:
    """Its opening event rescales rows 0–2 and leaves row 3 as it was."""
    demo = next(entry for entry in replay().demos if entry.id == "bigger-maximum")
    rows = replay().lanes[demo.lanes[0]].events[demo.start - 1].softmax
    assert [0, 1, 2] == [row.row for row in rows if row.l_old > 0 and row.alpha < 1]
    assert 1 == rows[3].alpha


def test_tiles_of_8_are_refused_before_anything_moves() -> None:
    """4·8·4 + 8² + 2·8 = 208 numbers of 96; tiles of 2 and 4 need 40 and 88."""
    refused = lane("flash2-8").refused
    assert refused is not None
    assert (208, 96) == (refused.need, refused.have)
    assert ((2, 40), (4, 88), (8, 208)) == refused.tiles
    assert "tile_q: 4, tile_kv: 4" in refused.fix
    assert 0 == moved(lane("flash2-8").events)
    assert "Refused: tiles of 8 need 208 numbers, 112 more than the 96" in lane("flash2-8").events[-1].sentence


def test_the_causal_lane_skips_the_tile_in_the_future() -> None:
    """Of four tile pairs one, rows 0–3 with keys 4–7; its K and V tiles, 32 B each, are read by the other CTA alone."""
    (skip,) = [event for event in lane("flash2-4-causal").events if event.skip]
    tile = skip.tile
    assert (0, 4, 4, 8) == (tile.row0, tile.row1, tile.col0, tile.col1)
    assert "64 B saved" in skip.sentence
    reads = [e for e in lane("flash2-4-causal").events if e.hbm is not None and e.hbm.matrix in ("K", "V")]
    assert [(0, 0), (0, 0), (1, 0), (1, 0), (1, 4), (1, 4)] == [(e.group, e.hbm.region.row0) for e in reads]


def test_two_schedules_of_a_demo_have_the_same_inputs() -> None:
    """Side by side means the same Q, K and V; S of 16 tokens exceeds SRAM, and the page says so."""
    for demo in (entry for entry in replay().demos if len(entry.lanes) == 2):
        assert 1 == len({replay().lanes[number].example for number in demo.lanes})
    assert "256 numbers and SRAM holds 96" in next(d for d in replay().demos if d.id == "too-large-n16").intro


def test_inputs_follow_the_seed() -> None:
    """The same seed draws the same quarters, another one draws others."""
    scenario = build_scenario(CANVAS | {"schedule": "naive"}, where="t", text="", overrides={})
    drawn = [build_replay([scenario], seed).replay.examples[0].Q for seed in (SEED, SEED, SEED + 1)]
    assert drawn[0] == drawn[1] == replay().examples[0].Q
    assert drawn[0] != drawn[2]
    assert all(4 * value == round(4 * value) and abs(value) <= 2 for value in drawn[0])


def test_what_cannot_be_drawn_is_refused_all_at_once() -> None:
    """A GPU with registers, several heads, many rows and a large head dim are four problems of one point."""
    workload = {"batch": 2, "heads": 4, "seqlen": 64, "head_dim": 64}
    content = {"name": "big", "gpu": "a100_sxm4_40gb", "workload": workload, "schedule": "flash2"}
    with pytest.raises(ScenarioError) as caught:
        build_replay([build_scenario(content, where="t", text="", overrides={})])
    text = "\n".join(caught.value.problems)
    assert 4 == len(caught.value.problems)
    for part in ("register file", "batch × heads: got 8", "seqlen: got 64", "head_dim: got 64"):
        assert part in text


def test_a_larger_sram_takes_tiles_of_8() -> None:
    """With room for 208 numbers the refused tile runs, and K and V pass once: 2·(64 + 64) = 256 B."""
    schedule = {"name": "flash2", "tile_q": 8, "tile_kv": 8}
    room = dict.fromkeys(("sm.smem_bytes", "sm.smem_per_cta_max_bytes"), "416")
    scenario = build_scenario(CANVAS | {"schedule": schedule}, where="t", text="", overrides=room)
    (large,) = build_replay([scenario]).replay.lanes
    assert large.refused is None
    assert 256 == moved(large.events) == large.closed_form.total_bytes


def test_ragged_tiles_of_two_sizes_still_meet_their_formulas() -> None:
    """N = 10, Q tiles of 4, K/V tiles of 2 in two stages: 2·(80 + 3·80); causal 4 + 8 + 10 K/V rows: 2·(80 + 22·8)."""
    workload = CANVAS["workload"] | {"seqlen": 10, "causal": [False, True]}
    schedule = {"name": "flash2", "tile_q": 4, "tile_kv": 2, "stages": 2}
    content = CANVAS | {"workload": workload, "schedule": schedule}
    full, causal = build_replay([build_scenario(content, where="t", text="", overrides={})]).replay.lanes
    assert 640 == moved(full.events) == full.closed_form.total_bytes
    assert 512 == moved(causal.events) == causal.closed_form.total_bytes
    assert max(full.max_abs_difference, causal.max_abs_difference) < DIGITS


def test_a_point_without_a_model_is_left_out_with_its_reason() -> None:
    """Naive attention on canvas knows no causal mask; the other point is still drawn."""
    content = CANVAS | {"workload": CANVAS["workload"] | {"causal": True}, "schedule": ["naive", "flash2"]}
    built = build_replay([build_scenario(content, where="t", text="", overrides={})])
    assert ["flash2"] == [drawn.schedule for drawn in built.replay.lanes]
    (reason,) = built.left_out
    assert reason.startswith("t, naive: no model yet for a causal mask")
