"""Queries as they were at an earlier version, also those replaced or dropped since."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from eddyline.catalog import codec
from eddyline.catalog.database import Database
from eddyline.catalog.stored_queries import StoredQuery
from eddyline.catalog.views import owners_and_names, relation_name
from eddyline.model import QueryState

_COLUMNS = "generation, name, text, shape, properties, constants, state, registered_us, version_from, why"


def query_at(database: Database, query_id: int, version: int) -> StoredQuery | None:
    """A query as it was registered at a version; None if it was not, or that is no longer known."""
    row = database.connection.execute(
        f"SELECT {_COLUMNS} FROM queries WHERE query_id = ?1 AND version_from <= ?2"
        " AND (version_to IS NULL OR version_to > ?2)",
        (query_id, version),
    ).fetchone()
    if row is None:
        return _member_at(database, query_id, version)
    generation, name, text, shape_id, stated, constants, state, at_us, since, why = row
    shape = database.shapes.get(shape_id)
    return StoredQuery(
        query_id,
        generation,
        name,
        text,
        shape,
        codec.properties_from(stated),
        codec.constants_reader(shape)(constants),
        QueryState(state),
        at_us,
        since,
        why,
    )


def view_at(
    database: Database, relation: str, version: int, likely_ids: Iterable[int] = ()
) -> StoredQuery | None:
    """The view that had the name of this relation at a version, as it was then; None if that is no longer known.

    `likely_ids` are looked at first: there is no index of names, so finding an id takes a pass over all queries.
    """
    for query_id in likely_ids:
        found = query_at(database, query_id, version)
        if found is not None and _is_view(found, relation):
            return found
    for _, name in owners_and_names(relation):
        for query_id in _ids_named(database, name, version):
            found = query_at(database, query_id, version)
            if found is not None and _is_view(found, relation):
                return found
    return None


def _is_view(query: StoredQuery, relation: str) -> bool:
    return query.name is not None and relation_name(query.name, query.properties.owner) == relation


def _ids_named(database: Database, name: str, version: int) -> Iterator[int]:
    """Queries of any owner that were registered under a name at a version, or may have been."""
    rows = database.connection.execute(
        "SELECT query_id FROM queries WHERE name = ?1 AND version_from <= ?2"
        " AND (version_to IS NULL OR version_to > ?2)",
        (name, version),
    ).fetchall()
    yield from (int(query_id) for (query_id,) in rows)
    templates = database.connection.execute(
        "SELECT first_id, names FROM templates WHERE names IS NOT NULL AND version_from <= ?", (version,)
    ).fetchall()
    for first_id, packed in templates:
        names = codec.columns_from(packed)[0].to_pylist()
        yield from (first_id + at for at, each in enumerate(names) if each == name)


def ids_changed_at(database: Database, version: int) -> tuple[set[int], set[int]]:
    """Queries that began at a version, and those that ended; one that changed did both. New templates are not among them."""

    def ids(text: str) -> set[int]:
        return {int(i) for (i,) in database.connection.execute(text, (version,))}

    ended = ids("SELECT query_id FROM queries WHERE version_to = ?")
    ended |= ids("SELECT query_id FROM ended_members WHERE version = ?")
    return ids("SELECT query_id FROM queries WHERE version_from = ?"), ended


def templates_added_at(database: Database, version: int) -> list[tuple[int, int]]:
    """The first number and the size of every template that was registered at a version."""
    found = database.connection.execute(
        "SELECT first_id, n FROM templates WHERE version_from = ? ORDER BY first_id", (version,)
    )
    return [(int(first), int(n)) for first, n in found]


def streams_changed_at(database: Database, version: int) -> dict[str, list[str]]:
    """Names of streams that were declared, declared anew with other columns, or dropped at a version."""

    def names(column: str) -> set[str]:
        found = database.connection.execute(f"SELECT name FROM streams WHERE {column} = ?", (version,))
        return {str(name) for (name,) in found}

    began, ended = names("version_from"), names("version_to")
    return {
        "added": sorted(began - ended),
        "changed": sorted(began & ended),
        "removed": sorted(ended - began),
    }


def _member_at(database: Database, query_id: int, version: int) -> StoredQuery | None:
    """A member of a template that has no row of its own at that version."""
    row = database.connection.execute(
        "SELECT first_id, text, shape, properties, names, constants, registered_us, version_from FROM templates"
        " WHERE ?1 BETWEEN first_id AND first_id + n - 1 AND version_from <= ?2"
        " AND NOT EXISTS (SELECT 1 FROM ended_members WHERE query_id = ?1 AND version <= ?2)",
        (query_id, version),
    ).fetchone()
    if row is None:
        return None
    first_id, text, shape_id, stated, names, constants, at_us, since = row
    at = query_id - first_id
    properties = codec.properties_from(stated)
    columns = [] if constants is None else codec.columns_from(constants)
    return StoredQuery(
        query_id,
        1,
        None if names is None else codec.columns_from(names)[0][at].as_py(),
        text,
        database.shapes.get(shape_id),
        properties,
        [column[at] for column in columns],
        QueryState.RUNNING if properties.is_enabled else QueryState.PAUSED,
        at_us,
        since,
    )
