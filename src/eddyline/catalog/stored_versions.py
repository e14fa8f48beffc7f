"""Versions on disk: when each was made, and what made it."""

from __future__ import annotations

import sqlite3


class StoredVersions:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def add(self, version: int, at_us: int, what: str, kept_us: int) -> None:
        """`kept_us` is when it was made, as retention counts time."""
        self._connection.execute(
            "INSERT INTO versions (version, at_us, what, kept_us) VALUES (?, ?, ?, ?)",
            (version, at_us, what, kept_us),
        )

    def last(self) -> int:
        """The number of the newest one; 0 if there is none yet."""
        return int(self._connection.execute("SELECT coalesce(max(version), 0) FROM versions").fetchone()[0])

    def recent(self, newest: int) -> list[tuple[int, int, str]]:
        """Number, time and words of the newest so many, newest first."""
        rows = self._connection.execute(
            "SELECT version, at_us, what FROM versions ORDER BY version DESC LIMIT ?", (newest,)
        )
        return [(int(v), int(at), str(what)) for v, at, what in rows]

    def find(self, version: int) -> tuple[int, str] | None:
        """When a version was made, and what made it; None if it is not kept."""
        row = self._connection.execute(
            "SELECT at_us, what FROM versions WHERE version = ?", (version,)
        ).fetchone()
        return None if row is None else (int(row[0]), str(row[1]))
