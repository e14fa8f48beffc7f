"""`type = "webhook"` of a sink."""

from __future__ import annotations

import re
from typing import Any

from eddyline.delivery import BATCH, TIMEOUT_S, Webhook, is_header_value, is_known_private, target_of
from eddyline.pipeline.kafka import secret_reference
from eddyline.pipeline.tables import Table
from eddyline.secrets import (
    SECRET_WORD,
    Secret,
    SecretError,
    Text,
    has_secrets,
    is_secret,
    text_with_secrets,
)

WEBHOOK_KEYS = ("url", "secret", "headers", "timeout", "batch", "allow_private", "public_url")
PRIVATE_HINT = "To send to a private address, set allow_private = true."
URL_HINT = 'Give the address: url = "https://example.com/hook".'
SECRET_HINT = 'Write secret = { env = "NAME" } or { file = "/path" }.'
MOST_AT_ONCE = 10_000
LONGEST_TIMEOUT_US = 600_000_000

_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_SENDS_SECRET = re.compile(r"authori[sz]ation|cookie|signature", re.IGNORECASE)
_OWN = re.compile(
    r"host|content-.*|transfer-encoding|connection|keep-alive|upgrade|te|trailer|expect|eddyline-.*",
    re.IGNORECASE,
)


def read_webhook(table: Table, format: str) -> Webhook | None:
    """Where requests go and what they carry, or None if something about it is wrong."""
    n_mistakes = len(table.document.mistakes)
    allow_private = table.flag("allow_private", False)
    url = table.text_with_secrets("url", needed=URL_HINT)
    if isinstance(url, str):
        _check_url(table, url, allow_private)
    timeout_us = table.duration_us("timeout", int(TIMEOUT_S * 1e6))
    if not 0 < timeout_us <= LONGEST_TIMEOUT_US:
        table.wrong("timeout", "timeout is not between 0 and 10 minutes", hint='Write "10 seconds".')
    batch = table.whole("batch", BATCH, least=1)
    if batch > MOST_AT_ONCE:
        table.wrong("batch", f"batch is {batch}", hint=f"Give a number of at most {MOST_AT_ONCE}.")
    secret, headers = _secret(table), _headers(table)
    public_url = _public_url(table)
    if url is None or len(table.document.mistakes) > n_mistakes:
        return None
    return Webhook(url, format, secret, headers, timeout_us / 1e6, batch, allow_private, public_url)


def _check_url(table: Table, url: str, allow_private: bool) -> None:
    at = (*table.at, "url")
    try:
        target = target_of(url)
    except ValueError as error:  # the value is not shown: it may have a password in it
        hint = URL_HINT
        if "password" in str(error):
            hint = 'Send it in a header: headers = { Authorization = { env = "NAME" } }.'
        table.document.wrong(at, f"url cannot be used: {error}", hint=hint, of_key=True)
        return
    if not allow_private and is_known_private(target.host):
        problem = f"url goes to {target.host}, which is not on the public internet"
        table.document.wrong(at, problem, hint=PRIVATE_HINT, of_key=True)


def _secret(table: Table) -> Secret | None:
    """What signs the requests: never in plain text."""
    value = table.values.get("secret")
    if value is None:
        return None
    at = (*table.at, "secret")
    written = secret_reference(value) or (value if isinstance(value, str) else None)
    if written is None:
        table.document.wrong(at, "secret must be a reference to a secret", hint=SECRET_HINT, of_key=True)
    elif is_secret("secret", written):
        table.document.wrong(at, "secret is in plain text", hint=SECRET_HINT, of_key=True)
    else:
        found = _text(table, at, written)
        return found if isinstance(found, Secret) else None
    return None


def _headers(table: Table) -> tuple[tuple[str, Text], ...]:
    stated = table.table("headers", "headers")
    found: dict[str, tuple[str, Text]] = {}
    for name, value in (stated.values if stated is not None else {}).items():
        at = (*table.at, "headers", name)
        written = secret_reference(value) or (value if isinstance(value, str) else None)
        problem, hint = _header_problem(name, written, name.lower() in found)
        if problem is not None:
            table.document.wrong(at, problem, hint=hint, of_key=True)
            continue
        assert written is not None
        text = _text(table, at, written)
        if text is not None:
            found[name.lower()] = name, text
    return tuple(found.values())


def _header_problem(name: str, written: str | None, is_twice: bool) -> tuple[str | None, str | None]:
    if not _HEADER.fullmatch(name):
        return f"{name!r} cannot be the name of a header", None
    if _OWN.fullmatch(name):
        return (
            f"header {name} is not for you to set",
            "It is part of the request, or of eddyline's messages about it.",
        )
    if is_twice:
        return f"header {name} is there twice", "Keep one of the two."
    if written is None:
        return (
            f"header {name} must be a text",
            f'Write {name} = "…", {{ env = "NAME" }} or {{ file = "/path" }}.',
        )
    if (SECRET_WORD.search(name) or _SENDS_SECRET.search(name)) and not has_secrets(written):
        return (
            f"header {name} holds a secret in plain text",
            f'Write {name} = "${{env:NAME}}" or "${{file:/path}}"; other words, such as Bearer, may surround it.',
        )
    if not is_header_value(written):
        return f"header {name} has characters that no header can have", None
    return None, None


def _text(table: Table, at: tuple[Any, ...], written: str) -> Text | None:
    try:
        return text_with_secrets(written, table.document.folder)
    except SecretError as error:
        table.document.wrong_as(at, error, of_key=True)
        return None


def _public_url(table: Table) -> str | None:
    url = table.text("public_url")
    if url is None:
        return None
    try:
        target_of(url)
    except ValueError as error:
        table.document.wrong((*table.at, "public_url"), f"public_url cannot be used: {error}", of_key=True)
        return None
    return url
