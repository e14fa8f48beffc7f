"""A standing query on a server, in the user's hands."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from eddyline.documents import (
    AlertCounts,
    ClauseVerdict,
    CurrentGroups,
    Explanation,
    GroupVerdict,
    GroupWhy,
    GroupWhyNot,
    InputWhyNot,
    JoinWhy,
    JoinWhyNot,
    Result,
    Results,
    Trial,
    TrialError,
    TrialInput,
    Why,
    WhyNot,
    as_pandas,
    as_polars,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from eddyline.client.engine import RemoteEngine

PER_PAGE = 500


class ReceivedResult(Result):
    """A result as a server sends it: values as JSON has them."""

    __slots__ = ()

    @property
    def cursor(self) -> str:
        """Where to go on after this result; also its id."""
        return f"{self.round_number}-{self.arrival}-{self.query_id}"

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> ReceivedResult:
        return cls(
            body["row"],
            query=body["query"],
            query_id=body["query_id"],
            generation=body["generation"],
            round_number=body["round"],
            arrival=body["arrival"],
            change=body["change"],
            is_late=body["is_late"],
            arrivals=tuple(body.get("arrivals", ())),
        )


class RemoteQuery:
    """A handle to one query of a server. What it says about the query is asked for when it is read."""

    def __init__(self, engine: RemoteEngine, body: Mapping[str, Any]) -> None:
        self._engine = engine
        self._connection = engine.connection
        self.id = int(body["id"])
        self._path = f"/queries/q{self.id}"
        self._read_to = "0"

    # ----------------------------------------------------------------------------------------- what it is

    def facts(self) -> dict[str, Any]:
        """All the server says about it."""
        found: dict[str, Any] = self._connection.get(self._path)
        return found

    @property
    def name(self) -> str:
        return str(self.facts()["name"])

    @property
    def text(self) -> str:
        return str(self.facts()["text"])

    @property
    def state(self) -> str:
        """running, paused or suspended."""
        return str(self.facts()["state"])

    @property
    def suspended(self) -> str | None:
        """Why the engine has paused it; `resume` or `replace` lets it run again."""
        found = self.facts()["suspended"]
        return None if found is None else str(found["why"])

    @property
    def generation(self) -> int:
        return int(self.facts()["generation"])

    @property
    def warnings(self) -> list[str]:
        return list(self.facts()["warnings"])

    @property
    def n_results(self) -> int:
        return int(self.facts()["n_results"])

    # ----------------------------------------------------------------------------------------- results

    def results(self, timeout: float | None = None, *, after: str | None = None) -> Results:
        """Results since the last call on this handle, oldest first. With `timeout`, waits that many seconds for the first.

        `after` is the `cursor` of a result: gives all that came later and is still kept.
        """
        is_handle = after is None
        place = self._read_to if after is None else after
        found, place = self._pages(place)
        if not found and timeout:
            for first in self.follow(after=place, timeout=timeout):
                rest, place = self._pages(first.cursor)
                found = [first, *rest]
                break
        if is_handle:
            self._read_to = place
        return Results(found)

    def __iter__(self) -> Iterator[ReceivedResult]:
        """The results `results()` would give, one by one, a page at a time."""
        while True:
            page = self._connection.get(f"{self._path}/results", after=self._read_to, limit=PER_PAGE)
            for result in map(ReceivedResult.of, page["results"]):
                self._read_to = result.cursor
                yield result
            self._read_to = page["next"]
            if page["is_end"]:
                return

    async def __aiter__(self) -> AsyncIterator[ReceivedResult]:
        """Unread results, then new ones as they come: `async for result in query`. What is not taken stays unread."""
        followed = self.follow(after=self._read_to)
        try:
            while (result := await asyncio.to_thread(next, followed, None)) is not None:
                self._read_to = result.cursor
                yield result
        finally:
            await asyncio.to_thread(followed.close)

    def to_arrow(
        self, *, after: str | None = None, newest: int | None = None, marks: bool = False
    ) -> pa.Table:
        """Results that are kept, read or not, oldest first: all of them (a million at most), those after a cursor, or the newest.

        With `marks` the columns `_generation`, `_round`, `_arrival`, `_change` and `_late` come first.
        """
        body = self._connection.get_bytes(
            f"{self._path}/results/arrow", after=after, newest=newest, marks="true" if marks else None
        )
        import pyarrow as pa  # loaded only where a table is asked for

        return pa.ipc.open_stream(body).read_all()

    def to_pandas(self, *, after: str | None = None, newest: int | None = None, marks: bool = False) -> Any:
        """The same as a pandas DataFrame."""
        return as_pandas(self.to_arrow(after=after, newest=newest, marks=marks))

    def to_polars(self, *, after: str | None = None, newest: int | None = None, marks: bool = False) -> Any:
        """The same as a Polars DataFrame."""
        return as_polars(self.to_arrow(after=after, newest=newest, marks=marks))

    def _pages(self, after: str) -> tuple[list[ReceivedResult], str]:
        found: list[ReceivedResult] = []
        while True:
            page = self._connection.get(f"{self._path}/results", after=after, limit=PER_PAGE)
            found += [ReceivedResult.of(result) for result in page["results"]]
            after = page["next"]
            if page["is_end"]:
                return found, after

    def groups(
        self,
        *,
        where: Mapping[str, Any] | None = None,
        order: str | None = None,
        limit: int = 100,
        having: bool = True,
    ) -> CurrentGroups:
        """The groups of a query with GROUP BY, as they are after the last round; `having=False`: also those HAVING leaves out."""
        asked = {"where": None if where is None else json.dumps(where), "order": order, "limit": limit}
        found = self._connection.get(f"{self._path}/groups", **asked, having=None if having else "false")
        return CurrentGroups.of(found)

    def latest(self, n: int = 10) -> Results:
        """The newest results, oldest first, read or not."""
        page = self._connection.get(f"{self._path}/results", newest=n)
        return Results(ReceivedResult.of(result) for result in page["results"])

    def follow(
        self,
        *,
        after: str | None = None,
        timeout: float | None = None,
        on_lost: Callable[[int | None], None] | None = None,
    ) -> Generator[ReceivedResult, None, None]:
        """Results as they come, each once, also when the connection breaks: it is made again where it broke.

        after      begin after this cursor; with what comes if not given
        timeout    end after so many seconds
        on_lost    called if the server no longer had some, with their number, or None if it is not known
        """
        return self._engine.follow([self], after=after, timeout=timeout, on_lost=on_lost)

    # ----------------------------------------------------------------------------------------- change

    def pause(self) -> None:
        self._connection.post(f"{self._path}/pause")

    def resume(self) -> None:
        self._connection.post(f"{self._path}/resume")

    def replace(
        self, text: str, *, params: Mapping[str, Any] | None = None, **properties: Any
    ) -> RemoteQuery:
        """Another text under the same name, in one version."""
        body = {"text": text, "params": params, "properties": properties or None}
        self._connection.put(self._path, {name: value for name, value in body.items() if value is not None})
        return self

    def drop(self, *, cascade: bool = False) -> None:
        """End the query. It sees nothing of any later round. One that others read as a view ends only with them: `cascade`."""
        self._connection.delete(self._path, cascade=cascade or None)

    # ----------------------------------------------------------------------------------------- questions

    def explain(self) -> Explanation:
        return explanation_of(self._connection.get(f"{self._path}/explain"))

    def why(self, row: Mapping[str, Any]) -> Why:
        """What each condition says about a row of the stream, given as a dict (missing columns are NULL); of a join about one
        row of each input, by its alias; of a union each part that the row fits, the nearest first."""
        return _why(self._connection.post(f"{self._path}/why", {"row": dict(row)}))

    def why_not(self, last: int = 1000) -> WhyNot:
        """How many of the last rows each condition stopped, and which row came nearest."""
        return _why_not(self._connection.get(f"{self._path}/why_not", last=last))

    def alerts(self) -> list[dict[str, Any]]:
        """Its alerts that are open."""
        return self._engine.alerts(self)

    @property
    def alert_counts(self) -> AlertCounts:
        """How often it fired, resolved, was held back, and could not fill its message."""
        found = self.facts()["alerts"] or {}
        return AlertCounts(**{name: found[name] for name in AlertCounts._fields if name in found})

    def __repr__(self) -> str:
        return f"<query q{self.id} of {self._connection.url}>"


class RemoteQueryPage(list[RemoteQuery]):
    """One page of queries; `total` is how many there are on all pages, `facts` what the server says about each."""

    def __init__(self, engine: RemoteEngine, body: Mapping[str, Any]) -> None:
        super().__init__(RemoteQuery(engine, facts) for facts in body["queries"])
        self.facts: list[dict[str, Any]] = list(body["queries"])
        self.total = int(body["total"])
        self.page = int(body["page"])
        self.n_pages = int(body["n_pages"])


def explanation_of(body: Mapping[str, Any]) -> Explanation:
    facts = {name: value for name, value in body.items() if name not in ("name", "text", "shown")}
    return Explanation(body["name"] or "(not registered)", body["text"], facts)


def trial_of(body: Mapping[str, Any]) -> Trial:
    return Trial(
        n_rows=body["n_rows"],
        n_matched=body["n_matched"],
        n_in_error=body["n_in_error"],
        samples=tuple(body["samples"]),
        errors=tuple(TrialError(each["message"], each["row"]) for each in body["errors"]),
        conditions=tuple(body["conditions"]),
        stopped=tuple(body["stopped"]),
        inputs=tuple(TrialInput(**each) for each in body["inputs"]),
        notes=tuple(body["notes"]),
        part=body["part"],
        parts=tuple(map(trial_of, body["parts"])),
        n_groups=body.get("n_groups"),
        noun=body.get("noun", "row"),
    )


def path_of(query: RemoteQuery | str | int) -> str:
    """Where a query is, by handle, number or name."""
    if isinstance(query, RemoteQuery):
        return f"/queries/q{query.id}"
    return f"/queries/q{query}" if isinstance(query, int) else f"/queries/{quote(query, safe='')}"


def word_of(query: RemoteQuery | str | int | None) -> str | None:
    """The same as a parameter, which needs no quotation."""
    if query is None or isinstance(query, str):
        return query
    return f"q{query.id if isinstance(query, RemoteQuery) else query}"


def deadline(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout


def _why(body: Mapping[str, Any]) -> Why:
    others = tuple(map(_why, body["others"]))
    clauses, notes = _clauses(body), tuple(body["notes"])
    same = body["query"], body["matches"], clauses, body["error"], notes, body["part"], others
    if "groups" in body:
        return GroupWhy(*same, noun=body["noun"], groups=tuple(map(_group, body["groups"])))
    return JoinWhy(*same) if body.get("is_join") else Why(*same)


def _clauses(body: Mapping[str, Any]) -> tuple[ClauseVerdict, ...]:
    return tuple(
        ClauseVerdict(c["condition"], c["verdict"], dict(c["values"]), c["message"]) for c in body["clauses"]
    )


def _group(body: Mapping[str, Any]) -> GroupVerdict:
    rows, notes = tuple(map(dict, body["rows"])), tuple(body["notes"])
    group, values = dict(body["group"]), dict(body["values"])
    return GroupVerdict(group, values, body["is_result"], _clauses(body), body["error"], rows, notes)


def _why_not(body: Mapping[str, Any]) -> WhyNot:
    nearest = body["nearest"]
    found = WhyNot(
        query=body["query"],
        n_rows=body["n_rows"],
        n_matched=body["n_matched"],
        n_in_error=body["n_in_error"],
        conditions=tuple(body["conditions"]),
        stopped=tuple(body["stopped"]),
        stopped_alone=tuple(body["stopped_alone"]),
        nearest=None if nearest is None else _why(nearest),
        nearest_row=body["nearest_row"],
        since=body["since"],
        notes=tuple(body["notes"]),
        distance=body["distance"],
        part=body["part"],
        others=tuple(map(_why_not, body["others"])),
    )
    same = {each.name: getattr(found, each.name) for each in fields(WhyNot)}
    if "groups" in body:
        below = None if body["below"] is None else _why_not(body["below"])
        return GroupWhyNot(**same, noun=body["noun"], below=below, groups=tuple(map(_group, body["groups"])))
    if "inputs" not in body:
        return found
    return JoinWhyNot(**same, inputs=tuple(InputWhyNot(**each) for each in body["inputs"]))
