"""Cursors: how far each reader of rounds has read. A reader is a sink, a tail, or a table of results."""

from __future__ import annotations

from eddyline.catalog.database import Database


class ReaderCursors:
    """The cursor of each reader, by its name: a round, and a place in it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection = database.connection

    def get(self, reader: str) -> tuple[int, int] | None:
        """Round and place up to which a reader has read; None if it never did."""
        row = self._connection.execute(
            "SELECT round, place FROM cursors WHERE reader = ?", (reader,)
        ).fetchone()
        return None if row is None else (int(row[0]), int(row[1]))

    def set(self, reader: str, round_number: int, place: int) -> None:
        with self._database.transaction():
            self._connection.execute(
                "INSERT OR REPLACE INTO cursors (reader, round, place) VALUES (?, ?, ?)",
                (reader, round_number, place),
            )

    def all(self) -> dict[str, tuple[int, int]]:
        rows = self._connection.execute("SELECT reader, round, place FROM cursors")
        return {reader: (int(number), int(place)) for reader, number, place in rows}
