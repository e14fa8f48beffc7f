"""Which rows of each input a join keeps, and joins that would have to keep rows for ever.

An input with a key is a table at its latest rows, and a view over tables has its current rows. Any other is bounded by
`recent(…)`, else by event-time conditions, else by the window its stream was declared with. One input may have none of these if
all others are tables, or windows of a count or of arrival time: its rows then meet what came before them, and are not kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eddyline.errors import NotBuiltError, Span, UnsupportedError
from eddyline.expressions import call
from eddyline.model import (
    AGE,
    BEHIND,
    OLDER,
    TABLE_VIEW,
    VIEW,
    Call,
    Clause,
    Column,
    Expression,
    Input,
    JoinKey,
    Literal,
    Role,
    Stream,
    Window,
    joined_name,
)
from eddyline.sql.event_time_bounds import Reach, TimeBound, TimeDifference
from eddyline.sql.normalisation import atom
from eddyline.sql.sets import is_table
from eddyline.stream_properties import window_of
from eddyline.time_properties import ISO, UNIT_US, time_format, time_unit
from eddyline.types import BIGINT, is_decimal, is_integer, is_numeric


@dataclass(frozen=True, slots=True)
class JoinEntry:
    """An input of a query and the stream it reads."""

    input: Input
    stream: Stream

    @property
    def label(self) -> str:
        """As a message names it: news n."""
        alias, name = self.input.alias, self.stream.name
        return name if alias.lower() == name.lower() else f"{name} {alias}"

    @property
    def window(self) -> Window | None:
        """What it is bounded by apart from conditions: recent(…), or what the stream was declared with."""
        return self.input.window or (None if is_table(self.stream) else window_of(self.stream))


@dataclass(frozen=True, slots=True)
class RetainedInputs:
    """What becomes of the rows of each input, the conditions that windows are, and what these say of event time.

    `windows` are those of a count or of arrival time; one of event time is nothing but conditions.
    """

    roles: tuple[Role, ...]
    windows: tuple[Window | None, ...]
    clauses: tuple[Clause, ...] = ()
    bounds: tuple[TimeBound, ...] = ()


def retained_inputs(
    entries: Sequence[JoinEntry],
    keys: Sequence[JoinKey],
    reach: Reach | None,
    differences: Sequence[TimeDifference],
    *,
    keeps_rows: bool = True,
) -> RetainedInputs:
    """Roles and windows of the inputs. Raises UnsupportedError for what cannot be kept, if it is to be, or makes no sense.

    `reach` is what conditions say of event time; None: no times fulfil them.
    """
    for entry in entries:
        _refuse_unbuilt_view(entry)
    roles = [_table_role(at, entry, entries, keys, differences) for at, entry in enumerate(entries)]
    streams = [at for at, role in enumerate(roles) if role is None]
    windows: list[Window | None] = [None] * len(entries)
    clauses: list[Clause] = []
    bounds: list[TimeBound] = []
    unbounded: list[int] = []
    for at in streams if len(streams) > 1 else ():
        entry, others = entries[at], [other for other in streams if other != at]
        is_reached = reach is None or all(reach[at][other] is not None for other in others)
        window = entry.input.window or (None if is_reached else entry.window)
        roles[at] = Role.WINDOW
        if window is None and not is_reached:
            unbounded.append(at)
        elif window is not None and window.duration_us is not None and _is_of_event_time(entries, at, others):
            clauses.append(_below(at, OLDER, window.duration_us, entry.input.span))
            bounds += [TimeBound(at, other, window.duration_us - 1) for other in others]
        elif window is not None:
            mark, limit = (BEHIND, window.n_rows) if window.n_rows is not None else (AGE, window.duration_us)
            assert limit is not None, window
            clauses.append(_below(at, mark, limit, entry.input.span))
            windows[at] = window
    if len(streams) == 1:
        roles[streams[0]] = Role.CURRENT
    elif unbounded and keeps_rows:
        timed = {place for bound in bounds for place in (bound.origin, bound.to)}
        timed |= {p for d in differences if {d.left, d.right} <= set(streams) for p in (d.left, d.right)}
        if len(unbounded) > 1 or unbounded[0] in timed:
            raise _unbounded_error(entries, unbounded, streams)
        roles[unbounded[0]] = Role.CURRENT
    found = tuple(role for role in roles if role is not None)
    assert len(found) == len(entries), roles
    return RetainedInputs(found, tuple(windows), tuple(clauses), tuple(bounds))


def _refuse_unbuilt_view(entry: JoinEntry) -> None:
    """Refuse views that joins cannot read."""
    stream, window = entry.stream, entry.input.window
    if stream.is_windowed:
        raise UnsupportedError(
            f"{entry.input.label} has windows that change until they close; it cannot be joined",
            span=entry.input.span,
            detail="Each closed window would have to be remembered for ever.",
            hint="Give that view the property emit = 'final': it then tells each window once.",
        )
    if stream.source == TABLE_VIEW and stream.is_volatile:
        raise UnsupportedError(
            f"{entry.input.label} cannot be joined: it asks for now(), or calls a function that is not deterministic",
            span=entry.input.span,
            detail="Its rows are kept: of a row that leaves, the view must say what it said when the row appeared.",
            hint="Write that condition in the query, not in the view.",
        )
    if stream.source == VIEW and window is not None and window.n_rows is not None:
        raise NotBuiltError(
            f"recent rows of {stream.name}, a view, are not built in this version",
            span=entry.input.span,
            hint=f"Write recent({stream.name}, INTERVAL 10 MINUTES), or bound it by event time.",
        )


def _is_of_event_time(entries: Sequence[JoinEntry], at: int, others: Sequence[int]) -> bool:
    """Whether minutes of its window are those of event time: not in recent(…), nor beside a stream that has no time."""
    is_timed = all(entries[place].stream.time is not None for place in (at, *others))
    return entries[at].input.window is None and is_timed


def _below(place: int, mark: str, limit: int, span: Span | None) -> Clause:
    column = Column(BIGINT, joined_name(place, mark))
    return Clause((atom(call("<", [column, Literal(BIGINT, limit)], span=span)),))


# ------------------------------------------------------------------------------------------------ tables


def _table_role(
    at: int,
    entry: JoinEntry,
    entries: Sequence[JoinEntry],
    keys: Sequence[JoinKey],
    differences: Sequence[TimeDifference],
) -> Role | None:
    """TABLE or AS_OF for a keyed stream, VIEW for a view over tables, None for any other."""
    stream, is_view = entry.stream, entry.stream.source == TABLE_VIEW
    if is_table(stream) and entry.input.window is not None:
        raise UnsupportedError(
            f"recent does not take {entry.input.label}, {'a view over tables' if is_view else 'which has a key'}",
            span=entry.input.span,
            detail="A view over tables has its current rows, however old they are."
            if is_view
            else "A keyed stream is kept at its latest rows, one for each key, however old they are.",
            hint=f"Write {stream.name} alone.",
        )
    if entry.input.join == "asof":
        _check_as_of(at, entry, entries, keys, differences)
        return Role.AS_OF
    return Role.VIEW if is_view else Role.TABLE if stream.is_keyed else None


def _check_as_of(
    at: int,
    entry: JoinEntry,
    entries: Sequence[JoinEntry],
    keys: Sequence[JoinKey],
    differences: Sequence[TimeDifference],
) -> None:
    stream, span = entry.stream, entry.input.span
    if stream.source == TABLE_VIEW:
        raise UnsupportedError(
            f"ASOF JOIN does not take {entry.input.label}, a view over tables",
            span=span,
            detail="A view has its current rows. What it had at an earlier time is not kept.",
            hint="Write JOIN, or ASOF JOIN with the table itself and the conditions of the view.",
        )
    if not stream.is_keyed or stream.time is None:
        missing = [
            word for word, is_there in (("key", stream.is_keyed), ("time", stream.time)) if not is_there
        ]
        raise UnsupportedError(
            f"ASOF JOIN finds the row of a key that was the latest at a time; {stream.name} has no {' and no '.join(missing)}",
            span=span,
            hint=f"Declare {stream.name} with PRIMARY KEY and TBLPROPERTIES (time='…'), or write JOIN.",
        )
    lefts = [other for other in entries if not is_table(other.stream)]
    if len(lefts) != 1 or lefts[0].stream.time is None:
        raise UnsupportedError(
            f"ASOF JOIN needs one stream without a key, and with a time at which {stream.name} is looked up",
            span=span,
            hint="Join one stream with tables: FROM trades t ASOF JOIN quotes q ON t.sym = q.sym.",
        )
    sides = {_bare(key.side(at)) for key in keys if at in (key.left, key.right)}
    left_out = [column for column in stream.key if column not in sides]
    if left_out:
        raise UnsupportedError(
            f"ASOF JOIN needs an equality for each column of the key of {stream.name}; there is none for {left_out[0]}",
            span=span,
            hint=f"Add AND {lefts[0].input.alias}.… = {entry.input.alias}.{left_out[0]}.",
        )
    left = entries.index(lefts[0])
    for difference in differences:
        later = (difference.left, difference.right) == (left, at)
        accepted = (">=", "=") if later else ("<=", "=")
        is_between = {difference.left, difference.right} == {left, at}
        is_plain = is_between and difference.low == difference.high == 0
        if is_plain and difference.operator not in accepted:
            raise UnsupportedError(
                f"ASOF JOIN takes the latest row of {stream.name} at or before the time of {lefts[0].label}",
                span=span,
                hint=f"Write {lefts[0].input.alias}.{lefts[0].stream.time} >= {entry.input.alias}.{stream.time}, "
                "or leave it out.",
            )


def _bare(e: Expression) -> str | None:
    """The column that a key is, perhaps cast to another type."""
    while isinstance(e, Call) and e.function == "cast":
        e = e.arguments[0]
    return e.name if isinstance(e, Column) else None


def hidden_places(entries: Sequence[JoinEntry], keys: Sequence[JoinKey]) -> frozenset[int]:
    """The inputs of LEFT SEMI JOIN of which several rows may match. One looked up by its whole key is a JOIN without columns.

    Between tables it is one in any case: a row that it looks up may change while the result does not.
    Raises UnsupportedError unless tables are looked up: a row of a stream then has all its matches when it comes.
    """
    found: set[int] = set()
    are_tables = all(is_table(entry.stream) for entry in entries)
    for at, entry in enumerate(entries):
        if entry.input.join != "left semi":
            continue
        stream, span, words = entry.stream, entry.input.span, entry.input.join_words
        if not is_table(stream):
            raise UnsupportedError(
                f"{words} looks up a table; {stream.name} has no key",
                span=span,
                detail=f"Rows of {stream.name} come later, too, and a row could be a result more than once.",
                hint=f"Declare a key for {stream.name}. Or write JOIN: each match is a result. With per and cooldown an alert "
                "of a JOIN comes once.",
            )
        equated = {_distinct(key.side(at)) for key in keys if at in (key.left, key.right)}
        if are_tables or not stream.is_keyed or not equated.issuperset(stream.key):
            found.add(at)
    return frozenset(found)


def _distinct(e: Expression) -> str | None:
    """The column that a key is, if different values of the column are different keys."""
    if isinstance(e, Call) and e.function == "cast" and is_integer(e.arguments[0].type):
        e = e.arguments[0] if is_integer(e.type) or is_decimal(e.type) else e
    return e.name if isinstance(e, Column) else None


# ------------------------------------------------------------------------------------------------ for ever


def _time_words(entry: JoinEntry) -> str:
    """The time of an input, as a condition names it."""
    column, pattern = f"{entry.input.alias}.{entry.stream.time}", time_format(entry.stream)
    if pattern is None:
        return column
    return f"to_timestamp({column})" if pattern == ISO else f"to_timestamp({column}, '{pattern}')"


def _ten_minutes(stream: Stream) -> str:
    """As it is added to the time of a stream."""
    assert stream.time is not None
    if not is_numeric(stream.schema.field(stream.time).type):
        return "INTERVAL 10 MINUTES"
    return str(int(600_000_000 / UNIT_US[time_unit(stream) or "us"]))


def _unbounded_error(
    entries: Sequence[JoinEntry], unbounded: Sequence[int], streams: Sequence[int]
) -> UnsupportedError:
    is_outer = any(entry.input.join in ("left", "left anti", "right") for entry in entries)
    place = unbounded[-1] if is_outer else unbounded[0]  # of an outer join, only its other side helps
    first, other = entries[place], entries[next(at for at in streams if at != place)]
    names = " and ".join(dict.fromkeys(entries[at].stream.name for at in unbounded))
    ways = []
    if first.stream.time is not None and other.stream.time is not None:
        a, b = _time_words(first), _time_words(other)
        ways.append(f"add AND {b} BETWEEN {a} AND {a} + {_ten_minutes(first.stream)}")
    ways.append(f"write recent({first.stream.name}, 100)")
    ways.append(f"declare a key for {first.stream.name}, so that only the latest row of each is kept")
    return UnsupportedError(
        "the query would need unbounded memory",
        span=first.input.span,
        detail=f"Each row of {names} may match a row still to come, so it would have to be kept for ever.",
        hint=f"Bound it: {', or '.join(ways)}.",
    )


def refuse_undecided(entries: Sequence[JoinEntry], roles: Sequence[Role], reach: Reach) -> None:
    """Refuse an outer join in which it is never known that a row of the left has no match."""
    left, right = entries
    is_right = left.input.join == "right"
    join = left.input.join_words if is_right else right.input.join_words
    if roles[0].is_table and roles[1].is_table:
        return  # it is known of the rows there are, and changes with them
    if roles[0].is_table and not roles[1].is_table:
        place, one, two = ("last", left, right) if is_right else ("first", right, left)
        is_keyed = left.stream.is_keyed
        kind = "which has a key" if is_keyed else "a view over tables"
        side = f"{'left' if is_right else 'right'} side that {'has one' if is_keyed else 'is a table'} too"
        raise UnsupportedError(
            f"{join} of {left.input.label}, {kind}, takes a {side}",
            span=(left if is_right else right).input.span,
            detail=f"A row of {left.input.label} may find a match as long as it is there.",
            hint=f"Put the stream {place}: FROM {one.input.label} … {join} {two.input.label}, or write JOIN.",
        )
    if roles[1].is_table or roles[0] is Role.CURRENT or reach[0][1] is not None:
        return
    ways = []
    if left.stream.time is not None and right.stream.time is not None:
        a, b = _time_words(left), _time_words(right)
        ways.append(f"add AND {b} <= {a} + {_ten_minutes(left.stream)} to ON")
    if left.window is None:
        ways.append(f"write recent({right.stream.name}, 100)")
    raise UnsupportedError(
        f"{join} cannot tell that a row of {left.label} will never find a match",
        span=(left if is_right else right).input.span,
        detail=f"A row of {right.stream.name} that matches may always come later.",
        hint=f"Say how much later: {', or '.join(ways)}."
        if ways
        else "Declare a time for both, and bound it in ON.",
    )
