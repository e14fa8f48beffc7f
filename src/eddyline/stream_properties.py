"""What a stream says of itself for joins: its window, how long it may be silent, and which column deletes.

These live in `Stream.properties` as written, the same words in SQL, Python and TOML:

    window   '100 rows' or '10 minutes'   how long rows of an append-only stream are met by joins that say nothing themselves
    idle     '1 minute'                   after so long without rows, other streams no longer wait for this one
    delete   'gone'                       a keyed stream: a row in which this column is true deletes the row of its key
             'null'                       or, if it has no such column: a row that is NULL but for its key and time does
    static   'true'                       a keyed stream whose rows stay fixed until a new version of all of them is loaded
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from eddyline.durations import duration_text, duration_us
from eddyline.errors import EddylineError, PropertyError, SchemaError, did_you_mean
from eddyline.model import Stream, Window
from eddyline.types import BOOLEAN, type_name

WINDOW, IDLE, DELETE, STATIC = "window", "idle", "delete", "static"
NULL_DELETES = "null"  # the value of `delete` that needs no column

_ROWS = re.compile(r"\s*(\d+)\s*rows?\s*", re.IGNORECASE)
_WINDOW_HINT = "Write a number of rows such as '100 rows', or a duration such as '10 minutes'."


def window_of(stream: Stream) -> Window | None:
    """How many rows, or how long, joins look back on this stream if they do not say. It is event time if the stream has one."""
    text = _property(stream, WINDOW)
    return None if text is None else read_window(text)


def idle_us(stream: Stream) -> int | None:
    """After how long without rows other streams no longer wait for this one; None: they wait for ever."""
    text = _property(stream, IDLE)
    return None if text is None else duration_us(text)


def delete_column(stream: Stream) -> str | None:
    """The column that is true in rows that delete the row of their key; or NULL_DELETES, if there is no column of that name."""
    return _property(stream, DELETE)


def is_static(stream: Stream) -> bool:
    """Whether its rows are loaded whole, from where its declaration says they are."""
    return (_property(stream, STATIC) or "").lower() == "true"


def read_window(value: Any) -> Window:
    """A window as users write it: '100 rows', '10 minutes', a timedelta, or a number of rows."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = f"{value} rows"
    rows = _ROWS.fullmatch(value) if isinstance(value, str) else None
    if rows is not None:
        found = Window(n_rows=int(rows[1]))
    elif isinstance(value, (str, timedelta)):
        try:
            found = Window(duration_us=duration_us(value))
        except PropertyError:
            raise PropertyError(f"{value!r} is not a window", hint=_WINDOW_HINT) from None
    else:
        raise PropertyError(f"{value!r} is not a window", hint=_WINDOW_HINT)
    if not found.n_rows and not found.duration_us:
        raise PropertyError(f"{value!r} is an empty window", hint=_WINDOW_HINT)
    return found


def with_join_properties(
    stream: Stream, *, window: Any = None, idle: Any = None, delete: str | None = None
) -> Stream:
    """The stream with these properties, as Python and TOML give them, beside those it has; checked."""
    properties_by_name = dict(stream.properties)
    if window is not None:
        properties_by_name[WINDOW] = _text(stream, WINDOW, lambda: window_text(read_window(window)))
    if idle is not None:
        properties_by_name[IDLE] = _text(stream, IDLE, lambda: duration_text(duration_us(idle)))
    if delete is not None:
        properties_by_name[DELETE] = delete
    return checked_join_properties(replace(stream, properties=tuple(properties_by_name.items())))


def window_text(window: Window) -> str:
    """A window as it is written."""
    if window.duration_us is not None:
        return duration_text(window.duration_us)
    return f"{window.n_rows} row{'s' if window.n_rows != 1 else ''}"


def checked_join_properties(stream: Stream) -> Stream:
    """The stream, with the delete column spelt as in its schema; refused where properties make no sense for it."""
    properties_by_name = _folded(stream.properties)
    if WINDOW in properties_by_name:
        _text(stream, WINDOW, lambda: window_text(read_window(properties_by_name[WINDOW])))
        if stream.is_keyed:
            raise PropertyError(
                f"stream {stream.name} has a key and a window",
                detail="A keyed stream is kept at its latest rows, one for each key, however old they are.",
                hint="Leave out the window, or the key.",
            )
    if IDLE in properties_by_name:
        silent_us = int(_text(stream, IDLE, lambda: str(duration_us(properties_by_name[IDLE]))))
        if not silent_us:
            raise PropertyError(
                f"stream {stream.name}: property idle: {properties_by_name[IDLE]!r} is no time at all",
                hint="Write a duration such as '1 minute'.",
            )
        if stream.time is None:
            raise PropertyError(
                f"stream {stream.name} has an idle time but no time",
                detail="Others wait for a stream only because of its event time.",
                hint="Name the column of its event time: time='ts'.",
            )
    if is_static(stream) and not stream.is_keyed:
        raise PropertyError(
            f"static table {stream.name} has no key",
            detail="Joins find a row by its key, and a new version is compared with the old one by it.",
            hint="Declare a PRIMARY KEY, or leave out static.",
        )
    if DELETE not in properties_by_name:
        return stream
    return _with_delete_column(stream, properties_by_name[DELETE])


def _with_delete_column(stream: Stream, name: str) -> Stream:
    if not stream.is_keyed:
        raise PropertyError(
            f"stream {stream.name} deletes by {name} but has no key",
            detail="Rows of an append-only stream stay as they are.",
            hint="Declare the key whose row is deleted, or leave out delete.",
        )
    spelt = next((f for f in stream.schema if f.name.lower() == name.lower()), None)
    if spelt is None and name.lower() == NULL_DELETES:
        return stream
    if spelt is None:
        raise SchemaError(
            f"stream {stream.name} has no column {name}, by which its rows are deleted",
            hint=did_you_mean(name, stream.schema.names, noun="column"),
        )
    if spelt.type != BOOLEAN:
        raise SchemaError(
            f"column {spelt.name} cannot delete rows of stream {stream.name}: it is {type_name(spelt.type)}",
            hint="Name a BOOLEAN column; rows in which it is true delete the row of their key.",
        )
    pairs = tuple((k, spelt.name if k.lower() == DELETE else v) for k, v in stream.properties)
    return replace(stream, properties=pairs)


def _property(stream: Stream, word: str) -> str | None:
    return _folded(stream.properties).get(word)


def _folded(pairs: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return {name.lower(): value for name, value in pairs}


def _text(stream: Stream, word: str, read: Any) -> str:
    """What a property says, or why it says nothing."""
    try:
        return str(read())
    except EddylineError as error:
        raise PropertyError(
            f"stream {stream.name}: property {word}: {error.problem}", hint=error.hint
        ) from None
