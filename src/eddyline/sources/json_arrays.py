"""A JSON array of any length, element by element, from bytes that come block by block."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterator
from typing import Any

from eddyline.sources.lines import MAX_LINE_BYTES


class BrokenArray(Exception):
    """The array cannot be read from here on; the text says why."""


def array_elements(read: Callable[[], bytes], decoder: json.JSONDecoder) -> Iterator[tuple[Any, int]]:
    """Each element, and how many characters it took. `read` gives the next bytes, none at the end. Raises BrokenArray."""
    text = _TextAhead(read)
    text.expect("[")
    if text.next_symbol() == "]":
        return
    number = 0
    while True:
        number += 1
        text.next_symbol()
        yield text.decoded_value(decoder, number)
        if text.next_symbol() != ",":
            text.expect("]", after=number)
            return
        text.expect(",")


class _TextAhead:
    """Text of a file as far as it was needed."""

    def __init__(self, read: Callable[[], bytes]) -> None:
        self._read = read
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._text = ""
        self._at = 0
        self._is_end = False

    def next_symbol(self) -> str:
        """Skip white space; the character that follows, or nothing at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in " \t\r\n":
                self._at += 1
            if self._at < len(self._text) or not self._more():
                return self._text[self._at : self._at + 1]

    def expect(self, symbol: str, *, after: int = 0) -> None:
        found = self.next_symbol()
        if found != symbol:
            where = f"after element {after}" if after else "at the beginning"
            raise BrokenArray(
                f"the array ends early {where}" if not found else f"{found!r} is not JSON {where}"
            )
        self._at += 1

    def decoded_value(self, decoder: json.JSONDecoder, number: int) -> tuple[Any, int]:
        """The value that begins here; reads on as long as it may be cut off."""
        while True:
            try:
                value, end = decoder.raw_decode(self._text, self._at)
                if end < len(self._text) or isinstance(value, (dict, list, str)) or not self._more():
                    length = end - self._at
                    self._at = end
                    return value, length
            except (ValueError, RecursionError) as error:
                if len(self._text) - self._at > MAX_LINE_BYTES:
                    raise BrokenArray(f"element {number} is longer than {MAX_LINE_BYTES >> 20} MB") from None
                if not self._more():
                    problem = (
                        error.msg
                        if isinstance(error, json.JSONDecodeError)
                        else "too deep, or too long a number"
                    )
                    raise BrokenArray(f"element {number} is not JSON: {problem}") from None

    def _more(self) -> bool:
        if self._is_end:
            return False
        block = self._read()
        self._is_end = not block
        try:
            self._text = self._text[self._at :] + self._decoder.decode(block, final=not block)
        except UnicodeDecodeError:
            raise BrokenArray("it is not UTF-8") from None
        self._at = 0
        return True
