"""From the words of an address to a query the caller may see. Queries of other owners do not exist for it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from eddyline.api import Query
from eddyline.errors import EddylineError, PropertyError, did_you_mean
from eddyline.model import QueryState
from eddyline.runtime import Ids, Owners, Place, read_place
from eddyline.server.access import Caller
from eddyline.server.errors import Refusal, not_there
from eddyline.server.service import Service

_NUMBER = re.compile(r"q?([0-9]{1,9})", re.ASCII)
_SEARCHED_NAMES = 2_000  # for "did you mean": comparing takes long
MOST_QUERIES = 1_000  # that a request can name


def query_of(service: Service, caller: Caller, named: str, owner: str | None = None) -> Query:
    """The query with this number (`q12` or `12`) or name. A number comes first: it is what lists and results say."""
    whose = caller.acts_for(owner)
    rounds = service.engine.rounds
    number = _NUMBER.fullmatch(named)
    with rounds.lock:
        rounds.check_open()
        catalog = rounds.catalog
        if number is not None:
            query_id = int(number[1])
            is_there = catalog.queries.state(query_id) is not QueryState.DROPPED
            if is_there and (whose is None or catalog.queries.owner_of(query_id) == whose):
                return Query(service.engine, query_id)
        found = catalog.names.find(named, caller.owner if whose is None else whose)
        if found is not None:
            return Query(service.engine, found)
        names = list(catalog.names.of(caller.owner if whose is None else whose))
        others = catalog.names.find_all(named) if whose is None else []
    if others:
        if len(others) == 1:
            return Query(service.engine, others[0])
        raise not_there(
            f"there are {len(others)} queries {named!r}, of different owners",
            f"Name one by its number ({', '.join(f'q{i}' for i in others[:10])}), or give owner=.",
        )
    hint = did_you_mean(named, names, noun="query") if len(names) <= _SEARCHED_NAMES else None
    raise not_there(f"there is no query {named[:100]!r}", hint)


def queries_of(
    service: Service, caller: Caller, named: Sequence[str], owner: str | None
) -> frozenset[int] | None:
    """Numbers of the queries that are named; None if none is, which means all the caller may see."""
    if len(named) > MOST_QUERIES:
        raise PropertyError(
            f"{len(named)} queries are named", hint=f"Name up to {MOST_QUERIES}, or none to have all."
        )
    return frozenset(query_of(service, caller, each, owner).id for each in named) if named else None


def ids_of(service: Service, caller: Caller, named: Sequence[str], owner: str | None) -> Ids:
    """The same, as results are looked up."""
    ids = queries_of(service, caller, named, owner)
    if ids is not None:
        return np.array(sorted(ids), np.int32)
    whose = caller.acts_for(owner)
    return None if whose is None else Owners(service.engine.rounds).queries_of(whose)


def own_ids(service: Service, caller: Caller, owner: str | None) -> npt.NDArray[np.int32] | None:
    """The queries of one owner, if those are all the caller may see or asks for; None: of all owners."""
    whose = caller.acts_for(owner)
    if whose is None:
        return None
    listing = service.directory.listing()
    return listing.ids[listing.of(whose)]


def result_of(service: Service, caller: Caller, result_id: str) -> str:
    """A result's id, once it is clear that the caller may see it, also if its query was dropped since."""
    try:
        place: Place = read_place(result_id)
    except EddylineError as error:
        raise Refusal(404, error) from None
    if result_id.count("-") != 2 or place[2] >= 1 << 31:
        raise not_there(
            f"there is no result {result_id[:60]!r}", "The id of a result is its cursor, such as 12-345-6."
        )
    owner = Owners(service.engine.rounds).of(place[2])
    if owner is None or not (caller.is_admin or owner == caller.owner):
        raise not_there(
            f"there is no result {result_id[:60]!r}", "GET /api/v1/results lists the stored results."
        )
    return result_id


def check_new_name(name: str | None) -> None:
    """A name that looks like a number would be mistaken for one."""
    if name is not None and _NUMBER.fullmatch(name):
        raise PropertyError(
            f"{name!r} cannot be the name of a query here: numbers are written so",
            hint="Give it a name with another letter.",
        )
