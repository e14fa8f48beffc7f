"""A home kept while rounds run: what is written at each step, and what is found again after a crash.

    OPEN      take the lock; epoch += 1, committed; clear files that no round lists; forget versions and rounds past retention
    CAPTURE   the rows as they were pushed, one new file
    WORK      results, dead letters and what joins keep, new files
    COMMIT    one transaction lists the files and lets positions and watermarks advance: the only commit point
    ABORT     the files of a round that could not commit are removed
    GC        files past retention are unlisted, then removed; versions and rounds past retention are forgotten

What has not committed has not happened: its files are not listed, and the next OPEN clears what a crash left of them. A listed
file that turns out to be damaged is set aside and announced; the others are read.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.batch import PartMatches, TupleBatch
from eddyline.catalog import (
    AlertLog,
    Catalog,
    CommittedRound,
    Database,
    ListedFile,
    PastQuery,
    ReadInput,
    RemovedVersions,
    RoundLog,
    VersionLog,
)
from eddyline.delivery import ResultLog
from eddyline.engine.retention import (
    MOST_NAMED,
    Removal,
    Removals,
    Retention,
    RetentionClock,
    Uptime,
)
from eddyline.engine.round_store import Generations
from eddyline.errors import EddylineError, HomeError, PropertyError, StoreError
from eddyline.filters import FilterOutput
from eddyline.model import DeadLetter, Round, Shape, StreamProgress
from eddyline.operators import Mask
from eddyline.storage import (
    AGGREGATES,
    CAPTURE,
    CLOSED_ROWS,
    DEAD_LETTERS,
    KIND_WORDS,
    OUTBOX,
    TABLES,
    WINDOWS,
    AggregateBlock,
    DeadLetters,
    Home,
    NumberedRows,
    Store,
    StoredFile,
    StoredPart,
    TableBlock,
    WindowBlock,
    read_aggregates,
    read_capture,
    read_dead_letters,
    read_numbered_capture,
    read_parts,
    read_table,
    read_windows,
    stored_part,
    write_aggregates,
    write_capture,
    write_counts,
    write_dead_letters,
    write_parts,
    write_table,
    write_windows,
)

__all__ = ["GC_EVERY", "Durable", "wall_clock_us"]

GC_EVERY = 64  # rounds
ORPHAN_US = 86_400_000_000  # after which a file no round lists belongs to no round that still runs
HOME_ID = "home id"  # a setting
CLOCK, REMOVED = "retention clock", "removed by retention"  # settings


def wall_clock_us() -> int:
    """The machine's clock, in microseconds since 1970."""
    return time.time_ns() // 1000


class Durable:
    """Everything an engine with a home writes and reads: a `RoundStore` (round_store.py)."""

    def __init__(
        self,
        folder: Path,
        *,
        time_zone: str | None,
        retention: Retention | None,
        clock: Callable[[], int] | None = None,
        create: bool = True,
    ) -> None:
        """Without `retention`, the setting stored in the home holds: opening it to look at it must not make it forget.

        `clock` says microseconds since 1970; without one it is the machine's.
        """
        self.home = Home(folder, create=create)
        self.damaged: dict[str, str] = {}  # listed files that could not be read back, and why
        self._written: list[str] = []  # files of the round that is running
        self._n_pins = 0  # copies of listed files that are in progress
        self._postponed: set[str] = set()  # files unlisted meanwhile
        self._in_use: dict[
            str, tuple[set[str], set[str]]
        ] = {}  # files no round lists: the last but one, and the last
        self._orphaned_files: dict[str, int] = {}  # files no round lists, and since when that is known
        self._clock = wall_clock_us if clock is None else clock
        self._uptime = Uptime() if clock is None else None
        try:
            self.database = Database(self.home.catalog)
        except BaseException:
            self.home.release()
            raise
        try:
            with self.database.opening():
                self._open(folder, time_zone, retention)
        except BaseException:
            self.close()
            raise

    def _open(self, folder: Path, time_zone: str | None, retention: Retention | None) -> None:
        with self.database.transaction():
            self.epoch = self.database.number("epoch") + 1
            self.store = Store(self.home.store, self.epoch)
            if self.epoch == 1:
                self._refuse_lost_catalog()
            self.database.set("epoch", str(self.epoch))
            stored_zone = self.database.setting("time zone")
            if stored_zone is not None and time_zone not in (None, stored_zone):
                raise PropertyError(
                    f"the home {folder} has the time zone {stored_zone}, not {time_zone}",
                    hint="Leave out time_zone=: it is part of the home from its first day on.",
                )
            self.time_zone = stored_zone or time_zone or "UTC"
            self.database.set("time zone", self.time_zone)
            self.retention = retention or Retention.stored(self.database.setting("retention"))
            if retention is not None:
                self.database.set("retention", retention.as_text())
            self.retention_clock = RetentionClock(self._clock, self._uptime, self.database.setting(CLOCK))
            self.stamp_us()
            self.removals = Removals(self.database.setting(REMOVED))
        self.database.epoch = self.epoch
        self.rounds = RoundLog(self.database, self.epoch, self.stamp_us)
        self.versions = VersionLog(self.database)
        self.alerts = AlertLog(self.database)
        self.n_cleared = self.store.clear_unlisted({file.name for file in self.rounds.files.all()})
        with contextlib.suppress(EddylineError):  # a full disk, say: rounds that come try again
            while any(self._forget()):
                pass
        self.catalog = Catalog(self.database, self._clock, self.stamp_us)

    def _refuse_lost_catalog(self) -> None:
        """A new catalog beside an old store would clear it: everything there is unlisted."""
        n_files = sum(1 for _ in self.store.names())
        if n_files:
            raise HomeError(
                f"the catalog of the home {self.home.folder} is gone",
                detail=f"catalog.db is new and empty, but the store has {n_files} files of earlier rounds.",
                hint="Restore catalog.db from a backup. To start anew, take another folder, or remove this one's store.",
            )

    def stamp_us(self) -> int:
        """The time as retention counts it, for what a transaction brings, and stored with it."""
        now_us = self.retention_clock.now_us()
        self.database.set(CLOCK, self.retention_clock.as_text())
        return now_us

    @property
    def folder(self) -> Path:
        return self.home.folder

    def close(self) -> None:
        self.database.close()
        self.home.release()

    # ----------------------------------------------------------------------------------------- what was

    def by_token(self, token: str) -> CommittedRound | None:
        return self.rounds.by_token(token)

    def position(self, stream: str) -> Any:
        return self.rounds.position(stream)

    def reader_cursor(self, reader: str) -> int | None:
        known = self.rounds.cursors.get(reader)
        return None if known is None else known[0]

    def set_reader_cursor(self, reader: str, number: int) -> None:
        self.rounds.cursors.set(reader, number, 0)

    def identity(self) -> str:
        known = self.database.setting(HOME_ID)
        if known is None:
            known = uuid.uuid4().hex[:6]
            with self.database.transaction():
                self.database.set(HOME_ID, known)
        return known

    def past_query(self, query_id: int, generation: int) -> PastQuery | None:
        return self.alerts.past_queries.find(query_id, generation)

    def past_name_and_shape(self, query_id: int) -> tuple[str | None, Shape] | None:
        return self.database.queries.past(query_id)

    def past_owner(self, query_id: int) -> str | None:
        return self.database.queries.past_owner(query_id)

    def is_taken_over(self) -> bool:
        return self.database.number("epoch") != self.epoch

    def removed_counts(self) -> dict[str, int]:
        return {kind: n for kind, (n, _) in self.removals.totals.items()}

    def save_counts(self, last_round: int, results: ResultLog, dead_letters: DeadLetters) -> None:
        write_counts(self.home.folder, last_round, results.produced_counts(), dead_letters.by_query)

    # ----------------------------------------------------------------------------------------- a round

    def capture(
        self, round_number: int, batches: Mapping[str, TupleBatch], deletes: Mapping[str, Mask]
    ) -> list[ListedFile]:
        """Step 2: the rows, so that they can be looked at, and proven, after a restart."""
        rows = [(name, batch.rows) for name, batch in batches.items() if len(batch)]
        arrivals = {name: batch.arrival for name, batch in batches.items()}
        late = {name: batch.is_late for name, batch in batches.items()}
        if not rows:
            return []
        return [
            self._put(CAPTURE, round_number, lambda file: write_capture(file, rows, arrivals, deletes, late))
        ]

    def write(
        self,
        round_: Round,
        outputs: Iterable[FilterOutput],
        letters: Sequence[DeadLetter],
        generations: Generations,
    ) -> tuple[list[ListedFile], list[StoredPart]]:
        """Step 3: results and dead letters; the results as they can be read back."""
        parts = (part for output in outputs for part in output.all_parts())
        files, stored = self._write_parts(OUTBOX, round_, parts, generations)
        return files + self.write_letters(round_, letters), stored

    def write_closed(
        self, round_: Round, parts: Sequence[PartMatches], generations: Generations
    ) -> tuple[list[ListedFile], Sequence[StoredPart]]:
        return self._write_parts(CLOSED_ROWS, round_, parts, generations)

    def _write_parts(
        self, kind: str, round_: Round, parts: Iterable[PartMatches], generations: Generations
    ) -> tuple[list[ListedFile], list[StoredPart]]:
        stored = [stored_part(part, lambda ids: generations(ids, round_.version)) for part in parts]
        if not stored:
            return [], []
        return [self._put(kind, round_.number, lambda file: write_parts(file, stored))], stored

    def commit(
        self,
        done: CommittedRound,
        progress: Mapping[str, StreamProgress],
        files: Sequence[ListedFile],
        positions: Mapping[str, object],
        inputs: Sequence[ReadInput] = (),
        unlisted_files: Sequence[str] = (),
    ) -> None:
        """Step 4. `unlisted_files` are unlisted with it, then removed."""
        self.rounds.commit(done, progress, files, positions, inputs, unlisted_files)
        self._written.clear()
        with contextlib.suppress(EddylineError):  # the round has happened; an opening clears what is left
            self._remove_files(unlisted_files)

    def write_letters(self, round_: Round, letters: Sequence[DeadLetter]) -> list[ListedFile]:
        """Dead letters of a round, if there are any."""
        if not letters:
            return []
        return [
            self._put(
                DEAD_LETTERS, round_.number, lambda file: write_dead_letters(file, letters), suffix="jsonl"
            )
        ]

    def put_letters(self, letters: Sequence[DeadLetter]) -> StoredFile | None:
        return self.store.put(DEAD_LETTERS, lambda file: write_dead_letters(file, letters), suffix="jsonl")

    def list_letters(self, round_number: int, stored: StoredFile | None, n_letters: int) -> None:
        if stored is not None:
            file = ListedFile(stored.name, DEAD_LETTERS, round_number, stored.nbytes, stored.checksum)
            self.rounds.list_letters(file, n_letters)

    def write_windows(self, round_number: int, blocks: Sequence[WindowBlock]) -> ListedFile:
        """Rows that joins keep."""
        return self._put(WINDOWS, round_number, lambda file: write_windows(file, blocks))

    def window_files(self) -> list[ListedFile]:
        """Files of rows that joins keep, in order."""
        return self.rounds.files.all(WINDOWS)

    def windows(self, file: ListedFile) -> list[WindowBlock]:
        """The rows of such a file; none if it is damaged."""
        buffer = self._read(file)
        return [] if buffer is None else list(read_windows(buffer))

    def write_table(self, round_number: int, blocks: Sequence[TableBlock]) -> ListedFile:
        """Write changes of a table to a file of the round."""
        return self._put(TABLES, round_number, lambda file: write_table(file, blocks))

    def table_files(self) -> list[ListedFile]:
        """Files of changes of tables, in order."""
        return self.rounds.files.all(TABLES)

    def table(self, file: ListedFile) -> list[TableBlock]:
        """The changes in such a file; none if it is damaged."""
        buffer = self._read(file)
        return [] if buffer is None else list(read_table(buffer))

    def write_aggregates(self, round_number: int, blocks: Sequence[AggregateBlock]) -> ListedFile:
        """Write entries of aggregates to a file of the round."""
        return self._put(AGGREGATES, round_number, lambda file: write_aggregates(file, blocks))

    def aggregate_files(self) -> list[ListedFile]:
        """Files of entries of aggregates, in order."""
        return self.rounds.files.all(AGGREGATES)

    def aggregates(self, file: ListedFile) -> list[AggregateBlock]:
        """The entries in such a file; none if it is damaged."""
        buffer = self._read(file)
        return [] if buffer is None else list(read_aggregates(buffer))

    def keep(self, whose: str, names: Iterable[str]) -> None:
        """Files that no round lists and workers need now, such as those of a plan. Those before the last are removed."""
        older, last = self._in_use.get(whose, (set(), set()))
        now = set(names)
        if now != last:
            self.store.remove(older - last - now)
            self._in_use[whose] = last, now

    def release(self, whose: str) -> None:
        """No worker needs these files any more."""
        for names in self._in_use.pop(whose, ()):
            self.store.remove(names)

    @property
    def in_use(self) -> set[str]:
        """Files that no round lists and a plan or a worker needs."""
        return set[str]().union(*(names for both in self._in_use.values() for names in both))

    def abort(self) -> None:
        """Remove what a failed round has written, unless it failed after it had committed."""
        written, self._written = self._written, []
        self.remove_unlisted(written)

    def remove_unlisted(self, names: Sequence[str]) -> None:
        """Remove files that no committed round lists."""
        if names:
            listed = {file.name for file in self.rounds.files.all()}
            self.store.remove(name for name in names if name not in listed)

    def collect_garbage(self, *, read_to: int | None = None) -> dict[str, int]:
        """Step 7: remove files past retention, forget versions and rounds; returns how many of each kind.

        Results of rounds after `read_to` have not moved alerts yet, and stay until they have. Closed rows stay no longer.
        """
        removed: dict[str, int] = {}
        now_us = self.retention_clock.now_us()
        if read_to is not None:
            moved = [f.name for f in self.rounds.files.all(CLOSED_ROWS) if f.round_number <= read_to]
            self.rounds.files.unlist(moved)
            self._remove_files(moved)
        for kind in (OUTBOX, DEAD_LETTERS, CAPTURE):
            age_us, max_bytes = self.retention.of(kind)
            old = {file.name for file in self.rounds.files.listed_before(kind, now_us - age_us)}
            files = self.rounds.files.all(kind)
            if kind == OUTBOX and read_to is not None:
                old -= {file.name for file in files if file.round_number > read_to}
                files = [file for file in files if file.round_number <= read_to]
            excess = sum(file.nbytes for file in files if file.name not in old) - max_bytes
            last = 0  # a round goes whole: several tasks may have written for it
            for file in files:
                if file.name in old:
                    continue
                if excess <= 0 and file.round_number != last:
                    break
                old.add(file.name)
                excess -= file.nbytes
                last = file.round_number
            if old:
                self._remove_old(kind, [file for file in files if file.name in old])
                removed[kind] = len(old)
        n_orphaned = self._remove_orphaned(now_us)
        if n_orphaned:
            removed["left behind"] = n_orphaned
        forgotten, n_rounds = self._forget()
        if forgotten:
            self.catalog.forget_templates(forgotten.templates)
        since = self.rounds.first_to_keep(now_us - self.retention.results_us, sys.maxsize)
        until_us = self.rounds.now_of(since - 1)  # of the newest round that is too old
        n_messages = self.alerts.forget(since, self.retention.message_count)
        self.removals.add(Removal("messages", n_messages, until_us))
        if until_us is not None:
            self.alerts.silences.forget(until_us)
        counts = {"versions": forgotten.n_versions, "rounds": n_rounds, "messages": n_messages}
        return removed | {kind: n for kind, n in counts.items() if n}

    def _remove_old(self, kind: str, files: Sequence[ListedFile]) -> None:
        """Unlist and remove files past retention, and note what was in them."""
        removal = Removal(
            KIND_WORDS[kind], until_us=self.rounds.now_of(max(file.round_number for file in files))
        )
        for file in files:
            removal.of.update(self._contents(kind, file))
        removal.n = removal.of.total()
        names, totals = [file.name for file in files], self.removals.with_(removal)
        self.rounds.files.unlist(names, {REMOVED: totals})
        self.removals.add(removal, totals)
        self._remove_files(names)

    def _contents(self, kind: str, file: ListedFile) -> Counter[int | str]:
        """How much of which query, or stream, is in a file; nothing if it is damaged."""
        try:
            buffer = self.store.read(StoredFile(file.name, file.nbytes, file.checksum))
        except StoreError:
            return Counter()
        found: Counter[int | str] = Counter()
        if kind == OUTBOX:
            for part in read_parts(buffer):
                ids, counts = np.unique(part.query_ids, return_counts=True)
                found.update(dict(zip(ids.tolist(), counts.tolist(), strict=True)))
        elif kind == DEAD_LETTERS:
            found.update(letter.stream for letter in read_dead_letters(buffer))
        else:
            for stream, rows in read_capture(buffer):
                found[stream] += rows.num_rows
        return found

    def removed(self) -> Iterator[tuple[Removal, list[tuple[str, int]]]]:
        """What to announce now of what retention removed, each with the queries or streams that had most of it, by name."""
        for removal in self.removals.due(self.retention_clock.now_us()):
            most = [
                (each if isinstance(each, str) else self.name_of(each) or f"q{each}", n)
                for each, n in removal.of.most_common(MOST_NAMED)
            ]
            yield removal, most

    def _remove_orphaned(self, now_us: int) -> int:
        """Remove what tasks that failed, or ran twice, have left: files no round lists that have been there for long."""
        listed = {file.name for file in self.rounds.files.all()}
        needed = listed | self.in_use | self._postponed | set(self._written)
        known = self._orphaned_files
        self._orphaned_files = {
            name: known.get(name, now_us) for name in self.store.names() if name not in needed
        }
        return self.store.remove(
            [name for name, since in self._orphaned_files.items() if now_us - since > ORPHAN_US]
        )

    def _forget(self) -> tuple[RemovedVersions, int]:
        """Forget versions and rounds past retention, some of them if there are many; returns what, and how many rounds."""
        now, keep = self.retention_clock.now_us(), self.retention
        version = self.versions.first_to_keep(now - keep.versions_us, keep.version_count)
        number = self.rounds.first_to_keep(now - keep.rounds_us, keep.round_count)
        results_from = self.rounds.oldest_version(OUTBOX, DEAD_LETTERS)
        until_us = self.rounds.now_of(number - 1)
        n_rounds = self.rounds.forget(number)
        forgotten = self.versions.forget(version, results_from=results_from)
        self.removals.add(Removal("rounds", n_rounds, until_us))
        self.removals.add(Removal("versions", forgotten.n_versions))
        return forgotten, n_rounds

    def file_counts(self) -> dict[str, tuple[int, int]]:
        """Files and bytes of each kind that the store has now."""
        return dict.fromkeys((OUTBOX, DEAD_LETTERS, CAPTURE), (0, 0)) | self.rounds.files.counts()

    def pin(self) -> None:
        """From now on files that are listed stay, also if they are unlisted, until `unpin`. With the engine's lock held."""
        self._n_pins += 1

    def unpin(self) -> None:
        """Let go of them; those unlisted meanwhile are removed. With the engine's lock held."""
        self._n_pins -= 1
        if not self._n_pins:
            postponed, self._postponed = self._postponed, set()
            self.store.remove(postponed)

    def _remove_files(self, names: Iterable[str]) -> None:
        """Remove files that were just unlisted."""
        if self._n_pins:
            self._postponed |= set(names)
        else:
            self.store.remove(names)

    # ----------------------------------------------------------------------------------------- reading back

    def results(self, *, after_round: int = 0) -> Iterator[tuple[int, StoredPart]]:
        """Kept results of later rounds, oldest first; without those of damaged files, see `damaged`."""
        for file in self.rounds.files.all(OUTBOX):
            if file.round_number > after_round:
                for part in self.parts(file):
                    yield file.round_number, part

    def newest(self, kind: str, max_bytes: int) -> list[ListedFile]:
        """The newest files of a kind that fit, oldest first."""
        newest_files: list[ListedFile] = []
        for file in reversed(self.rounds.files.all(kind)):
            max_bytes -= file.nbytes
            if max_bytes < 0:
                break
            newest_files.append(file)
        return newest_files[::-1]

    def parts(self, file: ListedFile) -> list[StoredPart]:
        buffer = self._read(file)
        return [] if buffer is None else list(read_parts(buffer, file.first_arrival, file.first_row))

    def new_parts(self, file: ListedFile) -> list[StoredPart]:
        """The parts of a file a task wrote just now: mapped, and read when they are first used."""
        stored = StoredFile(file.name, file.nbytes, file.checksum)
        buffer = self.store.read(stored, is_new=True)
        return list(read_parts(buffer, file.first_arrival, file.first_row))

    def dead_letters(self, file: ListedFile) -> list[DeadLetter]:
        """Those of a file; tasks leave it to the reader to say which round they were in."""
        buffer = self._read(file)
        if buffer is None:
            return []
        letters = read_dead_letters(buffer)
        if not file.first_arrival:
            return letters
        return [
            dataclasses.replace(
                letter,
                round_number=file.round_number,
                query=None if letter.query_id is None else self.name_of(letter.query_id),
                arrival=None if letter.arrival is None else letter.arrival + file.first_arrival,
            )
            for letter in letters
        ]

    def name_of(self, query_id: int) -> str | None:
        """The name a query has or had."""
        past = self.database.queries.past(query_id)
        return None if past is None else past[0] or f"q{query_id}"

    def numbered_rows(self, file: ListedFile) -> list[NumberedRows] | None:
        """The rows of a capture with their arrival numbers; None if the file is damaged."""
        buffer = self._read(file)
        return None if buffer is None else list(read_numbered_capture(buffer))

    def find_damaged(self) -> dict[str, str]:
        """Read every listed file; returns those that are damaged or gone, and why."""
        self.damaged.clear()  # what was found before may have been restored since
        for file in self.rounds.files.all():
            self._read(file)
        return dict(self.damaged)

    def forget_damaged(self) -> list[str]:
        """Unlist damaged files, so that they are no longer asked for; returns their names."""
        names = sorted(self.damaged)
        self.rounds.files.unlist(names)
        self._remove_files(names)
        self.damaged.clear()
        return names

    def _read(self, file: ListedFile) -> pa.Buffer | None:
        """The bytes of a listed file, or None if they are not what was written: one bad file does not stop the others."""
        try:
            return self.store.read(StoredFile(file.name, file.nbytes, file.checksum))
        except StoreError as error:
            self.damaged[file.name] = str(error)
            return None

    def _put(
        self, kind: str, round_number: int, write: Callable[..., None], *, suffix: str = "arrow"
    ) -> ListedFile:
        stored = self.store.put(kind, write, suffix=suffix)
        self._written.append(stored.name)
        return ListedFile(stored.name, kind, round_number, stored.nbytes, stored.checksum)
