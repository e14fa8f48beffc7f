"""Receipts of joins with sets and of outer joins of tables, which do not name all rows that they are made of.

Each receipt is judged by what shares nothing with the engine: its rows must have been in their tables in that state, by the
changes that were pushed, and DuckDB must find the result in these rows alone.
"""

from __future__ import annotations

import copy
from typing import Any

import duckdb
import pytest

import eddyline
from eddyline.proof import claim_of, spark_text
from eddyline.receipts import Receipt
from tests.engine.test_table_views_oracle import STREAM_QUERIES, TABLE_QUERIES, VIEWS, Life, declare
from tests.lives_of_tables import COLUMNS, PLACES, opened_in

pytestmark = pytest.mark.usefixtures("no_session")  # DuckDB judges audits here

QUERIES = TABLE_QUERIES | STREAM_QUERIES
ROUNDS = 16
MOST = 3  # results of a query and kind of change that are judged

Tables = dict[str, dict[int, tuple]]


def lived(engine: eddyline.Engine, seed: int) -> dict[int, tuple[Tables, Tables]]:
    """A life of all queries; by round, the tables before and after it."""
    for name, text in (VIEWS | QUERIES).items():
        engine.query(text, name=name)
    life, states = Life(seed), {}
    for _ in range(ROUNDS):
        rows, before = life.round(), copy.deepcopy(life.tables)
        engine.push(rows)
        life.take(rows)
        states[engine.rounds.last_round] = before, copy.deepcopy(life.tables)
    return states


def found_by_duckdb(judge: Any, receipt: Receipt) -> list[tuple]:
    """What the text gives over the rows of a receipt."""
    claim = claim_of(receipt)
    for number, entry in enumerate(claim.inputs, 1):
        judge.register(f"__eddyline_input_{number}", entry.rows)
    return judge.execute(spark_text(claim).text.replace("`", '"')).fetchall()


def check_rows(receipt: Receipt, state: Tables, of: str = "rows") -> None:
    for row in receipt.get(of, ()):
        columns = COLUMNS.get(row["stream"])
        if columns is not None and row["row"] is not None:
            values = tuple(row["row"][column] for column in columns)
            assert state[row["stream"]].get(values[0]) == values, (str(receipt), row)


def judged(engine: eddyline.Engine) -> list[Any]:
    """The latest results of each query and kind of change."""
    found = []
    for name in QUERIES:
        by_change: dict[str, list[Any]] = {}
        for result in engine.get(name).latest(10_000):
            by_change.setdefault(result.change, []).append(result)
        found += [(name, each) for results in by_change.values() for each in results[-MOST:]]
    return found


def check(engine: eddyline.Engine, states: dict[int, tuple[Tables, Tables]]) -> int:
    """How many results have receipts that are right."""
    found = judged(engine)
    with duckdb.connect() as judge:
        for name, result in found:
            receipt = engine.receipt(result)
            assert receipt.is_intact
            is_before = name in STREAM_QUERIES or result.change in ("delete", "update_preimage")
            before, after = states[result.round_number]
            check_rows(receipt, before if is_before else after)
            check_rows(receipt, after, of="changes")
            assert bool(receipt.get("changes")) == (result.change in ("delete", "update_preimage"))
            assert found_by_duckdb(judge, receipt) == [tuple(result.values())], (result.change, str(receipt))
    return len(found)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(2))
def test_receipts_have_rows_that_were_there_and_that_give_the_result(tmp_path, seed):
    with opened_in(tmp_path, PLACES[0], declare) as engine:
        states = lived(engine, seed)
        n_results = check(engine, states)
    if seed == 0:
        with opened_in(tmp_path, PLACES[0], declare) as engine:
            assert check(engine, states) == n_results
    assert n_results > 100


@pytest.mark.thorough
def test_receipts_are_the_same_in_every_place_and_after_a_restart(tmp_path):
    found = {}
    for place in PLACES:
        with opened_in(tmp_path, place, declare) as engine:
            lived(engine, 5)
        with opened_in(tmp_path, place, declare) as engine:
            receipts = [engine.receipt(result) for _, result in judged(engine)]
            found[place] = [(each["id"], each["rows"], each.get("changes")) for each in receipts]
    assert found[PLACES[0]] == found[PLACES[1]] == found[PLACES[2]]
    assert len(found[PLACES[0]]) > 100
