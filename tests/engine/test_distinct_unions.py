"""SELECT DISTINCT over unions of tables, and UNION: a result is there as long as some part has it."""

from __future__ import annotations

import pytest

import eddyline
from eddyline.errors import UnsupportedError

UNITED = "SELECT DISTINCT v FROM (SELECT v FROM s UNION ALL SELECT v FROM t WHERE v > 0) u"


@pytest.fixture(params=["memory", "home"])
def engine(request, tmp_path):
    with eddyline.open(tmp_path / "home" if request.param == "home" else None) as made:
        declare(made)
        yield made


def declare(engine) -> None:
    for name in ("s", "t"):
        engine.stream(name, "id INT, v INT", key="id")


def changes(query) -> list[tuple]:
    return [(result.change, *result.values()) for result in query.results()]


def delete(id_: int) -> dict[str, object]:
    return {"id": id_, "_change_type": "delete"}


@pytest.mark.parametrize("text", [UNITED, "SELECT v FROM s UNION SELECT v FROM t WHERE v > 0"])
def test_a_value_appears_with_its_first_occurrence_in_any_part_and_leaves_with_the_last(engine, text):
    query = engine.query(text)
    engine.push({"s": [(1, 5), (2, 5)], "t": [(1, 5), (2, 7)]})
    assert sorted(changes(query)) == [("insert", 5), ("insert", 7)]
    engine.push("s", [delete(1), delete(2)])
    assert changes(query) == []
    engine.push("t", [(1, -1)])
    assert changes(query) == [("delete", 5)]


def test_a_value_that_leaves_one_part_and_appears_in_another_in_one_round_has_not_changed(engine):
    query = engine.query(UNITED)
    engine.push("s", [(1, 5)])
    assert changes(query) == [("insert", 5)]
    engine.push({"s": [(1, 6)], "t": [(1, 5)]})
    assert changes(query) == [("insert", 6)]
    engine.push({"t": [delete(1)], "s": [(1, 5)]})
    assert changes(query) == [("delete", 6)]


def test_a_row_that_two_parts_have_occurs_twice(engine):
    query = engine.query(
        "SELECT v FROM s WHERE v > 2 UNION SELECT v FROM s WHERE v < 9 UNION SELECT id FROM s"
    )
    engine.push("s", [(3, 5)])
    assert sorted(changes(query)) == [("insert", 3), ("insert", 5)]
    engine.push("s", [(3, 3)])
    assert changes(query) == [("delete", 5)]
    engine.push("s", [(3, 9)])
    assert changes(query) == [("insert", 9)]
    engine.push("s", [delete(3)])
    assert sorted(changes(query)) == [("delete", 3), ("delete", 9)]


def test_distinct_over_a_view_that_is_a_union_counts_all_its_parts(engine):
    engine.query("SELECT v FROM s UNION ALL SELECT v FROM t", name="u")
    engine.query("SELECT v + 1 AS w FROM u", name="above")
    query, above = engine.query("SELECT DISTINCT v FROM u"), engine.query("SELECT DISTINCT w FROM above")
    engine.push({"s": [(1, 5)], "t": [(1, 5)]})
    assert (changes(query), changes(above)) == ([("insert", 5)], [("insert", 6)])
    engine.push("s", [delete(1)])
    assert (changes(query), changes(above)) == ([], [])
    engine.push({"s": [(1, 5)], "t": [delete(1)]})
    assert (changes(query), changes(above)) == ([], [])
    engine.push("s", [delete(1)])
    assert (changes(query), changes(above)) == ([("delete", 5)], [("delete", 6)])


def test_a_set_over_a_union_is_read_as_a_view_and_a_late_reader_gets_all_of_it(engine):
    engine.query(UNITED, name="u")
    first = engine.query("SELECT v FROM u WHERE v < 9")
    engine.push({"s": [(1, 5), (2, 9)], "t": [(1, 5), (3, 8)]})
    assert sorted(changes(first)) == [("insert", 5), ("insert", 8)]
    late = engine.query("SELECT v FROM u")
    engine.push({"s": [(1, 6)], "t": [(4, 9)]})
    assert changes(first) == [("insert", 6)]
    assert sorted(changes(late)) == [("insert", each) for each in (5, 6, 8, 9)]
    engine.push("t", [delete(1)])
    assert (changes(first), changes(late)) == ([("delete", 5)], [("delete", 5)])


def test_counts_of_all_parts_are_made_anew_when_a_home_is_opened(tmp_path):
    with eddyline.open(tmp_path / "home") as engine:
        declare(engine)
        engine.query(UNITED, name="u")
        engine.query("SELECT v FROM u", name="reader")
        engine.push({"s": [(1, 5)], "t": [(1, 5)]})
    with eddyline.open(tmp_path / "home") as engine:
        queries = [engine.get(name) for name in ("u", "reader")]
        assert [changes(each) for each in queries] == [[("insert", 5)]] * 2
        engine.push("s", [delete(1)])
        assert [changes(each) for each in queries] == [[]] * 2
        engine.push("t", [delete(1)])
        assert [changes(each) for each in queries] == [[("delete", 5)]] * 2


def test_a_paused_set_begins_anew_and_a_replaced_one_too(engine):
    query = engine.query(UNITED, name="u")
    engine.push({"s": [(1, 5)], "t": [(1, 5)]})
    changes(query)
    query.pause()
    engine.push("s", [delete(1)])
    query.resume()
    engine.push("s", [(9, 0)])
    assert sorted(changes(query)) == [("insert", 0), ("insert", 5)]
    engine.replace("u", "SELECT v FROM s UNION SELECT id FROM t")
    engine.push("s", [(9, 1)])
    assert changes(query) == [("insert", 1)]
    engine.push("t", [delete(1)])
    assert changes(query) == []


def test_an_alert_is_open_while_some_part_has_the_value(engine):
    engine.query(UNITED, name="u", severity="info")
    engine.push({"s": [(1, 5)], "t": [(1, 5)]})
    engine.push("s", [delete(1)])
    assert [each.state for each in engine.alerts("u")] == ["firing"]
    engine.push("t", [delete(1)])
    assert list(engine.alerts("u")) == []


def test_many_queries_of_one_text_count_for_themselves(engine):
    text = "SELECT v FROM s WHERE v > :low UNION SELECT v FROM t WHERE v > :low"
    engine.query_many(text, params=[{"low": n} for n in (0, 4, 8)], name="above-{low}")
    engine.push({"s": [(1, 5), (2, 9)], "t": [(1, 5)]})
    engine.push("s", [(1, 9)])
    engine.push("t", [(1, 9)])
    found = [sorted(changes(engine.get(f"above-{n}"))) for n in (0, 4, 8)]
    assert found == [[("delete", 5), ("insert", 5), ("insert", 9)]] * 2 + [[("insert", 9)]]


def test_explain_counts_a_result_once_however_many_parts_have_it(engine):
    query = engine.query(UNITED)
    engine.push({"s": [(1, 5), (2, 6)], "t": [(1, 5)]})
    assert query.explain().as_dict()["n_counted"] == 2


def test_parts_are_compared_in_the_type_that_holds_the_values_of_all(engine):
    engine.stream("wide", "id INT, v DOUBLE", key="id")
    query = engine.query("SELECT v FROM s UNION SELECT v FROM wide")
    engine.push({"s": [(1, 0)], "wide": [(1, -0.0), (2, 0.5)]})
    assert sorted(result["v"] for result in query.results()) == [0.0, 0.5]


def test_union_over_a_stream_is_refused_with_the_way_out(engine):
    engine.stream("rows", "id INT, v INT")
    with pytest.raises(
        UnsupportedError, match="UNION is not supported over rows, which has no key"
    ) as refused:
        engine.query("SELECT v FROM s UNION SELECT v FROM rows")
    assert "Write UNION ALL" in str(refused.value)
