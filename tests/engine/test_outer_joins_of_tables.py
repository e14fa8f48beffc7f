"""LEFT JOIN, LEFT ANTI JOIN and NOT EXISTS between tables: a row without a match leaves with its first match and comes back."""

from __future__ import annotations

import pytest

import eddyline
from eddyline.errors import UnsupportedError

LEFT = "SELECT o.id, o.n, l.id AS lid, l.most FROM orders o LEFT JOIN limits l ON o.k = l.k"
ANTI = "SELECT o.id, o.n FROM orders o LEFT ANTI JOIN limits l ON o.k = l.k"
NOT_EXISTS = "SELECT o.id, o.n FROM orders o WHERE NOT EXISTS (SELECT 1 FROM limits l WHERE l.k = o.k{})"


def declare(engine: eddyline.Engine) -> None:
    engine.stream("orders", "id INT, k INT, n INT", key="id")
    engine.stream("limits", "id INT, k INT, most INT", key="id")


@pytest.fixture(params=["memory", "home"])
def engine(request, tmp_path):
    with eddyline.open(tmp_path / "home" if request.param == "home" else None) as made:
        declare(made)
        yield made


def changes(query) -> list[tuple]:
    return [(result.change, *result.values()) for result in query.results()]


def delete(*ids: int) -> list[dict[str, object]]:
    return [{"id": id_, "_change_type": "delete"} for id_ in ids]


def limits(*rows: tuple | int) -> list[dict[str, object]]:
    """Rows to insert, and keys to delete."""
    names = ("id", "k", "most")
    return [
        delete(row)[0]
        if isinstance(row, int)
        else {**dict(zip(names, row, strict=True)), "_change_type": "insert"}
        for row in rows
    ]


def test_a_row_without_a_match_leaves_with_the_first_and_comes_back_with_the_last(engine):
    left, anti, exists = map(engine.query, (LEFT, ANTI, NOT_EXISTS.format("")))
    engine.push("orders", [(1, 7, 10), (2, None, 20)])
    assert changes(left) == [("insert", 1, 10, None, None), ("insert", 2, 20, None, None)]
    engine.push("limits", [(1, 7, 0), (3, None, 5)])
    assert changes(left) == [("insert", 1, 10, 1, 0), ("delete", 1, 10, None, None)]
    engine.push("limits", [(2, 7, 9)])
    assert changes(left) == [("insert", 1, 10, 2, 9)]
    engine.push("limits", delete(1))
    assert changes(left) == [("delete", 1, 10, 1, 0)]
    engine.push("limits", [(2, 8, 9)])
    assert changes(left) == [("delete", 1, 10, 2, 9), ("insert", 1, 10, None, None)]
    for query in (anti, exists):
        assert changes(query) == [
            ("insert", 1, 10),
            ("insert", 2, 20),
            ("delete", 1, 10),
            ("insert", 1, 10),
        ]


def test_a_row_that_is_replaced_is_an_update_where_it_stays_alone(engine):
    left, anti = engine.query(LEFT), engine.query(ANTI)
    engine.push({"orders": [(1, 7, 10)], "limits": [(1, 8, 0)]})
    engine.push("orders", [(1, 9, 11)])
    engine.push("orders", [(1, 8, 12)])
    engine.push("orders", [(1, 8, 13)])
    engine.push("orders", delete(1))
    assert changes(left) == [
        ("insert", 1, 10, None, None),
        ("update_preimage", 1, 10, None, None),
        ("update_postimage", 1, 11, None, None),
        ("insert", 1, 12, 1, 0),
        ("delete", 1, 11, None, None),
        ("update_preimage", 1, 12, 1, 0),
        ("update_postimage", 1, 13, 1, 0),
        ("delete", 1, 13, 1, 0),
    ]
    assert changes(anti) == [
        ("insert", 1, 10),
        ("update_preimage", 1, 10),
        ("update_postimage", 1, 11),
        ("delete", 1, 11),
    ]


def test_a_round_tells_what_remains_of_its_changes(engine):
    left, anti = engine.query(LEFT), engine.query(ANTI)
    engine.push({"orders": [(1, 7, 10), (2, 8, 20)], "limits": [(1, 7, 0)]})
    assert changes(left) == [("insert", 1, 10, 1, 0), ("insert", 2, 20, None, None)]
    assert changes(anti) == [("insert", 2, 20)]
    engine.push("limits", limits((2, 8, 1), (3, 8, 1), 2, (3, 9, 1)))
    engine.push("limits", limits((4, 8, 0), 4))
    assert changes(left) == changes(anti) == []
    engine.push("limits", [(1, 8, 0), (1, 7, 1)])
    assert changes(left) == [("update_preimage", 1, 10, 1, 0), ("update_postimage", 1, 10, 1, 1)]
    assert changes(anti) == []
    engine.push({"orders": [(2, 7, 21)], "limits": [(2, 8, 2)]})
    assert changes(left) == [("insert", 2, 21, 1, 1), ("delete", 2, 20, None, None)]
    assert changes(anti) == [("delete", 2, 20)]


def test_each_query_has_matches_of_its_own(engine):
    texts = [f"{LEFT} AND l.most > {low}" for low in (5, 50)]
    low, high = map(engine.query, texts)
    none = engine.query(NOT_EXISTS.format(" AND l.most > o.n"))
    engine.push({"orders": [(1, 7, 30)], "limits": [(1, 7, 10), (2, 7, 40)]})
    engine.push("limits", [(2, 7, 60)])
    engine.push("limits", delete(2))
    assert changes(low) == [
        ("insert", 1, 30, 1, 10),
        ("insert", 1, 30, 2, 40),
        ("update_preimage", 1, 30, 2, 40),
        ("update_postimage", 1, 30, 2, 60),
        ("delete", 1, 30, 2, 60),
    ]
    assert changes(high) == [
        ("insert", 1, 30, None, None),
        ("insert", 1, 30, 2, 60),
        ("delete", 1, 30, None, None),
        ("delete", 1, 30, 2, 60),
        ("insert", 1, 30, None, None),
    ]
    assert changes(none) == [("insert", 1, 30)]


def test_where_is_asked_of_rows_with_null_and_on_of_matches(engine):
    missing = engine.query(f"{LEFT} WHERE l.id IS NULL AND o.n > 15")
    one_sided = engine.query(f"{LEFT} AND o.n > 15 WHERE coalesce(l.most, 99) > 5")
    engine.push({"orders": [(1, 7, 10), (2, 7, 20)], "limits": [(1, 7, 6)]})
    assert changes(missing) == []
    assert changes(one_sided) == [("insert", 2, 20, 1, 6), ("insert", 1, 10, None, None)]
    engine.push("limits", [(1, 7, 3)])
    assert changes(one_sided) == [("delete", 2, 20, 1, 6)]
    engine.push("limits", delete(1))
    assert changes(missing) == [("insert", 2, 20, None, None)]
    assert changes(one_sided) == [("insert", 2, 20, None, None)]


def test_a_right_join_is_a_left_join_the_other_way_round(engine):
    query = engine.query("SELECT l.most, o.id FROM limits l RIGHT JOIN orders o ON o.k = l.k")
    engine.push({"orders": [(1, 7, 10)]})
    engine.push({"limits": [(1, 7, 6)]})
    assert changes(query) == [("insert", None, 1), ("insert", 6, 1), ("delete", None, 1)]


def test_a_table_is_joined_with_itself(engine):
    last = engine.query(
        "SELECT p.id, p.n FROM orders p LEFT ANTI JOIN orders q ON p.k = q.k AND q.n > p.n",
    )
    engine.push("orders", [(1, 7, 10), (2, 7, 20), (3, 8, 5)])
    assert sorted(changes(last)) == [("insert", 2, 20), ("insert", 3, 5)]
    engine.push("orders", [(1, 7, 30)])
    assert sorted(changes(last)) == [("delete", 2, 20), ("insert", 1, 30)]
    engine.push("orders", delete(1))
    assert sorted(changes(last)) == [("delete", 1, 30), ("insert", 2, 20)]


def test_inputs_need_no_equality(engine):
    most = engine.query(
        "SELECT o.id FROM orders o WHERE NOT EXISTS (SELECT 1 FROM limits l WHERE l.most < o.n)"
    )
    engine.push({"orders": [(1, 7, 10), (2, 7, 20)], "limits": [(1, 0, 15)]})
    engine.push("limits", [(1, 0, 5)])
    engine.push("limits", delete(1))
    assert changes(most) == [("insert", 1), ("delete", 1), ("insert", 1), ("insert", 2)]


def test_a_new_query_gets_its_answer_and_goes_on_from_there(engine):
    engine.push({"orders": [(1, 7, 1), (2, 8, 2)], "limits": [(1, 7, 0), (2, 7, 0)]})
    left, anti = engine.query(LEFT), engine.query(ANTI)
    engine.push("orders", [(3, 9, 3)])
    assert sorted(changes(left), key=repr) == [
        ("insert", 1, 1, 1, 0),
        ("insert", 1, 1, 2, 0),
        ("insert", 2, 2, None, None),
        ("insert", 3, 3, None, None),
    ]
    assert changes(anti) == [("insert", 2, 2), ("insert", 3, 3)]
    engine.push("limits", [(1, 8, 0)])
    assert sorted(changes(left), key=repr) == [
        ("delete", 1, 1, 1, 0),
        ("delete", 2, 2, None, None),
        ("insert", 2, 2, 1, 0),
    ]
    assert changes(anti) == [("delete", 2, 2)]


def test_views_and_distinct_take_outer_joins(engine):
    engine.query(LEFT, name="limited")
    engine.query(ANTI, name="free")
    small = engine.query("SELECT id, lid FROM limited WHERE n < 50")
    of_free = engine.query("SELECT id, n FROM free WHERE n < 50")
    values = engine.query("SELECT DISTINCT o.k FROM orders o LEFT JOIN limits l ON o.k = l.k")
    engine.push({"orders": [(1, 7, 10), (2, 7, 10)]})
    engine.push("orders", [(1, 7, 20)])
    engine.push("limits", [(1, 7, 0)])
    engine.push("orders", [(2, 7, 70)])
    engine.push("limits", delete(1))
    assert changes(of_free) == [
        ("insert", 1, 10),
        ("insert", 2, 10),
        ("update_preimage", 1, 10),
        ("update_postimage", 1, 20),
        ("delete", 2, 10),
        ("delete", 1, 20),
        ("insert", 1, 20),
    ]
    assert changes(small) == [
        ("insert", 1, None),
        ("insert", 2, None),
        ("update_preimage", 1, None),
        ("update_postimage", 1, None),
        ("insert", 2, 1),
        ("insert", 1, 1),
        ("delete", 2, None),
        ("delete", 1, None),
        ("delete", 2, 1),
        ("delete", 1, 1),
        ("insert", 1, None),
    ]
    assert changes(values) == [("insert", 7)]
    engine.push("orders", delete(1, 2))
    assert changes(values) == [("delete", 7)]


def test_a_match_beats_an_error_and_where_nothing_matches_the_error_is_told(engine):
    anti = engine.query(NOT_EXISTS.format(" AND 10 / l.most > 1"))
    engine.push({"limits": [(1, 7, 0), (2, 7, 2), (3, 8, 0)], "orders": [(1, 7, 1), (2, 8, 2), (3, 9, 3)]})
    assert changes(anti) == [("insert", 3, 3)]
    assert [letter.row["o.id"] for letter in engine.dead_letters()] == [2]
    engine.push("limits", [(4, 8, 0)])
    assert changes(anti) == []
    assert len(engine.dead_letters()) == 1
    engine.push("limits", [(3, 8, 50), (4, 8, 50)])
    assert changes(anti) == [("insert", 2, 2)]


def test_nothing_is_counted_and_a_home_that_is_opened_again_goes_on(tmp_path):
    with eddyline.open(tmp_path / "home") as engine:
        declare(engine)
        engine.query(LEFT, name="left")
        engine.query("SELECT DISTINCT o.k FROM orders o LEFT ANTI JOIN limits l ON o.k = l.k", name="free")
        engine.push({"orders": [(1, 7, 1), (2, 7, 1)], "limits": [(1, 7, 0)]})
    with eddyline.open(tmp_path / "home") as engine:
        engine.push("limits", delete(1))
        engine.push("orders", delete(1))
    with eddyline.open(tmp_path / "home") as engine:
        engine.push("limits", [(1, 7, 0)])
        assert changes(engine.get("free")) == [("insert", 7), ("delete", 7)]
        assert [change[0] for change in changes(engine.get("left"))] == [
            *["insert"] * 2,
            *["delete"] * 2,
            *["insert"] * 2,
            "delete",
            "insert",
            "delete",
        ]


def test_an_alert_stays_open_while_a_row_has_a_match_or_none(engine):
    engine.query(
        "SELECT o.id, l.most FROM orders o LEFT JOIN limits l ON o.id = l.id", name="all", severity="warning"
    )
    engine.query(NOT_EXISTS.format(""), name="free", severity="warning")
    engine.push("orders", [(1, 7, 1)])
    engine.push("limits", [(1, 7, 0)])
    engine.push("limits", delete(1))
    engine.push("orders", delete(1))
    told = [(each.query, each.status, each.key) for each in engine.messages()]
    assert [each[1:] for each in told if each[0] == "all"] == [("firing", {"id": 1}), ("resolved", {"id": 1})]
    assert [each[1:] for each in told if each[0] == "free"] == [
        ("firing", {"id": 1}),
        ("resolved", {"id": 1}),
        ("firing", {"id": 1}),
        ("resolved", {"id": 1}),
    ]


def test_queries_that_differ_in_constants_are_one_join_and_only_those_that_may_take_a_row_are_asked(engine):
    for low in range(20):
        engine.query(f"{LEFT} AND l.most > {low} WHERE o.n = {low}")
    (join,) = engine.rounds.catalog.plans.signatures()
    assert engine.rounds.catalog.plan(join.name).n_queries == 20
    engine.push({"orders": [(1, 7, 3)], "limits": [(1, 7, 90)]})
    engine.push("limits", [(2, 7, 91)])
    matching = engine.rounds.flow.filters.find(f"{join.name}/match".lower())
    assert matching is not None
    # the first answer: a combination, and as a partner; then the new one, and the partners before and after: one and two
    assert matching.counters.n_rows == matching.counters.n_matches == 6


def test_a_match_beats_an_error_in_where(engine):
    anti = engine.query(f"{ANTI} AND l.most > 5 WHERE 10 / o.n > 1")
    engine.push({"limits": [(1, 7, 6), (2, 8, 0)], "orders": [(1, 7, 0), (2, 8, 0), (3, 9, 2)]})
    assert changes(anti) == [("insert", 3, 2)]
    assert [letter.row["o.id"] for letter in engine.dead_letters()] == [2]


def test_what_an_outer_join_of_tables_cannot_be_is_refused(engine):
    with pytest.raises(UnsupportedError, match=r"now\(\) and the like cannot stand in NOT EXISTS of tables"):
        engine.query(NOT_EXISTS.format(" AND now() > TIMESTAMP '2026-01-01'"))
    with pytest.raises(UnsupportedError, match=r"now\(\) and the like cannot stand in LEFT JOIN of tables"):
        engine.query(f"{LEFT} WHERE now() > TIMESTAMP '2026-01-01'")
    with pytest.raises(UnsupportedError, match=r"LEFT JOIN takes two inputs, this query has 3"):
        engine.query(f"{LEFT} LEFT JOIN limits m ON m.id = o.id")
    with pytest.raises(
        UnsupportedError, match=r"now\(\) and the like cannot stand in NOT IN \(SELECT …\) of tables"
    ):
        engine.query(
            "SELECT id FROM orders WHERE k NOT IN (SELECT k FROM limits WHERE now() > TIMESTAMP '2026-01-01')"
        )
