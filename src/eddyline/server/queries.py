"""Queries: lists, one, registering, changing, dropping, and the questions one can ask of them."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import Query as Parameter

from eddyline.api import Query
from eddyline.control import error_to
from eddyline.delivery import jsonable
from eddyline.errors import EddylineError, PropertyError, RequestError
from eddyline.explain import MOST_GROUPS
from eddyline.model import iso_time
from eddyline.rules import FieldMistake, query_mistakes, stated_view
from eddyline.server import models
from eddyline.server.access import Author, Caller, Reader, Serves
from eddyline.server.directory import STATUSES
from eddyline.server.errors import Answer, Refusal, not_there
from eddyline.server.families import Folded, Line, family_facts, members_of
from eddyline.server.limits import MOST_PER_PAGE
from eddyline.server.listing import ALONE, Listing
from eddyline.server.lookup import check_new_name, own_ids, query_of
from eddyline.server.routes import router
from eddyline.server.service import Service
from eddyline.server.trends import MINUTES

routes = router("queries")

Owner = Annotated[str | None, Parameter(description="Admins: only this owner's; all if not given.")]


# --------------------------------------------------------------------------------------------- lists


@routes.get("/queries", response_model=models.QueryPageAnswer)
def queries(
    service: Serves,
    caller: Reader,
    filter: Annotated[
        str | None,
        Parameter(max_length=500, description="Part of the name, the text, or a parameter's value."),
    ] = None,
    owner: Owner = None,
    state: Literal["running", "paused", "suspended"] | None = None,
    status: Annotated[models.Status | None, Parameter(description="Only rules in this status.")] = None,
    mood: Annotated[
        models.Status | None, Parameter(deprecated=True, description="Earlier name of status.")
    ] = None,
    family: Annotated[
        str | None, Parameter(max_length=64, description="Only rules of this template or rules table.")
    ] = None,
    fold: Annotated[
        bool, Parameter(description="Rules of one template or rules table as one entry, in `lines`.")
    ] = False,
    sort: Annotated[
        Literal["name", "results", "cost", "last", "status", "mood"],
        Parameter(description="mood is the earlier name of status."),
    ] = "name",
    trend: Annotated[
        int, Parameter(ge=0, le=MINUTES, description="Results in each of so many last minutes, as `trend`.")
    ] = 0,
    page: Annotated[int, Parameter(ge=1, le=1_000_000)] = 1,
    per_page: Annotated[int, Parameter(ge=1, le=MOST_PER_PAGE)] = 50,
) -> Answer:
    """A page of queries, and how many of all that fit are in each status."""
    directory = service.directory
    listing = directory.listing()
    found = directory.found(listing, owner=caller.acts_for(owner), pattern=filter, state=state, family=family)
    open_alerts = service.open_alerts()
    statuses = directory.statuses(listing, found, open_alerts)
    counts = dict(zip(STATUSES, np.bincount(statuses, minlength=len(STATUSES)).tolist(), strict=True))
    chosen_status = status or mood
    if chosen_status is not None:
        is_chosen = statuses == STATUSES.index(chosen_status)
        found, statuses = found[is_chosen], statuses[is_chosen]
    sort = "status" if sort == "mood" else sort
    body: dict[str, Any] = {"total": len(found), "page": page, "statuses": counts, "moods": counts}
    first = (page - 1) * per_page
    if fold:
        folded = Folded(directory, listing, found, statuses, sort)
        lines = _lines(service, listing, folded.lines(first, per_page), open_alerts, trend)
        singles = [line for line in lines if "family" not in line]
        return Answer(body | _pages(len(folded), per_page) | {"lines": lines, "queries": singles})
    if sort == "status":
        ordered = directory.by_status(listing, found, statuses)
    else:
        ordered = directory.sorted(listing, found, sort)
    shown = _documents(service, listing, ordered[first : first + per_page].tolist(), open_alerts, trend)
    return Answer(body | _pages(len(found), per_page) | {"queries": shown})


def _pages(n: int, per_page: int) -> dict[str, int]:
    return {"n_lines": n, "n_pages": max(1, -(-n // per_page))}


def _lines(
    service: Service,
    listing: Listing,
    lines: list[Line],
    open_alerts: dict[int, dict[str, int]],
    trend: int,
) -> list[dict[str, Any]]:
    """What a folded list says: families, and rules without a family."""
    directory, rounds = service.directory, service.engine.rounds
    alone = [int(line.positions[0]) for line in lines if not line.is_family]
    documents = {each["id"]: each for each in _documents(service, listing, alone, open_alerts, trend)}
    families = [line for line in lines if line.is_family]
    with rounds.lock:
        spans = rounds.catalog.queries.spans() if trend else []
    members = [members_of(listing, line, spans) for line in families]
    trends = iter(service.trends.of_families(members, trend) if trend else [])
    found: list[dict[str, Any]] = []
    for line in lines:
        if not line.is_family:
            document = documents.get(int(listing.ids[line.positions[0]]))
            found += [] if document is None else [document]
            continue
        statuses = directory.statuses(listing, line.positions, open_alerts)
        facts = family_facts(directory, rounds, listing, line, statuses, open_alerts)
        found.append(facts | ({"trend": next(trends)} if trend else {}))
    return found


def _documents(
    service: Service,
    listing: Listing,
    positions: list[int],
    open_alerts: dict[int, dict[str, int]],
    trend: int = 0,
) -> list[dict[str, Any]]:
    """What lists say about these queries."""
    directory = service.directory
    at = np.array(positions, np.int64)
    ids = listing.ids[at]
    statuses = directory.statuses(listing, at, open_alerts).tolist()
    last = directory.last_results.of(ids).tolist()
    times = directory.times(last)
    shares = directory.cost_shares(listing, at)
    trends = service.trends.of(ids, trend) if trend else [None] * len(ids)
    found = []
    for k, (query_id, last_round) in enumerate(zip(ids.tolist(), last, strict=True)):
        try:
            facts = service.commands.query_facts(query_id)
        except EddylineError:  # dropped since the list was made
            continue
        status = STATUSES[statuses[k]]
        family = int(listing.family_numbers[positions[k]])
        found.append(
            facts
            | {
                "params": jsonable(facts["params"]),
                "status": status,
                "mood": status,
                "template": None if family == ALONE else listing.families[family].key,
                "n_open_alerts": sum(open_alerts.get(query_id, {}).values()),
                "last_result_at": None if last_round not in times else iso_time(times[last_round]),
                "last_round": last_round or None,
                "cost_share": shares[k],
            }
            | ({"trend": trends[k]} if trend else {})
        )
    return found


def document(service: Service, query: Query) -> dict[str, Any]:
    """The same about one."""
    listing = service.directory.listing()
    position = int(np.searchsorted(listing.ids, np.int32(query.id)))
    is_there = position < len(listing) and listing.ids[position] == query.id
    found = _documents(service, listing, [position], service.open_alerts(), MINUTES) if is_there else []
    if not found:
        raise not_there(f"there is no query q{query.id}", "It was dropped in this moment.")
    return found[0]


# --------------------------------------------------------------------------------------------- registering


@routes.post("/queries", status_code=201, response_model=models.QueryAnswer)
def add(service: Serves, caller: Author, body: models.QueryBody, owner: Owner = None) -> Answer:
    """Register a query. The same name and text again changes nothing; another text under the name needs `replace`."""
    name, property_values = _checked(caller, body.text, body.properties, owner)
    check_new_name(body.name or name)
    registered = service.commands.query_add(
        text=body.text,
        name=body.name,
        params=body.params,
        properties=property_values,
        replace=body.replace,
        to_replace='Send "replace": true to change it, or another name.',
    )
    what = "register query" if registered["is_new"] else "replace query"
    if registered["is_changed"]:
        service.audit(
            caller.id, registered["owner"], what, {"query": registered["name"], "id": registered["id"]}
        )
    facts = document(service, Query(service.engine, registered["id"]))
    return Answer(
        facts | {"is_new": registered["is_new"], "is_changed": registered["is_changed"]}, status_code=201
    )


@routes.post("/queries/bulk", status_code=201, response_model=models.BulkAnswer)
def add_many(service: Serves, caller: Author, body: models.BulkBody, owner: Owner = None) -> Answer:
    """Register many queries in one version, all or none."""
    _, property_values = _checked(caller, "", body.properties, owner)
    if (body.template is None) == (body.queries is None):
        raise PropertyError(
            "either a template or queries are registered",
            hint='Give {"template": …, "params": […]}, or {"queries": {name: text}}.',
        )
    for name in body.queries or ():
        check_new_name(name)
    if body.template is not None:
        registered = service.engine.query_many(
            body.template, params=body.params, name=body.name, **property_values
        )
    elif body.params is not None or body.name is not None:
        raise PropertyError("params and name go with a template", hint="Leave them out: texts have names.")
    else:
        registered = service.engine.query_many(body.queries or {}, **property_values)
    ids = (
        list(registered.ids) if isinstance(registered.ids, list) else [registered.ids[0], registered.ids[-1]]
    )
    service.audit(
        caller.id,
        property_values["owner"],
        "register queries",
        {"n": len(registered), "ids": ids[:1] + ids[-1:]},
    )
    return Answer({"n": len(registered), "ids": ids}, status_code=201)


@routes.post("/queries/check", response_model=models.CheckAnswer)
def check(service: Serves, caller: Reader, body: models.CheckBody) -> Answer:
    """Whether a text would be taken, what it would give and how it would be answered; a wrong text is no error here.

    `errors` has every mistake with its `field`: text, name, params.NAME or properties.NAME.
    """
    property_values: dict[str, Any] = {}
    found: dict[str, Any] = {}
    mistakes: list[FieldMistake] = []
    try:
        _, property_values = _checked(caller, body.text, body.properties, None)
    except EddylineError as error:  # of the owner, unless the text is no statement
        mistakes = [FieldMistake("properties.owner", error)]
    mistakes = (
        query_mistakes(
            service.engine, body.text, name=body.name, params=body.params, property_values=property_values
        )
        or mistakes
    )
    try:
        check_new_name(body.name)
    except EddylineError as error:
        mistakes.append(FieldMistake("name", error))
    if not mistakes:
        try:
            found = service.commands.check(
                text=body.text,
                params=body.params,
                properties=property_values,
                own=own_ids(service, caller, None),
            )
        except EddylineError as error:
            mistakes = [FieldMistake("text", error)]
    errors = [error_to(each.error) | {"field": each.field} for each in mistakes]
    if errors:
        return Answer(jsonable({"ok": False, "error": errors[0], "errors": errors}))
    return Answer(jsonable({"ok": True, "errors": []} | found))


@routes.post("/queries/try", response_model=models.TrialAnswer)
def try_query(service: Serves, caller: Author, body: models.TryBody) -> Answer:
    """How many of the last rows a text would have matched, with samples and errors; nothing is registered.

    Rows are those the process keeps for `why_not`. It answers after two seconds with what it has judged by then; of a join only
    the conditions on each stream are tried.
    """
    _, property_values = _checked(caller, body.text, body.properties, None)
    if not service.trials.acquire(blocking=False):
        raise Refusal(
            503,
            RequestError("other queries are being tried", hint="Try again in a moment."),
            {"retry-after": "2"},
        )
    try:
        return Answer(
            jsonable(
                service.commands.try_query(
                    text=body.text,
                    params=body.params,
                    properties=property_values,
                    last=body.last,
                    samples=body.samples,
                    timeout=body.timeout,
                )
            )
        )
    finally:
        service.trials.release()


def _checked(
    caller: Caller, text: str, properties: dict[str, Any] | None, owner: str | None
) -> tuple[str | None, dict[str, Any]]:
    """The name a text gives, and the properties to register with: they always name an owner the caller may act for.

    An owner may be in the address, among the properties, or in the text: all of them count, however they are spelt.
    """
    view = stated_view(text)
    owner_mistakes = [] if owner is None else [owner]
    for word, value in (*(properties or {}).items(), *(view.properties if view is not None else ())):
        if word.lower().removesuffix("_") != "owner":
            continue
        if value is not None and not isinstance(value, str):
            raise PropertyError(f"property owner: {value!r} is not a text")
        owner_mistakes += [] if value is None else [value]
    property_values = {
        word: v for word, v in (properties or {}).items() if word.lower().removesuffix("_") != "owner"
    }
    for each in owner_mistakes:
        caller.registers_for(each)
    if len(set(owner_mistakes)) > 1:
        raise PropertyError(
            f"two owners are named: {owner_mistakes[0]!r} and {owner_mistakes[-1]!r}", hint="Name one."
        )
    name = None if view is None else view.name
    return name, property_values | {
        "owner": caller.registers_for(owner_mistakes[0] if owner_mistakes else None)
    }


# --------------------------------------------------------------------------------------------- one query


@routes.get("/queries/{query}", response_model=models.QueryAnswer)
def show(service: Serves, caller: Reader, query: str, owner: Owner = None) -> Answer:
    """All about one query."""
    handle = query_of(service, caller, query, owner)
    found = service.commands.query_show(query=handle.id, own=own_ids(service, caller, owner))
    return Answer(jsonable(found | document(service, handle)))


@routes.put("/queries/{query}", response_model=models.QueryAnswer)
def replace(
    service: Serves, caller: Author, query: str, body: models.ReplaceBody, owner: Owner = None
) -> Answer:
    """Give a query another text, in one version. Properties that are not given stay, as does its owner."""
    handle = query_of(service, caller, query, owner)
    if any(word.lower().removesuffix("_") == "owner" for word in body.properties or {}):
        raise PropertyError(
            "a query keeps its owner", hint="Register it for the other owner, and drop this one."
        )
    before = service.engine.version
    service.commands.query_replace(
        query=handle.id, text=body.text, params=body.params, properties=body.properties
    )
    if service.engine.version != before:
        service.audit(
            caller.id, _owner(service, handle), "replace query", {"query": handle.name, "id": handle.id}
        )
    return Answer(document(service, handle))


@routes.delete("/queries/{query}", response_model=models.DroppedAnswer)
def drop(service: Serves, caller: Author, query: str, owner: Owner = None, cascade: bool = False) -> Answer:
    """End a query. It sees nothing of any later round. With `cascade` the queries that read it as a view end, too."""
    handle = query_of(service, caller, query, owner)
    name, whose = handle.name, _owner(service, handle)
    done = service.commands.query_drop(queries=[handle.id], cascade=cascade)
    facts = {"query": name, "id": handle.id} | ({"dropped": done["dropped"]} if cascade else {})
    service.audit(caller.id, whose, "drop query", facts)
    return Answer(done)


@routes.post("/queries/{query}/pause", response_model=models.PausedAnswer)
def pause(service: Serves, caller: Author, query: str, owner: Owner = None) -> Answer:
    """Let a query see nothing of the rounds until it is resumed."""
    return _paused(service, caller, query, owner, is_paused=True)


@routes.post("/queries/{query}/resume", response_model=models.PausedAnswer)
def resume(service: Serves, caller: Author, query: str, owner: Owner = None) -> Answer:
    """Let it run again, as a new generation."""
    return _paused(service, caller, query, owner, is_paused=False)


def _paused(service: Service, caller: Caller, query: str, owner: str | None, *, is_paused: bool) -> Answer:
    handle = query_of(service, caller, query, owner)
    change = service.commands.query_pause if is_paused else service.commands.query_resume
    done = change(queries=[handle.id])
    if done["changed"]:
        what = "pause query" if is_paused else "resume query"
        service.audit(caller.id, _owner(service, handle), what, {"query": handle.name, "id": handle.id})
    return Answer(done)


def _owner(service: Service, handle: Query) -> str:
    with service.engine.rounds.lock:
        return service.engine.rounds.catalog.queries.owner_of(handle.id)


# --------------------------------------------------------------------------------------------- questions


@routes.get("/queries/{query}/explain", response_model=models.ExplainAnswer)
def explain(service: Serves, caller: Reader, query: str, owner: Owner = None) -> Answer:
    """How the engine answers a query, and what it shares with others."""
    handle = query_of(service, caller, query, owner)
    return Answer(jsonable(service.commands.explain(query=handle.id, own=own_ids(service, caller, owner))))


@routes.get("/queries/{query}/groups", response_model=models.GroupsAnswer)
def groups(
    service: Serves,
    caller: Reader,
    query: str,
    where: Annotated[
        str | None,
        Parameter(
            max_length=2_000, description='Values of columns of SELECT or GROUP BY, as JSON: {"card": "A"}.'
        ),
    ] = None,
    order: Annotated[
        str | None, Parameter(max_length=200, description="A column of SELECT or GROUP BY: n DESC.")
    ] = None,
    limit: Annotated[int, Parameter(ge=1, le=MOST_GROUPS)] = 100,
    having: Annotated[bool, Parameter(description="False: also groups that HAVING leaves out.")] = True,
    owner: Owner = None,
) -> Answer:
    """The groups of a query with GROUP BY as they are now. Results after the cursor `next` are the changes since."""
    handle = query_of(service, caller, query, owner)
    found = service.commands.groups(
        query=handle.id, where=_values_of(where), order=order, limit=limit, having=having
    )
    return Answer(jsonable(found | {"next": str(found["round_number"])}))


def _values_of(where: str | None) -> dict[str, Any] | None:
    """What groups have to equal."""
    if where is None:
        return None
    try:
        found = json.loads(where)
    except ValueError:
        found = None
    if not isinstance(found, dict) or any(isinstance(value, (dict, list)) for value in found.values()):
        raise PropertyError(
            f"where is not a JSON object of plain values: {where[:100]}", hint='Write {"card": "A"}.'
        )
    return found


@routes.post("/queries/{query}/why", response_model=models.WhyAnswer)
def why(service: Serves, caller: Reader, query: str, body: models.WhyBody, owner: Owner = None) -> Answer:
    """What each condition says about a row."""
    handle = query_of(service, caller, query, owner)
    return Answer(jsonable(service.commands.why(query=handle.id, row=body.row)))


@routes.get("/queries/{query}/why_not", response_model=models.WhyNotAnswer)
def why_not(
    service: Serves,
    caller: Reader,
    query: str,
    last: Annotated[int, Parameter(ge=1, le=100_000)] = 1_000,
    owner: Owner = None,
) -> Answer:
    """How many of the last rows each condition stopped, and which row came nearest."""
    handle = query_of(service, caller, query, owner)
    return Answer(jsonable(service.commands.why_not(query=handle.id, last=last)))
