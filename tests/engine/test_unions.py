"""UNION ALL beside its parts, each registered as a query of its own: in every place, under any cut, through restarts."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import eddyline
from eddyline.catalog import restore_version
from eddyline.errors import NotBuiltError, QueryStateError, SchemaError
from tests.on_workers import through_tasks

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
PLACES = ("in process", "in tasks", "workers join")
WITHIN = "a.ts BETWEEN b.ts AND b.ts + INTERVAL 4 SECONDS"

# a union, and its parts with the types of the union
UNIONS: dict[str, tuple[str, list[str]]] = {
    "one stream": (
        "SELECT k, x FROM a WHERE x > 3 UNION ALL SELECT k, x FROM a WHERE x < 6",
        ["SELECT k, x FROM a WHERE x > 3", "SELECT k, x FROM a WHERE x < 6"],
    ),
    "the same twice": (
        "SELECT k, x FROM a WHERE x > 3 UNION ALL SELECT k, x FROM a WHERE x > 3",
        ["SELECT k, x FROM a WHERE x > 3", "SELECT k, x FROM a WHERE x > 3"],
    ),
    "two streams, wider types, NULL": (
        "SELECT k, x, 'a' AS side, NULL AS y FROM a WHERE x > 3 UNION ALL SELECT k + 0.5D, NULL, 'b', y FROM b",
        [
            "SELECT CAST(k AS DOUBLE) AS k, x, 'a' AS side, CAST(NULL AS INT) AS y FROM a WHERE x > 3",
            "SELECT k + 0.5D AS k, CAST(NULL AS INT) AS x, 'b' AS side, y FROM b",
        ],
    ),
    "in error": (
        "SELECT k, 10 DIV x AS d FROM a UNION ALL SELECT k, 10 DIV y FROM b WHERE 12 DIV (y - 4) > 1",
        ["SELECT k, 10 DIV x AS d FROM a", "SELECT k, 10 DIV y AS d FROM b WHERE 12 DIV (y - 4) > 1"],
    ),
    "a join and a stream": (
        f"SELECT a.k, a.x, b.y FROM a JOIN b ON a.k = b.k AND {WITHIN} UNION ALL SELECT k, x, x + 1 FROM a WHERE x = 7",
        [
            f"SELECT a.k, a.x, b.y FROM a JOIN b ON a.k = b.k AND {WITHIN}",
            "SELECT k, x, x + 1 AS y FROM a WHERE x = 7",
        ],
    ),
    "two parts over one join": (
        f"SELECT a.x FROM a JOIN b ON a.k = b.k AND {WITHIN} WHERE a.x > 3"
        f" UNION ALL SELECT b.y FROM a JOIN b ON a.k = b.k AND {WITHIN} WHERE a.x < 6",
        [
            f"SELECT a.x FROM a JOIN b ON a.k = b.k AND {WITHIN} WHERE a.x > 3",
            f"SELECT b.y AS x FROM a JOIN b ON a.k = b.k AND {WITHIN} WHERE a.x < 6",
        ],
    ),
    "a union that is joined": (
        "SELECT u.v, t.name FROM (SELECT k, x AS v FROM a WHERE x > 2 UNION ALL SELECT k, y FROM b) u"
        " JOIN t ON t.k = u.k WHERE u.v <> 5",
        [
            "SELECT a.x AS v, t.name FROM a JOIN t ON t.k = a.k WHERE a.x > 2 AND a.x <> 5",
            "SELECT b.y AS v, t.name FROM b JOIN t ON t.k = b.k WHERE b.y <> 5",
        ],
    ),
    "a query of WITH that is read twice": (
        "WITH u(k, v, ts) AS (SELECT k, x, ts FROM a UNION ALL SELECT k, y, ts FROM b)"
        " SELECT l.v, r.v AS w FROM u l JOIN u r ON l.k = r.k AND r.ts BETWEEN l.ts AND l.ts + INTERVAL 2 SECONDS"
        " WHERE l.v < r.v",
        [
            f"SELECT l.{v} AS v, r.{w} AS w FROM {one} l JOIN {other} r"
            " ON l.k = r.k AND r.ts BETWEEN l.ts AND l.ts + INTERVAL 2 SECONDS"
            f" WHERE l.{v} < r.{w}"
            for one, v in (("a", "x"), ("b", "y"))
            for other, w in (("a", "x"), ("b", "y"))
        ],
    ),
    "outer joins and NOT EXISTS in parts": (
        "SELECT a.x, t.name FROM a LEFT JOIN t ON t.k = a.k"
        " UNION ALL SELECT y, 'none' FROM b WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.k = b.k)",
        [
            "SELECT a.x, t.name FROM a LEFT JOIN t ON t.k = a.k",
            "SELECT y AS x, 'none' AS name FROM b WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.k = b.k)",
        ],
    ),
    "tables": (
        "SELECT k, name FROM t WHERE name < 'd' UNION ALL SELECT k, name FROM t WHERE name > 'b'"
        " UNION ALL SELECT t.k, concat(t.name, s.name) FROM t JOIN s ON s.k = t.k",
        [
            "SELECT k, name FROM t WHERE name < 'd'",
            "SELECT k, name FROM t WHERE name > 'b'",
            "SELECT t.k, concat(t.name, s.name) AS name FROM t JOIN s ON s.k = t.k",
        ],
    ),
}


def opened(folder: Path, place: str) -> eddyline.Engine:
    engine = eddyline.open(folder / place, results_per_query=100_000)
    if not engine.streams():
        for name, column in (("a", "x"), ("b", "y")):
            engine.sql(f"CREATE TABLE {name} (k INT, {column} INT, ts TIMESTAMP) TBLPROPERTIES (time='ts')")
        for name in "st":
            engine.sql(f"CREATE TABLE {name} (k INT PRIMARY KEY, name STRING)")
    if place != PLACES[0]:
        through_tasks(engine, n_pieces=2, join_from_rows=1 if place == PLACES[2] else 1_000_000)
    return engine


def register(engine: eddyline.Engine, name: str) -> None:
    text, parts = UNIONS[name]
    engine.query(text, name=name)
    for k, part in enumerate(parts):
        engine.query(part, name=f"{name} {k}")


def push(engine: eddyline.Engine, rng: random.Random, at: int) -> None:
    now = START + datetime.timedelta(seconds=at)
    rows = {
        name: [
            {"k": rng.randint(1, 3), column: rng.randint(0, 9), "ts": now} for _ in range(rng.randint(0, 4))
        ]
        for name, column in (("a", "x"), ("b", "y"))
    }
    engine.push({name: found for name, found in rows.items() if found})
    if rng.random() < 0.5:
        name = rng.choice("st")
        engine.push(
            name, [{"k": rng.randint(1, 3), "name": rng.choice("abcde")} for _ in range(rng.randint(1, 3))]
        )


def bag(*queries: eddyline.Query) -> Counter[Any]:
    """Results without their own numbers: the round, the rows they are made of, what changed, and the values."""
    return Counter(
        (found.round_number, tuple(sorted(found.arrivals)), found.change, found.is_late, *found.values())
        for query in queries
        for found in query.latest(100_000)
    )


def letters(engine: eddyline.Engine, *names: str) -> Counter[Any]:
    found = (each for each in engine.dead_letters() if each.query in names)
    return Counter(
        (each.round_number, each.arrival, each.stream, str(each.row), each.message) for each in found
    )


def check(engine: eddyline.Engine, name: str) -> int:
    """That a union has what its parts have; how much that is."""
    union, n_parts = engine.get(name), len(UNIONS[name][1])
    parts = [engine.get(f"{name} {k}") for k in range(n_parts)]
    expected = bag(*parts)
    assert bag(union) == expected, name
    assert letters(engine, name) == letters(engine, *(part.name for part in parts)), name
    numbers = [(found.round_number, found.arrival) for found in union.latest(100_000)]
    assert len(set(numbers)) == len(numbers), f"{name}: two results have one number"
    assert union.n_results == len(numbers)
    return expected.total()


@pytest.mark.thorough
@pytest.mark.parametrize("place", PLACES)
def test_a_union_has_the_results_of_its_parts(tmp_path, place):
    rng = random.Random(5)
    with opened(tmp_path, place) as engine:
        names = list(UNIONS)
        for name in names[::2]:
            register(engine, name)
        for at in range(6):
            push(engine, rng, at)
        for name in names[1::2]:  # beside rows that came before them
            register(engine, name)
        for at in range(6, 12):
            push(engine, rng, at)
    with opened(tmp_path, place) as engine:
        for at in range(12, 20):
            push(engine, rng, at)
        assert all(check(engine, name) > 5 for name in names)


@pytest.mark.thorough
def test_places_give_the_same_results(tmp_path):
    found = {}
    for place in PLACES:
        rng = random.Random(8)
        with opened(tmp_path, place) as engine:
            for name in UNIONS:
                engine.query(UNIONS[name][0], name=name)
            for at in range(8):
                push(engine, rng, at)
            found[place] = {name: bag(engine.get(name)) for name in UNIONS}
    assert found[PLACES[0]] == found[PLACES[1]] == found[PLACES[2]]


@pytest.mark.parametrize("seed", range(3))
def test_a_union_does_not_depend_on_how_rows_are_cut(seed):
    rng = random.Random(seed)
    rows = [("a" if rng.random() < 0.5 else "b", rng.randint(1, 3), rng.randint(0, 9)) for _ in range(60)]
    found = []
    for n in (1, 7, 60):
        engine = eddyline.open(results_per_query=10_000)
        for name, column in (("a", "x"), ("b", "y")):
            engine.sql(f"CREATE TABLE {name} (k INT, {column} INT)")
        union = engine.query(
            "SELECT k, x FROM a WHERE x > 3 UNION ALL SELECT k, y FROM b UNION ALL SELECT k, -x FROM a WHERE x > 5"
        )
        for first in range(0, len(rows), n):
            some = rows[first : first + n]
            streams = {
                name: [{"k": k, column: v} for stream, k, v in some if stream == name]
                for name, column in (("a", "x"), ("b", "y"))
            }
            engine.push({name: batch for name, batch in streams.items() if batch})
        found.append(Counter(tuple(result.values()) for result in union.latest(10_000)))
    assert found[0] == found[1] == found[2]
    assert found[0].total() > 40


def streams(**options: Any) -> eddyline.Engine:
    engine = eddyline.open(**options)
    engine.sql("CREATE TABLE IF NOT EXISTS a (k INT, x INT)")
    engine.sql("CREATE TABLE IF NOT EXISTS b (k INT, y INT)")
    return engine


def values(query: eddyline.Query) -> list[tuple[Any, ...]]:
    return [tuple(found.values()) for found in query.results()]


BOTH = "SELECT k, x FROM a WHERE x > 1 UNION ALL SELECT k, x + 100 FROM a WHERE x > 2 UNION ALL SELECT k, y FROM b"


def test_pausing_replacing_and_dropping_a_union_concerns_all_its_parts():
    engine = streams()
    query = engine.query(BOTH, name="q")
    rows = {"a": [{"k": 1, "x": 3}], "b": [{"k": 2, "y": 9}]}
    engine.push(rows)
    assert sorted(values(query)) == [(1, 3), (1, 103), (2, 9)]
    query.pause()
    engine.push(rows)
    assert values(query) == []
    query.resume()
    engine.push(rows)
    assert sorted(values(query)) == [(1, 3), (1, 103), (2, 9)]
    query.replace(
        "SELECT k, y AS x FROM b UNION ALL SELECT k, x FROM a WHERE x = 3 UNION ALL SELECT k, 0 FROM a"
    )
    engine.push(rows)
    assert sorted(values(query)) == [(1, 0), (1, 3), (2, 9)]
    assert {found.generation for found in query.latest(3)} == {3}
    query.replace("SELECT k, x FROM a")
    assert engine.push(rows).count == 1
    query.drop()
    assert engine.push(rows).count == 0


def test_a_cursor_between_two_parts_loses_nothing(tmp_path):
    for home in (None, tmp_path / "home"):
        with streams(home=home) as engine:
            query = engine.query(BOTH)
            engine.push({"a": [{"k": 1, "x": 3}, {"k": 2, "x": 4}], "b": [{"k": 3, "y": 5}]})
            found = query.results()
            assert len(found) == 5
            for at, result in enumerate(sorted(found, key=lambda each: each.arrival)):
                assert len(query.results(after=result.cursor)) == 4 - at


def test_results_of_a_round_are_in_the_order_of_their_numbers(tmp_path):
    for home in (None, tmp_path / "home"):
        with streams(home=home) as engine:
            query = engine.query(
                "SELECT k, y AS v FROM b UNION ALL SELECT k, x FROM a UNION ALL SELECT k, -x FROM a"
            )
            engine.push({"a": [{"k": 1, "x": 3}], "b": [{"k": 2, "y": 9}]})
            engine.push({"a": [{"k": 3, "x": 4}], "b": [{"k": 4, "y": 8}]})
            expected = [(2, 9), (1, 3), (1, -3), (4, 8), (3, 4), (3, -4)]
            assert [tuple(found.values()) for found in query.latest(9)] == expected
            found = query.results()
            assert [tuple(each.values()) for each in found] == expected
            assert [each.arrivals for each in found] == [(2,), (1,), (1,), (4,), (3,), (3,)]


@pytest.mark.parametrize("place", PLACES)
def test_the_newest_results_are_those_with_the_highest_numbers(tmp_path, place):
    with opened(tmp_path, place) as engine:
        query = engine.query(
            f"SELECT a.x FROM a JOIN b ON a.k = b.k AND {WITHIN} UNION ALL SELECT x FROM a UNION ALL SELECT -y FROM b"
        )
        for at in (0, 60):
            now = START + datetime.timedelta(seconds=at)
            a = [{"k": 1, "x": x, "ts": now} for x in (3, 4)]
            engine.push({"a": a, "b": [{"k": 1, "y": 5, "ts": now}]})
        expected = [3, 4, -5, 3, 4] * 2
        for n in range(11):
            assert [each["x"] for each in query.latest(n)] == expected[10 - n :]
            assert query.to_arrow(newest=n)["x"].to_pylist() == expected[10 - n :]
        third = query.latest(10)[2]
        assert query.to_arrow(after=third.cursor)["x"].to_pylist() == expected[3:]
    with opened(tmp_path, place) as engine:
        assert [each["x"] for each in engine.queries()[0].latest(4)] == expected[6:]


def test_what_a_push_returns_has_every_part_of_a_union():
    engine = streams()
    query = engine.query(BOTH)
    matches = engine.push({"a": [{"k": 1, "x": 3}, {"k": 2, "x": 2}], "b": [{"k": 3, "y": 5}]})
    assert matches.count == 4
    assert [each.tolist() for each in matches.pairs("a")] == [[0, 2, 3], [query.id] * 3]
    assert [each.tolist() for each in matches.pairs("b")] == [[0, 1], [query.id]]
    rows = matches.to_arrow(query).to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == [(1, 3), (1, 103), (2, 2), (3, 5)]


def test_callbacks_get_the_results_of_all_parts():
    engine = streams()
    found: list[Any] = []
    engine.query(BOTH).on_result(lambda result: found.append(tuple(result.values())))
    engine.push({"a": [{"k": 1, "x": 3}], "b": [{"k": 2, "y": 9}]})
    assert sorted(found) == [(1, 3), (1, 103), (2, 9)]


def test_a_template_of_unions_takes_parameters_in_every_part(tmp_path):
    params = pa.table({"k": pa.array([1, 2, 3], pa.int32()), "low": pa.array([2, 5, 8], pa.int32())})
    text = "SELECT k, x FROM a WHERE k = :k AND x > :low UNION ALL SELECT :k, y FROM b WHERE y > :low"
    rows = {
        "a": [{"k": k, "x": x} for k in (1, 2, 3) for x in range(10)],
        "b": [{"k": 0, "y": y} for y in range(10)],
    }
    expected = {
        name: sorted([(k, x) for x in range(low + 1, 10)] * 2)
        for name, k, low in (("r1", 1, 2), ("r2", 2, 5), ("r3", 3, 8))
    }
    with streams(home=tmp_path / "home") as engine:
        engine.query_many(text, params=params, name="r{k}")
        engine.push(rows)
        assert {name: sorted(values(engine.get(name))) for name in expected} == expected
        engine.get("r2").pause()
    with streams(home=tmp_path / "home") as engine:
        assert engine.push(rows).count == len(expected["r1"]) + len(expected["r3"])
        engine.get("r2").resume()
        assert engine.push(rows).count == sum(map(len, expected.values()))


def test_unions_that_differ_in_constants_share_one_shape():
    engine = streams()
    for low in range(50):
        engine.query(
            f"SELECT k FROM a WHERE x > {low} UNION ALL SELECT k FROM b WHERE y > {low}", name=f"q{low}"
        )
    assert engine.get("q7").explain().as_dict()["n_sharing"] == 50
    assert engine.push({"a": [{"k": 1, "x": 10}], "b": [{"k": 1, "y": 20}]}).count == 30


def test_an_error_in_a_part_is_a_dead_letter_of_the_union():
    engine = streams()
    engine.query("SELECT k FROM a UNION ALL SELECT k FROM b WHERE 1 DIV y > 0", name="q")
    matches = engine.push({"a": [{"k": 1, "x": 0}], "b": [{"k": 2, "y": 0}]})
    assert (matches.count, matches.n_dead) == (1, 1)
    (letter,) = engine.dead_letters()
    assert (letter.query, letter.stream, letter.row, letter.arrival) == ("q", "b", {"k": 2, "y": 0}, 2)


# --------------------------------------------------------------------------------------------- tables


def tables(**options: Any) -> eddyline.Engine:
    engine = eddyline.open(**options)
    engine.sql("CREATE TABLE s (k INT PRIMARY KEY, v INT)")
    engine.sql("CREATE TABLE t (k INT PRIMARY KEY, v INT)")
    return engine


OF_TABLES = "SELECT k, v FROM s WHERE v < 5 UNION ALL SELECT k, v FROM s WHERE v > 3 UNION ALL SELECT k, v FROM t WHERE v >= 0"


def changes(query: eddyline.Query) -> list[tuple[Any, ...]]:
    return sorted((found.change, *found.values()) for found in query.results())


def test_a_new_union_of_tables_begins_with_their_rows():
    engine = tables()
    engine.push({"s": [{"k": 1, "v": 4}, {"k": 2, "v": 9}], "t": [{"k": 3, "v": 0}]})
    query = engine.query(OF_TABLES)
    engine.tick()
    assert changes(query) == [("insert", 1, 4), ("insert", 1, 4), ("insert", 2, 9), ("insert", 3, 0)]


def test_an_update_is_one_only_within_a_part():
    engine = tables()
    query = engine.query(OF_TABLES)
    engine.push("s", [{"k": 1, "v": 1}])
    assert changes(query) == [("insert", 1, 1)]
    engine.push("s", [{"k": 1, "v": 2}])
    assert changes(query) == [("update_postimage", 1, 2), ("update_preimage", 1, 1)]
    engine.push("s", [{"k": 1, "v": 8}])  # it leaves one part and appears in the other
    assert changes(query) == [("delete", 1, 2), ("insert", 1, 8)]


def test_an_alert_over_a_union_of_tables_resolves_when_the_last_part_has_no_row():
    engine = tables()
    engine.query(OF_TABLES, name="q", per="k")
    engine.push("s", [{"k": 1, "v": 4}])  # in two parts
    assert [each.state for each in engine.alerts("q")] == ["firing"]
    engine.push("s", [{"k": 1, "v": 8}])  # in one
    assert [each.state for each in engine.alerts("q")] == ["firing"]
    engine.push("t", [{"k": 1, "v": 0}])
    engine.push("s", [{"k": 1, "v": None}])  # only in that of the other table
    assert [each.state for each in engine.alerts("q")] == ["firing"]
    engine.push("t", [{"k": 1, "v": -1}])
    assert list(engine.alerts("q")) == []


def test_each_part_that_is_distinct_is_counted_by_itself(tmp_path):
    text = "SELECT DISTINCT v FROM s UNION ALL SELECT v FROM t UNION ALL SELECT DISTINCT v + 1 FROM t"
    with tables(home=tmp_path / "home") as engine:
        query = engine.query(text, name="q")
        engine.push({"s": [{"k": 1, "v": 5}, {"k": 2, "v": 5}], "t": [{"k": 1, "v": 4}, {"k": 2, "v": 4}]})
        assert changes(query) == [("insert", 4), ("insert", 4), ("insert", 5), ("insert", 5)]
        assert query.explain().as_dict()["n_counted"] == 2
        engine.push({"s": [{"k": 1, "v": 6}], "t": [{"k": 1, "v": 7}]})
        assert changes(query) == [
            ("insert", 6),
            ("insert", 8),
            ("update_postimage", 7),
            ("update_preimage", 4),
        ]
    with eddyline.open(tmp_path / "home") as engine:  # counts are made anew
        query = engine.get("q")
        query.results()
        engine.push({"s": [{"k": 1, "v": 5}], "t": [{"k": 2, "v": 7}]})
        assert changes(query) == [
            ("delete", 5),
            ("delete", 6),
            ("update_postimage", 7),
            ("update_preimage", 4),
        ]


def test_parts_that_are_semi_joins_of_tables_count_their_matches():
    engine = tables()
    exists = "EXISTS (SELECT 1 FROM t WHERE t.v = s.v)"
    query = engine.query(f"SELECT k FROM s WHERE v > 8 UNION ALL SELECT k + 100 FROM s WHERE {exists}")
    plain = engine.query(f"SELECT k + 100 AS k FROM s WHERE {exists}")
    engine.push({"s": [{"k": 1, "v": 5}, {"k": 2, "v": 9}], "t": [{"k": 1, "v": 5}, {"k": 2, "v": 5}]})
    assert (changes(query), changes(plain)) == ([("insert", 2), ("insert", 101)], [("insert", 101)])
    engine.push("t", [{"k": 1, "v": 9}])
    assert (changes(query), changes(plain)) == ([("insert", 102)], [("insert", 102)])
    engine.push("t", [{"k": 2, "v": 0}])
    assert (changes(query), changes(plain)) == ([("delete", 101)], [("delete", 101)])


def test_a_view_with_distinct_parts_can_be_read_and_distinct_over_it_counts_all_parts():
    engine = tables()
    engine.query("SELECT DISTINCT v FROM s UNION ALL SELECT v FROM t WHERE v > 3", name="u")
    reader = engine.query("SELECT v FROM u WHERE v > 1", name="reader")
    engine.push({"s": [{"k": 1, "v": 5}, {"k": 2, "v": 5}], "t": [{"k": 1, "v": 5}]})
    assert changes(reader) == [("insert", 5), ("insert", 5)]
    engine.push("s", [{"k": 1, "v": 0}])
    assert changes(reader) == []
    engine.push("s", [{"k": 2, "v": 2}])
    assert changes(reader) == [("delete", 5), ("insert", 2)]
    sets = [engine.query(f"SELECT DISTINCT v FROM {view}") for view in ("u", "reader")]
    engine.push({"s": [{"k": 3, "v": 5}], "t": [{"k": 2, "v": 5}]})
    assert [changes(each) for each in sets] == [
        [("insert", v) for v in found] for found in ((0, 2, 5), (2, 5))
    ]
    engine.push({"s": [{"k": 3, "v": 2}], "t": [{"k": 1, "v": 0}]})
    assert [changes(each) for each in sets] == [[], []]


def test_a_union_of_a_table_and_a_stream_is_refused():
    engine = tables()
    engine.sql("CREATE TABLE a (k INT)")
    with pytest.raises(NotBuiltError, match="UNION ALL of tables and streams is not built") as refused:
        engine.query("SELECT k FROM s UNION ALL SELECT k FROM a")
    assert "Rows of s appear and leave, those of a only appear." in str(refused.value)


# --------------------------------------------------------------------------------------------- views


@pytest.mark.thorough
def test_readers_of_a_union_see_the_rows_of_all_its_parts(tmp_path):
    for place in PLACES:
        with opened(tmp_path, place) as engine:
            engine.query(
                "SELECT k, x AS v, ts FROM a WHERE x > 3 UNION ALL SELECT k, -x, ts FROM a UNION ALL SELECT k, y, ts FROM b",
                name="u",
            )
            reader = engine.query("SELECT v FROM u WHERE k < 3", name="reader")
            parts = [
                engine.query("SELECT x AS v FROM a WHERE x > 3 AND k < 3"),
                engine.query("SELECT -x AS v FROM a WHERE k < 3"),
                engine.query("SELECT y AS v FROM b WHERE k < 3"),
            ]
            joined = engine.query("SELECT u.v, t.name FROM u JOIN t ON t.k = u.k", name="joined")
            of_parts = [
                engine.query("SELECT x AS v, t.name FROM a JOIN t ON t.k = a.k WHERE x > 3"),
                engine.query("SELECT -x AS v, t.name FROM a JOIN t ON t.k = a.k"),
                engine.query("SELECT y AS v, t.name FROM b JOIN t ON t.k = b.k"),
            ]
            exists = engine.query(
                "SELECT k, v FROM u WHERE EXISTS (SELECT 1 FROM t WHERE t.k = u.k)", name="exists"
            )
            rng = random.Random(4)
            for at in range(10):
                push(engine, rng, at)
            for read, expected in ((reader, parts), (joined, of_parts)):
                found = Counter((each.round_number, *each.values()) for each in read.latest(10_000))
                wanted = [each for part in expected for each in part.latest(10_000)]
                assert found == Counter((each.round_number, *each.values()) for each in wanted)
                assert found.total() > 10
                numbers = [each.arrival for each in read.latest(10_000)]
                assert len(set(numbers)) == len(numbers)
            assert exists.n_results == joined.n_results


@pytest.mark.parametrize("place", PLACES)
def test_a_union_of_streams_and_joins_is_joined_with_the_rows_of_all_its_parts(tmp_path, place):
    later = "BETWEEN u.ts AND u.ts + INTERVAL 3 SECONDS"
    parts = [
        "SELECT k, x AS v, ts FROM a WHERE x > 4",
        f"SELECT a.k, a.x + b.y AS v, a.ts FROM a JOIN b ON a.k = b.k AND {WITHIN}",
        "SELECT k, -y AS v, ts FROM b",
    ]
    with opened(tmp_path, place) as engine:
        engine.query(" UNION ALL ".join(parts), name="u")
        joined = engine.query(f"SELECT u.v, b.y FROM u JOIN b ON u.k = b.k AND b.ts {later}")
        expected = []
        for k, part in enumerate(parts):
            engine.query(part, name=f"part {k}")
            text = f"SELECT u.v, b.y FROM `part {k}` u JOIN b ON u.k = b.k AND b.ts {later}"
            expected.append(engine.query(text))
        rng = random.Random(6)
        for at in range(12):
            push(engine, rng, at)
        wanted = Counter((r.round_number, *r.values()) for each in expected for r in each.latest(10_000))
        assert Counter((r.round_number, *r.values()) for r in joined.latest(10_000)) == wanted
        assert all(each.n_results > 10 for each in expected)


def test_a_view_that_is_a_union_stands_where_a_union_cannot():
    near = "u.ts BETWEEN a.ts AND a.ts + INTERVAL 4 SECONDS"
    engine = eddyline.open()
    for name, column in (("a", "x"), ("b", "y")):
        engine.sql(f"CREATE TABLE {name} (k INT, {column} INT, ts TIMESTAMP) TBLPROPERTIES (time='ts')")
    engine.query("SELECT k, y AS v, ts FROM b UNION ALL SELECT k, y + 100, ts FROM b WHERE y > 5", name="u")
    left = engine.query(f"SELECT a.x, u.v FROM a LEFT JOIN u ON u.k = a.k AND {near}")
    missing = engine.query(f"SELECT x FROM a WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = a.k AND {near})")
    preserved = engine.query(f"SELECT u.v, a.x FROM u LEFT JOIN a ON u.k = a.k AND {near}")
    for at in (0, 60, 120):
        now = START + datetime.timedelta(seconds=at)
        a = [{"k": k, "x": at + k, "ts": now} for k in (1, 2, 3)]
        engine.push({"a": a, "b": [{"k": k, "y": y, "ts": now} for k, y in ((1, 9), (2, 3), (4, 8))]})
    decided = [(at + k, *v) for at in (0, 60) for k, v in ((1, (9,)), (1, (109,)), (2, (3,)), (3, (None,)))]
    matches = [(121, 9), (121, 109), (122, 3)]
    assert sorted(values(left), key=str) == sorted([*decided, *matches], key=str)
    assert values(missing) == [(3,), (63,)]
    found = Counter(values(preserved))
    assert found == Counter(
        {(8, None): 2, (108, None): 2} | {(v, x): 1 for x, v in [*decided, *matches] if v is not None}
    )


def test_a_union_that_is_paused_or_replaced_serves_its_readers():
    engine = streams()
    union = engine.query("SELECT k, x AS v FROM a UNION ALL SELECT k, y FROM b", name="u")
    reader = engine.query("SELECT v FROM u WHERE v > 1", name="reader")
    rows = {"a": [{"k": 1, "x": 3}], "b": [{"k": 2, "y": 9}]}
    union.pause()
    engine.push(rows)
    assert (values(union), sorted(values(reader))) == ([], [(3,), (9,)])
    union.replace("SELECT k, y AS v FROM b UNION ALL SELECT k, x * 10 FROM a UNION ALL SELECT k, x FROM a")
    engine.push(rows)
    assert sorted(values(reader)) == [(3,), (9,), (30,)]
    with pytest.raises(QueryStateError, match="view u cannot be dropped while queries read it"):
        union.drop()
    with pytest.raises(SchemaError):
        engine.drop_stream("b")


# --------------------------------------------------------------------------------------------- what is said of it


def test_explain_shows_each_part():
    engine = streams()
    query = engine.query(BOTH, name="q")
    engine.push({"a": [{"k": 1, "x": 3}], "b": [{"k": 2, "y": 9}]})
    facts = query.explain().as_dict()
    assert [each["stream"] for each in facts["branches"]] == ["a", "a", "b"]
    assert [[c["text"] for c in each["conditions"]] for each in facts["branches"]] == [
        ["x > 1"],
        ["x > 2"],
        [],
    ]
    assert facts["streams"] == ["a", "b"]
    assert [each["name"] for each in facts["lineage"]["reads"]] == ["a", "b"]
    assert facts["warnings"] == ["part 3 of this query matches every row"]
    text = str(query.explain())
    assert "  part 2\n    stream     a\n    index      x > 2" in text
    assert all(each["index"] is not None for each in facts["branches"])


# --------------------------------------------------------------------------------------------- joins with a table of rules


def test_a_part_that_says_less_than_other_queries_of_its_join_finds_all_its_rows():
    engine = eddyline.open()
    engine.sql("CREATE TABLE s (x INT, y INT)")
    engine.sql("CREATE TABLE r (id INT PRIMARY KEY, low INT, high INT)")
    narrow = "SELECT s.x, r.id FROM s JOIN r ON s.x > r.low AND s.y < r.high"
    wide = "SELECT s.x, r.id FROM s JOIN r ON s.x > r.low"
    query = engine.query(narrow)
    view = engine.query(wide, name="v")
    reader = engine.query("SELECT x, id FROM v", name="reader")
    view.pause()  # so that only its body says less
    engine.push("r", [(n, n, 5) for n in range(4)])
    engine.push("s", [(2, 1), (2, 9)])
    assert sorted(values(query)) == [(2, 0), (2, 1)]
    assert sorted(values(reader)) == [(2, 0), (2, 0), (2, 1), (2, 1)]
    reader.drop()
    view.drop()
    union = engine.query(f"{narrow} UNION ALL {wide}")
    engine.push("s", [(2, 1), (2, 9)])
    assert sorted(values(union)) == [(2, 0)] * 3 + [(2, 1)] * 3


@pytest.mark.parametrize("place", PLACES)
def test_all_parts_have_the_generation_of_their_query(tmp_path, place):
    rows = {name: [{"k": 1, column: 5, "ts": START}] for name, column in (("a", "x"), ("b", "y"))}
    with opened(tmp_path, place) as engine:
        query = engine.query("SELECT k, x FROM a UNION ALL SELECT k, x FROM a UNION ALL SELECT k, y FROM b")
        query.pause()
        query.resume()
        engine.push(rows)
        assert [found.generation for found in query.results()] == [2, 2, 2]
        query.replace(
            "SELECT k, x FROM a WHERE x > 9 UNION ALL SELECT k, y FROM b UNION ALL SELECT k, y FROM b"
        )
        engine.push(rows)
        assert [found.generation for found in query.results()] == [3, 3]


def test_an_earlier_version_comes_back_with_its_unions(tmp_path):
    rows = {"a": [{"k": 1, "x": 3}], "b": [{"k": 2, "y": 9}]}
    with streams(home=tmp_path / "home") as engine:
        engine.query(BOTH, name="q")
        version = engine.version
        engine.get("q").replace("SELECT k, x FROM a")
        restore_version(engine.rounds.catalog, version, 1)
        engine.push(rows)
        assert sorted(values(engine.get("q"))) == [(1, 3), (1, 103), (2, 9)]


@pytest.mark.thorough
def test_ids_of_queries_that_left_are_let_go():
    engine = streams()
    for low in range(2_500):
        engine.query(
            f"SELECT k FROM a WHERE x > {low} UNION ALL SELECT k FROM b WHERE y > {low}", name="q"
        ).drop()
        if low == 0:
            kept = engine.query(
                "SELECT k FROM a WHERE x > 1 UNION ALL SELECT k FROM b WHERE y > 1", name="kept"
            )
    (known,) = engine.rounds.catalog.plans._branch_ids.values()
    assert len(known) < 1_100
    engine.push("b", [{"k": 1, "y": 2}, {"k": 2, "y": 1}])
    assert values(kept) == [(1,)]


# --------------------------------------------------------------------------------------------- churn


def random_part(rng: random.Random) -> str:
    """Like those of other queries but for constants, so that families grow and shrink."""
    low = rng.randint(0, 9)
    return rng.choice(
        [
            f"SELECT k, x AS v FROM a WHERE x > {low}",
            f"SELECT k, x AS v FROM a WHERE x = {low} OR k = {low % 3}",
            f"SELECT k, x + {low} AS v FROM a WHERE k IN (1, {low})",
            f"SELECT k, y AS v FROM b WHERE y < {low}",
            f"SELECT a.k, t.k AS v FROM a JOIN t ON t.k = a.k WHERE a.x > {low}",
        ]
    )


@pytest.mark.thorough
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("seed", range(2))
def test_unions_follow_what_becomes_of_them_while_rows_flow(tmp_path, place, seed):
    rng = random.Random(seed)
    parts_of: dict[str, list[str]] = {}
    expected: Counter[Any] = Counter()
    found: Counter[Any] = Counter()
    with opened(tmp_path, place) as engine:
        for at in range(40):
            action = rng.choice(["add", "add", "add", "replace", "drop", "pause", "resume"])
            name = rng.choice(list(parts_of)) if parts_of and action != "add" else f"u{at}"
            texts = [random_part(rng) for _ in range(rng.randint(2, 4))]
            if action in ("add", "replace") or name not in parts_of:
                for old in parts_of.get(name, ()):
                    engine.get(old).drop()
                parts_of[name] = [f"{name} of {at} part {k}" for k in range(len(texts))]
                for part, text in zip(parts_of[name], texts, strict=True):
                    engine.query(text, name=part)
                engine.query(" UNION ALL ".join(texts), name=name)
                engine.get(name).resume()
            else:
                for each in (name, *parts_of[name]):
                    getattr(engine.get(each), action)()
                if action == "drop":
                    del parts_of[name]
            before = engine.rounds.last_round
            push(engine, rng, at)
            for union, parts in parts_of.items():
                found += since(engine, union, [union], before)
                expected += since(engine, union, parts, before)
            assert found == expected, (at, action, name)
    assert found.total() > 200


def since(engine: eddyline.Engine, union: str, names: list[str], before: int) -> Counter[Any]:
    """The results of these queries in rounds after one, each as one of the union's."""
    results = (each for name in names for each in engine.get(name).latest(1_000))
    return Counter(
        (union, each.round_number, each.arrivals, *each.values())
        for each in results
        if each.round_number > before
    )
