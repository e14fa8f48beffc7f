"""Aggregates over joins, and of aggregates in one text: who sees which rows, through restarts and churn."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import eddyline
from eddyline.errors import EddylineError

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
DECLARATIONS = """
    CREATE TABLE a (k STRING, x BIGINT, ts TIMESTAMP) TBLPROPERTIES (time = 'ts');
    CREATE TABLE b (k STRING, y BIGINT, ts TIMESTAMP) TBLPROPERTIES (time = 'ts');
    CREATE TABLE q (id INT PRIMARY KEY, k STRING, n BIGINT)
"""
PAIRS = "SELECT a.k, count(*) AS n FROM a JOIN b ON a.k = b.k AND a.ts BETWEEN b.ts AND b.ts + INTERVAL 10 MINUTES GROUP BY a.k"
FRAMES = (
    "SELECT a.x, q.id, count(*) OVER (PARTITION BY a.k ORDER BY a.ts) AS n, lag(q.id) OVER (PARTITION BY a.k ORDER BY a.ts) AS p "
    "FROM a JOIN q ON a.k = q.k"
)
COUNTS = "SELECT k, count(*) AS n FROM a GROUP BY k"
SIZES = f"SELECT n, count(*) AS c FROM ({COUNTS}) GROUP BY n"
MINUTES = "SELECT k, window AS w, count(*) AS n FROM a GROUP BY k, window(ts, '1 minute')"
RISES = f"SELECT k, n, lag(n) OVER (PARTITION BY k ORDER BY w) AS p FROM ({MINUTES})"


def at(minute: int) -> datetime.datetime:
    return START + datetime.timedelta(minutes=minute)


@pytest.fixture(params=["goes on", "is opened again"])
def life(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """An engine that goes on, or whose home is opened again before every push."""
    return Life(tmp_path / "home", is_reopened=request.param == "is opened again")


class Life:
    def __init__(self, home: Path, *, is_reopened: bool) -> None:
        self._home, self._is_reopened = home, is_reopened
        self.engine = eddyline.open(home)
        self.engine.sql(DECLARATIONS)

    def push(self, **rows: list[tuple[Any, ...]]) -> None:
        if self._is_reopened:
            self.engine.close()
            self.engine = eddyline.open(self._home)
        names = {"a": ("k", "x", "ts"), "b": ("k", "y", "ts"), "q": ("id", "k", "n")}
        self.engine.push({s: [dict(zip(names[s], row, strict=True)) for row in rows[s]] for s in rows})

    def query(self, text: str, name: str, **properties: str) -> None:
        self.engine.query(text, name=name, **properties)

    def left(self, name: str) -> list[tuple[Any, ...]]:
        """The rows that stand."""
        found: list[tuple[Any, ...]] = []
        for result in self.engine.get(name).latest(1000):
            row = tuple(result.values())
            (found.remove if result.change in ("delete", "update_preimage") else found.append)(row)
        return sorted(found, key=repr)


def test_a_query_counts_no_combination_with_a_row_from_before_it_though_an_older_one_of_its_class_does(
    life: Life,
) -> None:
    life.query(PAIRS, "old")
    life.push(b=[("A", 1, at(1))])
    life.query(PAIRS, "young")
    life.push(b=[("A", 2, at(2))])
    life.push(a=[("A", 1, at(3))])
    life.push(a=[("A", 2, at(4))])
    assert (life.left("old"), life.left("young")) == ([("A", 4)], [("A", 2)])


def test_readers_of_a_union_of_joins_see_no_combination_with_a_row_from_before_them(life: Life) -> None:
    pairs = "SELECT a.x, b.y FROM a JOIN b ON a.k = b.k AND a.ts BETWEEN b.ts AND b.ts + INTERVAL 10 MINUTES"
    text = f"SELECT count(*) AS n FROM ({pairs} UNION ALL {pairs} WHERE b.y > 1)"
    life.query(text, "old")
    life.push(b=[("A", 1, at(1)), ("A", 2, at(1))])
    life.query(text, "young")
    life.push(a=[("A", 1, at(3))])
    assert (life.left("old"), life.left("young")) == ([(3,)], [(0,)])


def test_rows_of_frames_over_a_join_have_numbers_of_their_own_and_follow_each_other(life: Life) -> None:
    life.query(FRAMES, "frames")
    life.push(q=[(1, "A", 0), (2, "A", 0)])
    life.push(a=[("A", 1, at(1))])
    life.push(a=[("A", 2, at(2))])
    expected = [(1, 1, 1, None), (1, 2, 2, 1), (2, 1, 3, 2), (2, 2, 4, 1)]
    assert life.left("frames") == expected
    assert len({result.arrival for result in life.engine.get("frames").latest(10)}) == 4


def test_first_and_last_of_combinations_that_one_row_made_go_by_the_other_row(life: Life) -> None:
    text = "SELECT first(q.id) AS f, last(q.id) AS l, max_by(q.id, a.k) AS m FROM a JOIN q ON a.k = q.k"
    life.query(text, "ends")
    life.push(q=[(1, "A", 0), (2, "A", 0), (3, "A", 0)])
    life.push(a=[("A", 1, at(1))])
    assert life.left("ends") == [(1, 3, 3)]


def test_a_left_join_of_a_stream_with_a_table_has_the_windows_of_the_stream(life: Life) -> None:
    join = "a LEFT JOIN q ON a.k = q.k GROUP BY window(a.ts, '1 minute')"
    text = f"SELECT window.end AS w, count(*) AS n, count(q.id) AS m FROM {join}"
    life.query(text, "windows", emit="final")
    life.push(q=[(1, "A", 0)])
    life.push(a=[("A", 1, at(0)), ("B", 2, at(0))])
    assert life.left("windows") == []
    life.push(a=[("B", 3, at(1))])
    assert life.left("windows") == [(at(1), 2, 1)]


# ------------------------------------------------------------------------------------------- aggregates of aggregates


def test_what_is_in_a_query_begins_with_it_also_where_an_older_one_has_the_same_text(life: Life) -> None:
    life.query(SIZES, "old")
    life.push(a=[("A", 1, at(1)), ("B", 2, at(1))])
    life.query(SIZES, "young")
    life.push(a=[("A", 3, at(2))])
    assert (life.left("old"), life.left("young")) == ([(1, 1), (2, 1)], [(1, 1)])


def test_frames_over_final_windows_go_on_and_begin_with_their_query(life: Life) -> None:
    life.query(RISES, "old", emit="final")
    life.push(a=[("A", 1, at(1)), ("B", 1, at(1))])
    life.query(RISES, "young", emit="final")
    life.push(a=[("A", 1, at(2)), ("A", 1, at(2))])
    life.push(a=[("A", 1, at(3))])
    assert life.left("old") == [("A", 1, None), ("A", 2, 1), ("B", 1, None)]
    assert life.left("young") == [("A", 2, None)]
    assert len({result.arrival for result in life.engine.get("old").latest(10)}) == 3


def test_queries_of_one_version_share_what_is_in_them(tmp_path: Path) -> None:
    with eddyline.open() as engine:
        engine.sql(DECLARATIONS)
        texts = [f"{SIZES} HAVING count(*) > {k}" for k in range(5)]
        engine.query_many(texts)
        engine.push("a", [{"k": "A", "x": 1, "ts": at(1)}])
        (of_rows, of_groups) = engine.rounds.flow.snapshot()["aggregates"]
        assert [name.split()[0] for name in (of_rows, of_groups)] == ["subquery", "subquery"]
        engine.query(texts[0])
        engine.push("a", [{"k": "A", "x": 1, "ts": at(1)}])
        assert len(engine.rounds.flow.snapshot()["aggregates"]) == 3


def test_a_query_that_is_resumed_begins_anew_and_one_that_is_registered_again_goes_on() -> None:
    with eddyline.open() as engine:
        engine.sql(DECLARATIONS)
        first, other = engine.query(SIZES, name="sizes"), engine.query(SIZES, name="other")
        engine.push("a", [{"k": "A", "x": 1, "ts": at(1)}])
        assert engine.query(SIZES, name="sizes").generation == first.generation == 1
        first.pause()
        engine.push("a", [{"k": "A", "x": 2, "ts": at(1)}])
        first.resume()
        engine.push("a", [{"k": "A", "x": 3, "ts": at(1)}])
        assert (first.latest(1), other.latest(1)) == ([{"n": 1, "c": 1}], [{"n": 3, "c": 1}])


@pytest.mark.parametrize(
    ("nested", "named"),
    [
        (SIZES, ["SELECT n, count(*) AS c FROM v GROUP BY n", COUNTS]),
        (f"WITH g AS ({COUNTS}) SELECT n, count(*) AS c FROM g GROUP BY n",
         ["SELECT n, count(*) AS c FROM v GROUP BY n", COUNTS]),
        (f"SELECT k, max(n) AS m FROM ({MINUTES}) GROUP BY k", ["SELECT k, max(n) AS m FROM v GROUP BY k", MINUTES]),
        (RISES, ["SELECT k, n, lag(n) OVER (PARTITION BY k ORDER BY w) AS p FROM v", MINUTES]),
        (f"SELECT a.x, g.n FROM a JOIN ({COUNTS}) g ON a.k = g.k", ["SELECT a.x, g.n FROM a JOIN v g ON a.k = g.k", COUNTS]),
        (f"SELECT q.k, sum(g.n) AS n FROM q JOIN ({COUNTS}) g ON q.k = g.k GROUP BY q.k",
         ["SELECT q.k, sum(g.n) AS n FROM q JOIN v g ON q.k = g.k GROUP BY q.k", COUNTS]),
        (f"SELECT id FROM q WHERE EXISTS (SELECT 1 FROM ({COUNTS}) g WHERE g.k = q.k AND g.n > 1)",
         ["SELECT id FROM q WHERE EXISTS (SELECT 1 FROM v g WHERE g.k = q.k AND g.n > 1)", COUNTS]),
        (f"SELECT id FROM q WHERE k IN (SELECT k FROM ({COUNTS}) WHERE n > 1)",
         ["SELECT id FROM q WHERE k IN (SELECT k FROM v WHERE n > 1)", COUNTS]),
        (f"SELECT DISTINCT n FROM ({COUNTS})", ["SELECT DISTINCT n FROM v", COUNTS]),
    ],
)  # fmt: skip
def test_one_text_tells_what_it_does_over_named_views(nested: str, named: list[str]) -> None:
    reader, view = named
    final = {"emit": "final"} if MINUTES in nested else {}

    def told(register: Callable[[eddyline.Engine], eddyline.Query]) -> list[Any]:
        with eddyline.open() as engine:
            engine.sql(DECLARATIONS)
            query = register(engine)
            engine.push("q", [{"id": 1, "k": "A", "n": 0}, {"id": 2, "k": "B", "n": 0}])
            for minute, keys in enumerate(("AAB", "AB", "CA", "BBB", "", "A")):
                engine.push("a", [{"k": k, "x": minute, "ts": at(minute)} for k in keys])
            return sorted((r.round_number, r.change, tuple(r.values())) for r in query.results())

    def over_a_view(engine: eddyline.Engine) -> eddyline.Query:
        engine.query(view, name="v", **final)
        return engine.query(reader)

    found = told(lambda engine: engine.query(nested, **final))
    assert found
    assert found == told(over_a_view)


def test_windows_inside_a_query_are_final_if_it_says_so_and_are_refused_if_they_change() -> None:
    with eddyline.open() as engine:
        engine.sql(DECLARATIONS)
        with pytest.raises(
            EddylineError, match="the subquery at line 1 has windows that change until they close"
        ):
            engine.query(RISES)
        with pytest.raises(EddylineError, match="property emit: a group without a window is never final"):
            engine.query(SIZES, emit="final")
        selection = engine.query(f"SELECT k, n FROM ({MINUTES}) WHERE n > 1", emit="final")
        engine.push("a", [{"k": "A", "x": 1, "ts": at(1)}, {"k": "A", "x": 1, "ts": at(1)}])
        assert selection.latest(1) == []
        engine.push("a", [{"k": "B", "x": 1, "ts": at(2)}])
        assert selection.latest(1) == [{"k": "A", "n": 2}]


def test_a_query_that_is_new_to_a_table_names_the_rows_that_were_there_and_fail() -> None:
    with eddyline.open() as engine:
        engine.sql(DECLARATIONS)
        engine.push("q", [{"id": 1, "k": "A", "n": 0}, {"id": 2, "k": "A", "n": 2}])
        shares = engine.query("SELECT k, sum(10 / n) AS total FROM q GROUP BY k", name="shares")
        engine.push("q", [{"id": 3, "k": "A", "n": 0}])
        again = engine.query("SELECT k, max(10 / n) AS hi FROM q GROUP BY k", name="again")
        engine.tick()
        dead = [(each.query, each.row["id"]) for each in engine.dead_letters()]
        assert sorted(dead) == [("again", 1), ("again", 3), ("shares", 1), ("shares", 3)]
        assert (shares.latest(1), again.latest(1)) == ([{"k": "A", "total": 5.0}], [{"k": "A", "hi": 5.0}])
