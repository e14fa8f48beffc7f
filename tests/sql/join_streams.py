"""Streams that tests of joins are about, and the shapes of queries over them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from eddyline import types
from eddyline.model import Clause, Shape, Stream
from eddyline.sql import Shapes, render

SCHEMA = pa.schema(
    [
        ("sym", types.STRING),
        ("price", types.DOUBLE),
        ("id", types.INT),
        ("num", types.BIGINT),
        ("gone", types.BOOLEAN),
        ("ts", types.TIMESTAMP),
    ]
)


def stream(name: str, *, time: str | None = "ts", key: tuple[str, ...] = (), **properties: str) -> Stream:
    return Stream(name, SCHEMA, time=time, key=key, properties=tuple(properties.items()))


STREAMS = {
    one.name: one
    for one in (
        stream("trades"),
        stream("news"),
        stream("asks"),
        stream("bids"),
        stream("quotes", key=("sym",)),  # a table
        stream("watches", time=None, key=("id",)),  # a table without a time
        stream("fills", window="10 minutes"),
        stream("pings", time=None, window="10 minutes"),
        stream("ticks", window="5 rows"),
        stream("untimed", time=None),
        stream("counts", time="num"),  # time in microseconds
        stream("sums", time="num"),
    )
}


def shape_of(text: str, *, time_zone: str = "UTC", streams: dict[str, Stream] | None = None) -> Shape:
    return Shapes(time_zone=time_zone).shape_of(text, STREAMS if streams is None else streams)[0]


def shown(clauses: Sequence[Clause]) -> list[str]:
    """Clauses as SQL, one text for each."""
    return [" OR ".join(render(atom.condition) for atom in clause.atoms) for clause in clauses]


def keys_of(shape: Shape) -> list[str]:
    assert shape.join is not None
    return [
        f"{key.left}:{render(key.left_key)} = {key.right}:{render(key.right_key)}"
        for key in shape.join.signature.keys
    ]
