"""LEFT SEMI JOIN, EXISTS and IN between tables: a row is a result as long as it has a match."""

from __future__ import annotations

import pytest

import eddyline
from eddyline.errors import UnsupportedError

EXISTS = "SELECT o.id, o.n FROM orders o WHERE EXISTS (SELECT 1 FROM limits l WHERE l.k = o.k AND {})"


@pytest.fixture(params=["memory", "home"])
def engine(request, tmp_path):
    with eddyline.open(tmp_path / "home" if request.param == "home" else None) as made:
        made.stream("orders", "id INT, k INT, n INT", key="id")
        made.stream("limits", "id INT, k INT, most INT", key="id")
        yield made


def changes(query) -> list[tuple]:
    return [(result.change, *result.values()) for result in query.results()]


def delete(*ids: int) -> list[dict[str, object]]:
    return [{"id": id_, "_change_type": "delete"} for id_ in ids]


def test_a_row_appears_with_its_first_match_and_leaves_with_the_last(engine):
    texts = (
        EXISTS.format("TRUE"),
        "SELECT id, n FROM orders WHERE k IN (SELECT k FROM limits)",
        "SELECT o.id, o.n FROM orders o LEFT SEMI JOIN limits l ON o.k = l.k",
    )
    queries = [engine.query(text) for text in texts]
    engine.push("orders", [(1, 7, 10), (2, 8, 20), (3, None, 30)])
    engine.push("limits", [(1, 7, 0), (2, 7, 0)])
    engine.push("limits", [(3, 7, 0), (1, 9, 0)])
    engine.push("limits", delete(2))
    for query in queries:
        assert changes(query) == [("insert", 1, 10)]
    engine.push("limits", [(3, 8, 0)])
    for query in queries:
        assert sorted(changes(query)) == [("delete", 1, 10), ("insert", 2, 20)]


def test_a_row_that_is_replaced_and_still_has_a_match_is_an_update(engine):
    query = engine.query(EXISTS.format("TRUE"))
    engine.push({"orders": [(1, 7, 10)], "limits": [(1, 7, 0), (2, 7, 0), (3, 8, 0)]})
    engine.push("orders", [(1, 7, 11)])
    engine.push("orders", [(1, 8, 12)])
    engine.push("orders", [(1, 9, 13)])
    assert changes(query) == [
        ("insert", 1, 10),
        ("update_preimage", 1, 10),
        ("update_postimage", 1, 11),
        ("update_preimage", 1, 11),
        ("update_postimage", 1, 12),
        ("delete", 1, 12),
    ]


def test_a_match_that_changes_is_silent(engine):
    by_key = engine.query("SELECT o.id FROM orders o WHERE o.k IN (SELECT id FROM limits)")
    engine.push({"orders": [(1, 7, 10)], "limits": [(7, 0, 0)]})
    engine.push("limits", [(7, 1, 1)])
    assert changes(by_key) == [("insert", 1)]


def test_both_sides_may_change_in_one_round(engine):
    query = engine.query(EXISTS.format("l.most > o.n"))
    engine.push({"orders": [(1, 7, 10), (2, 7, 90)], "limits": [(1, 7, 50), (2, 7, 60)]})
    engine.push({"limits": [(1, 7, 5), (2, 8, 60)], "orders": [(1, 8, 20)]})
    engine.push({"orders": [(1, 8, 30)], "limits": [(3, 7, 95), (2, 8, 25)]})
    assert changes(query) == [
        ("insert", 1, 10),
        ("update_preimage", 1, 10),
        ("update_postimage", 1, 20),
        ("insert", 2, 90),
        ("delete", 1, 20),
    ]


def test_each_query_counts_the_matches_of_its_own_condition(engine):
    above = engine.query(EXISTS.format("l.most > 5"))
    below = engine.query(EXISTS.format("l.most < 5"))
    engine.push({"orders": [(1, 7, 1)], "limits": [(1, 7, 9), (2, 7, 8), (3, 7, 1)]})
    engine.push("orders", [(1, 7, 2)])
    engine.push("limits", [(1, 7, 2), (3, 7, 7)])
    engine.push("limits", delete(1))
    assert changes(above) == [
        ("insert", 1, 1),
        ("update_preimage", 1, 1),
        ("update_postimage", 1, 2),
    ]
    assert changes(below) == [
        ("insert", 1, 1),
        ("update_preimage", 1, 1),
        ("update_postimage", 1, 2),
        ("delete", 1, 2),
    ]


def test_a_new_query_gets_its_answer_and_counts_from_there(engine):
    engine.push({"orders": [(1, 7, 1), (2, 8, 2)], "limits": [(1, 7, 0), (2, 7, 0)]})
    query = engine.query(EXISTS.format("TRUE"))
    engine.push("limits", [(3, 8, 0)])
    assert sorted(changes(query)) == [("insert", 1, 1), ("insert", 2, 2)]
    engine.push("limits", delete(1))
    assert changes(query) == []
    engine.push("limits", delete(2))
    assert changes(query) == [("delete", 1, 1)]


def test_views_and_distinct_take_semi_joins(engine):
    engine.query(EXISTS.format("TRUE"), name="limited")
    small = engine.query("SELECT id, n FROM limited WHERE n < 50")
    values = engine.query("SELECT DISTINCT n FROM orders o WHERE k IN (SELECT k FROM limits)")
    engine.push({"orders": [(1, 7, 10), (2, 7, 10)], "limits": [(1, 7, 0), (2, 7, 0)]})
    engine.push("orders", [(1, 7, 20)])
    engine.push("orders", [(1, 7, 70)])
    engine.push("limits", delete(1))
    assert changes(small) == [
        ("insert", 1, 10),
        ("insert", 2, 10),
        ("update_preimage", 1, 10),
        ("update_postimage", 1, 20),
        ("delete", 1, 20),
    ]
    engine.push("limits", delete(2))
    assert changes(small) == [("delete", 2, 10)]
    assert sorted(changes(values)) == [
        ("delete", 10),
        ("delete", 20),
        ("delete", 70),
        ("insert", 10),
        ("insert", 20),
        ("insert", 70),
    ]


def test_a_match_beats_an_error_and_an_error_is_told_once(engine):
    query = engine.query(EXISTS.format("10 / l.most > 1"))
    engine.push({"limits": [(1, 7, 0), (2, 7, 2), (3, 8, 0), (4, 8, 0)], "orders": [(1, 7, 1), (2, 8, 2)]})
    assert changes(query) == [("insert", 1, 1)]
    assert [letter.row["o.id"] for letter in engine.dead_letters()] == [2]


def test_counts_are_made_anew_when_a_home_is_opened(tmp_path):
    with eddyline.open(tmp_path / "home") as engine:
        engine.stream("orders", "id INT, k INT, n INT", key="id")
        engine.stream("limits", "id INT, k INT, most INT", key="id")
        engine.query(EXISTS.format("TRUE"), name="limited")
        engine.push({"orders": [(1, 7, 1)], "limits": [(1, 7, 0), (2, 7, 0)]})
    with eddyline.open(tmp_path / "home") as engine:
        engine.push("limits", delete(1))
        engine.push("orders", [(1, 7, 2)])
        engine.push("limits", delete(2))
        assert [(r.change, *r.values()) for r in engine.get("limited").latest(9)] == [
            ("insert", 1, 1),
            ("update_preimage", 1, 1),
            ("update_postimage", 1, 2),
            ("delete", 1, 2),
        ]


def test_an_alert_has_the_keys_of_the_rows_that_are_shown(engine):
    engine.query(EXISTS.format("TRUE"), name="limited", severity="warning")
    engine.push({"orders": [(1, 7, 1)], "limits": [(1, 7, 0), (2, 7, 0)]})
    engine.push("limits", delete(1))
    engine.push("limits", delete(2))
    assert [(each.status, each.key) for each in engine.messages()] == [
        ("firing", {"id": 1}),
        ("resolved", {"id": 1}),
    ]


def test_what_a_semi_join_of_tables_cannot_be_is_refused(engine):
    with pytest.raises(UnsupportedError, match=r"now\(\) and the like cannot stand in EXISTS of tables"):
        engine.query(EXISTS.format("now() > TIMESTAMP '2026-01-01'"))


def test_explain_says_how_many_results_there_are_now(engine):
    query = engine.query(EXISTS.format("TRUE"))
    engine.push({"orders": [(1, 7, 1), (2, 7, 1), (3, 8, 1)], "limits": [(1, 7, 0), (2, 7, 0)]})
    assert query.explain().as_dict()["n_counted"] == 2
