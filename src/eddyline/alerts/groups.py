"""Open alerts by rule, with counts, as a page of them shows it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from eddyline.alerts.alerts import OpenAlert, find_open
from eddyline.delivery import OPEN
from eddyline.engine import RoundEngine
from eddyline.model import iso_time
from eddyline.sql import SEVERITIES


@dataclass(slots=True)
class _Group:
    """The open alerts of one query that fit; only the first few are shown."""

    first: OpenAlert
    shown: list[OpenAlert] = field(default_factory=list)
    n: int = 0
    n_acknowledged: int = 0
    n_silenced: int = 0
    states: Counter[str] = field(default_factory=Counter)
    last_us: int = 0

    def add(self, found: OpenAlert, most: int) -> None:
        self.n += 1
        self.n_acknowledged += found.acknowledgement is not None
        self.n_silenced += found.silence is not None
        self.states[found.stored.state.state] += 1
        self.last_us = max(self.last_us, found.stored.state.last_us)
        if len(self.shown) < most:
            self.shown.append(found)

    def order(self) -> tuple[Any, ...]:
        """The gravest first, then the one that is open longest."""
        return -SEVERITIES.index(self.first.severity), self.first.stored.state.first_us, self.first.stored.key

    def as_dict(self) -> dict[str, Any]:
        first = self.first
        return {
            "query": first.query,
            "query_id": first.stored.key[0],
            "owner": first.owner,
            "severity": first.severity,
            "n": self.n,
            "n_acknowledged": self.n_acknowledged,
            "n_silenced": self.n_silenced,
            "states": {state: self.states[state] for state in OPEN},
            "since": iso_time(first.stored.state.first_us),
            "last": iso_time(self.last_us),
            "alerts": [each.alert().as_dict() for each in self.shown],
        }


def alert_groups(
    rounds: RoundEngine,
    *,
    query_id: int | None = None,
    owner: str | None = None,
    search: str | None = None,
    state: str | None = None,
    severity: str | None = None,
    is_silenced: bool | None = None,
    is_acknowledged: bool | None = None,
    most: int = 100,
    most_alerts: int = 50,
) -> dict[str, Any]:
    """Open alerts by query, the gravest first: of those that fit, `most` queries and `most_alerts` of each.

    `search` is a part of the name, the key or the message. Counts are of all that fit it, whatever their state, severity and
    whether they are silenced or acknowledged, so that they say what another choice would show.
    """
    needle = (search or "").casefold()
    counts: Counter[str] = Counter()
    states: Counter[str] = Counter()
    severities: Counter[str] = Counter()
    groups: dict[int, _Group] = {}
    n_found = 0
    with rounds.lock:
        rounds.check_open()
        for found in find_open(rounds, query_id, owner):
            searched_text = f"{found.query}\n{found.stored.message}\n{_key_words(found.key)}"
            if needle and needle not in searched_text.casefold():
                continue
            silenced, noted = found.silence is not None, found.acknowledgement is not None
            counts["silenced" if silenced else "acknowledged" if noted else "unacknowledged"] += 1
            if is_silenced not in (None, silenced) or is_acknowledged not in (None, noted):
                continue
            states[found.stored.state.state] += 1
            severities[found.severity] += 1
            if state not in (None, found.stored.state.state) or severity not in (None, found.severity):
                continue
            n_found += 1
            groups.setdefault(found.stored.key[0], _Group(found)).add(found, most_alerts)
        shown = sorted(groups.values(), key=_Group.order)[:most]
        return {
            "n": n_found,
            "n_groups": len(groups),
            "counts": {
                "open": counts["unacknowledged"] + counts["acknowledged"],
                **{name: counts[name] for name in ("unacknowledged", "acknowledged", "silenced")},
            },
            "states": {name: states[name] for name in OPEN},
            "severities": {name: severities[name] for name in SEVERITIES},
            "groups": [group.as_dict() for group in shown],
        }


def n_open_alerts(rounds: RoundEngine, owner: str | None = None) -> int:
    """How many alerts are open and not silenced: what a page of them shows first."""
    with rounds.lock:
        rounds.check_open()
        if not rounds.catalog.alerts.any:
            return 0
        catalog, alerting = rounds.catalog, rounds.alerting
        if not alerting.silencing.holding(catalog.version, rounds.next_now_us()):
            if owner is None:
                return sum(alerting.n_open().values())
            n_open = {query_id: sum(states.values()) for query_id, states in alerting.log.n_open().items()}
            if all(
                catalog.queries.find_name(query_id) is not None for query_id in n_open
            ):  # it has an owner now
                return sum(n for query_id, n in n_open.items() if catalog.queries.owner_of(query_id) == owner)
        return sum(found.silence is None for found in find_open(rounds, owner=owner))


def _key_words(key: dict[str, Any]) -> str:
    return " ".join(f"{name}={value} {name} {value}" for name, value in key.items())
