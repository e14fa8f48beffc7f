"""Results as they are kept, in order, and then as they come: what `eddyline tail` shows.

The engine's lock is held only to look up which files there are, never while a file is read or a reader is waited for.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from eddyline.catalog import ListedFile
from eddyline.engine import Durable, RoundEngine
from eddyline.runtime.kept_results import END, Ids, Place, place_of, read_place, results_in
from eddyline.storage import OUTBOX

IDLE_S = 0.5  # how often a reader that follows is looked after when nothing happens


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
    place = (0, 0, 0) if after is None else read_place(after)
    selected_ids: Ids = np.array(sorted(ids), np.int32) if ids else None
    if after is None and newest is not None:
        files, last = _files_after(rounds, durable, place)
        newest_results: list[dict[str, Any]] = []
        for of_round in _by_round(reversed(files)):
            if len(newest_results) >= newest:
                break
            newest_results = _results_in(rounds, durable, of_round, selected_ids, place) + newest_results
        yield from newest_results[max(0, len(newest_results) - newest) :]
        place = last, END, 0
    while not rounds.is_closed:
        files, last = _files_after(rounds, durable, place)
        for of_round in _by_round(files):
            yield from _results_in(rounds, durable, of_round, selected_ids, place)
        place = max(place, (last, END, 0))
        if not follow:
            return
        with rounds.lock:
            if rounds.last_round == last and not rounds.is_closed:
                rounds.delivered.wait(IDLE_S)
        yield None


def _by_round(files: Iterable[ListedFile]) -> Iterator[list[ListedFile]]:
    """The files of each round."""
    for _, of_round in itertools.groupby(files, key=lambda file: file.round_number):
        yield list(of_round)


def _results_in(
    rounds: RoundEngine, durable: Durable, files: list[ListedFile], ids: Ids, place: Place
) -> list[dict[str, Any]]:
    """The results of one round after a place, in order of arrival, then of query."""
    found = [result for file in files for result in results_in(rounds, durable, file, ids, place)]
    return sorted(found, key=place_of)


def _files_after(rounds: RoundEngine, durable: Durable, place: Place) -> tuple[list[ListedFile], int]:
    """Files with results after a place, and the last round."""
    with rounds.lock:
        rounds.check_open()
        first = place[0] if place[1] == END else place[0] - 1
        return durable.rounds.files.after(OUTBOX, first), rounds.last_round
