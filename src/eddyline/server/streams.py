"""Streams: what there is, what is declared, and rows that are pushed."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Header
from fastapi import Query as Parameter
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from eddyline.api import StreamHandle
from eddyline.delivery import jsonable
from eddyline.errors import RequestError, did_you_mean
from eddyline.explain import FiltersExplanation, filter_facts
from eddyline.model import iso_time
from eddyline.server import models
from eddyline.server.access import Admin, Caller, Reader, Serves
from eddyline.server.errors import Answer, Refusal, not_there
from eddyline.server.lookup import own_ids
from eddyline.server.routes import json_of, router
from eddyline.server.service import Service
from eddyline.types import type_name

routes = router("streams")

_ROWS = {"type": "array", "items": {"type": "object"}}
_ROWS_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "anyOf": [_ROWS, {"type": "object", "properties": {"rows": _ROWS}, "required": ["rows"]}]
                }
            },
            "application/x-ndjson": {"schema": {"type": "string"}},
        },
    }
}


def find_stream(service: Service, name: str) -> StreamHandle:
    """A stream by name, whatever the case."""
    there = {stream.name.lower(): stream for stream in service.engine.streams()}
    found = there.get(name.lower())
    if found is None:
        hint = did_you_mean(name[:100], [s.name for s in there.values()], noun="stream")
        raise not_there(f"there is no stream {name[:100]!r}", hint)
    return found


def _shown(stream: StreamHandle) -> dict[str, Any]:
    watermark = stream.watermark_us
    return {
        "name": stream.name,
        "columns": [{"name": f.name, "type": type_name(f.type)} for f in stream.schema],
        "time": stream.time,
        "time_unit": stream.time_unit,
        "time_format": stream.time_format,
        "lateness_us": stream.lateness_us,
        "n_rows": stream.n_rows,
        "n_late": stream.n_late,
        "n_queries": stream.n_queries,
        "watermark": None if watermark is None else _instant(watermark),
        "partitions": [
            {
                "name": each.name,
                "watermark": None if each.watermark_us is None else _instant(each.watermark_us),
                "last_row": _instant(each.last_row_us),
                "is_idle": each.is_idle,
            }
            for each in stream.partitions
        ],
    }


def _instant(microseconds: int) -> str | None:
    text = iso_time(microseconds)
    return text if text.endswith("Z") else None  # a row may carry any number as its time


@routes.get("/streams", response_model=list[models.StreamAnswer])
def streams(service: Serves, caller: Reader) -> Answer:
    """All streams, with how far each has come."""
    with service.engine.rounds.lock:
        return Answer([_shown(stream) for stream in service.engine.streams()])


@routes.get("/streams/{name}", response_model=models.StreamAnswer)
def stream(service: Serves, caller: Reader, name: str) -> Answer:
    with service.engine.rounds.lock:
        return Answer(_shown(find_stream(service, name)))


@routes.get("/streams/{name}/filters", response_model=models.FiltersAnswer)
def filters(
    service: Serves,
    caller: Reader,
    name: str,
    bound: Annotated[
        bool, Parameter(description="Also how far from the best possible; takes longer.")
    ] = False,
    owner: Annotated[
        str | None, Parameter(description="Admins: texts of this owner's filters; all if not given.")
    ] = None,
) -> Answer:
    """The expensive conditions of a stream's queries: their order and why it changed, what they cost, what sharing them saves.

    Those that no query of one's own needs have neither text nor numbers.
    """
    stream = find_stream(service, name)
    own = own_ids(service, caller, owner)
    found = filter_facts(service.engine.rounds, stream.name, own=own, with_bound=bound)
    return Answer(jsonable(found | {"shown": str(FiltersExplanation([found]))}))


@routes.post("/streams", status_code=201, response_model=models.StreamAnswer)
def declare(service: Serves, caller: Admin, body: models.StreamBody) -> Answer:
    """Declare a stream, or add nullable columns to one that is there."""
    declared = service.engine.stream(
        body.name,
        body.schema_,
        time=body.time,
        time_unit=body.time_unit,
        time_format=body.time_format,
        lateness=body.lateness,
        key=body.key,
        window=body.window,
        idle=body.idle,
        delete=body.delete,
    )
    service.audit(caller.id, "", "declare stream", {"stream": declared.name, "schema": body.schema_[:1000]})
    return Answer(_shown(declared), status_code=201)


@routes.delete("/streams/{name}", response_model=dict[str, Any])
def drop(service: Serves, caller: Admin, name: str) -> Answer:
    """Forget a stream that no query uses."""
    found = find_stream(service, name)
    service.engine.drop_stream(found.name)
    service.audit(caller.id, "", "drop stream", {"stream": found.name})
    return Answer({"dropped": found.name, "version": service.engine.version})


@routes.post("/streams/{name}/rows", response_model=models.PushAnswer, openapi_extra=_ROWS_BODY)
async def push(
    service: Serves,
    caller: Admin,
    request: Request,
    name: str,
    idempotency_key: Annotated[str | None, Header(max_length=200)] = None,
) -> Answer:
    """Run a round over rows: a JSON list, {"rows": [...]}, or a row on each line (application/x-ndjson).

    The same Idempotency-Key again gives the round of the first time and does nothing, so that a producer may try again.
    """
    body = await request.body()
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    return await run_in_threadpool(_pushed, service, caller, name, body, kind, idempotency_key)


def _pushed(service: Service, caller: Caller, name: str, body: bytes, kind: str, token: str | None) -> Answer:
    found = find_stream(service, name)
    matches = service.engine.push(found.name, _rows(body, kind), token=token or None)
    return Answer(
        {
            "round": matches.round_number,
            "n_rows": matches.n_rows,
            "n_results": matches.count,
            "n_dead": matches.n_dead,
            "is_repeat": matches.is_repeat,
        }
    )


def _rows(body: bytes, kind: str) -> list[dict[str, Any]]:
    rows: Any
    if kind in ("application/x-ndjson", "application/jsonl", "application/jsonlines"):
        rows = [json_of(line) for line in body.splitlines() if line.strip()]
    elif kind == "application/json":
        rows = json_of(body)
        if isinstance(rows, dict) and set(rows) == {"rows"}:
            rows = rows["rows"]
    else:
        raise Refusal(
            415,
            RequestError(
                f"rows are not taken as {kind[:100]}", hint="Send application/json or application/x-ndjson."
            ),
        )
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise RequestError(
            "rows are a list of objects",
            hint='Send [{"sym": "ACME", "price": 9.5}], or an object on each line.',
        )
    return rows
