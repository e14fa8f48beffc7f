"""Random queries with churn, judged by DuckDB."""

from __future__ import annotations

from hypothesis import given

import eddyline
from tests.laws import check, open_engine
from tests.oracles.duckdb_oracle import DuckDBOracle, comparable
from tests.strategies import Change, Life, arrow_schema, examples, lives


def told(engine: eddyline.Engine, life: Life) -> dict[str, list[tuple[int, tuple]]]:
    """Run a life; what each name was told, as (row number, values), also while it stood for other queries."""
    engine.stream("s", arrow_schema(life.columns))
    readers: dict[str, eddyline.Query] = {}
    heard: dict[str, list[tuple[int, tuple]]] = {}
    for changes, (start, stop) in life.rounds:
        for change in changes:
            make(engine, change, readers)
        engine.push("s", life.rows.slice(start, stop - start))
        check(engine)
        for name, query in readers.items():
            heard.setdefault(name, []).extend(
                (r.arrival - 1, comparable(tuple(r.values()))) for r in query.results()
            )
    return heard


def make(engine: eddyline.Engine, change: Change, readers: dict[str, eddyline.Query]) -> None:
    if change.action in ("add", "replace"):
        assert change.selection is not None
        text, parameters = change.selection.text("s"), change.selection.parameters() or None
        query = engine.query(text, name=change.name, params=parameters)
        if change.action == "add":
            readers[change.name] = query
    elif change.action == "drop":
        engine.drop(change.name)
        del readers[change.name]
    else:
        getattr(engine.get(change.name), change.action)()


@given(lives())
@examples(1.0)
def test_every_query_is_told_what_duckdb_finds_in_the_rows_it_could_see(life):
    engine = open_engine()
    heard = told(engine, life)
    oracle = DuckDBOracle(life.rows)
    for name, periods in life.visible.items():
        expected = []
        for selection, start, stop in periods:
            expected += [(row, values) for row, values in oracle.answer(selection) if start <= row < stop]
        assert heard[name] == expected, (name, [selection.text("s") for selection, _, _ in periods])
    assert {name for name, rows in heard.items() if rows} <= set(life.visible)
    assert engine.dead_letters() == []
    oracle.close()
