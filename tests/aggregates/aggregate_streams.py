"""Streams, tables and views that tests of aggregates bind against, and how they bind."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from eddyline.catalog import view_relation
from eddyline.model import TABLE_VIEW, Aggregating, Shape, Stream
from eddyline.sql import CreateStream, Shapes, parse_statements, properties, render
from eddyline.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, TIMESTAMP, decimal

AUTHS = Stream(
    "auths",
    pa.schema([("card", STRING), ("amount", BIGINT), ("declined", BOOLEAN), ("ts", TIMESTAMP)]),
    time="ts",
    lateness_us=60_000_000,
)
STREAMS = {
    "auths": AUTHS,
    "logins": Stream("logins", pa.schema([("card", STRING), ("at", TIMESTAMP)]), time="at"),
    "clicks": Stream("clicks", pa.schema([("page", STRING), ("n", INT), ("price", decimal(10, 2))])),
    "readings": Stream("readings", pa.schema([("device", STRING), ("value", DOUBLE), ("ts", TIMESTAMP)]), time="ts"),
    "stock": Stream(
        "stock", pa.schema([("id", INT), ("shelf", STRING), ("price", BIGINT), ("due", TIMESTAMP)]), key=("id",)
    ),
    "cards": Stream("cards", pa.schema([("card", STRING), ("country", STRING)]), key=("card",)),
}  # fmt: skip


VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "aggregates.json").read_text())


def declared(ddl: Sequence[str]) -> dict[str, Stream]:
    """The streams that these statements declare."""
    found = {}
    for text in ddl:
        (statement,) = parse_statements(text)
        assert isinstance(statement, CreateStream)
        found[statement.stream.name.lower()] = statement.stream
    return found


def shape_of(text: str, streams: dict[str, Stream] = STREAMS, **stated: Any) -> Shape:
    """The shape of a text with these properties."""
    return Shapes().shape_of(text, streams, properties=properties(stated))[0]


def aggregating(text: str, **stated: Any) -> Aggregating:
    """What a text reads of its aggregation."""
    found = shape_of(text, **stated).aggregating
    assert found is not None, text
    return found


def rows_of(shape: Shape) -> dict[str, str]:
    """The columns of the class of rows of a shape, as SQL."""
    view = shape.inputs[0].view
    assert view is not None
    return {p.name: render(p.expression) for p in view.shape.projection}


def conditions(shape: Shape, values: list[Any] | None = None) -> list[str]:
    """The conditions of a shape over its aggregation."""
    return [" OR ".join(render(a.condition, values) for a in c.atoms) for c in shape.condition.clauses]


def results(shape: Shape) -> dict[str, str]:
    return {p.name: render(p.expression) for p in shape.projection}


def view(name: str, text: str, streams: dict[str, Stream] = STREAMS, **stated: Any) -> Stream:
    """The relation that a query is to others that read it by name."""
    return view_of(name, shape_of(text, streams, **stated), streams)


def view_of(name: str, shape: Shape, streams: dict[str, Stream]) -> Stream:
    def input_of(name: str) -> tuple[Stream, bool]:
        found = streams[name.lower()]
        return found, found.is_keyed or found.source == TABLE_VIEW

    return view_relation(name, 1, shape, input_of).stream


def with_view(name: str, text: str, **stated: Any) -> dict[str, Stream]:
    return {**STREAMS, name: view(name, text, **stated)}
