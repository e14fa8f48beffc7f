"""What is understood but not built in this version, refused by name; and alert properties that do not fit."""

from __future__ import annotations

from eddyline.errors import NotBuiltError, Span
from eddyline.model import Properties, Shape, Stream
from eddyline.sql.alert_properties import TableKey, check_alert_properties, refuse_mixed
from eddyline.sql.view_properties import FIELDS
from eddyline.stream_properties import checked_join_properties

_BUILT = (
    "owner",
    "is_enabled",
    "per",
    "cooldown_us",
    "for_us",
    "resolve_us",
    "emit",
    "keep_us",
    "deliver",
    "message",
    "severity",
)
_DEFAULT = Properties()


def refuse_unbuilt(
    *,
    shape: Shape | None = None,
    properties: Properties | None = None,
    stream: Stream | None = None,
    text: str | None = None,
    table_key: TableKey = lambda name: None,
) -> None:
    """Raise NotBuiltError for the first thing this version does not do. `text` is what the shape was bound from, and
    `table_key` knows the tables that it reads.

    Properties that do not go together, or not with the shape or the stream, are refused as well.
    """
    try:
        if stream is not None:
            checked_join_properties(stream)
        if properties is not None:
            _check_properties(properties)
        if shape is not None:
            for branch in shape.plain_shapes():
                _check_shape(branch)
            refuse_mixed(shape, table_key)
        if properties is not None:
            check_alert_properties(properties, shape, table_key)
    except NotBuiltError as error:
        raise (error if text is None else error.located(text)) from None


def _not_built(what: str, *, span: Span | None = None, hint: str | None = None) -> NotBuiltError:
    return NotBuiltError(f"{what} are not built in this version", span=span, hint=hint)


def _check_properties(properties: Properties) -> None:
    if properties.emit == "request":
        raise NotBuiltError(
            "property emit = 'request' is not built in this version", hint="Write 'changes' or 'final'."
        )
    for field, word in FIELDS.items():
        if field not in _BUILT and getattr(properties, field) != getattr(_DEFAULT, field):
            built = ", ".join(FIELDS[name] for name in _BUILT)
            raise NotBuiltError(f"property {word} is not built in this version", hint=f"Built are {built}.")


def _check_shape(shape: Shape) -> None:
    if shape.join is None and shape.inputs[0].window is not None:
        raise _not_built("windows (recent)", span=shape.inputs[0].span, hint="Name the stream alone.")
