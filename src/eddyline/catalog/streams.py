"""Streams and how their schemas may change while queries read them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa

from eddyline.errors import SchemaError
from eddyline.model import Shape, Stream
from eddyline.types import type_name


def evolved_stream(old: Stream, new: Stream, users: Iterable[tuple[str, Shape]]) -> Stream:
    """The stream after a new declaration: additional nullable columns are accepted; anything that breaks one of `users`
    (name and shape of each live query, one per shape is enough) is refused, naming them. Columns the source brought stay.
    """
    users = list(users)
    new = _with_discovered(old, new)
    known = {field.name.lower(): field for field in new.schema}
    changed: dict[str, str] = {}
    for field in old.schema:
        now = known.get(field.name.lower())
        if now is None:
            changed[field.name] = f"column {field.name} would go"
        elif now.type != field.type:
            changed[field.name] = (
                f"column {field.name} would turn from {type_name(field.type)} into {type_name(now.type)}"
            )
    broken = sorted({name for name, shape in users if shape.columns & changed.keys()})
    if broken:
        shown = ", ".join(broken[:10]) + (f" and {len(broken) - 10} more" if len(broken) > 10 else "")
        raise SchemaError(
            f"stream {old.name} cannot change like this while queries need it",
            detail=f"{'; '.join(changed.values())}. Used by {shown}.",
            hint="Drop or replace these queries first, or declare a new stream.",
        )
    before = {field.name.lower() for field in old.schema}
    for field in new.schema:
        if field.name.lower() not in before and not field.nullable:
            raise SchemaError(
                f"column {field.name} cannot be added to stream {old.name} as NOT NULL",
                detail="Rows that arrived before do not have it.",
                hint="Declare it nullable.",
            )
    if users and old.key != new.key:
        raise SchemaError(
            f"the key of stream {old.name} cannot change while queries read it",
            hint="Drop these queries first, or declare a new stream.",
        )
    return replace(new, schema=_in_old_order(old.schema, new.schema))


def _with_discovered(old: Stream, new: Stream) -> Stream:
    """The new declaration with the columns it does not name because it knows nothing of them."""
    named = {field.name.lower() for field in new.schema}
    discovered_fields = [f for f in old.schema if f.name in old.discovered and f.name.lower() not in named]
    discovered = (*new.discovered, *(f.name for f in discovered_fields))
    return replace(new, schema=pa.schema([*new.schema, *discovered_fields]), discovered=discovered)


def _in_old_order(old: pa.Schema, new: pa.Schema) -> pa.Schema:
    """The new columns, those known before in the order they had."""
    place = {field.name.lower(): at for at, field in enumerate(old)}
    return pa.schema(sorted(new, key=lambda field: place.get(field.name.lower(), len(place))))
