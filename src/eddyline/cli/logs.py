"""The log of `eddyline run` and `eddyline serve`, on stderr: what the engine announces, requests, and what else goes wrong.

As text it is for people, one line each: time, level, what happened. With `--log-format json` every line is one JSON object:

    {"time": "2026-01-05T09:30:00.123Z", "level": "warning", "event": "SinkFailed", "round": 12, "sink": "ops", "message": "…"}

Tokens are taken out of whatever is written here, wherever they come from.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import logging
import re
import sys
import time
from collections.abc import Collection, Iterator
from typing import Any

from eddyline.catalog import without_tokens
from eddyline.cli.output import Output
from eddyline.documents import event_words, iso_time, jsonable
from eddyline.events import (
    AuditDifference,
    ColumnAdded,
    ConditionsMoved,
    Event,
    FilterDrifted,
    FiltersReordered,
    FunctionSuspended,
    IndexBuildFailed,
    IndexBuilt,
    KernelsCompiling,
    MessagesLost,
    PolicySwitched,
    ProbesReordered,
    QueriesNotIndexed,
    QueriesSuspended,
    ResultsDropped,
    RetentionRemoved,
    RoundCommitted,
    RoundFailed,
    RoundMeasured,
    SinkOvertaken,
    SinkRecovered,
    SinkRefused,
    SourceClosed,
    SourceRecovered,
    SourceStarted,
    StoreFileDamaged,
    TableFailed,
    TableLoaded,
)

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")
_LOGGERS = ("eddyline", "uvicorn")
_EVENTS = "eddyline.events"
ACCESS = "eddyline.access"  # one record for every request
KAFKA = "eddyline.kafka"  # what the client library says
FORGET_S = 600.0  # a failure that was not heard for so long is a new one
MOST_FAILURES = 10_000
_TRIED_AGAIN = frozenset({"SourceFailed", "RoundFailed", "SinkFailed"})
_RECOVERED = {
    "SourceRecovered": ("SourceFailed", "RoundFailed", KAFKA),
    "SinkRecovered": ("SinkFailed", KAFKA),
}
# what differs from one try to the next: times, sizes, the number of a client, how often the client itself was silent
_PASSING_NUMBERS = re.compile(
    r"\d[\d.,]*\s?(?:ms|s|bytes|kB|MB|GB|TB)\b|rdkafka#\w+-\d+|, \d+ identical error\(s\) suppressed|#\w+-\d+\b|\[thrd:[^\]]*\]"
)

_LEVEL_OF = {
    **dict.fromkeys((RoundCommitted, RoundMeasured, ResultsDropped), logging.DEBUG),
    **dict.fromkeys(
        (FiltersReordered, FilterDrifted, PolicySwitched, ProbesReordered, ConditionsMoved), logging.DEBUG
    ),
    **dict.fromkeys((KernelsCompiling, IndexBuilt, ColumnAdded, SourceClosed, SourceStarted), logging.INFO),
    **dict.fromkeys((TableLoaded, RetentionRemoved, SourceRecovered, SinkRecovered), logging.INFO),
    **dict.fromkeys(
        (RoundFailed, StoreFileDamaged, AuditDifference, SinkRefused, SinkOvertaken, MessagesLost),
        logging.ERROR,
    ),
}  # all others are warnings
_LOGGED_IN_WORDS = (
    KernelsCompiling,
    IndexBuildFailed,
    AuditDifference,
    QueriesSuspended,
    QueriesNotIndexed,
    FunctionSuspended,
    TableFailed,
)  # by the engine itself
_AUTHORITY = re.compile(r"(://)[^/@\s]+@")  # user:password@ of an address


def without_secrets(text: str) -> str:
    """A text with tokens, and passwords of addresses, taken out."""
    return _AUTHORITY.sub(r"\1…@", without_tokens(text))


def tell_event(event: Event) -> None:
    """Log what the engine announced."""
    logger, level = logging.getLogger(_EVENTS), level_of(event)
    if logger.isEnabledFor(level):
        fields = dataclasses.asdict(event)
        number = fields.pop("round_number")
        words = event_words(event) or ", ".join(f"{name} {_shown(value)}" for name, value in fields.items())
        name = type(event).__name__
        extra = {
            "event": name,
            "fields": {"round": number, **fields},
            "has_words": isinstance(event, _LOGGED_IN_WORDS),
        }
        logger.log(level, "round %d: %s: %s", number, name, words, extra=extra)


def _shown(value: Any) -> str:
    """A value of an event for people: numbers with no more digits than one reads."""
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def level_of(event: Event) -> int:
    """How much an event matters, as logging counts."""
    return _LEVEL_OF.get(type(event), logging.WARNING)


@contextlib.contextmanager
def logging_to_stderr(args: argparse.Namespace, out: Output) -> Iterator[None]:
    """Log to stderr as `--log-format` and `--log-level` say, until the end; with JSON, notes become lines of it too."""
    is_json = args.log_format == "json"
    handler = _ToStderr()
    handler.setFormatter(JsonFormatter() if is_json else TextFormatter())
    handler.addFilter(_is_new if is_json else _is_for_people)
    handler.addFilter(Repeats())
    out.log, out.is_log_json = json_note if is_json else text_note, is_json
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [(logger.level, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.propagate = False
    loggers[0].setLevel(args.log_level.upper())
    loggers[1].setLevel(max(logging.WARNING, loggers[0].level))
    try:
        yield
    finally:
        for logger, (level, propagates) in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.level, logger.propagate = level, propagates
        if not is_json and sys.stderr.isatty():
            out.log = None  # an error that ends the command is for the screen, not a line of the log


def json_note(text: str, *, level: str = "info", event: str = "Note") -> None:
    """A line of JSON on stderr that no logger brings."""
    _print(json_line(level, event, {"message": without_secrets(text)}))


def text_note(text: str, *, level: str = "info", event: str = "Note") -> None:
    """The same for people."""
    _print(text_line(level, without_secrets(text)))


def json_line(level: str, event: str, fields: dict[str, Any], at_s: float | None = None) -> str:
    """One line of the log; fields come after time, level and event."""
    return json.dumps({"time": _time(at_s), "level": level, "event": event, **fields}, ensure_ascii=False)


def text_line(level: str, text: str, at_s: float | None = None) -> str:
    """One line of the log for people."""
    return f"{_time(at_s)} {level} {text}"


def _time(at_s: float | None) -> str:
    at_us = time.time_ns() // 1000 if at_s is None else int(at_s * 1e6)
    return iso_time(at_us, timespec="milliseconds")


class JsonFormatter(logging.Formatter):
    """A log record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] | None = getattr(record, "fields", None)
        message = {"message": record.getMessage()} if fields is None else dict(fields)
        if (repeated := getattr(record, "repeated", None)) is not None:
            message["times"], message["since"] = repeated
        if record.exc_info:
            message["trace"] = self.formatException(record.exc_info)
        event = getattr(record, "event", None) or record.name
        line = json_line(record.levelname.lower(), event, jsonable(message), record.created)
        return without_secrets(line)


class TextFormatter(logging.Formatter):
    """A log record as people read it."""

    def format(self, record: logging.LogRecord) -> str:
        message = super().format(record)
        if (repeated := getattr(record, "repeated", None)) is not None:
            message += f" ({repeated[0]:,} times since {repeated[1]})"
        return without_secrets(text_line(record.levelname.lower(), message, record.created))


class _ToStderr(logging.Handler):
    """To whatever stderr is at the moment; what cannot be written is lost, and stops nothing."""

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError, ValueError):
            _print(self.format(record))


def _print(line: str) -> None:
    over_progress = "\r\x1b[2K" if sys.stderr.isatty() else ""
    print(f"{over_progress}{line}", file=sys.stderr, flush=True)


class Repeats:
    """A filter that lets a failure through once, and again when it has come ten, a hundred, a thousand times, with the count.

    Retries and the Kafka client say the same again and again while a broker or a receiver is down. That it works again is an
    event of its own, with the number of failures; the next failure then is a new one.
    """

    def __init__(self) -> None:
        self._failures: dict[tuple[str, ...], _RepeatedFailure] = {}

    def __call__(self, record: logging.LogRecord) -> bool:
        event, fields = getattr(record, "event", ""), getattr(record, "fields", {})
        if event in _RECOVERED:
            self._forget(_RECOVERED[event], str(fields.get("stream", fields.get("sink"))))
        key = _failure(record, event, fields)
        if key is None:
            return True
        failure = self._failures.get(key)
        if failure is None or record.created - failure.last_s > FORGET_S:
            if len(self._failures) >= MOST_FAILURES:
                self._failures.clear()
            failure = self._failures[key] = _RepeatedFailure(record.created)
        failure.n, failure.last_s = failure.n + 1, record.created
        if failure.n > 1:
            record.repeated = (failure.n, iso_time(int(failure.first_s * 1e6), timespec="seconds"))
        return failure.n == 10 ** (len(str(failure.n)) - 1)

    def _forget(self, events: Collection[str], name: str) -> None:
        for key in [key for key in self._failures if key[0] in events and key[1] in (name, "")]:
            del self._failures[key]


@dataclasses.dataclass(slots=True)
class _RepeatedFailure:
    first_s: float
    last_s: float = 0.0
    n: int = 0

    def __post_init__(self) -> None:
        self.last_s = self.first_s


def _failure(record: logging.LogRecord, event: str, fields: dict[str, Any]) -> tuple[str, ...] | None:
    """By what a failure is known again; None if the record tells of none that is tried again."""
    if event in _TRIED_AGAIN:
        name = str(fields.get("stream", fields.get("sink", "")))
        return event, name, _PASSING_NUMBERS.sub("", str(fields["message"]))
    if record.name == KAFKA:
        return KAFKA, "", _PASSING_NUMBERS.sub("", record.getMessage())
    return None


def _is_new(record: logging.LogRecord) -> bool:
    """Not the words for an event that is there itself."""
    return not getattr(record, "is_event", False)


def _is_for_people(record: logging.LogRecord) -> bool:
    """Not an event for which there are words, and not every request: a page that is open asks all the time."""
    is_usual = (
        record.name == ACCESS and record.levelno == logging.INFO and record.__dict__["fields"]["status"] < 400
    )
    return not (is_usual and not _is_debugging()) and not getattr(record, "has_words", False)


def _is_debugging() -> bool:
    return logging.getLogger(_LOGGERS[0]).level <= logging.DEBUG
