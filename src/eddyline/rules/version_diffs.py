"""What a version of the catalog changed, and what going back to one would change: rules by name, with their texts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from eddyline.catalog import (
    Catalog,
    Database,
    RestoreResult,
    StoredQuery,
    ids_changed_at,
    query_at,
    streams_changed_at,
    templates_added_at,
)
from eddyline.durations import duration_text
from eddyline.rules.plans import property_changes
from eddyline.sql import FIELDS

SHOWN = 50  # rules of each kind


def version_changes(database: Database, version: int) -> dict[str, Any]:
    """What a version added, changed and removed: counts of rules, and the first of each kind."""
    began, ended = ids_changed_at(database, version)
    added, changed, removed = began - ended, began & ended, ended - began
    templates = templates_added_at(database, version)
    counts = {
        "added": len(added) + sum(n for _, n in templates),
        "changed": len(changed),
        "removed": len(removed),
    }

    def described(ids: Iterable[int]) -> list[dict[str, Any]]:
        pairs = ((query_at(database, i, version - 1), query_at(database, i, version)) for i in ids)
        return [_change(before, after) for before, after in pairs if before is not None or after is not None]

    first = [first for first, _ in templates]
    tables = [entry | {"n_rules": n} for entry, (_, n) in zip(described(first), templates, strict=False)]
    return counts | {
        "streams": streams_changed_at(database, version),
        "changes": {
            "added": [*tables, *described(sorted(added)[:SHOWN])],
            "changed": described(sorted(changed)[:SHOWN]),
            "removed": described(sorted(removed)[:SHOWN]),
        },
    }


def rollback_changes(
    catalog: Catalog, database: Database, version: int, todo: RestoreResult
) -> dict[str, Any]:
    """What going back to a version takes; `todo` says which rules, by the numbers `restore` gives them without doing it."""

    def now(query_id: int) -> StoredQuery | None:
        return query_at(database, query_id, catalog.version)

    def then(query_id: int) -> StoredQuery | None:
        return query_at(database, query_id, version)

    pairs: dict[str, list[tuple[StoredQuery | None, StoredQuery | None]]] = {
        "added": [(None, then(i)) for i in todo.added_ids[:SHOWN]],
        "changed": [(now(i), then(i)) for i in todo.changed_ids[:SHOWN]],
        "removed": [(now(i), None) for i in todo.dropped_ids[:SHOWN]],
    }
    return {
        kind: [_change(before, after) for before, after in found if before is not None or after is not None]
        for kind, found in pairs.items()
    }


def _change(before: StoredQuery | None, after: StoredQuery | None) -> dict[str, Any]:
    known = after or before
    assert known is not None
    moved = {} if before is None or after is None else property_changes(before.properties, after.properties)
    return {
        "id": known.id,
        "name": known.name or f"q{known.id}",
        "owner": known.properties.owner,
        "before": None if before is None else before.text,
        "text": None if after is None else after.text,
        "params": {} if after is None else _parameters(after),
        "params_before": {} if before is None else _parameters(before),
        "state": None if after is None else after.state.value,
        "state_before": None if before is None else before.state.value,
        "properties": {word: [_word(word, value) for value in pair] for word, pair in moved.items()},
    }


def _parameters(query: StoredQuery) -> dict[str, Any]:
    named = zip(query.shape.slots, query.constants, strict=True)
    return {slot.name: getattr(v, "as_py", lambda v=v: v)() for slot, v in named if slot.name is not None}


def _word(word: str, value: Any) -> Any:
    """A property's value as users write it."""
    is_duration = any(name == word and field.endswith("_us") for field, name in FIELDS.items())
    return duration_text(value) if is_duration and value is not None else value
