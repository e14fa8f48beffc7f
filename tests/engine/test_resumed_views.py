"""Pausing and resuming a view over aggregates of aggregates: what those that read it see."""

from __future__ import annotations

import pytest

import eddyline

VIEW = "SELECT n, count(*) AS c FROM (SELECT card, count(*) AS n FROM auths GROUP BY card) GROUP BY n"
READER = "SELECT n, c FROM v WHERE c >= 1"


@pytest.fixture(params=["memory", "home"])
def engine(request, tmp_path):
    with eddyline.open(tmp_path / "home" if request.param == "home" else None) as made:
        made.stream("auths", "card STRING")
        made.sql(f"CREATE VIEW v AS {VIEW}")
        yield made


def changes(query) -> list[tuple]:
    return [(result.change, *result.values()) for result in query.results()]


def push(engine, *cards: str) -> None:
    engine.push("auths", [(card,) for card in cards])


FIRST = [("insert", 1, 2), ("insert", 2, 1)]


def test_a_reader_of_a_paused_view_goes_on(engine):
    reader = engine.query(READER, name="r")
    push(engine, "A", "A", "B", "C")
    assert changes(reader) == FIRST
    engine.get("v").pause()
    push(engine, "D")
    assert changes(reader) == [("update_preimage", 1, 2), ("update_postimage", 1, 3)]


def test_readers_begin_anew_with_a_view_that_is_resumed(engine):
    reader = engine.query(READER, name="r")
    above = engine.query("SELECT n FROM r", name="above")
    push(engine, "A", "A", "B", "C")
    assert (changes(reader), len(changes(above))) == (FIRST, 2)
    view, version = engine.get("v"), engine.version
    view.pause()
    view.resume()
    assert engine.version == version + 2
    assert [each.generation for each in (view, reader, above)] == [2, 2, 2]
    push(engine, "D")
    assert [(r.generation, r.change, *r.values()) for r in reader.results()] == [(2, "insert", 1, 1)]
    push(engine, "D")
    assert changes(reader) == [("delete", 1, 1), ("insert", 2, 1)]


def test_a_paused_reader_of_a_view_that_is_resumed_stays_paused(engine):
    reader = engine.query(READER, name="r")
    push(engine, "A")
    reader.pause()
    engine.get("v").pause()
    engine.get("v").resume()
    assert reader.state == "paused"
    reader.resume()
    push(engine, "B")
    assert changes(reader)[-1] == ("insert", 1, 1)


def test_readers_begin_anew_with_a_view_whose_properties_change(engine):
    reader = engine.query(READER, name="r")
    push(engine, "A", "A", "B", "C")
    assert changes(reader) == FIRST
    engine.sql("ALTER VIEW v SET TBLPROPERTIES (severity = 'error')")
    assert reader.generation == 2
    push(engine, "D")
    assert [(r.generation, r.change, *r.values()) for r in reader.results()] == [(2, "insert", 1, 1)]


def test_readers_begin_anew_with_plain_groups_whose_properties_change(engine):
    engine.query("SELECT card, count(*) AS n FROM auths GROUP BY card", name="groups")
    reader = engine.query("SELECT card, n FROM groups", name="r")
    push(engine, "A")
    assert changes(reader) == [("insert", "A", 1)]
    engine.sql("ALTER VIEW groups SET TBLPROPERTIES (severity = 'error')")
    push(engine, "A", "A")
    assert [(r.generation, r.change, *r.values()) for r in reader.results()] == [(2, "insert", "A", 2)]


def test_a_reader_of_plain_groups_keeps_its_generation_when_they_are_resumed(engine):
    engine.query("SELECT card, count(*) AS n FROM auths GROUP BY card", name="groups")
    reader = engine.query("SELECT card, n FROM groups", name="r")
    push(engine, "A")
    assert changes(reader) == [("insert", "A", 1)]
    engine.get("groups").pause()
    engine.get("groups").resume()
    push(engine, "A")
    assert changes(reader) == [("update_preimage", "A", 1), ("update_postimage", "A", 2)]
    assert reader.generation == 1


def test_bodies_of_views_run_on_when_another_query_comes(engine):
    engine.query(READER, name="r")
    views = engine.rounds.catalog.views
    before = {view.name: [feed.body_id for feed in view.feeds] for view in views.relations}
    engine.query("SELECT card FROM auths", name="other")
    engine.get("other").pause()
    assert {view.name: [feed.body_id for feed in view.feeds] for view in views.relations} == before
    assert "v" in before
