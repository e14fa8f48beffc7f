"""Transitions of alerts: states and matching rows in, new states and notices out. No clock, no disk, no engine.

An alert query has keys, one per value of its `per` columns. All times are the round's now(), so the rows of a round come at once,
and what was read can be read again: the same rounds always give the same states and messages.

Without `resolve` an alert is an instant: every matching row of a key fires.

    nothing  --row-->  fires; cooling for `cooldown`, in which rows are suppressed and counted

With `resolve` it has a duration: it is open from its first matching row until `resolve` has passed without another.

    nothing  --row-->  pending   with `for`, until its rows span that long
                       held      within `cooldown` of the last firing: open, no notice, suppressed once
                       firing    notice
    pending  --row-->  held or firing, when the rows span `for`
    held     --row-->  firing, when the cool-down is over
    open     --time->  resolved: notice if it fired; cooling if its last firing is not long ago, else nothing

Over tables rows leave as well as appear, and an alert is open while its key has rows. What a round did to the rows of a key is
summed up before anything moves, so a row that takes the place of another in one round neither resolves nor fires.

    nothing  --rows->  pending   with `for`, until it has had rows that long
                       held      within `cooldown` of the last firing: open, no notice, suppressed once
                       firing    notice
    pending  --time->  held or firing, when it has had rows for `for`
    held     --time->  firing, when the cool-down is over
    open     --none->  resolved, when its last row left: notice if it fired; cooling or nothing as above

Rows of aggregates that no row takes away, since `keep` forgets their group or their window closes, leave after all other
changes of the round: an alert whose window opens and closes in one round fires and resolves.

The number of rows of an open alert that an earlier format stored is not known, and 0. It resolves with the next row that leaves,
or after the `resolve` that its query was registered with.

A key that is cooling is remembered for one more cool-down than it is silent, so that its next firing can say how many were held
back. A round without its rows in between changes nothing but the time of a resolution's notice. A round whose work was shared
may have begun before the one that committed before it, and so be at an earlier time: an open alert never becomes younger by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from eddyline.model import AlertKey, AlertState, Properties

PENDING, FIRING, HELD, COOLING = "pending", "firing", "held", "cooling"
OPEN = (PENDING, FIRING, HELD)
RESOLVED = "resolved"
REMEMBERED = 2  # cool-downs after a firing
NEVER = (1 << 63) - 1  # no time of a round


class AlertTiming(NamedTuple):
    """The durations of an alert query in microseconds; 0 is none."""

    cooldown_us: int = 0
    for_us: int = 0
    resolve_us: int = 0
    is_over_tables: bool = False

    @classmethod
    def of(cls, properties: Properties, *, is_over_tables: bool = False) -> AlertTiming:
        durations = properties.cooldown_us or 0, properties.for_us or 0, properties.resolve_us or 0
        return cls(*durations, is_over_tables)

    @property
    def is_lasting(self) -> bool:
        """Whether its alerts are open for a time and resolve."""
        return self.resolve_us > 0 or self.is_over_tables


class MatchingRow(NamedTuple):
    """A matching row of a key; `result` is its id."""

    key: AlertKey
    result: str


class RowChanges(NamedTuple):
    """What a round did to the rows of a key of a query over tables."""

    key: AlertKey
    n_more: int  # rows after the round, less those before it
    n_least: int  # rows that the key must have had before it, since they left
    result: str | None  # id of the row that appeared last; None: none did
    reason: str | None = None  # why they left, if no row took them away


def row_changes(rows: Iterable[tuple[MatchingRow, bool]], reason: str | None = None) -> list[RowChanges]:
    """The changes of each key, summed up: rows in their order, and whether each appeared or left, all for one reason."""
    found: dict[AlertKey, RowChanges] = {}
    for (key, row), has_appeared in rows:
        _, n_more, n_least, result, _ = found.get(key) or RowChanges(key, 0, 0, None)
        n_more += 1 if has_appeared else -1
        result = row if has_appeared else result
        found[key] = RowChanges(key, n_more, max(n_least, -n_more), result, reason)
    return list(found.values())


class AlertNotice(NamedTuple):
    """A key fires or resolves. `state` is the one before, with what had been held back until then."""

    status: str
    key: AlertKey
    state: AlertState
    reason: str | None = None


@dataclass(slots=True)
class AlertTransitions:
    """What a round did: new states of keys (None: the key is over), notices, and keys that were held back."""

    states: dict[AlertKey, AlertState | None] = field(default_factory=dict)
    notices: list[AlertNotice] = field(default_factory=list)
    suppressed_keys: list[AlertKey] = field(default_factory=list)


def alert_transitions(
    now_us: int,
    rows: Iterable[MatchingRow],
    states: Mapping[AlertKey, AlertState],
    timing_of: Callable[[AlertKey], AlertTiming],
    ended_query_ids: Mapping[tuple[int, int], str],
    changes: Iterable[RowChanges] = (),
) -> AlertTransitions:
    """A round: queries that ended take their keys along, then time has passed, then its rows come, in their order, and `changes`.

    `states` has the keys of `rows` and `changes`, those that are due and those of ended queries, as far as they are known;
    `ended_query_ids` says of a query and generation why it is no longer active.
    """
    result = AlertTransitions()
    open_states: list[tuple[int, AlertKey, AlertState]] = []
    for key, state in sorted(states.items()):
        reason = ended_query_ids.get(key[:2])
        if reason is None:
            open_states.append((due_us(timing_of(key), state), key, state))
            continue
        result.states[key] = None
        if state.state == FIRING:
            result.notices.append(AlertNotice(RESOLVED, key, state, reason))
    for due, key, state in sorted(open_states):
        if due <= now_us:
            timing = timing_of(key)
            if timing.is_over_tables and state.state in (PENDING, HELD) and state.n_rows:
                result.states[key] = _fired_if_due(
                    timing, state, now_us, MatchingRow(key, state.result), result
                )
            else:
                result.states[key] = _resolved(timing, state, now_us, key, result)
    for key, row in rows:
        known = result.states[key] if key in result.states else states.get(key)
        timing = timing_of(key)
        step = _opened_by if timing.resolve_us else _instant
        result.states[key] = step(timing, known, now_us, MatchingRow(key, row), result)
    for change in changes:
        key = change.key
        known = result.states[key] if key in result.states else states.get(key)
        result.states[key] = _changed(timing_of(key), known, now_us, change, result)
    return result


def due_us(timing: AlertTiming, state: AlertState) -> int:
    """When a key has to be looked at, if no row comes before; NEVER if time changes nothing."""
    if state.state == COOLING:
        assert state.fired_us is not None, state
        return state.fired_us + REMEMBERED * timing.cooldown_us
    if not timing.is_over_tables or not state.n_rows:
        return state.last_us + timing.resolve_us
    if state.state == PENDING:
        return state.first_us + timing.for_us
    if state.state == FIRING:
        return NEVER
    assert state.fired_us is not None, state
    return state.fired_us + timing.cooldown_us


def _resolved(
    timing: AlertTiming,
    state: AlertState,
    now_us: int,
    key: AlertKey,
    result: AlertTransitions,
    reason: str | None = None,
) -> AlertState | None:
    """What is left of a key whose time is over, or which has no rows any more."""
    if state.state == FIRING:
        result.notices.append(AlertNotice(RESOLVED, key, state, reason))
    if state.fired_us is None or now_us >= state.fired_us + REMEMBERED * timing.cooldown_us:
        return None
    return state._replace(state=COOLING)


def _instant(
    timing: AlertTiming, state: AlertState | None, now_us: int, row: MatchingRow, result: AlertTransitions
) -> AlertState | None:
    """A matching row of an alert without duration."""
    n_suppressed = 0 if state is None else state.n_suppressed
    if state is not None and _is_cool(timing, state, now_us):
        result.suppressed_keys.append(row.key)
        return state._replace(last_us=max(state.last_us, now_us), n_suppressed=n_suppressed + 1)
    fired = AlertState(COOLING, now_us, now_us, now_us, 1, n_suppressed, row.result)
    result.notices.append(AlertNotice(FIRING, row.key, fired))
    return fired._replace(n_suppressed=0) if timing.cooldown_us else None


def _opened_by(
    timing: AlertTiming, state: AlertState | None, now_us: int, row: MatchingRow, result: AlertTransitions
) -> AlertState:
    """A matching row of an alert that lasts."""
    if state is None:
        state = AlertState(PENDING, now_us, now_us, None, 1, 0, row.result)
    elif state.state == COOLING:
        state = state._replace(state=PENDING, first_us=now_us, last_us=now_us, n_rows=1, result=row.result)
    else:
        state = state._replace(last_us=max(state.last_us, now_us), n_rows=state.n_rows + 1)
    return _fired_if_due(timing, state, now_us, row, result)


def _changed(
    timing: AlertTiming, state: AlertState | None, now_us: int, change: RowChanges, result: AlertTransitions
) -> AlertState | None:
    """Rows of a key of a query over tables appeared or left."""
    is_open = state is not None and state.state != COOLING
    n_rows = max(state.n_rows if state is not None and is_open else 0, change.n_least) + change.n_more
    row = change.result
    if state is not None and is_open:
        if not n_rows:
            return _resolved(timing, state, now_us, change.key, result, change.reason)
        last_us = max(state.last_us, now_us)
        return state._replace(last_us=last_us, n_rows=n_rows, result=row or state.result)
    if not n_rows:
        return state
    assert row is not None, change
    fired_us, n_suppressed = (None, 0) if state is None else (state.fired_us, state.n_suppressed)
    opened = AlertState(PENDING, now_us, now_us, fired_us, n_rows, n_suppressed, row)
    return _fired_if_due(timing, opened, now_us, MatchingRow(change.key, row), result)


def _fired_if_due(
    timing: AlertTiming, state: AlertState, now_us: int, row: MatchingRow, result: AlertTransitions
) -> AlertState:
    """The state of an open key once it may fire, with this row."""
    if state.state == FIRING or (state.state == PENDING and now_us - state.first_us < timing.for_us):
        return state
    if _is_cool(timing, state, now_us):
        if state.state == PENDING:
            result.suppressed_keys.append(row.key)
            state = state._replace(state=HELD, n_suppressed=state.n_suppressed + 1)
        return state
    fired = state._replace(state=FIRING, fired_us=now_us, result=row.result)
    result.notices.append(AlertNotice(FIRING, row.key, fired))
    return fired._replace(n_suppressed=0)


def _is_cool(timing: AlertTiming, state: AlertState, now_us: int) -> bool:
    """Whether the last firing is less than a cool-down ago."""
    return state.fired_us is not None and now_us - state.fired_us < timing.cooldown_us
