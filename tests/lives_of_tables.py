"""What tests of queries over two tables have in common: where they run, rounds that fail, and what DuckDB finds in the tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import eddyline
from tests.on_workers import through_tasks
from tests.operator_laws import RoundFailure
from tests.oracles.sets import folded

PLACES = ("in process", "in tasks", "workers join")
COLUMNS = {"a": ("id", "k", "x"), "b": ("id", "k", "y")}


def declare_tables(engine: eddyline.Engine) -> None:
    engine.sql("CREATE TABLE a (id INT PRIMARY KEY, k INT, x INT)")
    engine.sql("CREATE TABLE b (id INT PRIMARY KEY, k INT, y INT)")


def opened_in(folder: Path, place: str, declare: Callable[[eddyline.Engine], None]) -> eddyline.Engine:
    """An engine whose rounds run in this place; a new home is declared first."""
    engine = eddyline.open(folder / place, results_per_query=100_000)
    if not engine.streams():
        declare(engine)
    if place != PLACES[0]:
        through_tasks(engine, n_pieces=2, join_from_rows=1 if place == PLACES[2] else 1_000_000)
    return engine


def answers(
    tables: Mapping[str, Mapping[int, tuple]],
    queries: Mapping[str, str],
    views: Mapping[str, str],
    stream: Iterable[Mapping[str, Any]] = (),
) -> dict[str, Counter]:
    """What DuckDB finds in tables, given by key, and in rows of a stream s; views stand before those that read them."""
    rows = tuple((name, tuple(tables[name].values())) for name in COLUMNS)
    came = tuple((row["k"], row["n"]) for row in stream)
    return _answers(rows, tuple(queries.items()), tuple(views.items()), came)


@cache  # every place has the same rounds
def _answers(
    tables: tuple[tuple[str, tuple[tuple, ...]], ...],
    queries: tuple[tuple[str, str], ...],
    views: tuple[tuple[str, str], ...],
    stream: tuple[tuple, ...],
) -> dict[str, Counter]:
    with duckdb.connect(config={"threads": 1}) as judge:
        for name, rows in tables:
            values = list(zip(*rows, strict=True)) or [[]] * len(COLUMNS[name])
            arrays = [pa.array(column, pa.int32()) for column in values]
            judge.register(f"{name}_rows", pa.table(arrays, names=list(COLUMNS[name])))
            judge.execute(f"CREATE TABLE {name} AS SELECT * FROM {name}_rows")
        judge.execute("CREATE TABLE s (k INT, n INT)")
        for row in stream:
            judge.execute("INSERT INTO s VALUES (?, ?)", row)
        for name, text in views:
            judge.execute(f'CREATE VIEW "{name}" AS {text}')
        return {name: Counter(judge.execute(text).fetchall()) for name, text in queries}


def found(engine: eddyline.Engine, name: str) -> Counter:
    """What the changes of a query leave."""
    results = engine.get(name).latest(100_000)
    return folded((result.change, tuple(result.values())) for result in results)


def fail_round(engine: eddyline.Engine, rows: Mapping[str, Any]) -> None:
    """A round that does all its work and does not commit."""

    def stop(step: str) -> None:
        if step == "4 commit":
            raise RoundFailure

    engine.rounds.at_step = stop
    with pytest.raises(RoundFailure):
        engine.push(rows)
    engine.rounds.at_step = lambda step: None
