"""What a webhook sends: plain JSON, or what Alertmanager takes at /api/v2/alerts."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from eddyline.delivery.sinks.batches import Item
from eddyline.model import iso_time

WEBHOOK_FORMATS = ("json", "alertmanager")
ALERTMANAGER_PATH = "/api/v2/alerts"
# Alertmanager takes an alert for over when it is said to end, or when it was not repeated for five minutes. One that a message
# of its own will resolve ends so far away that the message comes first; an instant has no end, and is over after these minutes.
LASTING_US = 365 * 86_400_000_000
_NOT_LABEL = re.compile(r"[^A-Za-z0-9_]")


def json_body(items: Sequence[Item], *, sink: str, home_id: str, delivery: str) -> bytes:
    """An object with the messages, or results, as a list."""
    head = json.dumps({"sink": sink, "home": home_id, "delivery": delivery}, ensure_ascii=False)
    word = "results" if items[0].message is None else "messages"
    return f'{head[:-1]}, "{word}": [{", ".join(item.text for item in items)}]}}'.encode("utf-8", "replace")


def alertmanager_body(items: Sequence[Item], *, public_url: str | None) -> bytes:
    """A list of alerts. An alert is identified by its labels: the query, its owner, its severity and its key."""
    return json.dumps([_alert(item, public_url) for item in items]).encode()


def _alert(item: Item, public_url: str | None) -> dict[str, Any]:
    message = item.message
    assert message is not None, item.id
    fixed = {"alertname": message.query, "severity": message.severity, "owner": message.owner}
    alert: dict[str, Any] = {
        "labels": _named_texts(fixed, message.key, "key"),
        "annotations": _named_texts({"summary": message.message}, message.row, "row"),
        "startsAt": iso_time(message.since_us),
    }
    if message.status == "resolved":
        alert["endsAt"] = iso_time(message.at_us)
    elif item.is_lasting:
        alert["endsAt"] = iso_time(message.at_us + LASTING_US)
    if public_url is not None:
        page = f"/#/rules/q{message.query_id}" if message.query_id else ""
        alert["generatorURL"] = public_url.rstrip("/") + page
    return alert


def _named_texts(fixed: dict[str, str], columns: dict[str, Any], word: str) -> dict[str, str]:
    """Texts by names Alertmanager takes; a column whose name is taken gets `word` before it. NULL and empty texts do not come."""
    found = {name: text for name, text in fixed.items() if text}
    for column, value in columns.items():
        name = _NOT_LABEL.sub("_", column)
        if name in fixed or name in found or not name or name[0].isdigit():
            name = f"{word}_{name}"
        while name in found:
            name += "_"
        text = value if isinstance(value, str) else "" if value is None else json.dumps(value)
        if text:
            found[name] = text
    return found
