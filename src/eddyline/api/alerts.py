"""Alerts in the user's hands: what is open, what was said, and being told."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from eddyline.api.subscribers import Subscribers, Subscription, WhenFull
from eddyline.catalog.alerts import StoredAlert
from eddyline.delivery.alerts import OPEN
from eddyline.engine import RoundEngine
from eddyline.engine.alert_words import SEVERITY
from eddyline.errors import PropertyError, did_you_mean
from eddyline.model import Message, iso_time
from eddyline.notebook import html_table

IDLE_S = 0.5  # how often a reader that follows is looked after when nothing happens
AT_ONCE = 1_000  # messages read with the lock held


@dataclass(frozen=True, slots=True)
class Alert:
    """An open alert: a key of a query that has matching rows now."""

    query: str
    query_id: int
    generation: int
    owner: str
    key: dict[str, Any]  # the `per` columns
    state: str  # pending: not for long enough yet; firing; held: not told, the last firing is too recent
    severity: str
    message: str
    row: dict[str, Any]  # that opened it or, once it fires, made it fire
    result: str  # id of that row
    since_us: int
    last_us: int  # when its last matching row came
    n_rows: int
    n_suppressed: int

    def as_dict(self) -> dict[str, Any]:
        """In what JSON has, times in UTC."""
        return {
            "query": self.query,
            "query_id": self.query_id,
            "generation": self.generation,
            "owner": self.owner,
            "key": self.key,
            "state": self.state,
            "severity": self.severity,
            "message": self.message,
            "row": self.row,
            "result": self.result,
            "since": iso_time(self.since_us),
            "last": iso_time(self.last_us),
            "n_rows": self.n_rows,
            "n_suppressed": self.n_suppressed,
        }


class AlertList(list[Alert]):
    """Open alerts, the oldest first."""

    def _repr_html_(self) -> str:
        columns = ("query", "key", "state", "severity", "since", "message")
        rows = [(a.query, a.key, a.state, a.severity, iso_time(a.since_us), a.message) for a in self]
        return html_table(f"{len(self)} open alerts", columns, rows)


def open_alerts(
    rounds: RoundEngine, query_id: int | None, owner: str | None, state: str | None
) -> list[Alert]:
    """Open alerts of a query, of an owner, in a state, or all; the oldest first."""
    if state is not None and state not in OPEN:
        raise PropertyError(
            f"there is no state {state!r} of an alert", hint=did_you_mean(state, OPEN, noun="state")
        )
    with rounds.lock:
        rounds.check_open()
        found = (_alert(rounds, stored) for stored in rounds.alerting.log.open(query_id))
        return [
            alert
            for alert in found
            if (owner is None or alert.owner == owner) and (state is None or alert.state == state)
        ]


def _alert(rounds: RoundEngine, stored: StoredAlert) -> Alert:
    query_id, generation, key = stored.key
    rule = rounds.alerting.rule(query_id, generation)
    return Alert(
        query=f"q{query_id}" if rule is None else rule.name,
        query_id=query_id,
        generation=generation,
        owner="" if rule is None else rule.form.properties.owner,
        key=json.loads(key),
        state=stored.state.state,
        severity=SEVERITY if rule is None else rule.form.severity,
        message=stored.message,
        row=json.loads(stored.row),
        result=stored.state.result,
        since_us=stored.state.first_us,
        last_us=stored.state.last_us,
        n_rows=stored.state.n_rows,
        n_suppressed=stored.state.n_suppressed,
    )


def messages(
    rounds: RoundEngine, after: int, newest: int | None, query_id: int | None, owner: str | None
) -> list[Message]:
    """Messages that are kept, after an id, of a query, of an owner, or all; the oldest first, or only the newest."""
    with rounds.lock:
        rounds.check_open()
        return rounds.alerting.log.find(after=after, newest=newest, query_id=query_id, owner=owner)


def follow_messages(
    rounds: RoundEngine, after: int | None, newest: int | None, query_id: int | None, owner: str | None
) -> Iterator[Message | None]:
    """Messages after an id, or the `newest`, then all that come. Yields None now and then while nothing comes."""
    if after is None:
        with rounds.lock:
            rounds.check_open()
            after = rounds.alerting.log.last_id()
            kept = rounds.alerting.log.find(newest=newest or 0, query_id=query_id, owner=owner)
        yield from kept
    while not rounds.is_closed:
        with rounds.lock:
            rounds.check_open()
            last = rounds.alerting.log.last_id()
            found = rounds.alerting.log.find(after=after, limit=AT_ONCE, query_id=query_id, owner=owner)
            if not found and after == last:
                rounds.delivered.wait(IDLE_S)
        yield from found
        after = found[-1].id if found else last
        if not found:
            yield None


def on_message(
    rounds: RoundEngine,
    subscribers: Subscribers,
    callback: Callable[[Message], None],
    queue: int | None,
    when_full: WhenFull,
) -> Subscription:
    """Call `callback` with every message from now on, in the round or from a queue, until what is returned is called."""
    with rounds.lock:
        rounds.check_open()
        queued = subscribers.open_queue(callback, queue, when_full)

        def tell(message: Message) -> None:
            if queued is None:
                callback(message)
            else:
                queued.offer(message.round, 1, lambda first, last: [message][first:last])

        rounds.alerting.listeners.append(tell)

    def end() -> None:
        with rounds.lock:
            if tell in rounds.alerting.listeners:
                rounds.alerting.listeners.remove(tell)
            if queued is not None:
                queued.stop()

    return Subscription(end, queued)
