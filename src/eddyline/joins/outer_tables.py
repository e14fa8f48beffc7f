"""Outer joins of tables: the rows of input 0 before a round and after it, each to be compared with all that may match it.

A row that nothing matches is a result, with NULL in the columns of input 1. Where queries say more of a match than its key, the
filters decide what matches, not the join. No counts are kept: until a round commits, its tables can be looked up as they were
before it.

before the round      after it              results
A, no match           A, no match           none
A, no match           A, a match            -A
A, a match            A, no match           +A
A, no match           B, no match           -A +B, an update
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.batch import TupleBatch
from eddyline.joins.joined_rows import JoinedRows
from eddyline.joins.outer import DECIDED_AT_ONCE
from eddyline.joins.plan import Drivers, SignaturePlan
from eddyline.joins.table import KeyedTable
from eddyline.joins.version_chains import ALWAYS
from eddyline.operators import Numbers


@dataclass(frozen=True, slots=True)
class RowsAlone:
    """Rows of input 0 with NULL beside them."""

    batch: TupleBatch
    rows: Numbers  # their numbers in the table
    preimages: Numbers  # rows that leave, each before the one that takes its place
    unchanged: Numbers  # the same, where that is the same row
    # all that may match, to be taken once: row k of `batch` drove those with driver k; None: it is known that nothing does
    matched_rows: Iterable[JoinedRows] | None = None


@dataclass(frozen=True, slots=True)
class RowStates:
    """Rows of a table before a round (sign -1) and after it (+1); of one key they are one behind the other."""

    rows: Numbers  # their numbers
    sign: npt.NDArray[np.int8]
    seen_at: Numbers  # the arrival number at which other tables are in the same state
    preimages: Numbers  # as of `RowsAlone`
    unchanged: Numbers

    def alone(self, drivers: Numbers) -> RowStates:
        """Those that are results if all but these, which found a partner, are alone."""
        is_alone = np.ones(len(self.rows), dtype=bool)
        is_alone[drivers] = False
        same = self.unchanged[is_alone[self.unchanged] & is_alone[self.unchanged + 1]]
        is_alone[same] = is_alone[same + 1] = False
        images = self.preimages[is_alone[self.preimages] & is_alone[self.preimages + 1]]
        places = np.cumsum(is_alone) - 1
        return RowStates(
            self.rows[is_alone],
            self.sign[is_alone],
            self.seen_at[is_alone],
            places[images],
            np.empty(0, np.int64),
        )


def row_states(table: KeyedTable, owners: Numbers, first_arrival: int) -> RowStates:
    """The rows of some keys, given by their numbers, before and after the round that begins with this arrival number.

    Keys are in the order in which their rows came, which is the same after a restart.
    """
    before, after = (
        table.versions.versions_at(owners, np.full(len(owners), at, np.int64), includes_own=False)
        for at in (table.first_change(first_arrival), ALWAYS)
    )
    order = np.argsort(np.where(after >= 0, after, before), kind="stable")
    sides = np.stack([before[order], after[order]], axis=1)
    mask = sides >= 0
    is_both = mask.all(axis=1)
    first = (np.cumsum(mask.sum(axis=1)) - 2)[is_both]
    is_same = sides[is_both, 0] == sides[is_both, 1]
    sign = np.broadcast_to(np.array([-1, 1], np.int8), sides.shape)[mask]
    seen_at = np.where(sign < 0, first_arrival, ALWAYS)
    return RowStates(sides[mask], sign, seen_at, first[~is_same], first[is_same])


def appearing(rows: Numbers) -> RowStates:
    """Current rows of a table, given by their numbers, all of which appear."""
    n, none = len(rows), np.empty(0, np.int64)
    return RowStates(rows, np.ones(n, np.int8), np.full(n, ALWAYS, np.int64), none, none)


def drivers_in(plan: SignaturePlan, table: KeyedTable, states: RowStates) -> Drivers:
    """Rows of input 0, which is this table, to look for partners; each at its own arrival number."""
    names, rows = sorted(plan.stored_columns(0).union(table.key)), states.rows
    columns = pa.RecordBatch.from_arrays(table.take(rows, names), names=names)
    arrival = table.arrival[rows]
    return Drivers(columns, arrival, table.time_us[rows], arrival, states.sign)


def partners_in(
    plan: SignaturePlan,
    drivers: Drivers,
    states: RowStates,
    other: KeyedTable,
    drive: Callable[[Drivers], Iterator[JoinedRows]],
    pairs_at_once: int,
) -> Iterator[JoinedRows]:
    """What rows of input 0 find in the table of input 1, in the state that each of them is in, some at a time.

    `drive` gives what rows find at their arrival numbers.
    """
    most, seen = DECIDED_AT_ONCE, replace(drivers, arrival=states.seen_at)
    if not plan.signature.keys:  # each with every row
        most = max(1, min(most, pairs_at_once // max(1, other.versions.n_reachable)))
    for first in range(0, len(seen), most):
        some = seen.take(np.arange(first, min(first + most, len(seen))))
        for joined in drive(some):
            yield replace(joined, driver=joined.driver + first)
