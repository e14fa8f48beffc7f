"""Results that are kept, in order, some at a time: what `tail`, the server's pages and its streams of events are made of.

A place is (round, arrival number, query): places have one order, and every result has its own, written `12-345-6`. With a home
results are read from its outbox, file by file; in memory from the rings of the queries. The engine's lock is held to look up
which files there are, never while one is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from eddyline.batch import CHANGES, PartMatches
from eddyline.catalog import ListedFile
from eddyline.delivery import jsonable
from eddyline.engine import Durable, RoundEngine
from eddyline.errors import EddylineError, PropertyError
from eddyline.hit_matches import HitMatches, distinct_ids
from eddyline.storage import OUTBOX, StoredPart
from eddyline.types import python_rows

END = 1 << 62  # above every number
BYTES_AT_ONCE = 32 << 20  # of files that are read for one answer,
ROUNDS_AT_ONCE = 256  # and of how many rounds
MOST_OWNERS_KNOWN = 200_000

Place: TypeAlias = tuple[int, int, int]
QueryIds: TypeAlias = npt.NDArray[np.int32]
# which queries are meant: these, those of the ones that are there that a function picks, or all (None)
Ids: TypeAlias = QueryIds | Callable[[QueryIds], QueryIds] | None


@dataclass(frozen=True, slots=True)
class Page:
    """Some results, oldest first, and the place to go on after. `is_end`: there are no more up to where was asked."""

    results: list[dict[str, Any]]
    place: Place
    is_end: bool


class KeptResults:
    """The results an engine keeps. Safe from any thread."""

    def __init__(self, rounds: RoundEngine) -> None:
        self._rounds = rounds

    def last_round(self) -> int:
        """The last round that has committed."""
        with self._rounds.lock:
            self._rounds.check_open()
            return self._rounds.last_round

    def newest(self, ids: Ids, n: int) -> list[dict[str, Any]]:
        """The newest results of these queries, oldest first, as far as memory has them: a ring for every query."""
        rounds = self._rounds
        found: list[dict[str, Any]] = []
        with rounds.lock:
            rounds.check_open()
            names = _Names(rounds)
            if isinstance(ids, np.ndarray) and len(ids) <= n:
                for query_id in ids.tolist():
                    for entry, part, pairs in rounds.results.read(query_id, newest=n):
                        found += _documents(rounds, entry.round_number, entry.version, part, pairs, names)
            else:
                last = 0
                for entry in rounds.results.newest_first():
                    if len(found) >= n and entry.round_number != last:  # rounds are looked at whole
                        break
                    last = entry.round_number
                    for query_id in _present(entry.matches, ids):
                        pairs = entry.pairs_of(query_id)
                        found += _documents(
                            rounds, entry.round_number, entry.version, *entry.part(query_id, pairs), names
                        )
        found.sort(key=place_of)
        return found[max(0, len(found) - n) :]

    def after(self, ids: Ids, after: Place, *, until: int, limit: int) -> Page:
        """Results after a place, of rounds up to `until`: at most about `limit` of them, or what some of the files have."""
        durable = self._rounds.durable
        if durable is None:
            return self._after_in_memory(ids, after, until, limit)
        with self._rounds.lock:
            self._rounds.check_open()
            first = after[0] if after[1] == END else after[0] - 1
            files = durable.rounds.files.between(OUTBOX, first, until, ROUNDS_AT_ONCE)
            is_all = len({file.round_number for file in files}) < ROUNDS_AT_ONCE
        found: list[dict[str, Any]] = []
        names, nbytes, place = _Names(self._rounds), 0, after
        for at, file in enumerate(files):
            found += results_in(self._rounds, durable, file, ids, after, names)
            nbytes += file.nbytes
            is_whole = at + 1 == len(files) or files[at + 1].round_number != file.round_number
            if not is_whole:
                continue
            place = file.round_number, END, 0
            if len(found) > limit:
                found.sort(key=place_of)
                found = found[:limit]
                return Page(found, place_of(found[-1]), is_end=False)
            if nbytes > BYTES_AT_ONCE and at + 1 < len(files):
                return Page(sorted(found, key=place_of), place, is_end=False)
        found.sort(key=place_of)
        return Page(found, max(after, (until, END, 0) if is_all else place), is_end=is_all)

    def _after_in_memory(self, ids: Ids, after: Place, until: int, limit: int) -> Page:
        rounds = self._rounds
        found: list[dict[str, Any]] = []
        with rounds.lock:
            rounds.check_open()
            names = _Names(rounds)
            for entry in rounds.results.newest_first():
                if entry.round_number < after[0]:
                    break
                if entry.round_number <= until:
                    for query_id in _present(entry.matches, ids):
                        pairs = entry.pairs_of(query_id)
                        found += _documents(
                            rounds, entry.round_number, entry.version, *entry.part(query_id, pairs), names
                        )
        found = sorted((result for result in found if place_of(result) > after), key=place_of)
        if len(found) > limit:
            return Page(found[:limit], place_of(found[limit - 1]), is_end=False)
        return Page(found, max(after, (until, END, 0)), is_end=True)

    def n_lost(self, after: Place) -> int:
        """How many results of rounds after a place, of all queries, retention has taken."""
        durable = self._rounds.durable
        if durable is None:
            return 0
        with self._rounds.lock:
            self._rounds.check_open()
            oldest = durable.rounds.files.first_round(OUTBOX)
            last = self._rounds.last_round
            return durable.rounds.n_results_between(after[0], last + 1 if oldest is None else oldest)


class Owners:
    """Whose queries are, or were before they were dropped."""

    def __init__(self, rounds: RoundEngine) -> None:
        self._rounds = rounds
        self._known: dict[int, str | None] = {}
        self._version = -1

    def of(self, query_id: int) -> str | None:
        """The owner, or None if it is no longer known."""
        catalog = self._rounds.catalog
        if catalog.version != self._version or len(self._known) > MOST_OWNERS_KNOWN:
            self._known, self._version = {}, catalog.version
        if query_id not in self._known:
            with self._rounds.lock:
                self._rounds.check_open()
                self._known[query_id] = self._find(query_id)
        return self._known[query_id]

    def _find(self, query_id: int) -> str | None:
        try:
            return self._rounds.catalog.queries.owner_of(query_id)
        except EddylineError:
            return self._rounds.store.past_owner(query_id)

    def queries_of(self, owner: str) -> Callable[[QueryIds], QueryIds]:
        """Picks the queries of an owner."""

        def pick(there: QueryIds) -> QueryIds:
            return there[np.array([self.of(query_id) == owner for query_id in there.tolist()], dtype=bool)]

        return pick


class _Names:
    """What queries are called, or were before they were dropped."""

    def __init__(self, rounds: RoundEngine) -> None:
        self._rounds = rounds
        self._known: dict[int, str] = {}

    def __getitem__(self, query_id: int) -> str:
        name = self._known.get(query_id)
        if name is None:
            name = self._known[query_id] = self._find(query_id)
        return name

    def _find(self, query_id: int) -> str:
        with self._rounds.lock:
            self._rounds.check_open()
            try:
                return self._rounds.catalog.queries.name_of(query_id)
            except EddylineError:
                past = self._rounds.store.past_name_and_shape(query_id)
                return f"q{query_id}" if past is None or past[0] is None else past[0]


def results_in(
    rounds: RoundEngine,
    durable: Durable,
    file: ListedFile,
    ids: Ids,
    after: Place,
    names: _Names | None = None,
) -> list[dict[str, Any]]:
    """The results of one file after a place, in order of arrival, then of query."""
    return results_of(rounds, file.round_number, durable.parts(file), ids, after, names)


def results_of(
    rounds: RoundEngine,
    round_number: int,
    parts: Iterable[StoredPart],
    ids: Ids,
    after: Place = (0, 0, 0),
    names: _Names | None = None,
) -> list[dict[str, Any]]:
    """The results of these queries in a round, in order of arrival, then of query."""
    names = names or _Names(rounds)
    found: list[dict[str, Any]] = []
    for part in parts:
        pairs = _pairs(part.query_ids, ids)
        if round_number <= after[0]:
            arrivals, query_ids = part.arrivals[pairs], part.query_ids[pairs]
            is_later = (arrivals > after[1]) | ((arrivals == after[1]) & (query_ids > after[2]))
            pairs = pairs[is_later] if round_number == after[0] else pairs[:0]
        found += _documents(rounds, round_number, 0, part, pairs, names)
    return sorted(found, key=place_of)


def _documents(
    rounds: RoundEngine,
    round_number: int,
    version: int,
    part: PartMatches | StoredPart,
    pairs: npt.NDArray[Any],
    names: _Names,
) -> list[dict[str, Any]]:
    if not len(pairs):
        return []
    query_ids = part.query_ids[pairs]
    if isinstance(part, StoredPart):
        generations = part.generations[pairs]
    else:
        generations = rounds.catalog.queries.generations_at(query_ids, version)
    marks = zip(
        query_ids.tolist(),
        part.arrivals[pairs].tolist(),
        generations.tolist(),
        part.signs[pairs].tolist(),
        part.is_late[pairs].tolist(),
        python_rows(part.project(pairs)),
        strict=True,
    )
    made_of = [None] * len(pairs) if part.components is None else part.components[pairs].tolist()
    return [
        {
            "query": names[query_id],
            "query_id": query_id,
            "generation": generation,
            "round": round_number,
            "arrival": arrival,
            **({} if arrivals is None else {"arrivals": arrivals}),
            "change": CHANGES[sign],
            "is_late": is_late,
            "row": jsonable(row),
            "cursor": f"{round_number}-{arrival}-{query_id}",
        }
        for (query_id, arrival, generation, sign, is_late, row), arrivals in zip(marks, made_of, strict=True)
    ]


def _present(matches: HitMatches | PartMatches | StoredPart, ids: Ids) -> Sequence[int]:
    """Which of the queries have results among these."""
    there = distinct_ids(matches.hits.ids if isinstance(matches, HitMatches) else matches.query_ids)
    if callable(ids):
        there = ids(there)
    elif ids is not None:
        there = there[np.isin(there, ids)]
    found: list[int] = there.tolist()
    return found


def _pairs(query_ids: QueryIds, ids: Ids) -> npt.NDArray[np.int64]:
    """Indexes of the pairs of these queries."""
    if ids is None:
        return np.arange(len(query_ids))
    selected_ids = ids(distinct_ids(query_ids)) if callable(ids) else ids
    return np.flatnonzero(np.isin(query_ids, selected_ids))


def place_of(result: dict[str, Any]) -> Place:
    return result["round"], result["arrival"], result["query_id"]


def written(place: Place) -> str:
    """A place as a cursor."""
    if place[1] == END:
        return str(place[0])
    return f"{place[0]}-{place[1]}" if place[2] == END else f"{place[0]}-{place[1]}-{place[2]}"


def read_place(cursor: str) -> Place:
    """Where to go on; a cursor without a query means all of the row's results were taken, a round alone all of its rows."""
    parts = cursor.split("-")
    if not 1 <= len(parts) <= 3 or not all(
        part.isascii() and part.isdigit() and len(part) <= 18 for part in parts
    ):
        raise PropertyError(
            f"{cursor[:60]!r} is not a cursor",
            hint="Use the cursor of a result, such as 12-345-6, or a round.",
        )
    numbers = [int(part) for part in parts]
    if len(numbers) == 1:
        return numbers[0], END, 0
    return numbers[0], numbers[1], numbers[2] if len(numbers) == 3 else END
