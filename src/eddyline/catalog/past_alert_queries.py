"""Alert queries that are no longer registered: what they were, when they ended and why. Their open alerts resolve with it."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from eddyline.catalog import codec
from eddyline.catalog.database import Database
from eddyline.model import Properties, Shape, is_alert


class PastQuery(NamedTuple):
    """What a query was in some generation."""

    name: str
    properties: Properties
    shape: Shape


class PastAlertQueries:
    """Earlier generations of queries, as the rows that ended tell of them."""

    def __init__(self, database: Database) -> None:
        self._shapes = database.shapes
        self._connection = database.connection

    def find(self, query_id: int, generation: int) -> PastQuery | None:
        """What a query was in a generation, if the home still knows."""
        row = self._connection.execute(
            "SELECT name, properties, shape FROM queries WHERE query_id = ? AND generation = ?"
            " ORDER BY version_from DESC LIMIT 1",
            (query_id, generation),
        ).fetchone()
        if row is not None:
            name, properties, shape = row
            return PastQuery(
                name or f"q{query_id}", codec.properties_from(properties), self._shapes.get(shape)
            )
        row = self._connection.execute(
            "SELECT first_id, names, properties, shape FROM templates"
            " WHERE first_id <= ?1 AND first_id + n > ?1 ORDER BY first_id DESC LIMIT 1",
            (query_id,),
        ).fetchone()
        if row is None or generation != 1:
            return None
        first_id, names, properties, shape = row
        name = f"q{query_id}" if names is None else codec.columns_from(names)[0][query_id - first_id].as_py()
        return PastQuery(name, codec.properties_from(properties), self._shapes.get(shape))

    def end_of(self, query_id: int, generation: int) -> tuple[int, str]:
        """The version with which a former generation of a query ended, and why; (0, dropped) if not known."""
        rows = self._connection.execute(
            "SELECT generation, state, version_from, version_to FROM queries WHERE query_id = ? ORDER BY version_from",
            (query_id,),
        ).fetchall()
        last = 0
        for found, state, version_from, version_to in rows:
            if found == generation and state != "running":
                return int(version_from), str(state)
            if found > generation:
                return int(version_from), "replaced"
            last = int(version_to or 0)
        if not rows:
            row = self._connection.execute(
                "SELECT version FROM ended_members WHERE query_id = ?", (query_id,)
            ).fetchone()
            last = 0 if row is None else int(row[0])
        return last, "dropped"

    def ended_since(self, version: int, alert_sinks: Collection[str]) -> list[int]:
        """Alert queries that ended, or were another one, in a later version; members of templates are not among them."""
        rows = self._connection.execute(
            "SELECT query_id, properties FROM queries WHERE version_to > ?", (version,)
        )
        return [
            int(query_id)
            for query_id, stated in rows
            if stated and is_alert(codec.properties_from(stated), alert_sinks)
        ]
