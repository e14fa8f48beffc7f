"""Time as retention counts it, and what is told of what it removed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from eddyline.engine.retention import LONGEST_STEP_US, Removal, Removals, RetentionClock

DAY_US = 86_400_000_000
S = 1_000_000


class Machine:
    """A machine whose clock can be set, and that can be started again."""

    def __init__(self) -> None:
        self.wall_us, self.up_us, self.boot = 1000 * DAY_US, 0, "first"

    def now_us(self) -> int:
        return self.up_us

    def passes(self, us: int) -> None:
        self.wall_us += us
        self.up_us += us

    def clock(self, before: RetentionClock | None = None) -> RetentionClock:
        stored = None if before is None else before.as_text()
        return RetentionClock(lambda: self.wall_us, self, stored)  # type: ignore[arg-type]


def test_time_passes_as_the_machine_is_up_whatever_its_clock_is_set_to():
    machine = Machine()
    clock = machine.clock()
    begun = clock.now_us()
    machine.passes(5 * S)
    assert clock.now_us() - begun == 5 * S
    machine.wall_us += 400 * DAY_US
    machine.passes(2 * S)
    assert clock.now_us() - begun == 7 * S
    machine.wall_us -= 900 * DAY_US  # what passed meanwhile is not known, and does not count
    machine.passes(3 * S)
    assert clock.now_us() - begun == 7 * S
    machine.passes(100 * DAY_US)  # asleep, say
    assert clock.now_us() - begun == 7 * S + 100 * DAY_US


def test_a_process_that_starts_again_on_the_same_machine_counts_all_that_passed():
    machine = Machine()
    before = machine.clock()
    begun = before.now_us()
    machine.passes(8 * DAY_US)
    assert machine.clock(before).now_us() - begun == 8 * DAY_US


def test_across_a_start_of_the_machine_a_step_is_an_hour_at_most():
    machine = Machine()
    before = machine.clock()
    begun = before.now_us()
    machine.boot, machine.up_us = "second", 10
    machine.wall_us += 400 * DAY_US
    after = machine.clock(before)
    assert after.now_us() - begun == LONGEST_STEP_US == 3_600 * S
    machine.passes(7 * S)
    assert after.now_us() - begun == LONGEST_STEP_US + 7 * S
    machine.boot = "third"
    machine.wall_us -= 1000 * DAY_US
    assert machine.clock(after).now_us() - begun == LONGEST_STEP_US + 7 * S


@given(st.lists(st.tuples(st.integers(-500, 500), st.integers(0, 5), st.booleans(), st.booleans())))
def test_it_never_goes_back_and_a_restart_changes_nothing(steps):
    machine = Machine()
    clock = machine.clock()
    last, passed_us, n_starts = clock.now_us(), 0, 0
    begun = last
    for jump_days, up_hours, starts, restarts in steps:
        machine.wall_us += jump_days * DAY_US
        machine.passes(up_hours * 3_600 * S)
        passed_us += up_hours * 3_600 * S
        if starts:
            n_starts += 1
            machine.boot, machine.up_us = f"start {n_starts}", 0
        if restarts or starts:
            clock = machine.clock(clock)
        now = clock.now_us()
        assert last <= now <= begun + passed_us + n_starts * LONGEST_STEP_US
        assert machine.clock(clock).now_us() == now
        last = now


def test_a_clock_that_is_not_the_machines_goes_on_by_an_hour_at_most():
    now = [0]
    clock = RetentionClock(lambda: now[0], None, None)
    for at_us, counted_us in (
        (5 * S, 5 * S),
        (400 * DAY_US, 3_605 * S),
        (1, 3_605 * S),
        (2 * S + 1, 3_607 * S),
    ):
        now[0] = at_us
        assert clock.now_us() == counted_us


def test_what_was_removed_is_told_at_once_and_then_once_a_minute_altogether():
    removals = Removals(None)
    first = Removal("results", 3, 10)
    first.of.update({1: 2, 2: 1})
    removals.add(first, removals.with_(first))
    assert [(each.n, each.until_us, dict(each.of)) for each in removals.due(0)] == [(3, 10, {1: 2, 2: 1})]
    for until_us in (20, 30):
        more = Removal("results", 1, until_us)
        more.of.update({2: 1})
        removals.add(more, removals.with_(more))
        assert list(removals.due(59 * S)) == []
    removals.add(Removal("rounds", 0))
    assert [(each.n, each.until_us, dict(each.of)) for each in removals.due(60 * S)] == [(2, 30, {2: 2})]
    assert removals.totals == {"results": (5, 30)}
    assert Removals(removals.with_(Removal("results", 1))).totals == {"results": (6, 30)}
