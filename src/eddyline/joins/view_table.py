"""The rows of a view over tables, for joins that look it up.

It is a table whose key is the identity of the view's rows: the keys of the rows each is made of, or, of SELECT DISTINCT, its
values. A round brings the net changes of the view, all of them at its end. They are numbered by their position among all changes
of the view, so what stands before a round is what has a smaller number than the first of them.

    round    changes    numbers    found by rows of the round    found at its end
    fill     A, B       0, 1       A, B                          A, B
    1        C, -A      2, 3       A, B                          B, C
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.joins.probe_matches import Evaluate, Mask
from eddyline.joins.table import KeyedTable
from eddyline.joins.table_changes import Deltas, TableChanges
from eddyline.model import IDENTITY, NO_TIME


class ViewTable(KeyedTable):
    """The current rows of a view over tables, by their identity.

    Invariant: `n_before` changes came before the running round, and between rounds these are all.
    """

    def __init__(self, schema: pa.Schema, evaluate: Evaluate) -> None:
        super().__init__(schema, (IDENTITY,), evaluate)
        self.n_before = 0
        self._n_changes = 0
        self._n_committed = 0

    def fill(self, rows: pa.RecordBatch) -> None:
        """Begin with the rows that the view has before the running round."""
        assert not self._n_changes, f"{self._n_changes} changes came before the rows the view began with"
        self._change(rows, np.zeros(rows.num_rows, dtype=bool))
        self.n_before = self._n_changes

    def change(self, rows: pa.RecordBatch, sign: npt.NDArray[np.int8]) -> Deltas:
        """Let rows appear and leave. Gives what that changes, numbered by position: a row that leaves as it was stored."""
        identity = pc.dictionary_encode(rows.column(IDENTITY))
        group = identity.indices.to_numpy(zero_copy_only=False)
        appears = np.zeros(len(identity.dictionary), dtype=bool)
        appears[group[sign > 0]] = True
        changed = np.flatnonzero(
            (sign > 0) | ~appears[group]
        )  # of both images of an update the one that stays
        return self._change(rows.take(pa.array(changed)), sign[changed] < 0)

    def _change(self, rows: pa.RecordBatch, is_delete: Mask) -> Deltas:
        n = rows.num_rows
        numbers = np.arange(self._n_changes, self._n_changes + n)
        self._n_changes += n
        return self.apply(TableChanges(rows, numbers, np.full(n, NO_TIME, np.int64), is_delete))

    def first_change(self, first_arrival: int) -> int:
        return self.n_before

    def commit(self) -> None:
        super().commit()
        self.n_before = self._n_committed = self._n_changes

    def rollback(self) -> None:
        super().rollback()
        self.n_before = self._n_changes = self._n_committed
