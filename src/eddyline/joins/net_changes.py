"""What remains of a round's changes of a table: for each identity the row before the round and the one after it.

changes of one identity in a round      remains
+A                                      +A
-A                                      -A
-A +B                                   -A +B, an update
-A +B -B +C                             -A +C, an update
+A -A                                   nothing
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.joins.probe_matches import Ints
from eddyline.joins.table_changes import is_identical


@dataclass(frozen=True, slots=True)
class NetChanges:
    """Places of the changes that remain, by the last change of their identity, a row that leaves before one that appears."""

    rows: Ints
    preimages: Ints  # places in `rows`: that row leaves, and the next one takes its place


def net_changes(
    identity: Ints, sign: npt.NDArray[np.int8], compared_rows: pa.RecordBatch | None = None
) -> NetChanges:
    """What remains of changes, in their order; of one identity they take turns, as each finds what the one before left.

    With `compared_rows` an identity whose row is the same before and after has not changed.
    """
    order = np.argsort(identity, kind="stable")
    is_first = np.ones(len(order), dtype=bool)
    is_first[1:] = np.diff(identity[order]) != 0
    first, last = order[is_first], order[np.roll(is_first, -1)]
    has_before, has_after = sign[first] < 0, sign[last] > 0
    if compared_rows is not None:
        updates = np.flatnonzero(has_before & has_after)
        sides = [compared_rows.take(pa.array(each[updates])) for each in (first, last)]
        unchanged = updates[is_identical(*sides)]
        has_before[unchanged] = has_after[unchanged] = False
    by_change = np.argsort(last)
    first, last = first[by_change], last[by_change]
    mask = np.stack([has_before[by_change], has_after[by_change]], axis=1)
    rows = np.stack([first, last], axis=1)[mask]
    ends = np.cumsum(mask.sum(axis=1))
    return NetChanges(rows, ends[mask.all(axis=1)] - 2)
