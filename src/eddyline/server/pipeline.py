"""The ends of the pipeline that runs on the engine: how far its sources and sinks are, and trying a failing one again."""

from __future__ import annotations

from collections.abc import Callable

from eddyline.api import sink_documents, source_documents
from eddyline.errors import UnknownNameError
from eddyline.server import models
from eddyline.server.access import Admin, Serves
from eddyline.server.errors import Answer, Refusal
from eddyline.server.routes import router
from eddyline.server.service import Service

routes = router("pipeline")


@routes.get("/sources", response_model=list[models.SourceAnswer])
def sources(service: Serves, caller: Admin) -> Answer:
    """The source of every stream: position, what lies behind it, rate, lag, failures. Rows of some streams are only pushed."""
    return Answer(source_documents(service.engine))


@routes.get("/sinks", response_model=list[models.SinkAnswer])
def sinks(service: Serves, caller: Admin) -> Answer:
    """The sinks of the pipeline: how far each is, what lies behind it, rate, failures."""
    return Answer(sink_documents(service.engine))


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
