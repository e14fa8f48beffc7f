"""OVER: rows with values over their frames, for all queries of a class at once.

A row that takes part, which is not late and has a time, gets its values in the round in which it comes. They are never revised.
Its frame ends with itself: rows of its partition that came before it and are not behind it in time. All calls of all queries read
the same ring of a partition (rings.py), in which a row stands once; a query sees the rows of its own epoch and newer ones.

Rows that no frame can hold any more leave. All rings are gone over for that, between rounds, each time the watermark has gone on
by a part of the longest frame and enough rows have come. Of rows that unbounded frames hold, the sums stay (folds.py), and rows
that win stay in their rings as pinned ones.

Invariant: rings hold no row that had left when they were last gone over, and none that every query is too young for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.aggregates.folds import Folds
from eddyline.aggregates.frames import EpochFrames
from eddyline.aggregates.keys import Keys
from eddyline.aggregates.over_lanes import (
    ColumnReader,
    Layout,
    RowColumns,
    empty_numbers,
    number_of_null,
    number_ranks,
)
from eddyline.aggregates.over_purge import Purge
from eddyline.aggregates.over_saved import State, gone_rows, key_schema, together
from eddyline.aggregates.over_values import FrameValues, needs_folds
from eddyline.aggregates.rings import Rings, TouchedRings, places_of
from eddyline.aggregates.rows import ClassRows, Ints, Mask
from eddyline.aggregates.structure import Reader, RoundTime
from eddyline.kernels import ARRIVAL, EPOCH, NOTHING
from eddyline.model import NO_TIME, OVERFLOW, Aggregation


@dataclass(frozen=True, slots=True)
class OverValues:
    """Values of rows of a round, as the queries of one epoch see them, in order of arrival."""

    epoch: int
    rows: Ints  # places of these rows in those that were pushed
    columns: pa.RecordBatch  # values by the name of calls, and those that can overflow with OVERFLOW behind


@dataclass(slots=True)
class Unsaved:
    """What has changed since the last round that was saved."""

    gone: list[Ints] = field(default_factory=list)  # arrival numbers of rows that left
    rings: Ints = field(default_factory=lambda: np.empty(0, np.int64))  # where rows were folded or pinned
    touched: TouchedRings | None = None  # by the running round


class OverRows:
    """The rings of a class, and values over frames of them."""

    def __init__(self) -> None:
        self._readers: tuple[Reader, ...] = ()
        self._epochs: tuple[int, ...] = ()
        self._keys: Keys | None = None  # with the first rows
        self._adopt(Layout(()))
        self._watermark_us: int | None = None  # after the running round
        # rows of rings that others of their round came before, or behind rows they do not see
        self._n_apart = 0

    def _adopt(self, layout: Layout) -> None:
        """Nothing, with the columns of a layout."""
        self._layout = layout
        self._numbers = empty_numbers(layout)
        self._rings = Rings(layout)
        self._folds = Folds(layout, self._epochs) if needs_folds(layout) else None
        self._purge = Purge(layout.calls.values())
        self._unsaved = Unsaved()

    # ------------------------------------------------------------------------------------------- versions

    def build(self, readers: Sequence[Reader]) -> None:
        """Adopt the readers of a version, between rounds. Rows that none of them sees go."""
        self._readers = tuple(readers)
        oldest = self._epochs[0] if self._epochs else None
        self._epochs = tuple(sorted({epoch for reader in readers for epoch in reader.epochs}))
        layout = Layout(call for reader in readers for call in reader.calls)
        if not self._epochs:
            self._keys = None
            self._adopt(layout)
            return
        self._adopt_folds(layout)
        if layout.columns != self._layout.columns:
            self._adopt_layout(layout)
        self._layout = self._rings.layout = layout
        self._purge = Purge(layout.calls.values(), self._purge.last_us)
        if oldest is not None and oldest < self._epochs[0]:
            self._drop_unseen()

    def _adopt_layout(self, layout: Layout) -> None:
        """Rows that are there have no values in columns that are new; the queries that need these do not see them."""
        old, self._numbers = self._numbers, empty_numbers(layout)
        self._rings.adopt(layout)
        for lane in self._numbers:
            if lane in old:
                self._numbers[lane] = old[lane]
            else:
                places = self._rings.every_place()[0]
                self._rings.ints[places, layout.ints[lane]] = number_of_null(self._numbers[lane])
        self._rank_all()

    def _adopt_folds(self, layout: Layout) -> None:
        if not needs_folds(layout):
            self._folds = None
        elif self._folds is None:
            self._folds = Folds(layout, self._epochs)
            self._folds.resize(len(self._rings.n))
        else:
            self._folds = self._folds.adopt(layout, self._epochs)

    def _drop_unseen(self) -> None:
        """Take out rows that came before the oldest epoch with live queries."""
        places = self._rings.every_place()[0]
        stays = self._rings.ints[places, EPOCH] >= self._epochs[0]
        if not stays.all():
            self._unsaved.gone.append(self._rings.ints[places[~stays], ARRIVAL])
            self._rings.keep(stays)
            self._forget_empty()

    # ------------------------------------------------------------------------------------------- rounds

    def beyond(self, rows: ClassRows, now_us: int, most_groups: int) -> Mask:
        """Which rows would begin a partition when there are so many; those that get no values begin none."""
        found = (rows.time_us != NO_TIME) & ~rows.is_late
        if self._epochs:
            found[found] = self._known_keys(rows).beyond(rows.columns.filter(pa.array(found)), most_groups)
        return found

    def push(self, rows: ClassRows, time: RoundTime) -> Iterator[tuple[Aggregation, OverValues]]:
        """Values of the rows that take part, by aggregation and epoch; the state stays as it was until the round commits."""
        self._watermark_us = time.after_us
        if not self._epochs:
            return
        takes_part = ~rows.is_late & (rows.time_us != NO_TIME) & (rows.epoch >= self._epochs[0])
        which = np.flatnonzero(takes_part)
        if not len(which):
            return
        if len(which) < len(rows):
            rows = rows.take(which)
        ring = self._partitions(rows)
        order = np.argsort(ring, kind="stable")
        columns = ColumnReader(self._layout, self._numbers).read(rows.columns)
        columns = RowColumns(columns.ints[order], columns.floats[order])
        columns.ints[:, ARRIVAL], columns.ints[:, EPOCH] = rows.arrival[order], rows.epoch[order]
        self._rank(ring[order], columns)
        touched = self._rings.push(ring[order], rows.time_us[order], columns)
        self._unsaved.touched = touched
        for index, epoch in enumerate(self._epochs):
            yield from self._values(touched, index, epoch, which[order])

    def _partitions(self, rows: ClassRows) -> Ints:
        """The number of each row's partition."""
        keys = self._known_keys(rows)
        ring = keys.number(rows.columns)
        n_rings = keys.table.n_numbers
        self._rings.resize(n_rings)
        if self._folds is not None:
            self._folds.resize(len(self._rings.n))
        return ring

    def _known_keys(self, rows: ClassRows) -> Keys:
        if self._keys is None:
            names = self._readers[0].aggregation.keys
            self._keys = Keys(pa.schema([rows.columns.schema.field(name) for name in names]))
        return self._keys

    def _rank(self, ring: Ints, columns: RowColumns) -> None:
        """Rank values that no integer has the order of, among those of the rings that rows go to."""
        for number, rank in self._layout.ranks:
            rings = np.unique(ring)
            places = places_of(self._rings.at[rings], self._rings.n[rings])
            source, to = self._layout.ints[number], self._layout.ints[rank]
            numbers = np.concatenate([self._rings.ints[places, source], columns.ints[:, source]])
            ranks = number_ranks(numbers, self._numbers[number])
            self._rings.ints[places, to], columns.ints[:, to] = ranks[: len(places)], ranks[len(places) :]

    def _rank_all(self) -> None:
        """Rank them in all rings."""
        places, layout = self._rings.every_place()[0], self._rings.layout
        for number, rank in layout.ranks:
            numbers = self._rings.ints[places, layout.ints[number]]
            self._rings.ints[places, layout.ints[rank]] = number_ranks(numbers, self._numbers[number])
        if layout.ranks:
            self._rings.build_nodes()

    def _values(
        self, touched: TouchedRings, index: int, epoch: int, pushed: Ints
    ) -> Iterator[tuple[Aggregation, OverValues]]:
        readers = [reader for reader in self._readers if epoch in reader.epochs]
        with EpochFrames(self._rings, touched, epoch, is_oldest=index == 0) as frames:
            rows = pushed[frames.rows]
            if not len(rows):
                return
            self._n_apart += frames.n_apart
            values = FrameValues(self._layout, frames, epoch, self._folds, self._numbers)
            calls = {call.name: call for reader in readers for call in reader.calls}
            columns = values.columns(calls.values())
        order = np.full(int(rows.max()) + 1, NOTHING)
        order[rows] = np.arange(len(rows))
        order = order[order != NOTHING]
        by_arrival = pa.array(order)
        columns = {name: column.take(by_arrival) for name, column in columns.items()}
        for reader in readers:
            wanted = {call.name for call in reader.calls}
            names = [name for name in columns if name.removesuffix(OVERFLOW) in wanted]
            batch = pa.RecordBatch.from_arrays([columns[name] for name in names], names=names)
            yield reader.aggregation, OverValues(epoch, rows[order], batch)

    def commit(self) -> None:
        """Keep what the round did, and let rows go that no frame can hold any more."""
        self._rings.commit()
        for keys in self._tables:
            keys.commit()
        self._unsaved = Unsaved()
        if self._watermark_us is not None and self._purge.is_due(self._watermark_us, self._rings.n_rows):
            n_numbers = {lane: table.table.n_numbers for lane, table in self._numbers.items()}
            purged = self._purge.run(self._watermark_us, self._rings, self._folds, self._epochs, n_numbers)
            self._unsaved = Unsaved([purged.gone], purged.rings)
            self._forget_empty()

    def rollback(self) -> None:
        """Forget what the round did."""
        self._rings.rollback()
        for keys in self._tables:
            keys.rollback()
        self._unsaved.touched = None

    @property
    def _tables(self) -> list[Keys]:
        return [*([self._keys] if self._keys is not None else []), *self._numbers.values()]

    def _forget_empty(self) -> None:
        """Give up the numbers of partitions without rows, and of values that no row has."""
        if self._keys is not None and self._folds is None:
            live = self._keys.table.live
            self._keys.remove(live[self._rings.n[live] == 0])
        places = self._rings.every_place()[0]
        for lane, table in self._numbers.items():
            table.remove(np.setdiff1d(table.table.live, self._rings.ints[places, self._layout.ints[lane]]))

    # ------------------------------------------------------------------------------------------- storage

    def save(self) -> pa.RecordBatch | None:
        """The rows of the running round, and what the purge before it changed; None: nothing."""
        unsaved, tables = self._unsaved, [gone_rows(arrival) for arrival in self._unsaved.gone]
        if self._keys is not None:
            state = self._state(self._keys)
            rings = unsaved.rings
            n_pinned = self._rings.n_pinned[rings]
            pinned = places_of(self._rings.at[rings], n_pinned)
            tables.append(state.rows(pinned, np.repeat(rings, n_pinned), np.ones(len(pinned), dtype=bool)))
            tables += state.folded(rings)
            if unsaved.touched is not None:
                places = unsaved.touched.places
                ring = unsaved.touched.rings[unsaved.touched.ring_of_row]
                tables.append(state.rows(places, ring, np.zeros(len(places), dtype=bool)))
        return together(tables)

    def whole(self) -> pa.RecordBatch | None:
        """All rows and folds, as `save` would give them, between rounds."""
        if self._keys is None:
            return None
        state = self._state(self._keys)
        places, rings = self._rings.every_place()
        is_pinned = places - self._rings.at[rings] < self._rings.n_pinned[rings]
        return together([state.rows(places, rings, is_pinned), *state.folded(self._keys.table.live)])

    def load(self, saved: Sequence[pa.RecordBatch]) -> None:
        """Rows and folds as they were saved, the oldest batch first; readers are known already."""
        saved = [batch for batch in saved if batch.num_rows]
        if not saved or not self._epochs:
            return
        self._adopt(self._layout)
        lines = pa.concat_tables(
            [pa.Table.from_batches([batch]) for batch in saved], promote_options="default"
        )
        keys = key_schema(lines.schema, self._readers[0].aggregation.keys)
        if keys is None:
            return
        self._keys = Keys(keys)
        batch = np.repeat(np.arange(len(saved)), [each.num_rows for each in saved])
        self._state(self._keys).load(lines, batch, self._epochs[0])
        self._rank_all()
        for keys in self._tables:
            keys.commit()
        self._unsaved = Unsaved()

    def _state(self, keys: Keys) -> State:
        return State(self._rings, self._folds, keys, self._numbers)

    # ------------------------------------------------------------------------------------------- for explain and tests

    @property
    def nbytes(self) -> int:
        """What it keeps."""
        tables = sum(keys.nbytes for keys in self._tables)
        return self._rings.nbytes + tables + (self._folds.nbytes if self._folds is not None else 0)

    def snapshot(self) -> dict[str, Any]:
        """Numbers for explain."""
        return {
            "partitions": len(self._keys) if self._keys is not None else 0,
            "rows": self._rings.n_rows,
            "pinned rows": int(self._rings.n_pinned.sum()),
            "rows moved": self._rings.n_moved,
            "rows apart": self._n_apart,
            "epochs": len(self._epochs),
            "bytes": self.nbytes,
        }

    def check(self) -> None:
        """Assert the invariants, between rounds."""
        self._rings.check()
        for keys in self._tables:
            keys.check()
        places, rings = self._rings.every_place()
        assert not len(places) or self._rings.ints[places, EPOCH].min() >= self._epochs[0], (
            "a row that no query sees"
        )
        assert self._keys is not None or not len(places), "rows without partitions"
        if self._keys is not None:
            assert np.isin(rings, self._keys.table.live).all(), "rows of a partition without a key"
        for lane, table in self._numbers.items():
            numbers = self._rings.ints[places, self._layout.ints[lane]]
            assert np.isin(numbers, table.table.live).all(), f"{lane.name}: a value that has no number"
