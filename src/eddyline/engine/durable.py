"""A home kept while rounds run: what is written at each step, and what is found again after a crash.

    OPEN      take the lock; epoch += 1, committed; clear files that no round lists; forget versions and rounds past retention
    CAPTURE   the rows as they were pushed, one new file
    WORK      results, dead letters and what joins keep, new files
    COMMIT    one transaction lists the files and lets positions and watermarks advance: the only commit point
    ABORT     the files of a round that could not commit are removed
    GC        files past retention are unlisted, then removed; versions and rounds past retention are forgotten

What has not committed has not happened: its files are not listed, and the next OPEN clears what a crash left of them. A listed
file that turns out to be damaged is set aside and told; the others are read.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.batch import PartMatches, TupleBatch
from eddyline.catalog import Catalog
from eddyline.catalog.alerts import AlertLog
from eddyline.catalog.database import Database
from eddyline.catalog.rounds import CommittedRound, ListedFile, ReadInput, RoundLog
from eddyline.catalog.versions import Forgotten, VersionLog
from eddyline.errors import EddylineError, HomeError, PropertyError, StoreError
from eddyline.model import DeadLetter, Round, StreamProgress
from eddyline.storage.home import Home
from eddyline.storage.outbox import (
    NumberedRows,
    StoredPart,
    read_capture,
    read_dead_letters,
    read_numbered_capture,
    read_parts,
    stored_part,
    write_capture,
    write_dead_letters,
    write_parts,
)
from eddyline.storage.store import Store, StoredFile
from eddyline.storage.stored_tables import TableBlock, read_table, write_table
from eddyline.storage.stored_windows import WindowBlock, read_windows, write_windows

CAPTURE, OUTBOX, DEAD, WINDOW, TABLE = "capture", "outbox", "dead", "window", "table"
_DAY_US = 86_400_000_000
GC_EVERY = 64  # rounds
LEFT_S = 24 * 3600  # after which a file no round lists belongs to no round that still runs


@dataclass(frozen=True, slots=True)
class Retention:
    """How long and how much is kept in the home; of age and size, the narrower limit counts.

    The size of versions and of rounds is their number. Whatever else rooms come to store, statistics first, gets an age and a
    size here as well.
    """

    results_us: int = 7 * _DAY_US
    result_bytes: int = 4 << 30
    dead_letters_us: int = 7 * _DAY_US
    dead_letter_bytes: int = 256 << 20
    captures_us: int = 1 * _DAY_US
    capture_bytes: int = 1 << 30
    versions_us: int = 30 * _DAY_US  # since another took its place
    version_count: int = 10_000  # beside the one that stands now
    rounds_us: int = 30 * _DAY_US  # a round of which a file is kept is kept too
    round_count: int = 1_000_000
    message_count: int = 1_000_000  # of alerts; they go with results as to their age

    @classmethod
    def stored(cls, text: str | None) -> Retention:
        """What `as_text` gave; the usual limits if there was nothing."""
        known = {field.name for field in dataclasses.fields(cls)}
        values = {} if text is None else json.loads(text)
        return cls(**{name: value for name, value in values.items() if name in known})

    def as_text(self) -> str:
        return json.dumps(dataclasses.asdict(self), sort_keys=True)

    def of(self, kind: str) -> tuple[int, int]:
        return {
            OUTBOX: (self.results_us, self.result_bytes),
            DEAD: (self.dead_letters_us, self.dead_letter_bytes),
            CAPTURE: (self.captures_us, self.capture_bytes),
        }[kind]


class Durable:
    """Everything an engine with a home writes and reads."""

    def __init__(
        self,
        folder: Path,
        *,
        time_zone: str | None,
        retention: Retention | None,
        clock: Callable[[], int],
        create: bool = True,
    ) -> None:
        """Without `retention`, what the home was told last holds: opening it to look at it must not make it forget."""
        self.home = Home(folder, create=create)
        self.damaged: dict[str, str] = {}  # listed files that could not be read back, and why
        self._written: list[str] = []  # files of the round that is running
        self._n_pins = 0  # who copies listed files just now
        self._postponed: set[str] = set()  # files unlisted meanwhile
        self._in_use: dict[
            str, tuple[set[str], set[str]]
        ] = {}  # files no round lists: the last but one, and the last
        self._clock = clock
        try:
            self.database = Database(self.home.catalog)
        except BaseException:
            self.home.release()
            raise
        try:
            with self.database.read():
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
        self.database.epoch = self.epoch
        self.rounds = RoundLog(self.database, self.epoch)
        self.versions = VersionLog(self.database)
        self.alerts = AlertLog(self.database)
        self.n_cleared = self.store.clear_unlisted({file.name for file in self.rounds.files()})
        with contextlib.suppress(EddylineError):  # a full disk, say: rounds that come try again
            while any(self._forget()):
                pass
        self.catalog = Catalog(self.database, self._clock)

    def _refuse_lost_catalog(self) -> None:
        """A new catalog beside an old store would clear it: everything there is unlisted."""
        n_files = sum(1 for _ in self.store.names())
        if n_files:
            raise HomeError(
                f"the catalog of the home {self.home.folder} is gone",
                detail=f"catalog.db is new and empty, but the store has {n_files} files of earlier rounds.",
                hint="Restore catalog.db from a backup. To start anew, take another folder, or remove this one's store.",
            )

    def now_us(self) -> int:
        return self._clock()

    def close(self) -> None:
        self.database.close()
        self.home.release()

    # ----------------------------------------------------------------------------------------- a round

    def capture(self, round_number: int, batches: Mapping[str, TupleBatch]) -> list[ListedFile]:
        """Step 2: the rows, so that they can be looked at, and proven, after a restart."""
        rows = [(name, batch.rows) for name, batch in batches.items() if len(batch)]
        arrivals = {name: batch.arrival for name, batch in batches.items()}
        if not rows:
            return []
        return [self._put(CAPTURE, round_number, lambda file: write_capture(file, rows, arrivals))]

    def write(
        self,
        round_: Round,
        parts: Iterable[PartMatches],
        letters: Sequence[DeadLetter],
        generations: Callable[[npt.NDArray[np.int32], int], npt.NDArray[np.int32]],
    ) -> tuple[list[ListedFile], list[StoredPart]]:
        """Step 3: results and dead letters; the results as they can be read back."""
        files: list[ListedFile] = []
        stored = [stored_part(part, lambda ids: generations(ids, round_.version)) for part in parts]
        if stored:
            files.append(self._put(OUTBOX, round_.number, lambda file: write_parts(file, stored)))
        return files + self.write_letters(round_, letters), stored

    def commit(
        self,
        done: CommittedRound,
        progress: Mapping[str, StreamProgress],
        files: Sequence[ListedFile],
        positions: Mapping[str, object],
        inputs: Sequence[ReadInput] = (),
        gone: Sequence[str] = (),
    ) -> None:
        """Step 4. Files that are gone from now on are unlisted with it, then removed."""
        self.rounds.commit(done, progress, files, positions, self._clock(), inputs, gone)
        self._written.clear()
        with contextlib.suppress(EddylineError):  # the round has happened; an opening clears what is left
            self._remove_files(gone)

    def write_letters(self, round_: Round, letters: Sequence[DeadLetter]) -> list[ListedFile]:
        """Dead letters of a round, if there are any."""
        if not letters:
            return []
        return [
            self._put(DEAD, round_.number, lambda file: write_dead_letters(file, letters), suffix="jsonl")
        ]

    def write_windows(self, round_number: int, blocks: Sequence[WindowBlock]) -> ListedFile:
        """Rows that joins keep."""
        return self._put(WINDOW, round_number, lambda file: write_windows(file, blocks))

    def window_files(self) -> list[ListedFile]:
        """Files of rows that joins keep, in order."""
        return self.rounds.files(WINDOW)

    def windows(self, file: ListedFile) -> list[WindowBlock]:
        """The rows of such a file; none if it is damaged."""
        buffer = self._read(file)
        return [] if buffer is None else list(read_windows(buffer))

    def write_table(self, round_number: int, blocks: Sequence[TableBlock]) -> ListedFile:
        """Changes of a table."""
        return self._put(TABLE, round_number, lambda file: write_table(file, blocks))

    def table_files(self) -> list[ListedFile]:
        """Files of changes of tables, in order."""
        return self.rounds.files(TABLE)

    def table(self, file: ListedFile) -> list[TableBlock]:
        """The changes in such a file; none if it is damaged."""
        buffer = self._read(file)
        return [] if buffer is None else list(read_table(buffer))

    def keep(self, whose: str, names: Iterable[str]) -> None:
        """Files that no round lists and workers need now, such as those of a plan. Those before the last are removed."""
        older, last = self._in_use.get(whose, (set(), set()))
        now = set(names)
        if now != last:
            self.store.remove(older - last - now)
            self._in_use[whose] = last, now

    @property
    def in_use(self) -> set[str]:
        """Files that no round lists and somebody needs."""
        return set[str]().union(*(names for both in self._in_use.values() for names in both))

    def abort(self) -> None:
        """Remove what a failed round has written, unless it failed after it had committed."""
        written, self._written = self._written, []
        self.remove_unlisted(written)

    def remove_unlisted(self, names: Sequence[str]) -> None:
        """Remove files that no committed round lists."""
        if names:
            listed = {file.name for file in self.rounds.files()}
            self.store.remove(name for name in names if name not in listed)

    def collect_garbage(self, *, read_to: int | None = None) -> dict[str, int]:
        """Step 7: remove files past retention, forget versions and rounds; returns how many of each kind.

        Results of rounds after `read_to` have not moved alerts yet, and stay until they have.
        """
        removed: dict[str, int] = {}
        for kind in (OUTBOX, DEAD, CAPTURE):
            age_us, max_bytes = self.retention.of(kind)
            old = {file.name for file in self.rounds.listed_before(kind, self._clock() - age_us)}
            files = self.rounds.files(kind)
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
                self.rounds.unlist(old)
                self._remove_files(old)
                removed[kind] = len(old)
        n_left = self._remove_left()
        if n_left:
            removed["left behind"] = n_left
        forgotten, n_rounds = self._forget()
        if forgotten:
            self.catalog.forgot(forgotten.templates)
        since = self.rounds.first_to_keep(self._clock() - self.retention.results_us, sys.maxsize)
        n_messages = self.alerts.forget(since, self.retention.message_count)
        self.alerts.silences.forget(self._clock() - self.retention.results_us)
        counts = {"versions": forgotten.n_versions, "rounds": n_rounds, "messages": n_messages}
        return removed | {kind: n for kind, n in counts.items() if n}

    def _remove_left(self) -> int:
        """Remove what tasks that failed, or ran twice, have left: files no round lists that have been there for long."""
        listed = {file.name for file in self.rounds.files()}
        needed = listed | self.in_use | self._postponed | set(self._written)
        left = [name for name in self.store.names() if name not in needed]
        return self.store.remove(self.store.older_than(left, LEFT_S))

    def _forget(self) -> tuple[Forgotten, int]:
        """Forget versions and rounds past retention, some of them if there are many; returns what, and how many rounds."""
        now, keep = self._clock(), self.retention
        version = self.versions.first_to_keep(now - keep.versions_us, keep.version_count)
        number = self.rounds.first_to_keep(now - keep.rounds_us, keep.round_count)
        results_from = self.rounds.oldest_version(OUTBOX, DEAD)
        n_rounds = self.rounds.forget(number)
        return self.versions.forget(version, results_from=results_from), n_rounds

    def kept(self) -> dict[str, tuple[int, int]]:
        """Files and bytes of each kind that are kept now."""
        return dict.fromkeys((OUTBOX, DEAD, CAPTURE), (0, 0)) | self.rounds.kept_files()

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
        for file in self.rounds.files(OUTBOX):
            if file.round_number > after_round:
                for part in self.parts(file):
                    yield file.round_number, part

    def newest(self, kind: str, max_bytes: int) -> list[ListedFile]:
        """The newest files of a kind that fit, oldest first."""
        taken: list[ListedFile] = []
        for file in reversed(self.rounds.files(kind)):
            max_bytes -= file.nbytes
            if max_bytes < 0:
                break
            taken.append(file)
        return taken[::-1]

    def parts(self, file: ListedFile) -> list[StoredPart]:
        buffer = self._read(file)
        return [] if buffer is None else list(read_parts(buffer, file.first_arrival))

    def new_parts(self, file: ListedFile) -> list[StoredPart]:
        """The parts of a file a task wrote just now: mapped, and not read before somebody wants them."""
        stored = StoredFile(file.name, file.nbytes, file.checksum)
        return list(read_parts(self.store.read(stored, is_new=True), file.first_arrival))

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
        past = self.database.past_query(query_id)
        return None if past is None else past[0] or f"q{query_id}"

    def numbered_rows(self, file: ListedFile) -> list[NumberedRows] | None:
        """The rows of a capture with their arrival numbers; None if the file is damaged."""
        buffer = self._read(file)
        return None if buffer is None else list(read_numbered_capture(buffer))

    def rows(self, file: ListedFile) -> list[tuple[str, pa.RecordBatch]]:
        buffer = self._read(file)
        return [] if buffer is None else list(read_capture(buffer))

    def find_damaged(self) -> dict[str, str]:
        """Read every listed file; returns those that are damaged or gone, and why."""
        self.damaged.clear()  # what was found before may have been restored since
        for file in self.rounds.files():
            self._read(file)
        return dict(self.damaged)

    def forget_damaged(self) -> list[str]:
        """Unlist damaged files, so that they are no longer asked for; returns their names."""
        names = sorted(self.damaged)
        self.rounds.unlist(names)
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
