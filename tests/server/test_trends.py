"""Results by minute, kept by the server within a bound."""

from __future__ import annotations

import numpy as np
import pytest

import eddyline
from eddyline.server import trends as trends_module
from eddyline.server.trends import Members, Trends


class Clock:
    def __init__(self) -> None:
        self.minute = 100

    def __call__(self) -> float:
        return self.minute * 60.0


@pytest.fixture
def engine():
    with eddyline.open() as opened:
        opened.stream("trades", "sym STRING, price DOUBLE")
        opened.query("SELECT sym FROM trades WHERE price < 10", name="cheap")
        opened.query_many(
            "SELECT sym FROM trades WHERE sym = :sym", params=[{"sym": s} for s in "ABC"], name="w-{sym}"
        )
        yield opened


def push(engine, *symbols: str) -> None:
    engine.push("trades", [{"sym": symbol, "price": 5.0} for symbol in symbols])


def watched(engine) -> tuple[Trends, Clock]:
    clock = Clock()
    trends = Trends(engine.rounds, clock)
    engine.on_event(trends.observe)
    return trends, clock


def test_results_are_counted_in_the_minute_of_their_round(engine):
    trends, clock = watched(engine)
    push(engine, "A", "A")
    clock.minute += 2
    push(engine, "B")  # the first round of another minute is not of the one it closes
    ids = np.array([1, 2, 3], np.int32)
    assert trends.of(ids, 4) == [[0, 2, 0, 1], [0, 2, 0, 0], [0, 0, 0, 1]]
    clock.minute += 1
    assert trends.of(ids, 4) == [[2, 0, 1, 0], [2, 0, 0, 0], [0, 0, 1, 0]]


def test_a_family_is_the_sum_of_its_rules(engine):
    trends, clock = watched(engine)
    push(engine, "A", "B", "B")
    clock.minute += 1
    push(engine, "C")
    family = Members(((2, 3),), np.empty(0, np.int32))
    one_by_one = Members((), np.array([2, 3, 4], np.int32))
    assert trends.of_families([family, one_by_one], 3) == [[0, 3, 1], [0, 3, 1]]


def test_memory_is_bounded_and_what_is_not_kept_is_not_said_to_be_nothing(engine, monkeypatch):
    monkeypatch.setattr(trends_module, "MOST_RULES", 1)
    trends, clock = watched(engine)
    for _ in range(trends_module.MINUTES + 5):
        push(engine, "A", "A", "B")
        clock.minute += 1
    ids = np.array([1, 3], np.int32)
    assert trends.of(ids, 3) == [[3, 3, 0], [None, None, 0]]
    assert trends.of_families([Members(((2, 3),), np.empty(0, np.int32))], 3) == [[3, 3, 0]]
    assert len(trends._minutes) == trends_module.MINUTES
