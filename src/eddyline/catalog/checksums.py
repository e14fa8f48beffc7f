"""Rows of the catalog that carry a checksum, so that a damaged one is found and named before it is used.

SQLite finds pages whose structure is broken, not a digit that became another. So every table has a column with a checksum of
the others, which triggers write; the statements that change rows need not know. The text of the schema has one too.

At opening the pages, the schema and the rows are looked at: all of them but of LONG tables, which grow with rounds. Of these the
newest are, and the others when they are read (`checked`), or by `eddyline doctor`.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from eddyline.errors import HomeError

COLUMN = "row_sum"
LONG = frozenset({"rounds", "inputs", "messages", "audit", "acknowledgements"})
NEWEST = 20_000  # rows of a long table that are looked at when a home is opened; some 50 ms
SCHEMA = "schema checksum"  # a setting
_COUNTED = ("messages", "audit")  # their ids follow each other, and the newest is always kept
_SCHEMA_TEXT = "SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_master ORDER BY type, name"


def row_sum(*values: object) -> int:
    """The checksum of a row: of its values, each with its type."""
    if bytes in map(type, values):  # of which there may be millions
        values = tuple((len(v), zlib.crc32(v)) if isinstance(v, bytes) else v for v in values)
    return zlib.crc32(ascii(values).encode())


def register(connection: sqlite3.Connection) -> None:
    """Let a connection compute checksums: without it the triggers refuse every change."""
    connection.create_function(COLUMN, -1, row_sum, deterministic=True)


def _sum(columns: Sequence[str], of: str = "") -> str:
    """The checksum of columns, in SQL."""
    return f"{COLUMN}({', '.join(f'{of}{name}' for name in columns)})"


def damage_error(path: Path | str, what: str) -> HomeError:
    """The error for a catalog that is not what was written."""
    return HomeError(
        f"{path} is damaged",
        detail=f"{what[:1].upper()}{what[1:]}. Nothing was changed.",
        hint="Restore it from a backup with eddyline restore.",
    )


def checked_row(table: str, row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row of a table with all its columns, without its checksum. Raises HomeError if they do not agree."""
    if row_sum(*row[:-1]) != row[-1]:
        raise damage_error("catalog.db", f"a row of the table {table} is not what was written: {_shown(row)}")
    return row[:-1]


def _shown(row: tuple[Any, ...]) -> str:
    shown = ascii(row[0])
    return shown if len(shown) < 60 else f"{shown[:60]}…"


# --------------------------------------------------------------------------------------------- writing


def protect(connection: sqlite3.Connection) -> None:
    """Within the transaction of a migration: give every table its column and its triggers, and all rows their checksums."""
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    tables = _tables(connection)
    for table in tables:  # before there are triggers, which SQLite would all read again for each new column
        if COLUMN not in _columns(connection, table):
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {COLUMN} INTEGER")
    for table in tables:
        named = [name for name in _columns(connection, table) if name != COLUMN]
        connection.execute(f"UPDATE {table} SET {COLUMN} = {_sum(named)}")
        same = " AND ".join(f"{name} = NEW.{name}" for name in _key(connection, table))
        for event, on in (("INSERT", "added"), (f"UPDATE OF {', '.join(named)}", "changed")):
            connection.execute(
                f"CREATE TRIGGER {table}_{on} AFTER {event} ON {table} BEGIN"
                f" UPDATE {table} SET {COLUMN} = {_sum(named, 'NEW.')} WHERE {same}; END"
            )
    text = str(_schema_sum(connection))
    connection.execute("INSERT OR REPLACE INTO settings (name, value) VALUES (?, ?)", (SCHEMA, text))


def _tables(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
    )
    return [str(name) for (name,) in rows]


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})")]


def _key(connection: sqlite3.Connection, table: str) -> list[str]:
    """The columns by which a row is found at once: those of its key, or its rowid."""
    rows = connection.execute(f"PRAGMA table_info({table})").fetchall()
    return [str(row[1]) for row in rows if row[5]] or ["rowid"]


def _schema_sum(connection: sqlite3.Connection) -> int:
    return row_sum(*connection.execute(_SCHEMA_TEXT).fetchall())


# --------------------------------------------------------------------------------------------- looking


def problems(connection: sqlite3.Connection, *, all_rows: bool = False) -> Iterator[str]:
    """What is not as it was written, a table at a time; of long tables the newest rows, or all."""
    if str(_schema_sum(connection)) != _setting(connection, SCHEMA):
        yield "the schema is not what was written"
        return
    for table in _tables(connection):
        named = [name for name in _columns(connection, table) if name != COLUMN]
        key = _key(connection, table)
        newest_only = ""
        if table in LONG and not all_rows:
            newest_only = f" ORDER BY {', '.join(f'{name} DESC' for name in key)} LIMIT {NEWEST}"
        try:
            found = connection.execute(
                f"SELECT {', '.join(key)} FROM (SELECT {', '.join(dict.fromkeys([*key, *named]))}, {COLUMN}"
                f" FROM {table}{newest_only}) WHERE {COLUMN} IS NOT {_sum(named)} LIMIT 1"
            ).fetchone()
        except (sqlite3.Error, HomeError) as error:
            yield f"the table {table} cannot be read: {error.__cause__ or error}"
            continue
        if found is not None:
            yield f"a row of the table {table} is not what was written: {_shown(found)}"
    for table in _COUNTED:
        newest_id, last = connection.execute(
            f"SELECT (SELECT max(id) FROM {table}), (SELECT seq FROM sqlite_sequence WHERE name = '{table}')"
        ).fetchone()
        if newest_id is not None and newest_id != last:
            yield f"the last number of the table {table} is not what was written"


def _setting(connection: sqlite3.Connection, name: str) -> str | None:
    row = connection.execute("SELECT value FROM settings WHERE name = ?", (name,)).fetchone()
    return None if row is None else str(row[0])
