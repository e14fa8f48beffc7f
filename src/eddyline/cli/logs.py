"""The log of `eddyline run` and `eddyline serve`, on stderr: what the engine announces, requests, and what else goes wrong.

As text it is for people, one line each. With `--log-format json` every line is one JSON object:

    {"time": "2026-01-05T09:30:00.123Z", "level": "warning", "event": "SinkFailed", "round": 12, "sink": "ops", "message": "…"}

Tokens are taken out of whatever is written here, wherever they come from.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import json
import logging
import re
import sys
from collections.abc import Iterator
from typing import Any

from eddyline.api.filter_words import event_words
from eddyline.api.jsonable import jsonable
from eddyline.catalog.access import without_tokens
from eddyline.cli.output import Output
from eddyline.events import (
    AuditDifference,
    ColumnAdded,
    Event,
    FilterDrifted,
    FiltersReordered,
    FunctionSuspended,
    IndexBuildFailed,
    IndexBuilt,
    KernelsCompiling,
    MessagesLost,
    PolicySwitched,
    QueriesNotIndexed,
    QueriesSuspended,
    ResultsDropped,
    RoundCommitted,
    RoundFailed,
    RoundMeasured,
    SinkOvertaken,
    SinkRefused,
    SourceClosed,
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

_LEVEL_OF = {
    **dict.fromkeys((RoundCommitted, RoundMeasured, ResultsDropped), logging.DEBUG),
    **dict.fromkeys((FiltersReordered, FilterDrifted, PolicySwitched), logging.DEBUG),
    **dict.fromkeys((KernelsCompiling, IndexBuilt, ColumnAdded, SourceClosed, SourceStarted), logging.INFO),
    TableLoaded: logging.INFO,
    **dict.fromkeys(
        (RoundFailed, StoreFileDamaged, AuditDifference, SinkRefused, SinkOvertaken, MessagesLost),
        logging.ERROR,
    ),
}  # all others are warnings
_SAID_IN_WORDS = (
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
        said = event_words(event) or ", ".join(f"{name} {value}" for name, value in fields.items())
        name = type(event).__name__
        extra = {
            "event": name,
            "fields": {"round": number, **fields},
            "said_in_words": isinstance(event, _SAID_IN_WORDS),
        }
        logger.log(level, "round %d: %s: %s", number, name, said, extra=extra)


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
    if is_json:
        out.log = note
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


def note(text: str, *, level: str = "info", event: str = "Note") -> None:
    """A line of JSON on stderr that no logger brings."""
    _print(json_line(level, event, {"message": without_secrets(text)}))


def json_line(level: str, event: str, fields: dict[str, Any], at_s: float | None = None) -> str:
    """One line of the log; fields come after time, level and event."""
    at = (
        datetime.datetime.now(datetime.UTC)
        if at_s is None
        else datetime.datetime.fromtimestamp(at_s, datetime.UTC)
    )
    time = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return json.dumps({"time": time, "level": level, "event": event, **fields}, ensure_ascii=False)


class JsonFormatter(logging.Formatter):
    """A log record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] | None = getattr(record, "fields", None)
        said = {"message": record.getMessage()} if fields is None else dict(fields)
        if record.exc_info:
            said["trace"] = self.formatException(record.exc_info)
        event = getattr(record, "event", None) or record.name
        line = json_line(record.levelname.lower(), event, jsonable(said), record.created)
        return without_secrets(line)


class TextFormatter(logging.Formatter):
    """A log record as people read it."""

    def format(self, record: logging.LogRecord) -> str:
        return without_secrets(super().format(record))


class _ToStderr(logging.Handler):
    """To whatever stderr is at the moment; what cannot be written is lost, and stops nothing."""

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError, ValueError):
            _print(self.format(record))


def _print(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _is_new(record: logging.LogRecord) -> bool:
    """Not the words for an event that is there itself."""
    return not getattr(record, "is_event", False)


def _is_for_people(record: logging.LogRecord) -> bool:
    """Not an event for which there are words, and not every request: a page that is open asks all the time."""
    is_usual = (
        record.name == ACCESS and record.levelno == logging.INFO and record.__dict__["fields"]["status"] < 400
    )
    return not (is_usual and not _is_debugging()) and not getattr(record, "said_in_words", False)


def _is_debugging() -> bool:
    return logging.getLogger(_LOGGERS[0]).level <= logging.DEBUG
