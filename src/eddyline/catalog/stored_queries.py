"""Queries and templates on disk, as they are and as they were.

Rows are never changed but to say until which version they held. Queries registered one by one are rows of `queries`; a template
with its table of constants is one row of `templates`, and its members get rows of their own only when something becomes of them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from eddyline.catalog import codec
from eddyline.catalog.stored_shapes import StoredShapes
from eddyline.model import Properties, QueryState, Shape


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
    ended_ids: list[int]


class StoredQueries:
    """The tables of queries and templates. Changes are made inside a transaction."""

    def __init__(self, connection: sqlite3.Connection, shapes: StoredShapes) -> None:
        self._connection = connection
        self._shapes = shapes

    def at(self, version: int) -> Iterator[StoredQuery]:
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
                shape = self._shapes.get(shape_id)
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

    def templates_at(self, version: int) -> Iterator[StoredTemplate]:
        """Templates registered up to a version, with the members that had ended by then, by first id."""
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
                self._shapes.get(shape_id),
                codec.properties_from(properties),
                None if names is None else codec.columns_from(names)[0].to_pylist(),
                [] if constants is None else codec.columns_from(constants),
                at_us,
                since,
                [query_id for (query_id,) in ended],
            )

    def add(self, query: StoredQuery) -> None:
        shape_id = self._shapes.id_of(query.shape)
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
                self._shapes.constants_text(shape_id, query.shape, query.constants),
                query.state.value,
                query.registered_us,
                query.version,
                query.why,
            ),
        )

    def end(self, query_id: int, version: int) -> None:
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
                self._shapes.id_of(template.shape),
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

    def last_id(self) -> int:
        """The highest id of the queries that are remembered; others above it may be forgotten."""
        one = self._connection.execute("SELECT coalesce(max(query_id), 0) FROM queries").fetchone()[0]
        many = self._connection.execute(
            "SELECT coalesce(max(first_id + n - 1), 0) FROM templates"
        ).fetchone()[0]
        return max(int(one), int(many))

    def past(self, query_id: int) -> tuple[str | None, Shape] | None:
        """Name and shape of a query as it was last registered, dropped or not."""
        row = self._connection.execute(
            "SELECT name, shape FROM queries WHERE query_id = ? ORDER BY version_from DESC LIMIT 1",
            (query_id,),
        ).fetchone()
        if row is not None:
            return row[0], self._shapes.get(row[1])
        row = self._connection.execute(
            "SELECT first_id, names, shape FROM templates WHERE ? BETWEEN first_id AND first_id + n - 1",
            (query_id,),
        ).fetchone()
        if row is None:
            return None
        first_id, names, shape_id = row
        name = None if names is None else codec.columns_from(names)[0][query_id - first_id].as_py()
        return name, self._shapes.get(shape_id)

    def past_owner(self, query_id: int) -> str | None:
        """The owner of a query, or the one it had last."""
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
        return [self._shapes.get(shape_id) for (shape_id,) in rows.fetchall()]
