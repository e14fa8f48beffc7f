"""The rows that tables had before an arrival number: a table itself has only its current rows.

A row that came before and is in the table now was in it then. In place of what has changed since are the rows of earlier rounds,
read again: the last one of each key, or that of the latest event time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eddyline.catalog import CommittedRound
from eddyline.engine.event_time import event_times
from eddyline.engine.identities import encoded
from eddyline.engine.round_inputs import RoundInputs, home_of
from eddyline.engine.rounds import RoundEngine
from eddyline.engine.tables import fitted
from eddyline.errors import ReceiptError
from eddyline.expressions import mask_of
from eddyline.model import NO_TIME, Stream
from eddyline.operators import Numbers, times_of


@dataclass(frozen=True, slots=True)
class PastRows:
    """Rows of a table as it was, by their arrival numbers."""

    rows: pa.RecordBatch
    arrivals: Numbers
    is_whole: bool  # False: there were others that are not found any more


@dataclass(frozen=True, slots=True)
class _Change:
    """A row that came for a key of a table, or a delete."""

    arrival: int
    time_us: int
    row: pa.RecordBatch | None


class PastTables:
    """The tables of an engine with a home, as they were before some arrival number, in a version of the catalog or earlier."""

    def __init__(self, rounds: RoundEngine, version: int) -> None:
        self._rounds = rounds
        self._version = version
        self._log = home_of(rounds).rounds
        self._found: dict[tuple[str, int, bool], PastRows] = {}

    def rows(self, stream: Stream, before: int, *, is_current: bool) -> PastRows:
        """The rows of a table before an arrival number; `is_current` asks only for those that it has now, which is quick."""
        key = stream.name.lower(), before, is_current
        if key not in self._found:
            current = self._current(stream, before)
            if current is None:
                current = PastRows(
                    pa.RecordBatch.from_pylist([], stream.schema), np.empty(0, np.int64), False
                )
            elif not is_current and not current.is_whole:
                current = self._past(stream, current, before)
            self._found[key] = current
        return self._found[key]

    def replaced(self, stream: Stream, committed: CommittedRound) -> frozenset[int]:
        """The arrival numbers of rows that a table had before a round, and for whose keys something came in it."""
        past = self.rows(stream, committed.round.first_arrival, is_current=False)
        changed = {key for key, _ in self._changes(stream, committed)}
        keys = self._keys(stream, past.rows)
        return frozenset(n for key, n in zip(keys, past.arrivals.tolist(), strict=True) if key in changed)

    def _current(self, stream: Stream, before: int) -> PastRows | None:
        """None of a table that has been dropped."""
        name = stream.name.lower()
        with self._rounds.lock:
            self._rounds.check_open()
            tables = self._rounds.flow.tables
            if name not in tables.tables or self._declared_in(stream) > self._version:
                return None
            batch = tables.current_rows(name).batch
        places = np.flatnonzero(batch.arrival < before)
        rows = fitted(batch.rows.take(pa.array(places)), stream.schema)
        is_whole = next(self._rounds_of(stream, since=before), None) is None
        return PastRows(rows, batch.arrival[places], is_whole)

    def _past(self, stream: Stream, current: PastRows, before: int) -> PastRows:
        """Also what has changed since, as it was."""
        later: set[bytes] = set()
        changes: dict[bytes, list[_Change]] = {}
        known = set(self._keys(stream, current.rows))
        is_whole = True
        try:
            for committed in self._rounds_of(stream):
                found = list(self._changes(stream, committed))
                later |= {key for key, change in found if change.arrival >= before}
                for key, change in found:
                    if change.arrival < before and key in later and key not in known:
                        changes.setdefault(key, []).append(change)
                if (
                    committed.round.first_arrival < before
                    and stream.time is None
                    and later <= known | changes.keys()
                ):
                    break
            else:
                is_whole = self._reaches_beginning(stream)
        except ReceiptError:  # rows of this round are not retained, nor of those before it
            is_whole = False
        if not is_whole and stream.time is not None:  # an earlier row may have had a later time
            changes = {}
        latest = [latest_change(each) for each in changes.values()]
        rows = [current.rows, *(each.row for each in latest if each.row is not None)]
        numbers = [each.arrival for each in latest if each.row is not None]
        arrivals = np.concatenate([current.arrivals, np.array(numbers, np.int64)])
        return PastRows(pa.concat_batches(rows), arrivals, is_whole)

    def _rounds_of(self, stream: Stream, since: int = 0) -> Iterator[CommittedRound]:
        """The rounds with rows of a stream since it was declared, and since an arrival number, the latest first."""
        with self._rounds.lock:
            oldest, last = self._log.retained_rounds().oldest, self._rounds.last_round
            version = self._declared_in(stream)
        for number in range(last, max(oldest, 1) - 1, -1):
            with self._rounds.lock:  # let go in between: there may be many
                committed = self._log.get(number)
            if committed is None or committed.round.version < version or committed.last_arrival < since:
                return
            if any(n and name.lower() == stream.name.lower() for name, n in committed.round.n_rows.items()):
                yield committed

    def _declared_in(self, stream: Stream) -> int:
        return home_of(self._rounds).database.streams.declared_in(stream.name)

    def _reaches_beginning(self, stream: Stream) -> bool:
        with self._rounds.lock:
            oldest = self._log.retained_rounds().oldest
            first = self._log.get(oldest) if oldest else None
            since = self._declared_in(stream)
        return oldest == 1 or (first is not None and first.round.version < since)

    def _changes(self, stream: Stream, committed: CommittedRound) -> Iterator[tuple[bytes, _Change]]:
        for batch in RoundInputs(self._rounds, committed.round):
            if batch.stream.lower() != stream.name.lower():
                continue
            assert batch.arrivals is not None
            rows = fitted(batch.rows, stream.schema)
            times = times_of(event_times(stream, rows, self._rounds.time_zone), rows.num_rows).tolist()
            has_key = np.logical_and.reduce([mask_of(rows.column(name).is_valid()) for name in stream.key])
            keys = self._keys(stream, rows)
            for at in np.flatnonzero(has_key).tolist():
                is_delete = batch.is_delete is not None and bool(batch.is_delete[at])
                row = None if is_delete else rows.slice(at, 1)
                yield keys[at], _Change(int(batch.arrivals[at]), times[at], row)

    def _keys(self, stream: Stream, rows: pa.RecordBatch) -> list[bytes]:
        keys: list[bytes] = encoded([rows.column(name) for name in stream.key]).to_pylist()
        return keys


def latest_change(changes: list[_Change]) -> _Change:
    """What changes of one key leave: the last one, but an older row does not replace a newer one."""
    first, *others = sorted(changes, key=lambda change: change.arrival)
    latest, latest_us = first, first.time_us
    for change in others:
        time_us = latest_us if change.row is None and change.time_us == NO_TIME else change.time_us
        if time_us >= latest_us:
            latest, latest_us = change, time_us
    return latest
