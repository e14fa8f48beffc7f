"""SELECT DISTINCT over tables: a result appears with its first row and leaves with the last one."""

from __future__ import annotations

import datetime
import math

import pytest

import eddyline
from eddyline.errors import TypeMismatchError, UnsupportedError

CITIES = "SELECT DISTINCT city FROM shops WHERE size < 50"


@pytest.fixture(params=["memory", "home"])
def engine(request, tmp_path):
    with eddyline.open(tmp_path / "home" if request.param == "home" else None) as made:
        made.stream("shops", "id INT, city STRING, size INT", key="id")
        made.stream("owners", "id INT, name STRING", key="id")
        made.stream("visits", "id INT, city STRING")
        yield made


def changes(query) -> list[tuple]:
    return [(result.change, *result.values()) for result in query.results()]


def mixed(*rows) -> list[dict[str, object]]:
    """Rows of shops, some of which delete."""
    names = ("id", "city", "size")
    return [row if isinstance(row, dict) else dict(zip(names, row, strict=True)) for row in rows]


def delete(id_: int) -> dict[str, object]:
    return {"id": id_, "_change_type": "delete"}


def test_a_value_appears_with_its_first_row_and_leaves_with_the_last(engine):
    cities = engine.query(CITIES)
    engine.push("shops", [(1, "Ulm", 1), (2, "Ulm", 2), (3, "Bonn", 3)])
    assert changes(cities) == [("insert", "Ulm"), ("insert", "Bonn")]
    engine.push("shops", [(4, "Ulm", 4), (1, "Ulm", 60)])
    engine.push("shops", [delete(2)])
    assert changes(cities) == []
    engine.push("shops", [(4, "Ulm", 99)])
    assert changes(cities) == [("delete", "Ulm")]
    engine.push("shops", [(3, "Rom", 3)])
    assert changes(cities) == [("delete", "Bonn"), ("insert", "Rom")]


def test_a_value_that_leaves_one_row_and_comes_to_another_in_a_round_has_not_changed(engine):
    cities = engine.query(CITIES)
    engine.push("shops", [(1, "Ulm", 1), (2, "Bonn", 1)])
    changes(cities)
    engine.push("shops", [(1, "Bonn", 1), (2, "Ulm", 1)])
    engine.push("shops", mixed(delete(1), (3, "Bonn", 7)))
    assert changes(cities) == []


def test_queries_with_and_without_distinct_share_a_table(engine):
    cities = engine.query(CITIES)
    every = engine.query("SELECT city, size FROM shops WHERE size < 50")
    sizes = engine.query("SELECT DISTINCT size % 2 AS odd FROM shops")
    engine.push("shops", [(1, "Ulm", 1), (2, "Ulm", 3)])
    engine.push("shops", [(1, "Ulm", 5), (2, "Bonn", 4)])
    assert changes(cities) == [("insert", "Ulm"), ("insert", "Bonn")]
    assert changes(sizes) == [("insert", 1), ("insert", 0)]
    assert changes(every) == [
        ("insert", "Ulm", 1),
        ("insert", "Ulm", 3),
        ("update_preimage", "Ulm", 1),
        ("update_postimage", "Ulm", 5),
        ("update_preimage", "Ulm", 3),
        ("update_postimage", "Bonn", 4),
    ]


def test_a_new_query_gets_the_distinct_rows_after_its_first_round_and_counts_from_there(engine):
    engine.push("shops", [(1, "Ulm", 1), (2, "Ulm", 2), (3, "Bonn", 3)])
    cities = engine.query(CITIES)
    engine.push("shops", mixed((4, "Rom", 1), delete(3)))
    assert changes(cities) == [("insert", "Ulm"), ("insert", "Rom")]
    engine.push("shops", [delete(1)])
    assert changes(cities) == []
    engine.push("shops", [delete(2)])
    assert changes(cities) == [("delete", "Ulm")]


def test_a_query_over_an_empty_table_counts_from_nothing(engine):
    cities = engine.query(CITIES)
    engine.tick()
    engine.push("shops", [(1, "Ulm", 1)])
    engine.push("shops", [delete(1)])
    assert changes(cities) == [("insert", "Ulm"), ("delete", "Ulm")]


def test_values_that_sql_groups_together_are_one(engine):
    engine.stream("samples", "id INT, x DOUBLE, tags ARRAY<DOUBLE>, at TIMESTAMP", key="id")
    values = engine.query("SELECT DISTINCT x, tags, at FROM samples")
    first, then = (datetime.datetime(2026, 1, day, tzinfo=datetime.UTC) for day in (1, 2))
    rows = [
        (math.nan, [math.nan, 0.0], first),
        (0.0, None, first),
        (None, None, None),
        (1.0, [1.0], then),
    ]
    again = [(math.nan, [math.nan, -0.0], first), (-0.0, None, first), (None, None, None), (1.0, [1.0], then)]
    engine.push("samples", [(n, *row) for n, row in enumerate(rows)])
    assert len(changes(values)) == 4
    engine.push("samples", [(n + 10, *row) for n, row in enumerate(again)])
    engine.push("samples", [delete(n) for n in range(4)])
    assert changes(values) == []
    engine.push("samples", [delete(n + 10) for n in range(4)])
    assert [change for change, *_ in changes(values)] == ["delete"] * 4


def test_distinct_takes_joins_of_tables(engine):
    names = engine.query("SELECT DISTINCT s.city, o.name FROM shops s JOIN owners o ON s.size = o.id")
    engine.push({"shops": [(1, "Ulm", 7), (2, "Ulm", 7), (3, "Ulm", 8)], "owners": [(7, "ann"), (8, "ann")]})
    assert changes(names) == [("insert", "Ulm", "ann")]
    engine.push("owners", [(7, "bob")])
    assert changes(names) == [("insert", "Ulm", "bob")]
    engine.push("shops", [delete(3)])
    assert changes(names) == [("delete", "Ulm", "ann")]
    late = engine.query("SELECT DISTINCT o.name FROM shops s JOIN owners o ON s.size = o.id")
    engine.tick()
    assert changes(late) == [("insert", "bob")]
    engine.push("shops", [delete(1)])
    engine.push("owners", [delete(7)])
    assert changes(late) == [("delete", "bob")]


def test_a_view_with_distinct_is_read_as_a_set(engine):
    engine.query(CITIES, name="cities")
    short = engine.query("SELECT city FROM cities WHERE length(city) < 4")
    engine.push("shops", [(1, "Ulm", 1), (2, "Ulm", 1), (3, "Bonn", 1)])
    letters = engine.query("SELECT DISTINCT substring(city, 2, 1) AS letter FROM cities")
    engine.tick()
    assert changes(letters) == [("insert", "l"), ("insert", "o")]
    engine.push("shops", [(3, "Rom", 1), (4, "Olm", 1)])
    engine.push("shops", [delete(1), delete(2)])
    assert changes(short) == [
        ("insert", "Ulm"),
        ("insert", "Rom"),
        ("insert", "Olm"),
        ("delete", "Ulm"),
    ]
    assert changes(letters) == []
    engine.push("shops", [delete(4)])
    assert changes(letters) == [("delete", "l")]


def test_a_second_reader_of_a_view_leaves_the_counts_of_the_first_as_they_are(engine):
    engine.query(CITIES, name="cities")
    engine.push("shops", [(1, "Ulm", 1)])
    one = engine.query("SELECT city FROM cities")
    engine.push("shops", [(2, "Ulm", 1)])
    two = engine.query("SELECT city FROM cities")
    engine.push("shops", mixed(delete(1), (3, "Bonn", 1)))
    assert changes(one) == [("insert", "Ulm"), ("insert", "Bonn")]
    assert changes(two) == [("insert", "Ulm"), ("insert", "Bonn")]
    engine.push("shops", [delete(2)])
    assert changes(one) == changes(two) == [("delete", "Ulm")]


def test_a_paused_query_begins_anew_and_a_replaced_one_too(engine):
    cities = engine.query(CITIES, name="cities")
    engine.push("shops", [(1, "Ulm", 1), (2, "Bonn", 70)])
    cities.pause()
    engine.push("shops", [(3, "Ulm", 1), (4, "Rom", 1)])
    cities.resume()
    engine.push("shops", [delete(1)])
    assert changes(cities) == [("insert", "Ulm"), ("insert", "Ulm"), ("insert", "Rom")]
    cities.replace("SELECT DISTINCT city FROM shops WHERE size > 50")
    engine.push("shops", [delete(3)])
    engine.push("shops", [delete(2)])
    assert changes(cities) == [("insert", "Bonn"), ("delete", "Bonn")]
    engine.get("cities").drop()
    engine.push("shops", [(9, "Ulm", 1)])
    assert engine.rounds.flow.counts.snapshot()["counts"] == 0


def test_a_round_that_fails_has_counted_nothing(engine):
    cities = engine.query(CITIES)
    engine.push("shops", [(1, "Ulm", 1)])

    def fail(step: str) -> None:
        if step == "4 commit":
            raise RuntimeError("here")

    known, engine.rounds.at_step = engine.rounds.at_step, fail
    with pytest.raises(RuntimeError, match="here"):
        engine.push("shops", mixed(delete(1), (2, "Bonn", 1)))
    engine.rounds.at_step = known
    engine.push("shops", [(3, "Ulm", 1)])
    engine.push("shops", [delete(1)])
    assert changes(cities) == [("insert", "Ulm")]
    engine.rounds.flow.counts.check()


def test_counts_are_made_anew_when_a_home_is_opened(tmp_path):
    def opened() -> eddyline.Engine:
        return eddyline.open(tmp_path / "home")

    with opened() as engine:
        engine.stream("shops", "id INT, city STRING, size INT", key="id")
        engine.query(CITIES, name="cities")
        engine.query("SELECT DISTINCT length(city) AS n FROM cities", name="lengths")
        engine.push("shops", [(1, "Ulm", 1), (2, "Ulm", 1), (3, "Rom", 1), (4, "Bonn", 1)])
    with opened() as engine:
        engine.push("shops", [delete(1), delete(4)])
        engine.push("shops", [delete(2)])
        assert engine.rounds.flow.counts.snapshot()["queries"] == 3  # the view has a body, too
    with opened() as engine:
        engine.push("shops", [delete(3)])
        assert [(r.change, *r.values()) for r in engine.get("cities").latest(99)] == [
            ("insert", "Ulm"),
            ("insert", "Rom"),
            ("insert", "Bonn"),
            ("delete", "Bonn"),
            ("delete", "Ulm"),
            ("delete", "Rom"),
        ]
        assert [(r.change, *r.values()) for r in engine.get("lengths").latest(99)] == [
            ("insert", 3),
            ("insert", 4),
            ("delete", 4),
            ("delete", 3),
        ]


def test_an_alert_is_open_while_the_value_occurs(engine):
    engine.query(CITIES, name="cities", severity="warning", cooldown="1 second")
    engine.push("shops", [(1, "Ulm", 1), (2, "Ulm", 1)])
    engine.push("shops", [delete(1)])
    engine.push("shops", [delete(2)])
    assert [(each.status, each.key) for each in engine.messages()] == [
        ("firing", {"city": "Ulm"}),
        ("resolved", {"city": "Ulm"}),
    ]


def test_many_queries_of_one_text_count_for_themselves(engine):
    engine.query_many(
        "SELECT DISTINCT city FROM shops WHERE size < :most",
        params=[{"most": n} for n in (10, 20, 30)],
        name="below-{most}",
    )
    engine.push("shops", [(1, "Ulm", 5), (2, "Ulm", 15), (3, "Ulm", 25)])
    engine.push("shops", [delete(1)])
    engine.push("shops", [delete(2)])
    assert [changes(engine.get(f"below-{n}")) for n in (10, 20, 30)] == [
        [("insert", "Ulm"), ("delete", "Ulm")],
        [("insert", "Ulm"), ("delete", "Ulm")],
        [("insert", "Ulm")],
    ]


def test_explain_says_how_many_results_there_are_now(engine):
    cities = engine.query(CITIES)
    engine.push("shops", [(1, "Ulm", 1), (2, "Ulm", 1), (3, "Bonn", 1)])
    explanation = cities.explain()
    assert explanation.as_dict()["n_counted"] == 2
    assert "  counted    each result once, while it occurs: 2 now" in str(explanation).splitlines()


def test_what_distinct_cannot_be_is_refused_with_the_way_out(engine):
    engine.stream("maps", "id INT, m MAP<STRING, INT>", key="id")

    @eddyline.udf(returns="int", scalar=True, deterministic=False)
    def drawn(n: int) -> int:
        return n

    with pytest.raises(UnsupportedError, match="SELECT DISTINCT is not supported over visits") as refused:
        engine.query("SELECT DISTINCT city FROM visits")
    assert "Declare a key for visits" in (refused.value.hint or "")
    engine.query("SELECT city FROM visits", name="seen")
    with pytest.raises(UnsupportedError, match="SELECT DISTINCT is not supported over seen"):
        engine.query("SELECT DISTINCT city FROM seen")
    with pytest.raises(UnsupportedError, match="SELECT DISTINCT is not supported over visits"):
        engine.query("SELECT city FROM (SELECT DISTINCT city FROM visits) x")
    with pytest.raises(TypeMismatchError, match="SELECT DISTINCT does not take m"):
        engine.query("SELECT DISTINCT m FROM maps")
    with pytest.raises(UnsupportedError, match=r"now\(\) and the like cannot stand in SELECT DISTINCT"):
        engine.query("SELECT DISTINCT city FROM shops WHERE now() > TIMESTAMP '2026-01-01'")
    with pytest.raises(UnsupportedError, match="drawn is not deterministic"):
        engine.query("SELECT DISTINCT drawn(size) AS n FROM shops")


def test_distinct_in_a_query_that_is_only_asked_for_a_match_changes_nothing(engine):
    seen = engine.query("SELECT id FROM visits WHERE city IN (SELECT DISTINCT city FROM shops)")
    engine.push("shops", [(1, "Ulm", 1), (2, "Ulm", 1)])
    engine.push("visits", [(7, "Ulm"), (8, "Bonn")])
    assert changes(seen) == [("insert", 7)]


def test_receipts_of_results_that_are_counted_have_a_row_in_which_they_occur(tmp_path):
    with eddyline.open(tmp_path / "home") as engine:
        engine.sql("""
            CREATE TABLE shops (id INT PRIMARY KEY, city STRING, size INT);
            CREATE TABLE days (id INT PRIMARY KEY, city STRING)
        """)
        engine.query("SELECT DISTINCT city FROM shops", name="cities")
        engine.query("SELECT city FROM cities", name="reader")
        engine.query("SELECT id FROM shops WHERE city IN (SELECT city FROM days)", name="opened")
        engine.push("shops", [(1, "Ulm", 1), (2, "Ulm", 1)])
        engine.push("days", [(5, "Ulm"), (6, "Ulm")])
        for name, keys in (("cities", [1]), ("reader", [1]), ("opened", [2, 5])):
            receipt = engine.receipt(engine.get(name).latest()[-1])
            assert receipt.is_intact
            assert [row["row"]["id"] for row in receipt["rows"]] == keys, name


def test_a_row_in_error_is_a_dead_letter_also_if_its_key_is_a_value_of_the_result(engine):
    query = engine.query(
        "SELECT DISTINCT size FROM shops WHERE id IN (SELECT id FROM owners WHERE 10 DIV length(name) > 0)"
    )
    engine.push({"owners": [(1, "Ann"), (5, "")], "shops": [(1, "Ulm", 5), (5, "Ulm", 9)]})
    assert changes(query) == [("insert", 5)]
    assert [letter.error for letter in engine.dead_letters()] == ["DIVIDE_BY_ZERO"]


def test_distinct_over_a_view_that_asks_for_the_time_is_refused():
    with eddyline.open() as engine:
        engine.sql("CREATE TABLE quotes (sym STRING PRIMARY KEY, ts TIMESTAMP)")
        engine.query("SELECT sym FROM quotes WHERE ts > now() - INTERVAL 1 HOUR", name="fresh")
        engine.query("SELECT sym FROM fresh", name="above")
        with pytest.raises(UnsupportedError) as caught:
            engine.query("SELECT DISTINCT sym FROM above")
        assert caught.value.problem.startswith("SELECT DISTINCT does not take above: it asks for now()")
