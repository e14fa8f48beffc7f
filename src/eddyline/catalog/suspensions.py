"""Queries that cannot be answered for now: paused by the engine, with the reason, until somebody resumes or replaces them."""

from __future__ import annotations

from collections.abc import Mapping

from eddyline.catalog.catalog import Catalog
from eddyline.model import QueryState


def suspend(catalog: Catalog, stream: str, missing: Mapping[str, str], now_us: int) -> dict[str, list[int]]:
    """Suspend the running queries on a stream that need one of these columns, in one version; nothing happens if there is none.

    `missing` says of each column why it is not there. Returns the ids of the queries, by column.
    """
    needs = {
        shape: [column for column in missing if column in shape.columns]
        for shape in catalog._shapes_of.get(stream.lower(), {})
    }
    ids_of = {shape: catalog._families[shape].ids() for shape, columns in needs.items() if columns}
    found: dict[str, list[int]] = {}
    if not ids_of:
        return found
    n = sum(map(len, ids_of.values()))
    with catalog.change(f"suspend {n} quer{'y' if n == 1 else 'ies'} on {stream}") as version:
        for shape, ids in ids_of.items():
            why = "; ".join(missing[column] for column in needs[shape])
            catalog._stop(shape, ids, QueryState.SUSPENDED, version, now_us, why)
            for column in needs[shape]:
                found.setdefault(column, []).extend(ids)
    return found
