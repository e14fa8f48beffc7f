"""Alerts on disk: the state of every key, the messages sent, and their counts.

What a round changes is one transaction, together with the cursor that says up to which round alerts have been moved; so after a
crash a round has moved them wholly or not at all. An engine in memory uses the same tables in memory.

The caller holds the engine's lock: all of it goes through the one connection of the catalog.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from eddyline.catalog.checksums import COLUMN, checked_row
from eddyline.catalog.database import Database
from eddyline.catalog.past_alert_queries import PastAlertQueries
from eddyline.catalog.silences import SilenceLog, Withheld
from eddyline.catalog.versions import AT_ONCE
from eddyline.documents import AlertCounts
from eddyline.model import AlertKey, AlertState, Message

READER = "alerts"  # of the cursor
_MESSAGE = "id, round, query_id, owner, body, key"
_STATE = "state, first_us, last_us, fired_us, n_rows, n_suppressed, result"
_BODY = ("status", "query", "generation", "key", "severity", "message", "row", "result", "at_us", "since_us", "n_rows",
         "n_suppressed", "reason", "deliver", "silence", "n_withheld")  # fmt: skip


class StoredAlert(NamedTuple):
    """One key: its state, the row that goes with it as JSON, its message, and when it has to be looked at again."""

    key: AlertKey
    state: AlertState
    row: str
    message: str
    due_us: int


@dataclass(slots=True)
class AlertChanges:
    """What one round, or several, did to alerts: to be written together."""

    states: dict[AlertKey, StoredAlert | None] = field(default_factory=dict)  # None: forgotten
    messages: list[Message] = field(default_factory=list)
    counts: dict[int, AlertCounts] = field(default_factory=dict)  # by query: to be added
    dropped_query_ids: set[int] = field(default_factory=set)  # queries whose counts go
    withheld: dict[AlertKey, Withheld | None] = field(default_factory=dict)  # None: nothing any more
    silences: dict[int, int] = field(
        default_factory=dict
    )  # messages that were withheld, by silence: to be added

    def __bool__(self) -> bool:
        return bool(self.states or self.messages or self.counts or self.dropped_query_ids)


class AlertLog:
    """The tables of alerts and their messages; `silences`, and what alerts still ask of `past_queries`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection = database.connection
        self.silences = SilenceLog(database)
        self.past_queries = PastAlertQueries(database)

    @classmethod
    def in_memory(cls) -> AlertLog:
        """For an engine without a home."""
        return cls(Database(Path(":memory:")))

    def close(self) -> None:
        """Let go of tables in memory; those of a home are closed with it."""
        self._database.close()

    def transaction(self) -> AbstractContextManager[None]:
        """A block whose writes are committed together, or not at all."""
        return self._database.transaction()

    # ----------------------------------------------------------------------------------------- messages

    def messages_after(self, message_id: int, limit: int) -> list[Message]:
        """Messages with later ids, oldest first, no more than `limit`."""
        return self.find(after=message_id, limit=limit)

    def find(
        self,
        *,
        after: int = 0,
        newest: int | None = None,
        limit: int | None = None,
        query_id: int | None = None,
        owner: str | None = None,
    ) -> list[Message]:
        """Messages after an id, of one query or owner if given, oldest first: the first `limit` or the `newest` of them."""
        count = -1 if newest is None and limit is None else min(n for n in (newest, limit) if n is not None)
        rows = self._connection.execute(
            f"SELECT {_MESSAGE}, {COLUMN} FROM messages WHERE id > ?1"
            + ("" if query_id is None else " AND query_id = ?2")
            + ("" if owner is None else " AND owner = ?3")
            + f" ORDER BY id{'' if newest is None else ' DESC'} LIMIT ?4",
            (after, query_id, owner, count),
        ).fetchall()
        found = [_read_message(row) for row in rows]
        return found if newest is None else found[::-1]

    def of_key(self, query_id: int, keys: Sequence[str], newest: int) -> list[Message]:
        """The newest messages of a query with one of these keys, in all its generations; the oldest first."""
        marks = ", ".join("?" * len(keys))
        plain = ", ".join(["json(?)"] * len(keys))
        rows = self._connection.execute(
            f"SELECT {_MESSAGE}, {COLUMN} FROM messages WHERE query_id = ? AND (key IN ({marks}) OR"
            f" (key IS NULL AND json_extract(body, '$.key') IN ({plain}))) ORDER BY id DESC LIMIT ?",  # NULL: before format 5
            (query_id, *keys, *keys, newest),
        ).fetchall()
        return [_read_message(row) for row in rows[::-1]]

    def first_id(self) -> int:
        """The id of the oldest message that is kept; if none is, that of the next. Ids are dense: those before it are gone."""
        row = self._connection.execute("SELECT min(id) FROM messages").fetchone()
        return self.last_id() + 1 if row[0] is None else int(row[0])

    def last_id(self) -> int:
        """The id of the last message there was, kept or not."""
        row = self._connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'messages'").fetchone()
        return 0 if row is None else int(row[0])

    # ----------------------------------------------------------------------------------------- states

    def cursor(self) -> int:
        """The last round whose results have moved alerts."""
        row = self._connection.execute("SELECT round FROM cursors WHERE reader = ?", (READER,)).fetchone()
        return 0 if row is None else int(row[0])

    def next_due_us(self) -> int | None:
        """When the first alert has to be looked at; None if there is none."""
        row = self._connection.execute("SELECT min(due_us) FROM alerts").fetchone()
        return None if row[0] is None else int(row[0])

    def due_alerts(self, now_us: int) -> list[StoredAlert]:
        """Alerts that have to be looked at by now, the longest overdue first."""
        return self._read_alerts("WHERE due_us <= ? ORDER BY due_us, query_id, generation, key", (now_us,))

    def states(self, keys: Iterable[AlertKey]) -> Iterator[StoredAlert]:
        """Those of these keys that are known."""
        for key in keys:
            yield from self._read_alerts("WHERE query_id = ? AND generation = ? AND key = ?", key)

    def of_query(self, query_id: int, generation: int) -> list[StoredAlert]:
        """All keys of one generation of a query."""
        return self._read_alerts("WHERE query_id = ? AND generation = ? ORDER BY key", (query_id, generation))

    def open_alerts(self, query_id: int | None = None) -> list[StoredAlert]:
        """Open alerts, the oldest first, of one query or of all."""
        of = "" if query_id is None else "query_id = ? AND "
        return self._read_alerts(
            f"WHERE {of}state <> 'cooling' ORDER BY first_us, query_id, generation, key",
            () if query_id is None else (query_id,),
        )

    def n_open(self, query_id: int | None = None) -> dict[int, dict[str, int]]:
        """How many keys of each query, or of one, are open: pending, firing and held."""
        found: dict[int, dict[str, int]] = {}
        rows = self._connection.execute(
            f"SELECT query_id, state, count(*) FROM alerts WHERE {'' if query_id is None else 'query_id = ? AND '}"
            "state <> 'cooling' GROUP BY query_id, state",
            () if query_id is None else (query_id,),
        )
        for query_id, state, n in rows:
            found.setdefault(int(query_id), {})[str(state)] = int(n)
        return found

    def counted_query_ids(self) -> list[int]:
        """Queries that have counts."""
        return [
            int(query_id) for (query_id,) in self._connection.execute("SELECT query_id FROM alert_counts")
        ]

    def with_states(self) -> list[tuple[int, int]]:
        """Query and generation of all alerts that are known."""
        rows = self._connection.execute("SELECT DISTINCT query_id, generation FROM alerts")
        return [(int(query_id), int(generation)) for query_id, generation in rows]

    def known_query_ids(self, query_ids: Collection[int]) -> set[int]:
        """Those of these queries of which there are states or counts."""
        if len(query_ids) > AT_ONCE:
            rows = self._connection.execute(
                "SELECT query_id FROM alert_counts UNION SELECT query_id FROM alerts"
            )
            return {int(query_id) for (query_id,) in rows} & set(query_ids)
        return {
            query_id
            for query_id in query_ids
            if self._connection.execute(
                "SELECT 1 FROM alert_counts WHERE query_id = ?1 UNION SELECT 1 FROM alerts WHERE query_id = ?1 LIMIT 1",
                (query_id,),
            ).fetchone()
        }

    def counts(self, query_id: int) -> AlertCounts:
        """How often a query fired, and so on, since it was registered."""
        row = self._connection.execute(
            "SELECT n_fired, n_resolved, n_suppressed, n_unformatted FROM alert_counts WHERE query_id = ?",
            (query_id,),
        ).fetchone()
        return AlertCounts() if row is None else AlertCounts(*row)

    def write(self, changes: AlertChanges, cursor: int) -> None:
        """What rounds up to `cursor` did to alerts, in one transaction. Messages have the ids that follow the last one."""
        stored_states = [each for each in changes.states.values() if each is not None]
        with self._database.transaction():
            self._connection.executemany(
                "DELETE FROM alerts WHERE query_id = ? AND generation = ? AND key = ?",
                [key for key, each in changes.states.items() if each is None],
            )
            self._connection.executemany(
                f"INSERT OR REPLACE INTO alerts (query_id, generation, key, {_STATE}, row, message, due_us)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [(*each.key, *each.state, each.row, each.message, each.due_us) for each in stored_states],
            )
            self._connection.executemany(
                f"INSERT INTO messages ({_MESSAGE}) VALUES (?, ?, ?, ?, ?, ?)",
                [(m.id, m.round, m.query_id, m.owner, _body(m), json.dumps(m.key)) for m in changes.messages],
            )
            if changes.withheld or changes.silences:
                self._write_withheld(changes)
            self._connection.executemany(
                "INSERT INTO alert_counts (query_id, n_fired, n_resolved, n_suppressed, n_unformatted)"
                " VALUES (?, ?, ?, ?, ?) ON CONFLICT (query_id) DO UPDATE SET"
                " n_fired = n_fired + excluded.n_fired, n_resolved = n_resolved + excluded.n_resolved,"
                " n_suppressed = n_suppressed + excluded.n_suppressed,"
                " n_unformatted = n_unformatted + excluded.n_unformatted",
                [(query_id, *counts) for query_id, counts in changes.counts.items()],
            )
            self._connection.executemany(
                "DELETE FROM alert_counts WHERE query_id = ?",
                [(query_id,) for query_id in changes.dropped_query_ids],
            )
            self._connection.execute(
                "INSERT OR REPLACE INTO cursors (reader, round, place) VALUES (?, ?, 0)", (READER, cursor)
            )

    def forget(self, before_round: int, count: int) -> int:
        """Remove messages of earlier rounds, and all but the newest `count`; returns how many, AT_ONCE at most."""
        surplus = self.last_id() - count
        oldest = self._connection.execute("SELECT id, round FROM messages ORDER BY id LIMIT 1").fetchone()
        if oldest is None or (oldest[0] > surplus and oldest[1] >= before_round):
            return 0
        rows = self._connection.execute("SELECT id, round FROM messages ORDER BY id LIMIT ?", (AT_ONCE,))
        old = [(message_id,) for message_id, number in rows if message_id <= surplus or number < before_round]
        with self._database.transaction():
            self._connection.executemany("DELETE FROM messages WHERE id = ?", old)
        return len(old)

    def _write_withheld(self, changes: AlertChanges) -> None:
        self._connection.executemany(
            "DELETE FROM withheld WHERE query_id = ? AND generation = ? AND key = ?",
            [key for key, each in changes.withheld.items() if each is None],
        )
        self._connection.executemany(
            "INSERT OR REPLACE INTO withheld (query_id, generation, key, first_status, n_messages, owner, body)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                (*key, each.first_status, each.n_messages, each.last.owner, _body(each.last))
                for key, each in changes.withheld.items()
                if each is not None
            ],
        )
        self._connection.executemany(
            "UPDATE silences SET n_withheld = n_withheld + ? WHERE id = ?",
            [(n, silence_id) for silence_id, n in changes.silences.items()],
        )

    def withheld(self, keys: Iterable[AlertKey] | None = None) -> dict[AlertKey, Withheld]:
        """What silences keep back of these keys, or of all."""
        text = "SELECT query_id, generation, key, first_status, n_messages, owner, body FROM withheld"
        if keys is None:
            rows = self._connection.execute(text).fetchall()
        else:
            one = f"{text} WHERE query_id = ? AND generation = ? AND key = ?"
            rows = [row for key in keys for row in self._connection.execute(one, key)]
        return {
            (query_id, generation, key): Withheld(first, n, _message(0, 0, query_id, owner, body))
            for query_id, generation, key, first, n, owner, body in rows
        }

    def _read_alerts(self, where: str, values: Sequence[Any]) -> list[StoredAlert]:
        rows = self._connection.execute(
            f"SELECT query_id, generation, key, {_STATE}, row, message, due_us FROM alerts {where}", values
        )
        return [
            StoredAlert((query_id, generation, key), AlertState(*rest[:-3]), *rest[-3:])
            for query_id, generation, key, *rest in rows
        ]


def _body(message: Message) -> str:
    return json.dumps({name: getattr(message, name) for name in _BODY})


def _read_message(row: tuple[Any, ...]) -> Message:
    return _message(*checked_row("messages", row)[:-1])


def _message(message_id: int, round_number: int, query_id: int, owner: str, body: str) -> Message:
    stored: Mapping[str, Any] = json.loads(body)
    return Message(
        id=message_id,
        round=round_number,
        query_id=query_id,
        owner=owner,
        **{**stored, "deliver": tuple(stored["deliver"])},
    )
