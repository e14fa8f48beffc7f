"""NOT IN (SELECT …) with SQL's meaning of NULL, beside DuckDB over the rows of the tables."""

from __future__ import annotations

from collections import Counter

import pytest

import eddyline
from eddyline.errors import UnsupportedError
from tests.engine.test_table_views_oracle import VIEWS, Life, declare
from tests.lives_of_tables import PLACES, found, opened_in

TABLE_QUERIES = {
    "plain": "SELECT id, k FROM a WHERE k NOT IN (SELECT k FROM b)",
    "some": "SELECT id FROM a WHERE k NOT IN (SELECT k FROM b WHERE y > 6) AND x > 2",
    "keys": "SELECT id FROM a WHERE id NOT IN (SELECT id FROM b WHERE y > 3)",
    "of_key": "SELECT id FROM a WHERE x NOT IN (SELECT id FROM b)",
    "no_null": "SELECT id FROM a WHERE k IS NOT NULL AND k NOT IN (SELECT k FROM b WHERE k IS NOT NULL)",
    "correlated": "SELECT id FROM a WHERE k NOT IN (SELECT k FROM b WHERE b.y > a.x)",
    "of_set": "SELECT id FROM b WHERE k NOT IN (SELECT DISTINCT k FROM a WHERE x > 3)",
    "of_view": "SELECT id FROM b WHERE k NOT IN (SELECT k FROM either WHERE v > 8)",
    "computed": "SELECT id FROM a WHERE k + 1 NOT IN (SELECT k FROM kinds)",
}
STREAM_QUERIES = {
    "stream": "SELECT n FROM s WHERE k NOT IN (SELECT k FROM high)",
    "stream_some": "SELECT n FROM s WHERE k NOT IN (SELECT k FROM high WHERE x > s.n)",
}


@pytest.mark.thorough
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("seed", range(2))
def test_what_is_not_in_a_query_is_what_another_engine_finds(tmp_path, place, seed):
    life, expected = Life(seed), Counter[str]()
    engine = opened_in(tmp_path, place, declare)
    for name, text in (VIEWS | TABLE_QUERIES | STREAM_QUERIES).items():
        engine.query(text, name=name)
    of_streams = {name: Counter() for name in STREAM_QUERIES}
    for number in range(24):
        if number == 12:
            engine.close()
            engine = opened_in(tmp_path, place, declare)
        rows = life.round()
        if rows.get("s"):
            for name, answer in life.answers(STREAM_QUERIES, rows["s"]).items():
                of_streams[name] += answer
        engine.push(rows)
        life.take(rows)
        for name, answer in (life.answers(TABLE_QUERIES) | of_streams).items():
            assert found(engine, name) == answer, (number, name)
            expected[name] += len(answer)
    assert all(expected[name] for name in TABLE_QUERIES | STREAM_QUERIES)
    assert any(result.change == "delete" for result in engine.get("plain").latest(100_000))
    engine.close()


@pytest.fixture
def engine():
    with eddyline.open() as made:
        made.stream("orders", "id INT, k INT", key="id")
        made.stream("limits", "id INT, k INT", key="id")
        made.stream("clicks", "k INT")
        yield made


def changes(query) -> list[tuple]:
    return [(result.change, *result.values()) for result in query.results()]


def test_one_null_among_the_rows_of_the_query_and_nothing_is_in_the_answer(engine):
    query = engine.query("SELECT id FROM orders WHERE k NOT IN (SELECT k FROM limits)")
    engine.push("orders", [(1, 7), (2, None)])
    assert changes(query) == [("insert", 1), ("insert", 2)]  # of no rows at all also NULL is none
    engine.push("limits", [(1, 9)])
    assert changes(query) == [("delete", 2)]
    engine.push("limits", [(2, None)])
    assert changes(query) == [("delete", 1)]
    engine.push("limits", [{"id": 2, "_change_type": "delete"}])
    assert changes(query) == [("insert", 1)]


def test_keys_are_never_null_and_are_looked_up(engine):
    query = engine.query("SELECT id FROM orders WHERE id NOT IN (SELECT id FROM limits)")
    assert "left anti  orders.id = limits.id\n" in str(query.explain())


def test_a_query_over_a_stream_is_refused_with_the_way_out(engine):
    with pytest.raises(UnsupportedError, match="takes a query over a table; clicks has no key") as refused:
        engine.query("SELECT id FROM orders WHERE k NOT IN (SELECT k FROM clicks)")
    assert "Or write NOT EXISTS (SELECT 1 FROM b WHERE b.y = a.x), which leaves NULL out." in str(
        refused.value
    )
