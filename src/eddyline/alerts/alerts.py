"""Alerts for the user: those open, the messages they sent, and subscribing to them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from eddyline.catalog import Acknowledgement, Silence, StoredAlert, has_values
from eddyline.delivery import OPEN
from eddyline.engine import SEVERITY, AlertRule, RoundEngine
from eddyline.errors import PropertyError, did_you_mean
from eddyline.model import Message, iso_time
from eddyline.notebook import html_table
from eddyline.runtime import Subscribers, Subscription, WhenFull

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
    state: (
        str  # pending: not for long enough yet; firing; held: no message yet, the last firing is too recent
    )
    severity: str
    message: str
    row: dict[str, Any]  # that opened it or, once it fires, made it fire
    result: str  # id of that row
    since_us: int
    last_us: int  # when its last matching row came
    n_rows: int
    n_suppressed: int
    acknowledgement: Acknowledgement | None = None  # who took notice of it
    silence: Silence | None = None  # that keeps its messages from being sent

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
            "acknowledgement": None if self.acknowledgement is None else self.acknowledgement.as_dict(),
            "silence": None if self.silence is None else self.silence.as_dict(),
        }


class AlertList(list[Alert]):
    """Open alerts, the oldest first."""

    def _repr_html_(self) -> str:
        columns = ("query", "key", "state", "severity", "since", "message")
        rows = [(a.query, a.key, a.state, a.severity, iso_time(a.since_us), a.message) for a in self]
        return html_table(f"{len(self)} open alerts", columns, rows)


class OpenAlert(NamedTuple):
    """An alert as it is stored, and what goes with it; cheaper than an `Alert` where only a few of many are shown."""

    stored: StoredAlert
    rule: AlertRule | None  # None: forgotten
    key: dict[str, Any]
    acknowledgement: Acknowledgement | None
    silence: Silence | None

    @property
    def query(self) -> str:
        return f"q{self.stored.key[0]}" if self.rule is None else self.rule.name

    @property
    def owner(self) -> str:
        return "" if self.rule is None else self.rule.form.properties.owner

    @property
    def severity(self) -> str:
        return SEVERITY if self.rule is None else self.rule.form.severity

    def alert(self) -> Alert:
        query_id, generation, _ = self.stored.key
        state = self.stored.state
        return Alert(
            query=self.query,
            query_id=query_id,
            generation=generation,
            owner=self.owner,
            key=self.key,
            state=state.state,
            severity=self.severity,
            message=self.stored.message,
            row=json.loads(self.stored.row),
            result=state.result,
            since_us=state.first_us,
            last_us=state.last_us,
            n_rows=state.n_rows,
            n_suppressed=state.n_suppressed,
            acknowledgement=self.acknowledgement,
            silence=self.silence,
        )


def find_open(
    rounds: RoundEngine, query_id: int | None = None, owner: str | None = None
) -> Iterator[OpenAlert]:
    """Open alerts of a query, of an owner, or all; the oldest first. The caller holds the lock."""
    alerting = rounds.alerting
    holding = alerting.silencing.holding(rounds.catalog.version, rounds.next_now_us())
    noted = alerting.log.silences.open_acknowledgements(query_id)
    rule_of = cache(alerting.rule)
    for stored in alerting.log.open_alerts(query_id):
        rule = rule_of(*stored.key[:2])
        found = OpenAlert(stored, rule, json.loads(stored.key[2]), noted.get(stored.key), None)
        if owner is None or found.owner == owner:
            by = (stored.key[0], found.query, found.owner, found.severity, found.key)
            yield found._replace(silence=next((each for each in holding if each.has(*by)), None))


def open_alerts(
    rounds: RoundEngine,
    query_id: int | None = None,
    owner: str | None = None,
    state: str | None = None,
    *,
    key: Mapping[str, Any] | None = None,
    severity: str | None = None,
    is_silenced: bool | None = None,
    is_acknowledged: bool | None = None,
) -> list[Alert]:
    """Open alerts of a query, of an owner, in a state, or all; the oldest first."""
    if state is not None and state not in OPEN:
        raise PropertyError(
            f"there is no state {state!r} of an alert", hint=did_you_mean(state, OPEN, noun="state")
        )
    with rounds.lock:
        rounds.check_open()
        return [
            found.alert()
            for found in find_open(rounds, query_id, owner)
            if state in (None, found.stored.state.state)
            and severity in (None, found.severity)
            and is_silenced in (None, found.silence is not None)
            and is_acknowledged in (None, found.acknowledgement is not None)
            and has_values(found.key, key or {})
        ]


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
            stored_messages = rounds.alerting.log.find(newest=newest or 0, query_id=query_id, owner=owner)
        yield from stored_messages
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
