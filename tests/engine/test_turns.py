"""Turns: a round that has its group alone is waited for in order, and other groups go on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import pytest

from eddyline.engine.turns import GroupGrown, Turns
from eddyline.errors import GroupBusyError

DEADLINE_S = 60.0  # a thread that has not ended by then never will


class Worker:
    """A thread that takes a turn, says so, and ends it when it is let."""

    def __init__(
        self,
        turns: Turns,
        streams: Iterable[str],
        log: list[str],
        name: str,
        *,
        is_alone: bool = False,
        inside: Callable[[], None] = lambda: None,
    ) -> None:
        self.has_begun, self.may_end = threading.Event(), threading.Event()
        n_waiting = turns.n_waiting()

        def work() -> None:
            log.append(name)
            inside()
            self.has_begun.set()
            assert self.may_end.wait(DEADLINE_S)

        self._thread = threading.Thread(target=lambda: turns.run(streams, work, is_alone=is_alone))
        self._thread.start()
        while not self.has_begun.is_set() and turns.n_waiting() == n_waiting:
            threading.Event().wait(0.001)

    def end(self) -> None:
        self.may_end.set()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()


def test_pushes_of_a_group_share_a_turn() -> None:
    turns, log = Turns(), []
    one, other = Worker(turns, ["a"], log, "one"), Worker(turns, ["a"], log, "other")
    assert log == ["one", "other"]
    one.end()
    other.end()


def test_a_turn_held_alone_is_waited_for_first_come_first_served() -> None:
    turns, log = Turns(), []
    alone = Worker(turns, ["a"], log, "alone", is_alone=True)
    push = Worker(turns, ["a"], log, "push")
    second = Worker(turns, ["a"], log, "second", is_alone=True)
    later = Worker(turns, ["a"], log, "later")
    assert log == ["alone"]
    alone.end()
    assert push.has_begun.wait(DEADLINE_S)
    assert turns.n_waiting() == 2
    push.end()
    assert second.has_begun.wait(DEADLINE_S)
    second.end()
    later.end()
    assert log == ["alone", "push", "second", "later"]


def test_other_streams_do_not_wait() -> None:
    turns, log = Turns(), []
    alone = Worker(turns, ["A", "b"], log, "alone", is_alone=True)
    assert turns.run(["c"], lambda: "done") == "done"
    assert turns.busy() == {"a", "b"}
    assert [turns.is_held_up([name]) for name in ("a", "B", "c")] == [True, True, False]
    alone.end()
    assert turns.busy() == frozenset()


def test_all_streams_of_a_turn_are_taken_at_once_whatever_their_order() -> None:
    turns, n_done = Turns(), []
    threads = [
        threading.Thread(
            target=lambda names=names: [
                turns.run(names, lambda: n_done.append(1), is_alone=True) for _ in range(200)
            ]
        )
        for names in (["a", "b"], ["b", "a"], ["b", "c"], ["c", "a"])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert len(n_done) == 800


def test_a_thread_that_has_a_turn_goes_on_within_it_and_nobody_counts_it_as_busy() -> None:
    turns = Turns()
    found = turns.run(["a", "b"], lambda: turns.run(["B"], turns.busy), is_alone=True)
    assert found == frozenset()


def test_a_group_that_has_grown_takes_its_turn_anew_and_waits_for_all_of_it() -> None:
    turns, log = Turns(), []
    alone = Worker(turns, ["b"], log, "alone", is_alone=True)

    def plan() -> None:
        log.append("plan")
        turns.check(["a"], [frozenset({"a", "b"})])
        log.append("planned")

    thread = threading.Thread(target=lambda: turns.run(["a"], plan))
    thread.start()
    while turns.n_waiting() == 0:
        threading.Event().wait(0.001)
    assert log == ["alone", "plan"]
    alone.end()
    thread.join(DEADLINE_S)
    assert log == ["alone", "plan", "plan", "planned"]
    log.clear()
    turns.run(["a"], plan)  # what the last plan said is known
    assert log == ["plan", "planned"]


def test_a_turn_around_another_is_taken_anew_when_the_group_has_grown() -> None:
    turns, log = Turns(), []

    def outer() -> None:
        log.append("outer")
        turns.run(["a"], lambda: turns.check(["a"], [frozenset({"a", "b"})]))

    turns.run(["a"], outer)
    assert log == ["outer", "outer"]


def test_a_round_that_is_planned_outside_any_turn_is_refused() -> None:
    with pytest.raises(GroupGrown, match="a"):
        Turns().check(["a"], [])


def test_a_tick_needs_no_turn() -> None:
    turns, log = Turns(), []
    alone = Worker(turns, ["a"], log, "alone", is_alone=True)
    turns.run([], lambda: turns.check([], [frozenset({"a", "b"})]))
    alone.end()


def test_within_a_turn_another_that_is_taken_is_refused_instead_of_waited_for() -> None:
    turns, log = Turns(), []
    alone = Worker(turns, ["b"], log, "alone", is_alone=True)
    with pytest.raises(GroupBusyError) as refused:
        turns.run(["a"], lambda: turns.run(["b"], lambda: None))
    assert str(refused.value).splitlines()[0] == "a callback cannot push to b now"
    alone.end()
    assert turns.run(["a"], lambda: turns.run(["b"], lambda: "done")) == "done"


def test_a_turn_ends_with_the_error_of_its_round() -> None:
    turns = Turns()

    def fail() -> None:
        raise ValueError("of the round")

    with pytest.raises(ValueError, match="of the round"):
        turns.run(["a"], fail, is_alone=True)
    assert turns.run(["a"], lambda: "done", is_alone=True) == "done"
