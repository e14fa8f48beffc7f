"""What is understood but not built in this version, refused by name; and alert properties that do not fit."""

from __future__ import annotations

from collections.abc import Iterator

from eddyline.errors import NotBuiltError, Span
from eddyline.model import Properties, SessionWindow, Shape, Stream
from eddyline.sql.aggregates import WAY_OUT
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
# The forms of aggregates that the engine answers; all others are refused by name.
BUILT_FORMS = {
    "running",
    "windows",
    "final",
    "sessions",
    "temporal filters",
    "absence",
    "over",
    "keep",
    "tables",
}
FORM_TEXTS = {
    "running": "groups without a window (GROUP BY)",
    "windows": "windows of time (window)",
    "final": "windows that are told when they close (emit = 'final')",
    "sessions": "sessions (session_window)",
    "temporal filters": "conditions on now() below aggregates",
    "absence": "conditions on now() in HAVING",
    "over": "window functions (OVER)",
    "keep": "groups that are forgotten (keep)",
    "tables": "aggregates over tables",
    "joins": "aggregates over joins",
    "nested": "aggregates of aggregates in one text",
}


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
            for branch in shape.all_branches:
                _check_forms(branch)
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


def _check_forms(shape: Shape) -> None:
    for form in aggregate_forms(shape):
        if form not in BUILT_FORMS:
            raise _not_built(FORM_TEXTS[form], span=shape.inputs[0].span, hint=WAY_OUT)


def aggregate_forms(shape: Shape) -> Iterator[str]:
    """The forms of aggregates that a plain shape needs."""
    aggregating = shape.aggregating
    if aggregating is not None:
        a = aggregating.aggregation
        window = "sessions" if isinstance(a.window, SessionWindow) else "windows"
        yield "over" if a.is_over else "running" if a.window is None else window
        tests = {
            "final": a.is_final,
            "keep": a.keep_us is not None,
            "temporal filters": bool(a.bounds),
            "absence": bool(aggregating.deadlines),
            "tables": a.reads_table,
        }
        yield from (form for form, is_there in tests.items() if is_there)
    for entry in shape.inputs:
        below = () if entry.view is None else tuple(entry.view.shape.all_branches)
        yield from ("joins" for each in below if aggregating is not None and each.join is not None)
        for each in below:
            forms = tuple(aggregate_forms(each))
            yield from (("nested", *forms) if forms else ())
