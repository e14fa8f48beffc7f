"""The order of rows that joins make, against a plain sort."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from eddyline.batch import TupleBatch
from eddyline.joins.joined_rows import JoinedRows, in_order
from eddyline.joins.row_order import lineage_order

Row = tuple[int, int, int]  # the arrival numbers of its components
# workers count rows of the round from 1 << 61 on
small, large = st.integers(1, 4), st.sampled_from([1, 2, 1 << 61, (1 << 61) + 1])
rows_of_joins = st.lists(st.tuples(*[small] * 3), max_size=30) | st.lists(
    st.tuples(*[large] * 3), max_size=30
)


@given(rows_of_joins)
def test_rows_are_ordered_by_their_latest_row_and_then_by_lineage(rows: list[Row]) -> None:
    latest = np.array([max(row) for row in rows], np.int64)
    components = np.array(rows, np.int64).reshape(-1, 3)
    order = lineage_order(latest, components)
    expected = sorted(rows, key=lambda row: (max(row), row))
    assert (rows if order is None else [rows[at] for at in order]) == expected
    assert (order is None) == (rows == expected)


@given(rows_of_joins, st.data())
def test_rows_of_several_origins_are_merged_by_the_latest_row_however_each_is_cut(
    rows: list[Row], data: st.DataObject
) -> None:
    by_origin: list[list[Row]] = [[], [], []]
    for row in rows:
        by_origin[data.draw(st.integers(0, 2))].append(row)
    found = list(in_order([pieces(sorted(mine, key=max_and_row), data) for mine in by_origin]))
    assert [row for piece in found for row in as_rows(piece)] == sorted(rows, key=max_and_row)
    assert all(len(piece) for piece in found)


def test_all_that_belongs_to_a_row_stays_with_it() -> None:
    # the columns of the batch, version and driver of each row are its first component
    one, other = joined([(1, 9, 5), (3, 9, 7)]), joined([(2, 6, 1), (4, 9, 7)])
    found = list(in_order([iter([one]), iter([other])]))
    assert [row for piece in found for row in as_rows(piece)] == [(2, 6, 1), (1, 9, 5), (3, 9, 7), (4, 9, 7)]
    for piece in found:
        first = piece.components[:, 0].tolist()
        assert piece.batch.rows.column("first").to_pylist() == first
        assert piece.version.tolist() == first
        assert piece.driver.tolist() == first


def test_one_origin_passes_as_it_is() -> None:
    batches = [joined([(1, 2, 3)]), joined([(4, 5, 6)])]
    assert [id(piece) for piece in in_order([iter(()), iter(batches)])] == [id(piece) for piece in batches]


def max_and_row(row: Row) -> tuple[int, Row]:
    return max(row), row


def pieces(rows: list[Row], data: st.DataObject) -> Iterator[JoinedRows]:
    """Rows of an origin, cut between rows with different latest components."""
    cuts = [at for at in range(1, len(rows)) if max(rows[at]) != max(rows[at - 1])]
    chosen = [at for at in cuts if data.draw(st.booleans())]
    bounds = [0, *chosen, len(rows)]
    return iter([joined(rows[a:b]) for a, b in itertools.pairwise(bounds) if a < b])


def joined(rows: list[Row]) -> JoinedRows:
    components = np.array(rows, np.int64)
    first, n = components[:, 0], len(rows)
    columns = pa.RecordBatch.from_arrays([pa.array(first)], names=["first"])
    unnumbered, sign, is_late = np.zeros(n, np.int64), np.ones(n, np.int8), np.zeros(n, dtype=bool)
    batch = TupleBatch("joined", columns, unnumbered, sign, is_late, components)
    return JoinedRows("joined", batch, first, first, components.max(axis=1))


def as_rows(piece: JoinedRows) -> list[Row]:
    return [tuple(row) for row in piece.components.tolist()]
