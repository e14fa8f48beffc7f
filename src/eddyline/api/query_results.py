"""The results of one query as a handle reads them: unread ones, the newest, those after a cursor; as rows and as Arrow.

The result log in memory answers as long as it has lost nothing of what is asked for. Beyond it a home is read, its outbox files
round by round, with the engine's lock held only to look up which files there are. Without a home what left the log is counted,
and the first time it is missed there is a warning.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from eddyline.batch import CHANGES, PartMatches, Positions, change_names
from eddyline.delivery import Result, Results, newest_pairs
from eddyline.engine import Durable, RoundEngine
from eddyline.errors import ClosedError, PropertyError, QueryStateError, ResultsDroppedWarning, SchemaError
from eddyline.storage import OUTBOX, StoredPart
from eddyline.types import python_rows

ROUNDS_AT_ONCE = 256  # of the outbox that are looked up with the lock held
LOOK_AGAIN_S = 1.0  # while nothing comes, whether the query still exists
MARKS = pa.schema(
    [
        ("_generation", pa.int32()),
        ("_round", pa.int64()),
        ("_arrival", pa.int64()),
        ("_change", pa.string()),
        ("_late", pa.bool_()),
    ]
)

Piece: TypeAlias = tuple[
    int, int, PartMatches | StoredPart, Positions
]  # round, version, matches, which of them


class QueryResults:
    """Reads the results of one query. Safe from any thread; two readers of one handle share what is unread."""

    def __init__(self, rounds: RoundEngine, query_id: int) -> None:
        self._rounds = rounds
        self._id = query_id
        self._reading = threading.RLock()
        self._waiting: deque[Result] = deque()  # read from the log and not yet given to the caller
        self._entry = 0  # the next entry of the log, and the last round, that were read
        self._round = 0
        self._n_before = 0  # results the query had when all was read, and how many were read since
        self._n_since = 0
        self._has_warned = False

    # ----------------------------------------------------------------------------------------- reading on

    def unread(self, timeout: float | None = None) -> Results:
        """Results since the last reading. With `timeout`, waits that many seconds for the first."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            with self._reading:
                n_dropped = sum(self._fill())
                found = Results(self._waiting, n_dropped)
                self._waiting.clear()
            remaining_s = 0.0 if deadline is None else deadline - time.monotonic()
            if found or n_dropped or remaining_s <= 0:
                return found
            with self._rounds.lock:
                self._check()  # a query dropped meanwhile wakes no reader again
                if self._rounds.results.end == self._entry:
                    self._rounds.delivered.wait(remaining_s)

    def __iter__(self) -> Iterator[Result]:
        """Unread results one by one, as few in memory as can be; ends when all are read."""
        while True:
            with self._reading:
                filling = self._fill()
                while not self._waiting:
                    if next(filling, None) is None:
                        return
                result = self._waiting.popleft()
            yield result

    async def follow(self) -> AsyncIterator[Result]:
        """Unread results, then new ones as they come, until the query is dropped or the engine closed."""
        loop, arrived = asyncio.get_running_loop(), asyncio.Event()

        def wake(*_: object) -> None:
            loop.call_soon_threadsafe(arrived.set)

        with self._rounds.lock:
            self._rounds.callbacks.add(self._id, wake)
        try:
            while True:
                arrived.clear()
                try:
                    await asyncio.to_thread(lambda: sum(self._fill()))
                except (ClosedError, QueryStateError):
                    return
                while self._waiting:
                    yield self._waiting.popleft()
                try:
                    await asyncio.wait_for(arrived.wait(), LOOK_AGAIN_S)
                except TimeoutError:
                    continue  # the query may have been dropped, or the engine closed
        finally:
            with self._rounds.lock:
                self._rounds.callbacks.remove(self._id, wake)

    def _fill(self) -> Iterator[int]:
        """Read on to where the log ends now, step by step; gives how many results turned out to be gone, at each step."""
        with self._rounds.lock:
            self._check()
            log, durable = self._rounds.results, self._rounds.durable
            end, last, n_ever = log.end, self._rounds.last_round, log.n_produced_by(self._id)
            if durable is None or log.is_whole(self._entry):
                self._take(self._in_log(since=self._entry))
                durable = None
        if durable is not None:
            for page in self._in_home(durable, self._round, last):
                self._take(page)
                self._round = page[0][0]
                yield 0
        n_dropped = max(0, n_ever - self._n_before - self._n_since)
        self._entry, self._round, self._n_before, self._n_since = end, last, n_ever, 0
        self._warn(n_dropped)
        yield n_dropped

    def _take(self, pieces: list[Piece]) -> None:
        found = self._in_order(pieces)
        self._waiting.extend(found)
        self._n_since += len(found)

    def _warn(self, n_dropped: int) -> None:
        if n_dropped and not self._has_warned:
            self._has_warned = True
            limits, name = self._rounds.limits, self._rounds.catalog.queries.name_of(self._id)
            warnings.warn(
                f"{n_dropped:,} results of query {name} were dropped before they were read:"
                f" the result log is full ({limits.result_bytes:,} bytes). Read more often, use on_result, open a home"
                ' (eddyline.open("folder/")), or raise result_bytes.',
                ResultsDroppedWarning,
                stacklevel=_levels_to_caller(),
            )

    # ----------------------------------------------------------------------------------------- looking back

    def latest(self, n: int) -> Results:
        """The newest results, oldest first, read or not."""
        return Results(self._in_order(self._newest(n)))

    def after(self, cursor: str, timeout: float | None) -> Results:
        """What came after a cursor and is still kept, oldest first."""
        place = _place(cursor)
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            with self._rounds.lock:
                end = self._rounds.results.end
                n_dropped = self._n_lost(place[0])
            found = [
                result
                for piece in self._stored_pieces(place[0])
                for result in self._results(piece)
                if (result.round_number, result.arrival) > place
            ]
            remaining_s = 0.0 if deadline is None else deadline - time.monotonic()
            if found or remaining_s <= 0:
                return Results(sorted(found, key=lambda r: (r.round_number, r.arrival)), n_dropped)
            with self._rounds.lock:
                self._check()
                if self._rounds.results.end == end:
                    self._rounds.delivered.wait(remaining_s)

    def table(self, after: str | None, newest: int | None, *, marks: bool) -> pa.Table:
        """What is kept as one table."""
        if newest is not None:
            pieces: Iterator[Piece] = iter(self._newest(newest))
        else:
            pieces = self._stored_pieces(0 if after is None else _place(after)[0])
        place = None if after is None else _place(after)
        tables = []
        for round_number, of_round in itertools.groupby(pieces, key=lambda piece: piece[0]):
            found, numbers = [], [np.empty(0, np.int64)]
            for _, version, part, pairs in of_round:
                if place is not None and round_number == place[0]:
                    pairs = pairs[part.arrivals[pairs] > place[1]]
                if len(pairs):
                    found.append(self._table(round_number, version, part, pairs, marks=marks))
                    numbers.append(part.arrivals[pairs])
            tables += found if len(found) < 2 else [_in_order_of(np.concatenate(numbers), found)]
        with self._rounds.lock:
            schema = self._rounds.catalog.record(self._id).shape.output
        expected = pa.schema([*(MARKS if marks else ()), *schema])
        if all(table.schema.equals(expected) for table in tables):
            return pa.concat_tables([expected.empty_table(), *tables])
        try:  # the query was replaced by one with other columns
            return pa.concat_tables([expected.empty_table(), *tables], promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise SchemaError(
                "results of earlier generations of this query have columns of other types",
                detail=str(error),
                hint="Take those since the change: to_arrow(after=cursor).",
            ) from error

    def _n_lost(self, from_round: int) -> int | None:
        """None if results of rounds from this one on are no longer kept."""
        durable = self._rounds.durable
        if durable is None:
            return None if self._rounds.results.has_lost(self._id, from_round) else 0
        oldest, last = durable.rounds.files.first_round(OUTBOX), self._rounds.last_round
        gone_to = last + 1 if oldest is None else oldest
        return None if durable.rounds.n_results_between(from_round - 1, gone_to) else 0

    def _newest(self, n: int) -> list[Piece]:
        with self._rounds.lock:
            self._check()
            log, durable = self._rounds.results, self._rounds.durable
            pieces = self._in_log(newest=n)
            n_found = sum(len(pairs) for *_, pairs in pieces)
            if durable is None or n_found >= n or log.is_whole(0):
                return pieces
            files = durable.rounds.files.all(OUTBOX)
        found: list[Piece] = []
        for number, of_round in itertools.groupby(reversed(files), key=lambda file: file.round_number):
            parts = [part for file in of_round for part in durable.parts(file)]
            pairs = [self._mine(part) for part in parts]
            kept = newest_pairs([part.arrivals[p] for part, p in zip(parts, pairs, strict=True)], n)
            newest = zip(parts, pairs, kept, strict=True)
            found += [(number, 0, part, p[k]) for part, p, k in newest if len(k)]
            n -= sum(map(len, kept))
            if n <= 0:
                break
        return found[::-1]

    def _stored_pieces(self, from_round: int) -> Iterator[Piece]:
        """All pieces of rounds from one on."""
        with self._rounds.lock:
            self._check()
            durable, last = self._rounds.durable, self._rounds.last_round
            if durable is None or self._rounds.results.is_whole(0):
                return iter([piece for piece in self._in_log() if piece[0] >= from_round])
        return (piece for page in self._in_home(durable, from_round - 1, last) for piece in page)

    # ----------------------------------------------------------------------------------------- where they are

    def _check(self) -> None:
        self._rounds.check_open()
        self._rounds.catalog.record(self._id)

    def _in_log(self, *, since: int = 0, newest: int | None = None) -> list[Piece]:
        return [
            (entry.round_number, entry.version, part, pairs)
            for entry, part, pairs in self._rounds.results.read(self._id, since=since, newest=newest)
        ]

    def _in_home(self, durable: Durable, after: int, until: int) -> Iterator[list[Piece]]:
        """The pieces of each round that has any, oldest first."""
        while True:
            with self._rounds.lock:
                self._rounds.check_open()
                files = durable.rounds.files.between(OUTBOX, after, until, ROUNDS_AT_ONCE)
                durable.pin()  # retention waits for a reader
            try:
                for number, of_round in itertools.groupby(files, key=lambda file: file.round_number):
                    parts = [part for file in of_round for part in durable.parts(file)]
                    pieces: list[Piece] = [(number, 0, part, self._mine(part)) for part in parts]
                    if found := [piece for piece in pieces if len(piece[3])]:
                        yield found
            finally:
                with self._rounds.lock:
                    durable.unpin()
            if not files:
                return
            after = files[-1].round_number

    def _mine(self, part: StoredPart) -> Positions:
        pairs = np.flatnonzero(part.query_ids == self._id)
        return pairs[np.argsort(part.arrivals[pairs], kind="stable")]

    # ----------------------------------------------------------------------------------------- what they are

    def _results(self, piece: Piece) -> Iterator[Result]:
        return self.as_results(*piece)

    def _in_order(self, pieces: list[Piece]) -> list[Result]:
        """The results of pieces by round and number: parts of a union have pieces of their own."""
        found = [result for piece in pieces for result in self._results(piece)]
        found.sort(key=lambda result: (result.round_number, result.arrival))
        return found

    def as_results(
        self, round_number: int, version: int, part: PartMatches | StoredPart, pairs: Positions
    ) -> Iterator[Result]:
        """Chosen pairs of a part, all of this query, as rows with their marks."""
        with self._rounds.lock:
            name = self._rounds.catalog.queries.name_of(self._id)
            generation = self._generation(version, part, pairs)
        marks = zip(part.arrivals[pairs], part.signs[pairs].tolist(), part.is_late[pairs], strict=True)
        components = itertools.repeat(()) if part.components is None else part.components[pairs].tolist()
        for row, (arrival, sign, is_late), arrivals in zip(
            python_rows(part.project(pairs)), marks, components, strict=False
        ):
            yield Result(
                row,
                query=name,
                query_id=self._id,
                generation=generation,
                round_number=round_number,
                arrival=int(arrival),
                change=CHANGES[sign],
                is_late=bool(is_late),
                arrivals=tuple(arrivals),
            )

    def _table(
        self,
        round_number: int,
        version: int,
        part: PartMatches | StoredPart,
        pairs: Positions,
        *,
        marks: bool,
    ) -> pa.Table:
        rows = part.project(pairs)
        if not marks:
            return pa.Table.from_batches([rows])
        with self._rounds.lock:
            generation = self._generation(version, part, pairs)
        columns = [
            pa.repeat(pa.scalar(generation, pa.int32()), len(pairs)),
            pa.repeat(pa.scalar(round_number, pa.int64()), len(pairs)),
            pa.array(part.arrivals[pairs], pa.int64()),
            pa.array(change_names(part.signs[pairs]), pa.string()),
            pa.array(part.is_late[pairs], pa.bool_()),
        ]
        return pa.Table.from_arrays([*columns, *rows.columns], schema=pa.schema([*MARKS, *rows.schema]))

    def _generation(self, version: int, part: PartMatches | StoredPart, pairs: Positions) -> int:
        if isinstance(part, StoredPart):
            return int(part.generations[pairs[0]])
        return self._rounds.catalog.queries.generation_at(self._id, version)


def _in_order_of(numbers: Positions, tables: list[pa.Table]) -> pa.Table:
    """The results of one round by their numbers: parts of a union have tables of their own."""
    return pa.concat_tables(tables).take(pa.array(np.argsort(numbers, kind="stable")))


def _levels_to_caller() -> int:
    """How many frames above the one that asks the first outside of this package is."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("eddyline."):
        level, frame = level + 1, frame.f_back
    return level


def _place(cursor: str) -> tuple[int, int]:
    number, _, arrival = cursor.partition("-")
    if not all(part.isascii() and part.isdigit() and len(part) <= 18 for part in (number, arrival)):
        raise PropertyError(
            f"{cursor[:60]!r} is not a cursor", hint="Use the cursor of a result, such as result.cursor."
        )
    return int(number), int(arrival)
