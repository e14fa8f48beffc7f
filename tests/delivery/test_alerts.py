"""How alerts move, beside an oracle that looks back."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from eddyline.delivery.alerts import COOLING, OPEN, AlertTiming, MatchingRow, alert_transitions, due_us
from eddyline.model import AlertState
from tests.oracles.alerts import expected

S = 1_000_000


class Machine:
    """One query, one round after the other; what is stored is what the machine gave."""

    def __init__(self, timing: AlertTiming) -> None:
        self.timing = timing
        self.states: dict[tuple[int, int, str], AlertState] = {}
        self.told: list[tuple] = []
        self.n_suppressed = 0
        self._round = 0

    def round(self, now: int, *keys: str, ended: str | None = None) -> list[tuple[str, str]]:
        self._round += 1
        rows = [MatchingRow((1, 1, key), f"{self._round}-{place}") for place, key in enumerate(keys)]
        reasons = {} if ended is None else {(1, 1): ended}
        result = alert_transitions(now, rows, self.states, lambda key: self.timing, reasons)
        for key, state in result.states.items():
            if state is None:
                self.states.pop(key, None)
            else:
                self.states[key] = state
        self.n_suppressed += len(result.suppressed_keys)
        self.told += [
            (self._round, t.key[2], t.status, t.state.n_rows, t.state.n_suppressed, t.state.first_us, t.state.result)
            for t in result.notices
        ]  # fmt: skip
        return [(told.status, told.key[2]) for told in result.notices]

    def state(self, key: str) -> str | None:
        state = self.states.get((1, 1, key))
        return None if state is None else state.state


def test_without_durations_every_row_fires_and_nothing_is_kept():
    machine = Machine(AlertTiming())
    assert machine.round(0, "a", "b", "a") == [("firing", "a"), ("firing", "b"), ("firing", "a")]
    assert machine.states == {}


def test_within_the_cooldown_an_instant_is_held_back_and_counted():
    machine = Machine(AlertTiming(cooldown_us=60))
    assert machine.round(0, "a", "a", "b") == [("firing", "a"), ("firing", "b")]
    assert machine.round(59, "a") == []
    assert machine.round(60, "a") == [("firing", "a")]
    assert machine.n_suppressed == 2
    assert [told[4] for told in machine.told if told[1] == "a"] == [
        0,
        2,
    ]  # what was held back before each firing


def test_a_key_is_forgotten_two_cooldowns_after_it_fired():
    machine = Machine(AlertTiming(cooldown_us=60))
    machine.round(0, "a", "a")
    machine.round(119)
    assert machine.state("a") == COOLING
    machine.round(120)
    assert machine.states == {}
    machine.round(121, "a")
    assert machine.told[-1][4] == 0


def test_an_alert_lasts_until_resolve_has_passed_without_a_row():
    machine = Machine(AlertTiming(resolve_us=10))
    assert machine.round(0, "a") == [("firing", "a")]
    assert machine.round(9, "a") == []
    assert machine.round(18) == []
    assert machine.round(19) == [("resolved", "a")]
    assert machine.states == {}


def test_a_row_that_comes_when_it_is_due_opens_the_next_one():
    machine = Machine(AlertTiming(resolve_us=10))
    machine.round(0, "a")
    assert machine.round(10, "a") == [("resolved", "a"), ("firing", "a")]


def test_it_is_pending_until_its_rows_span_for():
    machine = Machine(AlertTiming(for_us=20, resolve_us=15))
    assert machine.round(0, "a") == []
    assert machine.round(10, "a") == []
    assert machine.state("a") == "pending"
    assert machine.round(20, "a") == [("firing", "a")]


def test_a_gap_starts_for_anew():
    machine = Machine(AlertTiming(for_us=20, resolve_us=15))
    machine.round(0, "a")
    assert machine.round(15, "a") == []  # resolved in silence, and open again
    assert machine.round(20, "a") == []
    assert machine.round(34, "a") == []
    assert machine.round(35, "a") == [("firing", "a")]


def test_opened_again_within_the_cooldown_it_is_held_and_told_after_it():
    machine = Machine(AlertTiming(cooldown_us=100, resolve_us=10))
    machine.round(0, "a")
    assert machine.round(10) == [("resolved", "a")]
    assert machine.round(95, "a") == []
    assert machine.state("a") == "held"
    assert machine.round(99, "a") == []
    assert machine.round(100, "a") == [("firing", "a")]
    assert machine.n_suppressed == 1
    assert machine.told[-1][3:6] == (3, 1, 95)


def test_one_that_was_held_resolves_in_silence():
    machine = Machine(AlertTiming(cooldown_us=100, resolve_us=10))
    machine.round(0, "a")
    machine.round(10)
    machine.round(20, "a")
    assert machine.round(30) == []
    assert machine.state("a") == COOLING


def test_what_fires_resolves_with_the_end_of_its_query_and_the_rest_goes_in_silence():
    machine = Machine(AlertTiming(for_us=5, resolve_us=100, cooldown_us=1))
    machine.round(0, "a", "b")
    machine.round(5, "a", "c")
    assert machine.round(6, ended="paused") == [("resolved", "a")]
    assert machine.states == {}


def test_resolutions_come_before_rows_the_longest_overdue_first():
    machine = Machine(AlertTiming(resolve_us=10))
    machine.round(0, "b")
    machine.round(1, "a")
    machine.round(1, "c")
    assert machine.round(20, "d") == [
        ("resolved", "b"),
        ("resolved", "a"),
        ("resolved", "c"),
        ("firing", "d"),
    ]


def test_a_round_of_an_earlier_time_makes_nothing_younger():
    machine = Machine(AlertTiming(resolve_us=10, cooldown_us=100))
    machine.round(50, "a")
    assert machine.round(45, "a", "b") == [("firing", "b")]
    assert machine.round(59) == [("resolved", "b")]
    assert machine.round(60) == [("resolved", "a")]


durations = st.integers(0, 12)


@st.composite
def histories(draw):
    """Rounds of a few keys over times that often meet the durations."""
    cooldown, resolve = draw(durations), draw(durations)
    for_ = draw(durations) if resolve else 0
    gaps = draw(st.lists(st.integers(0, 8), min_size=1, max_size=25))
    keys = [draw(st.lists(st.sampled_from("abc"), max_size=3)) for _ in gaps]
    time, rounds = 0, []
    for gap, mine in zip(gaps, keys, strict=True):
        time += gap
        rounds.append((time, mine))
    return rounds, AlertTiming(cooldown, for_, resolve)


def compared(machine: Machine, rounds) -> None:
    want = expected(rounds, *machine.timing[:3])
    got = [(number, key, status, n, held, since) for number, key, status, n, held, since, _ in machine.told]
    assert got == [(s.round_number, s.key, s.status, s.n_rows, s.n_suppressed, s.since) for s in want.said]
    rows = [told[6] for told in machine.told]
    assert rows == [f"{s.row.round_number}-{s.row.place}" for s in want.said]
    assert machine.n_suppressed == want.n_suppressed
    states = {
        key[2]: (s.state, s.first_us, s.last_us, s.n_rows)
        for key, s in machine.states.items()
        if s.state in OPEN
    }
    assert states == want.open


@given(histories())
def test_it_is_what_looking_back_says(history):
    rounds, timing = history
    machine = Machine(timing)
    for now, keys in rounds:
        machine.round(now, *keys)
        for state in machine.states.values():
            assert due_us(timing, state) > now
    compared(machine, rounds)


@given(histories(), st.data())
def test_where_rounds_of_one_time_are_cut_changes_nothing(history, data):
    rounds, timing = history
    whole, cut = Machine(timing), Machine(timing)
    for now, keys in rounds:
        whole.round(now, *keys)
        at = data.draw(st.integers(0, len(keys)))
        cut.round(now, *keys[:at])
        cut.round(now, *keys[at:])
    assert [told[1:6] for told in cut.told] == [told[1:6] for told in whole.told]
    assert cut.n_suppressed == whole.n_suppressed
    assert {k: s[:-1] for k, s in cut.states.items()} == {k: s[:-1] for k, s in whole.states.items()}


@given(histories(), st.data())
def test_a_tick_between_changes_nothing_but_when_a_resolution_is_told(history, data):
    rounds, timing = history
    machine, ticked, last = Machine(timing), Machine(timing), 0
    for now, keys in rounds:
        ticked.round(data.draw(st.integers(last, now)))
        machine.round(now, *keys)
        ticked.round(now, *keys)
        last = now
    fired = [told[1:6] for told in machine.told if told[2] == "firing"]
    assert [told[1:6] for told in ticked.told if told[2] == "firing"] == fired
    assert sorted(t[1:6] for t in ticked.told) == sorted(t[1:6] for t in machine.told)
    assert ticked.n_suppressed == machine.n_suppressed
