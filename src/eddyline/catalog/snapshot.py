"""A copy of the catalog as it is at one moment, taken while rounds go on, and what such a copy says about itself.

The copy is taken over a connection of its own that holds a read transaction: it sees one state from beginning to end, and
writers do not wait for it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from eddyline.catalog import checksums
from eddyline.catalog.connection import BUSY_S
from eddyline.catalog.migrations import FORMAT, catalog_problems
from eddyline.errors import HomeError

PAGES_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """A file of the store that a catalog lists."""

    name: str
    nbytes: int
    checksum: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a catalog says: the format of its file, its last version and round, and the files it lists, oldest round first."""

    format: int
    version: int
    last_round: int
    n_rounds: int
    files: tuple[SnapshotFile, ...]

    @property
    def nbytes(self) -> int:
        """Of the files it lists."""
        return sum(file.nbytes for file in self.files)


def copy_catalog(catalog: Path, copy: Path, tell: Callable[[str, int, int], None]) -> Snapshot:
    """Copy a catalog that may be in use; `copy` is a new file. Raises HomeError if it cannot be read, or is damaged."""
    try:
        with closing(sqlite3.connect(catalog, timeout=BUSY_S, isolation_level=None)) as source:
            source.execute("PRAGMA query_only = ON")
            source.execute("BEGIN")  # the first read below fixes what it sees
            found = _facts(source)
            with closing(sqlite3.connect(copy, isolation_level=None)) as target:
                source.backup(
                    target,
                    pages=PAGES_AT_ONCE,
                    progress=lambda _, n_remaining, total: tell(
                        "copying the catalog", total - n_remaining, total
                    ),
                )
                target.execute("PRAGMA journal_mode = DELETE")  # one file, nothing beside it
            source.execute("ROLLBACK")
    except sqlite3.Error as error:
        raise _unreadable(catalog, error) from error
    return found


def verified_snapshot(catalog: Path) -> Snapshot:
    """What a copy says, after a check of the whole file. Raises HomeError if it is damaged or from a newer version."""
    try:
        with closing(sqlite3.connect(catalog, timeout=BUSY_S, isolation_level=None)) as connection:
            connection.execute("PRAGMA query_only = ON")
            checksums.register(connection)
            if problems := "; ".join(catalog_problems(connection, all_rows=True)):
                raise HomeError("the catalog is damaged", detail=problems, hint="Take an earlier backup.")
            found = _facts(connection)
    except sqlite3.Error as error:
        raise _unreadable(catalog, error) from error
    if found.format > FORMAT:
        raise HomeError(
            "the catalog was written by a newer version of eddyline",
            detail=f"It has format {found.format}, this version knows {FORMAT}.",
            hint="Use the version of eddyline that wrote it, or a later one.",
        )
    return found


def _facts(connection: sqlite3.Connection) -> Snapshot:
    (file_format,) = connection.execute("PRAGMA user_version").fetchone()
    (version,) = connection.execute("SELECT coalesce(max(version), 0) FROM versions").fetchone()
    last, n_rounds = connection.execute("SELECT coalesce(max(number), 0), count(*) FROM rounds").fetchone()
    rows = connection.execute("SELECT name, nbytes, checksum FROM files ORDER BY round, name")
    return Snapshot(
        int(file_format), int(version), int(last), int(n_rounds), tuple(SnapshotFile(*row) for row in rows)
    )


def _unreadable(catalog: Path, error: sqlite3.Error) -> HomeError:
    return HomeError(
        f"{catalog} cannot be copied, is damaged, or is not a catalog",
        detail=str(error),
        hint="Run eddyline doctor on the home.",
    )
