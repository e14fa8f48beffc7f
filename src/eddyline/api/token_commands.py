"""Tokens, in words that JSON has: what `eddyline token` and the server's /tokens do."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from eddyline.catalog import AccessToken
from eddyline.durations import duration_us
from eddyline.model import iso_time

if TYPE_CHECKING:
    from eddyline.api.engine import Engine

COMMAND_LINE = "command line"  # who, in the audit log


class TokenCommands:
    """The part of `Commands` that is about access."""

    _engine: Engine

    def token_add(
        self,
        *,
        role: str,
        owner: str = "",
        note: str = "",
        expires: str | None = None,
        who: str = COMMAND_LINE,
    ) -> dict[str, Any]:
        """Make a token; the answer is the only place where it can be read. `expires`: from now on, such as "30 days"."""
        at_us = now_us()
        expires_us = None if expires is None else at_us + duration_us(expires)
        access = self._engine.access
        token, text = access.tokens.add(role, at_us, owner=owner, note=note, expires_us=expires_us)
        access.audit.add(at_us, who, owner, "add token", {"token": token.id, "role": role, "note": note})
        return token_document(token) | {"token": text}

    def token_list(self) -> list[dict[str, Any]]:
        """All tokens, oldest first, without what they are."""
        return [token_document(token) for token in self._engine.access.tokens.list()]

    def token_drop(self, *, token: str, who: str = COMMAND_LINE) -> dict[str, Any]:
        """Make a token worthless, by its id."""
        access = self._engine.access
        dropped = access.tokens.drop(token)
        access.audit.add(now_us(), who, dropped.owner, "drop token", {"token": token, "role": dropped.role})
        return {"dropped": token}


def token_document(token: AccessToken) -> dict[str, Any]:
    """What is known of a token."""
    return {
        "id": token.id,
        "role": token.role,
        "owner": token.owner,
        "note": token.note,
        "created": iso_time(token.created_us),
        "expires": None if token.expires_us is None else iso_time(token.expires_us),
        "used": None if token.used_us is None else iso_time(token.used_us),
        "is_single_use": token.is_single_use,
    }


def now_us() -> int:
    """Tokens go by the clock, not by the time of rounds."""
    return time.time_ns() // 1000
