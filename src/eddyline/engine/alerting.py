"""Step 4b: the results of a committed round move alerts.

One reader goes through the outbox in round order, with the round's own now(). What a round did to alerts, which messages are
sent and how far the reader has come are one transaction. A round for which that could not be written is made up for by the next
one, or when the home is opened again: from the outbox, in round order, so that the outcome is the same as if nothing had failed.

A round that brings no row of an alert query, at a time when no alert is due, writes nothing; the cursor on the disk follows now
and then. Which queries are alert queries is a mask by id (catalog/alert_queries.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from eddyline.batch import PartMatches, QueryIds
from eddyline.catalog import AlertChanges, AlertEnd, AlertLog, Catalog, PastQuery, Registration, StoredAlert
from eddyline.delivery import (
    FIRING,
    OPEN,
    AlertTiming,
    MatchingRow,
    alert_transitions,
    jsonable,
    row_changes,
)
from eddyline.engine.alert_words import (
    AlertRow,
    AlertRows,
    AlertRule,
    Form,
    result_id,
    written,
)
from eddyline.engine.durable import Durable
from eddyline.engine.round_work import Work
from eddyline.engine.silencing import Silencing
from eddyline.filters import FilterOutput
from eddyline.model import (
    CLOSED,
    FORGOTTEN,
    AlertKey,
    Message,
    Properties,
    Round,
    Shape,
    is_alert,
)
from eddyline.sql import message_template, per_columns, table_keys
from eddyline.storage import CLOSED_ROWS, OUTBOX, StoredPart
from eddyline.types import python_values

CURSOR_EVERY = 64  # rounds without alerts after which the cursor on the disk follows
MOST_FORMS = 10_000


@dataclass(slots=True)
class AlertingCounters:
    """How much work the step did."""

    n_rounds: int = 0  # that had something to do
    n_rows: int = 0  # of alert queries
    n_states: int = 0  # that were read
    n_written: int = 0  # transactions
    n_caught_up: int = 0  # rounds read back from the outbox
    n_fired: int = 0
    n_resolved: int = 0
    n_suppressed: int = 0
    n_unformatted: int = 0  # messages that could not be made of their row
    n_withheld: int = 0  # messages that silences kept from being sent


class Alerting:
    """Moves alerts, round by round. The caller holds the engine's lock."""

    def __init__(self, catalog: Catalog, durable: Durable | None, time_zone: str) -> None:
        self.listeners: list[Callable[[Message], None]] = []
        self.counters = AlertingCounters()
        self._catalog = catalog
        self._durable = durable
        self._zone = ZoneInfo(time_zone)
        self._log = None if durable is None else durable.alerts
        self.silencing = Silencing(lambda: self.log, is_new=durable is None)
        self._forms: dict[tuple[Properties, int, tuple[tuple[str, ...], ...] | None], Form] = {}
        self._ends: dict[tuple[int, int], AlertEnd] = {}  # of queries whose open alerts have to resolve
        self._dropped: dict[int, int] = {}  # queries, and the version they were dropped with
        self._next_due_us: int | None = None
        self._n_open: Counter[str] | None = None  # by state: counted once, then kept up to date
        self.cursor = self._stored = 0  # the last round that was looked at, and what the disk says
        if durable is not None:
            self.cursor = self._stored = durable.alerts.cursor()
            self._next_due_us = durable.alerts.next_due_us()

    @property
    def log(self) -> AlertLog:
        """States, messages and counts."""
        if self._log is None:
            self._log = AlertLog.in_memory()
        return self._log

    def forget(self, count: int) -> int:
        """Remove all but the newest messages; returns how many, some of them if there are many."""
        return 0 if self._log is None else self._log.forget(0, count)

    def close(self) -> None:
        if self._durable is None and self._log is not None:
            self._log.close()

    # ----------------------------------------------------------------------------------------- the step

    def after(self, round_: Round, work: Work) -> list[Message]:
        """Step 4b of a round that has committed, and of those before it that failed here; returns the messages to send."""
        messages = self.catch_up(round_.number - 1) if self.cursor < round_.number - 1 else []
        parts: Iterable[StoredPart | PartMatches] = ()
        if self._catalog.alerts.any:
            if self._durable is not None:
                parts = [part for part in work.matches if isinstance(part, StoredPart)]
            elif work.outputs is not None:
                parts = self.alert_parts(work.outputs.values())
            parts = [*parts, *work.closed_rows]
        return messages + self._follow(round_, parts)

    def catch_up(self, until: int) -> list[Message]:
        """Rounds that committed and have not moved alerts yet, up to this one, from the outbox; returns the messages to send."""
        messages: list[Message] = []
        if self._durable is None:  # there is nothing to read back
            self.cursor = max(self.cursor, until)
            return messages
        alerts, rounds = self._catalog.alerts, self._durable.rounds
        since = rounds.version_of(self.cursor)
        alerts.mark(self.log.past_queries.ended_since(since, alerts.sinks))
        has_states = bool(self.log.with_states())
        if not alerts.any and not has_states:
            self._advance(until)
            return messages
        kinds = (OUTBOX, CLOSED_ROWS) if alerts.any else ()
        listed = [file for kind in kinds for file in rounds.files.after(kind, self.cursor)]
        for round_ in rounds.after(self.cursor):
            if round_.number <= until:
                mine = [file for file in listed if file.round_number == round_.number]
                self.counters.n_caught_up += 1
                messages += self._follow(
                    round_, [part for file in mine for part in self._durable.parts(file)]
                )
        self.cursor = max(self.cursor, until)
        return messages

    def set_sinks(self, names: Iterable[str]) -> None:
        """Which sinks take alerts: from the next round on, queries delivered to them are alert queries."""
        before = self._catalog.alerts.sinks
        self._catalog.set_alert_sinks(names)
        if self._durable is not None and self._catalog.alerts.sinks != before and self._stored < self.cursor:
            self._write(AlertChanges(), self.cursor)  # rounds before are not read again with other sinks

    def say(
        self, query: str, text: str, row: Mapping[str, Any], severity: str, round_number: int, now_us: int
    ) -> Message:
        """A message of the engine itself, under a name that is no query's: it fires, and never resolves."""
        message = Message(
            id=self.log.last_id() + 1,
            status=FIRING,
            query=query,
            query_id=0,
            generation=0,
            owner="",
            key={},
            severity=severity,
            message=text,
            row=jsonable(row),
            result="",
            round=round_number,
            at_us=now_us,
            since_us=now_us,
            n_rows=1,
            n_suppressed=0,
        )
        self._write(AlertChanges(messages=[message]), self.cursor)
        return message

    def rule(self, query_id: int, generation: int) -> AlertRule | None:
        """The alert rule of a query in a generation, present or past; None if it is no alert query, or not known any more."""
        registration: Registration | PastQuery | None = self._catalog.queries.running_registration(
            query_id, generation
        )
        end = self._ends.get((query_id, generation))
        if registration is None:
            registration = (
                self.log.past_queries.find(query_id, generation)
                if end is None or end.registration is None
                else end.registration
            )
        if registration is None or not is_alert(registration.properties, self._catalog.alerts.sinks):
            return None
        name = registration.name if isinstance(registration, PastQuery) else registration.name(query_id)
        return AlertRule(name, self._form(registration.properties, registration.shape))

    def _form(self, properties: Properties, shape: Shape) -> Form:
        table_key = self._catalog.relations.table_key
        keys = table_keys(shape, table_key)
        form = self._forms.get((properties, id(shape), keys))
        if form is None:
            if len(self._forms) >= MOST_FORMS:
                self._forms.clear()
            message = properties.message
            template = None if message is None else message_template(message, shape.output)
            timing = AlertTiming.of(properties, is_over_tables=keys is not None)
            form = Form(properties, shape, timing, per_columns(properties, shape, table_key), template)
            self._forms[properties, id(shape), keys] = form  # keeps the shape, so that no other gets its id
        return form

    # ----------------------------------------------------------------------------------------- one round

    def _follow(self, round_: Round, parts: Iterable[StoredPart | PartMatches]) -> list[Message]:
        """What a round does to alerts, written."""
        self._take_ends()
        rules: dict[tuple[int, int], AlertRule | None] = {}

        def rule_of(query_id: int, generation: int) -> AlertRule | None:
            if (query_id, generation) not in rules:
                rules[query_id, generation] = self.rule(query_id, generation)
            return rules[query_id, generation]

        rows = self._rows(round_, parts, rule_of)
        ended = {key: end for key, end in self._ends.items() if end.version <= round_.version}
        dropped = {i for i, version in self._dropped.items() if version <= round_.version}
        is_due = self._next_due_us is not None and self._next_due_us <= round_.now_us
        holding = self.silencing.holding(round_.version, round_.now_us)
        released = self.silencing.released(round_, holding)
        if not rows.entries and not ended and not dropped and not is_due and not released:
            self._advance(round_.number)
            return []
        self.counters.n_rounds += 1
        self.counters.n_rows += len(rows.entries)
        stored = self._stored_states(round_.now_us, rows, ended)
        reasons = {key: end.reason for key, end in ended.items()}
        keys = {key[:2] for key in stored} | {row.key[:2] for row in rows.entries}
        forms = {key: rule.form for key in keys if (rule := rule_of(*key)) is not None}
        unknown = AlertTiming()

        def timing_of(key: AlertKey) -> AlertTiming:
            return forms[key[:2]].timing if key[:2] in forms else unknown

        matching = [
            (
                MatchingRow(row.key, result_id(round_, row.arrival, row.key)),
                row.has_appeared,
                row.leave_reason,
            )
            for row in rows.entries
        ]
        of_tables = [each for each in matching if timing_of(each[0].key).is_over_tables]
        result = alert_transitions(
            round_.now_us,
            [row for row, _, _ in matching if not timing_of(row.key).is_over_tables],
            {key: each.state for key, each in stored.items()},
            timing_of,
            reasons | {key: "dropped" for key in keys if key not in forms and key not in reasons},
            [
                change
                for reason in ("", FORGOTTEN, CLOSED)
                for change in row_changes(
                    (each[:2] for each in of_tables if each[2] == reason), reason or None
                )
            ],
        )
        next_id = self.log.last_id() + 1 + sum(message is not None for message in released.values())
        changes = written(round_, rows, stored, result, rule_of, next_id, self._zone)
        changes.dropped_query_ids = self.log.known_query_ids(dropped)
        self.silencing.withhold(
            changes,
            result.notices,
            holding,
            released,
            lambda key: key[:2] not in forms or forms[key[:2]].timing.is_lasting,
        )
        self._write(changes, round_.number)
        self.silencing.written(changes, holding)
        self._count(changes, stored)
        for key in ended:
            del self._ends[key]
        for query_id in dropped:
            del self._dropped[query_id]
        self._note_ended({key[:2] for key, state in result.states.items() if state is not None})
        self.cursor = round_.number
        return [message for message in changes.messages if message.silence is None]

    def _advance(self, number: int) -> None:
        """Nothing came of the rounds up to this one."""
        self.cursor = max(self.cursor, number)
        if self._durable is not None and self.cursor - self._stored >= CURSOR_EVERY:
            self._write(AlertChanges(), self.cursor)

    def _write(self, changes: AlertChanges, cursor: int) -> None:
        self.log.write(changes, cursor)
        self.counters.n_written += 1
        self._stored = cursor
        if changes.states:
            self._next_due_us = self.log.next_due_us()

    def n_open(self) -> dict[str, int]:
        """How many alerts are open, by state; after the first time without looking at them."""
        if self._n_open is None:
            self._n_open = Counter()
            for states in () if self._log is None else self._log.n_open().values():
                self._n_open.update(states)
        return {state: self._n_open[state] for state in OPEN}

    def _count(self, changes: AlertChanges, stored: Mapping[AlertKey, StoredAlert]) -> None:
        """Count what was written, so that how many there are is known without reading them."""
        counters = self.counters
        for counts in changes.counts.values():
            counters.n_fired += counts.n_fired
            counters.n_resolved += counts.n_resolved
            counters.n_suppressed += counts.n_suppressed
            counters.n_unformatted += counts.n_unformatted
        counters.n_withheld += sum(changes.silences.values())
        if self._n_open is not None:
            for key, after in changes.states.items():
                before = stored.get(key)
                self._n_open.subtract([] if before is None else [before.state.state])
                self._n_open.update([] if after is None else [after.state.state])

    def _take_ends(self) -> None:
        """Note the queries that ended since the last round; after the catalog was read from disk, all that are not active."""
        ends = self._catalog.alerts.take_ends()
        if ends is None:
            self._note_ended(self.log.with_states())
            for query_id in self.log.counted_query_ids():
                if self._catalog.queries.find_name(query_id) is None:
                    self._dropped[query_id] = self._catalog.version
            return
        for end in ends:
            self._ends.setdefault((end.query_id, end.generation), end)
            if end.reason == "dropped":
                self._dropped[end.query_id] = end.version

    def _note_ended(self, keys: Iterable[tuple[int, int]]) -> None:
        """Alerts of inactive queries will resolve. A round that began before a query ended may bring rows of it afterwards."""
        for query_id, generation in keys:
            key = query_id, generation
            if key not in self._ends and self._catalog.queries.running_registration(*key) is None:
                version, reason = self.log.past_queries.end_of(*key)
                self._ends[key] = AlertEnd(version, query_id, generation, reason, None)

    def _stored_states(
        self, now_us: int, rows: AlertRows, ended: Mapping[tuple[int, int], AlertEnd]
    ) -> dict[AlertKey, StoredAlert]:
        """The stored states of the keys that this round may change."""
        log = self.log
        known = log.known_query_ids({query_id for query_id, _ in ended})
        found = [each for key in ended if key[0] in known for each in log.of_query(*key)]
        if self._next_due_us is not None and self._next_due_us <= now_us:
            found += log.due_alerts(now_us)
        stored = {each.key: each for each in found}
        touched = dict.fromkeys(row.key for row in rows.entries if row.key not in stored)
        stored.update((each.key, each) for each in log.states(touched))
        self.counters.n_states += len(stored)
        return stored

    # ----------------------------------------------------------------------------------------- rows

    def alert_parts(self, outputs: Iterable[FilterOutput]) -> Iterator[PartMatches]:
        """Matches of alert queries alone, as they left the filters."""
        for output in outputs:
            if output.n_matches:
                ids = output.query_ids()
                ids = ids[self._catalog.alerts.among(ids)]
                if len(ids):
                    yield from output.only(ids.tolist()).all_parts()

    def _rows(
        self,
        round_: Round,
        parts: Iterable[StoredPart | PartMatches],
        rule_of: Callable[[int, int], AlertRule | None],
    ) -> AlertRows:
        found = AlertRows()
        for part in parts:
            pairs = np.flatnonzero(self._catalog.alerts.among(part.query_ids))
            if not len(pairs):
                continue
            ids: QueryIds = part.query_ids[pairs]
            if isinstance(part, StoredPart):
                generations = part.generations[pairs]
            else:
                generations = self._catalog.queries.generations_at(ids, round_.version)
            batch, number = part.project(pairs), len(found.batches)
            found.batches.append(batch)
            columns: dict[str, list[Any]] = {}
            texts: dict[tuple[tuple[str, ...], tuple[Any, ...]], str] = {}
            has_appeared = (part.signs[pairs] > 0).tolist()
            marks = zip(part.arrivals[pairs].tolist(), ids.tolist(), generations.tolist(), strict=True)
            for place, (arrival, query_id, generation) in enumerate(marks):
                rule = rule_of(query_id, generation)
                if rule is None or not (has_appeared[place] or rule.form.timing.is_over_tables):
                    continue
                form = rule.form
                for name in form.per:
                    if name not in columns:
                        columns[name] = python_values(batch.column(name))
                values = tuple(columns[name][place] for name in form.per)
                try:
                    text = texts.get((form.per, values))
                    if text is None:
                        text = texts[form.per, values] = form.key_text(values)
                except TypeError:  # lists and structures are not hashed
                    text = form.key_text(values)
                key = query_id, generation, text
                row = AlertRow(arrival, query_id, key, number, place, has_appeared[place], part.leave_reason)
                found.entries.append(row)
        found.entries.sort()
        return found
