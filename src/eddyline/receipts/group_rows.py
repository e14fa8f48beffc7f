"""The rows that a query with aggregates had seen in a round, read again, and the groups they made before and after it.

Which rows take part, and how they are grouped, is decided as in a round; a result is looked for among the changes of the
groups. Rows whose captures are gone are not there: a result that the others do not make is not found.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eddyline.catalog import CommittedRound
from eddyline.engine import (
    NumberedClassRows,
    PastTables,
    RoundEngine,
    RoundInputs,
    encoded,
    event_times,
    fitted,
    home_of,
)
from eddyline.errors import ReceiptError
from eddyline.explain import GroupedQuery, members
from eddyline.expressions import Context
from eddyline.filters import selected_rows
from eddyline.model import NO_TIME, SessionWindow
from eddyline.operators import Numbers, times_of


@dataclass(frozen=True, slots=True)
class Moment:
    """What a query saw when a round had ended, and when it was asked."""

    now_us: int
    watermark_us: int | None
    rows: NumberedClassRows


@dataclass(frozen=True, slots=True)
class GroupOfResult:
    """The group of a result as an entry, and its rows before the round and after it."""

    entry: pa.RecordBatch
    before: Moment | None  # None: the round was the first of the query
    after: Moment


class GroupHistory:
    """What one query saw up to a round."""

    def __init__(
        self, rounds: RoundEngine, query: GroupedQuery, committed: CommittedRound, since: int, own_since: int
    ) -> None:
        """The groups have rows since one version; the query, which may read them as a view, has results since another."""
        self._rounds, self._query, self._committed = rounds, query, committed
        self._zone = rounds.time_zone
        self._log = home_of(rounds).rounds
        round_ = committed.round
        with rounds.lock:
            before = self._log.get(round_.number - 1)
        is_first = not any(self._is_mine(each, own_since) for each in self._rounds_before())
        last_us = round_.now_us if before is None else before.round.now_us
        watermarks: tuple[int | None, int | None] = (None, None)
        self.is_certain = (
            True  # the rows are all that the query had seen, and it is known which of them were late
        )
        if query.aggregation.reads_table:
            old, new = self._table(round_.first_arrival), self._table(committed.last_arrival + 1)
        else:
            new, watermarks = self._stream_rows(since)
            old = taken(new, np.flatnonzero(new.arrivals < round_.first_arrival))
        old, new = self._kept(old, last_us), self._kept(new, round_.now_us)
        self.before = None if is_first else Moment(last_us, watermarks[0], old)
        self.after = Moment(round_.now_us, watermarks[1], new)

    # ----------------------------------------------------------------------------------------- rows

    def _rounds_before(self) -> Iterator[CommittedRound]:
        """The rounds before this one that are remembered, the latest first."""
        for number in range(self._committed.round.number - 1, 0, -1):
            with self._rounds.lock:  # let go in between: there may be many
                found = self._log.get(number)
            if found is None:
                return
            yield found

    def _is_mine(self, committed: CommittedRound, since: int) -> bool:
        """Whether a round is one of the query: of its stream, or a tick."""
        n_rows = {name.lower(): n for name, n in committed.round.n_rows.items() if n}
        is_of_stream = self._query.stream.name.lower() in n_rows or not n_rows
        return committed.round.version >= since and is_of_stream

    def _table(self, before: int) -> NumberedClassRows:
        past = PastTables(self._rounds, self._committed.round.version).rows(
            self._query.stream, before, is_current=False
        )
        if not past.is_whole:
            raise ReceiptError(
                f"the rows that {self._query.stream.name} had in round {self._committed.round.number} are not all retained",
                hint='To keep them as long as results: captures = "7 days" in [engine.retention] (docs/pipeline.md).',
            )
        return self._query.class_rows(past.rows, self._context, past.arrivals)

    @property
    def _context(self) -> Context:
        return Context(self._committed.round.now_us, self._zone, self._rounds.functions.call)

    def _stream_rows(self, since: int) -> tuple[NumberedClassRows, tuple[int | None, int | None]]:
        """The rows that take part, in order of arrival, and the watermark before the round and after it, as far as rows that are
        retained say."""
        stream, query = self._query.stream, self._query
        pieces: list[NumberedClassRows] = []
        newest_us: int | None = None
        watermark_us = before_us = None
        needs_times = query.aggregation.window is not None or query.aggregation.is_over
        rounds = [self._committed]
        reaches_beginning = False
        for each in self._rounds_before():
            if each.round.version < since:
                reaches_beginning = not needs_times  # earlier rows decide which later ones are late
                if reaches_beginning:
                    break
            rounds.append(each)
        self.is_certain = reaches_beginning or rounds[-1].round.number == 1
        for each in reversed(rounds):
            before_us = watermark_us
            if not each.round.n_rows.get(stream.name):
                continue
            try:
                batches = [
                    batch for batch in RoundInputs(self._rounds, each.round) if batch.stream == stream.name
                ]
            except ReceiptError:
                if each is self._committed:
                    raise
                pieces = []  # what is left is what is retained without a gap
                self.is_certain = False
                continue
            n_late = 0
            for batch in batches:
                assert batch.arrivals is not None
                rows = fitted(batch.rows, stream.schema)
                times = event_times(stream, rows, self._zone)
                if each.round.version >= since:
                    found = query.class_rows(rows, self._context, batch.arrivals)
                    pieces.append(self._with_lateness(found, before_us))
                if needs_times:
                    us = times_of(times, rows.num_rows)
                    n_late += 0 if before_us is None else int(((us < before_us) & (us != NO_TIME)).sum())
                if times is not None and times.null_count < len(times):
                    largest = int(np.max(np.asarray(times.drop_null())))
                    newest_us = largest if newest_us is None else max(newest_us, largest)
                    watermark_us = newest_us - stream.lateness_us
            self.is_certain &= (
                not needs_times or n_late == each.n_late
            )  # else something has lifted the watermark
        return _joined(pieces, query), (before_us, watermark_us)

    def _with_lateness(self, rows: NumberedClassRows, watermark_us: int | None) -> NumberedClassRows:
        times = times_of(event_times(self._query.stream, rows.stream_rows, self._zone), len(rows))
        is_late = np.zeros(len(rows), dtype=bool) if watermark_us is None else times < watermark_us
        has_time = np.array([us is not None for us in self._query.window_times(rows, self._zone)], dtype=bool)
        return NumberedClassRows(rows.columns, rows.stream_rows, rows.arrivals, is_late & has_time)

    def _kept(self, rows: NumberedClassRows, now_us: int) -> NumberedClassRows:
        """Those that `keep` has not forgotten."""
        keep_us = self._query.aggregation.keep_us
        if keep_us is None or not len(rows):
            return rows
        firsts, nows = self._round_starts()
        came_us = nows[np.searchsorted(firsts, rows.arrivals, side="right") - 1]
        by_key: dict[bytes, list[int]] = {}
        for at, key in enumerate(self._query.key_bytes(rows.columns)):
            mine = by_key.setdefault(key, [])
            if mine and came_us[at] >= came_us[mine[-1]] + keep_us:
                mine.clear()
            mine.append(at)
        places = [at for mine in by_key.values() if now_us < came_us[mine[-1]] + keep_us for at in mine]
        return taken(rows, np.array(sorted(places), np.int64))

    def _round_starts(self) -> tuple[Numbers, Numbers]:
        """The first arrival number and now() of each round, ascending."""
        rounds = [self._committed, *self._rounds_before()][::-1]
        firsts = np.array([each.round.first_arrival for each in rounds], np.int64)
        return firsts, np.array([each.round.now_us for each in rounds], np.int64)

    # ----------------------------------------------------------------------------------------- groups

    def group_of(self, result: pa.RecordBatch, change: str, nth: int) -> GroupOfResult | None:
        """The group that a result is about, the nth of those with equal results in the round; None if the rows do not make it."""
        sides = self._answer(self.before), self._answer(self.after)
        own, other = sides if change in ("delete", "update_preimage") else sides[::-1]
        found = []
        for key, (entry, row) in own.items():
            has_changed = key not in other or _bytes(other[key][1]) != _bytes(row)
            if has_changed and (key in other) == change.startswith("update") and _is_alike(row, result):
                found.append(entry)
        if self._query.aggregation.is_final:
            closing = self._closing(found)
            found = (
                closing if len(closing) > nth else found
            )  # a watermark that was lifted closes windows, too
        if len(found) <= nth:
            return None
        entry = found[nth]
        before = (
            None if self._query.aggregation.is_final else self.before
        )  # a window of emit = 'final' was not there
        own_before = None if before is None else self._of_group(before, entry)
        return GroupOfResult(entry, own_before, self._of_group(self.after, entry))

    def _answer(self, moment: Moment | None) -> dict[bytes, tuple[pa.RecordBatch, pa.RecordBatch]]:
        """The entries that are in the answer, by identity: the entry, and what the query says of it."""
        if moment is None or (self._query.aggregation.is_final and moment is self.before):
            return {}
        query = self._query
        context = Context(moment.now_us, self._zone, self._rounds.functions.call)
        entries = query.entries_of(moment.rows, context)
        found = selected_rows(query.record.shape, query.record.constants, entries, context)
        identities = self._identities(entries)
        return {
            identities[at]: (entries.slice(at, 1), found.columns.slice(place, 1))
            for place, at in enumerate(found.places.tolist())
        }

    def _identities(self, entries: pa.RecordBatch) -> list[bytes]:
        """What tells entries apart: their keys, and where their windows start. The end of a session may move."""
        keys, window = self._query.key_bytes(entries), self._query.aggregation.window
        if window is None:
            return keys
        return [
            b"%d %b" % (start, key) for key, (start, _) in zip(keys, self._query.spans(entries), strict=True)
        ]

    def _closing(self, entries: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """The windows that the round closed."""
        before_us, after_us = (
            (None if self.before is None else self.before.watermark_us),
            self.after.watermark_us,
        )
        strictly = isinstance(self._query.aggregation.window, SessionWindow)
        closed = []
        for entry in entries:
            ((_, end_us),) = self._query.spans(entry)
            is_closed = after_us is not None and (end_us < after_us if strictly else end_us <= after_us)
            was_closed = before_us is not None and (end_us < before_us if strictly else end_us <= before_us)
            if is_closed and not was_closed:
                closed.append(entry)
        return closed

    def _of_group(self, moment: Moment, entry: pa.RecordBatch) -> Moment:
        """The same with the rows of one group alone."""
        context = Context(moment.now_us, self._zone, self._rounds.functions.call)
        if isinstance(self._query.aggregation.window, SessionWindow):
            entries, (wanted,) = self._query.entries_of(moment.rows, context), self._identities(entry)
            at = [place for place, each in enumerate(self._identities(entries)) if each == wanted]
            if not at:
                return Moment(moment.now_us, moment.watermark_us, taken(moment.rows, np.empty(0, np.int64)))
            entry = entries.slice(at[0], 1)
        places = np.array(members(self._query, entry, moment.rows, context), np.int64)
        return Moment(moment.now_us, moment.watermark_us, taken(moment.rows, places))

    # ----------------------------------------------------------------------------------------- frames

    def frame_of(self, arrival: int) -> Moment | None:
        """The rows of its partition that a row over frames was computed from, itself the last by time and arrival; None if it is
        not retained."""
        rows = self.after.rows
        (own,) = np.flatnonzero(rows.arrivals == arrival)[:1].tolist() or [None]
        if own is None or rows.is_late[own]:
            return None
        times = times_of(event_times(self._query.stream, rows.stream_rows, self._zone), len(rows))
        keys = self._query.key_bytes(rows.columns)
        calls = self._query.aggregating.calls
        is_alone = all(call.keys is None for call in calls)
        is_mine = np.array([not is_alone or key == keys[own] for key in keys], dtype=bool)
        has_time = np.array([us is not None for us in self._query.window_times(rows, self._zone)], dtype=bool)
        is_before = (times < times[own]) | ((times == times[own]) & (rows.arrivals <= arrival))
        is_mine &= ~rows.is_late & has_time & is_before & (rows.arrivals <= arrival)
        places = np.flatnonzero(is_mine)
        places = places[np.lexsort((rows.arrivals[places], times[places]))]
        in_frame = np.zeros(len(places), dtype=bool)
        for call in calls:
            if call.frame is None:  # lag
                in_frame[-1 - call.n_back :] = True
            elif call.frame.preceding is None:
                in_frame[:] = True
            elif call.frame.unit == "rows":
                in_frame[-1 - call.frame.preceding :] = True
            else:
                in_frame |= times[places] >= times[own] - call.frame.preceding
        if not is_alone:
            in_frame[:] = True
        return Moment(self.after.now_us, self.after.watermark_us, taken(rows, places[in_frame]))


def taken(rows: NumberedClassRows, places: Numbers) -> NumberedClassRows:
    """The rows at these places."""
    at = pa.array(places)
    return NumberedClassRows(
        rows.columns.take(at), rows.stream_rows.take(at), rows.arrivals[places], rows.is_late[places]
    )


def _joined(pieces: Sequence[NumberedClassRows], query: GroupedQuery) -> NumberedClassRows:
    if not pieces:
        columns = pa.RecordBatch.from_pylist([], query.class_record.shape.output)
        of_stream = pa.RecordBatch.from_pylist([], query.stream.schema)
        return NumberedClassRows(columns, of_stream, np.empty(0, np.int64), np.empty(0, bool))
    return NumberedClassRows(
        pa.concat_batches([each.columns for each in pieces]),
        pa.concat_batches([each.stream_rows for each in pieces]),
        np.concatenate([each.arrivals for each in pieces]),
        np.concatenate([each.is_late for each in pieces]),
    )


def _is_alike(row: pa.RecordBatch, other: pa.RecordBatch) -> bool:
    """Whether two rows are the same, but for the last digits of floating numbers: workers add these in another order."""
    for a, b in zip(row.columns, other.columns, strict=True):
        x, y = a[0].as_py(), b[0].as_py()
        if isinstance(x, float) and isinstance(y, float):
            if not (math.isclose(x, y, rel_tol=1e-9) or (math.isnan(x) and math.isnan(y))):
                return False
        elif encoded([a]) != encoded([b]):
            return False
    return True


def _bytes(rows: pa.RecordBatch) -> list[bytes]:
    found: list[bytes] = encoded(rows.columns).to_pylist()
    return found
