"""Open alerts, their messages, kept and as they come; silences, and acknowledgements."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from fastapi import Header, Path
from fastapi import Query as Parameter
from starlette.responses import StreamingResponse

from eddyline.alerts import alert_groups, is_pattern
from eddyline.delivery import jsonable
from eddyline.errors import PropertyError
from eddyline.server import models
from eddyline.server.access import Author, Caller, Reader, Serves
from eddyline.server.errors import Answer, forbidden, not_there
from eddyline.server.limits import MOST_NEWEST
from eddyline.server.live import EventSubscription
from eddyline.server.lookup import queries_of, query_of
from eddyline.server.queries import Owner
from eddyline.server.results import EVENTS, Policy, Queries, Room, event_stream
from eddyline.server.routes import router
from eddyline.server.service import Service

routes = router("alerts")

State = Literal["pending", "firing", "held"] | None
Severity = Literal["info", "warning", "error", "critical"] | None
MOST_SHOWN = 500  # rules, and alerts of one
Shown = Annotated[int, Parameter(ge=1, le=MOST_SHOWN)]


@routes.get("/alerts", response_model=list[models.AlertAnswer])
def alerts(
    service: Serves,
    caller: Reader,
    query: str | None = None,
    owner: Owner = None,
    state: State = None,
    severity: Severity = None,
    silenced: bool | None = None,
    acknowledged: bool | None = None,
) -> Answer:
    """Alerts that are open, the oldest first."""
    handle = None if query is None else query_of(service, caller, query, owner)
    found = service.engine.alerts(
        query=handle,
        owner=caller.acts_for(owner),
        state=state,
        severity=severity,
        silenced=silenced,
        acknowledged=acknowledged,
    )
    return Answer([_alert(caller, alert.as_dict()) for alert in found])


def _alert(caller: Caller, facts: dict[str, Any]) -> dict[str, Any]:
    """An alert as this caller may see it."""
    if facts["silence"] is not None:
        facts["silence"] = _silence(caller, facts["silence"])
    shown: dict[str, Any] = jsonable(facts)
    return shown


@routes.get("/alerts/groups", response_model=models.AlertGroupsAnswer)
def groups(
    service: Serves,
    caller: Reader,
    query: str | None = None,
    owner: Owner = None,
    filter: Annotated[
        str | None, Parameter(max_length=500, description="Part of the name, the key or the message.")
    ] = None,
    state: State = None,
    severity: Severity = None,
    silenced: bool | None = None,
    acknowledged: bool | None = None,
    limit: Shown = 100,
    alerts: Annotated[int, Parameter(ge=0, le=MOST_SHOWN, description="How many of each rule.")] = 50,
) -> Answer:
    """Open alerts by rule, the gravest first, and how many there are of each kind."""
    handle = None if query is None else query_of(service, caller, query, owner)
    found = alert_groups(
        service.engine.rounds,
        query_id=None if handle is None else handle.id,
        owner=caller.acts_for(owner),
        search=filter,
        state=state,
        severity=severity,
        is_silenced=silenced,
        is_acknowledged=acknowledged,
        most=limit,
        most_alerts=alerts,
    )
    for group in found["groups"]:
        group["alerts"] = [_alert(caller, alert) for alert in group["alerts"]]
    return Answer(found)


@routes.get("/alerts/history", response_model=list[models.HistoryAnswer])
def history(
    service: Serves,
    caller: Reader,
    query: str,
    key: Annotated[
        str | None, Parameter(max_length=10_000, description='As JSON: {"sym": "A"}; none without `per`.')
    ] = None,
    newest: Annotated[int, Parameter(ge=0, le=MOST_NEWEST)] = 100,
    owner: Owner = None,
) -> Answer:
    """What happened to an alert, as far as it is kept, the oldest first."""
    handle = query_of(service, caller, query, owner)
    return Answer(jsonable(service.engine.alert_history(handle, _key(key), newest=newest)))


def _key(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise PropertyError("the key of an alert is a JSON object", hint='Such as {"sym": "A"}.')
    return found


@routes.post("/alerts/acknowledge", response_model=list[models.AlertAnswer])
def acknowledge(service: Serves, caller: Author, body: models.AcknowledgeBody, owner: Owner = None) -> Answer:
    """Take notice of the open alerts of a query, or of the one with this key, until they resolve."""
    handle = query_of(service, caller, body.query, owner)
    found = service.commands.acknowledge(
        query=handle.id, key=body.key, note=body.note, by=_name(caller), who=caller.id
    )
    return Answer([_alert(caller, alert) for alert in found])


@routes.get("/silences", response_model=list[models.SilenceAnswer])
def silences(
    service: Serves,
    caller: Reader,
    query: str | None = None,
    over: Literal["no", "yes", "both"] = "no",
    owner: Owner = None,
) -> Answer:
    """Silences that hold, or are over, the oldest first."""
    named = None if query is None else query_of(service, caller, query, owner).id
    is_over = {"no": False, "yes": True, "both": None}[over]
    found = service.engine.silences(named, owner=caller.acts_for(owner), over=is_over)
    return Answer([_silence(caller, silence.as_dict()) for silence in found])


def _silence(caller: Caller, facts: dict[str, Any]) -> dict[str, Any]:
    """A silence as this caller may see it: how much was withheld of all owners is for admins."""
    is_mine = caller.is_admin or facts["owner"] == caller.owner
    shown: dict[str, Any] = jsonable(facts | {"n_withheld": facts["n_withheld"] if is_mine else None})
    return shown


@routes.post("/silences", status_code=201, response_model=models.SilenceAnswer)
def silence(service: Serves, caller: Author, body: models.SilenceBody, owner: Owner = None) -> Answer:
    """Send no messages of a query's alerts, or of those whose names fit a pattern such as `watch-*`, until a time."""
    whose = caller.acts_for(owner)
    named: str | int = body.query
    if not (is_pattern(body.query) and not service.engine.rounds.catalog.names.find_all(body.query)):
        named = query_of(service, caller, body.query, owner).id
    silence = service.commands.silence(
        query=named,
        key=body.key,
        duration=body.duration,
        until=body.until,
        severity=body.severity,
        reason=body.reason,
        by=_name(caller),
        owner=whose,
        who=caller.id,
    )
    return Answer(_silence(caller, silence), status_code=201)


@routes.delete("/silences/{id}", response_model=models.SilenceAnswer)
def end_silence(
    service: Serves, caller: Author, id: Annotated[int, Path(ge=0, lt=1 << 62)], owner: Owner = None
) -> Answer:
    """Let a silence end now; what it kept back is settled in the next round."""
    _check_own(service, caller, id, owner)
    return Answer(_silence(caller, service.commands.silence_end(silence=id, by=_name(caller), who=caller.id)))


def _check_own(service: Service, caller: Caller, silence_id: int, owner: str | None) -> None:
    whose = caller.acts_for(owner)
    there = {each.id: each for each in service.engine.silences(over=None, owner=whose)}
    found = there.get(silence_id)
    if found is None:
        raise not_there(f"there is no silence {silence_id}", "GET /silences shows those that hold.")
    if whose is not None and found.owner != whose:
        raise forbidden("an admin made this silence, for the alerts of all owners", "Ask an admin to end it.")


def _name(caller: Caller) -> str:
    """Who is shown to have done it."""
    return caller.token.note or caller.owner or f"token {caller.id}"


@routes.get("/messages", response_model=models.MessagesAnswer)
def messages(
    service: Serves,
    caller: Reader,
    after: Annotated[int, Parameter(ge=0, lt=1 << 62)] = 0,
    newest: Annotated[int | None, Parameter(ge=0, le=MOST_NEWEST)] = None,
    query: str | None = None,
    owner: Owner = None,
) -> Answer:
    """Messages of alerts: the newest, or the first after an id; oldest first."""
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
        EventSubscription(
            "alerts", owner=caller.acts_for(owner), ids=ids, after=place, policy=policy, limit=queue
        ),
    )
