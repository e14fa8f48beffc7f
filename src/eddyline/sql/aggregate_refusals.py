"""What aggregates cannot be, refused where it stands, with why and what to write instead (docs/sql.md, Aggregates)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from eddyline.errors import PropertyError, Span, UnsupportedError
from eddyline.expressions import time_expression
from eddyline.model import Aggregate, Column, Expression, GroupWindow, Over, SessionWindow, Stream, UserCall
from eddyline.sql.aggregates import ESTIMATES
from eddyline.sql.bound_query import BoundQuery
from eddyline.sql.sets import is_table
from eddyline.sql.temporal_conditions import TimeComparison, asks_for_time
from eddyline.sql.time_windows import refuse_many_windows
from eddyline.types import TIMESTAMP, type_name


@dataclass(frozen=True, slots=True)
class Emission:
    """What properties say of an aggregation."""

    is_final: bool = False
    keep_us: int | None = None


def refuse_emission(emission: Emission, what: str) -> None:
    """Refuse properties of groups where there are none."""
    if emission.is_final:
        raise PropertyError(
            f"property emit: {what}",
            hint="Leave emit out. It takes 'final' with GROUP BY window(…) or session_window(…) over a stream.",
        )
    if emission.keep_us is not None:
        raise PropertyError(
            f"property keep: {what}",
            hint="Leave keep out. It stands with GROUP BY without a window, over a stream.",
        )


def refuse_final(emission: Emission, window: GroupWindow | None, *, reads_table: bool) -> None:
    """Refuse emit = 'final' where nothing is ever final."""
    if not emission.is_final:
        return
    if window is None:
        raise PropertyError(
            "property emit: a group without a window is never final",
            hint="Add a window to GROUP BY: window(ts, '10 minutes'). Or leave emit out: every change is then a result.",
        )
    if reads_table:
        raise PropertyError(
            "property emit: windows over a table never close, since its rows may change at any time",
            hint="Leave emit out: every change is then a result.",
        )


def refuse_keep(
    emission: Emission,
    keys: Sequence[Expression],
    window: GroupWindow | None,
    comparisons: Sequence[TimeComparison],
    *,
    reads_table: bool,
) -> None:
    """Refuse keep where groups go by themselves, or there are none."""
    reasons = {
        "windows go by themselves when they close": window is not None,
        "the rows of a condition on now() go by themselves": bool(comparisons),
        "a table says itself which rows are gone": reads_table,
        "without GROUP BY there is one group, which always exists": not keys,
    }
    for reason, holds in reasons.items():
        if emission.keep_us is not None and holds:
            raise PropertyError(
                f"property keep: {reason}",
                hint="Leave keep out. It stands with GROUP BY without a window, over a stream.",
            )


def refuse_over_in_groups(results: Iterable[Expression], qualify: Expression | None) -> None:
    """Refuse OVER and QUALIFY beside groups."""
    overs = (node for e in results for node in e.walk() if isinstance(node, Over))
    found = next(overs, qualify)
    if found is not None:
        raise UnsupportedError(
            "OVER and QUALIFY cannot stand together with GROUP BY, HAVING or aggregates",
            span=found.span,
            hint="Make the one a view, and read FROM it in the other.",
        )


def refuse_inputs(bound: BoundQuery) -> None:
    """Refuse aggregates of results that windows give before they close."""
    for entry, stream in zip(bound.inputs, bound.streams, strict=True):
        if stream.is_windowed:
            raise UnsupportedError(
                f"{entry.label} has windows that change until they close; it cannot be aggregated",
                span=entry.span,
                detail="Each closed window would have to be remembered for ever.",
                hint="Give that view, or the query if it is a subquery, the property emit = 'final'.",
            )
        if is_table(stream) and stream.is_volatile:
            raise UnsupportedError(
                f"{entry.label} cannot be aggregated: it asks for now(), or calls a function that is not deterministic",
                span=entry.span,
                detail="Of a row that leaves, the view must say what it said when the row appeared.",
                hint="Write that condition in the query, not in the view.",
            )


def refuse_unrepeatable(below: Iterable[Expression], where: str) -> None:
    """Refuse functions that may say something else of the same row, or group, when they are asked again."""
    for e in below:
        calls = (n for n in e.walk() if isinstance(n, UserCall) and not n.is_deterministic)
        found = next(calls, None)
        if found is not None:
            raise UnsupportedError(
                f"{found.function} is not deterministic and cannot stand in {where}",
                span=found.span,
                detail="What a result was must be known again when it changes.",
                hint="Declare the function deterministic, or call it in a view over a stream below.",
            )


def refuse_estimates(aggregates: Iterable[Aggregate], where: str) -> None:
    """Refuse estimates of rows that leave."""
    for found in aggregates:
        if found.function in ESTIMATES:
            raise UnsupportedError(
                f"{found.function} cannot stand {where}",
                span=found.span,
                detail="Its rows leave again, and a sketch keeps too little of a row to forget it.",
                hint="Write count(DISTINCT x), which is exact, or GROUP BY over a stream without a key.",
            )


def refuse_now(expressions: Iterable[Expression], where: str, hint: str) -> None:
    """Refuse now() where it would change results that were given."""
    for e in expressions:
        if asks_for_time(e):
            raise UnsupportedError(
                f"now() cannot stand in {where}",
                span=e.span,
                detail="Results of rows that have come would change in every round.",
                hint=hint,
            )


def now_with_window(span: Span | None) -> UnsupportedError:
    """The refusal of now() together with windows."""
    return UnsupportedError(
        "now() cannot stand together with windows in GROUP BY",
        span=span,
        detail="Windows close as the watermark passes them, whatever the time is.",
        hint="Leave the window out, or the condition on now().",
    )


def check_windows(
    window: GroupWindow, emission: Emission, bound: BoundQuery, rows: Stream, time: Column | None
) -> None:
    """Refuse windows of what is no time of the rows, and too many. `rows` is the class, `time` what its time is of."""
    if is_table(rows) and isinstance(window.window, SessionWindow):
        raise UnsupportedError(
            "session_window cannot stand over a table",
            span=window.span,
            detail="With each row that changes or goes, sessions would divide again.",
            hint="Write window(…), or read a stream without a key.",
        )
    if not is_table(rows):
        check_time(window.time, f"{window.word}()", bound, rows, time, window.span)
    elif window.time.type != TIMESTAMP:
        raise UnsupportedError(
            f"{window.word} takes a TIMESTAMP, found {type_name(window.time.type)}",
            span=window.time.span or window.span,
            hint="Write CAST(… AS TIMESTAMP).",
        )
    if not isinstance(window.window, SessionWindow) and not emission.is_final:
        refuse_many_windows(window.window, window.span)


def check_time(
    e: Expression, what: str, bound: BoundQuery, rows: Stream, time: Column | None, span: Span | None
) -> None:
    """Refuse another expression than the time of the rows, where the watermark says what closes."""
    unkeyed = [
        entry for entry, stream in zip(bound.inputs, bound.streams, strict=True) if not is_table(stream)
    ]
    if len(unkeyed) > 1:
        raise UnsupportedError(
            f"{what} cannot stand over a join of several streams without a key",
            span=span,
            hint=f"Join {unkeyed[0].label} with tables only, or make the join a view that passes a time on, and aggregate that.",
        )
    label = unkeyed[0].label if unkeyed else bound.inputs[0].label
    if time is None:
        raise UnsupportedError(
            f"{what} needs the time of {label}, which has none",
            span=span,
            detail="Only a stream with a time says when windows close and which rows are late.",
            hint=f"Declare it: CREATE TABLE {label} (…) TBLPROPERTIES (time = 'ts'); a view has the time it passes on.",
        )
    if e not in (time, time_expression(rows, time)):
        raise UnsupportedError(
            f"{what} takes the time of {label}, {time.name}",
            span=e.span or span,
            detail="Only its time says when windows close and which rows are late.",
            hint=f"Write {time.name}, or declare another time for {label}.",
        )


def check_over(over: Over, bound: BoundQuery, rows: Stream, time: Column | None) -> None:
    """Refuse OVER that is not by the time of a stream."""
    if is_table(rows):
        raise UnsupportedError(
            "OVER cannot stand over a table",
            span=over.span,
            detail="Results of OVER are never revised, and rows of a table change.",
            hint="Write GROUP BY, or read a stream without a key.",
        )
    name = "ts" if time is None else time.name
    if len(over.order_by) != 1:
        raise UnsupportedError(
            "OVER needs ORDER BY the time of the stream, and nothing else",
            span=over.span,
            hint=f"Write OVER (PARTITION BY … ORDER BY {name}).",
        )
    check_time(over.order_by[0], "ORDER BY in OVER", bound, rows, time, over.span)
