"""Alerts that are open, what they said, and what they say as it comes."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Header
from fastapi import Query as Parameter
from starlette.responses import StreamingResponse

from eddyline.api.jsonable import jsonable
from eddyline.errors import PropertyError
from eddyline.server import models
from eddyline.server.access import Reader, Serves
from eddyline.server.errors import Answer
from eddyline.server.limits import MOST_NEWEST
from eddyline.server.live import Subscription
from eddyline.server.lookup import queries_of, query_of
from eddyline.server.queries import Owner
from eddyline.server.results import EVENTS, Policy, Queries, Room, event_stream
from eddyline.server.routes import router

routes = router("alerts")


@routes.get("/alerts", response_model=list[models.AlertAnswer])
def alerts(
    service: Serves,
    caller: Reader,
    query: str | None = None,
    owner: Owner = None,
    state: Literal["pending", "firing", "held"] | None = None,
) -> Answer:
    """Alerts that are open, the oldest first."""
    handle = None if query is None else query_of(service, caller, query, owner)
    found = service.engine.alerts(query=handle, owner=caller.acts_for(owner), state=state)
    return Answer([jsonable(alert.as_dict()) for alert in found])


@routes.get("/messages", response_model=models.MessagesAnswer)
def messages(
    service: Serves,
    caller: Reader,
    after: Annotated[int, Parameter(ge=0, lt=1 << 62)] = 0,
    newest: Annotated[int | None, Parameter(ge=0, le=MOST_NEWEST)] = None,
    query: str | None = None,
    owner: Owner = None,
) -> Answer:
    """What alerts said: the newest messages, or the first after an id; oldest first."""
    handle = None if query is None else query_of(service, caller, query, owner)
    whose = caller.acts_for(owner)
    found = service.engine.messages(after=after, newest=newest, query=handle, owner=whose)
    shown = found[:MOST_NEWEST]
    last = max([after, *(message.id for message in shown)])
    return Answer(
        {
            "messages": [jsonable(message.as_dict()) for message in shown],
            "next": last,
            "is_end": len(shown) == len(found),
        }
    )


@routes.get("/alerts/stream", responses=EVENTS, response_class=StreamingResponse)
async def stream(
    service: Serves,
    caller: Reader,
    query: Queries = [],  # noqa: B006, FastAPI reads it
    after: Annotated[int | None, Parameter(ge=0, lt=1 << 62)] = None,
    policy: Policy = "catch_up",
    queue: Room = 1_000,
    owner: Owner = None,
    last_event_id: Annotated[str | None, Header(max_length=30)] = None,
) -> StreamingResponse:
    """What alerts say, as server-sent events: `event: alert`, with the id of the message to come back with."""
    ids = queries_of(service, caller, query, owner)
    if last_event_id is not None:
        if not (last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) <= 18):
            raise PropertyError(
                f"{last_event_id!r} is not the id of a message", hint="Use the id of an event."
            )
        after = int(last_event_id)
    place = None if after is None else (after, 0, 0)
    return event_stream(
        service,
        caller,
        Subscription(
            "alerts", owner=caller.acts_for(owner), ids=ids, after=place, policy=policy, limit=queue
        ),
    )
