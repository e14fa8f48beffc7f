"""Streams on disk: each declaration with the versions in which it held."""

from __future__ import annotations

import sqlite3

from eddyline.catalog import codec
from eddyline.model import Stream


def lanes_of(stream: str) -> str:
    """The name under which `positions` has the partitions of a stream's source; no source has such a name."""
    return f"{stream} (event time)"


class StoredStreams:
    """The table of streams, and what other tables know under the name of one. Changes are made inside a transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def at(self, version: int) -> list[Stream]:
        """Streams as they were declared at a version, in the order of their declarations."""
        rows = self._connection.execute(
            "SELECT definition FROM streams WHERE version_from <= ? AND (version_to IS NULL OR version_to > ?) ORDER BY rowid",
            (version, version),
        )
        return [codec.stream_from(definition) for (definition,) in rows]

    def declared_in(self, name: str) -> int:
        """The version in which a stream was declared that has not been dropped since, however it was changed; above all versions
        if there is none."""
        versions = self._connection.execute(
            "SELECT version_from, version_to FROM streams WHERE name = ? ORDER BY version_from DESC",
            (name.lower(),),
        )
        found = None
        for version_from, version_to in versions:
            if version_to != found:
                break
            found = version_from
        return (1 << 62) if found is None else int(found)

    def store(self, stream: Stream, version: int) -> None:
        self._end(stream.name, version)
        self._connection.execute(
            "INSERT INTO streams (name, definition, version_from) VALUES (?, ?, ?)",
            (stream.name.lower(), codec.stream_to(stream), version),
        )

    def forget_times(self, name: str) -> None:
        """The stream says otherwise from now on when rows happened: what it said before is worth nothing."""
        self._connection.execute(
            "UPDATE progress SET max_time_us = NULL, watermark_us = NULL WHERE stream = ?", (name.lower(),)
        )
        self._connection.execute("DELETE FROM positions WHERE source = ?", (lanes_of(name.lower()),))

    def drop(self, name: str, version: int) -> None:
        """A stream declared again under the name starts anew, also with its source."""
        self._end(name, version)
        self._connection.execute("DELETE FROM progress WHERE stream = ?", (name.lower(),))
        names = (name.lower(), lanes_of(name.lower()))
        self._connection.execute("DELETE FROM positions WHERE source IN (?, ?)", names)

    def _end(self, name: str, version: int) -> None:
        self._connection.execute(
            "UPDATE streams SET version_to = ? WHERE name = ? AND version_to IS NULL", (version, name.lower())
        )
