"""Which queries are alert queries: a mask by id that only grows."""

from __future__ import annotations

import numpy as np

import eddyline
from eddyline.catalog.alert_queries import AlertQueries
from eddyline.catalog.queries import Registration
from eddyline.model import Condition, Properties, Shape, is_alert

SHAPE = Shape("", (), (), Condition(), ())


def made(first: int, n: int, properties: Properties) -> Registration:
    return Registration(first, n, "", SHAPE, properties, None, 1, 0)


def among(alerts: AlertQueries, *ids: int) -> list[bool]:
    return alerts.among(np.array(ids, np.int32)).tolist()


def test_any_property_of_alerts_makes_an_alert_query():
    for given in ("per", "cooldown_us", "for_us", "resolve_us", "message", "severity"):
        value = ("a",) if given == "per" else 5 if given.endswith("_us") else "x"
        assert is_alert(Properties(**{given: value}))
    assert not is_alert(Properties(owner="anna", deliver=("ops",), is_enabled=False))
    assert is_alert(Properties(deliver=("file", "ops")), {"ops"})


def test_ids_are_marked_for_good_and_those_beyond_are_not():
    alerts = AlertQueries()
    assert not alerts.any
    assert among(alerts, 1, 1_000_000) == [False, False]
    alerts.note(made(1, 2, Properties()))
    assert not alerts.any
    alerts.note(made(3, 2, Properties(severity="info")))
    assert alerts.any
    assert among(alerts, 1, 2, 3, 4, 5, 1_000_000) == [False, False, True, True, False, False]
    alerts.note(made(100, 1, Properties(severity="info")))
    alerts.mark([7])
    assert among(alerts, 4, 5, 7, 99, 100, 101) == [True, False, True, False, True, False]


def test_ends_are_told_once_and_only_of_alert_queries():
    alerts = AlertQueries()
    mine = made(1, 1, Properties(severity="info"))
    alerts.note(mine)
    alerts.end(mine, 1, 1, 5, "paused")
    alerts.end(made(2, 1, Properties()), 2, 1, 5, "paused")
    assert alerts.take_ends() == [(5, 1, 1, "paused", mine)]
    assert alerts.take_ends() == []
    alerts.lose_ends()
    assert alerts.take_ends() is None
    assert alerts.take_ends() == []


def test_sinks_that_take_alerts_are_part_of_the_home(tmp_path):
    with eddyline.open(tmp_path / "home", clock=lambda: 0) as engine:
        engine.stream("s", "a INT")
        engine.query("SELECT a FROM s", deliver="ops")
        engine.query("SELECT a FROM s")
        catalog = engine.rounds.catalog
        assert not catalog.alerts.any
        catalog.set_alert_sinks(["ops"])
        assert among(catalog.alerts, 1, 2) == [True, False]
    with eddyline.open(tmp_path / "home", clock=lambda: 0) as engine:
        assert engine.rounds.catalog.alerts.sinks == {"ops"}
        assert among(engine.rounds.catalog.alerts, 1, 2) == [True, False]


def test_a_change_that_fails_leaves_the_ends_to_the_disk(tmp_path):
    with eddyline.open(tmp_path / "home", clock=lambda: 0) as engine:
        engine.stream("s", "a INT")
        query = engine.query("SELECT a FROM s", per="a", resolve="1 hour")
        engine.push("s", [(1,)])
        query.pause()
        catalog = engine.rounds.catalog
        write = catalog._database.versions.add

        def full(*version: object) -> None:
            raise OSError("full")

        catalog._database.versions.add = full
        try:
            query.drop()
        except OSError:
            catalog._database.versions.add = write
        assert query.state == "paused"
        engine.tick()
        assert [(m.status, m.reason) for m in engine.messages()] == [("firing", None), ("resolved", "paused")]
