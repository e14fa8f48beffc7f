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


class AlertTiming(NamedTuple):
    """The durations of an alert query in microseconds; 0 is none."""

    cooldown_us: int = 0
    for_us: int = 0
    resolve_us: int = 0

    @classmethod
    def of(cls, properties: Properties) -> AlertTiming:
        return cls(properties.cooldown_us or 0, properties.for_us or 0, properties.resolve_us or 0)


class MatchingRow(NamedTuple):
    """A matching row of a key; `result` is its id."""

    key: AlertKey
    result: str


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
) -> AlertTransitions:
    """A round: queries that ended take their keys along, then time has passed, then its rows come, in their order.

    `states` has the keys of `rows`, those that are due and those of ended queries, as far as they are known; `ended_query_ids`
    says of a query and generation why it is no longer active.
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
            if state.state == FIRING:
                result.notices.append(AlertNotice(RESOLVED, key, state))
            result.states[key] = _closed_state(timing_of(key), state, now_us)
    for key, row in rows:
        known = result.states[key] if key in result.states else states.get(key)
        timing = timing_of(key)
        step = _opened_by if timing.resolve_us else _instant
        result.states[key] = step(timing, known, now_us, MatchingRow(key, row), result)
    return result


def due_us(timing: AlertTiming, state: AlertState) -> int:
    """When a key has to be looked at, if no row comes before."""
    if state.state != COOLING:
        return state.last_us + timing.resolve_us
    assert state.fired_us is not None, state
    return state.fired_us + REMEMBERED * timing.cooldown_us


def _closed_state(timing: AlertTiming, state: AlertState, now_us: int) -> AlertState | None:
    """What is left of a key that is due."""
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
