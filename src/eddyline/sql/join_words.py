"""Joins in the user's words: a column of an input by its alias, a mark of a window as the window it is.

The rows of a signature name columns by the place of their input, and its queries' conditions are about those: `0.price > 5`,
`0.#behind < 100`. A user wrote `n.price > 5` and `recent(news, 100) n`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from eddyline.durations import duration_text
from eddyline.model import (
    AGE,
    BEHIND,
    OLDER,
    Atom,
    Call,
    Column,
    Expression,
    Input,
    Literal,
    Role,
    Shape,
    Signature,
    joined_name,
)
from eddyline.sql.aggregate_words import aggregate_names, with_aggregate_names
from eddyline.sql.rendering import render, spoken
from eddyline.stream_properties import window_text

_ONE_US = timedelta(microseconds=1)
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}
_JOINED = re.compile(r"`(\d)\.((?:[^`]|``)+)`")  # a column of a signature's rows, as it is rendered


# --------------------------------------------------------------------------------------------- streams


def streams_of(shape: Shape) -> tuple[str, ...]:
    """The declared streams and views a query reads, each once, as they stand in its text."""
    return tuple(dict.fromkeys(_written_streams(shape)))


def _written_streams(shape: Shape) -> Iterator[str]:
    for branch in shape.all_branches:
        for entry in (branch.inputs[place] for place in branch.written_order):
            if entry.view is None:
                yield entry.stream
            else:
                yield from _written_streams(entry.view.shape)


def stream_words(shape: Shape) -> str:
    """The same in a line, for lists: trades, news."""
    return ", ".join(streams_of(shape))


def input_names(signature: Signature) -> list[str]:
    """What to call its inputs where no query is meant: their streams, numbered where one is joined with itself."""
    names = [entry.stream for entry in signature.inputs]
    return [
        f"{name} ({names[: at + 1].count(name)})" if names.count(name) > 1 else name
        for at, name in enumerate(names)
    ]


def signature_words(signature: Signature) -> str:
    """Its streams: news with trades."""
    return " with ".join(input_names(signature))


def input_words(entry: Input) -> str:
    """An input as the query names it: news n."""
    return entry.label if entry.alias.lower() == entry.label.lower() else f"{entry.label} {entry.alias}"


# --------------------------------------------------------------------------------------------- columns


def column_words(shape: Shape, name: str) -> str:
    """What a query calls a column of its rows: n.price, or a mark of a window in words."""
    if shape.aggregating is not None:
        return aggregate_names(shape).get(name, name)
    if shape.join is None:
        return name
    place, _, own = name.partition(".")
    entry = shape.inputs[int(place)]
    marks = {
        BEHIND: f"rows of {entry.stream} since {entry.alias}",
        AGE: f"microseconds since {entry.alias} arrived",
        OLDER: f"microseconds {entry.alias} is older",
    }
    return marks.get(own) or f"{entry.alias}.{own}"


def over_joined(expression: Expression, place: int) -> Expression:
    """An expression over a stream's own columns, over the rows of the join."""

    def joined(leaf: Expression) -> Expression:
        if not isinstance(leaf, Column):
            return leaf
        return replace(leaf, name=joined_name(place, leaf.name), input="")

    return expression.with_leaves(joined)


def atom_words(atom: Atom, shape: Shape, values: Sequence[Any]) -> str:
    """What a condition says, with the constants of a query."""
    if shape.aggregating is not None:
        return with_aggregate_names(render(atom.condition, values=values), shape)
    if shape.join is None:
        return render(atom.condition, values=values)
    if isinstance(atom.attribute, Column) and isinstance(atom.constant, Literal):
        place, _, mark = atom.attribute.name.partition(".")
        if mark in (BEHIND, AGE, OLDER):
            return window_words(shape.inputs[int(place)], mark, atom.constant.value)
    return _difference(atom, shape) or render(spoken(atom.condition, shape.inputs), values=values)


def window_words(entry: Input, mark: str, limit: int) -> str:
    """A window as a sentence about the row of its input."""
    if mark == BEHIND:
        newest = "the newest row" if limit == 1 else f"among the newest {limit:,} rows"
        return f"{entry.alias} is {newest} of {entry.stream}"
    if mark == AGE:
        return f"{entry.alias} arrived less than {duration_text(limit)} ago"
    return f"{entry.alias} is less than {duration_text(limit)} older than the latest row"


def _difference(atom: Atom, shape: Shape) -> str | None:
    """`a.ts - b.ts <= INTERVAL …`, as which conditions on event time are kept, with each time on its own side."""
    attribute, constant = atom.attribute, atom.constant
    if not isinstance(attribute, Call) or attribute.function != "-" or len(attribute.arguments) != 2:
        return None
    if not isinstance(constant, Literal) or not isinstance(constant.value, timedelta):
        return None
    if atom.operator not in _FLIPPED:
        return None
    left, right = (render(spoken(side, shape.inputs)) for side in attribute.arguments)
    operator, us = atom.operator, constant.value // _ONE_US
    if us < 0 or (us == 0 and operator in ("<", "<=")):
        left, right, operator, us = right, left, _FLIPPED[operator], -us
    return f"{left} {operator} {right}" + (f" + INTERVAL {duration_text(us).upper()}" if us else "")


def signature_text(signature: Signature, text: str) -> str:
    """SQL over the rows of a signature, which several queries share, with names of streams in place of inputs."""
    called = input_names(signature)
    marks = {
        BEHIND: "rows since one of {}",
        AGE: "time since one of {} arrived",
        OLDER: "how much older {} is",
    }

    def column_words(found: re.Match[str]) -> str:
        name, own = called[int(found[1])], found[2]
        return marks[own].format(name) if own in marks else f"{name}.{own}"

    return _JOINED.sub(column_words, text)


# --------------------------------------------------------------------------------------------- windows


def retention_words(shape: Shape, place: int, properties_window: str | None = None) -> str:
    """What becomes of the rows of an input, and for how long."""
    join = shape.join
    assert join is not None, shape.key
    entry, role = shape.inputs[place], join.signature.inputs[place].role
    if role is Role.TABLE:
        return "the latest row of each key, as of arrival"
    if role is Role.VIEW:
        return "its rows, as they were before the round"
    if role is Role.AS_OF:
        return "the row of each key that was the latest at the event time"
    if role is Role.CURRENT:
        return "not kept: its rows meet what came before them"
    if entry.window is not None and entry.window.n_rows is not None:
        n = entry.window.n_rows
        return "the newest row" if n == 1 else f"the newest {n:,} rows"
    if entry.window is not None:
        return f"{window_text(entry.window)} from arrival"
    return _reach_words(shape, place)


def _reach_words(shape: Shape, place: int) -> str:
    """How long rows of an input wait, by event time."""
    join = shape.join
    assert join is not None, shape.key
    waits = []
    for other, entry in enumerate(shape.inputs):
        reach = join.reach_us[place][other]
        if other != place and reach is not None:
            is_window = join.signature.inputs[other].role in (Role.WINDOW, Role.CURRENT)
            if is_window:
                later = (
                    f" + {duration_text(reach)}"
                    if reach > 0
                    else f" - {duration_text(-reach)}"
                    if reach
                    else ""
                )
                waits.append(f"the watermark of {input_words(entry)} passes its time{later}")
    return f"until {' and '.join(waits)}" if waits else "for ever"
