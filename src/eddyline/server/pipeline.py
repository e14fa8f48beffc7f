"""The ends of the pipeline that runs on the engine: how far its sources and sinks are, and trying a failing one again."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from eddyline.api.jsonable import jsonable
from eddyline.errors import UnknownNameError
from eddyline.model import iso_time
from eddyline.server import models
from eddyline.server.access import Admin, Serves
from eddyline.server.errors import Answer, Refusal
from eddyline.server.routes import router
from eddyline.server.service import Service

routes = router("pipeline")


@routes.get("/sources", response_model=list[models.SourceAnswer])
def sources(service: Serves, caller: Admin) -> Answer:
    """The source of every stream: position, what lies behind it, rate, lag, failures. Rows of some streams are only pushed."""
    running = {status.stream.lower(): status for status in service.engine.sources()}
    found = []
    for stream in service.engine.counters().streams:
        status = running.get(stream.name.lower())
        told: dict[str, Any] = (
            {"stream": stream.name, "type": "push"} if status is None else dataclasses.asdict(status)
        )
        found.append(
            _PUSHED
            | told
            | {
                "failed_at": _instant(told.pop("failed_at_us", None)),
                "n_stream_rows": stream.n_rows,
                "n_late": stream.n_late,
                "lag_s": stream.watermark_lag_s,
            }
        )
    return Answer(jsonable(found))


@routes.get("/sinks", response_model=list[models.SinkAnswer])
def sinks(service: Serves, caller: Admin) -> Answer:
    """The sinks of the pipeline: how far each is, what lies behind it, rate, failures."""
    counted = {sink.name: sink for sink in service.engine.counters().sinks}
    found = []
    for status in service.engine.sinks():
        told, sink = dataclasses.asdict(status), counted.get(status.name)
        told["failed_at"] = _instant(told.pop("failed_at_us"))
        for word in ("n_failures", "n_lost", "n_refused"):
            told[word] = 0 if sink is None else getattr(sink, word)
        found.append(told | {"unit": "messages" if status.takes == "alerts" else "rounds"})
    return Answer(jsonable(found))


@routes.post("/sources/{stream}/retry", response_model=models.RetryAnswer)
def retry_source(service: Serves, caller: Admin, stream: str) -> Answer:
    """Read a source that fails again at once, instead of after its pause."""
    return _retried(service, caller, "source", stream, service.engine.retry_source)


@routes.post("/sinks/{name}/retry", response_model=models.RetryAnswer)
def retry_sink(service: Serves, caller: Admin, name: str) -> Answer:
    """Serve a sink that fails again at once, instead of after its pause."""
    return _retried(service, caller, "sink", name, service.engine.retry_sink)


def _retried(service: Service, caller: Admin, kind: str, name: str, retry: Callable[[str], None]) -> Answer:
    try:
        retry(name[:200])
    except UnknownNameError as error:
        raise Refusal(404, error) from None
    service.audit(caller.id, "", f"retry {kind}", {kind: name})
    return Answer({"retried": name})


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
