"""What is deployed and how it goes: status, rounds, events, dead letters, and the index."""

from __future__ import annotations

import dataclasses
import time
from typing import Annotated, Any

from fastapi import Query

import eddyline
from eddyline.alerts import n_open_alerts
from eddyline.delivery import jsonable
from eddyline.runtime import Owners
from eddyline.server import models
from eddyline.server.access import Admin, Caller, Reader, Serves
from eddyline.server.errors import Answer
from eddyline.server.limits import MOST_NEWEST
from eddyline.server.lookup import own_ids, query_of
from eddyline.server.routes import router
from eddyline.server.streams import find_stream

routes = router("status")

Newest = Annotated[int, Query(ge=0, le=MOST_NEWEST)]


@routes.get("/status", response_model=models.StatusAnswer)
def status(service: Serves, caller: Reader) -> Answer:
    """What is deployed, how fast it goes, and who the caller is."""
    body = service.commands.status()
    if not caller.is_admin:
        body.pop("home")
    trouble = service.trouble()
    return Answer(
        jsonable(body)
        | {
            "last_round": service.stored_results.last_round(),
            "rates": service.rates.per_s(),
            "uptime_s": round(time.monotonic() - service.began, 1),
            "eddyline": eddyline.__version__,
            "is_ready": trouble is None and not service.is_draining,
            "trouble": trouble if caller.is_admin else None,
            "n_streams_of_events": service.hub.places.n_streams,
            "n_open_alerts": n_open_alerts(service.engine.rounds, caller.acts_for(None)),
            "me": me_of(caller),
        }
    )


@routes.get("/me", response_model=models.Me)
def me(caller: Reader) -> Answer:
    """Whose token this is."""
    return Answer(me_of(caller))


def me_of(caller: Caller) -> dict[str, str]:
    return {"id": caller.id, "role": caller.role, "owner": caller.owner}


@routes.get("/rounds", response_model=list[dict[str, Any]])
def rounds(service: Serves, caller: Reader, newest: Newest = 20) -> Answer:
    """What the newest rounds took, newest first."""
    return Answer(jsonable(service.commands.rounds(newest=newest)))


@routes.get("/index", response_model=dict[str, Any])
def index(service: Serves, caller: Admin) -> Answer:
    """The predicate index of every stream."""
    return Answer(jsonable(service.commands.explain_index()))


@routes.get("/joins", response_model=models.JoinsAnswer)
def joins(
    service: Serves,
    caller: Reader,
    owner: Annotated[str | None, Query(description="Admins: joins of this owner; all if not given.")] = None,
) -> Answer:
    """What joins keep of each stream, now and over time, and in which order new rows look for partners.

    Joins that none of the caller's queries has are left out.
    """
    own = own_ids(service, caller, owner)
    return Answer(jsonable(service.commands.explain_joins(own=own)))


@routes.get("/aggregates", response_model=models.AggregatesAnswer)
def aggregates(
    service: Serves,
    caller: Reader,
    stream: Annotated[str | None, Query(description="Only classes over this stream.")] = None,
    owner: Annotated[
        str | None, Query(description="Admins: classes of this owner; all if not given.")
    ] = None,
) -> Answer:
    """What aggregates keep, by class, now and over time: queries that share it, groups, slices, rows, bytes, the next deadline.

    Of classes that none of the caller's queries has only the sizes are given.
    """
    own = own_ids(service, caller, owner)
    named = None if stream is None else find_stream(service, stream).name
    return Answer(jsonable(service.commands.explain_aggregates(stream=named, own=own)))


@routes.get("/events", response_model=list[dict[str, Any]])
def events(service: Serves, caller: Admin, newest: Newest = 100) -> Answer:
    """Recent announcements of the engine, oldest first."""
    found = service.engine.events()
    shown = found[max(0, len(found) - newest) :]
    return Answer([jsonable({"event": type(e).__name__} | dataclasses.asdict(e)) for e in shown])


@routes.get("/dead_letters", response_model=models.DeadLettersAnswer)
def dead_letters(
    service: Serves,
    caller: Reader,
    query: str | None = None,
    stream: str | None = None,
    newest: Newest = 20,
    owner: str | None = None,
) -> Answer:
    """Pairs of row and query that could not be decided, newest last; for admins also rows that did not fit their stream."""
    whose = caller.acts_for(owner)
    rounds = service.engine.rounds
    query_id = None if query is None else query_of(service, caller, query, owner).id
    if stream is not None:
        stream = find_stream(service, stream).name
    with rounds.lock:
        rounds.check_open()
        letters = rounds.dead_letters.find(stream=stream, query_id=query_id)
        n_total = rounds.dead_letters.n_total if query_id is None else rounds.dead_letters.by_query[query_id]
    if whose is not None:
        owners = Owners(rounds)
        letters = [x for x in letters if x.query_id is not None and owners.of(x.query_id) == whose]
    is_counted = query_id is not None or (whose is None and stream is None)
    shown = letters[max(0, len(letters) - newest) :]
    return Answer(
        {
            "total": n_total if is_counted else len(letters),
            "kept": len(letters),
            "letters": [jsonable(dataclasses.asdict(letter)) for letter in shown],
        }
    )
