"""All CTAs of one kernel on flat tables: the compiled engine's event loop.

Walks the tables of `tables.py` exactly as the SimPy processes of `cta.py` walk the lowered kernel: the same bookings in
the same order, events ordered by (time, sequence number), so that latency, bytes and stalls are equal to the last
picosecond. A slot is a warpgroup of a resident CTA; what the warpgroups of a CTA share is kept by its place. Written as
plain functions on numbers (`now` is the time in ps); `compiled.py` compiles them together with those of `hardware`.
"""

from typing import NamedTuple

import numpy as np

from gpusim.engine.tables import (
    ACCESS_BASE,
    ACCESS_COL_BLOCKS,
    ACCESS_COL_SLOT,
    ACCESS_FIRST_BLOCK,
    ACCESS_FIRST_COL,
    ACCESS_FIRST_ROW,
    ACCESS_HEAD_SLOT,
    ACCESS_HEAD_STRIDE,
    ACCESS_HEADS_PER_MATRIX,
    ACCESS_ROW_SLOT,
    ACCESS_SHARED_BY,
    AFTER,
    END_LOAD,
    END_STORE,
    FIRST_BODY,
    FIRST_LOAD,
    FIRST_STORE,
    LAST_BODY,
    LOAD_ACCESS,
    LOAD_READY,
    LOAD_STAGES,
    LOOP,
    LOOP_DIAGONAL_COLS,
    LOOP_DIAGONAL_GROUP,
    LOOP_DIAGONAL_PACKED,
    LOOP_DIAGONAL_ROWS,
    LOOP_DIAGONAL_SHIFT,
    LOOP_DIAGONAL_SLOT,
    LOOP_END_LOAD,
    LOOP_END_PHASE,
    LOOP_ENTRY_PS,
    LOOP_FIRST_LOAD,
    LOOP_FIRST_PHASE,
    LOOP_NUM_LAST,
    LOOP_SLOT,
    LOOP_STEP_PS,
    LOOP_TRIPS,
    MAIN_LOOP,
    MIDDLE_BODY,
    NEXT_TRIP,
    OPERATION,
    OUTER_LOOP,
    OUTER_ROW,
    OUTER_SLOT,
    OUTER_TRIPS,
    PHASE_END_ISSUE,
    PHASE_END_STORE,
    PHASE_END_WAIT,
    PHASE_FIRST_ISSUE,
    PHASE_FIRST_STORE,
    PHASE_FIRST_WAIT,
    PHASE_LAST_USE_PS,
    PHASE_USE_PS,
    STRAIGHT,
    USE_PS,
    Ints,
    Tables,
)
from gpusim.hardware.memory import read_tiles, write_tiles
from gpusim.hardware.pipe import book
from gpusim.hardware.state import MemoryState

# Where a slot goes on when it wakes.
AT_NEXT_CTA, AT_ROW, AT_USE, AT_STORES, AT_PHASE, AT_PHASE_USE, AT_PHASE_END = range(7)

# Columns of `Slots.state`: where to go on, the program row, iteration and phase of its loop, …
(
    GO_ON,
    PROGRAM_ROW,
    TRIP,
    TRIPS,  # of the loop, for this CTA
    PHASE,
    FIRST_TILE,  # of the loop's streams, counted from the kernel's start
    SINCE_PS,  # when the slot came to its phase
    IS_SLEEPING,  # until a tile of the phase is asked for
    ENTRY_PS,
    EARLIEST_PS,
    PENDING_PS,
    ACCEPTED_PS,
    HAS_CTA,
    NUM_BEGUN,  # CTAs so far
    NUM_ENDED,
    PLACE,  # its resident CTA
    WARPGROUP,
    NUM_STATE,
) = range(18)

# Columns of `Places.loops`: the warpgroup that is foremost, and the tiles of the CTA that it is at.
FRONT, BEGIN, FRONT_END, NUM_SHARED = range(4)
NUM_TAKEN, FIRST_ITEM = 0, 1  # columns of `Places.items`, then number and start of each item in turn

# Columns of `Slots.spent_ps`.
SPENT_LAUNCH, SPENT_COMPUTE, SPENT_PIPE, SPENT_LOAD, SPENT_SYNC, SPENT_STORE = range(6)
NUM_SPENT = 6

ASLEEP = -1  # what a slot without work returns instead of a time
AWAKE = -2  # and one that need not wait
NEVER_PS = 1 << 62


class Places(NamedTuple):
    """What the warpgroups of every resident CTA share, one row each."""

    items: Ints  # CTAs of the grid taken: how many, and the last few
    asked: Ints  # by load: tiles asked for so far
    ready_ps: Ints  # by load and stage
    loops: Ints  # by loop, NUM_SHARED columns each


class Slots(NamedTuple):
    """State of every slot of a kernel, one row each, and of the places they are at."""

    places: Places
    state: Ints  # GO_ON to WARPGROUP
    indices: Ints
    released: Ints  # by load: tiles read so far
    entered: Ints  # by loop: tiles of the CTAs begun so far
    spent_ps: Ints
    wakes_ps: Ints  # by slot, rounded up to a power of two
    sequence: Ints  # the order in which slots asked for their times
    tree: Ints  # tournament of slots: node n plays the winners of nodes 2n and 2n + 1; tree[1] wakes next


class Shared(NamedTuple):
    """What all slots of a kernel share beside memory: pipes, launcher, the number of the next CTA, fixed durations."""

    pipe_free_ps: Ints
    launcher_free_ps: Ints
    next_cta: Ints
    next_sequence: Ints
    num_ctas: int
    num_sms: int
    launch_ps: int
    store_queue_ps: int


def new_slots(num_slots: int, num_sms: int, tables: Tables) -> Slots:
    """Idle slots, numbered as `SlotTask` says."""
    leaves = 1 << (num_slots - 1).bit_length()
    num_loads, num_loops = max(1, len(tables.loads)), max(1, len(tables.loops))
    num_places = num_slots // tables.warpgroups
    state = np.zeros((num_slots, NUM_STATE), dtype=np.int64)
    numbers = np.arange(num_slots)
    state[:, WARPGROUP] = numbers // num_sms % tables.warpgroups
    state[:, PLACE] = numbers // (num_sms * tables.warpgroups) * num_sms + numbers % num_sms
    most_ahead = 2 + max(tables.loads[:, LOAD_STAGES], default=0)  # a warpgroup outruns another by the stages at most
    places = Places(
        np.zeros((num_places, FIRST_ITEM + 2 * most_ahead), dtype=np.int64),
        np.zeros((num_places, num_loads), dtype=np.int64),
        np.zeros((num_places, max(1, tables.num_ready)), dtype=np.int64),
        np.zeros((num_places, NUM_SHARED * num_loops), dtype=np.int64),
    )
    return Slots(
        places,
        state,
        np.zeros((num_slots, tables.num_slots), dtype=np.int64),
        np.zeros((num_slots, num_loads), dtype=np.int64),
        np.zeros((num_slots, num_loops), dtype=np.int64),
        np.zeros((num_slots, NUM_SPENT), dtype=np.int64),
        np.full(leaves, NEVER_PS),
        np.zeros(leaves, dtype=np.int64),
        np.concatenate((np.zeros(leaves, dtype=np.int64), np.arange(leaves))),
    )


def first_block(tables: Tables, slots: Slots, slot: int, access: int) -> int:
    """The block of an access that the slot's index values choose, counted over all accesses."""
    at, indices = tables.accesses, slots.indices
    row = indices[slot, at[access, ACCESS_ROW_SLOT]] + at[access, ACCESS_FIRST_ROW]
    col = indices[slot, at[access, ACCESS_COL_SLOT]] + at[access, ACCESS_FIRST_COL]
    block: int = row * at[access, ACCESS_COL_BLOCKS] + col + at[access, ACCESS_FIRST_BLOCK]
    return block


def first_key(tables: Tables, slots: Slots, slot: int, access: int) -> int:
    """Key of the first tile of the matrix that an access reads or writes."""
    at = tables.accesses
    head = slots.indices[slot, at[access, ACCESS_HEAD_SLOT]]
    matrix = head // at[access, ACCESS_HEADS_PER_MATRIX]
    key: int = at[access, ACCESS_BASE] + matrix * at[access, ACCESS_HEAD_STRIDE]
    return key


def load_access(
    tables: Tables, slots: Slots, memory: MemoryState, shared: Shared, slot: int, access: int, now: int
) -> int:
    """When all tiles of an access, asked for now, are usable."""
    block, base = first_block(tables, slots, slot, access), first_key(tables, slots, slot, access)
    begin, end, total = tables.begin[block], tables.begin[block + 1], tables.total[block]
    if total == 0:
        return now
    sm, shared_by = slot % shared.num_sms, tables.accesses[access, ACCESS_SHARED_BY]
    return read_tiles(memory, now, sm, base, tables.offsets, tables.sizes, begin, end, total, shared_by)


def store_access(tables: Tables, slots: Slots, memory: MemoryState, slot: int, access: int, now: int) -> None:
    """Posts the tiles of an access; the slot remembers when its last store is accepted."""
    block, base = first_block(tables, slots, slot, access), first_key(tables, slots, slot, access)
    begin, end, total = tables.begin[block], tables.begin[block + 1], tables.total[block]
    if total == 0:
        return
    accepted = write_tiles(memory, now, base, tables.offsets, tables.sizes, begin, end, total)
    if accepted > slots.state[slot, ACCEPTED_PS]:
        slots.state[slot, ACCEPTED_PS] = accepted


def hold_pipe(slots: Slots, shared: Shared, slot: int, now: int, use_ps: int) -> int:
    """When the SM's compute pipe has served this slot."""
    end = book(shared.pipe_free_ps, slot % shared.num_sms, now, use_ps)
    slots.spent_ps[slot, SPENT_PIPE] += end - use_ps - now
    slots.spent_ps[slot, SPENT_COMPUTE] += use_ps
    return end


def place_cta(tables: Tables, slots: Slots, slot: int, number: int) -> None:
    """Sets a slot's grid indices to those of its warpgroup in CTA number `number` in dispatch order."""
    grid, band, indices = tables.grid, tables.band, slots.indices
    for i in range(len(grid)):
        indices[slot, 1 + i] = number % grid[i]
        number //= grid[i]
    if band < grid[0]:
        within = indices[slot, 1] + indices[slot, 2] * grid[0]
        first = within // (band * grid[1]) * band
        within -= first * grid[1]
        width = min(band, grid[0] - first)
        indices[slot, 1] = first + within % width
        indices[slot, 2] = within // width
    for i in range(len(grid)):
        if tables.descending[i]:
            indices[slot, 1 + i] = grid[i] - 1 - indices[slot, 1 + i]
        if i == tables.split:
            indices[slot, 1 + i] = indices[slot, 1 + i] * tables.warpgroups + slots.state[slot, WARPGROUP]


def take_item(tables: Tables, slots: Slots, shared: Shared, place: int, count: int, now: int) -> bool:
    """Takes and launches CTA number `count` of a resident CTA; whether there was one left."""
    items = slots.places.items
    number = place + count * tables.stride if tables.stride else shared.next_cta[0]
    if number >= shared.num_ctas:
        return False
    shared.next_cta[0] += 1
    started = now
    if count == 0 or tables.is_launched:
        started = book(shared.launcher_free_ps, 0, now, shared.launch_ps)
    column = FIRST_ITEM + 2 * (count % ((items.shape[1] - FIRST_ITEM) // 2))
    items[place, NUM_TAKEN], items[place, column], items[place, column + 1] = count + 1, number, started
    return True


def all_ended(tables: Tables, slots: Slots, shared: Shared, slot: int, count: int, now: int) -> bool:
    """Whether all warpgroups are through with `count` CTAs: hardware launches none before all of the last has ended."""
    state = slots.state
    if state[slot, NUM_ENDED] < count:
        state[slot, NUM_ENDED] = count
        wake_warpgroups(tables, slots, shared, slot, now)
    first, least = slot - state[slot, WARPGROUP] * shared.num_sms, count
    for warpgroup in range(tables.warpgroups):
        least = min(least, state[first + warpgroup * shared.num_sms, NUM_ENDED])
    return bool(least == count)


def go_to_next_cta(tables: Tables, slots: Slots, shared: Shared, slot: int, now: int) -> int:
    """Retires the slot's CTA, when its last stores are in the write queue, and starts the next of its place."""
    state, spent, items = slots.state, slots.spent_ps, slots.places.items
    if state[slot, HAS_CTA]:
        state[slot, HAS_CTA] = 0
        retires: int = state[slot, ACCEPTED_PS] - shared.store_queue_ps
        if retires > now:
            spent[slot, SPENT_STORE] += retires - now
            return retires
    place, count = state[slot, PLACE], state[slot, NUM_BEGUN]
    if tables.is_launched and tables.warpgroups > 1 and not all_ended(tables, slots, shared, slot, count, now):
        state[slot, IS_SLEEPING] = 1
        return ASLEEP
    if count == items[place, NUM_TAKEN] and not take_item(tables, slots, shared, place, count, now):
        return ASLEEP
    column = FIRST_ITEM + 2 * (count % ((items.shape[1] - FIRST_ITEM) // 2))
    for i in range(tables.num_slots):
        slots.indices[slot, i] = 0
    place_cta(tables, slots, slot, items[place, column])
    started: int = max(now, items[place, column + 1])
    spent[slot, SPENT_LAUNCH] += started - now
    state[slot, NUM_BEGUN] = count + 1
    state[slot, HAS_CTA], state[slot, PROGRAM_ROW], state[slot, GO_ON] = 1, 0, AT_ROW
    return started


def start_row(tables: Tables, slots: Slots, memory: MemoryState, shared: Shared, slot: int, now: int) -> int:
    """Starts the program row the slot is at."""
    state, program = slots.state, tables.program
    row = state[slot, PROGRAM_ROW]
    operation = program[row, OPERATION]
    if operation == STRAIGHT:
        return start_straight(tables, slots, memory, shared, slot, now)
    if operation == MAIN_LOOP:
        start_main_loop(tables, slots, memory, shared, slot, now)
    elif operation == OUTER_LOOP:
        slots.indices[slot, program[row, OUTER_SLOT]] = 0
        state[slot, PROGRAM_ROW] = program[row, FIRST_BODY]
    elif operation == NEXT_TRIP:
        next_trip(tables, slots, slot, program[row, OUTER_ROW])
    else:
        state[slot, GO_ON] = AT_NEXT_CTA
    return AWAKE


def next_trip(tables: Tables, slots: Slots, slot: int, outer: int) -> None:
    """Goes on with the next iteration of an outer loop, or behind it."""
    program = tables.program
    value = slots.indices[slot, program[outer, OUTER_SLOT]] + 1
    if value == program[outer, OUTER_TRIPS]:
        slots.state[slot, PROGRAM_ROW] = program[outer, AFTER]
        return
    slots.indices[slot, program[outer, OUTER_SLOT]] = value
    is_last = value == program[outer, OUTER_TRIPS] - 1
    slots.state[slot, PROGRAM_ROW] = program[outer, LAST_BODY] if is_last else program[outer, MIDDLE_BODY]


def start_straight(tables: Tables, slots: Slots, memory: MemoryState, shared: Shared, slot: int, now: int) -> int:
    """Issues the loads of straight-line code; what needs them waits."""
    state, program = slots.state, tables.program
    row = state[slot, PROGRAM_ROW]
    for i in range(program[row, FIRST_LOAD], program[row, END_LOAD]):
        arrival = load_access(tables, slots, memory, shared, slot, tables.refs[i], now)
        state[slot, PENDING_PS] = max(state[slot, PENDING_PS], arrival)
    state[slot, GO_ON] = AT_USE
    needs_loads = program[row, USE_PS] or program[row, END_STORE] > program[row, FIRST_STORE]
    pending: int = state[slot, PENDING_PS]
    if needs_loads and pending > now:
        slots.spent_ps[slot, SPENT_LOAD] += pending - now
        return pending
    return AWAKE


def use_straight(tables: Tables, slots: Slots, shared: Shared, slot: int, now: int) -> int:
    """Holds the compute pipe for straight-line code."""
    slots.state[slot, GO_ON] = AT_STORES
    use_ps = tables.program[slots.state[slot, PROGRAM_ROW], USE_PS]
    return hold_pipe(slots, shared, slot, now, use_ps) if use_ps else AWAKE


def store_straight(tables: Tables, slots: Slots, memory: MemoryState, slot: int, now: int) -> int:
    """Posts the stores of straight-line code."""
    state, program = slots.state, tables.program
    row = state[slot, PROGRAM_ROW]
    for i in range(program[row, FIRST_STORE], program[row, END_STORE]):
        store_access(tables, slots, memory, slot, tables.refs[i], now)
    state[slot, PROGRAM_ROW], state[slot, GO_ON] = row + 1, AT_ROW
    return AWAKE


def trips_of(tables: Tables, slots: Slots, slot: int, loop: int) -> int:
    """Iterations of an innermost loop that the slot's CTA does."""
    loops = tables.loops
    most: int = loops[loop, LOOP_TRIPS]
    group = loops[loop, LOOP_DIAGONAL_GROUP]
    if group == 0:
        return most
    block = slots.indices[slot, loops[loop, LOOP_DIAGONAL_SLOT]] // group
    queries = -(-(block + 1) * loops[loop, LOOP_DIAGONAL_ROWS] // loops[loop, LOOP_DIAGONAL_PACKED])
    keys = queries + loops[loop, LOOP_DIAGONAL_SHIFT]
    trips: int = max(1, min(most, -(-keys // loops[loop, LOOP_DIAGONAL_COLS])))
    return trips


def wake_warpgroups(tables: Tables, slots: Slots, shared: Shared, slot: int, now: int) -> None:
    """Wakes the warpgroups of a CTA that wait for a tile to be asked for."""
    state = slots.state
    first = slot - state[slot, WARPGROUP] * shared.num_sms
    for warpgroup in range(tables.warpgroups):
        other = first + warpgroup * shared.num_sms
        if state[other, IS_SLEEPING]:
            state[other, IS_SLEEPING] = 0
            slots.wakes_ps[other], slots.sequence[other] = now, shared.next_sequence[0]
            shared.next_sequence[0] += 1
            replay(slots, other)


def ask_tile(
    tables: Tables, slots: Slots, memory: MemoryState, shared: Shared, slot: int, loop: int, load: int, now: int
) -> None:
    """Asks for a stream's next tile, if its stage is free, and wakes who waits for one."""
    places, loads, place = slots.places, tables.loads, slots.state[slot, PLACE]
    tile, at = places.asked[place, load], NUM_SHARED * loop
    if tile >= places.loops[place, at + FRONT_END]:
        return
    first, stages = slot - slots.state[slot, WARPGROUP] * shared.num_sms, loads[load, LOAD_STAGES]
    for warpgroup in range(tables.warpgroups):
        if tile >= slots.released[first + warpgroup * shared.num_sms, load] + stages:
            return
    front = places.loops[place, at + FRONT]
    slots.indices[front, tables.loops[loop, LOOP_SLOT]] = tile - places.loops[place, at + BEGIN]
    arrival = load_access(tables, slots, memory, shared, front, loads[load, LOAD_ACCESS], now)
    places.ready_ps[place, loads[load, LOAD_READY] + tile % stages] = arrival
    places.asked[place, load] = tile + 1
    if tables.warpgroups > 1:
        wake_warpgroups(tables, slots, shared, slot, now)


def start_main_loop(tables: Tables, slots: Slots, memory: MemoryState, shared: Shared, slot: int, now: int) -> None:
    """Enters an innermost loop; a CTA's first warpgroup to come asks for as many tiles as have a free stage."""
    state, loops, loads = slots.state, tables.loops, tables.loads
    loop, place = tables.program[state[slot, PROGRAM_ROW], LOOP], state[slot, PLACE]
    trips, tile = trips_of(tables, slots, slot, loop), slots.entered[slot, loop]
    state[slot, TRIPS], state[slot, FIRST_TILE] = trips, tile
    slots.entered[slot, loop] = tile + trips
    at, in_front = NUM_SHARED * loop, slots.places.loops
    if tile == in_front[place, at + FRONT_END]:
        in_front[place, at + FRONT], in_front[place, at + BEGIN], in_front[place, at + FRONT_END] = (
            slot,
            tile,
            tile + trips,
        )
        first, end, most = loops[loop, LOOP_FIRST_LOAD], loops[loop, LOOP_END_LOAD], 0
        for load in range(first, end):
            most = max(most, loads[load, LOAD_STAGES])
        for ahead in range(most):
            for load in range(first, end):
                if ahead < loads[load, LOAD_STAGES]:
                    ask_tile(tables, slots, memory, shared, slot, loop, load, now)
    state[slot, EARLIEST_PS] = max(state[slot, PENDING_PS], now)
    state[slot, ENTRY_PS] = loops[loop, LOOP_ENTRY_PS]
    state[slot, TRIP], state[slot, PHASE] = 0, loops[loop, LOOP_FIRST_PHASE]
    state[slot, SINCE_PS], state[slot, GO_ON] = now, AT_PHASE


def start_phase(tables: Tables, slots: Slots, slot: int, now: int) -> int:
    """Waits until the tiles that a phase reads have arrived, and no earlier than its step may start."""
    state, loads, places, phase = slots.state, tables.loads, slots.places, slots.state[slot, PHASE]
    place, tile, arrived = state[slot, PLACE], state[slot, FIRST_TILE] + state[slot, TRIP], now
    for i in range(tables.phases[phase, PHASE_FIRST_WAIT], tables.phases[phase, PHASE_END_WAIT]):
        load = tables.refs[i]
        if places.asked[place, load] <= tile:
            state[slot, IS_SLEEPING] = 1
            return ASLEEP
        stage = tile % loads[load, LOAD_STAGES]
        arrived = max(arrived, places.ready_ps[place, loads[load, LOAD_READY] + stage])
    start: int = max(arrived, state[slot, EARLIEST_PS]) + state[slot, ENTRY_PS]
    state[slot, ENTRY_PS] = 0
    state[slot, GO_ON] = AT_PHASE_USE
    since = state[slot, SINCE_PS]
    if start > since:
        slots.spent_ps[slot, SPENT_LOAD] += arrived - since
        slots.spent_ps[slot, SPENT_SYNC] += start - arrived
    return start if start > now else AWAKE


def use_phase(tables: Tables, slots: Slots, shared: Shared, slot: int, now: int) -> int:
    """Holds the compute pipe for a phase."""
    state = slots.state
    state[slot, GO_ON] = AT_PHASE_END
    loop = tables.program[state[slot, PROGRAM_ROW], LOOP]
    has_mask = state[slot, TRIP] >= state[slot, TRIPS] - tables.loops[loop, LOOP_NUM_LAST]
    use_ps = tables.phases[state[slot, PHASE], PHASE_LAST_USE_PS if has_mask else PHASE_USE_PS]
    return hold_pipe(slots, shared, slot, now, use_ps) if use_ps else AWAKE


def end_phase(tables: Tables, slots: Slots, memory: MemoryState, shared: Shared, slot: int, now: int) -> int:
    """Posts a phase's stores, frees the stages it was the last to read, and goes to the next phase or iteration."""
    state, loops, phases = slots.state, tables.loops, tables.phases
    loop = tables.program[state[slot, PROGRAM_ROW], LOOP]
    phase = state[slot, PHASE]
    slots.indices[slot, loops[loop, LOOP_SLOT]] = state[slot, TRIP]
    for i in range(phases[phase, PHASE_FIRST_STORE], phases[phase, PHASE_END_STORE]):
        store_access(tables, slots, memory, slot, tables.refs[i], now)
    for i in range(phases[phase, PHASE_FIRST_ISSUE], phases[phase, PHASE_END_ISSUE]):
        load = tables.refs[i]
        slots.released[slot, load] += 1
        ask_tile(tables, slots, memory, shared, slot, loop, load, now)
    state[slot, SINCE_PS], state[slot, GO_ON], state[slot, PHASE] = now, AT_PHASE, phase + 1
    if phase + 1 == loops[loop, LOOP_END_PHASE]:
        end_trip(tables, slots, slot, loop, now)
    return AWAKE


def end_trip(tables: Tables, slots: Slots, slot: int, loop: int, now: int) -> None:
    """Goes to the next iteration of an innermost loop, or behind it."""
    state, loops = slots.state, tables.loops
    state[slot, PHASE] = loops[loop, LOOP_FIRST_PHASE]
    state[slot, TRIP] += 1
    state[slot, EARLIEST_PS] = now + loops[loop, LOOP_STEP_PS]
    if state[slot, TRIP] == state[slot, TRIPS]:
        state[slot, PENDING_PS] = state[slot, EARLIEST_PS]
        state[slot, PROGRAM_ROW] += 1
        state[slot, GO_ON] = AT_ROW


def advance(tables: Tables, slots: Slots, memory: MemoryState, shared: Shared, slot: int, now: int) -> int:
    """Runs one slot until it has to wait; returns when it wakes, or ASLEEP when no CTA is left."""
    wakes = AWAKE
    while wakes == AWAKE:
        go_on = slots.state[slot, GO_ON]
        if go_on == AT_PHASE:
            wakes = start_phase(tables, slots, slot, now)
        elif go_on == AT_PHASE_USE:
            wakes = use_phase(tables, slots, shared, slot, now)
        elif go_on == AT_PHASE_END:
            wakes = end_phase(tables, slots, memory, shared, slot, now)
        elif go_on == AT_ROW:
            wakes = start_row(tables, slots, memory, shared, slot, now)
        elif go_on == AT_USE:
            wakes = use_straight(tables, slots, shared, slot, now)
        elif go_on == AT_STORES:
            wakes = store_straight(tables, slots, memory, slot, now)
        else:
            wakes = go_to_next_cta(tables, slots, shared, slot, now)
    return wakes


def is_before(wakes_ps: Ints, sequence: Ints, first: int, second: int) -> bool:
    """Whether a slot wakes before another: earlier, or at the same time and asked for earlier."""
    if wakes_ps[first] != wakes_ps[second]:
        return bool(wakes_ps[first] < wakes_ps[second])
    return bool(sequence[first] < sequence[second])


def replay(slots: Slots, slot: int) -> None:
    """Plays a slot's matches again after its time changed."""
    tree, wakes_ps, sequence = slots.tree, slots.wakes_ps, slots.sequence
    node = (len(wakes_ps) + slot) // 2
    while node > 0:
        left, right = tree[2 * node], tree[2 * node + 1]
        tree[node] = left if is_before(wakes_ps, sequence, left, right) else right
        node //= 2


def run_kernel(tables: Tables, slots: Slots, memory: MemoryState, shared: Shared, now: int) -> int:
    """Runs every CTA of a kernel from `now` on; returns when the last slot has no work left."""
    for slot in range(len(slots.state)):
        wakes = advance(tables, slots, memory, shared, slot, now)
        if wakes != ASLEEP:
            slots.wakes_ps[slot], slots.sequence[slot] = wakes, shared.next_sequence[0]
            shared.next_sequence[0] += 1
    for slot in range(len(slots.wakes_ps)):
        replay(slots, slot)
    while True:
        slot = slots.tree[1]
        if slots.wakes_ps[slot] == NEVER_PS:
            return now
        now = slots.wakes_ps[slot]
        wakes = advance(tables, slots, memory, shared, slot, now)
        slots.wakes_ps[slot] = NEVER_PS if wakes == ASLEEP else wakes
        slots.sequence[slot] = shared.next_sequence[0]
        shared.next_sequence[0] += 1
        replay(slots, slot)
