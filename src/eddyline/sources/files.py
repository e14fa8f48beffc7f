"""A folder that new files come into, read in the order of their names.

The folder is looked at every `poll_s` seconds, and listed only if the system says that something was added or removed. Files are
read one after the other; small ones share a round, a large one is cut into many. Names that begin with a dot or an underscore are
left alone, so a writer can write under such a name and rename when done.

    a file that cannot be read   is tried again, then set aside: a dead letter names it, and reading goes on with the next
    one with other columns       see `schema_changes`
    a row that does not fit      is a dead letter
    a file that changes later    is announced and named by a dead letter; its rows are not read again
"""

from __future__ import annotations

import fnmatch
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from eddyline.errors import SchemaError
from eddyline.events import Event, FileChanged, FileSetAside
from eddyline.model import Stream
from eddyline.sources.file_references import HAS_CHANGED, name_of, pieces, state_of
from eddyline.sources.formats import FileFormat
from eddyline.sources.ingestion import IngestedRows, Misfit
from eddyline.sources.positions import (
    FilePlace,
    FileState,
    FolderPosition,
    SourceBatch,
    SourceError,
    SourceProgress,
)
from eddyline.sources.readers import FileReader, UnreadableFile, open_file
from eddyline.sources.references import PlannedInput, Reference
from eddyline.sources.schema_changes import SchemaChanged, together

TRIES = 3
LOOKED_AHEAD = 1_000  # files, to say about how much lies ready
SETTLED_NS = 2_000_000_000  # a folder changed within its clock's grain of the last look is looked at again

CANNOT_BE_READ = "FILE_CANNOT_BE_READ"
CHANGED = "FILE_CHANGED"
CAME_LATE = "FILE_CAME_LATE"


@dataclass(slots=True)
class _TakeProgress:
    """What a take has found so far."""

    parts: list[IngestedRows] = field(default_factory=list)
    misfits: list[Misfit] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    n_rows: int = 0
    nbytes: int = 0

    @property
    def is_empty(self) -> bool:
        return not (self.parts or self.misfits or self.events)


class FolderSource:
    """Rows of one stream from the files of one folder."""

    def __init__(
        self,
        folder: Path,
        file_format: FileFormat,
        stream: Stream,
        time_zone: str,
        *,
        position: FolderPosition | None = None,
        glob: str | None = None,
        poll_s: float = 1.0,
        retry_s: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder
        self._format = file_format
        self._stream = stream
        self._time_zone = time_zone
        self._glob = glob
        self._poll_s = poll_s
        self._retry_s = retry_s
        self._clock = clock
        self._position = position or FolderPosition()
        self._reader: FileReader | None = None
        self._pending_names: list[str] = []  # names to read, last first
        self._ahead: tuple[IngestedRows, FilePlace] | None = None  # read already, and the place behind it
        self._old: set[str] | None = None  # names below the floor that were there before
        self._unprintable: set[str] = set()
        self._listed_ns: int | None = None  # when the folder had last changed as it was listed
        self._next_look = 0.0
        self._n_tries = 0
        self._retry_at: float | None = None
        self._news = _TakeProgress()  # what was found while planning, until a round has reported it
        self._refusals: dict[str, int] = {}  # of files workers could not read
        self._aside: dict[str, str] = {}  # files to be set aside by the next round, and why
        self._growing_names: set[str] = set()  # files that changed under a worker's hands: read here

    # ----------------------------------------------------------------------------------------- as a source

    def take(self, max_rows: int, max_bytes: int) -> SourceBatch | None:
        if self._retry_at is not None and self._clock() < self._retry_at:
            return None
        found, self._news = self._news, _TakeProgress()
        try:
            while found.n_rows < max_rows and found.nbytes < max_bytes:
                if self._position.current is None and not self._begin_next(found):
                    break
                if not self._read_on(found, max_rows - found.n_rows, max_bytes - found.nbytes):
                    break
        except (SourceError, SchemaChanged):
            if found.is_empty:  # else what was read goes first; the folder is looked at again
                raise
        if found.is_empty:
            return None
        return SourceBatch(_joined_rows(self._stream, found), self._position.to_json(), found.events)

    def redeclare(self, stream: Stream) -> None:
        self._stream = stream
        self._close_reader()

    def wait_s(self) -> float:
        until = self._next_look if self._retry_at is None else self._retry_at
        return max(0.0, until - self._clock())

    def progress(self) -> SourceProgress:
        current, place = self._position.current, self._position.place
        if current is not None:
            words = f"{current.name}, row {place.n_rows:,}"
        else:
            read = max(self._position.done, default="") or self._position.floor
            words = f"up to {read}" if read else "nothing read yet"
        return SourceProgress(words, self.n_waiting, "files")

    @property
    def is_pending(self) -> bool:
        return self._position.current is not None or bool(self._pending_names)

    @property
    def is_finished(self) -> bool:
        return False

    @property
    def n_waiting(self) -> int:
        """Files known to be there and not finished."""
        return len(self._pending_names) + (self._position.current is not None)

    def close(self) -> None:
        self._close_reader()

    # ----------------------------------------------------------------------------------------- by reference

    def backlog_bytes(self) -> int:
        if self._retry_at is not None and self._clock() < self._retry_at:
            return 0
        self._look(self._news)
        current = self._position.current
        names = ([current.name] if current is not None else []) + self._pending_names[::-1][:LOOKED_AHEAD]
        states = (self._state(name) for name in names)
        return sum(state.nbytes for state in states if state is not None)

    def plan(self, max_rows: int, max_bytes: int) -> PlannedInput | None:
        if self._retry_at is not None and self._clock() < self._retry_at:
            return None
        self._look(self._news)
        position = FolderPosition.from_json(self._position.to_json())
        references: list[Reference] = []
        misfits, events, nbytes = list(self._news.misfits), list(self._news.events), 0
        vanished = [name for name in self._refusals if not position.is_done(name)]  # no longer listed
        names = sorted({*self._pending_names, *vanished})
        if position.current is not None:
            names = [position.current.name, *(name for name in names if name != position.current.name)]
        for name in names:
            state = self._state(name)
            if name in self._growing_names or nbytes >= max_bytes:
                break
            if name in self._aside or state is None:
                why = self._aside.get(name, "it was removed before it was read")
                aside = _TakeProgress()
                self._set_aside(aside, name, why, CANNOT_BE_READ)
                misfits += aside.misfits
                events += aside.events
                position.finish(state or FileState(name, 0, 0))
                continue
            place = FilePlace()
            if position.current is not None and position.current.name == name:
                if position.current != state:
                    break  # it is still being written: read here, where it can grow
                place = position.place
            try:
                for reference, behind in pieces(self._folder, self._format, state, place):
                    references.append(reference)
                    nbytes += reference.nbytes
                    if behind is None:
                        position.finish(state)
                    else:
                        position.current, position.place = state, behind
                    if nbytes >= max_bytes:
                        break
            except UnreadableFile as error:
                self._refuse(name, str(error))
                break
        if not references and not misfits:
            return None
        stored = position.to_json()
        return PlannedInput(tuple(references), lambda counts: stored, tuple(misfits), tuple(events))

    def move_to(self, position: Any) -> None:
        self._close_reader()
        self._n_tries, self._retry_at, self._news = 0, None, _TakeProgress()
        before, self._position = self._position, FolderPosition.from_json(position)
        if self._old is not None:
            known = [*before.done, *self._position.done, *self._pending_names]
            self._old.update(name for name in known if name <= self._position.floor)
        current = self._position.current
        is_current = set() if current is None else {current.name}
        self._pending_names = [
            name
            for name in self._pending_names
            if not self._position.is_done(name) and name not in is_current
        ]
        for name in [name for name in self._refusals if self._position.is_done(name)]:
            del self._refusals[name]
            self._aside.pop(name, None)

    def note_refusal(self, reference: Reference, why: str) -> None:
        name = name_of(reference)
        if why == HAS_CHANGED:
            self._growing_names.add(name)
        else:
            self._refuse(name, why)

    def _refuse(self, name: str, why: str) -> None:
        """A worker, or the look into a file before, could not read it: it is tried again some times, then set aside."""
        self._refusals[name] = self._refusals.get(name, 0) + 1
        if self._refusals[name] < TRIES:
            self._retry_at = self._clock() + self._retry_s
        else:
            why = why.replace(f"{self._folder}/", "")
            self._aside[name] = f"{why} (tried {TRIES} times)"
            self._retry_at = None

    # ----------------------------------------------------------------------------------------- the folder

    def _look(self, progress: _TakeProgress) -> None:
        """List the folder if it is time and something may have changed."""
        if self._clock() < self._next_look:
            return
        self._next_look = self._clock() + self._poll_s
        try:
            changed_ns = os.stat(self._folder).st_mtime_ns
            if self._listed_ns != changed_ns or time.time_ns() - changed_ns < SETTLED_NS:
                names = self._names()
                self._listed_ns = changed_ns
                self._sort(names, progress)
        except OSError as error:
            raise SourceError(
                f"the folder of stream {self._stream.name} cannot be read",
                detail=error.strerror,
                hint="It is tried again; make the folder, or mend its rights.",
            ) from None
        self._check_done(progress)

    def _names(self) -> list[str]:
        with os.scandir(self._folder) as entries:
            names = [entry.name for entry in entries if entry.name[0] not in "._" and entry.is_file()]
        if self._glob is None:
            names = [name for name in names if self._format.has_ending(name)]
        else:
            names = fnmatch.filter(names, self._glob)
        return sorted(names)

    def _sort(self, names: list[str], progress: _TakeProgress) -> None:
        """Which of the names are to be read, and which came too late for that."""
        position = self._position
        for name in {name for name in names if not name.isprintable()} - self._unprintable:
            self._unprintable.add(name)
            self._set_aside(progress, ascii(name), "such a name cannot be written down", CANNOT_BE_READ)
        names = [name for name in names if name not in self._unprintable]
        below = [name for name in names if name <= position.floor]
        if self._old is None:
            self._old = set(below)
        for name in below:
            if name not in self._old:
                self._old.add(name)
                why = f"it came after files up to {position.floor} were finished, and its name sorts before theirs"
                self._set_aside(progress, name, why, CAME_LATE)
        current = None if position.current is None else position.current.name
        self._pending_names = [
            name for name in reversed(names) if not position.is_done(name) and name != current
        ]

    def _check_done(self, progress: _TakeProgress) -> None:
        """Announce finished files that are not what they were."""
        for name, state in list(self._position.done.items()):
            now = self._state(name)
            if now is not None and now != state:
                self._position.done[name] = now
                how = "shrank" if now.nbytes < state.nbytes else "changed"
                message = f"file {name} {how} after it was read; its rows are not read again"
                progress.events.append(FileChanged(0, self._stream.name, name, message))
                progress.misfits.append(Misfit({"_file": name}, message, CHANGED))

    def _state(self, name: str) -> FileState | None:
        return state_of(self._folder / name)

    # ----------------------------------------------------------------------------------------- a file

    def _begin_next(self, progress: _TakeProgress) -> bool:
        """Make the next waiting file the current one; False if there is none."""
        if not self._pending_names:
            self._look(progress)
        while self._pending_names:
            name = self._pending_names.pop()
            state = self._state(name)
            if state is not None:
                self._position.current, self._position.place = state, FilePlace()
                return True
            self._set_aside(progress, name, "it was removed before it was read", CANNOT_BE_READ)
        return False

    def _read_on(self, progress: _TakeProgress, max_rows: int, max_bytes: int) -> bool:
        """Read from the current file; False if this take is to end here."""
        current = self._position.current
        assert current is not None
        try:
            if not self._is_still(current, progress):
                return True
            rows = self._next_rows(current, max_rows, max_bytes)
        except SchemaError as error:
            why = " ".join(part for part in (error.problem + ".", error.detail, error.hint) if part)
            self._end_current(progress, why)
            return True
        except UnreadableFile as error:
            return self._retry(progress, str(error))
        self._n_tries, self._retry_at = 0, None
        if rows is None:
            self._finish(current)
            return True
        assert self._reader is not None
        is_numbered = rows.arrival is not None and len(rows.arrival) > 0
        # rows that bring their own numbers make a round of their own; so do rows that lack other columns, with other queries
        if progress.parts and (
            is_numbered or rows.change.missing.keys() != progress.parts[-1].change.missing.keys()
        ):
            self._ahead = rows, self._reader.place
            return False
        progress.parts.append(rows)
        progress.n_rows += rows.rows.num_rows + len(rows.misfits)
        progress.nbytes += rows.rows.nbytes
        self._position.place = self._reader.place
        return not is_numbered

    def _next_rows(self, current: FileState, max_rows: int, max_bytes: int) -> IngestedRows | None:
        if self._ahead is not None:
            rows, self._ahead = self._ahead[0], None
            return rows
        if self._reader is None:
            path = self._folder / current.name
            self._reader = open_file(path, self._format, self._stream, self._time_zone, self._position.place)
        return self._reader.read(max_rows, max_bytes)

    def _is_still(self, current: FileState, progress: _TakeProgress) -> bool:
        """Whether the file is what it was when it was begun; a file of lines may have grown."""
        now = self._state(current.name)
        if now == current:
            return True
        if now is None:
            raise UnreadableFile("it is gone")
        self._position.current = now
        self._n_tries = 0
        if not self._position.place.n_rows:  # it is still being written; nothing was taken from it yet
            self._close_reader()
            return True
        grew = self._format.has_lines and now.nbytes >= current.nbytes
        message = f"file {current.name} {'grew' if grew else 'changed'} while it was read"
        progress.events.append(FileChanged(0, self._stream.name, current.name, message))
        if grew:
            self._close_reader()
        else:
            self._end_current(progress, message, CHANGED)
        return grew

    def _retry(self, progress: _TakeProgress, why: str) -> bool:
        """Wait and read on from the same place; after some tries the file is set aside."""
        self._close_reader()
        self._n_tries += 1
        if self._n_tries < TRIES:
            self._retry_at = self._clock() + self._retry_s
            return False
        why = why.replace(f"{self._folder}/", "")  # Arrow states the whole path, which may be a secret
        self._end_current(progress, f"{why} (tried {self._n_tries} times)")
        return True

    def _end_current(self, progress: _TakeProgress, why: str, error: str = CANNOT_BE_READ) -> None:
        current, n_rows = self._position.current, self._position.place.n_rows
        assert current is not None
        rest = f"the rest of it, after {n_rows} rows, is set aside: " if n_rows else ""
        self._set_aside(progress, current.name, rest + why, error)
        self._finish(self._state(current.name) or current)

    def _set_aside(self, progress: _TakeProgress, name: str, why: str, error: str) -> None:
        message = f"file {name}: {why}"
        progress.events.append(FileSetAside(0, self._stream.name, name, message))
        progress.misfits.append(Misfit({"_file": name}, message, error))

    def _finish(self, state: FileState) -> None:
        self._close_reader()
        self._n_tries, self._retry_at = 0, None
        sunk = self._position.finish(state)
        if self._old is not None:
            self._old.update(sunk)

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        self._ahead = None


def _joined_rows(stream: Stream, found: _TakeProgress) -> IngestedRows:
    parts = found.parts
    misfits = [misfit for part in parts for misfit in part.misfits] + found.misfits
    if len(parts) == 1:
        return replace(parts[0], misfits=misfits)
    batches = [part.rows for part in parts]
    rows = (
        pa.concat_batches(batches)
        if batches
        else pa.RecordBatch.from_arrays([pa.array([], f.type) for f in stream.schema], schema=stream.schema)
    )
    return IngestedRows(rows, None, misfits, together([part.change for part in parts]))
