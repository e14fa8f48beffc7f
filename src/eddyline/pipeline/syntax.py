"""From the text of a pipeline file to its values, also if parts of it are not TOML.

`tomllib` ends at the first mistake. Here the statement it is in, a `key = value` or a table whose header is broken, is taken
out and the rest read again, so that one broken table hides no mistake of the others.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from eddyline.documents import Mistake, PipelineError, Place
from eddyline.errors import Span
from eddyline.pipeline.locate import Located, locate
from eddyline.pipeline.locate import Path as KeyPath
from eddyline.pipeline.mistakes import place_of
from eddyline.pipeline.tables import TomlDocument

MOST = 50  # broken statements; after so many the rest is not looked at

_AT = re.compile(r"^(.*) \(at (?:line (\d+), column (\d+)|end of document)\)$", re.DOTALL)
_DUPLICATES = ("overwrite", "twice", "mutate", "Duplicate")
_HEADER = re.compile(r"^[ \t]*\[{1,2}[ \t]*[\w\"'-][^\[\]=,#]*\]{1,2}[ \t]*(?:#.*)?$", re.MULTILINE)
_STATEMENT = re.compile(rf"{_HEADER.pattern}|^[ \t]*[\w.-]+[ \t]*=", re.MULTILINE)
_BROKEN_HEADER = re.compile(r"\[+\s*([\w.-]+)")


def document_of(path: Path, text: str) -> tuple[TomlDocument, dict[str, Any]]:
    """The document and its values. What is not TOML is a mistake of the document, and its values are left out."""
    readable = text
    mistakes: list[Mistake] = []
    broken: list[KeyPath] = []
    for _ in range(MOST):
        try:
            located = locate(readable)
            values = tomllib.loads(readable)
        except RecursionError:
            mistake = Mistake(Place(path, 1, 1), "arrays or tables are nested too deeply")
            raise PipelineError(path, [*mistakes, mistake]) from None
        except tomllib.TOMLDecodeError as error:
            toml_error = _TomlError(readable, located, str(error))
            mistakes.append(toml_error.mistake(path, text))
            broken.append(toml_error.table)
            readable = _without(readable, toml_error.span)
            continue
        document = TomlDocument(path, text, located, broken)
        document.mistakes += mistakes
        return document, values
    raise PipelineError(path, mistakes)


class _TomlError:
    """tomllib's error about the first mistake of a text: its place, and the statement it is in."""

    def __init__(self, text: str, located: Located, message: str) -> None:
        self._text, self._located, self._toml_message = text, located, message
        hit = _AT.match(message)
        self._message = hit[1] if hit else message
        if hit and hit[2]:
            lines = text.split("\n")
            self._at = sum(len(line) + 1 for line in lines[: int(hit[2]) - 1]) + int(hit[3]) - 1
        elif located.lost_at is not None:
            self._at = located.lost_at
        else:
            self._at = len(text)
        self.span, self.table = self._statement()

    def _statement(self) -> tuple[Span, KeyPath]:
        """From the statement with the mistake up to the next one, and the table it belongs to."""
        text, located = self._text, self._located
        starts = [start for start, _ in located.statements]
        number = max((n for n, start in enumerate(starts) if start <= self._at), default=None)
        if number is None:
            return Span(0, len(text)), ()
        start, table = located.statements[number]
        if text[start] == "[":  # what follows would belong to another table
            name = _BROKEN_HEADER.match(text, start)
            table = () if name is None else tuple(name[1].split("."))
            following = _HEADER.search(text, _line_end(text, start))
        elif number + 1 < len(starts):
            return Span(start, starts[number + 1]), table
        elif located.lost_at is None:
            return Span(start, len(text)), table
        else:
            following = _STATEMENT.search(text, _line_end(text, start))
        return Span(start, len(text) if following is None else following.start()), table

    def mistake(self, path: Path, text: str) -> Mistake:
        """In the words of the file; `text` is all of it."""
        if any(word in self._toml_message for word in _DUPLICATES):
            for key, first, second in self._located.twice:
                if self.span.start <= second.start < self.span.end:
                    return Mistake(
                        place_of(path, text, second, hides_value=True),
                        f"{'.'.join(str(part) for part in key)} is there twice",
                        detail=f"The first is in line {text.count(chr(10), 0, first.start) + 1}.",
                        hint="Keep one of the two.",
                    )
        start = text.rfind("\n", 0, self._at) + 1
        column = self._at - start + 1
        shown = text[start : _line_end(text, start)].partition("=")[0]  # what follows may be secret
        place = Place(path, text.count("\n", 0, self._at) + 1, column, shown if column <= len(shown) else "")
        name = ".".join(str(part) for part in self.table if isinstance(part, str))
        where = f" It is in table {name}." if name else ""
        return Mistake(
            place, "this is not TOML", detail=f"{self._message}.{where}", hint=_hint(self._message)
        )


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _without(text: str, span: Span) -> str:
    """The text with blanks for a part of it: everything else keeps its place."""
    blank = re.sub(r"[^\n]", " ", text[span.start : span.end])
    return text[: span.start] + blank + text[span.end :]


def _hint(message: str) -> str | None:
    if "Invalid value" in message:
        return "Put text in quotation marks."
    if any(words in message for words in ("Unclosed", "Unterminated", "Illegal character", 'Expected "\'"')):
        return "Is something not closed?"
    if "after a statement" in message:
        return "Write one key = value in each line."
    return None
