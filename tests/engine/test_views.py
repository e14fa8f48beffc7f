"""Queries that read other queries: views over streams and joins, joined again, in every place, at every cut, through restarts."""

from __future__ import annotations

import datetime
import random
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

import eddyline
from eddyline.errors import NotBuiltError, QueryStateError, SchemaError, UnknownNameError
from eddyline.receipts import Audit
from tests.on_workers import through_tasks
from tests.oracles.views import History, Query, Row, rows_of

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
LATENESS_S = 3
PLACES = ("in process", "in tasks", "workers join")
WITHIN = "INTERVAL 4 SECONDS"

# text, and the same for the oracle; times are whole seconds there
QUERIES: dict[str, tuple[str, Query]] = {
    "va": (
        "SELECT k, x + 1 AS x, ts FROM a WHERE x > 2",
        Query(
            ("a",), lambda a: a["x"] > 2, lambda a: {"k": a["k"], "x": a["x"] + 1, "ts": a["ts"]}, time="ts"
        ),
    ),
    "vva": (
        "SELECT k, ts FROM va WHERE x < 7",
        Query(("va",), lambda v: v["x"] < 7, lambda v: {"k": v["k"], "ts": v["ts"]}, time="ts"),
    ),
    "reader": (
        "SELECT x FROM va WHERE k = 1",
        Query(("va",), lambda v: v["k"] == 1, lambda v: {"x": v["x"]}),
    ),
    "ab": (
        f"SELECT a.k, a.x, b.y, b.ts FROM a JOIN b ON a.k = b.k AND a.ts BETWEEN b.ts AND b.ts + {WITHIN}",
        Query(
            ("a", "b"),
            lambda a, b: a["k"] == b["k"] and b["ts"] <= a["ts"] <= b["ts"] + 4,
            lambda a, b: {"k": a["k"], "x": a["x"], "y": b["y"], "ts": b["ts"]},
            time="ts",
        ),
    ),
    "of ab": (
        "SELECT x, y FROM ab WHERE x <> y",
        Query(("ab",), lambda v: v["x"] != v["y"], lambda v: {"x": v["x"], "y": v["y"]}),
    ),
    "diamond": (
        f"SELECT v.x, v.y, b.y AS z FROM ab v JOIN b ON v.k = b.k AND b.ts BETWEEN v.ts AND v.ts + {WITHIN}",
        Query(
            ("ab", "b"),
            lambda v, b: v["k"] == b["k"] and v["ts"] <= b["ts"] <= v["ts"] + 4,
            lambda v, b: {"x": v["x"], "y": v["y"], "z": b["y"]},
        ),
    ),
    "self": (
        f"SELECT o.x, p.x AS z FROM va o JOIN va p ON o.k = p.k AND p.ts BETWEEN o.ts AND o.ts + {WITHIN}",
        Query(
            ("va", "va"),
            lambda o, p: o["k"] == p["k"] and o["ts"] <= p["ts"] <= o["ts"] + 4,
            lambda o, p: {"x": o["x"], "z": p["x"]},
        ),
    ),
    "base": (
        f"SELECT v.ts, a.x FROM vva v JOIN a ON v.k = a.k AND a.ts BETWEEN v.ts - {WITHIN} AND v.ts",
        Query(
            ("vva", "a"),
            lambda v, a: v["k"] == a["k"] and v["ts"] - 4 <= a["ts"] <= v["ts"],
            lambda v, a: {"ts": v["ts"], "x": a["x"]},
        ),
    ),
    "of joins": (
        f"SELECT v.x, w.x AS z FROM ab v JOIN ab w ON v.k = w.k AND w.ts BETWEEN v.ts AND v.ts + {WITHIN}"
        " WHERE v.y < w.y",
        Query(
            ("ab", "ab"),
            lambda v, w: v["k"] == w["k"] and v["ts"] <= w["ts"] <= v["ts"] + 4 and v["y"] < w["y"],
            lambda v, w: {"x": v["x"], "z": w["x"]},
        ),
    ),
}


def opened(folder: Path, place: str) -> eddyline.Engine:
    engine = eddyline.open(folder / place, results_per_query=100_000)
    if not engine.streams():
        for name, column in (("a", "x"), ("b", "y")):
            engine.sql(
                f"CREATE TABLE {name} (k INT, {column} INT, ts TIMESTAMP) "
                f"TBLPROPERTIES (time='ts', lateness='{LATENESS_S} seconds')"
            )
    if place != PLACES[0]:
        through_tasks(engine, n_pieces=2, join_from_rows=1 if place == PLACES[2] else 1_000_000)
    return engine


def seconds(value: Any) -> Any:
    return int((value - START).total_seconds()) if isinstance(value, datetime.datetime) else value


class Life:
    """Random rounds, the same for an engine and for the oracle."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.history = History({"a": [], "b": []})
        self.newest: dict[str, int] = {}
        self.clock = 0

    def rows(self) -> dict[str, list[tuple[int, int, int]]]:
        """Values of the next round, by stream."""
        self.clock += self.rng.randint(0, 2)
        return {
            name: [
                (
                    self.rng.randint(1, 2),
                    self.rng.randint(0, 9),
                    max(0, self.clock - self.rng.choice([0, 1, 2, 9])),
                )
                for _ in range(self.rng.randint(0, 3))
            ]
            for name in self.history.streams
        }

    def take(self, rows: dict[str, list[Any]], first: int, version: int) -> None:
        """What arrived, numbered by stream; late is what lies behind the watermark before the round."""
        for name, column in (("a", "x"), ("b", "y")):
            for k, value, ts in rows[name]:
                is_late = name in self.newest and ts < self.newest[name] - LATENESS_S
                values = {"k": k, column: value, "ts": ts}
                self.history.streams[name].append(Row(values, (first,), ts, is_late, version, first))
                first += 1
            for _, _, ts in rows[name]:
                self.newest[name] = max(ts, self.newest.get(name, ts))


def push(engine: eddyline.Engine, rows: dict[str, list[Any]]) -> None:
    engine.push(
        {
            name: [
                {"k": k, column: value, "ts": START + datetime.timedelta(seconds=ts)}
                for k, value, ts in rows[name]
            ]
            for name, column in (("a", "x"), ("b", "y"))
        }
    )


def found(engine: eddyline.Engine, name: str) -> list[Any]:
    return sorted(
        (result.arrivals, tuple(map(seconds, result.values()))) for result in engine.get(name).latest(100_000)
    )


def expected(life: Life, name: str, versions: dict[str, int]) -> list[Any]:
    queries = {each: query for each, (_, query) in QUERIES.items()}
    return sorted(
        (row.arrivals, tuple(row.values.values())) for row in rows_of(name, life.history, queries, versions)
    )


@pytest.mark.thorough
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("seed", range(3))
def test_views_are_what_their_rows_one_by_one_make_them(tmp_path, place, seed):
    life, versions = Life(seed), {}
    waiting = list(QUERIES)  # those they read come first
    engine = opened(tmp_path, place)
    for number in range(22):
        while waiting and life.rng.random() < 0.5:  # readers come late, too
            name = waiting.pop(0)
            engine.query(QUERIES[name][0], name=name)
            versions[name] = engine.version
        if number == 12:
            engine.close()
            engine = opened(tmp_path, place)
        rows = life.rows()
        first = engine.rounds.last_arrival + 1
        push(engine, rows)
        life.take(rows, first, engine.version)
    assert not waiting
    for name in QUERIES:
        assert found(engine, name) == expected(life, name, versions), name
    assert all(len(found(engine, name)) > 2 for name in ("reader", "diamond", "self"))
    engine.close()


@pytest.mark.thorough
@pytest.mark.parametrize("place", PLACES)
def test_another_engine_finds_what_readers_of_views_give(tmp_path, place, no_session):
    """DuckDB; tests/spark/test_prove_views.py has the same by Spark."""
    life = Life(4)
    with opened(tmp_path, place) as engine:
        for name, (text, _) in QUERIES.items():
            engine.query(text, name=name)
        for _ in range(12):
            push(engine, life.rows())
        audit = Audit(engine, 0.0)
        for number in range(1, engine.rounds.last_round + 1):
            audit.judge(number)
        audit.close()
        assert (audit.counters.n_differences, audit.counters.skipped) == (0, {})
        assert audit.counters.n_pairs > 100


# --------------------------------------------------------------------------------------------- by hand


def trading() -> eddyline.Engine:
    engine = eddyline.open()
    engine.sql("CREATE TABLE trades (sym STRING, price DOUBLE, qty INT)")
    engine.query("SELECT sym, price * qty AS value FROM trades WHERE price > 10", name="big")
    engine.query("SELECT sym, value FROM big WHERE value > 100", name="rich")
    engine.query("SELECT value FROM Rich WHERE sym = 'A'", name="mine")
    return engine


def values(engine: eddyline.Engine, name: str) -> list[tuple[Any, ...]]:
    return [tuple(result.values()) for result in engine.get(name).latest(100)]


def test_a_query_reads_another_by_its_name_to_any_depth():
    with trading() as engine:
        matches = engine.push(
            "trades",
            [
                {"sym": "A", "price": 20.0, "qty": 10},
                {"sym": "B", "price": 20.0, "qty": 1},
                {"sym": "B", "price": 5.0, "qty": 100},
            ],
        )
        assert matches.count == 4  # two of big, one of rich, one of mine
        assert values(engine, "big") == [("A", 200.0), ("B", 20.0)]
        assert values(engine, "rich") == [("A", 200.0)]
        assert values(engine, "mine") == [(200.0,)]


def test_rows_of_views_take_memory_by_how_many_they_are():
    """Not by the ids of bodies, which are large numbers."""
    with trading() as engine:
        rows = [{"sym": "A", "price": 20.0, "qty": n} for n in range(100)]
        engine.push("trades", rows)  # what is loaded once is loaded
        tracemalloc.start()
        try:
            engine.push("trades", rows)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert most < 50_000_000


def test_a_paused_view_gives_no_results_and_its_readers_go_on():
    with trading() as engine:
        engine.get("big").pause()
        engine.push("trades", [{"sym": "A", "price": 20.0, "qty": 10}])
        assert values(engine, "big") == []
        assert values(engine, "mine") == [(200.0,)]


def test_an_error_below_a_view_is_one_dead_letter_the_views():
    with eddyline.open() as engine:
        engine.sql("CREATE TABLE t (a INT, b INT)")
        engine.query("SELECT a, b FROM t WHERE 10 / b > 1", name="v")
        for number in range(3):
            engine.query(f"SELECT a FROM v WHERE a > {number}", name=f"r{number}")
        engine.push("t", [{"a": 5, "b": 0}])
        assert [(letter.query, letter.error) for letter in engine.dead_letters()] == [("v", "DIVIDE_BY_ZERO")]
        engine.get("v").pause()
        engine.push("t", [{"a": 6, "b": 0}])
        assert [letter.query for letter in engine.dead_letters()] == ["v", "v"]


def test_a_view_over_a_table_hands_its_changes_on_and_its_readers_get_a_first_answer():
    with eddyline.open() as engine:
        engine.sql("CREATE TABLE quotes (sym STRING PRIMARY KEY, bid DOUBLE)")
        engine.push("quotes", [{"sym": "A", "bid": 5.0}, {"sym": "B", "bid": 50.0}])
        engine.query("SELECT sym, bid FROM quotes WHERE bid > 10", name="high")
        engine.push("quotes", [{"sym": "C", "bid": 70.0}])
        middle = engine.query("SELECT sym FROM high WHERE bid < 60", name="middle")
        engine.tick()
        assert [(dict(result), result.change) for result in middle.results()] == [({"sym": "B"}, "insert")]
        engine.push(
            "quotes", [{"sym": "B", "bid": 65.0}, {"sym": "C", "bid": 20.0}, {"sym": "A", "bid": 1.0}]
        )
        assert [(dict(result), result.change) for result in middle.results()] == [
            ({"sym": "B"}, "delete"),
            ({"sym": "C"}, "insert"),
        ]


def test_a_view_that_others_read_ends_only_with_them():
    with trading() as engine:
        with pytest.raises(QueryStateError) as caught:
            engine.drop("big")
        assert caught.value.problem == "view big cannot be dropped while queries read it"
        assert caught.value.detail == "It is read by rich."
        engine.get("rich").pause()
        with pytest.raises(QueryStateError):  # a paused reader counts
            engine.drop("big")
        engine.sql("DROP VIEW big CASCADE")
        assert engine.queries().total == 0


def test_a_view_that_would_read_itself_is_refused():
    with trading() as engine:
        with pytest.raises(QueryStateError) as caught:
            engine.query("SELECT sym, value FROM rich", name="big")
        assert caught.value.problem == "view big would read itself"
        assert caught.value.detail == "It would read rich, which reads big."


def test_a_replaced_view_gives_its_readers_a_new_generation_or_is_refused():
    with trading() as engine:
        with pytest.raises(SchemaError) as caught:
            engine.query("SELECT sym FROM trades", name="big")
        assert caught.value.detail == "rich could not: there is no column value in big."
        version = engine.version
        engine.query("SELECT sym, CAST(price * 2 AS INT) AS value FROM trades", name="big")
        assert engine.version == version + 1
        assert [engine.get(name).generation for name in ("big", "rich", "mine")] == [2, 2, 2]
        engine.push("trades", [{"sym": "A", "price": 60.0, "qty": 1}])
        assert values(engine, "mine") == [(120,)]


def test_what_is_not_built_over_views_is_refused_by_name():
    with trading() as engine, pytest.raises(NotBuiltError, match="are not built"):
        engine.query("SELECT t.sym FROM trades t JOIN recent(big, 3) b ON t.sym = b.sym")


def test_a_view_takes_no_rows_and_a_misspelt_one_is_named():
    with trading() as engine:
        with pytest.raises(UnknownNameError, match="there is no stream big"):
            engine.push("big", [{"sym": "A"}])
        with pytest.raises(UnknownNameError) as caught:
            engine.query("SELECT sym FROM bigg")
        assert caught.value.hint == "Did you mean big?"
        with pytest.raises(SchemaError, match="big is a view that queries read"):
            engine.sql("CREATE TABLE big (a INT)")


def test_owners_read_their_own_views_and_those_without_an_owner():
    with trading() as engine:
        engine.query("SELECT sym AS own FROM trades", name="big", owner="ann")
        engine.query("SELECT own FROM big", name="of ann", owner="ann")
        engine.query("SELECT value FROM big", name="of bob", owner="bob")
        with pytest.raises(UnknownNameError):
            engine.query("SELECT own FROM ann.big", owner="bob")
        engine.query("SELECT own FROM ann.big", name="of all")
        engine.push("trades", [{"sym": "A", "price": 20.0, "qty": 10}])
        assert values(engine, "of all") == [("A",)]


def test_explain_says_what_a_query_reads_and_who_reads_it():
    with trading() as engine:
        lineage = engine.get("rich").explain().as_dict()["lineage"]
        assert [each["name"] for each in lineage["reads"]] == ["big"]
        assert [each["name"] for each in lineage["reads"][0]["reads"]] == ["trades"]
        assert [each["name"] for each in lineage["read_by"]] == ["mine"]
        shown = str(engine.get("rich").explain())
        assert "reads      view big: SELECT sym, price * qty AS value FROM trades WHERE price > 10" in shown
        assert "read by    mine" in shown
