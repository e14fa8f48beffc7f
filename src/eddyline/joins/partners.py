"""What an input holds, as partners: the window of a stream, or a table.

Of a window, that is what the SteM finds less what came too late or lies in no window. Of a table, the rows as they were
when the driver came, or as they were at its event time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eddyline.joins.plan import Drivers, Needs, Numbers, has_bit
from eddyline.joins.probing import MOST_PAIRS, PartnerMarks, cross_product
from eddyline.joins.retention import near
from eddyline.joins.stem import Evaluate, Key, ProbeMatches, Stem
from eddyline.joins.table import ALWAYS, KeyedTable
from eddyline.model import Column, Expression


@dataclass(slots=True)
class WindowPartner:
    """An input with stored rows, as one origin sees it in one round."""

    stem: Stem
    evaluate: Evaluate
    origin: int
    meets_own: bool  # whether a row may stand here and at the origin at once: it counts at one of both only
    bit: int  # of `wants`: rows without it are of no use to the signature here
    first_version: int
    needs: tuple[Needs, ...]
    now_us: int
    n_counted: Callable[[Numbers], Numbers]  # by arrival number of a driver: rows of the stream up to it

    def find(self, key: Key, values: Sequence[pa.Array], drivers: Drivers, of: Numbers) -> ProbeMatches:
        if key:
            return self._usable(self.stem.probe(key, values), drivers, of)
        rows = self.stem.every_row()
        if not len(rows):
            return ProbeMatches(np.empty(0, np.int64), np.empty(0, np.int64))
        step = max(1, MOST_PAIRS // len(rows))
        found = []
        for first in range(0, len(of), step):
            mine = of[first : first + step]
            some = self._usable(cross_product(len(mine), rows), drivers, mine)
            found.append(ProbeMatches(some.probes + first, some.rows))
        return ProbeMatches(
            np.concatenate([each.probes for each in found]), np.concatenate([each.rows for each in found])
        )

    def values(self, rows: Numbers, expressions: Sequence[Expression]) -> list[pa.Array]:
        return _values(self, rows, expressions, self.evaluate)

    def take(self, rows: Numbers, columns: Sequence[str]) -> list[pa.Array]:
        return self.stem.take(rows, columns)

    def marks(self, rows: Numbers, drivers: Drivers, of: Numbers) -> PartnerMarks:
        stem = self.stem
        return PartnerMarks(
            stem.arrival[rows],
            stem.time_us[rows],
            stem.version[rows],
            stem.position[rows],
            stem.now_us[rows],
        )

    def _usable(self, found: ProbeMatches, drivers: Drivers, of: Numbers) -> ProbeMatches:
        """Matches that came before their driver, that the signature wanted, and that some window may hold."""
        stem, rows = self.stem, found.rows
        if not len(rows):
            return found
        driver = of[found.probes]
        came, latest = stem.arrival[rows], drivers.arrival[driver]
        mask = came <= latest if self.meets_own else came < latest
        mask &= has_bit(stem.wants, self.bit, rows)
        mask &= stem.version[rows] >= self.first_version
        n_rows = any(need.n_rows is not None for need in self.needs)
        behind = self.n_counted(latest) - stem.position[rows] if n_rows else rows
        in_window = near(
            self.needs,
            self.origin,
            behind,
            self.now_us - stem.now_us[rows],
            stem.time_us[rows],
            drivers.time_us[driver],
        )
        if in_window is not None:
            mask &= in_window
        return found if mask.all() else ProbeMatches(found.probes[mask], rows[mask])


@dataclass(slots=True)
class TablePartner:
    """A table, as the drivers find it."""

    table: KeyedTable
    evaluate: Evaluate
    is_as_of: bool  # they find it as it was at their event time
    meets_own: bool  # changes of the table itself drive, and see it with these changes already made

    def find(self, key: Key, values: Sequence[pa.Array], drivers: Drivers, of: Numbers) -> ProbeMatches:
        if self.is_as_of:
            return self.table.probe_as_of(key, values, drivers.time_us[of], drivers.arrival[of])
        return self.table.probe_at(key, values, drivers.arrival[of], includes_own=self.meets_own)

    def values(self, rows: Numbers, expressions: Sequence[Expression]) -> list[pa.Array]:
        return _values(self, rows, expressions, self.evaluate)

    def take(self, rows: Numbers, columns: Sequence[str]) -> list[pa.Array]:
        return self.table.take(rows, columns)

    def marks(self, rows: Numbers, drivers: Drivers, of: Numbers) -> PartnerMarks:
        """Its latest rows are kept from its declaration on, so all queries see them; those before, queries that stood by then."""
        none = np.zeros(len(rows), np.int64)
        seen = np.full(len(rows), ALWAYS, np.int64)
        if self.is_as_of:
            seen = self.table.known_versions(rows, drivers.time_us[of], drivers.arrival[of])
        return PartnerMarks(self.table.arrival[rows], self.table.time_us[rows], seen, none, none)


def _values(
    partner: WindowPartner | TablePartner,
    rows: Numbers,
    expressions: Sequence[Expression],
    evaluate: Evaluate,
) -> list[pa.Array]:
    """What expressions give on some rows of a partner."""
    names = sorted({n.name for e in expressions for n in e.walk() if isinstance(n, Column)})
    batch = pa.RecordBatch.from_arrays(partner.take(rows, names), names=names)
    return [evaluate(expression, batch) for expression in expressions]
