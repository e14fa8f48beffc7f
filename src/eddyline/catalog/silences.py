"""Silences and acknowledgements: which alerts send no messages for a while, and which were acknowledged.

A silence is a change of the catalog and has a version: it holds for the rounds of that version and later, until the round's now()
reaches its end, or until the version that ended it early. So whether a message is withheld follows from its round alone, however
often the round is read.

An acknowledgement belongs to one alert from its opening to its resolution: to a key and the time since which it is open. When the
key opens again it is another alert, which is not acknowledged.

The caller holds the engine's lock.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from eddyline.catalog.database import Database
from eddyline.errors import UnknownNameError
from eddyline.model import AlertKey, Message, iso_time

_SILENCE = (
    "id, query, query_id, key, severity, owner, who, reason, at_us, until_us, version_from, version_to, ended_us, ended_by,"
    " n_withheld"
)


@dataclass(frozen=True, slots=True)
class Silence:
    """Alerts whose messages are not sent: of a query, or of all whose names fit a pattern."""

    id: int
    query: str  # a name, or a pattern of names
    query_id: int | None  # None: a pattern
    key: dict[str, Any]  # the values these columns of `per` have to have; none: every key
    severity: str | None  # None: any
    owner: str | None  # None: of all owners
    by: str
    reason: str
    at_us: int
    until_us: int
    version: int  # from which on it holds
    ended_version: int | None  # with which it was ended early
    ended_us: int | None
    ended_by: str
    n_withheld: int  # messages

    def holds(self, version: int, now_us: int) -> bool:
        """Whether it holds for a round of this version at this time."""
        if self.ended_version is not None and version >= self.ended_version:
            return False
        return version >= self.version and now_us < self.until_us

    def has(self, query_id: int, query: str, owner: str, severity: str, key: Mapping[str, Any]) -> bool:
        """Whether it is about this alert."""
        if self.query_id is None:
            if not fnmatch.fnmatchcase(query, self.query):
                return False
        elif self.query_id != query_id:
            return False
        return self.owner in (None, owner) and self.severity in (None, severity) and has_values(key, self.key)

    def has_message(self, message: Message) -> bool:
        """Whether it is about the alert of this message."""
        return self.has(message.query_id, message.query, message.owner, message.severity, message.key)

    @property
    def end_us(self) -> int:
        """When it ended, or will."""
        return self.until_us if self.ended_us is None else min(self.ended_us, self.until_us)

    def as_dict(self) -> dict[str, Any]:
        """In what JSON has, times in UTC."""
        return {
            "id": self.id,
            "query": self.query,
            "query_id": self.query_id,
            "key": self.key,
            "severity": self.severity,
            "owner": self.owner,
            "by": self.by,
            "reason": self.reason,
            "at": iso_time(self.at_us),
            "until": iso_time(self.until_us),
            "ended": None if self.ended_us is None else iso_time(self.ended_us),
            "ended_by": self.ended_by,
            "n_withheld": self.n_withheld,
        }


def has_values(key: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    """Whether the columns of a key have these values; 7 and '7' are the same, as a shell knows texts alone."""
    return all(name in key and _text(key[name]) == _text(value) for name, value in values.items())


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """An alert was acknowledged."""

    by: str
    at_us: int
    note: str
    since_us: int  # since when the alert is open

    def as_dict(self) -> dict[str, Any]:
        return {"by": self.by, "at": iso_time(self.at_us), "note": self.note}


class Withheld(NamedTuple):
    """What silences kept back of a key: how the first message began it, and the last message."""

    first_status: str
    n_messages: int
    last: Message

    def then(self, message: Message) -> Withheld:
        return self._replace(n_messages=self.n_messages + 1, last=message)


class SilenceLog:
    """The tables of silences and acknowledgements."""

    def __init__(self, database: Database) -> None:
        self._connection = database.connection
        self._database = database

    def all(self) -> list[Silence]:
        """Silences that hold, will not hold again, or are kept to be looked at; the oldest first."""
        rows = self._connection.execute(f"SELECT {_SILENCE} FROM silences ORDER BY id")
        return [_silence(*row) for row in rows]

    def get(self, silence_id: int) -> Silence:
        row = self._connection.execute(
            f"SELECT {_SILENCE} FROM silences WHERE id = ?", (silence_id,)
        ).fetchone()
        if row is None:
            raise UnknownNameError(
                f"there is no silence {silence_id}",
                hint="eddyline silence list shows them; one that is long over is forgotten.",
            )
        return _silence(*row)

    def add(
        self,
        *,
        query: str,
        query_id: int | None,
        key: Mapping[str, Any],
        severity: str | None,
        owner: str | None,
        by: str,
        reason: str,
        at_us: int,
        until_us: int,
        version: int,
    ) -> int:
        """Within the transaction of a version; returns the id."""
        found = self._connection.execute(
            "INSERT INTO silences (query, query_id, key, severity, owner, who, reason, at_us, until_us, version_from)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (query, query_id, json.dumps(key), severity, owner, by, reason, at_us, until_us, version),
        )
        assert found.lastrowid is not None
        return found.lastrowid

    def end(self, silence_id: int, *, by: str, at_us: int, version: int) -> None:
        """Within the transaction of a version: it holds until before that."""
        self._connection.execute(
            "UPDATE silences SET version_to = ?, ended_us = ?, ended_by = ? WHERE id = ?",
            (version, at_us, by, silence_id),
        )

    def acknowledge(self, key: AlertKey, acknowledgement: Acknowledgement) -> None:
        self._connection.execute(
            "INSERT INTO acknowledgements (query_id, generation, key, since_us, at_us, who, note) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (*key, acknowledgement.since_us, acknowledgement.at_us, acknowledgement.by, acknowledgement.note),
        )

    def open_acknowledgements(self, query_id: int | None = None) -> dict[AlertKey, Acknowledgement]:
        """Of alerts that are open, of one query or of all: the last of each."""
        rows = self._connection.execute(
            "SELECT query_id, generation, key, who, at_us, note, since_us FROM acknowledgements JOIN alerts"
            " USING (query_id, generation, key) WHERE first_us = since_us AND state <> 'cooling'"
            f"{'' if query_id is None else ' AND query_id = ?'} ORDER BY id",
            () if query_id is None else (query_id,),
        )
        return {(found_id, *rest[:2]): Acknowledgement(*rest[2:]) for found_id, *rest in rows}

    def acknowledgements_of(self, query_id: int, keys: Sequence[str]) -> list[Acknowledgement]:
        """Of all alerts a query ever had with one of these keys, the oldest first."""
        marks = ", ".join("?" * len(keys))
        rows = self._connection.execute(
            "SELECT who, at_us, note, since_us FROM acknowledgements WHERE query_id = ?"
            f" AND key IN ({marks}) ORDER BY id",
            (query_id, *keys),
        )
        return [Acknowledgement(*row) for row in rows]

    def forget(self, before_us: int) -> None:
        """Remove silences that ended before, and acknowledgements that are older and of no alert that is open."""
        old = self._connection.execute(
            "SELECT 1 FROM silences WHERE min(until_us, coalesce(ended_us, until_us)) < ?1 UNION ALL"
            " SELECT 1 FROM acknowledgements WHERE at_us < ?1 LIMIT 1",
            (before_us,),
        ).fetchone()
        if old is None:
            return
        with self._database.transaction():
            self._connection.execute(
                "DELETE FROM silences WHERE min(until_us, coalesce(ended_us, until_us)) < ?", (before_us,)
            )
            self._connection.execute(
                "DELETE FROM acknowledgements WHERE at_us < ? AND NOT EXISTS (SELECT 1 FROM alerts a WHERE"
                " a.query_id = acknowledgements.query_id AND a.generation = acknowledgements.generation"
                " AND a.key = acknowledgements.key AND a.state <> 'cooling' AND a.first_us = acknowledgements.since_us)",
                (before_us,),
            )


def _silence(silence_id: int, query: str, query_id: int | None, key: str, *rest: Any) -> Silence:
    return Silence(silence_id, query, query_id, json.loads(key), *rest)
