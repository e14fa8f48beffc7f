"""What a registered query says besides its text, and the states it can be in."""

from __future__ import annotations

import enum
from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Properties:
    """What TBLPROPERTIES, TOML, Python and JSON may say about a view; durations in microseconds."""

    owner: str = ""
    is_enabled: bool = True
    per: tuple[str, ...] = ()
    cooldown_us: int | None = None
    for_us: int | None = None
    resolve_us: int | None = None
    emit: str = "changes"
    keep_us: int | None = None  # how long a group stays without rows
    within_us: int | None = None
    deliver: tuple[str, ...] = ()
    message: str | None = None
    severity: str | None = None
    since: str | None = None
    memory_bytes: int | None = None


def is_alert(properties: Properties, alert_sinks: Collection[str] = ()) -> bool:
    """Whether a query with these properties is an alert query: its rows move alerts and bring messages (delivery/alerts.py).

    One without any property of alerts is one, too, if it is delivered to a sink that takes alerts: each of its rows fires.
    """
    p = properties
    return (
        bool(p.per)
        or p.cooldown_us is not None
        or p.for_us is not None
        or p.resolve_us is not None
        or p.message is not None
        or p.severity is not None
        or any(name in alert_sinks for name in p.deliver)
    )


class QueryState(enum.Enum):
    RUNNING = "running"
    PAUSED = "paused"
    SUSPENDED = "suspended"  # the engine paused it, and says why
    DROPPED = "dropped"
