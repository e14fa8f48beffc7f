"""The text of a script as steps."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eddyline.durations import duration_us
from eddyline.errors import EddylineError, PropertyError, did_you_mean
from eddyline.scripts.values import Numeral, plain


class ScriptError(EddylineError):
    """A script that cannot be read; the problem starts with file and line."""


Values = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ExpectedResult:
    line: int
    query: str
    sign: str
    values: Values


@dataclass(frozen=True, slots=True)
class ExpectedDeath:
    """A dead letter of a query, or of a row that does not fit (`query` is None), with `part` in its error or message."""

    line: int
    query: str | None
    part: str


@dataclass(frozen=True, slots=True)
class ExpectedAlert:
    """A message of an alert query: `status` is firing or resolved, `key` has the values of `per`."""

    line: int
    query: str
    status: str
    key: Values
    reason: str  # why it resolved; empty: no reason is given


@dataclass(slots=True)
class Expected:
    """What a step must lead to, all of it and nothing else; `errors` are parts of the message it is refused with."""

    results: list[ExpectedResult] = field(default_factory=list)
    dead: list[ExpectedDeath] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    alerts: list[ExpectedAlert] = field(default_factory=list)
    n_late: int | None = None


@dataclass(frozen=True, slots=True)
class ScriptRows:
    """Rows of one stream in a push; `arrival` has a number for each, or is empty."""

    stream: str
    rows: tuple[Values, ...]
    arrival: tuple[int, ...] = ()


@dataclass(slots=True)
class Step:
    """One command with what is expected of it. Which fields say something depends on the command."""

    line: int
    command: str
    name: str = ""
    text: str = ""  # SQL, or the words after a stream's columns
    parameters: dict[str, Any] = field(default_factory=dict)
    columns: tuple[str, ...] = ()  # of the parameter table of `queries`
    table: tuple[Values, ...] = ()
    pushed: tuple[ScriptRows, ...] = ()
    token: str | None = None
    when: str | None = None
    later_us: int | None = None  # from the time of the step before
    expected: Expected = field(default_factory=Expected)


@dataclass(frozen=True, slots=True)
class Script:
    path: str
    steps: tuple[Step, ...]
    time_zone: str = "UTC"

    @property
    def has_alerts(self) -> bool:
        """Whether it says what alerts send; otherwise their messages are not looked at."""
        return any(step.expected.alerts for step in self.steps)


def read_script(path: str | Path) -> Script:
    """The script in a file."""
    return parse_script(Path(path).read_text(encoding="utf-8"), str(path))


def parse_script(text: str, path: str = "script") -> Script:
    """The steps of a script. Raises ScriptError, naming the line."""
    steps: list[Step] = []
    zone = "UTC"
    for number, line, below in _paragraphs(text, path):
        word, _, rest = line.partition(" ")
        if word == "zone":
            if steps:
                raise _wrong(path, number, "zone must come before all other commands")
            zone = rest.strip()
            continue
        parse = _COMMANDS.get(word)
        if parse is None:
            raise _wrong(
                path,
                number,
                f"{word!r} is not a command",
                did_you_mean(word, [*_COMMANDS, "zone"], noun="command"),
            )
        step = Step(number, word)
        more = [(at, words) for at, words in below if not _take_expectation(step, at, words, path)]
        joined = "\n".join([rest.strip(), *(words for _, words in more)])
        reader = _Reader(joined, path, number)
        parse(reader, step)
        reader.end()
        steps.append(step)
    return Script(path, tuple(steps), zone)


def _paragraphs(text: str, path: str) -> list[tuple[int, str, list[tuple[int, str]]]]:
    """Every line that starts at the margin, with the indented ones below it; comments and blank lines left out."""
    found: list[tuple[int, str, list[tuple[int, str]]]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not line[0].isspace():
            found.append((number, line.rstrip(), []))
        elif found:
            found[-1][2].append((number, line.strip()))
        else:
            raise _wrong(path, number, "an indented line with nothing above it")
    return found


# --------------------------------------------------------------------------------------------- commands


def _parse_stream(reader: _Reader, step: Step) -> None:
    step.name = reader.word("the name of a stream")
    step.text = reader.rest()
    if not step.text.startswith("("):
        raise reader.wrong("a stream needs its columns in parentheses")


def _parse_query(reader: _Reader, step: Step) -> None:
    step.name = reader.word("a name", stop="(:")
    if reader.peek() == "(":
        step.parameters = reader.bindings()
    reader.expect(":")
    step.text = reader.rest()


def _parse_queries(reader: _Reader, step: Step) -> None:
    step.name = reader.word("a name such as watch-{sym}", stop="(:")
    reader.expect("(")
    step.columns = tuple(reader.words())
    step.table = tuple(reader.tuples())
    reader.expect(":")
    step.text = reader.rest()


def _parse_named(reader: _Reader, step: Step) -> None:
    step.name = reader.word("the name of a query")


def _parse_sql(reader: _Reader, step: Step) -> None:
    step.text = reader.rest()


def _parse_when(reader: _Reader, step: Step) -> None:
    if reader.skip("+"):
        step.later_us = reader.duration()
    elif reader.peek():
        when = reader.value()
        if not isinstance(when, str):
            raise reader.wrong("expected a time in quotes, such as '2026-01-01 09:30:00', or +10 minutes")
        step.when = when


def _parse_push(reader: _Reader, step: Step) -> None:
    pushed = []
    while reader.peek():
        reader.skip(",")
        name = reader.word("a stream", stop="(@,'")
        if name == "token":
            token = reader.value()
            step.token = token if isinstance(token, str) else getattr(token, "text", None)
            continue
        rows: list[Values] = []
        arrival: list[int] = []
        while reader.peek() in ("(", "@", ","):
            reader.skip(",")
            if reader.peek() not in ("(", "@"):
                break  # the next stream
            if reader.peek() == "@":
                reader.expect("@")
                number = reader.value()
                if not isinstance(number, Numeral) or not number.text.isdigit():
                    raise reader.wrong("expected an arrival number after @")
                arrival.append(int(number.text))
            rows.append(reader.tuple())
        if arrival and len(arrival) != len(rows):
            raise reader.wrong(f"{len(rows)} rows of {name} have {len(arrival)} arrival numbers")
        pushed.append(ScriptRows(name, tuple(rows), tuple(arrival)))
    step.pushed = tuple(pushed)


_COMMANDS = {
    "stream": _parse_stream,
    "query": _parse_query,
    "queries": _parse_queries,
    "replace": _parse_query,
    "pause": _parse_named,
    "resume": _parse_named,
    "drop": _parse_named,
    "sql": _parse_sql,
    "push": _parse_push,
    "tick": _parse_when,
    "now": _parse_when,
}

# --------------------------------------------------------------------------------------------- expectations

_RESULT = re.compile(r"([^\s(@]\S*)\s+([+-])\s*(.*)\Z", re.DOTALL)
_LATE = re.compile(r"late\s+(\d+)\Z")
_DEAD = re.compile(r"dead(?:\s+([^\s:]+))?\s*(?::\s*(.*))?\Z")
_ALERT = re.compile(r"alert\s+(\S+)\s+(firing|resolved)\b(.*)\Z", re.DOTALL)
_HAVE_RESULTS = ("push", "tick")


def _take_expectation(step: Step, line: int, words: str, path: str) -> bool:
    """Whether the indented line says what is expected, which is then noted; else it continues the command."""
    if words == "error" or words.startswith("error "):
        step.expected.errors.append(words[5:].strip())
        return True
    if step.command not in _HAVE_RESULTS:
        return False
    if hit := _LATE.match(words):
        step.expected.n_late = int(hit.group(1))
    elif hit := _DEAD.match(words):
        step.expected.dead.append(ExpectedDeath(line, hit.group(1), (hit.group(2) or "").strip()))
    elif hit := _ALERT.match(words):
        reader = _Reader(hit.group(3), path, line)
        key = () if reader.peek() in ("", ":") else tuple(reader.values())
        reason = reader.rest() if reader.skip(":") else ""
        reader.end()
        step.expected.alerts.append(ExpectedAlert(line, hit.group(1), hit.group(2), key, reason))
    elif hit := _RESULT.match(words):
        reader = _Reader(hit.group(3), path, line)
        values = tuple(reader.values()) if hit.group(3) else ()
        reader.end()
        step.expected.results.append(ExpectedResult(line, hit.group(1), hit.group(2), values))
    else:
        return False
    return True


# --------------------------------------------------------------------------------------------- values

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|Infinity|NaN)\b")
_STRING = re.compile(r"'((?:[^']|'')*)'")
_BYTES = re.compile(r"[xX]'((?:[0-9a-fA-F]{2})*)'")
_WORD = re.compile(r"\w+")
_WORDS = {"null": None, "true": True, "false": False}


class _Reader:
    """A cursor over the text of one command."""

    def __init__(self, text: str, path: str, line: int) -> None:
        self._text = text
        self._at = 0
        self._path = path
        self._line = line

    def wrong(self, problem: str) -> ScriptError:
        rest = self._text[self._at :].strip()[:30]
        return _wrong(self._path, self._line, problem, f"Found {rest!r}." if rest else "Found the end.")

    def peek(self) -> str:
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1
        return self._text[self._at : self._at + 1]

    def skip(self, symbol: str) -> bool:
        if self.peek() != symbol:
            return False
        self._at += 1
        return True

    def expect(self, symbol: str) -> None:
        if not self.skip(symbol):
            raise self.wrong(f"expected {symbol!r}")

    def end(self) -> None:
        if self.peek():
            raise self.wrong("expected nothing more")

    def rest(self) -> str:
        self.peek()
        rest, self._at = self._text[self._at :].rstrip(), len(self._text)
        return rest

    def word(self, what: str, *, stop: str = "") -> str:
        self.peek()
        start = self._at
        while (
            self._at < len(self._text)
            and not self._text[self._at].isspace()
            and self._text[self._at] not in stop
        ):
            self._at += 1
        if self._at == start:
            raise self.wrong(f"expected {what}")
        return self._text[start : self._at]

    def duration(self) -> int:
        """Microseconds, up to the end."""
        text = self.rest()
        try:
            return duration_us(text)
        except PropertyError as error:
            raise _wrong(self._path, self._line, error.problem, error.hint) from None

    def words(self) -> list[str]:
        """Names up to the closing parenthesis."""
        found = [self.word("a name", stop=",)")]
        while self.skip(","):
            found.append(self.word("a name", stop=",)"))
        self.expect(")")
        return found

    def bindings(self) -> dict[str, Any]:
        """(name = value, …)"""
        self.expect("(")
        found = {}
        while True:
            name = self.word("the name of a parameter", stop="=,)")
            self.expect("=")
            found[name] = plain(self.value())
            if not self.skip(","):
                break
        self.expect(")")
        return found

    def tuples(self) -> list[Values]:
        found = [self.tuple()]
        while self.skip(",") or self.peek() == "(":
            found.append(self.tuple())
        return found

    def tuple(self) -> Values:
        self.expect("(")
        values = () if self.peek() == ")" else tuple(self.values())
        self.expect(")")
        return values

    def values(self) -> list[Any]:
        found = [self.value()]
        while self.skip(","):
            found.append(self.value())
        return found

    def value(self) -> Any:
        self.peek()
        if self.skip("["):
            items = [] if self.peek() == "]" else self.values()
            self.expect("]")
            return items
        if self.skip("{"):
            return self._mapping()
        for pattern in (_BYTES, _STRING, _NUMBER, _WORD):
            hit = pattern.match(self._text, self._at)
            if hit is None:
                continue
            if pattern is _WORD and hit.group().lower() not in _WORDS:
                break
            self._at = hit.end()
            if pattern is _BYTES:
                return bytes.fromhex(hit.group(1))
            if pattern is _STRING:
                return hit.group(1).replace("''", "'")
            return Numeral(hit.group()) if pattern is _NUMBER else _WORDS[hit.group().lower()]
        raise self.wrong("expected a value: NULL, true, 1, 2.5, 'text', [1, 2] or {a: 1}")

    def _mapping(self) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        while not self.skip("}"):
            hit = _WORD.match(self._text, self._at) if self.peek() not in ("'", "") else None
            if hit is not None and not hit.group().isdigit():
                self._at = hit.end()
                key: Any = hit.group()
            else:
                key = self.value()
            self.expect(":")
            found[key] = self.value()
            self.skip(",")
        return found


def _wrong(path: str, line: int, problem: str, hint: str | None = None) -> ScriptError:
    return ScriptError(f"{path}:{line}: {problem}", hint=hint)
