"""Reading the tables of a pipeline file: every value checked at its place, mistakes collected, none thrown."""

from __future__ import annotations

import datetime
import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from eddyline.documents import Mistake, Place
from eddyline.durations import duration_us
from eddyline.errors import EddylineError, PropertyError, Span, did_you_mean, nearest
from eddyline.pipeline.locate import Located
from eddyline.pipeline.locate import Path as KeyPath
from eddyline.pipeline.mistakes import place_of
from eddyline.secrets import SecretError, Text, has_secrets, text_with_secrets
from eddyline.sql import size_bytes

_Default = TypeVar("_Default", int, None)


class TomlDocument:
    """A pipeline file being read: its text, the place of everything in it, and the mistakes found so far."""

    def __init__(self, path: Path, text: str, located: Located, broken: Sequence[KeyPath] = ()) -> None:
        """`broken`: tables of which something could not be read, so that it is unknown what they lack."""
        self.path = path
        self.text = text
        self.located = located
        self.broken = broken
        self.mistakes: list[Mistake] = []

    @property
    def folder(self) -> Path:
        return self.path.parent

    def place(self, at: KeyPath, *, of_key: bool = False) -> Place:
        span = self.located.key(at) if of_key else self.located.value(at)
        value = self.located.values.get(at)
        return place_of(
            self.path, self.text, span, hides_value=of_key and value is not None and value.start > span.start
        )

    def wrong(
        self,
        at: KeyPath,
        problem: str,
        *,
        detail: str | None = None,
        hint: str | None = None,
        of_key: bool = False,
    ) -> None:
        """Note a mistake. With `of_key` it is about the key; its value, which may be anything, is then not shown."""
        if at in self.broken:
            return
        self.mistakes.append(Mistake(self.place(at, of_key=of_key), problem, detail, hint))

    def wrong_as(self, at: KeyPath, error: EddylineError, *, of_key: bool = False) -> None:
        """Note what another room says about a value."""
        self.wrong(at, error.problem, detail=error.detail, hint=error.hint, of_key=of_key)

    def wrong_in(self, file: Path, text: str, error: EddylineError) -> None:
        """Note a mistake in another file that this one names."""
        span = error.span or Span(0, 0)
        self.mistakes.append(Mistake(place_of(file, text, span), error.problem, error.detail, error.hint))


class Table:
    """One table of the file. Each method gives the value of a key if it is there and right, else the default."""

    def __init__(self, document: TomlDocument, at: KeyPath, values: Mapping[str, Any], title: str) -> None:
        self.document = document
        self.at = at
        self.values = values
        self.title = title  # how users call it, such as [streams.trades]

    def has(self, key: str) -> bool:
        return key in self.values

    def place(self, key: str | None = None) -> Place:
        return self.document.place(self.at if key is None else (*self.at, key))

    def wrong(self, key: str, problem: str, *, detail: str | None = None, hint: str | None = None) -> None:
        self.document.wrong((*self.at, key), problem, detail=detail, hint=hint)

    def wrong_as(self, key: str, error: EddylineError) -> None:
        self.document.wrong_as((*self.at, key), error)

    def missing(self, key: str, *, hint: str) -> None:
        self.document.wrong(self.at, f"{self.title} has no {key}", hint=hint, of_key=True)

    def only(self, known: Sequence[str], elsewhere: Mapping[str, str] | None = None) -> None:
        """Note every key that is not known; `elsewhere` says in which table another key belongs."""
        for key in self.values:
            if key in known:
                continue
            home = (elsewhere or {}).get(key)
            close = difflib.get_close_matches(key.lower(), known, n=1, cutoff=0.75)
            hint = did_you_mean(key, known, noun="key")
            if home is not None and not close:
                hint = f"It belongs into {home}."
            self.document.wrong(
                (*self.at, key), f"there is no key {key} in {self.title}", hint=hint, of_key=True
            )

    # ----------------------------------------------------------------------------------------- values

    def text(self, key: str, default: str | None = None, *, needed: str | None = None) -> str | None:
        """A text that may be stored and shown, and so holds no secret. `needed` is the hint if it is not there."""
        value = self._of_type(key, str, "a text", needed)
        if value is None:
            return default
        if has_secrets(value):
            self.wrong(
                key,
                f"a secret is not allowed in {key}",
                detail="This value is stored in the home, or shown.",
                hint="Secrets are allowed in the path of a source or of a sink.",
            )
            return default
        return str(value)

    def text_with_secrets(self, key: str, *, needed: str | None = None) -> Text | None:
        value = self._of_type(key, str, "a text", needed)
        if value is None:
            return None
        if not value.strip():
            self.wrong(key, f"{key} is empty")
            return None
        try:
            return text_with_secrets(value, self.document.folder)
        except SecretError as error:
            self.wrong_as(key, error)
            return None

    def choice(
        self, key: str, options: Sequence[str], default: str | None = None, *, needed: bool = False
    ) -> str | None:
        one_of = f"one of {', '.join(options)}"
        value = self.text(
            key, needed=f'Write {key} = "{options[0]}", or another {one_of}.' if needed else None
        )
        if value is None:
            return default
        if value not in options:
            near = nearest(value, options)
            hint = None if near is None else f"Did you mean {near}?"
            self.wrong(key, f"{key} is {value!r}, not {one_of}", hint=hint)
            return default
        return value

    def whole(self, key: str, default: _Default, *, least: int = 0) -> int | _Default:
        value = self._of_type(key, int, "a whole number")
        if value is not None and value < least:
            self.wrong(key, f"{key} is {value}", hint=f"Give a number of at least {least}.")
            return default
        return default if value is None else int(value)

    def number(self, key: str, default: float | None, *, above: float | None = None) -> float | None:
        value = self._of_type(key, (int, float), "a number")
        if value is not None and above is not None and not above < value < math.inf:
            self.wrong(key, f"{key} is {value}", hint=f"Give a number above {above:g}.")
            return default
        return default if value is None else float(value)

    def flag(self, key: str, default: bool) -> bool:
        value = self._of_type(key, bool, "true or false")
        return default if value is None else bool(value)

    def duration_us(self, key: str, default: int) -> int:
        return self._read(key, default, duration_us)

    def size(self, key: str, default: int) -> int:
        return self._read(key, default, size_bytes)

    def names(self, key: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """A list of texts, or one text."""
        value = self.values.get(key)
        if value is None:
            return default
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list):
            self._wrong_type(key, value, "a list of texts")
            return default
        found = []
        for number, each in enumerate(texts):
            at = (*self.at, key) if isinstance(value, str) else (*self.at, key, number)
            if not isinstance(each, str) or not each.strip():
                self.document.wrong(at, f"{key} must be a list of texts, and this is {_kind(each)}")
            elif has_secrets(each):
                self.document.wrong(at, f"a secret is not allowed in {key}")
            else:
                found.append(each)
        return tuple(found)

    def table(self, key: str, title: str) -> Table | None:
        value = self._of_type(key, dict, "a table")
        return None if value is None else Table(self.document, (*self.at, key), value, title)

    def tables(self, key: str, title: str) -> list[Table]:
        """The tables of an array of tables."""
        value = self._of_type(key, list, f"an array of tables, written {title}")
        if value is None:
            return []
        wrong = [number for number, each in enumerate(value) if not isinstance(each, dict)]
        for number in wrong:
            self.document.wrong(
                (*self.at, key, number),
                f"{key} must be an array of tables, and this is {_kind(value[number])}",
            )
        return [
            Table(self.document, (*self.at, key, number), each, title)
            for number, each in enumerate(value)
            if number not in wrong
        ]

    # ----------------------------------------------------------------------------------------- inside

    def _of_type(
        self, key: str, kind: type | tuple[type, ...], words: str, needed: str | None = None
    ) -> Any | None:
        value = self.values.get(key)
        if value is None:
            if needed is not None:
                self.missing(key, hint=needed)
            return None
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            self._wrong_type(key, value, words)
            return None
        return value

    def _wrong_type(self, key: str, value: Any, words: str) -> None:
        self.wrong(key, f"{key} must be {words}, and this is {_kind(value)}")

    def _read(self, key: str, default: int, read: Callable[[Any], int]) -> int:
        value = self.values.get(key)
        if value is None:
            return default
        try:
            return read(value)
        except PropertyError as error:
            self.wrong(key, f"{key}: {error.problem}", hint=error.hint)
            return default


_KINDS: dict[type, str] = {
    bool: "a truth value",
    int: "a whole number",
    float: "a number",
    str: "a text",
    dict: "a table",
    list: "a list",
    datetime.datetime: "a time",
    datetime.date: "a date",
    datetime.time: "a time of day",
}


def _kind(value: Any) -> str:
    if value == "":
        return "an empty text"
    return _KINDS.get(type(value), f"a {type(value).__name__}")
