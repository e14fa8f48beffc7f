"""The catalog follows a source whose columns have changed: see sources/schema_changes.py for what counts as a change."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from eddyline.catalog import suspend
from eddyline.engine import RoundEngine, declare
from eddyline.events import ColumnAdded, QueriesSuspended
from eddyline.sources import SchemaChange
from eddyline.types import type_name

NAMED = 100  # queries in an event; all of them are in the catalog


def follow_change(rounds: RoundEngine, stream: str, change: SchemaChange, round_number: int) -> None:
    """Declare the new columns, suspend the queries that need one that is missing, and say so."""
    with rounds.lock:
        rounds.check_open()
        declared = rounds.catalog.stream(stream)
        known = {f.name.lower() for f in declared.schema}
        added = [f for f in change.added if f.name.lower() not in known]
        if added:
            schema = pa.schema([*declared.schema, *added])
            discovered = (*declared.discovered, *(f.name for f in added))
            declare(rounds, replace(declared, schema=schema, discovered=discovered))
        suspended = suspend(rounds.catalog, declared.name, change.missing, rounds.now_us())
        for f in added:
            rounds.announce(ColumnAdded(round_number, declared.name, f.name, type_name(f.type)))
        for column, ids in suspended.items():
            named = tuple(
                (rounds.catalog.queries.name_of(i), rounds.catalog.queries.owner_of(i)) for i in ids[:NAMED]
            )
            owners = tuple(sorted({*map(rounds.catalog.queries.owner_of, ids)} - {""}))
            why = change.missing[column]
            rounds.announce(
                QueriesSuspended(round_number, declared.name, column, why, len(ids), named, owners)
            )
