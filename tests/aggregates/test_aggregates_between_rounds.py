"""Aggregates beside what else happens: rounds of other streams, and queries that come and go while tasks work on a round."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

import eddyline
from tests.on_workers import elsewhere, through_tasks

STREAM = "CREATE TABLE {} (k STRING, v BIGINT, ts TIMESTAMP) TBLPROPERTIES (time='ts', lateness='1 minute')"
OVER = "OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL 5 MINUTES PRECEDING AND CURRENT ROW)"
TEXTS = {
    "running": ("SELECT k, count(*) AS n, sum(v) AS s, max(v) AS hi FROM a GROUP BY k", {}),
    "global": ("SELECT count(*) AS n, avg(v) AS mean FROM a", {}),
    "changes": ("SELECT k, window.start AS s, count(*) AS n FROM a GROUP BY k, window(ts, '4 minutes', '2 minutes')", {}),
    "final": ("SELECT k, window.start AS s, count(*) AS n FROM a GROUP BY k, window(ts, '3 minutes')", {"emit": "final"}),
    "sessions": ("SELECT k, session_window.start AS s, count(*) AS n FROM a GROUP BY k, session_window(ts, '1 minute')", {}),
    "over": (f"SELECT k, v, count(*) {OVER} AS n, lag(v) OVER (PARTITION BY k ORDER BY ts) AS before FROM a", {}),
}  # fmt: skip


def rows(minute: int) -> list[dict[str, Any]]:
    at = datetime.datetime(2026, 1, 1, 12, minute, tzinfo=datetime.UTC)
    return [{"k": "xyz"[(minute + k) % 3], "v": minute * k, "ts": at} for k in range(2)]


def told(engine: eddyline.Engine, name: str) -> list[tuple[str, list[Any]]]:
    return [(result.change, list(result.values())) for result in engine.get(name).results()]


def engine_with(texts: dict[str, tuple[str, dict[str, str]]], home: Path | None = None) -> eddyline.Engine:
    engine = eddyline.open(home)
    for stream in ("a", "b"):
        engine.sql(STREAM.format(stream))
    for name, (text, properties) in texts.items():
        engine.query(text, name=name, **properties)
    return engine


@pytest.mark.parametrize("has_home", [False, True], ids=["in memory", "with a home"])
def test_rounds_of_other_streams_change_nothing(tmp_path, has_home):
    expected = engine_with(TEXTS)
    mixed = engine_with(TEXTS, tmp_path / "home" if has_home else None)
    for minute in range(12):
        expected.push("a", rows(minute))
        mixed.push("a", rows(minute))
        mixed.push("b", rows(minute + 5))
        mixed.push("b", rows(0))
        if has_home and minute == 6:
            mixed.close()
            mixed = eddyline.open(tmp_path / "home")
    for name in TEXTS:
        found = told(expected, name)
        assert found, name
        assert told(mixed, name) == found, name


def test_queries_that_come_and_go_while_tasks_work_are_those_of_the_next_round(tmp_path):
    """A round sees the queries of its version, though a round of another stream has built a newer one meanwhile."""
    engine = engine_with(TEXTS, tmp_path / "home")
    alone = engine_with(TEXTS)
    for each in (engine, alone):  # both have had their first answers
        each.push("a", rows(0))
    is_first = True

    def meanwhile(tasks):
        nonlocal is_first
        if is_first:
            is_first = False
            for name, (text, properties) in TEXTS.items():
                engine.query(text, name=f"{name} later", **properties)
            engine.query("SELECT k, min(v) AS lo FROM a WHERE v > 0 GROUP BY k", name="new class")
            engine.query("SELECT count(*) AS n FROM a HAVING count(*) < 100", name="new global")
            engine.query(
                "SELECT k, stddev(v) AS d FROM a GROUP BY k, window(ts, '7 minutes')", name="new window"
            )
            engine.drop("changes")
            engine.rounds.run_round({}, now_us=None)
        return elsewhere(tasks)

    shared = through_tasks(engine, meanwhile, keeps_numbers=False)
    for minute in range(1, 8):
        shared.push("a", rows(minute))
        alone.push("a", rows(minute))
    for name in [name for name in TEXTS if name != "changes"]:
        assert told(engine, name) == told(alone, name), name
    late = engine_with({f"{name} later": each for name, each in TEXTS.items()})
    for minute in range(2, 8):
        late.push("a", rows(minute))
    for name in TEXTS:
        assert told(engine, f"{name} later")[-3:] == told(late, f"{name} later")[-3:], name


def test_a_query_whose_groups_never_end_warns_of_keep():
    engine = engine_with(TEXTS)
    assert engine.get("running").warnings == [
        "this query has one state per k, for ever: keep = '30 days' forgets groups without rows for so long"
    ]
    assert engine.get("final").warnings == []
