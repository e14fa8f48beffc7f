"""Random queries with churn, judged by DuckDB."""

from __future__ import annotations

import tempfile

from hypothesis import given
from hypothesis import strategies as st

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


@given(lives(), st.sets(st.integers(0, 5)))
@examples(0.15)
def test_a_home_closed_and_opened_between_rounds_tells_the_same(life, reopened):
    with tempfile.TemporaryDirectory() as home:
        engine = open_engine(home=home)
        engine.stream("s", arrow_schema(life.columns))
        told_before: dict[str, list[tuple[int, tuple]]] = {}  # by queries that were dropped since
        standing: dict[str, eddyline.Query] = {}
        for number, (changes, (start, stop)) in enumerate(life.rounds):
            for change in changes:
                if change.action == "drop":
                    told_before.setdefault(change.name, []).extend(kept(standing[change.name]))
                make(engine, change, standing)
            engine.push("s", life.rows.slice(start, stop - start), token=f"round {number}")
            if number in reopened:
                engine.close()
                engine = open_engine(home=home)
                standing = {name: engine.get(name) for name in standing}
                assert engine.push(
                    "s", life.rows.slice(start, stop - start), token=f"round {number}"
                ).is_repeat
        oracle = DuckDBOracle(life.rows)
        for name, periods in life.visible.items():
            expected = []
            for selection, start, stop in periods:
                expected += [(row, values) for row, values in oracle.answer(selection) if start <= row < stop]
            heard = told_before.get(name, []) + (kept(standing[name]) if name in standing else [])
            assert heard == expected, (name, [selection.text("s") for selection, _, _ in periods])
        oracle.close()
        engine.close()


def kept(query: eddyline.Query) -> list[tuple[int, tuple]]:
    return [(r.arrival - 1, comparable(tuple(r.values()))) for r in query.latest(1_000_000)]
