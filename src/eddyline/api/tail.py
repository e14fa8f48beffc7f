"""Results as they are kept, in order, and then as they come: what `eddyline tail` shows.

A place is (round, arrival number, query). The engine's lock is held only to look up which files there are, never while a file is
read or somebody is waited for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from eddyline.api.jsonable import jsonable
from eddyline.catalog.rounds import ListedFile
from eddyline.engine import Durable, RoundEngine
from eddyline.engine.durable import OUTBOX
from eddyline.errors import EddylineError, PropertyError

IDLE_S = 0.5  # how often a reader that follows is looked after when nothing happens
_END = 1 << 62  # above every number

Place = tuple[int, int, int]


def tail(
    rounds: RoundEngine,
    durable: Durable,
    ids: frozenset[int],
    *,
    newest: int | None,
    after: str | None,
    follow: bool,
) -> Iterator[dict[str, Any] | None]:
    """Results of the queries `ids` (none: of all): the `newest` or those after a cursor, then, to follow, all that come.

    Yields None now and then while nothing comes, so that a reader that has gone away is noticed.
    """
    place = (0, 0, 0) if after is None else _place(after)
    if after is None and newest is not None:
        files, last = _files_after(rounds, durable, place)
        kept: list[dict[str, Any]] = []
        for file in reversed(files):
            if len(kept) >= newest:
                break
            kept = _results(rounds, durable, file, ids, place) + kept
        yield from kept[max(0, len(kept) - newest) :]
        place = last, _END, 0
    while not rounds.is_closed:
        files, last = _files_after(rounds, durable, place)
        for file in files:
            yield from _results(rounds, durable, file, ids, place)
        place = max(place, (last, _END, 0))
        if not follow:
            return
        with rounds.lock:
            if _last_round(rounds, durable) == last:
                rounds.delivered.wait(IDLE_S)
        yield None


def _files_after(rounds: RoundEngine, durable: Durable, place: Place) -> tuple[list[ListedFile], int]:
    """Files with results after a place, and the last round."""
    with rounds.lock:
        rounds.check_open()
        first = place[0] if place[1] == _END else place[0] - 1
        return durable.rounds.files_after(OUTBOX, first), _last_round(rounds, durable)


def _last_round(rounds: RoundEngine, durable: Durable) -> int:
    last = None if rounds.is_closed else durable.rounds.last()
    return 0 if last is None else last.round.number


def _results(
    rounds: RoundEngine, durable: Durable, file: ListedFile, ids: frozenset[int], after: Place
) -> list[dict[str, Any]]:
    """The results of one round in order of arrival, then of query."""
    wanted = np.fromiter(ids, np.int32, len(ids))
    names: dict[int, str] = {}
    found: list[dict[str, Any]] = []
    for part in durable.parts(file):
        pairs = np.arange(len(part)) if not ids else np.flatnonzero(np.isin(part.query_ids, wanted))
        marks = zip(
            part.query_ids[pairs].tolist(),
            part.arrivals[pairs].tolist(),
            part.generations[pairs].tolist(),
            part.signs[pairs].tolist(),
            part.is_late[pairs].tolist(),
            part.project(pairs).to_pylist(),
            strict=True,
        )
        for query_id, arrival, generation, sign, is_late, row in marks:
            if (file.round_number, arrival, query_id) <= after:
                continue
            if query_id not in names:
                names[query_id] = _name(rounds, durable, query_id)
            found.append(
                {
                    "query": names[query_id],
                    "query_id": query_id,
                    "generation": generation,
                    "round": file.round_number,
                    "arrival": arrival,
                    "change": "insert" if sign > 0 else "delete",
                    "is_late": is_late,
                    "row": jsonable(row),
                    "cursor": f"{file.round_number}-{arrival}-{query_id}",
                }
            )
    return sorted(found, key=lambda result: (result["arrival"], result["query_id"]))


def _name(rounds: RoundEngine, durable: Durable, query_id: int) -> str:
    """What a query is called, or was before it was dropped."""
    with rounds.lock:
        rounds.check_open()
        try:
            return rounds.catalog.name_of(query_id)
        except EddylineError:
            past = durable.database.past_query(query_id)
            return f"q{query_id}" if past is None or past[0] is None else past[0]


def _place(cursor: str) -> Place:
    """Where to go on; a cursor without a query means all of the row's results were taken, a round alone all of its rows."""
    parts = cursor.split("-")
    if not 1 <= len(parts) <= 3 or not all(part.isascii() and part.isdigit() for part in parts):
        raise PropertyError(
            f"{cursor!r} is not a cursor", hint="Use the cursor of a result, such as 12-345-6, or a round."
        )
    numbers = [int(part) for part in parts]
    if len(numbers) == 1:
        return numbers[0], _END, 0
    return numbers[0], numbers[1], numbers[2] if len(numbers) == 3 else _END
