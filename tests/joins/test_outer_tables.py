"""Rows of a table before a round and after it, of which an outer join tells those that are alone."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from eddyline.joins import KeyedTable, TableChanges, row_states
from eddyline.joins.outer_tables import RowStates, appearing
from eddyline.joins.version_chains import ALWAYS
from eddyline.model import NO_TIME
from eddyline.types import BIGINT, STRING

SCHEMA = pa.schema([("sym", STRING), ("bid", BIGINT)])
# by sym: A is replaced, B left, C is new, D stays, E comes and goes
BEFORE = [("A", 1), ("B", 2), ("D", 4)]
ROUND = [("E", 5), ("C", 3), ("A", 10), ("A", 11), ("B", None), ("E", None)]
FIRST = 4  # arrival number of the round


def changed_table() -> KeyedTable:
    table = KeyedTable(SCHEMA, ("sym",), lambda e, rows: rows.column(e.name))
    table.apply(changes(BEFORE, 1))
    table.commit()
    table.apply(changes(ROUND, FIRST))
    return table


def changes(rows: list[tuple], first: int) -> TableChanges:
    """Rows without a bid delete."""
    columns = [
        pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), SCHEMA, strict=True)
    ]
    return TableChanges(
        pa.RecordBatch.from_arrays(columns, schema=SCHEMA),
        np.arange(first, first + len(rows)),
        np.full(len(rows), NO_TIME),
        np.array([bid is None for _, bid in rows]),
    )


def told(table: KeyedTable, states: RowStates) -> list[tuple[int, str, int]]:
    columns = [column.to_pylist() for column in table.take(states.rows, ["sym", "bid"])]
    return list(zip(states.sign.tolist(), *columns, strict=True))


def test_each_key_has_its_row_before_the_round_and_the_one_after_it():
    table = changed_table()
    states = row_states(table, np.unique(table.versions.owner.values), FIRST)
    assert told(table, states) == [
        (-1, "B", 2),
        (-1, "D", 4),
        (1, "D", 4),
        (1, "C", 3),
        (-1, "A", 1),
        (1, "A", 11),
    ]
    assert states.seen_at.tolist() == [FIRST, FIRST, ALWAYS, ALWAYS, FIRST, ALWAYS]
    assert (states.unchanged.tolist(), states.preimages.tolist()) == ([1], [4])


def test_rows_that_found_a_partner_and_those_that_stay_alone_are_left_out():
    table = changed_table()
    states = row_states(table, np.unique(table.versions.owner.values), FIRST)
    unmatched = states.alone(np.array([], np.int64))
    assert told(table, unmatched) == [(-1, "B", 2), (1, "C", 3), (-1, "A", 1), (1, "A", 11)]
    assert (unmatched.preimages.tolist(), unmatched.unchanged.tolist()) == ([2], [])
    matched = states.alone(np.array([2, 4]))  # D after the round, A before it
    assert told(table, matched) == [(-1, "B", 2), (-1, "D", 4), (1, "C", 3), (1, "A", 11)]
    assert matched.preimages.tolist() == []


def test_an_answer_has_current_rows_alone():
    table = changed_table()
    states = appearing(table.current())
    assert told(table, states) == [(1, "D", 4), (1, "C", 3), (1, "A", 11)]
    assert set(states.seen_at.tolist()) == {ALWAYS}
