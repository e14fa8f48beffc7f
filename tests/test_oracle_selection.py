"""Random queries that divide, overflow and cast, judged row by row in plain Python: matches and dead letters."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.laws import check, open_engine
from tests.oracles.duckdb_oracle import comparable
from tests.oracles.selection import judged
from tests.strategies import (
    FALLIBLE_COLUMNS,
    FALLIBLE_VALUES,
    arrow_schema,
    cuts,
    examples,
    fallible_selections,
    tables,
)


@given(st.data())
@examples(1.5)
def test_every_pair_of_row_and_query_matches_or_dies_as_judged_one_by_one(data):
    rows = data.draw(tables(FALLIBLE_COLUMNS, 15, values=FALLIBLE_VALUES))
    selections = data.draw(st.lists(fallible_selections(), min_size=1, max_size=3))
    engine = open_engine()
    engine.stream("s", arrow_schema(FALLIBLE_COLUMNS))
    queries = [engine.query(q.text("s"), params=q.parameters() or None) for q in selections]
    for start, stop in data.draw(cuts(len(rows), 2)):
        engine.push("s", rows.slice(start, stop - start))
        check(engine)
    for query, selection in zip(queries, selections, strict=True):
        verdicts = [judged(selection, row) for row in rows.to_pylist()]
        matched = [(r.arrival, comparable(tuple(r.values()))) for r in query.results()]
        assert matched == [
            (n, comparable(v)) for n, (kind, v) in enumerate(verdicts, 1) if kind == "match"
        ], query.text
        dead = sorted(d.arrival for d in engine.dead_letters(query=query))
        assert dead == [n for n, (kind, _) in enumerate(verdicts, 1) if kind == "dead"], query.text
