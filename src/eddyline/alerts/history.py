"""What happened to one alert, from everything that is kept about its key."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from eddyline.alerts.silencing import check_key
from eddyline.catalog import Acknowledgement, Silence
from eddyline.engine import RoundEngine
from eddyline.errors import PropertyError
from eddyline.model import Message, iso_time

Entry = tuple[int, int, dict[str, Any]]  # when, before or after others of the same time, what


def alert_history(
    rounds: RoundEngine, query_id: int, query: str, key: Mapping[str, Any] | None, newest: int
) -> list[dict[str, Any]]:
    """What happened to a key of a query, as far as it is kept, the oldest first; each entry has `at` and `event`:

    opened, firing, resolved, acknowledged, silenced, silence ended, and sent: the message after a silence.
    """
    with rounds.lock:
        rounds.check_open()
        per = check_key(rounds, query_id, query, key or {})
        missing = [name for name in per if name not in (key or {})]
        if missing:
            raise PropertyError(
                f"the history of an alert of {query} needs its key: {', '.join(missing)}",
                hint="Name one value of each column of per.",
            )
        log, catalog = rounds.alerting.log, rounds.catalog
        keys = _key_texts(per, key or {})
        entries = [*_of_messages(log.of_key(query_id, keys, newest))]
        entries += map(_of_acknowledgement, log.silences.acknowledgements_of(query_id, keys))
        rule = rounds.alerting.rule(query_id, catalog.record(query_id).generation)
        assert rule is not None, query
        version, now_us = catalog.version, rounds.next_now_us()
        for silence in rounds.alerting.log.silences.all():
            if silence.has(query_id, rule.name, rule.form.properties.owner, rule.form.severity, key or {}):
                entries += _of_silence(silence, is_over=not silence.holds(version, now_us))
    entries.sort(key=lambda each: each[:2])
    return [{"at": iso_time(at_us)} | facts for at_us, _, facts in entries[max(0, len(entries) - newest) :]]


def _key_texts(per: Sequence[str], key: Mapping[str, Any]) -> list[str]:
    """The texts under which a key may be stored: a shell knows texts alone, so '7' may be 7."""
    values = []
    for name in per:
        value = key[name]
        meant = [value]
        if isinstance(value, str):
            try:
                read = json.loads(value)
            except ValueError:
                read = None
            meant += [read] if value == "null" or isinstance(read, (int, float)) else []
        values.append(meant)
    found = itertools.islice(itertools.product(*values), 64)
    return [json.dumps(dict(zip(per, each, strict=True))) for each in found]


def _of_messages(messages: Sequence[Message]) -> Iterator[Entry]:
    for message in messages:
        facts: dict[str, Any] = {
            "event": "sent" if message.n_withheld else message.status,
            "status": message.status,
            "message": message.message,
            "severity": message.severity,
            "id": message.id,
            "reason": message.reason,
            "silence": message.silence,
            "n_suppressed": message.n_suppressed,
            "n_withheld": message.n_withheld,
        }
        if facts["event"] == "firing" and message.since_us < message.at_us:
            yield message.since_us, 0, {"event": "opened"}
        yield message.at_us, 2, facts


def _of_acknowledgement(acknowledgement: Acknowledgement) -> Entry:
    return (
        acknowledgement.at_us,
        3,
        {"event": "acknowledged", "by": acknowledgement.by, "note": acknowledgement.note},
    )


def _of_silence(silence: Silence, *, is_over: bool) -> Iterator[Entry]:
    about = {"silence": silence.id, "until": iso_time(silence.until_us), "reason": silence.reason}
    yield silence.at_us, 3, {"event": "silenced", "by": silence.by, **about}
    if is_over:
        yield silence.end_us, 1, {"event": "silence ended", "silence": silence.id, "by": silence.ended_by}
