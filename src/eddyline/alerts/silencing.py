"""Silencing alerts until a time, and taking notice of them: what users may say, and what becomes of it."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from typing import Any

from eddyline.alerts.alerts import Alert, open_alerts
from eddyline.catalog import Acknowledgement, Silence
from eddyline.durations import duration_text, duration_us
from eddyline.engine import RoundEngine
from eddyline.errors import PropertyError, QueryStateError, did_you_mean
from eddyline.model import iso_time
from eddyline.sql import SEVERITIES

LONGEST_US = 366 * 86_400_000_000
LONGEST_WORDS = 500  # characters of a reason or a note
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_WILD = "*?["


def is_pattern(name: str) -> bool:
    """Whether this can mean several queries."""
    return any(sign in name for sign in _WILD)


def add_silence(
    rounds: RoundEngine,
    query: str,
    query_id: int | None,
    *,
    for_: Any,
    until: Any,
    key: Mapping[str, Any] | None,
    severity: str | None,
    owner: str | None,
    reason: str,
    by: str,
) -> Silence:
    """Send no messages of a query's alerts, or of those whose names fit a pattern, until a time: one version."""
    check_words("reason", reason)
    check_words("name of who silences", by)
    if severity is not None and severity not in SEVERITIES:
        raise PropertyError(
            f"there is no severity {severity!r}", hint=did_you_mean(severity, SEVERITIES, noun="severity")
        )
    with rounds.lock:
        rounds.check_open()
        at_us = rounds.next_now_us()
        until_us = _end_us(at_us, for_, until, rounds)
        if query_id is not None:
            check_key(rounds, query_id, query, key or {})
        log = rounds.alerting.log.silences
        try:
            with rounds.catalog.change(f"silence {query} until {iso_time(until_us)}") as version:
                silence = log.add(
                    query=query,
                    query_id=query_id,
                    key=dict(key or {}),
                    severity=severity,
                    owner=owner,
                    by=by,
                    reason=reason,
                    at_us=at_us,
                    until_us=until_us,
                    version=version,
                )
        finally:
            rounds.alerting.silencing.changed()
        return log.get(silence)


def end_silence(rounds: RoundEngine, silence_id: int, *, by: str) -> Silence:
    """Let a silence hold no longer: one version. One that is over stays as it is."""
    check_words("name of who ends the silence", by)
    with rounds.lock:
        rounds.check_open()
        log = rounds.alerting.log.silences
        found = log.get(silence_id)
        if found.holds(rounds.catalog.version, rounds.next_now_us()):
            try:
                with rounds.catalog.change(f"end silence {silence_id} of {found.query}") as version:
                    log.end(silence_id, by=by, at_us=rounds.next_now_us(), version=version)
            finally:
                rounds.alerting.silencing.changed()
        return log.get(silence_id)


def silences(
    rounds: RoundEngine, query_id: int | None, owner: str | None, *, is_over: bool | None
) -> list[Silence]:
    """Silences that hold now (`is_over` False), that are over, or all (None), the oldest first."""
    with rounds.lock:
        rounds.check_open()
        version, now_us = rounds.catalog.version, rounds.next_now_us()
        found = [
            silence
            for silence in rounds.alerting.log.silences.all()
            if is_over is None or silence.holds(version, now_us) is not is_over
        ]
        if query_id is not None:
            rule = rounds.catalog.record(query_id)
            found = [
                s for s in found if s.has(query_id, rule.name, rule.properties.owner, s.severity or "", s.key)
            ]
        return [silence for silence in found if owner is None or silence.owner in (None, owner)]


def acknowledge(
    rounds: RoundEngine, query_id: int, query: str, key: Mapping[str, Any] | None, *, note: str, by: str
) -> list[Alert]:
    """Acknowledge the open alerts of a query, or of those with this key."""
    check_words("note", note)
    check_words("author of an acknowledgement", by)
    with rounds.lock:
        rounds.check_open()
        check_key(rounds, query_id, query, key or {})
        log = rounds.alerting.log
        found = open_alerts(rounds, query_id=query_id, key=key)
        if not found:
            shown = ", ".join(f"{name}={value}" for name, value in (key or {}).items())
            raise QueryStateError(
                f"no alert of {query}{f' with {shown}' if shown else ''} is open",
                hint="eddyline alerts shows those that are.",
            )
        at_us = rounds.next_now_us()
        with log.transaction():
            for alert in found:
                place = alert.query_id, alert.generation, json.dumps(alert.key)
                log.silences.acknowledge(place, Acknowledgement(by, at_us, note, alert.since_us))
        keys = [alert.key for alert in found]
        return [alert for alert in open_alerts(rounds, query_id=query_id) if alert.key in keys]


def _end_us(at_us: int, for_: Any, until: Any, rounds: RoundEngine) -> int:
    if (for_ is None) == (until is None):
        raise PropertyError(
            "a silence needs an end" if for_ is None else "a silence has one end",
            hint="Give its duration, for_='2 hours' (--for '2 hours'), or its end.",
        )
    until_us = at_us + duration_us(for_) if until is None else _moment_us(until)
    if until_us <= at_us:
        raise PropertyError(
            "a silence has to end after now",
            detail=f"It is {iso_time(at_us)}; it would end {iso_time(until_us)}."
            if until is not None
            else None,
            hint="Give its duration, such as '2 hours'.",
        )
    if until_us - at_us > LONGEST_US:
        raise PropertyError(
            f"a silence holds no longer than {duration_text(LONGEST_US)}",
            hint="Pause the query, or drop it, if its alerts are no longer needed.",
        )
    return until_us


def _moment_us(until: Any) -> int:
    """A time as Python has it or as ISO 8601 writes it; in UTC if it says nothing else."""
    at = until
    if isinstance(until, str):
        try:
            at = datetime.datetime.fromisoformat(until.strip())
        except ValueError:
            at = None
    if not isinstance(at, datetime.datetime):
        raise PropertyError(
            f"{until!r} is not a time",
            hint="Write it as 2026-01-31T08:00:00Z, or give a duration: '2 hours'.",
        )
    if at.tzinfo is None:
        at = at.replace(tzinfo=datetime.UTC)
    return (at - _EPOCH) // datetime.timedelta(microseconds=1)


def check_words(what: str, text: str) -> None:
    if len(text) > LONGEST_WORDS or (text and not text.isprintable()):
        raise PropertyError(
            f"this cannot be the {what}", hint=f"Give up to {LONGEST_WORDS} characters that can be read."
        )


def check_key(rounds: RoundEngine, query_id: int, query: str, key: Mapping[str, Any]) -> Sequence[str]:
    """Refuse a key the alerts of a query cannot have; returns the columns they have one by."""
    rule = rounds.alerting.rule(query_id, rounds.catalog.record(query_id).generation)
    if rule is None:
        raise QueryStateError(
            f"query {query} has no alerts",
            hint="Give it one of the properties per, cooldown, for, resolve, message or severity (docs/alerts.md).",
        )
    per: Sequence[str] = rule.form.per
    for name in key:
        if name not in per:
            raise PropertyError(
                f"alerts of {query} have no key column {name}",
                detail=f"They are per {', '.join(per)}." if per else "The query as a whole is one alert.",
                hint=did_you_mean(name, per, noun="column") if per else "Leave out the key.",
            )
    return per
