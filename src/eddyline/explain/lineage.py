"""Where the rows of a query come from, down to declared streams, and which queries read it."""

from __future__ import annotations

from typing import Any

from eddyline.catalog import QueryRecord
from eddyline.engine import RoundEngine
from eddyline.model import Shape
from eddyline.sql import streams_of

SHOWN_READERS = 20


def lineage(rounds: RoundEngine, record: QueryRecord) -> dict[str, Any]:
    """What a query reads, each with what that reads in turn; and the queries that read it, by name those of the same owner."""
    catalog = rounds.catalog
    readers = catalog.views.readers(record.id) if record.id else []
    own = [i for i in readers if catalog.queries.owner_of(i) == record.properties.owner]
    return {
        "reads": inputs_of(rounds, record.shape),
        "read_by": [{"id": i, "name": catalog.queries.name_of(i)} for i in own[:SHOWN_READERS]],
        "n_readers": len(readers),
    }


def inputs_of(rounds: RoundEngine, shape: Shape) -> list[dict[str, Any]]:
    """The relations a query reads, each once, in the order of its text."""
    catalog = rounds.catalog
    found: list[dict[str, Any]] = []
    for name in streams_of(shape):
        stream = catalog.find_stream(name)
        view = catalog.views.find(name) if stream is None else None
        if stream is not None:
            kind = "table" if stream.is_keyed else "stream"
            found.append({"name": stream.name, "kind": kind, "id": None, "text": "", "reads": []})
        elif view is not None:
            below = catalog.record(view.feeds[0].query_id)
            facts = {"name": view.stream.name, "kind": "view", "id": below.id, "text": below.text}
            found.append(facts | {"reads": inputs_of(rounds, below.shape)})
    return found
