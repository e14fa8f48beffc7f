"""The ends of the pipeline that runs on an engine, in words that JSON has: how far its sources and its sinks are."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from eddyline.delivery import jsonable
from eddyline.model import iso_time

if TYPE_CHECKING:
    from eddyline.api.engine import Engine


def source_documents(engine: Engine) -> Any:
    """The source of every stream: position, what lies behind it, rate, lag, failures. Rows of some streams are only pushed."""
    running = {status.stream.lower(): status for status in engine.sources()}
    found = []
    for stream in engine.counters().streams:
        status = running.get(stream.name.lower())
        document: dict[str, Any] = (
            {"stream": stream.name, "type": "push"} if status is None else dataclasses.asdict(status)
        )
        found.append(
            _PUSHED
            | document
            | {
                "failed_at": _instant(document.pop("failed_at_us", None)),
                "n_stream_rows": stream.n_rows,
                "n_late": stream.n_late,
                "lag_s": stream.watermark_lag_s,
            }
        )
    return jsonable(found)


def sink_documents(engine: Engine) -> Any:
    """The sinks of the pipeline: how far each is, what lies behind it, rate, failures."""
    counted = {sink.name: sink for sink in engine.counters().sinks}
    found = []
    for status in engine.sinks():
        document, sink = dataclasses.asdict(status), counted.get(status.name)
        document["failed_at"] = _instant(document.pop("failed_at_us"))
        for word in ("n_failures", "n_lost", "n_refused"):
            document[word] = 0 if sink is None else getattr(sink, word)
        found.append(document | {"unit": "messages" if status.takes == "alerts" else "rounds"})
    return jsonable(found)


def _instant(microseconds: int | None) -> str | None:
    return None if microseconds is None else iso_time(microseconds)


_PUSHED: dict[str, Any] = {
    "what": "",
    "position": "",
    "n_behind": None,
    "unit": "rows",
    "n_rows": 0,
    "rows_per_s": None,
    "is_failing": False,
    "is_finished": False,
    "n_failures": 0,
    "message": "",
    "retry_in_s": None,
    "parts": [],
}
