"""The columns of a stream that a query knows of, which are all that a judge is given."""

from __future__ import annotations

import pyarrow as pa

from eddyline.model import Column, Shape
from eddyline.proof import words_of
from eddyline.receipts.readings import AnyQuery, BaseInput
from eddyline.sql import span_places


def columns_seen(entry: BaseInput, schema: pa.Schema) -> list[str]:
    """The columns of a stream that the query which reads it knows of: those it names, and those its `*` stood for when it was
    registered."""
    if entry.shape.join is not None:
        return _input_columns_seen(entry.query, entry.shape, entry.place, schema)
    named = {word.name.lower() for word in words_of(_part_text(entry)) if word.is_name}
    names = [name for name in schema.names if name in entry.shape.columns or name.lower() in named]
    return names or schema.names[:1]  # a row has at least one


def _part_text(entry: BaseInput) -> str:
    """The text that may name columns of a stream that is read alone: of a union, its part."""
    text, parts = entry.query.text, [each.tokens for each in entry.shape.parts if each.tokens is not None]
    if not parts:
        return text
    place = span_places(text, parts[-1:])[parts[-1]]  # the innermost
    return text[place.start : place.end]


def _input_columns_seen(query: AnyQuery, shape: Shape, place: int, schema: pa.Schema) -> list[str]:
    """Those of an input of a join. A name without an alias is that of the input that needs it."""
    needed = [_needed(shape, other) for other in range(len(shape.inputs))]
    others = frozenset().union(*(names for other, names in enumerate(needed) if other != place))
    alias = shape.inputs[place].alias.lower()
    words = words_of(query.text)
    for at, word in enumerate(words):
        if word.is_name:
            is_qualified = at >= 2 and words[at - 1].says(".") and words[at - 2].is_name
            is_own = words[at - 2].name.lower() == alias if is_qualified else word.name.lower() not in others
            if is_own:
                needed[place].add(word.name.lower())
    needed_names = [name for name in schema.names if name.lower() in needed[place]]
    return needed_names or schema.names[:1]


def _needed(shape: Shape, place: int) -> set[str]:
    """Columns of an input that a join shows, compares or is keyed by, in lower case."""
    assert shape.join is not None, shape.key
    found = set()
    for joined in shape.columns:
        at, _, name = joined.partition(".")
        if int(at) == place:
            found.add(name.lower())
    for key in shape.join.signature.keys:
        if place in (key.left, key.right):
            found |= {node.name.lower() for node in key.side(place).walk() if isinstance(node, Column)}
    return found
