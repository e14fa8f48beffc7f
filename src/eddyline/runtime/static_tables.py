"""Static tables at work: where each is, which version of it the engine holds, and the rounds that bring it up to date.

A static table is a keyed stream whose declaration says where its rows are: the property `static`, the option `path`, and the
format as its source. So a home that is opened again finds it. Data in hand is known to this process alone.

A load is one round: rows of keys that are gone delete, rows that are new or differ are put in. The version is the position of the
stream and is committed with the round: no version is loaded twice, whatever ends the process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from eddyline.engine import Outcome, RoundEngine
from eddyline.errors import EddylineError, PropertyError, SchemaError, StreamChangedError
from eddyline.events import TableFailed, TableLoaded
from eddyline.model import Stream
from eddyline.sources import IngestedRows, StaticTable, StaticTableChange, TableRows, table_of
from eddyline.stream_properties import is_static

LOOK_EVERY_US = 1_000_000
SOURCE = "table"  # what a position of a stream that was loaded says it was read from

Commit = Callable[[dict[str, IngestedRows], dict[str, Any]], Outcome]


class StaticTables:
    """Loads the static tables of one engine whenever their versions change."""

    def __init__(self, rounds: RoundEngine) -> None:
        self._rounds = rounds
        self._in_hand: dict[str, StaticTable] = {}  # by name in lower case
        self._opened: dict[str, tuple[Stream, StaticTable]] = {}  # by the same: those that lie somewhere
        self._loaded: dict[str, str] = {}  # by the same: the version, of an engine in memory
        self._wrong: dict[
            str, tuple[str, str]
        ] = {}  # a version that was refused, and the last message about it
        self._looked_us: int | None = None

    def begin(self, table: StaticTable, rows: TableRows, stream: Stream) -> None:
        """Load a table that has just been declared, as this stream."""
        name = stream.name.lower()
        self._in_hand.pop(name, None)
        if not stream.options:
            self._in_hand[name] = table
        self._bring(table, rows, self._run_round)

    def reload(self, name: str | None = None, commit: Commit | None = None) -> list[str]:
        """Load those whose version is not the one that was loaded last; gives their names. `commit` runs the round.

        Raises SourceError if one cannot be read, SchemaError if what is there is wrong. The rows from before then stay.
        """
        return [stream.name for stream in self._streams(name) if self._load(stream, commit)]

    def look(self, commit: Commit | None = None) -> bool:
        """The same at most once a second, whether any was loaded; what cannot be loaded is announced once and tried again."""
        streams = self._streams(None)
        if not streams:
            return False
        now = self._rounds.now_us()
        if self._looked_us is not None and 0 <= now - self._looked_us < LOOK_EVERY_US:
            return False
        self._looked_us = now
        n_loaded = 0
        for stream in streams:
            try:
                n_loaded += self._load(stream, commit, is_patient=True)
            except EddylineError as error:
                self.tell(stream.name, error)
        return n_loaded > 0

    def is_loaded(self, name: str) -> bool:
        """Whether any version of it ever was."""
        return self._version(name.lower()) is not None

    def tell(self, name: str, error: EddylineError) -> None:
        """Announce that a table could not be loaded, unless that is the last message about it."""
        message = error.problem + (f": {error.detail}" if error.detail else "")
        version, last_message = self._wrong.get(name.lower(), ("", ""))
        if last_message != message:
            self._wrong[name.lower()] = version, message
            self._rounds.tell(TableFailed(self._rounds.last_round, name, message))

    # ----------------------------------------------------------------------------------------- inside

    def _streams(self, name: str | None) -> list[Stream]:
        """Those that are declared now, or the one of a name."""
        with self._rounds.lock:
            self._rounds.check_open()
            catalog = self._rounds.catalog
            if name is None:
                return [stream for stream in catalog.streams() if is_static(stream)]
            stream = catalog.stream(name)
            if not is_static(stream):
                raise PropertyError(
                    f"stream {stream.name} is no static table", hint="Declare it with engine.table()."
                )
            return [stream]

    def _table(self, stream: Stream) -> StaticTable | None:
        """Where the rows are; None if they were in the hands of an earlier process."""
        name = stream.name.lower()
        if not stream.options:
            return self._in_hand.get(name)
        known = self._opened.get(name)
        if known is None or known[0] is not stream:
            known = self._opened[name] = stream, table_of(stream, self._rounds.time_zone)[1]
        return known[1]

    def _load(self, stream: Stream, commit: Commit | None, *, is_patient: bool = False) -> bool:
        """Load a table if its version is another now. With `is_patient` one that was refused is not read again."""
        name, table = stream.name.lower(), self._table(stream)
        if table is None or (is_patient and self._rounds.turns.is_held_up(self._rounds.group_of([name]))):
            return False
        version = table.version()
        if version == self._version(name) or (is_patient and self._wrong.get(name, ("",))[0] == version):
            return False
        try:
            rows = table.load()
        except SchemaError as error:
            self._wrong[name] = version, self._wrong.get(name, ("", ""))[1]
            if is_patient:
                self.tell(stream.name, error)
                return False
            raise
        return self._bring(table, rows, commit or self._run_round)

    def _bring(self, table: StaticTable, rows: TableRows, commit: Commit) -> bool:
        """The round that turns what is held into this version; False if it is held already."""
        rounds, name = self._rounds, table.name.lower()
        loaded = rounds.turns.run([name], lambda: self._commit_change(table, rows, commit))
        if loaded is None:
            return False
        outcome, change = loaded
        n_deleted = int(change.is_delete.sum())
        rounds.tell(
            TableLoaded(
                outcome.round.number,
                table.name,
                rows.rows.num_rows,
                len(change.is_delete) - n_deleted,
                n_deleted,
            )
        )
        return True

    def _commit_change(
        self, table: StaticTable, rows: TableRows, commit: Commit
    ) -> tuple[Outcome, StaticTableChange] | None:
        """The round, in its turn, and what it changed; None if the table has this version."""
        rounds, name = self._rounds, table.name.lower()
        with rounds.round_lock:
            while True:
                if self._version(name) == rows.version:
                    return None
                with rounds.lock:
                    stream = rounds.catalog.stream(name)
                change = table.change(rounds.table_rows(name), _in_schema(rows.rows, stream.schema))
                changed_rows = IngestedRows(change.rows, is_delete=change.is_delete)
                try:
                    outcome = commit({name: changed_rows}, {name: {"source": SOURCE, "at": rows.version}})
                except StreamChangedError:
                    continue
                break
            self._loaded[name] = rows.version
            self._wrong.pop(name, None)
            return outcome, change

    def _version(self, name: str) -> str | None:
        """The version that was loaded last; None: none was since the stream is declared."""
        rounds = self._rounds
        with rounds.lock:
            if rounds.durable is None:
                return self._loaded.get(name) if name in rounds.progress else None
            stored: Any = rounds.durable.rounds.position(name)
        return None if stored is None or stored["source"] != SOURCE else str(stored["at"])

    def _run_round(self, inputs: dict[str, IngestedRows], positions: dict[str, Any]) -> Outcome:
        return self._rounds.run_round(inputs, positions=positions)


def _in_schema(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The rows with the columns of the stream in its order; NULL in those the data does not have."""
    names = set(rows.schema.names)
    columns = [rows.column(f.name) if f.name in names else pa.nulls(rows.num_rows, f.type) for f in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
