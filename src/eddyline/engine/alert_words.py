"""What alerts say: from keys that moved to states, messages and counts as they are written.

Rows are looked at only here, and only those that opened an alert or made one fire.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from eddyline.catalog import AlertChanges, AlertCounts, StoredAlert
from eddyline.delivery import FIRING, AlertNotice, AlertTiming, AlertTransitions, due_us, jsonable
from eddyline.model import AlertKey, AlertState, Condition, Message, Properties, Round, Shape, iso_time
from eddyline.sql import MessageTemplate
from eddyline.types import python_values

SEVERITY = "warning"  # of a query that does not say


@dataclass(frozen=True, slots=True)
class Form:
    """What alert queries of one shape with the same properties have in common."""

    properties: Properties
    shape: Shape
    timing: AlertTiming
    per: tuple[str, ...]
    template: MessageTemplate | None

    @property
    def severity(self) -> str:
        return self.properties.severity or SEVERITY

    def key_text(self, values: Sequence[Any]) -> str:
        """The key of a row with these values of `per`; zero is zero, whatever its sign.

        Homes know alerts by this text, so times in it stay as they were first written.
        """
        plain = [0.0 if isinstance(value, float) and value == 0 else value for value in values]
        plain = [str(value) if isinstance(value, datetime.datetime) else value for value in plain]
        return json.dumps(dict(zip(self.per, map(jsonable, plain), strict=True)))


@dataclass(frozen=True, slots=True)
class AlertRule:
    """An alert query in one generation."""

    name: str
    form: Form


class AlertRow(NamedTuple):
    """A row of an alert query: sorted, they are in order of arrival, then of query."""

    arrival: int
    query_id: int
    key: AlertKey
    batch: int
    place: int  # in the batch
    has_appeared: bool = True  # False: it left, which rows of tables do
    leave_reason: str = ""  # why, if no row took it away


@dataclass(slots=True)
class AlertRows:
    """The rows of alert queries in a round, projected."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    entries: list[AlertRow] = field(default_factory=list)

    def values(self, alert_rows: Mapping[str, AlertRow]) -> dict[str, dict[str, Any]]:
        """The values of these rows, under the names of `alert_rows`."""
        by_batch: dict[int, list[str]] = {}
        for name, row in alert_rows.items():
            by_batch.setdefault(row.batch, []).append(name)
        found: dict[str, dict[str, Any]] = {}
        for number, names in by_batch.items():
            batch = self.batches[number]
            if not batch.num_columns:
                found.update((name, {}) for name in names)
                continue
            columns = batch.take(pa.array([alert_rows[name].place for name in names], pa.int64())).columns
            rows = zip(*map(python_values, columns), strict=True)
            found.update(
                (name, dict(zip(batch.schema.names, row, strict=True)))
                for name, row in zip(names, rows, strict=True)
            )
        return found


class _Words(NamedTuple):
    """A row as JSON has it, and the message made of it; None if it could not be."""

    row: dict[str, Any]
    message: str | None


def written(
    round_: Round,
    rows: AlertRows,
    stored: Mapping[AlertKey, StoredAlert],
    result: AlertTransitions,
    rule_of: Callable[[int, int], AlertRule | None],
    next_id: int,
    zone: datetime.tzinfo,
) -> AlertChanges:
    """What is to be written of a round: states with their rows, messages from `next_id` on, and counts."""
    places = {result_id(round_, row.arrival, row.key): row for row in rows.entries}
    states = {key: state for key, state in result.states.items() if state is not None}
    result_ids = [notice.state.result for notice in result.notices] + [
        state.result for state in states.values()
    ]
    values = rows.values({name: places[name] for name in result_ids if name in places})
    words_by_result: dict[str, _Words] = {}  # the first that is requested is what was sent

    def words(key: AlertKey, state: AlertState, rule: AlertRule) -> _Words:
        if state.result not in places:
            return _Words(json.loads(stored[key].row), stored[key].message)
        if state.result not in words_by_result:
            row = values[state.result]
            words_by_result[state.result] = _Words(jsonable(row), _text(rule, key, state, row, zone))
        return words_by_result[state.result]

    changes = AlertChanges()
    counts: dict[int, list[int]] = {}
    for notice in result.notices:
        rule = rule_of(*notice.key[:2]) or _unknown_rule(notice.key[0])
        notice_words = words(notice.key, notice.state, rule)
        of = counts.setdefault(notice.key[0], [0, 0, 0, 0])
        of[0 if notice.status == FIRING else 1] += 1
        of[3] += notice_words.message is None
        changes.messages.append(_message(next_id + len(changes.messages), round_, notice, rule, notice_words))
    for key in result.suppressed_keys:
        counts.setdefault(key[0], [0, 0, 0, 0])[2] += 1
    for key, state in states.items():
        known = rule_of(*key[:2])
        assert known is not None, key
        row, message = words(key, state, known)
        due = due_us(known.form.timing, state)
        changes.states[key] = StoredAlert(key, state, json.dumps(row), _message_text(known, message), due)
    changes.states.update((key, None) for key in result.states if key not in states and key in stored)
    changes.counts = {query_id: AlertCounts(*of) for query_id, of in counts.items()}
    return changes


def result_id(round_: Round, arrival: int, key: AlertKey) -> str:
    return f"{round_.number}-{arrival}-{key[0]}"


def _message(message_id: int, round_: Round, notice: AlertNotice, rule: AlertRule, words: _Words) -> Message:
    properties, state = rule.form.properties, notice.state
    return Message(
        id=message_id,
        status=notice.status,
        query=rule.name,
        query_id=notice.key[0],
        generation=notice.key[1],
        owner=properties.owner,
        key=json.loads(notice.key[2]),
        severity=rule.form.severity,
        message=_message_text(rule, words.message),
        row=words.row,
        result=state.result,
        round=round_.number,
        at_us=round_.now_us,
        since_us=state.first_us,
        n_rows=state.n_rows,
        n_suppressed=state.n_suppressed,
        reason=notice.reason,
        deliver=properties.deliver,
    )


def _text(
    rule: AlertRule, key: AlertKey, state: AlertState, row: Mapping[str, Any], zone: datetime.tzinfo
) -> str | None:
    """The message over a row; None if the template cannot be filled with it."""
    shown_key = ", ".join(f"{name}={value}" for name, value in json.loads(key[2]).items())
    if rule.form.template is None:
        return f"{rule.name}: {shown_key}" if shown_key else rule.name
    extras = {
        "query": rule.name,
        "key": shown_key,
        "severity": rule.form.severity,
        "n_rows": state.n_rows,
        "since": iso_time(state.first_us),
    }
    return rule.form.template.format(row, extras, zone)


def _message_text(rule: AlertRule, message: str | None) -> str:
    """A message, or the template as it is written where it could not be filled."""
    if message is not None:
        return message
    assert rule.form.template is not None, rule.name
    return rule.form.template.text


def _unknown_rule(query_id: int) -> AlertRule:
    """The rule for messages about a query that retention has removed."""
    shape = Shape("", (), (), Condition(), ())
    return AlertRule(f"q{query_id}", Form(Properties(), shape, AlertTiming(), (), None))
