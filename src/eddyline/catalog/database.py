"""The catalog on disk: one SQLite file, every change one transaction and one version.

Rows are never changed but to say until which version they held, so every earlier version can be read back until it is forgotten
(`versions.py`). Each group of tables has a class of its own, which is an attribute here: `versions`, `streams`, `shapes` and
`queries`. Rounds, alerts and tokens are in the same file, and have theirs in `rounds.py`, `alerts.py` and `access.py`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eddyline.catalog import checksums
from eddyline.catalog.connection import cannot_open, cannot_write, connect
from eddyline.catalog.migrations import catalog_problems, migrate, refuse_newer
from eddyline.catalog.stored_queries import StoredQueries
from eddyline.catalog.stored_shapes import StoredShapes
from eddyline.catalog.stored_streams import StoredStreams
from eddyline.catalog.stored_versions import StoredVersions
from eddyline.errors import EddylineError, HomeError


class Database:
    """The file: its connection, transactions and settings, and the tables of the catalog."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.epoch: int | None = None  # of the process that may write, once it is known
        self._connection = connect(path)
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
        self.versions = StoredVersions(self._connection)
        self.streams = StoredStreams(self._connection)
        self.shapes = StoredShapes(self._connection, self.versions)
        self.queries = StoredQueries(self._connection, self.shapes)

    def _refuse_damaged(self) -> None:
        """Look at the file before it is read, and before anything is written to it."""
        found = list(self.problems())
        if found:
            raise checksums.damage_error(self.path, "; ".join(found))

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
            raise cannot_open(self.path, error) from error

    @contextmanager
    def opening(self) -> Iterator[None]:
        """Around reading all of it: what cannot be understood, in a home of a format without checksums, is damaged."""
        try:
            with self.read():
                yield
        except EddylineError:
            raise
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise checksums.damage_error(
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
            self.shapes.note_commit()
        except BaseException as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            self.shapes.rolled_back()
            if isinstance(error, sqlite3.Error):
                raise cannot_write(self.path, error) from error
            raise

    # ----------------------------------------------------------------------------------------- settings

    def setting(self, name: str) -> str | None:
        row = self._connection.execute("SELECT value FROM settings WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def set(self, name: str, value: str) -> None:
        self._connection.execute("INSERT OR REPLACE INTO settings (name, value) VALUES (?, ?)", (name, value))

    def number(self, name: str, default: int = 0) -> int:
        value = self.setting(name)
        return default if value is None else int(value)

    @property
    def connection(self) -> sqlite3.Connection:
        """For the other files of this room."""
        return self._connection
