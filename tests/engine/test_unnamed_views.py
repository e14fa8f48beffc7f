"""Sets in FROM and WITH: views without a name, shared by all queries that contain them, and seen by nobody."""

from __future__ import annotations

import pytest

import eddyline
from eddyline.api.commands import Commands
from eddyline.catalog import restore_version, suspend
from eddyline.errors import NotBuiltError, QueryStateError, SchemaError, UnsupportedError

pytestmark = pytest.mark.usefixtures("no_session")  # DuckDB judges audits here

NESTED = "SELECT city, size FROM (SELECT DISTINCT city, size FROM shops WHERE size < 50) d WHERE size > 1"
ALIKE = "SELECT city AS c FROM (SELECT DISTINCT city, size  FROM shops\n WHERE size < 50) AS x"


@pytest.fixture(params=["memory", "home"])
def engine(request, tmp_path):
    with eddyline.open(tmp_path / "home" if request.param == "home" else None) as made:
        declare(made)
        yield made


def declare(engine) -> None:
    engine.stream("shops", "id INT, city STRING, size INT", key="id")
    engine.stream("days", "id INT, city STRING", key="id")


def changes(query) -> list[tuple]:
    return [(result.change, *result.values()) for result in query.results()]


def delete(id_: int) -> dict[str, object]:
    return {"id": id_, "_change_type": "delete"}


def shop(id_: int, city: str, size: int) -> dict[str, object]:
    return {"id": id_, "city": city, "size": size}


def unnamed(engine) -> list[str]:
    return sorted(view.name for view in engine.rounds.catalog.views.relations if not view.query_ids)


def test_a_query_over_a_set_in_from_sees_its_rows_appear_and_leave(engine):
    query = engine.query(NESTED)
    engine.push("shops", [(1, "Ulm", 5), (2, "Ulm", 5), (3, "Bonn", 1), (4, "Rom", 60)])
    assert changes(query) == [("insert", "Ulm", 5)]
    engine.push("shops", [delete(1), shop(3, "Bonn", 2)])
    assert changes(query) == [("insert", "Bonn", 2)]
    engine.push("shops", [(2, "Ulm", 50)])
    assert changes(query) == [("delete", "Ulm", 5)]


def test_a_set_of_with_is_read_by_every_part_that_names_it(engine):
    text = "WITH d AS (SELECT DISTINCT city FROM shops) SELECT city FROM d WHERE city > 'M' UNION ALL SELECT city FROM d"
    query = engine.query(text)
    engine.push("shops", [(1, "Ulm", 5), (2, "Ulm", 6), (3, "Bonn", 1)])
    assert sorted(changes(query)) == [("insert", "Bonn"), ("insert", "Ulm"), ("insert", "Ulm")]
    assert len(unnamed(engine)) == 1
    engine.push("shops", [delete(1)])
    assert changes(query) == []
    engine.push("shops", [delete(2)])
    assert changes(query) == [("delete", "Ulm")] * 2


def test_equal_subqueries_are_one_relation_which_goes_with_the_last_query(engine):
    first, second = engine.query(NESTED, name="first"), engine.query(ALIKE, name="second")
    other = engine.query(NESTED.replace("< 50", "< 60"), name="other")
    assert len(unnamed(engine)) == 2
    engine.push("shops", [(1, "Ulm", 5), (2, "Ulm", 55)])
    assert changes(first) == [("insert", "Ulm", 5)]
    assert changes(second) == [("insert", "Ulm")]
    assert changes(other) == [("insert", "Ulm", 5), ("insert", "Ulm", 55)]
    first.drop()
    other.drop()
    assert len(unnamed(engine)) == 1
    engine.push("shops", [(1, "Ulm", 6)])
    assert sorted(changes(second)) == [("delete", "Ulm"), ("insert", "Ulm")]
    second.drop()
    assert unnamed(engine) == []
    assert list(engine.queries()) == []
    again = engine.query(NESTED)
    engine.push("days", [(1, "Ulm")])
    assert changes(again) == [("insert", "Ulm", 6)]


def test_a_late_query_with_the_same_subquery_gets_all_of_it_once(engine):
    first = engine.query(NESTED)
    engine.push("shops", [(1, "Ulm", 5), (2, "Ulm", 5)])
    late = engine.query(ALIKE)
    engine.push("shops", [shop(3, "Bonn", 7), delete(1)])
    assert changes(first) == [("insert", "Ulm", 5), ("insert", "Bonn", 7)]
    assert sorted(changes(late)) == [("insert", "Bonn"), ("insert", "Ulm")]
    engine.push("shops", [delete(2)])
    assert (changes(first), changes(late)) == ([("delete", "Ulm", 5)], [("delete", "Ulm")])


def test_it_comes_back_when_a_home_is_opened(tmp_path):
    with eddyline.open(tmp_path / "home") as engine:
        declare(engine)
        engine.query(NESTED, name="first")
        engine.query(ALIKE, name="second")
        engine.push("shops", [(1, "Ulm", 5), (2, "Ulm", 5)])
        names = unnamed(engine)
    with eddyline.open(tmp_path / "home") as engine:
        assert unnamed(engine) == names
        first, second = engine.get("first"), engine.get("second")
        assert (changes(first), changes(second)) == ([("insert", "Ulm", 5)], [("insert", "Ulm")])
        third = engine.query(NESTED, name="third")
        assert unnamed(engine) == names
        engine.push("shops", [delete(1)])
        assert (changes(first), changes(second), changes(third)) == ([], [], [("insert", "Ulm", 5)])
        engine.push("shops", [delete(2)])
        assert [each[0] for each in (*changes(first), *changes(second), *changes(third))] == ["delete"] * 3


def test_pausing_replacing_and_dropping_a_query_leaves_the_others_alone(engine):
    first, second = engine.query(NESTED, name="first"), engine.query(ALIKE, name="second")
    engine.push("shops", [(1, "Ulm", 5), (2, "Ulm", 5)])
    changes(first), changes(second)
    first.pause()
    engine.push("shops", [delete(1)])
    first.resume()
    engine.push("shops", [(9, "Rom", 9)])
    assert sorted(changes(first)) == [("insert", "Rom", 9), ("insert", "Ulm", 5)]
    assert changes(second) == [("insert", "Rom")]
    engine.replace("first", "SELECT id FROM shops WHERE size > 5")
    engine.push("shops", [delete(2)])
    assert changes(second) == [("delete", "Ulm")]
    assert changes(first) == [("insert", 9)]
    assert len(unnamed(engine)) == 1


def test_a_query_with_a_set_inside_is_read_as_a_view_and_can_be_paused(engine):
    view = engine.query(NESTED, name="v")
    reader = engine.query("SELECT size FROM v")
    view.pause()
    engine.push("shops", [(1, "Ulm", 5), (2, "Ulm", 5)])
    assert (changes(view), changes(reader)) == ([], [("insert", 5)])
    engine.push("shops", [delete(1), delete(2)])
    assert (changes(view), changes(reader)) == ([], [("delete", 5)])


def test_a_view_that_a_set_inside_a_query_reads_is_not_dropped_without_it(engine):
    engine.query("SELECT id, city, size FROM shops WHERE size > 1", name="large")
    engine.query("SELECT city FROM (SELECT DISTINCT city FROM large) d", name="reader")
    with pytest.raises(
        QueryStateError, match="view large cannot be dropped while queries read it"
    ) as refused:
        engine.sql("DROP VIEW large")
    assert "It is read by reader." in str(refused.value)
    with pytest.raises(SchemaError, match="stream shops cannot be dropped while queries read it"):
        engine.sql("DROP TABLE shops")
    engine.sql("DROP VIEW large CASCADE")
    assert list(engine.queries()) == []
    assert unnamed(engine) == []


def test_replacing_a_view_that_a_set_inside_a_query_reads_makes_a_new_generation_of_the_query(engine):
    engine.query("SELECT id, city, size FROM shops WHERE size > 1", name="large")
    reader = engine.query("SELECT city FROM (SELECT DISTINCT city FROM large) d", name="reader")
    engine.push("shops", [(1, "Ulm", 5), (2, "Bonn", 9)])
    assert sorted(changes(reader)) == [("insert", "Bonn"), ("insert", "Ulm")]
    engine.replace("large", "SELECT id, city, size FROM shops WHERE size > 6")
    engine.push("shops", [(3, "Rom", 7), (4, "Rom", 8)])
    assert sorted(changes(reader)) == [("insert", "Bonn"), ("insert", "Rom")]
    engine.push("shops", [delete(3), delete(2)])
    assert changes(reader) == [("delete", "Bonn")]
    with pytest.raises(SchemaError, match="view large cannot change like this while queries read it"):
        engine.replace("large", "SELECT id FROM shops")


def test_going_back_to_an_earlier_version_brings_it_back(tmp_path):
    with eddyline.open(tmp_path / "home") as engine:
        declare(engine)
        engine.query(NESTED, name="q")
        version = engine.rounds.catalog.version
        names = unnamed(engine)
        engine.get("q").drop()
        engine.push("shops", [(1, "Ulm", 5), (2, "Ulm", 5)])
        restore_version(engine.rounds.catalog, version, 0)
        assert unnamed(engine) == names
        engine.push("shops", [(3, "Ulm", 5)])
        assert changes(engine.get("q")) == [("insert", "Ulm", 5)]


def test_an_error_in_the_subquery_is_a_dead_letter_of_each_query_that_contains_it(engine):
    text = "SELECT n FROM (SELECT DISTINCT 10 DIV size AS n FROM shops) d"
    for name in ("first", "second"):
        engine.query(f"{text} WHERE n > {len(name)}", name=name)
    engine.push("shops", [(1, "Ulm", 0), (2, "Ulm", 1)])
    letters = engine.dead_letters()
    assert sorted((letter.query, letter.stream, letter.row["id"]) for letter in letters) == [
        ("first", "shops", 1),
        ("second", "shops", 1),
    ]
    assert changes(engine.get("first")) == [("insert", 10)]


def test_an_error_over_a_row_of_the_subquery_names_it_as_the_user_wrote_it(engine):
    engine.query("SELECT 10 DIV size AS n\nFROM (SELECT DISTINCT size FROM shops) d", name="q")
    engine.push("shops", [(1, "Ulm", 0), (2, "Ulm", 0)])
    (letter,) = engine.dead_letters()
    assert (letter.query, letter.stream, letter.row) == ("q", "the subquery at line 2", {"size": 0})


def test_explain_names_the_tables_below_it_and_says_how_many_queries_share_it(engine):
    query, other = engine.query(NESTED), engine.query(ALIKE)
    engine.push("shops", [(1, "Ulm", 5), (2, "Ulm", 5)])
    line = "  subquery   the subquery at line 1 is computed by itself, once for 2 queries: 1 rows now"
    assert line in str(query.explain()).splitlines()
    other.pause()
    query.pause()
    line = "  subquery   the subquery at line 1 is not computed while no query that contains it runs"
    assert line in str(query.explain()).splitlines()
    query.resume()
    engine.push("shops", [(3, "Ulm", 5)])
    streams = [each["stream"] for each in engine.explain_index().as_dict()["streams"]]
    assert sorted(streams) == ["shops", f"the subquery at line 1 of {query.name}"]
    facts = query.explain().as_dict()
    assert facts["stream"] == "shops"
    assert [(each["name"], each["kind"]) for each in facts["lineage"]["reads"]] == [("shops", "table")]
    assert unnamed(engine)[0] not in str(query.explain())


def test_what_is_said_of_joins_and_rounds_does_not_have_its_internal_name(engine):
    text = "SELECT d.id, c.city FROM days d JOIN (SELECT DISTINCT city FROM shops) c ON c.city = d.city"
    engine.query(text, name="q")
    engine.push({"shops": [(1, "Ulm", 5)], "days": [(7, "Ulm")]})
    (name,) = unnamed(engine)
    joins, records = engine.joins(), Commands(engine).rounds()
    words = "the subquery at line 1 of q"
    assert sorted(joins) == ["days", "shops", words]
    assert f"days with {words}: 1 query, executed as one join" in str(joins)
    assert "a subquery" in [stage["stream"] for stage in records[0]["stages"]]
    assert name not in f"{joins}{joins.as_dict()}{records}{engine.explain_index()}"


def test_an_alert_over_a_set_inside_fires_and_resolves(engine):
    engine.query(NESTED, name="q", per="city")
    engine.push("shops", [(1, "Ulm", 5), (2, "Ulm", 5)])
    engine.push("shops", [delete(1)])
    assert [each.state for each in engine.alerts("q")] == ["firing"]
    engine.push("shops", [delete(2)])
    assert list(engine.alerts("q")) == []


def test_many_queries_of_a_template_read_one_relation_and_parameters_inside_it_are_refused(engine):
    text = "SELECT city, size FROM (SELECT DISTINCT city, size FROM shops) d WHERE size > :low"
    engine.query_many(text, params=[{"low": n} for n in (0, 4, 8)], name="above-{low}")
    assert len(unnamed(engine)) == 1
    engine.push("shops", [(1, "Ulm", 5), (2, "Ulm", 5)])
    assert [len(changes(engine.get(f"above-{n}"))) for n in (0, 4, 8)] == [1, 1, 0]
    with pytest.raises(
        UnsupportedError, match="parameter low is used where only a literal can be"
    ) as refused:
        engine.query(
            "SELECT city FROM (SELECT DISTINCT city FROM shops WHERE size > :low) d", params={"low": 1}
        )
    assert "Write the value into the text." in str(refused.value)


def test_constants_of_every_kind_stand_in_it(engine):
    text = "SELECT n, size FROM (SELECT DISTINCT city || 'x' AS n, size FROM shops WHERE size IN (1, 2, 3) AND city LIKE 'U%') d"
    query = engine.query(f"{text} WHERE size IN (2, 3)")
    engine.push("shops", [(1, "Ulm", 1), (2, "Ulm", 2), (3, "Bonn", 2), (4, "Ulm", 2)])
    assert changes(query) == [("insert", "Ulmx", 2)]


def test_receipts_name_a_row_in_which_the_result_occurs_and_why_asks_about_it(tmp_path):
    with eddyline.open(tmp_path / "home") as engine:
        declare(engine)
        query = engine.query(NESTED, name="q")
        engine.query("SELECT id, city FROM shops", name="v")
        engine.query("SELECT city FROM (SELECT DISTINCT city FROM v) d", name="over a view")
        engine.query("SELECT city FROM (SELECT DISTINCT city FROM shops WHERE size < 50) d", name="hidden")
        engine.push("shops", [(1, "Ulm", 5), (2, "Ulm", 5)])
        for name in ("q", "over a view", "hidden"):
            result = engine.get(name).latest()[-1]
            receipt = engine.receipt(result)
            assert receipt.is_intact
            assert [row["row"]["id"] for row in receipt["rows"]] == [1]
            assert engine.get(name).why(result).matches
        assert str(query.why({"id": 1, "city": "Ulm", "size": 70})) == (
            "the row does not match q\n  no       size < 50   (size = 70)\n  yes      size > 1   (size = 70)"
        )


def test_a_query_is_suspended_with_a_column_that_its_subquery_needs(engine):
    first, other = engine.query(NESTED, name="first"), engine.query("SELECT id FROM shops", name="other")
    with engine.rounds.lock:
        found = suspend(engine.rounds.catalog, "shops", {"city": "city is gone"}, 0)
    assert found == {"city": [first.id]}
    assert (first.state, other.state) == ("suspended", "running")
    assert unnamed(engine) == []


def test_the_audit_judges_a_set_wherever_it_stands(tmp_path):
    with eddyline.open(tmp_path / "home", audit=1) as engine:
        declare(engine)
        engine.query(NESTED)
        engine.query("SELECT DISTINCT city FROM shops")
        engine.push("shops", [(1, "Ulm", 5), (2, "Ulm", 5)])
        assert engine.finish_audit(60)
        found = engine.audited()
        assert (found.n_queries, found.n_differences, found.skipped) == (2, 0, {})


def test_why_not_and_trials_ask_each_row_about_the_conditions_of_the_subquery_too(engine):
    query = engine.query(NESTED, name="q")
    engine.push("shops", [(1, "Ulm", 5), (2, "Ulm", 5), (3, "Rom", 60), (4, "Bonn", 1)])
    found = query.why_not()
    assert (found.n_rows, found.n_matched) == (4, 2)
    assert dict(zip(found.conditions, found.stopped, strict=True)) == {"size > 1": 1, "size < 50": 1}
    trial = engine.try_query(NESTED)
    assert (trial.n_rows, trial.n_matched) == (4, 2)


def test_a_join_with_a_set_is_asked_about_a_row_of_each_table(engine):
    text = "SELECT d.id, c.city FROM days d JOIN (SELECT DISTINCT city FROM shops WHERE size > 1) c ON c.city = d.city"
    query = engine.query(text, name="q")
    engine.query("SELECT DISTINCT city FROM shops WHERE size > 1", name="cities")
    named = engine.query("SELECT d.id, c.city FROM days d JOIN cities c ON c.city = d.city", name="named")
    engine.push({"shops": [(1, "Ulm", 5), (2, "Ulm", 1)], "days": [(7, "Ulm"), (8, "Bonn")]})
    for each in (query, named):
        assert each.why({"d": {"city": "Ulm"}, "c": {"city": "Ulm", "size": 9}}).matches
        assert not each.why({"d": {"city": "Ulm"}, "c": {"city": "Ulm", "size": 1}}).matches
        found = each.why_not()
        assert [(one.input, one.n_passed) for one in found.inputs] == [("days d", 2), ("shops c", 1)]
        if engine.rounds.durable is not None:
            assert each.why(each.latest()[-1]).matches


def test_a_union_in_a_subquery_is_asked_about_part_by_part(engine):
    query = engine.query(
        "SELECT city FROM (SELECT city FROM shops WHERE size > 3 UNION SELECT city FROM days) u", name="q"
    )
    engine.push({"shops": [(1, "Ulm", 5)], "days": [(7, "Ulm"), (8, "Bonn")]})
    found = query.why({"id": 1, "city": "Ulm", "size": 2})
    assert not found.matches or found.others
    assert query.why({"id": 8, "city": "Bonn"}).matches


def test_what_is_no_single_query_without_its_sets_is_refused_with_the_reason(engine):
    pairs = "SELECT DISTINCT s.city FROM shops s JOIN days t ON s.id = t.id"
    query = engine.query(
        f"SELECT d.id, p.city FROM days d LEFT JOIN ({pairs}) p ON p.city = d.city", name="q"
    )
    with pytest.raises(NotBuiltError, match="q cannot be asked about down to the rows of streams") as refused:
        query.why({})
    assert "LEFT JOIN takes a subquery over one stream, this one has 2." in str(refused.value)
