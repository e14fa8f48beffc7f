"""Who may do what, and who did: tokens and the audit log, beside what they guard.

A token is `edl_<id>_<secret>`, shown once when it is made; only its SHA-256 is kept. Secrets are 32 random bytes, so the plain
hash is enough: there is nothing to guess. All tokens are also in memory, so that asking for one waits for no round.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

from eddyline.catalog.checksums import COLUMN, checked_row
from eddyline.catalog.database import Database
from eddyline.errors import PropertyError, UnknownNameError, did_you_mean

ROLES = ("reader", "author", "admin")  # each may do what the one before may
PREFIX = "edl"
USED_EVERY_US = 60_000_000  # how exactly it is known when a token was last used
AUDIT_KEPT = 100_000  # entries
TRIMMED_EVERY = 1_000
LONGEST_DETAIL = 4_000  # characters of an audit entry
LONGEST_NOTE = 200
_TEXT = re.compile(rf"({PREFIX}_[0-9a-f]+)_[A-Za-z0-9_-]+")
_COLUMNS = "id, hash, role, owner, note, created_us, expires_us, used_us, is_single_use"


@dataclass(frozen=True, slots=True)
class AccessToken:
    """What is known of a token; the token itself is not."""

    id: str
    role: str
    owner: str
    note: str
    created_us: int
    expires_us: int | None
    used_us: int | None
    is_single_use: bool

    def is_valid(self, now_us: int) -> bool:
        return self.expires_us is None or now_us < self.expires_us


class Tokens:
    """The tokens of a home. `lock` guards the database; looking one up needs no lock."""

    def __init__(self, database: Database, lock: AbstractContextManager[None]) -> None:
        self._database = database
        self._connection = database.connection
        self._lock = lock
        with lock, database.read():
            rows = self._connection.execute(f"SELECT {_COLUMNS} FROM tokens").fetchall()
        self._token_cache: dict[str, tuple[bytes, AccessToken]] = {
            row[0]: (bytes.fromhex(row[1]), _token(*row)) for row in rows
        }

    def add(
        self,
        role: str,
        now_us: int,
        *,
        owner: str = "",
        note: str = "",
        expires_us: int | None = None,
        is_single_use: bool = False,
    ) -> tuple[AccessToken, str]:
        """Make a token; what is returned beside it is the only copy of its secret."""
        if role not in ROLES:
            raise PropertyError(f"there is no role {role}", hint=did_you_mean(role, ROLES, noun="role"))
        for what, text in (("owner", owner), ("note", note)):
            if (text and not text.isprintable()) or len(text) > LONGEST_NOTE:
                raise PropertyError(
                    f"this cannot be the {what} of a token",
                    hint=f"Give up to {LONGEST_NOTE} characters that can be read.",
                )
        token_id = secrets.token_hex(6)
        text = f"{PREFIX}_{token_id}_{secrets.token_urlsafe(32)}"
        token = AccessToken(token_id, role, owner, note, now_us, expires_us, None, is_single_use)
        digest = _digest(text)
        with self._lock, self._database.transaction():
            self._connection.execute(
                f"INSERT INTO tokens ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (token_id, digest.hex(), role, owner, note, now_us, expires_us, None, int(is_single_use)),
            )
        self._token_cache[token_id] = digest, token
        return token, text

    def find(self, text: str, now_us: int) -> AccessToken | None:
        """The token this text is, if it is one and still holds."""
        prefix, _, rest = text.partition("_")
        known = self._token_cache.get(rest.partition("_")[0])
        digest = _digest(text)
        if prefix != PREFIX or known is None or not hmac.compare_digest(known[0], digest):
            return None
        return known[1] if known[1].is_valid(now_us) else None

    def take(self, text: str, now_us: int) -> AccessToken | None:
        """Use up a token for a single use: the first caller gets it, others None."""
        with self._lock:
            token = self.find(text, now_us)
            if token is None or not token.is_single_use:
                return None
            self.drop(token.id)
            return token

    def is_there(self, token_id: str, now_us: int) -> bool:
        """Whether a token was neither dropped nor has expired."""
        known = self._token_cache.get(token_id)
        return known is not None and known[1].is_valid(now_us)

    def list(self) -> list[AccessToken]:
        """All tokens, oldest first."""
        return sorted(
            (token for _, token in list(self._token_cache.values())), key=lambda t: (t.created_us, t.id)
        )

    def drop(self, token_id: str) -> AccessToken:
        """Make a token worthless, at once."""
        with self._lock:
            known = self._token_cache.get(token_id)
            if known is None:
                raise UnknownNameError(
                    f"there is no token {token_id!r}",
                    hint="Name one by its id: the part between the first two underscores.",
                )
            with self._database.transaction():
                self._connection.execute("DELETE FROM tokens WHERE id = ?", (token_id,))
            del self._token_cache[token_id]
            return known[1]

    def is_use_due(self, token: AccessToken, now_us: int) -> bool:
        """Whether it should be noted that the token is used now."""
        return token.used_us is None or now_us - token.used_us >= USED_EVERY_US

    def note_use(self, token_id: str, now_us: int) -> None:
        """Remember that a token was used."""
        with self._lock:
            known = self._token_cache.get(token_id)
            if known is None or not self.is_use_due(known[1], now_us):
                return
            with self._database.transaction():
                self._connection.execute("UPDATE tokens SET used_us = ? WHERE id = ?", (now_us, token_id))
            self._token_cache[token_id] = known[0], replace(known[1], used_us=now_us)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A change of the access list: `who` is the id of a token, or what else made it."""

    id: int
    at_us: int
    who: str
    owner: str
    what: str
    detail: Mapping[str, Any]


class AuditLog:
    """Changes in order. Secrets do not belong in it; the newest 100,000 entries are kept."""

    def __init__(self, database: Database, lock: AbstractContextManager[None]) -> None:
        self._database = database
        self._connection = database.connection
        self._lock = lock

    def add(self, at_us: int, who: str, owner: str, what: str, detail: Mapping[str, Any]) -> None:
        text = json.dumps(detail, ensure_ascii=False, sort_keys=True)
        if len(text) > LONGEST_DETAIL:
            text = json.dumps({"cut": text[:LONGEST_DETAIL]}, ensure_ascii=False)
        with self._lock, self._database.transaction():
            done = self._connection.execute(
                "INSERT INTO audit (at_us, who, owner, what, detail) VALUES (?, ?, ?, ?, ?)",
                (at_us, who, owner, what, text.encode("utf-8", "replace").decode()),
            )
            number = int(done.lastrowid or 0)
            if number % TRIMMED_EVERY == 0:
                self._connection.execute("DELETE FROM audit WHERE id <= ?", (number - AUDIT_KEPT,))

    def newest(self, n: int, *, before: int | None = None) -> list[AuditEntry]:
        """The newest entries, newest first; those before an id, if one is given."""
        with self._lock, self._database.read():
            rows = self._connection.execute(
                f"SELECT id, at_us, who, owner, what, detail, {COLUMN} FROM audit WHERE ? IS NULL OR id < ?"
                " ORDER BY id DESC LIMIT ?",
                (before, before, n),
            ).fetchall()
        return [
            AuditEntry(number, at_us, who, owner, what, json.loads(detail))
            for number, at_us, who, owner, what, detail in (checked_row("audit", row) for row in rows)
        ]


@dataclass(frozen=True, slots=True)
class Access:
    """Tokens and the audit log of one engine."""

    tokens: Tokens
    audit: AuditLog

    @classmethod
    def of(cls, database: Database, lock: AbstractContextManager[None]) -> Access:
        return cls(Tokens(database, lock), AuditLog(database, lock))


def without_tokens(text: str) -> str:
    """A text in which tokens are shown by their ids alone."""
    return _TEXT.sub(r"\1_…", text)


def _token(
    token_id: str,
    digest: str,
    role: str,
    owner: str,
    note: str,
    created_us: int,
    expires_us: int | None,
    used_us: int | None,
    is_single_use: int,
) -> AccessToken:
    """A row of `tokens`."""
    return AccessToken(token_id, role, owner, note, created_us, expires_us, used_us, bool(is_single_use))


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
