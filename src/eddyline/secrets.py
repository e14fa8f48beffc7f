"""Secrets: `${env:NAME}` and `${file:/path}` inside a text of the pipeline file, or an option of a stream.

A text with secrets in it stays as it was written until the moment it is used. What it is shown as, stored as, compared by and
printed as is always the text as written. `$${` stands for `${` itself.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from eddyline.errors import EddylineError, did_you_mean

MAX_FILE_BYTES = 64 << 10
SECRET_WORD = re.compile(
    r"password|passwd|passphrase|(?<![a-z])pass(?![a-z])|secret|token|credential|private.?key|api.?key|key\.pem"
    r"|sasl\.jaas|oauthbearer\.config",
    re.IGNORECASE,
)
_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)(\}?)")
_ONLY_REFERENCE = re.compile(r"\$\{(env|file):[^}]+\}")
_KINDS = ("env", "file")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class SecretError(EddylineError):
    """A secret is written wrongly, or is not there. Never says what it holds."""


@dataclass(frozen=True, slots=True)
class _Reference:
    kind: str
    name: str

    def __str__(self) -> str:
        return f"${{{self.kind}:{self.name}}}"


class Secret:
    """A text with secrets in it. `str`, `repr`, `==` and `hash` know only the text as written."""

    __slots__ = ("_folder", "_parts", "_text")

    def __init__(self, text: str, parts: tuple[str | _Reference, ...], folder: Path) -> None:
        self._text = text
        self._parts = parts
        self._folder = folder

    def reveal(self) -> str:
        """The text itself, read now. Raises SecretError, which names the variable or the file that is missing."""
        return "".join(part if isinstance(part, str) else self._content(part) for part in self._parts)

    def problems(self) -> list[SecretError]:
        """What is missing, of all the secrets in it."""
        found = []
        for part in self._parts:
            if isinstance(part, _Reference):
                try:
                    self._content(part)
                except SecretError as error:
                    found.append(error)
        return found

    def hide(self, message: str) -> str:
        """The message with every secret of this text replaced by how it is written."""
        for part in self._parts:
            if isinstance(part, _Reference):
                try:
                    content = self._content(part)
                except SecretError:
                    continue
                if content:
                    message = message.replace(content, str(part))
        return message

    def _content(self, reference: _Reference) -> str:
        if reference.kind == "env":
            content = os.environ.get(reference.name)
            if content is None:
                raise SecretError(
                    f"the environment variable {reference.name} is not set",
                    hint=f"Set it before starting: {reference.name}=… eddyline run.",
                )
            return content
        return _file_content(reference.name, self._folder / reference.name)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Secret({self._text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


Text = str | Secret


def text_with_secrets(text: str, folder: Path) -> Text:
    """A text as it is used: a `Secret` if it refers to one. Paths of files start at `folder`. Raises SecretError."""
    parts: list[str | _Reference] = []
    at = 0
    for hit in _REFERENCE.finditer(text):
        parts.append(text[at : hit.start()])
        parts.append("${" if hit[1] is None else _reference(hit[1], is_closed=bool(hit[2])))
        at = hit.end()
    parts.append(text[at:])
    if any(isinstance(part, _Reference) for part in parts):
        return Secret(text, tuple(part for part in parts if part != ""), folder)
    return "".join(str(part) for part in parts)


def has_secrets(text: str) -> bool:
    """Whether a text refers to a secret, rightly or wrongly."""
    return any(hit[1] is not None for hit in _REFERENCE.finditer(text))


def is_secret(name: str, value: str) -> bool:
    """Whether an option of this name holds a secret in plain text."""
    return bool(SECRET_WORD.search(name)) and not _ONLY_REFERENCE.fullmatch(value.strip())


def revealed_text(text: Text) -> str:
    return text.reveal() if isinstance(text, Secret) else text


def hidden(message: str, *texts: Text | None) -> str:
    """The message without what the secrets in these texts hold."""
    for text in texts:
        if isinstance(text, Secret):
            message = text.hide(message)
    return message


def _reference(body: str, *, is_closed: bool) -> _Reference:
    kind, colon, name = body.partition(":")
    if not is_closed:
        raise SecretError(
            "a secret has no closing brace", hint="Write ${env:NAME}, or $${ for the characters ${."
        )
    if not colon or kind not in _KINDS:
        near = did_you_mean(kind, _KINDS, noun="kind of secret")
        raise SecretError(
            f"{kind!r} is not a kind of secret", hint=f"{near} Write ${{env:NAME}} or ${{file:/path}}."
        )
    if kind == "env" and not _NAME.fullmatch(name):
        raise SecretError(
            f"{name!r} cannot be the name of an environment variable", hint="Write ${env:NAME}."
        )
    if not name:
        raise SecretError("a secret names no file", hint="Write ${file:/path}.")
    return _Reference(kind, name)


def _file_content(name: str, path: Path) -> str:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise SecretError(
                f"the secret file {name} is larger than {MAX_FILE_BYTES >> 10} KB",
                hint="Is it the right file?",
            )
        return path.read_bytes().decode().rstrip("\r\n")
    except OSError as error:
        raise SecretError(
            f"the secret file {name} cannot be read",
            detail=error.strerror,
            hint="Put it there, readable for the user who runs the engine.",
        ) from None
    except UnicodeDecodeError:
        raise SecretError(f"the secret file {name} is not UTF-8 text") from None
