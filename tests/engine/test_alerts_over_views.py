"""Alerts over a view of a table: what the view hands on opens and resolves them, through updates, new generations, restarts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import eddyline

DELETE = {"_change_type": "delete"}


class Failure(Exception):
    """The process ends here."""


class Alerted:
    """A table q, a view over it, and an alert over the view, by k."""

    def __init__(self, home: Path | None) -> None:
        self._home, self._now_us = home, 0
        self.engine = self._opened()
        self.engine.sql("CREATE TABLE q (id INT PRIMARY KEY, k INT, n INT)")
        self.engine.query("SELECT id, k, n FROM q WHERE n > 10", name="v")
        self.engine.query("SELECT id, k, n FROM v WHERE n < 100", name="alert", per="k", severity="error")

    def _opened(self) -> eddyline.Engine:
        return eddyline.open(self._home, clock=self._clock)

    def _clock(self) -> int:
        self._now_us += 1_000_000
        return self._now_us

    def push(self, *rows: tuple[int, int, int] | int) -> None:
        """Rows, or the ids of those that are deleted."""
        self.engine.push(
            "q",
            [
                {"id": row, **DELETE}
                if isinstance(row, int)
                else dict(zip(("id", "k", "n"), row, strict=True))
                for row in rows
            ],
        )

    def open(self, name: str = "alert") -> list[tuple[Any, int]]:
        """Keys, and how many rows each has."""
        return [(alert.key.get("k"), alert.n_rows) for alert in self.engine.alerts(name)]

    def said(self) -> list[tuple[str, Any]]:
        return [(message.status, message.key.get("k")) for message in self.engine.messages()]

    def reopen(self) -> None:
        self.engine.close()
        self.engine = self._opened()


@pytest.fixture(params=["memory", "home"])
def alerted(request, tmp_path) -> Iterator[Alerted]:
    made = Alerted(tmp_path / "home" if request.param == "home" else None)
    yield made
    made.engine.close()


def test_rows_of_the_view_open_an_alert_and_the_last_that_leaves_resolves_it(alerted):
    alerted.push((1, 1, 20), (2, 1, 30))
    alerted.push((1, 1, 25))  # an update
    assert alerted.open() == [(1, 2)]
    alerted.push((1, 1, 5))  # not in the view any more
    assert alerted.open() == [(1, 1)]
    alerted.push((2, 1, 100))  # in the view, and not in the alert
    assert alerted.open() == []
    assert alerted.said() == [("firing", 1), ("resolved", 1)]


def test_a_row_that_moves_to_another_key_leaves_the_first(alerted):
    alerted.push((1, 1, 20))
    alerted.push((1, 2, 20))
    assert alerted.open() == [(2, 1)]
    assert sorted(alerted.said()) == [("firing", 1), ("firing", 2), ("resolved", 1)]


def test_a_resumed_alert_counts_the_rows_that_are_there(alerted):
    alerted.push((1, 1, 20), (2, 1, 30))
    alerted.engine.get("alert").pause()
    alerted.engine.get("alert").resume()  # no round between them
    alerted.engine.tick()
    assert alerted.open() == [(1, 2)]
    alerted.push(1, 2)
    assert alerted.open() == []


def test_a_paused_view_goes_on_for_alerts_over_it_and_for_those_that_come_later(alerted):
    alerted.push((1, 1, 20))
    alerted.engine.get("v").pause()
    alerted.push((2, 1, 30))
    assert alerted.open() == [(1, 2)]
    alerted.engine.query("SELECT k, n FROM v WHERE n < 50", name="late", per="k", severity="warning")
    alerted.engine.tick()
    assert alerted.open("late") == [(1, 2)]
    alerted.engine.get("v").resume()
    alerted.engine.tick()
    assert alerted.open() == alerted.open("late") == [(1, 2)]
    assert alerted.said() == [("firing", 1), ("firing", 1)]


def test_alerts_over_a_replaced_view_begin_anew_with_what_it_has(alerted):
    alerted.push((1, 1, 20), (2, 1, 30))
    alerted.engine.query("SELECT id, k, n FROM q WHERE n > 25", name="v")
    alerted.engine.tick()
    assert alerted.open() == [(1, 1)]
    alerted.push(2)
    assert alerted.open() == []


def test_alerts_are_made_up_for_after_a_crash_between_commit_and_alerts(tmp_path):
    alerted = Alerted(tmp_path / "home")
    alerted.push((1, 1, 20))

    def stop(step: str) -> None:
        if step == "4b alert":
            raise Failure

    alerted.engine.rounds.at_step = stop
    for rows in ([(2, 1, 60), (1, 1, 21), (3, 3, 30)], [1, 3]):
        with pytest.raises(Failure):
            alerted.push(*rows)
    alerted.engine.rounds.at_step = lambda step: None
    alerted.reopen()
    alerted.engine.tick()
    assert alerted.open() == [(1, 1)]
    assert alerted.said() == [("firing", 1), ("firing", 3), ("resolved", 3)]
    alerted.push(2)
    assert alerted.open() == []
    alerted.engine.close()


def test_a_template_with_a_query_inside_reads_views(alerted):
    engine = alerted.engine
    engine.sql("CREATE TABLE s (k INT, x INT); CREATE TABLE w (id INT PRIMARY KEY, k INT)")
    engine.query("SELECT k, x FROM s WHERE x > 0", name="vs")
    engine.query_many(
        "SELECT i.x FROM (SELECT k, x FROM vs WHERE x > :low) i WHERE i.k IN (SELECT k FROM w WHERE id < :most)",
        params=[{"low": 1, "most": 9}, {"low": 5, "most": 2}],
        name="over-{low}",
    )
    engine.push("w", [(1, 7), (2, 7), (3, 8)])
    engine.push("s", [(7, 2), (7, 6), (8, 7), (8, 0), (9, 9)])
    found = {name: [result["x"] for result in engine.get(name).latest(10)] for name in ("over-1", "over-5")}
    assert found == {"over-1": [2, 6, 7], "over-5": [6]}
