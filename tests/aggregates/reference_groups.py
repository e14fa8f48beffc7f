"""Groups, windows and sessions of the reference, from all rows that take part; and frames of OVER by their definition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from tests.aggregates.reference_relations import Instant, Row, is_closed, sessions, windows_of
from tests.aggregates.reference_sql import MICROSECOND, call_of, interval
from tests.aggregates.reference_values import (
    ERRS,
    MISSING,
    PASSES,
    ComputationError,
    Lookup,
    Window,
    evaluate,
    order,
    outcome,
    shown,
)
from tests.aggregates.reference_view import WINDOWS, View

ERROR = object()  # a row that cannot be computed


@dataclass
class Group:
    """A group, or a window of one, with its rows in order of (ts, g)."""

    view: View
    identity: Any
    key: tuple[Any, ...]
    members: list[Row]
    window: Window | None = None

    @property
    def place(self) -> tuple[Any, ...]:
        """Where it stands in canonical order."""
        return self.window or (), [order(value) for value in self.key]

    def row(self) -> Any:
        """The projected row; None if HAVING is not true, ERROR if it cannot be computed."""
        result = outcome(self.view.query.having, self.lookup)
        if result != PASSES:
            return ERROR if result == ERRS else None
        try:
            return {name: evaluate(tree, self.lookup) for name, tree in self.view.projections().items()}
        except ComputationError:
            return ERROR

    def lookup(self, tree: exp.Expr) -> Any:
        if isinstance(tree, exp.CurrentTimestamp):
            return self.view.round.now
        for key, value in zip(self.view.query.keys, self.key, strict=True):
            if tree == key:
                return value
        call = call_of(tree)
        if call is not None:
            return self.view.value(call, self.members)
        if not isinstance(tree, exp.Column):
            return MISSING
        if tree.name.lower() in WINDOWS:
            return self.window
        if tree.table.lower() in WINDOWS:
            return getattr(self.window, tree.name.lower())
        return self.view.alias(tree, self.lookup)

    def entry(self, values: dict[str, Any]) -> Row:
        number = max((member.number for member in self.members), default=self.view.round.number)
        return Row(values, (number,), None, number, window=self.window)

    def letter(self) -> dict[str, Any]:
        return {"group": self.key} | ({"window": tuple(self.window)} if self.window else {})


def groups(view: View) -> list[Group]:
    """All groups, or (group, window), in canonical order."""
    query = view.query
    is_timed = query.window is not None
    needed = [*query.keys, *query.calls, *([query.window.column] if is_timed else [])]
    members: dict[Any, list[Row]] = {} if query.keys or is_timed else {(): []}
    keys: dict[Any, tuple[Any, ...]] = {(): ()}
    for row in view.taking_part(needed):
        if is_timed and view.source.entries is None and (row.is_late or row.ts is None):
            continue
        values = tuple(shown(evaluate(key, view.lookup(row))) for key in query.keys)
        key = tuple(map(order, values))
        keys.setdefault(key, values)
        members.setdefault(key, []).append(row)
    found = [group for key, rows in members.items() for group in _windows(view, key, keys[key], rows)]
    return sorted(found, key=lambda group: group.place)


def _windows(view: View, key: Any, values: tuple[Any, ...], rows: list[Row]) -> Iterator[Group]:
    """A group itself, or its windows."""
    spec = view.query.window
    if spec is None:
        rows = _remembered(view, rows)
        if rows or not view.query.keys:
            yield Group(view, key, values, rows)
        return
    timed = [(time, row) for row in rows if (time := _time(view, row)) is not None]
    times = sorted({time for time, _ in timed})
    if spec.is_session:
        windows = sessions(times, spec.size)
    else:
        windows = sorted({window for time in times for window in windows_of(time, spec)})
    for window in windows:
        inside = [row for time, row in timed if window.start <= time < window.end]
        yield Group(view, (key, window.start if spec.is_session else window), values, inside, window)


def _time(view: View, row: Row) -> Instant | None:
    value = evaluate(view.query.window.column, view.lookup(row))
    return value.end - MICROSECOND if isinstance(value, Window) else value


def _remembered(view: View, rows: list[Row]) -> list[Row]:
    """The rows of a group since it was last forgotten."""
    keep, times = view.query.keep, view.round.times
    if keep is None:
        return rows
    kept: list[int] = []  # rounds with rows
    for number in sorted({row.number for row in rows}):
        kept = kept if kept and times[number] < times[kept[-1]] + keep else []
        kept.append(number)
    if kept and kept[-1] != view.round.number and view.round.now >= times[kept[-1]] + keep:
        return []
    return [row for row in rows if row.number in kept]


def final_rows(view: View) -> Iterator[Row]:
    """Windows that this round closes, by (window end, window start, key)."""
    spec, before, after = view.query.window, view.source.before, view.source.after
    closing = [
        g for g in groups(view) if is_closed(g.window, spec, after) > is_closed(g.window, spec, before)
    ]
    time, number = view.time(), view.round.number
    for at, group in enumerate(sorted(closing, key=lambda g: (g.window.end, g.place))):
        values = group.row()
        if values is ERROR:
            view.letters.append(group.letter())
        elif values is not None:
            yield Row(values, (number, at), group.window.end - MICROSECOND if time else None, number)


# --------------------------------------------------------------------------------------------- frames


def over_rows(view: View) -> Iterator[Row]:
    """A result for each row of the round that takes part, in order of arrival."""
    parts = [part for call in view.query.calls for part in call.args.get("partition_by") or []]
    rows = [r for r in view.taking_part([*view.query.calls, *parts]) if not r.is_late and r.ts is not None]
    for row in sorted(rows, key=lambda row: row.g):
        if row.number == view.round.number:
            yield from view.projected(row, _frame_lookup(view, row, rows), view.query.qualify)


def _frame_lookup(view: View, row: Row, rows: Sequence[Row]) -> Lookup:
    plain = view.lookup(row)

    def found(tree: exp.Expr) -> Any:
        if isinstance(tree, exp.Window):
            return _over(view, tree, row, rows)
        known = plain(tree)
        return view.alias(tree, found) if known is MISSING and isinstance(tree, exp.Column) else known

    return found


def _over(view: View, tree: exp.Window, row: Row, rows: Sequence[Row]) -> Any:
    """The value of an aggregate over the frame of a row, or of lag."""
    call, parts = call_of(tree.this), tree.args.get("partition_by") or []

    def partition(one: Row) -> list[Any]:
        return [order(evaluate(part, view.lookup(one))) for part in parts]

    mine = partition(row)
    before = [x for x in rows if x.g <= row.g and (x.ts, x.g) <= (row.ts, row.g) and partition(x) == mine]
    if call.function == "lag":
        words = [evaluate(argument, view.lookup(row)) for argument in call.arguments[1:]]
        n_back, default = (*words, *(1, None)[len(words) :])
        return (
            evaluate(call.arguments[0], view.lookup(before[-1 - n_back])) if n_back < len(before) else default
        )
    return view.value(call, _framed(tree.args.get("spec"), before, row))


def _framed(spec: exp.WindowSpec | None, before: Sequence[Row], row: Row) -> Sequence[Row]:
    """The frame of a row, of the rows before it and itself."""
    start = spec.args["start"] if spec else "UNBOUNDED"
    if isinstance(start, str):
        assert start.upper() == "UNBOUNDED", start
        return before
    if isinstance(start, exp.Interval):
        return [x for x in before if x.ts >= row.ts - interval(start)]
    return before[-1 - int(start.name) :]
