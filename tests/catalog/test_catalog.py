"""Versions, generations and plans: what is registered when."""

from __future__ import annotations

import pytest

import eddyline


@pytest.fixture
def engine():
    engine = eddyline.open()
    engine.stream("s", "n INT")
    return engine


def versions(engine, *changes) -> list[int]:
    """By how many versions each change moved the catalog."""
    moved = []
    for change in changes:
        before = engine.version
        change()
        moved.append(engine.version - before)
    return moved


def test_every_change_is_one_version_and_no_change_is_none(engine):
    assert versions(
        engine,
        lambda: engine.stream("t", "m INT"),
        lambda: engine.stream("t", "m INT"),
        lambda: engine.query("SELECT n FROM s", name="q"),
        lambda: engine.query("SELECT n FROM s", name="q"),
        lambda: engine.query("SELECT n FROM s WHERE n > 1", name="q"),
        lambda: engine.get("q").pause(),
        lambda: engine.get("q").pause(),
        lambda: engine.get("q").resume(),
        lambda: engine.query_many([f"SELECT n FROM s WHERE n > {k}" for k in range(10)]),
        lambda: engine.query_many("SELECT n FROM s WHERE n > :k", params={"k": list(range(100))}),
        lambda: engine.push("s", [(1,)]),
        lambda: engine.drop("q"),
        lambda: engine.queries().pop().drop(),
        lambda: engine.drop_stream("t"),
    ) == [1, 0, 1, 0, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1]


def test_generations_belong_to_the_versions_rounds_saw(engine):
    query = engine.query("SELECT n FROM s WHERE n > 0", name="q")
    engine.push("s", [(1,)])
    query.replace("SELECT n FROM s WHERE n > 1")
    engine.push("s", [(2,)])
    query.pause()
    query.resume()
    engine.push("s", [(3,)])
    assert [(r["n"], r.generation) for r in query.latest()] == [(1, 1), (2, 2), (3, 3)]


def test_queries_are_listed_in_the_order_they_were_registered(engine):
    engine.query("SELECT n FROM s", name="first")
    engine.query_many("SELECT n FROM s WHERE n > :k", params={"k": [1, 2]}, name="many-{k}")
    engine.query("SELECT n FROM s WHERE n > 5", name="last")
    engine.get("many-1").replace("SELECT n FROM s WHERE n = 1")
    assert [query.name for query in engine.queries()] == ["first", "many-1", "many-2", "last"]
    engine.drop("many-1")
    assert [query.name for query in engine.queries()] == ["first", "many-2", "last"]
    assert engine.n_queries == 3


def test_the_plan_of_a_stream_stays_the_same_until_something_changes_there(engine):
    engine.stream("other", "m INT")
    engine.query("SELECT n FROM s")
    catalog = engine.rounds.catalog
    plan = catalog.plan("s")
    engine.query("SELECT m FROM other")
    engine.push("s", [(1,)])
    assert catalog.plan("s") is plan
    engine.query("SELECT n FROM s WHERE n > 1")
    assert catalog.plan("s") is not plan
    assert catalog.plan("S").n_queries == 2


def test_the_last_query_of_a_shape_takes_the_shape_with_it(engine):
    catalog = engine.rounds.catalog
    a, b = engine.query("SELECT n FROM s WHERE n > 1"), engine.query("SELECT n FROM s WHERE n > 2")
    assert len(catalog.plans.families) == 1
    a.drop()
    b.pause()
    assert len(catalog.plans.families) == 0
    assert catalog.plan("s").segments == ()
    b.resume()
    engine.push("s", [(3,)])
    assert b.results() == [{"n": 3}]


@pytest.mark.parametrize("enabled", [True, False])
def test_properties_may_be_changed_while_a_query_stands(engine, enabled):
    engine.sql("CREATE VIEW v TBLPROPERTIES (enabled = 'false') AS SELECT n FROM s WHERE n > 2.5")
    engine.sql(f"ALTER VIEW v SET TBLPROPERTIES (enabled = '{enabled}')")
    engine.push("s", [(3,)])
    assert len(engine.get("v").results()) == enabled
