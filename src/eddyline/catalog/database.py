"""The catalog on disk: one SQLite file, every change one transaction and one version.

Rows are never changed but to say until which version they held, so every earlier version can be read back until it is forgotten
(`versions.py`). Queries registered one by one are rows of `queries`; a template with its table of constants is one row of
`templates`, and its members get rows of their own only when something becomes of them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import pyarrow as pa

from eddyline.catalog import checksums, codec
from eddyline.catalog.migrations import catalog_problems, migrate, refuse_newer
from eddyline.errors import EddylineError, HomeError
from eddyline.model import Properties, QueryState, Shape, Stream

BUSY_S = 10.0
LONGEST_PATH = 490  # bytes; SQLite takes 512, with what it appends to the name


class StoredQuery(NamedTuple):  # a million of them are made when a home is opened
    """A row of `queries`."""

    id: int
    generation: int
    name: str | None
    text: str
    shape: Shape
    properties: Properties
    constants: Sequence[Any]
    state: QueryState
    registered_us: int
    version: int
    why: str = ""  # it is suspended


def lanes_of(stream: str) -> str:
    """The name under which `positions` has the partitions of a stream's source; no source has such a name."""
    return f"{stream} (event time)"


@dataclass(frozen=True, slots=True)
class StoredTemplate:
    """A row of `templates`: `ended` are members that have rows of their own, or none any more."""

    first_id: int
    n: int
    text: str
    shape: Shape
    properties: Properties
    names: list[str] | None
    columns: list[pa.Array]
    registered_us: int
    version: int
    ended: list[int]


_ERRORS = (sqlite3.Error, UnicodeDecodeError)  # the latter: of a text, or of what SQLite says of one


class _Cursor(sqlite3.Cursor):
    """One that says so if the file turns out to be damaged while it is read."""

    def execute(self, *arguments: Any) -> Self:
        try:
            return super().execute(*arguments)
        except _ERRORS as error:
            raise self._named(error) from error

    def fetchone(self) -> Any:
        try:
            return super().fetchone()
        except _ERRORS as error:
            raise self._named(error) from error

    def fetchall(self) -> list[Any]:
        try:
            return super().fetchall()
        except _ERRORS as error:
            raise self._named(error) from error

    def __next__(self) -> Any:
        try:
            return super().__next__()
        except _ERRORS as error:
            raise self._named(error) from error

    def _named(self, error: Exception) -> Exception:
        """A damaged file by name; any other error as it is."""
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        is_text = isinstance(error, UnicodeDecodeError) or "Could not decode" in str(error)
        if is_text or code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return _cannot_open(self.connection.path, error)  # type: ignore[attr-defined]
        return error


class _Connection(sqlite3.Connection):
    path: Path  # of the file

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        return self.cursor(_Cursor).execute(*arguments)


class Database:
    """The file. Only this class speaks SQLite; whoever wants another database writes another one of these."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.epoch: int | None = None  # of the process that may write, once it is known
        if len(str(path.resolve()).encode()) > LONGEST_PATH:
            raise HomeError(
                "the path of the home is too long",
                detail=f"SQLite opens files whose path has up to {LONGEST_PATH} bytes; {path} has more.",
                hint="Put the home nearer to the root.",
            )
        try:
            self._connection = sqlite3.connect(
                path, timeout=BUSY_S, isolation_level=None, check_same_thread=False, factory=_Connection
            )
        except sqlite3.Error as error:
            raise _cannot_open(path, error) from error
        self._connection.path = path
        try:
            with self.read():
                checksums.register(self._connection)
                refuse_newer(self._connection, path)  # before anything is written to it
                self._refuse_damaged()
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute("PRAGMA synchronous = FULL")
                migrate(self._connection, path)
        except BaseException:
            self._connection.close()
            raise
        self._shapes: dict[int, Shape] = {}
        self._shape_ids: dict[int, tuple[int, Shape]] = {}  # by id() of a shape, which the entry keeps alive
        self._alike: dict[str, int] | None = None  # stored shapes by what they mean
        self._uncommitted: list[int] = []  # shapes the transaction that is open brought
        self._writers: dict[int, Callable[[Sequence[Any]], str]] = {}  # by shape, for its queries' constants

    def _refuse_damaged(self) -> None:
        """Look at the file before anybody believes it, and before anything is written to it."""
        found = list(self.problems())
        if found:
            raise checksums.damaged(self.path, "; ".join(found))

    def problems(self, *, all_rows: bool = False) -> Iterator[str]:
        """What is not as it was written: pages, indexes, rows; of tables that grow with rounds the newest rows, or all."""
        return catalog_problems(self._connection, all_rows=all_rows)

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def read(self) -> Iterator[None]:
        """Around reading: a file that turns out to be damaged is said to be so."""
        try:
            yield
        except sqlite3.Error as error:
            raise _cannot_open(self.path, error) from error

    @contextmanager
    def opening(self) -> Iterator[None]:
        """Around reading all of it: what cannot be understood, in a home of a format without checksums, is damaged."""
        try:
            with self.read():
                yield
        except EddylineError:
            raise
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise checksums.damaged(
                self.path, f"what it says cannot be read: {type(error).__name__}: {error}"
            ) from error

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, on the disk when it ends. Refused once another process has opened the home."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            if self.epoch is not None and self.number("epoch") != self.epoch:
                raise HomeError(
                    "another process has opened this home",
                    detail="This process no longer holds it, so nothing was changed.",
                    hint="End one of the two processes.",
                )
            yield
            self._connection.execute("COMMIT")
            self._uncommitted.clear()
        except BaseException as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            self._forget_uncommitted()
            if isinstance(error, sqlite3.Error):
                raise _cannot_write(self.path, error) from error
            raise

    def _forget_uncommitted(self) -> None:
        gone = set(self._uncommitted)
        self._uncommitted.clear()
        self.unknow_shapes(gone)

    def unknow_shapes(self, gone: Set[int]) -> None:
        """Shapes that are not in the file: one that is registered again gets another number."""
        if gone:
            if self._alike is not None:
                self._alike = {key: shape_id for key, shape_id in self._alike.items() if shape_id not in gone}
            self._shapes = {key: shape for key, shape in self._shapes.items() if key not in gone}
            self._shape_ids = {key: entry for key, entry in self._shape_ids.items() if entry[0] not in gone}
            self._writers = {key: write for key, write in self._writers.items() if key not in gone}

    # ----------------------------------------------------------------------------------------- settings

    def setting(self, name: str) -> str | None:
        row = self._connection.execute("SELECT value FROM settings WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def set(self, name: str, value: str) -> None:
        self._connection.execute("INSERT OR REPLACE INTO settings (name, value) VALUES (?, ?)", (name, value))

    def number(self, name: str, default: int = 0) -> int:
        value = self.setting(name)
        return default if value is None else int(value)

    # ----------------------------------------------------------------------------------------- changes

    def add_version(self, version: int, at_us: int, what: str, kept_us: int) -> None:
        """`kept_us` is when it was made, as retention counts time."""
        self._connection.execute(
            "INSERT INTO versions (version, at_us, what, kept_us) VALUES (?, ?, ?, ?)",
            (version, at_us, what, kept_us),
        )

    def put_stream(self, stream: Stream, version: int) -> None:
        self.end_stream(stream.name, version)
        self._connection.execute(
            "INSERT INTO streams (name, definition, version_from) VALUES (?, ?, ?)",
            (stream.name.lower(), codec.stream_to(stream), version),
        )

    def end_stream(self, name: str, version: int) -> None:
        self._connection.execute(
            "UPDATE streams SET version_to = ? WHERE name = ? AND version_to IS NULL", (version, name.lower())
        )

    def forget_times(self, name: str) -> None:
        """The stream says otherwise from now on when rows happened: what it said before is worth nothing."""
        self._connection.execute(
            "UPDATE progress SET max_time_us = NULL, watermark_us = NULL WHERE stream = ?", (name.lower(),)
        )
        self._connection.execute("DELETE FROM positions WHERE source = ?", (lanes_of(name.lower()),))

    def drop_stream(self, name: str, version: int) -> None:
        """A stream declared again under the name starts anew, also with its source."""
        self.end_stream(name, version)
        self._connection.execute("DELETE FROM progress WHERE stream = ?", (name.lower(),))
        names = (name.lower(), lanes_of(name.lower()))
        self._connection.execute("DELETE FROM positions WHERE source IN (?, ?)", names)

    def add_query(self, query: StoredQuery) -> None:
        shape_id = self._shape_id(query.shape)
        write = self._writers.get(shape_id)
        if write is None:
            write = self._writers[shape_id] = codec.constants_writer(query.shape)
        self._connection.execute(
            "INSERT OR REPLACE INTO queries (query_id, generation, name, text, shape, properties, constants, state,"
            " registered_us, version_from, why) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                query.id,
                query.generation,
                query.name,
                query.text,
                shape_id,
                codec.properties_to(query.properties),
                write(query.constants),
                query.state.value,
                query.registered_us,
                query.version,
                query.why,
            ),
        )

    def end_query(self, query_id: int, version: int) -> None:
        """The row of a query holds until before `version`; one that never held goes."""
        self._connection.execute(
            "DELETE FROM queries WHERE query_id = ? AND version_from = ?", (query_id, version)
        )
        self._connection.execute(
            "UPDATE queries SET version_to = ? WHERE query_id = ? AND version_to IS NULL", (version, query_id)
        )

    def add_template(self, template: StoredTemplate) -> None:
        names = None if template.names is None else codec.columns_to([pa.array(template.names)], ["name"])
        slots = [f"s{slot.index}" for slot in template.shape.slots]
        constants = codec.columns_to(template.columns, slots) if slots else None
        self._connection.execute(
            "INSERT INTO templates (first_id, n, text, shape, properties, names, constants, registered_us, version_from)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                template.first_id,
                template.n,
                template.text,
                self._shape_id(template.shape),
                codec.properties_to(template.properties),
                names,
                constants,
                template.registered_us,
                template.version,
            ),
        )

    def end_members(self, query_ids: Sequence[int], version: int) -> None:
        """Members of templates that end, or go on with rows of their own."""
        self._connection.executemany(
            "INSERT OR IGNORE INTO ended_members (query_id, version) VALUES (?, ?)",
            [(i, version) for i in query_ids],
        )

    def functions(self) -> list[tuple[str, str, int]]:
        """Name and version of every user function a query was registered with, and the catalog version that brought it."""
        rows = self._connection.execute(
            "SELECT name, function_version, version FROM functions ORDER BY version, name"
        )
        return [(str(name), str(function_version), int(version)) for name, function_version, version in rows]

    def _shape_id(self, shape: Shape) -> int:
        known = self._shape_ids.get(id(shape))
        if known is not None:
            return known[0]
        body = codec.shape_to(shape)
        added = self._connection.execute("INSERT OR IGNORE INTO shapes (body) VALUES (?)", (body,)).rowcount
        found = int(self._connection.execute("SELECT id FROM shapes WHERE body = ?", (body,)).fetchone()[0])
        self._shape_ids[id(shape)] = found, shape
        self._shapes.setdefault(found, shape)
        if added:
            self._uncommitted.append(found)
            self._connection.executemany(
                "INSERT OR IGNORE INTO functions (name, function_version, version) VALUES (?, ?, ?)",
                [(name, version, self.version() + 1) for name, version in shape.functions],
            )
            if self._alike is not None:
                self._alike.setdefault(codec.shape_meaning(shape), found)
        return found

    # ----------------------------------------------------------------------------------------- reading back

    def version(self) -> int:
        return int(self._connection.execute("SELECT coalesce(max(version), 0) FROM versions").fetchone()[0])

    def versions(self, newest: int) -> list[tuple[int, int, str]]:
        rows = self._connection.execute(
            "SELECT version, at_us, what FROM versions ORDER BY version DESC LIMIT ?", (newest,)
        )
        return [(int(v), int(at), str(what)) for v, at, what in rows]

    def version_made(self, version: int) -> tuple[int, str] | None:
        """When a version was made, and what made it; None if it is not kept."""
        row = self._connection.execute(
            "SELECT at_us, what FROM versions WHERE version = ?", (version,)
        ).fetchone()
        return None if row is None else (int(row[0]), str(row[1]))

    def next_id(self) -> int:
        one = self._connection.execute("SELECT coalesce(max(query_id), 0) FROM queries").fetchone()[0]
        many = self._connection.execute(
            "SELECT coalesce(max(first_id + n - 1), 0) FROM templates"
        ).fetchone()[0]
        return max(int(one), int(many), self.number("last id")) + 1

    def streams(self, version: int) -> list[Stream]:
        rows = self._connection.execute(
            "SELECT definition FROM streams WHERE version_from <= ? AND (version_to IS NULL OR version_to > ?) ORDER BY rowid",
            (version, version),
        )
        return [codec.stream_from(definition) for (definition,) in rows]

    def queries(self, version: int) -> Iterator[StoredQuery]:
        """Queries with rows of their own, as they were at a version, by id."""
        rows = self._connection.execute(
            "SELECT query_id, generation, name, text, shape, properties, constants, state, registered_us,"
            " version_from, why FROM queries WHERE version_from <= ? AND (version_to IS NULL OR version_to > ?)"
            " ORDER BY query_id",
            (version, version),
        )
        states = {state.value: state for state in QueryState}
        plain = Properties()
        read: dict[int, tuple[Shape, Callable[[str], list[Any]]]] = {}
        for query_id, generation, name, text, shape_id, stated, constants, state, at_us, since, why in rows:
            if shape_id not in read:
                shape = self.shape(shape_id)
                read[shape_id] = shape, codec.constants_reader(shape)
            shape, values = read[shape_id]
            declared = codec.properties_from(stated) if stated else plain
            yield StoredQuery(
                query_id,
                generation,
                name,
                text,
                shape,
                declared,
                values(constants),
                states[state],
                at_us,
                since,
                why,
            )

    def templates(self, version: int) -> Iterator[StoredTemplate]:
        rows = self._connection.execute(
            "SELECT first_id, n, text, shape, properties, names, constants, registered_us, version_from FROM templates"
            " WHERE version_from <= ? ORDER BY first_id",
            (version,),
        )
        for first_id, n, text, shape_id, properties, names, constants, at_us, since in rows.fetchall():
            ended = self._connection.execute(
                "SELECT query_id FROM ended_members WHERE query_id BETWEEN ? AND ? AND version <= ?",
                (first_id, first_id + n - 1, version),
            )
            yield StoredTemplate(
                first_id,
                n,
                text,
                self.shape(shape_id),
                codec.properties_from(properties),
                None if names is None else codec.columns_from(names)[0].to_pylist(),
                [] if constants is None else codec.columns_from(constants),
                at_us,
                since,
                [query_id for (query_id,) in ended],
            )

    def known_shape(self, shape: Shape) -> Shape | None:
        """The stored shape that means the same, whatever text it was first met in, or None."""
        known = self._shape_ids.get(id(shape))
        if known is not None:
            return self._shapes[known[0]]
        if self._alike is None:
            self._alike = {}
            for (shape_id,) in self._connection.execute("SELECT id FROM shapes ORDER BY id").fetchall():
                self._alike.setdefault(codec.shape_meaning(self.shape(shape_id)), shape_id)
        found = self._alike.get(codec.shape_meaning(shape))
        return None if found is None else self.shape(found)

    def past_query(self, query_id: int) -> tuple[str | None, Shape] | None:
        """Name and shape of a query as it last stood, dropped or not."""
        row = self._connection.execute(
            "SELECT name, shape FROM queries WHERE query_id = ? ORDER BY version_from DESC LIMIT 1",
            (query_id,),
        ).fetchone()
        if row is not None:
            return row[0], self.shape(row[1])
        row = self._connection.execute(
            "SELECT first_id, names, shape FROM templates WHERE ? BETWEEN first_id AND first_id + n - 1",
            (query_id,),
        ).fetchone()
        if row is None:
            return None
        first_id, names, shape_id = row
        name = None if names is None else codec.columns_from(names)[0][query_id - first_id].as_py()
        return name, self.shape(shape_id)

    def past_owner(self, query_id: int) -> str | None:
        """Whose a query is, or was as it last stood."""
        row = self._connection.execute(
            "SELECT properties FROM queries WHERE query_id = ? ORDER BY version_from DESC LIMIT 1",
            (query_id,),
        ).fetchone()
        if row is None:
            row = self._connection.execute(
                "SELECT properties FROM templates WHERE ? BETWEEN first_id AND first_id + n - 1", (query_id,)
            ).fetchone()
        return None if row is None else codec.properties_from(row[0]).owner

    def past_names(self) -> dict[int, str]:
        """What every query that has or had a name is called, dropped or not, by id."""
        names: dict[int, str | None] = {}
        for first_id, packed in self._connection.execute(
            "SELECT first_id, names FROM templates WHERE names IS NOT NULL"
        ).fetchall():
            names.update(enumerate(codec.columns_from(packed)[0].to_pylist(), first_id))
        names.update(self._connection.execute("SELECT query_id, name FROM queries ORDER BY version_from"))
        return {query_id: name for query_id, name in names.items() if name is not None}

    def past_shapes(self, query_id: int) -> list[Shape]:
        """Every shape a query has or had."""
        rows = self._connection.execute(
            "SELECT shape FROM queries WHERE query_id = ?"
            " UNION SELECT shape FROM templates WHERE ? BETWEEN first_id AND first_id + n - 1",
            (query_id, query_id),
        )
        return [self.shape(shape_id) for (shape_id,) in rows.fetchall()]

    def shape(self, shape_id: int) -> Shape:
        """A stored shape; the same object every time."""
        shape = self._shapes.get(shape_id)
        if shape is None:
            (body,) = self._connection.execute("SELECT body FROM shapes WHERE id = ?", (shape_id,)).fetchone()
            shape = self._shapes[shape_id] = codec.shape_from(body)
            self._shape_ids[id(shape)] = shape_id, shape
        return shape

    @property
    def connection(self) -> sqlite3.Connection:
        """For the other files of this room."""
        return self._connection


_NO_RIGHT = "Give the user who runs the engine the right to write there."


def _cannot_open(path: Path, error: Exception) -> HomeError:
    text = str(error)
    if "readonly" in text or "unable to open" in text:
        return HomeError(f"cannot open {path} for writing", detail=text, hint=_NO_RIGHT)
    if "full" in text:
        return HomeError(f"cannot open {path}", detail=text, hint="Make room on the disk and open it again.")
    if "locked" in text:
        return HomeError(f"cannot open {path}", detail=text, hint="Close the other program that has it open.")
    return HomeError(f"{path} is damaged, or is not a catalog", detail=text, hint="Restore it from a backup.")


def _cannot_write(path: Path, error: sqlite3.Error) -> HomeError:
    text = str(error)
    if "readonly" in text or "unable to open" in text:
        hint = _NO_RIGHT
    elif "full" in text:
        hint = "Make room on the disk and do it again."
    elif "locked" in text:
        hint = "Close the other program that has it open, and do it again."
    else:
        hint = "If it happens again, close the engine and restore the file from a backup."
    return HomeError(f"cannot write to {path}", detail=f"{text}. Nothing was changed.", hint=hint)
