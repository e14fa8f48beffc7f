"""The rows of a view over tables, before a round and at its end."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from eddyline.joins import ALWAYS, ViewTable
from eddyline.model import IDENTITY, Column

SCHEMA = pa.schema([("v", pa.int32()), (IDENTITY, pa.binary())])
KEY = (Column(pa.int32(), "v"),)


@pytest.fixture
def table() -> ViewTable:
    made = ViewTable(SCHEMA, lambda key, rows: rows.column(key.name))
    made.set_keys([KEY])
    made.fill(rows((1, "a"), (2, "b")))
    made.commit()
    return made


def rows(*values: tuple[int, str]) -> pa.RecordBatch:
    columns = [v for v, _ in values], [i.encode() for _, i in values]
    return pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def change(table: ViewTable, *changes: tuple[str, int, str]) -> list[tuple[int, int, str, int]]:
    """Signs, values, identities and positions of what changed."""
    signs = np.array([1 if sign == "+" else -1 for sign, _, _ in changes], np.int8)
    deltas = table.change(rows(*((v, i) for _, v, i in changes)), signs)
    values, ids = (column.to_pylist() for column in deltas.rows.columns)
    return list(
        zip(deltas.sign.tolist(), values, map(bytes.decode, ids), deltas.arrival.tolist(), strict=True)
    )


def found(table: ViewTable, value: int, at: int) -> list[int]:
    matches = table.probe_at(KEY, [pa.array([value], pa.int32())], np.array([at]))
    return table.take(matches.rows, ["v"])[0].to_pylist()


def current(table: ViewTable) -> list[int]:
    return sorted(table.take(table.current(), ["v"])[0].to_pylist())


def test_changes_are_seen_at_the_end_of_the_round_alone(table):
    assert change(table, ("-", 1, "a"), ("+", 5, "c")) == [(-1, 1, "a", 2), (1, 5, "c", 3)]
    assert [found(table, v, table.n_before) for v in (1, 5)] == [[1], []]
    assert [found(table, v, ALWAYS) for v in (1, 5)] == [[], [5]]
    table.commit()
    assert [found(table, v, table.n_before) for v in (1, 5)] == [[], [5]]
    table.check()


def test_both_images_of_an_update_are_one_change(table):
    assert change(table, ("+", 3, "a"), ("-", 1, "a")) == [(-1, 1, "a", 2), (1, 3, "a", 2)]


def test_what_leaves_without_having_been_there_is_nothing(table):
    assert change(table, ("-", 9, "z")) == []


def test_a_row_that_takes_the_place_of_one_of_which_it_was_not_told_that_it_leaves_lets_it_leave(table):
    assert change(table, ("+", 3, "a")) == [(-1, 1, "a", 2), (1, 3, "a", 2)]


def test_a_round_that_failed_leaves_nothing_also_of_what_the_view_was_filled_with(table):
    change(table, ("-", 1, "a"), ("+", 5, "c"))
    table.rollback()
    assert current(table) == [1, 2]
    assert change(table, ("+", 6, "d")) == [(1, 6, "d", 2)]
    fresh = ViewTable(SCHEMA, lambda key, rows: rows.column(key.name))
    fresh.fill(rows((1, "a")))
    change(fresh, ("+", 2, "b"))
    fresh.rollback()
    assert current(fresh) == []
    fresh.fill(rows((4, "a")))
    assert current(fresh) == [4]
    fresh.check()
