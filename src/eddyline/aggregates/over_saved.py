"""Rows of rings, and what was folded of others, as they are saved: a batch of both, with what rows bring to the columns of rings.

row       arrival, time, epoch, whether it is pinned, key columns, and columns by the name of their lane
fold      the same without arrival and time: sums of a partition for one epoch. All of a partition are saved together, and of
          several batches the newest counts
gone      arrival alone
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.aggregates.folds import Folds
from eddyline.aggregates.keys import Keys
from eddyline.aggregates.over_lanes import Floats, Lane, Layout, RowColumns, number_of_null
from eddyline.aggregates.rings import Rings
from eddyline.aggregates.rows import Ints, Mask
from eddyline.aggregates.structure import GONE
from eddyline.kernels import ARRIVAL, EPOCH
from eddyline.model import NO_TIME

_ARRIVAL, _TIME, _EPOCH, _PINNED = "#arrival", "#time", "#epoch", "#pinned"
_KEY = "key:"  # before the name of a key column
_LOW = "#low"  # behind the name of a lane of doubles: what rounding took from a sum


@dataclass(frozen=True, slots=True)
class State:
    """What there is to save of a class."""

    rings: Rings
    folds: Folds | None
    keys: Keys
    numbers: Mapping[Lane, Keys]

    @property
    def layout(self) -> Layout:
        return self.rings.layout

    def rows(self, places: Ints, ring: Ints, is_pinned: Mask) -> pa.Table:
        """Rows at these places of rings."""
        ints, layout = self.rings.contributions(places), self.layout
        columns = {
            _ARRIVAL: pa.array(ints[:, ARRIVAL]),
            _TIME: pa.array(self.rings.time[places]),
            _EPOCH: pa.array(ints[:, EPOCH]),
            _PINNED: pa.array(is_pinned),
            GONE: pa.array(np.zeros(len(places), dtype=bool)),
            **self._key_columns(ring),
        }
        for lane in layout.stored:
            if lane.kind == "double":
                columns[lane.name] = pa.array(self.rings.floats[places, layout.floats[lane]])
            elif lane.kind == "number":
                values = self.numbers[lane].columns(ints[:, layout.ints[lane]])
                columns[lane.name] = values.to_struct_array()
            else:
                columns[lane.name] = pa.array(ints[:, layout.ints[lane]])
        return pa.table(columns)

    def folded(self, ring: Ints) -> list[pa.Table]:
        """What was folded of these rings, by epoch."""
        tables, layout, folds = [], self.layout, self.folds
        for index, epoch in enumerate(folds.epochs.tolist() if folds is not None and len(ring) else ()):
            assert folds is not None
            columns = _without_row(len(ring)) | self._key_columns(ring)
            columns[_EPOCH] = pa.array(np.full(len(ring), epoch))
            for lane, at in layout.ints.items():
                if lane.is_prefix:
                    columns[lane.name] = pa.array(folds.ints[index, ring, at])
            for lane, at in layout.floats.items():
                columns[lane.name] = pa.array(folds.floats[index, ring, at + 1])
                columns[lane.name + _LOW] = pa.array(folds.floats[index, ring, at + 2])
            tables.append(pa.table(columns))
        return tables

    def _key_columns(self, ring: Ints) -> dict[str, pa.Array]:
        keys = self.keys.columns(ring)
        return {_KEY + name: keys.column(name) for name in keys.schema.names}

    # ------------------------------------------------------------------------------------------- and back

    def load(self, saved: pa.Table, batch: Ints, oldest: int) -> None:
        """Put in what was saved and queries from the oldest epoch on see, given the batch of each line; there is nothing yet."""
        arrival = _ints(saved, _ARRIVAL, NO_TIME)
        is_row = np.asarray(saved.column(_ARRIVAL).is_valid())
        rows = np.flatnonzero(is_row)
        rows = rows[_is_last(arrival[rows])]
        is_gone = np.asarray(saved.column(GONE).combine_chunks())
        rows = rows[~is_gone[rows] & (_ints(saved, _EPOCH)[rows] >= oldest)]
        self._load_rows(saved.take(pa.array(rows)))
        folds = np.flatnonzero(~is_row)
        if len(folds) and self.folds is not None:
            self._load_folds(saved.take(pa.array(folds)), batch[folds])

    def _load_rows(self, saved: pa.Table) -> None:
        layout, n = self.layout, saved.num_rows
        rows = RowColumns(np.zeros((n, layout.n_ints), np.int64), np.zeros((n, layout.n_floats)))
        rows.ints[:, ARRIVAL], rows.ints[:, EPOCH] = _ints(saved, _ARRIVAL), _ints(saved, _EPOCH)
        rows.ints[:, layout.ints[Lane("count")]] = 1
        for lane in layout.stored:
            if lane.kind == "double":
                rows.floats[:, layout.floats[lane]] = _floats(saved, lane.name)
            elif lane.kind == "number":
                rows.ints[:, layout.ints[lane]] = self._numbers_of(lane, saved)
            else:
                rows.ints[:, layout.ints[lane]] = _ints(saved, lane.name)
        ring = self._partitions(saved)
        order = np.lexsort((rows.ints[:, ARRIVAL], ring))
        self.rings.push(
            ring[order], _ints(saved, _TIME)[order], RowColumns(rows.ints[order], rows.floats[order])
        )
        self.rings.commit()
        is_pinned = np.asarray(saved.column(_PINNED).combine_chunks().fill_null(False))
        self.rings.n_pinned = np.bincount(ring[is_pinned], minlength=len(self.rings.n))

    def _numbers_of(self, lane: Lane, saved: pa.Table) -> Ints:
        """Numbers of values, of rows from before the column as well."""
        table = self.numbers[lane]
        if lane.name not in saved.column_names:
            return np.full(saved.num_rows, number_of_null(table))
        values = saved.column(lane.name).combine_chunks()
        columns = [pc.struct_field(values, field.name) for field in table.schema]
        return table.number(pa.RecordBatch.from_arrays(columns, schema=table.schema))

    def _load_folds(self, saved: pa.Table, batch: Ints) -> None:
        folds, layout = self.folds, self.layout
        assert folds is not None
        ring, epoch = self._partitions(saved), _ints(saved, _EPOCH)
        newest = np.zeros(len(self.rings.n), np.int64)
        np.maximum.at(newest, ring, batch)
        for each in np.unique(epoch).tolist():
            lines = np.flatnonzero((epoch == each) & (batch == newest[ring]))
            index = int(np.searchsorted(folds.epochs, each, side="right")) - 1
            part = saved.take(pa.array(lines))
            ints, floats = (
                np.zeros((len(lines), layout.n_ints), np.int64),
                np.zeros((len(lines), layout.n_floats)),
            )
            for lane, at in layout.ints.items():
                if lane.is_prefix:
                    ints[:, at] = _ints(part, lane.name)
            for lane, at in layout.floats.items():
                floats[:, at + 1], floats[:, at + 2] = (
                    _floats(part, lane.name),
                    _floats(part, lane.name + _LOW),
                )
            if index >= 0:
                folds.add(index, ring[lines], ints, floats)

    def _partitions(self, saved: pa.Table) -> Ints:
        names = self.keys.schema.names
        columns = [saved.column(_KEY + name).combine_chunks() for name in names]
        if columns:
            ring = self.keys.number(pa.RecordBatch.from_arrays(columns, schema=self.keys.schema))
        else:
            ring = (
                self.keys.number(saved.select([_EPOCH]).combine_chunks().to_batches()[0])
                if saved.num_rows
                else np.zeros(0, np.int64)
            )
        self.rings.resize(self.keys.table.n_numbers)
        if self.folds is not None:
            self.folds.resize(len(self.rings.n))
        return ring


def gone_rows(arrival: Ints) -> pa.Table:
    """Rows that have left."""
    is_gone = np.ones(len(arrival), dtype=bool)
    return pa.table(_without_row(len(arrival)) | {_ARRIVAL: pa.array(arrival), GONE: pa.array(is_gone)})


def _without_row(n: int) -> dict[str, pa.Array]:
    """The columns that all lines have, of lines that are no rows."""
    numbers = {name: pa.nulls(n, pa.int64()) for name in (_ARRIVAL, _TIME, _EPOCH)}
    is_false = pa.array(np.zeros(n, dtype=bool))
    return numbers | {_PINNED: is_false, GONE: is_false}


def together(tables: Sequence[pa.Table]) -> pa.RecordBatch | None:
    """One batch of all, NULL in columns that one of them does not have; None if there is nothing."""
    tables = [table for table in tables if table.num_rows]
    if not tables:
        return None
    return pa.concat_tables(tables, promote_options="default").combine_chunks().to_batches()[0]


def key_schema(saved: pa.Schema, names: Sequence[str]) -> pa.Schema | None:
    """That of the key columns of saved rows; None: there are no rows, only some that have left."""
    if not all(_KEY + name in saved.names for name in names):
        return None
    return pa.schema([saved.field(_KEY + name).with_name(name) for name in names])


def _ints(table: pa.Table, name: str, otherwise: int = 0) -> Ints:
    if name not in table.column_names:
        return np.zeros(table.num_rows, np.int64)
    return np.array(table.column(name).combine_chunks().fill_null(otherwise), np.int64)


def _floats(table: pa.Table, name: str) -> Floats:
    if name not in table.column_names:
        return np.zeros(table.num_rows)
    return np.array(table.column(name).combine_chunks().fill_null(0.0), np.float64)


def _is_last(arrival: Ints) -> Ints:
    """Places of the last occurrence of each number."""
    _, index = np.unique(arrival[::-1], return_index=True)
    return len(arrival) - 1 - index
