"""Rounds on disk: the one transaction that makes a round have happened.

What a crash leaves before it does not count, whatever files were written; what it leaves after it is found again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from eddyline.catalog import codec
from eddyline.catalog.checksums import COLUMN, checked_row
from eddyline.catalog.cursors import ReaderCursors
from eddyline.catalog.database import Database
from eddyline.catalog.listed_files import ListedFile, ListedFiles
from eddyline.catalog.stored_streams import lanes_of
from eddyline.catalog.versions import AT_ONCE, RetainedRange
from eddyline.errors import HomeError
from eddyline.model import FIRST_DERIVED, LaneProgress, Round, StreamProgress

FORGOTTEN_DEAD = "dead letters of forgotten rounds"  # a setting
FORGOTTEN_RESULTS = "results of forgotten rounds"  # a setting
SINKS_DEAD = "dead letters of sinks"  # a setting
NEXT_MADE = "next row of joins"  # a setting, once there was one


@dataclass(frozen=True, slots=True)
class ReadInput:
    """Rows of a round that were read where they lie: in order of arrival from this number on, as a reference says."""

    first_arrival: int
    n_rows: int
    stream: str
    reference: str  # JSON, see sources/reading.py


_ROUND = "number, version, now_us, seed, first_arrival, last_arrival, token, rows, n_results, n_dead, n_late, epoch, at_us"
_INPUT = "round, first_arrival, n_rows, stream, reference"


@dataclass(frozen=True, slots=True)
class CommittedRound:
    """What is remembered of a round."""

    round: Round
    last_arrival: int
    n_results: int
    n_dead: int
    n_late: int
    n_derived: int = 0  # rows that joins and tables derived; for `commit` only, not stored here


class RoundLog:
    """Committed rounds, and the progress of each stream; `files` that belong to them, and `cursors` of their readers."""

    def __init__(self, database: Database, epoch: int, stamp_us: Callable[[], int]) -> None:
        """`stamp_us` says, within a transaction, what time it is as retention counts."""
        self._database = database
        self._stamp_us = stamp_us
        self._connection = database.connection
        self.epoch = epoch
        self.files = ListedFiles(database)
        self.cursors = ReaderCursors(database)

    def commit(
        self,
        committed: CommittedRound,
        progress: Mapping[str, StreamProgress],
        files: Sequence[ListedFile],
        positions: Mapping[str, object],
        inputs: Iterable[ReadInput] = (),
        unlisted_files: Sequence[str] = (),
    ) -> None:
        """Step 4. Refuses if another process has opened the home since, or if another round came between.

        `unlisted_files` are files that are no longer listed.
        """
        with self._database.transaction():
            last = int(self._connection.execute("SELECT coalesce(max(number), 0) FROM rounds").fetchone()[0])
            if last != committed.round.number - 1:
                raise HomeError(
                    f"round {committed.round.number} cannot follow round {last}",
                    detail="This round has not happened.",
                    hint="Close the engine and open the home again.",
                )
            at_us = self._stamp_us()
            self._connection.execute(
                f"INSERT INTO rounds ({_ROUND}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    committed.round.number,
                    committed.round.version,
                    committed.round.now_us,
                    committed.round.seed,
                    committed.round.first_arrival,
                    committed.last_arrival,
                    committed.round.token,
                    codec.dump(committed.round.n_rows),
                    committed.n_results,
                    committed.n_dead,
                    committed.n_late,
                    self.epoch,
                    at_us,
                ),
            )
            self._connection.executemany(
                "INSERT OR REPLACE INTO progress (stream, n_rows, max_time_us, watermark_us, n_late) VALUES (?, ?, ?, ?, ?)",
                [(name, p.n_rows, p.max_time_us, p.watermark_us, p.n_late) for name, p in progress.items()],
            )
            lanes = {
                lanes_of(name): _lanes_to(p) for name, p in progress.items() if p.last_row_us is not None
            }
            self._connection.executemany(
                "INSERT OR REPLACE INTO positions (source, position) VALUES (?, ?)",
                [(source, codec.dump(position)) for source, position in {**positions, **lanes}.items()],
            )
            self.files.add(files, at_us)
            self._connection.executemany(
                f"INSERT INTO inputs ({_INPUT}) VALUES (?, ?, ?, ?, ?)",
                [
                    (committed.round.number, i.first_arrival, i.n_rows, i.stream, i.reference)
                    for i in inputs
                    if i.n_rows
                ],
            )
            if committed.n_derived:
                self._database.set(NEXT_MADE, str(committed.round.first_derived + committed.n_derived))
            unlisted = self.files.remove(unlisted_files)
        self.files.note([*((file.kind, 1, file.nbytes) for file in files), *unlisted])

    def get(self, number: int) -> CommittedRound | None:
        """A round by its number, or None if it is forgotten or was never."""
        row = self._connection.execute(
            f"SELECT {_ROUND}, {COLUMN} FROM rounds WHERE number = ?", (number,)
        ).fetchone()
        return None if row is None else _round(row)

    def inputs(self, number: int) -> list[ReadInput]:
        """What a round read by reference, in order of arrival; none if its rows came through the driver."""
        rows = self._connection.execute(
            f"SELECT {_INPUT}, {COLUMN} FROM inputs WHERE round = ? ORDER BY first_arrival", (number,)
        )
        return [ReadInput(*checked_row("inputs", row)[1:]) for row in rows]

    def last(self) -> CommittedRound | None:
        row = self._connection.execute(
            f"SELECT {_ROUND}, {COLUMN} FROM rounds ORDER BY number DESC LIMIT 1"
        ).fetchone()
        return None if row is None else _round(row)

    def by_token(self, token: str) -> CommittedRound | None:
        row = self._connection.execute(
            f"SELECT {_ROUND}, {COLUMN} FROM rounds WHERE token = ?", (token,)
        ).fetchone()
        return None if row is None else _round(row)

    def next_derived(self) -> int:
        """The number of the next row that joins and tables derive."""
        return self._database.number(NEXT_MADE, FIRST_DERIVED)

    def version_of(self, number: int) -> int:
        """The catalog version a round saw."""
        row = self._connection.execute("SELECT version FROM rounds WHERE number = ?", (number,)).fetchone()
        return 0 if row is None else int(row[0])

    def recent(self, newest: int) -> list[CommittedRound]:
        rows = self._connection.execute(
            f"SELECT {_ROUND}, {COLUMN} FROM rounds ORDER BY number DESC LIMIT ?", (newest,)
        )
        return [_round(row) for row in rows]

    def after(self, number: int) -> list[Round]:
        """Later rounds, oldest first."""
        rows = self._connection.execute(
            f"SELECT {_ROUND}, {COLUMN} FROM rounds WHERE number > ? ORDER BY number", (number,)
        )
        return [_round(row).round for row in rows]

    def n_dead(self) -> int:
        """How many dead letters all rounds had, also those that are forgotten, and all sinks."""
        n_in_log = int(self._connection.execute("SELECT coalesce(sum(n_dead), 0) FROM rounds").fetchone()[0])
        return n_in_log + self._database.number(FORGOTTEN_DEAD) + self._database.number(SINKS_DEAD)

    def n_results(self) -> int:
        """How many results all rounds had, also those that are forgotten."""
        n_in_log = int(
            self._connection.execute("SELECT coalesce(sum(n_results), 0) FROM rounds").fetchone()[0]
        )
        return n_in_log + self._database.number(FORGOTTEN_RESULTS)

    def progress(self) -> dict[str, StreamProgress]:
        rows = self._connection.execute(
            "SELECT stream, n_rows, max_time_us, watermark_us, n_late FROM progress"
        )
        return {
            name: _with_lanes(StreamProgress(*rest), self.position(lanes_of(name))) for name, *rest in rows
        }

    def position(self, source: str) -> object | None:
        row = self._connection.execute(
            "SELECT position FROM positions WHERE source = ?", (source,)
        ).fetchone()
        return None if row is None else json.loads(row[0])

    def now_of(self, number: int) -> int | None:
        """The now() of a round, in microseconds since 1970, if it is remembered."""
        row = self._connection.execute("SELECT now_us FROM rounds WHERE number = ?", (number,)).fetchone()
        return None if row is None else int(row[0])

    def n_results_between(self, after: int, before: int) -> int:
        """How many results the rounds between two had, as far as they are remembered."""
        (n,) = self._connection.execute(
            "SELECT coalesce(sum(n_results), 0) FROM rounds WHERE number > ? AND number < ?", (after, before)
        ).fetchone()
        return int(n)

    def list_letters(self, file: ListedFile, n_letters: int) -> None:
        """A file of dead letters that no round brought, but a sink."""
        with self._database.transaction():
            self.files.add([file], self._stamp_us())
            self._database.set(SINKS_DEAD, str(self._database.number(SINKS_DEAD) + n_letters))
        self.files.note([(file.kind, 1, file.nbytes)])

    # ----------------------------------------------------------------------------------------- forgetting

    def retained_rounds(self) -> RetainedRange:
        """Rounds that are kept, with their tokens."""
        (n,) = self._connection.execute("SELECT count(*) FROM rounds").fetchone()
        oldest = self._connection.execute(
            "SELECT number, at_us FROM rounds ORDER BY number LIMIT 1"
        ).fetchone()
        return RetainedRange(int(n), *(oldest or (0, 0)))

    def first_to_keep(self, since_us: int, count: int) -> int:
        """The first round committed since then, or the newest but `count`, whichever is later; never after the last one."""
        last = int(self._connection.execute("SELECT coalesce(max(number), 0) FROM rounds").fetchone()[0])
        young = self._connection.execute(
            "SELECT number FROM rounds WHERE at_us >= ? ORDER BY number LIMIT 1", (since_us,)
        ).fetchone()
        return min(last, max(last if young is None else int(young[0]), last - count + 1))

    def forget(self, before: int) -> int:
        """Remove rounds before this one that no listed file belongs to, with their tokens; returns how many, AT_ONCE at most."""
        found = self._connection.execute(
            "SELECT number, n_dead, n_results FROM rounds WHERE number < ? AND number NOT IN (SELECT round FROM files)"
            " ORDER BY number LIMIT ?",
            (before, AT_ONCE),
        ).fetchall()
        if found:
            with self._database.transaction():
                numbers = [(number,) for number, *_ in found]
                self._connection.executemany("DELETE FROM rounds WHERE number = ?", numbers)
                self._connection.executemany("DELETE FROM inputs WHERE round = ?", numbers)
                for place, name in ((1, FORGOTTEN_DEAD), (2, FORGOTTEN_RESULTS)):
                    n = self._database.number(name) + sum(each[place] for each in found)
                    self._database.set(name, str(n))
        return len(found)

    def oldest_version(self, *kinds: str) -> int | None:
        """The catalog version of the oldest round to which a file of these kinds belongs; None if there is no such file."""
        found = [
            self._connection.execute("SELECT min(round) FROM files WHERE kind = ?", (kind,)).fetchone()[0]
            for kind in kinds
        ]
        return min((self.version_of(number) for number in found if number is not None), default=None)


def _lanes_to(progress: StreamProgress) -> dict[str, object]:
    lanes = {name: [lane.max_time_us, lane.last_row_us] for name, lane in progress.lanes.items()}
    return {"last_row_us": progress.last_row_us, "lanes": lanes}


def _with_lanes(progress: StreamProgress, stored: Any) -> StreamProgress:
    """A home that an earlier version wrote says nothing of partitions."""
    if stored is None:
        return progress
    lanes = {name: LaneProgress(*lane) for name, lane in stored["lanes"].items()}
    return replace(progress, last_row_us=stored["last_row_us"], lanes=lanes)


def _round(row: tuple[Any, ...]) -> CommittedRound:
    number, version, now_us, seed, first, last, token, rows, n_results, n_dead, n_late, *_ = checked_row(
        "rounds", row
    )
    round_ = Round(number, version, now_us, seed, first, json.loads(rows), token)
    return CommittedRound(round_, last, n_results, n_dead, n_late)
