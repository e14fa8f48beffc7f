"""Alerts, silences and acknowledgements, in words that JSON has; what changes something is in the audit log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from eddyline.alerts import follow_messages, is_pattern
from eddyline.api.query import Query
from eddyline.api.token_commands import COMMAND_LINE, now_us
from eddyline.engine import RoundEngine

if TYPE_CHECKING:
    from eddyline.api.engine import Engine


class AlertCommands:
    """The part of `Commands` that is about alerts. `by` is who is shown, `who` is in the audit log."""

    _engine: Engine
    _rounds: RoundEngine

    def _query(self, name: str | int, owner: str) -> Query:
        raise NotImplementedError

    def alerts(
        self,
        *,
        query: str | int | None = None,
        owner: str | None = None,
        state: str | None = None,
        severity: str | None = None,
        silenced: bool | None = None,
        acknowledged: bool | None = None,
    ) -> list[dict[str, Any]]:
        """Open alerts, the oldest first."""
        handle = None if query is None else self._query(query, owner or "")
        found = self._engine.alerts(
            handle, owner=owner, state=state, severity=severity, silenced=silenced, acknowledged=acknowledged
        )
        return [alert.as_dict() for alert in found]

    def messages(
        self,
        *,
        query: str | int | None = None,
        owner: str | None = None,
        after: int | None = None,
        newest: int | None = None,
        follow: bool = False,
    ) -> list[dict[str, Any]] | Iterator[dict[str, Any] | None]:
        """Messages of alerts, the oldest first; then, to follow, all that comes (None: nothing new, are you still there?)."""
        handle = None if query is None else self._query(query, owner or "")
        if not follow:
            found = self._engine.messages(after or 0, newest=newest, query=handle, owner=owner)
            return [message.as_dict() for message in found]
        query_id = None if handle is None else handle.id
        coming = follow_messages(self._rounds, after, newest, query_id, owner)
        return (None if message is None else message.as_dict() for message in coming)

    def alert_history(
        self,
        *,
        query: str | int,
        key: Mapping[str, Any] | None = None,
        newest: int = 100,
        owner: str = "",
    ) -> list[dict[str, Any]]:
        """What happened to an alert, the oldest first."""
        return self._engine.alert_history(self._query(query, owner), key, newest=newest)

    def acknowledge(
        self,
        *,
        query: str | int,
        key: Mapping[str, Any] | None = None,
        note: str = "",
        by: str = "",
        owner: str = "",
        who: str = COMMAND_LINE,
    ) -> list[dict[str, Any]]:
        """Take notice of open alerts."""
        found = self._engine.acknowledge(self._query(query, owner), key, note=note, by=by)
        detail = {"query": found[0].query, "key": key or {}, "n_alerts": len(found), "note": note}
        self._audit(who, found[0].owner, "acknowledge alerts", detail)
        return [alert.as_dict() for alert in found]

    def silence(
        self,
        *,
        query: str | int,
        key: Mapping[str, Any] | None = None,
        duration: str | float | None = None,
        until: str | None = None,
        severity: str | None = None,
        reason: str = "",
        by: str = "",
        owner: str | None = None,
        who: str = COMMAND_LINE,
    ) -> dict[str, Any]:
        """Send no messages of a query's alerts, or of those whose names fit a pattern, until a time."""
        named: Query | str | int = query
        if not (isinstance(query, str) and is_pattern(query)):
            named = self._query(query, owner or "")
        silence = self._engine.silence(
            named, key, for_=duration, until=until, severity=severity, reason=reason, by=by, owner=owner
        )
        facts = silence.as_dict()
        shown = {name: facts[name] for name in ("id", "query", "key", "severity", "until", "reason")}
        self._audit(who, silence.owner or "", "silence alerts", shown)
        return facts

    def silences(
        self, *, query: str | int | None = None, owner: str | None = None, over: bool | None = False
    ) -> list[dict[str, Any]]:
        """Silences that hold, that are over, or all, the oldest first."""
        handle = None if query is None else self._query(query, owner or "")
        return [silence.as_dict() for silence in self._engine.silences(handle, owner=owner, over=over)]

    def silence_end(self, *, silence: int, by: str = "", who: str = COMMAND_LINE) -> dict[str, Any]:
        """Let a silence end now."""
        before = self._engine.version
        ended = self._engine.end_silence(silence, by=by)
        if self._engine.version != before:
            self._audit(who, ended.owner or "", "end silence", {"id": ended.id, "query": ended.query})
        return ended.as_dict() | {"is_changed": self._engine.version != before}

    def _audit(self, who: str, owner: str, what: str, detail: Mapping[str, Any]) -> None:
        self._engine.access.audit.add(now_us(), who, owner, what, detail)
