"""The rows that changes of queries write: one for each query registered on its own, from the version of the change on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eddyline.catalog.database import Database
from eddyline.catalog.queries import Registration
from eddyline.catalog.registered_queries import RegisteredQueries
from eddyline.catalog.stored_queries import StoredQuery
from eddyline.model import QueryState


class QueryRows:
    """Rows of queries on disk; nothing is written without a database."""

    def __init__(self, database: Database | None, queries: RegisteredQueries) -> None:
        self._database = database
        self._queries = queries

    def write(
        self,
        registration: Registration,
        constants: Sequence[Any],
        state: QueryState,
        generation: int,
        why: str = "",
    ) -> None:
        """Add a row for a query that is registered on its own from this version on."""
        if self._database is not None:
            name = None if registration.names is None else registration.name(registration.first_id)
            self._database.queries.add(
                StoredQuery(
                    registration.first_id,
                    generation,
                    name,
                    registration.text,
                    registration.shape,
                    registration.properties,
                    constants,
                    state,
                    registration.registered_us,
                    registration.version,
                    why,
                )
            )

    def rewrite(self, query_id: int, constants: Sequence[Any], version: int, now_us: int) -> None:
        """What became of a query is on the disk a row of its own, from this version on."""
        if self._database is not None:
            self.end(query_id, version)
            old, fate = self._queries.registration(query_id), self._queries.fates[query_id]
            name = None if old.names is None else old.name(query_id)
            new = Registration(query_id, 1, old.text, old.shape, old.properties, name, version, now_us)
            self.write(new, constants, fate.state, fate.generation, fate.why)

    def end(self, query_id: int, version: int) -> None:
        """What the disk says about a query ends with this version."""
        if self._database is not None:
            self._database.queries.end(query_id, version)
            if self._queries.template_of(query_id) is not None:
                self._database.queries.end_members([query_id], version)
