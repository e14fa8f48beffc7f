"""What `eddyline tail` shows: the results of each round in the order of their cursors, also where tasks wrote several files."""

from __future__ import annotations

from typing import Any

import pytest

import eddyline
from eddyline.runtime import tail
from tests.on_workers import through_tasks


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    with eddyline.open(tmp_path_factory.mktemp("tailed") / "home") as found:
        found.stream("numbers", "n INT")
        found.query("SELECT n FROM numbers WHERE n > 1 UNION ALL SELECT -n FROM numbers", name="both")
        found.query("SELECT n FROM both WHERE n <> 3", name="read")  # by the driver, after the tasks
        through_tasks(found, n_pieces=2)
        for first in (1, 5):
            found.push("numbers", [{"n": n} for n in range(first, first + 4)])
        yield found


def places(engine: eddyline.Engine, **options: Any) -> list[tuple[int, int, int]]:
    asked = {"newest": None, "after": None, "follow": False} | options
    found = tail(engine.rounds, engine.rounds.durable, frozenset(), **asked)
    return [(each["round"], each["arrival"], each["query_id"]) for each in found if each is not None]


def test_results_of_a_round_come_in_the_order_of_their_cursors(engine):
    found = places(engine)
    assert len(found) == 3 + 4 + 6 + 8 + 8
    assert found == sorted(set(found))


def test_what_comes_after_a_cursor_is_all_that_was_not_shown(engine):
    found = places(engine)
    for at, (number, arrival, query_id) in enumerate(found, 1):
        assert places(engine, after=f"{number}-{arrival}-{query_id}") == found[at:]


@pytest.mark.parametrize("n", [0, 1, 5, 20, 99])
def test_the_newest_are_the_last_ones(engine, n):
    found = places(engine)
    assert places(engine, newest=n) == found[max(0, len(found) - n) :]
