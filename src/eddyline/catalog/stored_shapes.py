"""Shapes on disk: each once, under a number that rows of queries and templates have."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence, Set
from typing import Any

from eddyline.catalog import codec
from eddyline.catalog.stored_versions import StoredVersions
from eddyline.model import Shape


class StoredShapes:
    """The table of shapes, with what was read of it, and the functions they call."""

    def __init__(self, connection: sqlite3.Connection, versions: StoredVersions) -> None:
        self._connection = connection
        self._versions = versions
        self._shapes: dict[int, Shape] = {}
        self._shape_ids: dict[int, tuple[int, Shape]] = {}  # by id() of a shape, which the entry keeps alive
        self._alike: dict[str, int] | None = None  # stored shapes by what they mean
        self._uncommitted_ids: list[int] = []  # shapes the transaction that is open brought
        self._writers: dict[int, Callable[[Sequence[Any]], str]] = {}  # by shape, for its queries' constants

    def get(self, shape_id: int) -> Shape:
        """A stored shape; the same object every time."""
        shape = self._shapes.get(shape_id)
        if shape is None:
            (body,) = self._connection.execute("SELECT body FROM shapes WHERE id = ?", (shape_id,)).fetchone()
            shape = self._shapes[shape_id] = codec.shape_from(body)
            self._shape_ids[id(shape)] = shape_id, shape
        return shape

    def id_of(self, shape: Shape) -> int:
        """The number of a shape, which is stored now if it was not; inside a transaction."""
        known = self._shape_ids.get(id(shape))
        if known is not None:
            return known[0]
        body = codec.shape_to(shape)
        added = self._connection.execute("INSERT OR IGNORE INTO shapes (body) VALUES (?)", (body,)).rowcount
        found = int(self._connection.execute("SELECT id FROM shapes WHERE body = ?", (body,)).fetchone()[0])
        self._shape_ids[id(shape)] = found, shape
        self._shapes.setdefault(found, shape)
        if added:
            self._uncommitted_ids.append(found)
            self._connection.executemany(
                "INSERT OR IGNORE INTO functions (name, function_version, version) VALUES (?, ?, ?)",
                [(name, version, self._versions.last() + 1) for name, version in shape.functions],
            )
            if self._alike is not None:
                self._alike.setdefault(codec.shape_meaning(shape), found)
        return found

    def find_alike(self, shape: Shape) -> Shape | None:
        """The stored shape that means the same, whatever text it was first met in, or None."""
        known = self._shape_ids.get(id(shape))
        if known is not None:
            return self._shapes[known[0]]
        if self._alike is None:
            self._alike = {}
            for (shape_id,) in self._connection.execute("SELECT id FROM shapes ORDER BY id").fetchall():
                self._alike.setdefault(codec.shape_meaning(self.get(shape_id)), shape_id)
        found = self._alike.get(codec.shape_meaning(shape))
        return None if found is None else self.get(found)

    def constants_text(self, shape_id: int, shape: Shape, constants: Sequence[Any]) -> str:
        """The constants of a query of the shape, as they are stored."""
        write = self._writers.get(shape_id)
        if write is None:
            write = self._writers[shape_id] = codec.constants_writer(shape)
        return write(constants)

    def functions(self) -> list[tuple[str, str, int]]:
        """Name and version of every user function a query was registered with, and the catalog version that brought it."""
        rows = self._connection.execute(
            "SELECT name, function_version, version FROM functions ORDER BY version, name"
        )
        return [(str(name), str(function_version), int(version)) for name, function_version, version in rows]

    def note_commit(self) -> None:
        """The transaction that was open has ended: what it brought is there for good."""
        self._uncommitted_ids.clear()

    def rolled_back(self) -> None:
        """The transaction that was open has failed: the shapes it brought are not in the file."""
        lost_ids = set(self._uncommitted_ids)
        self._uncommitted_ids.clear()
        self.forget(lost_ids)

    def forget(self, ids: Set[int]) -> None:
        """Shapes that are not in the file: one that is registered again gets another number."""
        if ids:
            if self._alike is not None:
                self._alike = {key: shape_id for key, shape_id in self._alike.items() if shape_id not in ids}
            self._shapes = {key: shape for key, shape in self._shapes.items() if key not in ids}
            self._shape_ids = {key: entry for key, entry in self._shape_ids.items() if entry[0] not in ids}
            self._writers = {key: write for key, write in self._writers.items() if key not in ids}
