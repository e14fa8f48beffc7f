"""Why of outer joins: of a row that nothing matches it says what is asked of such a row."""

from __future__ import annotations

import pytest

import eddyline


@pytest.fixture
def engine(tmp_path):
    with eddyline.open(tmp_path / "home") as made:
        made.stream("t", "k INT, v INT", key="k")
        made.stream("s", "k INT, v INT", key="k")
        yield made


def test_a_row_without_a_match_is_asked_only_what_is_said_of_it(engine):
    query = engine.query(
        "SELECT t.k, s.v FROM t LEFT JOIN s ON s.k = t.k AND s.v > 1 WHERE t.v > 3", name="q"
    )
    engine.push("t", [(1, 5), (2, 3)])
    found = query.why(query.latest(1)[0])
    assert found.matches
    assert [(each.condition, each.verdict) for each in found.clauses] == [("t.v > 3", "true")]
    assert found.notes == ("no row of s is given: this is about a row of t that no row of s matches",)
    assert not query.why({"t": {"k": 2, "v": 3}}).matches
    assert str(query.why({"t": {"k": 2, "v": 3}, "s": {"k": 2, "v": 1}})).startswith(
        "the rows do not match q"
    )


def test_what_is_only_without_a_match_is_asked_about_alone(engine):
    query = engine.query("SELECT k FROM t WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.k = t.k)", name="q")
    engine.push("t", [(1, 5)])
    assert query.why(query.latest(1)[0]).matches
    assert query.why({"t": {"k": 7}}).matches


def test_where_may_say_that_the_other_side_is_null(engine):
    query = engine.query("SELECT t.k FROM t LEFT JOIN s ON s.k = t.k WHERE s.k IS NULL", name="q")
    assert query.why({"t": {"k": 7}}).matches
    assert not query.why({"t": {"k": 7}, "s": {"k": 7}}).matches
