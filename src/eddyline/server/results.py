"""Results: the newest, those after a cursor, and as they come; why one is there, its receipt and its proof."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

import pyarrow as pa
from fastapi import Header
from fastapi import Query as Parameter
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from eddyline.delivery import jsonable
from eddyline.errors import RequestError, UnknownNameError
from eddyline.model import iso_time
from eddyline.runtime import Ids, read_place, written
from eddyline.server import models
from eddyline.server.access import Author, Caller, Reader, Serves
from eddyline.server.errors import Answer, Refusal
from eddyline.server.limits import MOST_NEWEST, MOST_ROWS
from eddyline.server.live import EventSubscription, Hub
from eddyline.server.lookup import ids_of, queries_of, query_of, result_of
from eddyline.server.queries import Owner
from eddyline.server.routes import router
from eddyline.server.service import Service

routes = router("results")

T = TypeVar("T")

Newest = Annotated[
    int | None, Parameter(ge=0, le=MOST_NEWEST, description="The newest; 20 if `after` is not given.")
]
After = Annotated[
    str | None,
    Parameter(max_length=60, description="The cursor of a result, or a round: only later results."),
]
Limit = Annotated[int, Parameter(ge=1, le=MOST_NEWEST)]
Queries = Annotated[list[str], Parameter(description="Names or numbers; all if not given.")]
Policy = Annotated[
    Literal["catch_up", "drop", "close"],
    Parameter(
        description="If the client is too slow for its queue: read again later, drop the oldest, or end."
    ),
]
Room = Annotated[int, Parameter(ge=1, le=10_000, description="How many events may wait for the client.")]
ARROW_TYPE = "application/vnd.apache.arrow.stream"
ARROW: dict[int | str, dict[str, object]] = {
    200: {
        "content": {ARROW_TYPE: {"schema": {"type": "string", "format": "binary"}}},
        "description": "Arrow batches",
    }
}
EVENTS: dict[int | str, dict[str, object]] = {
    200: {
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
        "description": "Server-sent events",
    }
}


@routes.get("/queries/{query}/results", response_model=models.ResultsAnswer)
def results_of_query(
    service: Serves,
    caller: Reader,
    query: str,
    newest: Newest = None,
    after: After = None,
    limit: Limit = 100,
    owner: Owner = None,
) -> Answer:
    """Results of one query: the newest, or those after a cursor, oldest first."""
    handle = query_of(service, caller, query, owner)
    return _page(service, ids_of(service, caller, [f"q{handle.id}"], owner), newest, after, limit)


@routes.get("/queries/{query}/results/arrow", responses=ARROW, response_class=Response)
def results_as_arrow(
    service: Serves,
    caller: Reader,
    query: str,
    newest: Annotated[int, Parameter(ge=0, le=MOST_ROWS)] = MOST_ROWS,
    after: After = None,
    marks: Annotated[
        bool, Parameter(description="With the columns _generation, _round, _arrival, _change, _late.")
    ] = False,
    owner: Owner = None,
) -> Response:
    """Results of one query that are kept, oldest first, as a stream of Arrow batches: those after a cursor, or the newest."""
    handle = query_of(service, caller, query, owner)
    if after is None:
        table = handle.to_arrow(newest=newest, marks=marks)
    else:
        table = handle.to_arrow(after=after, marks=marks).slice(0, newest)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return Response(sink.getvalue().to_pybytes(), media_type=ARROW_TYPE)


@routes.get("/results", response_model=models.ResultsAnswer)
def results(
    service: Serves,
    caller: Reader,
    query: Queries = [],  # noqa: B006, FastAPI reads it
    newest: Newest = None,
    after: After = None,
    limit: Limit = 100,
    owner: Owner = None,
) -> Answer:
    """The same of several queries, or of all the caller may see."""
    return _page(service, ids_of(service, caller, query, owner), newest, after, limit)


def _timed(service: Service, results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Results with the time of their rounds, as far as it is known."""
    times = service.directory.times(iter({result["round"] for result in results}))
    at = {number: iso_time(at_us) for number, at_us in times.items()}
    return [result | {"at": at.get(result["round"])} for result in results]


def _page(service: Service, ids: Ids, newest: int | None, after: str | None, limit: int) -> Answer:
    last = service.stored_results.last_round()
    if after is None:
        found = service.stored_results.newest(ids, 20 if newest is None else newest)
        following = str(max([last, *(result["round"] for result in found)]))
        return Answer({"results": _timed(service, found), "next": following, "is_end": True})
    page = service.stored_results.after(ids, read_place(after), until=last, limit=limit)
    return Answer(
        {"results": _timed(service, page.results), "next": written(page.place), "is_end": page.is_end}
    )


@routes.get("/results/stream", responses=EVENTS, response_class=StreamingResponse)
async def stream(
    service: Serves,
    caller: Reader,
    query: Queries = [],  # noqa: B006
    after: After = None,
    policy: Policy = "catch_up",
    queue: Room = 1_000,
    owner: Owner = None,
    last_event_id: Annotated[str | None, Header(max_length=60)] = None,
) -> StreamingResponse:
    """Results as they come, as server-sent events: `id` is the cursor to come back with, in Last-Event-ID or `after`.

    `event: result` has a result; `event: lost` says how many were passed over. A comment comes when nothing else did for a while.
    """
    ids = queries_of(service, caller, query, owner)
    resume = last_event_id or after
    place = None if resume is None else read_place(resume)
    return event_stream(
        service,
        caller,
        EventSubscription(
            "results", owner=caller.acts_for(owner), ids=ids, after=place, policy=policy, limit=queue
        ),
    )


class _EventStream(StreamingResponse):
    """Sends what a subscription gets, and frees its place when the client or the stream is gone."""

    def __init__(self, hub: Hub, subscription: EventSubscription, is_allowed: Callable[[], bool]) -> None:
        super().__init__(
            hub.stream(subscription, is_allowed=is_allowed),
            media_type="text/event-stream",
            headers={"cache-control": "no-store", "x-accel-buffering": "no"},
        )
        self._places = hub.places
        self._token_id = subscription.token_id
        self._places.occupy(self._token_id)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._places.free(self._token_id)


def event_stream(service: Service, caller: Caller, subscription: EventSubscription) -> StreamingResponse:
    """The response that sends what a subscription gets, as long as the caller's token holds."""
    if service.hub.places.is_full or service.is_draining:
        raise Refusal(
            503,
            RequestError("no more streams of events are taken now", hint="Try again later."),
            {"retry-after": "5"},
        )
    most = service.settings.streams_per_token
    if not caller.is_admin and service.hub.places.n_by_token[caller.id] >= most:
        raise Refusal(
            429,
            RequestError(
                f"this token has {most} streams of events open, and may have no more",
                hint="End some, or follow several queries with one: ?query=a&query=b. eddyline serve --streams sets the number.",
            ),
            {"retry-after": "5"},
        )
    subscription.token_id = caller.id
    tokens = service.access.tokens

    def is_allowed() -> bool:
        return tokens.is_there(caller.id, service.now_us())

    return _EventStream(service.hub, subscription, is_allowed)


@routes.get("/results/{id}/why", response_model=models.WhyAnswer)
def why(service: Serves, caller: Reader, id: str) -> Answer:
    """The verdict of each condition of its query on the row of a result."""
    result_id = result_of(service, caller, id)
    return Answer(jsonable(_there(lambda: service.commands.why_result(result=result_id))))


@routes.get("/results/{id}/receipt", response_model=models.ReceiptAnswer)
def receipt(service: Serves, caller: Reader, id: str) -> Answer:
    """What a result is made of: text, parameters, function versions, rows, round."""
    result_id = result_of(service, caller, id)
    return Answer(jsonable(_there(lambda: service.commands.receipt(result=result_id))))


@routes.post("/results/{id}/prove", response_model=models.ProofAnswer)
def prove(service: Serves, caller: Author, id: str) -> Answer:
    """Execute a result again in plain Spark SQL, independently of the engine."""
    result_id = result_of(service, caller, id)
    if not service.proofs.acquire(blocking=False):
        raise Refusal(
            503,
            RequestError("other results are being proven", hint="Try again in a moment."),
            {"retry-after": "5"},
        )
    try:
        return Answer(jsonable(_there(lambda: service.commands.prove(result=result_id))))
    finally:
        service.proofs.release()


def _there(look: Callable[[], T]) -> T:
    """The result of `look`; a result that is not there, or no longer kept, is refused with 404."""
    try:
        return look()
    except UnknownNameError as error:
        raise Refusal(404, error) from None
