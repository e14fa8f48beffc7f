"""When a function is no longer called: a pure machine over what happened."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.functions import breaker
from eddyline.functions.breaker import (
    NOTHING_FAILED,
    Breaker,
    Streaks,
    failure_streaks,
    lost_streaks,
    returned_streaks,
    setup_failed,
)

SLOW = ("slow", "v1")


def opened(*events: Streaks) -> str:
    machine = Breaker()
    return [machine.add(SLOW, event) for event in events][-1]


def test_three_calls_in_a_row_that_are_lost_open_it():
    assert opened(lost_streaks("it died"), lost_streaks("it died")) == ""
    assert opened(
        lost_streaks("it died"), lost_streaks("it died"), lost_streaks("function slow took longer than 2 s")
    ) == ("3 calls in a row were lost, the last because function slow took longer than 2 s")
    assert (
        opened(lost_streaks("x"), lost_streaks("x"), returned_streaks(), lost_streaks("x"), lost_streaks("x"))
        == ""
    )


def test_three_setups_in_a_row_that_fail_open_it():
    failed = (
        setup_failed("setup of function slow raised OSError: no model"),
        failure_streaks(5, 5, "no model"),
    )
    assert opened(*failed, *failed) == ""
    assert opened(*failed, returned_streaks(), *failed, *failed) == ""
    assert (
        opened(*failed, *failed, setup_failed("no model"))
        == "its setup failed 3 times in a row, the last time: no model"
    )


def test_a_thousand_rows_in_a_row_that_fail_open_it_if_they_came_in_three_calls():
    assert opened(failure_streaks(5_000, 5_000, "m"), failure_streaks(1, 1, "m")) == ""
    assert opened(failure_streaks(998, 998, "m"), failure_streaks(1, 1, "m"), failure_streaks(1, 1, "m")) == (
        "it failed on each of the last 1,000 rows, the last time: m"
    )
    assert (
        opened(failure_streaks(997, 997, "m"), failure_streaks(1, 1, "m"), failure_streaks(1, 1, "m")) == ""
    )
    assert (
        opened(
            failure_streaks(900, 900, "m"),
            failure_streaks(99, 98, "m"),
            failure_streaks(300, 300),
            failure_streaks(300, 300),
            failure_streaks(300, 300),
        )
        == ""
    )


def test_no_rows_are_nothing():
    assert failure_streaks(0, 0) == NOTHING_FAILED


def test_functions_and_their_versions_do_not_know_each_other():
    machine = Breaker()
    for key in (("slow", "v1"), ("slow", "v2"), ("other", "v1")):
        assert [machine.add(key, lost_streaks("x")) for _ in range(2)] == ["", ""]
    assert machine.add(("slow", "v2"), lost_streaks("x")) != ""
    assert machine.add(("slow", "v1"), returned_streaks()) == ""


def test_once_open_it_stays_so_until_it_is_closed_and_then_starts_from_zero():
    machine = Breaker()
    why = [machine.add(SLOW, lost_streaks("x")) for _ in range(3)][-1]
    assert machine.add(SLOW, returned_streaks()) == why
    machine.close(SLOW)
    assert machine.snapshot() == {}
    assert [machine.add(SLOW, lost_streaks("x")) for _ in range(2)] == ["", ""]


EVENTS = st.one_of(
    st.just(returned_streaks()),
    st.just(lost_streaks("lost")),
    st.just(setup_failed("setup")),
    st.integers(1, 900).flatmap(
        lambda n: st.integers(max(0, n - 1), n).map(lambda failed: failure_streaks(n, failed, "row"))
    ),
)


def is_too_much(events: list[Streaks]) -> bool:
    """By looking at every stretch of what happened, of each kind by itself."""

    def longest(is_kind, ends) -> list[list[Streaks]]:
        runs: list[list[Streaks]] = [[]]
        for event in events:
            if ends(event):
                runs.append([])
            elif is_kind(event):
                runs[-1].append(event)
        return runs

    calls = longest(lambda e: e.n_lost, lambda e: e.has_returned)
    setups = longest(lambda e: e.n_setups, lambda e: e.has_returned)
    rows = longest(lambda e: e.n_rows, lambda e: e.was_good)
    return (
        any(len(run) >= 3 for run in calls)
        or any(len(run) >= 3 for run in setups)
        or any(len(run) >= 3 and sum(e.n_rows for e in run) >= 1000 for run in rows)
    )


@given(st.lists(EVENTS, max_size=12))
def test_it_opens_exactly_when_some_streak_is_too_long(events):
    machine = Breaker()
    said = [machine.add(SLOW, event) for event in events]
    assert bool(said and said[-1]) == is_too_much(events)


@given(st.lists(EVENTS, max_size=12), st.data())
def test_what_workers_saw_together_never_opens_it_sooner(events, data):
    """Streaks that a task begins with are not added to those the one before ended with, if something went well in it."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(events)), max_size=3)))
    machine = Breaker()
    said = ""
    for first, end in zip([0, *cuts], [*cuts, len(events)], strict=True):
        task = NOTHING_FAILED
        for event in events[first:end]:
            task = task.then(event)
        said = machine.add(SLOW, task)
    assert not said or is_too_much(events)


@pytest.mark.parametrize("n_tasks", [1, 2, 3])
def test_tasks_that_only_lost_calls_add_up(n_tasks):
    machine = Breaker()
    said = [machine.add(SLOW, lost_streaks("x").then(failure_streaks(1, 1, "x"))) for _ in range(n_tasks)]
    assert bool(said[-1]) == (n_tasks >= breaker.MOST_LOST)
