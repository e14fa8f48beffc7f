"""Joins on Spark: workers filter, then the driver joins, or workers where rows are many; worked examples come out exactly."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

import eddyline
from eddyline.spark.jobs import spark_runner
from tests.engine.test_join_identity import identities
from tests.engine.test_joins_in_tasks import declared, lived
from tests.on_workers import opener, through_tasks
from tests.test_vectors_shared_eddies import Events, cases, expected_of


@pytest.mark.vectors
@pytest.mark.parametrize("case", cases("event_cases"))
def test_events_give_their_results_through_workers(case: dict[str, Any], spark: Any, tmp_path: Path) -> None:
    """Tuples of one stream behind each other are a round: rows of a round are numbered stream by stream there."""
    events = Events.of(case)
    engine = opener(tmp_path, spark_runner(spark), n_pieces=2)(results_per_query=100_000)
    for stream, schema in events.schemas.items():
        engine.stream(stream, schema, time="ts")
    standing: dict[str, Any] = {}
    heard: dict[str, list[list[int]]] = {}
    numbers: list[int] = []  # by arrival number from 1: the number of the event
    for kind, what in events.steps:
        if kind == "add":
            standing[what[0]] = engine.query(what[1].text(), name=what[0])
        elif kind == "remove" and what in standing:
            standing.pop(what).drop()
        elif kind == "tuples":
            for stream, some in groupby(what, key=lambda each: each[1]):
                rows = list(some)
                numbers += [number - 1 for number, _, _ in rows]
                engine.push(stream, [values for _, _, values in rows])
                for name, query in standing.items():
                    for result in query.results():
                        driver = numbers[max(result.arrivals) - 1]
                        heard.setdefault(name, []).append([driver, *result.values()])
    engine.close()
    assert {name: sorted(rows) for name, rows in heard.items()} == expected_of(case)


@pytest.mark.parametrize("join_from_rows", [1, 50_000], ids=["joined by workers", "joined by the driver"])
def test_joins_find_the_same_on_spark_as_here(spark: Any, tmp_path: Path, join_from_rows: int) -> None:
    with declared(eddyline.open(tmp_path / "home", results_per_query=10_000)) as there:
        through_tasks(there, spark_runner(spark), n_pieces=3, join_from_rows=join_from_rows)
        found = lived(there, 12)
        ids = identities(there)
    assert len(set(ids)) == len(ids)
    with declared(eddyline.open(None, results_per_query=10_000)) as here:
        expected = lived(here, 12)
    assert found == expected
