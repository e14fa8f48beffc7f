"""Views over tables that joins look up: their rows are kept, once for all joins.

They follow from the tables, which are stored, so they are not. A view that some join begins to read, or that has not been kept
since the home was opened, is filled before the first round that knows it; from then on its changes are applied.

  recounted  views that are not kept yet get the rows they have before the round
  push       the changes of a round, once all branches of a view have given theirs, go on as changes of a table
  commit     they stay
  abort      they are undone, and so is what views were filled with
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.batch import TupleBatch
from eddyline.joins import Deltas, Evaluate, ViewTable
from eddyline.model import END_OF_ARRIVALS, IDENTITY, NO_TIME, ROW, Round, ViewRelation
from eddyline.operators import (
    ArrivedRows,
    Derived,
    Mask,
    Numbers,
    RoundProgress,
    Share,
    StatelessOperator,
    WantedMasks,
)


class ViewTables:
    """The views over tables that joins look up, by name in lower case."""

    def __init__(self, evaluate: Evaluate) -> None:
        self._evaluate = evaluate
        self.tables: dict[str, ViewTable] = {}
        self._views: dict[
            str, ViewRelation | None
        ] = {}  # whose rows they are; None: it is suspended, and has none
        self._filled: set[str] = set()
        self.missing: frozenset[str] = frozenset()  # those that the running round has to fill

    def fit(
        self, names: Collection[str], views: Mapping[str, ViewRelation], schemas: Mapping[str, pa.Schema]
    ) -> None:
        """Have a table for each view that joins look up, and no other. Between rounds. `views` are those of them that run."""
        for name in [
            name for name, view in self._views.items() if name not in names or views.get(name) is not view
        ]:
            del self.tables[name], self._views[name]
            self._filled.discard(name)
        for name in names:
            if name not in self.tables:
                self.tables[name] = ViewTable(schemas[name], self._evaluate)
                self._views[name] = views.get(name)

    def begin(self, names: AbstractSet[str]) -> None:
        """A round begins that was planned with these views."""
        self.missing = frozenset(names & self.tables.keys() - self._filled)

    def fill(self, name: str, rows: ArrivedRows) -> None:
        """What a view has before the round."""
        if name in self.missing:
            self.tables[name].fill(rows.batch.rows)

    def change(self, name: str, rows: ArrivedRows) -> ArrivedRows:
        """What the changes of a view change in its table."""
        deltas = self.tables[name].change(rows.batch.rows, np.sign(rows.batch.sign))
        return _at_end(rows.batch.stream, deltas)

    def current_rows(self, name: str) -> ArrivedRows:
        """The rows of a view as they are now, in an order that does not depend on when they came."""
        table = self.tables[name]
        numbers = table.current()
        hidden = [name for name in table.schema.names if name.startswith(ROW)] + [IDENTITY]
        keys = pa.RecordBatch.from_arrays(table.take(numbers, hidden), names=hidden)
        order = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in hidden])
        numbers = numbers[order.to_numpy()]
        values = pa.RecordBatch.from_arrays(table.take(numbers, table.schema.names), schema=table.schema)
        n = len(numbers)
        ones, late = np.ones(n, np.int8), np.zeros(n, dtype=bool)
        batch = TupleBatch(name, values, _end(n), ones, late)
        return ArrivedRows(batch, table.time_us[numbers], table.arrival[numbers])

    def commit(self) -> None:
        for table in self.tables.values():
            table.commit()
        self._filled |= self.missing & self.tables.keys()
        self.missing = frozenset()

    def rollback(self) -> None:
        for table in self.tables.values():
            table.rollback()
        self.missing = frozenset()


class ViewTableLevel(StatelessOperator):
    """The views whose rows are complete before one level of joins, as an operator of the walk."""

    def __init__(self, views: ViewTables, names: AbstractSet[str], level: int) -> None:
        self.level, self.order = level, (level, 1)
        self._views = views
        self._names = names

    def recounted(
        self, rows: Mapping[str, ArrivedRows], progress: RoundProgress, round_: Round
    ) -> Iterator[Derived]:
        for name in self._names & rows.keys():
            self._views.fill(name, rows[name])
        return iter(())

    def push(
        self,
        arrived: Mapping[str, ArrivedRows],
        wanted: WantedMasks,
        progress: RoundProgress,
        round_: Round,
        share: Share,
    ) -> Iterator[Derived]:
        for name in sorted(self._names & arrived.keys() & self._views.tables.keys()):
            changed = self._views.change(name, arrived[name])
            yield Derived(name, changed.batch, arrived=changed, is_filtered=True)


def kept_rows(batch: TupleBatch, identity: pa.Array, lasting: Mask) -> ArrivedRows:
    """Changes of a view as its table takes them: with what its rows are made of, as far as that lasts, and their identity."""
    components = batch.components
    assert components is not None, f"rows of {batch.stream} have no lineage"
    columns = [*batch.rows.columns, *(pa.array(column) for column in (components * lasting).T), identity]
    names = [*batch.rows.schema.names, *(f"{ROW}{k}" for k in range(components.shape[1])), IDENTITY]
    rows = pa.RecordBatch.from_arrays(columns, names=names)
    n = len(batch)
    changes = TupleBatch(batch.stream, rows, _end(n), batch.sign, np.zeros(n, dtype=bool))
    return ArrivedRows(changes, np.full(n, NO_TIME, np.int64), np.zeros(n, np.int64))


def _at_end(stream: str, deltas: Deltas) -> ArrivedRows:
    """Changes of a table that the end of a round decides, at their positions among all of the view."""
    n = len(deltas)
    batch = TupleBatch(stream, deltas.rows, _end(n), deltas.sign, np.zeros(n, dtype=bool))
    return ArrivedRows(batch, deltas.time_us, deltas.arrival)


def _end(n: int) -> Numbers:
    return np.full(n, END_OF_ARRIVALS, np.int64)
