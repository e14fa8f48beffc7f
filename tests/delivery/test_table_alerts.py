"""How alerts over tables move, step by step."""

from __future__ import annotations

from eddyline.delivery.alerts import NEVER, AlertTiming, MatchingRow, alert_transitions, due_us, row_changes
from eddyline.model import AlertState

KEY = (1, 1, "k")


class Key:
    """One key; a round is what happened to its rows, such as "-+" for one that left and one that appeared."""

    def __init__(self, state: AlertState | None = None, **durations: int) -> None:
        self.timing = AlertTiming(**durations, is_over_tables=True)
        self.state = state
        self._round = 0

    def round(self, now: int, signs: str = "") -> list[str]:
        self._round += 1
        rows = [(MatchingRow(KEY, f"{self._round}-{at}"), sign == "+") for at, sign in enumerate(signs)]
        known = {} if self.state is None else {KEY: self.state}
        result = alert_transitions(now, [], known, lambda key: self.timing, {}, row_changes(rows))
        self.state = result.states.get(KEY, self.state)
        return [notice.status for notice in result.notices]


def test_signs_of_a_key_are_summed_before_anything_moves():
    key = Key()
    assert key.round(0, "+") == ["firing"]
    assert key.round(1, "-+") == []
    assert key.round(2, "++-") == []
    assert key.state is not None
    assert (key.state.n_rows, key.state.result) == (2, "3-1")
    assert key.round(3, "--") == ["resolved"]
    assert key.state is None


def test_what_comes_and_goes_in_a_round_is_nothing():
    key = Key()
    assert key.round(0, "+-") == []
    assert key.state is None


def test_time_passes_before_the_rows_of_a_round():
    key = Key(for_us=10)
    assert key.round(0, "+") == []
    assert key.round(10, "-") == ["firing", "resolved"]


def test_a_firing_alert_is_never_due():
    key = Key()
    key.round(0, "+")
    assert key.state is not None
    assert due_us(key.timing, key.state) == NEVER


def test_a_held_alert_fires_by_time_alone():
    key = Key(cooldown_us=10)
    assert key.round(0, "+") == ["firing"]
    assert key.round(1, "-") == ["resolved"]
    assert key.round(2, "+") == []
    assert key.state is not None
    assert (key.state.state, due_us(key.timing, key.state)) == ("held", 10)
    assert key.round(10) == ["firing"]


def test_an_alert_whose_rows_are_not_known_resolves_with_the_next_that_leaves():
    unknown = AlertState("firing", 0, 0, 0, 0, 0, "0-1")
    assert Key(unknown, resolve_us=60).round(5, "-") == ["resolved"]


def test_an_alert_whose_rows_are_not_known_stays_with_a_row_that_takes_the_place_of_another():
    key = Key(AlertState("firing", 0, 0, 0, 0, 0, "0-1"), resolve_us=60)
    assert key.round(5, "-+") == []
    assert key.state is not None
    assert key.state.n_rows == 1
    assert key.round(500) == []


def test_an_alert_whose_rows_are_not_known_resolves_after_resolve():
    unknown = AlertState("firing", 0, 0, 0, 0, 0, "0-1")
    assert Key(unknown, resolve_us=60).round(60) == ["resolved"]
