"""An engine on a server, in the user's hands."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any
from urllib.parse import quote

from eddyline.client.connection import Connection
from eddyline.client.query import (
    ReceivedResult,
    RemoteQuery,
    RemoteQueryPage,
    deadline,
    explanation_of,
    path_of,
    trial_of,
    word_of,
)
from eddyline.documents import (
    AggregatesExplanation,
    DeadLetter,
    Explanation,
    FiltersExplanation,
    IndexExplanation,
    JoinsExplanation,
    Trial,
    error_from,
    jsonable,
)
from eddyline.durations import duration_text, duration_us
from eddyline.errors import PropertyError, UnknownNameError

QueryName = RemoteQuery | str | int


def connect(
    url: str, token: str | None = None, *, owner: str | None = None, timeout: float = 30.0
) -> RemoteEngine:
    """An engine that `eddyline serve` serves.

    url       such as http://127.0.0.1:8321
    token     as `eddyline token add` prints it
    owner     an admin acts for this owner
    timeout   seconds to wait for an answer
    """
    return RemoteEngine(Connection(url, token, timeout), owner)


@dataclass(frozen=True, slots=True)
class Pushed:
    """What a push did."""

    round_number: int
    n_rows: int
    count: int  # pairs of row and query that matched
    n_dead: int
    is_repeat: bool


class RemoteEngine:
    """The words of `Engine`, over HTTP. Safe to use from several threads; also a context manager."""

    def __init__(self, connection: Connection, owner: str | None) -> None:
        self.connection = connection
        self._owner = owner

    # ----------------------------------------------------------------------------------------- streams

    def streams(self) -> list[RemoteStream]:
        return [RemoteStream(self, body) for body in self.connection.get("/streams")]

    def stream(
        self,
        name: str,
        schema: Any,
        *,
        time: str | None = None,
        time_unit: str | None = None,
        time_format: str | None = None,
        lateness: str | float = 0,
        key: str | Sequence[str] | None = None,
        window: str | int | None = None,
        idle: str | float | None = None,
        delete: str | None = None,
    ) -> RemoteStream:
        """Declare a stream, or add nullable columns to one; `schema` is a text, a dict of types, or an Arrow schema."""
        body: dict[str, Any] = {
            "name": name,
            "schema": _schema_text(schema),
            "time": time,
            "lateness": lateness,
        }
        keys = list(key) if key is not None and not isinstance(key, str) else key
        more = {
            "time_unit": time_unit,
            "time_format": time_format,
            "key": keys,
            "window": window,
            "idle": idle,
            "delete": delete,
        }
        body |= {word: value for word, value in more.items() if value is not None}
        return RemoteStream(self, self.connection.post("/streams", body))

    def drop_stream(self, name: str) -> None:
        self.connection.delete(f"/streams/{name}")

    def push(self, stream: str, data: Any, *, token: str | None = None) -> Pushed:
        """Run a round over rows: dicts, an Arrow table, a pandas or Polars DataFrame.

        The same `token` again does nothing, so that a producer may try again.
        """
        headers = {} if token is None else {"Idempotency-Key": token}
        rows = [jsonable(dict(row)) for row in _rows(data)]
        body = self.connection.post(f"/streams/{stream}/rows", rows, headers=headers)
        return Pushed(body["round"], body["n_rows"], body["n_results"], body["n_dead"], body["is_repeat"])

    # ----------------------------------------------------------------------------------------- queries

    def query(
        self,
        text: str,
        *,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        **properties: Any,
    ) -> RemoteQuery:
        """Register a standing query; the same name and text again changes nothing, another text under the name replaces it."""
        body = {"text": text, "name": name, "params": jsonable(params), "properties": _properties(properties)}
        document = {word: value for word, value in body.items() if value is not None}
        registered = self.connection.post("/queries", document | {"replace": True}, owner=self._owner)
        return RemoteQuery(self, registered)

    def query_many(
        self,
        queries: str | Mapping[str, str],
        *,
        params: Any = None,
        name: str | None = None,
        **properties: Any,
    ) -> list[RemoteQuery]:
        """Register many queries in one version, all or none: a template and a row of parameters for each, or texts by name."""
        if isinstance(queries, str):
            body: dict[str, Any] = {"template": queries, "params": jsonable(_rows(params)), "name": name}
        else:
            if params is not None or name is not None:
                raise PropertyError(
                    "params and name go with a template", hint="Put the names into a dict of texts."
                )
            body = {"queries": dict(queries)}
        body["properties"] = _properties(properties)
        document = {word: value for word, value in body.items() if value is not None}
        registered = self.connection.post("/queries/bulk", document, owner=self._owner)
        ids = registered["ids"]
        if isinstance(queries, str) and len(ids) == 2 and registered["n"] == ids[1] - ids[0] + 1:
            ids = range(ids[0], ids[1] + 1)
        return [RemoteQuery(self, {"id": query_id}) for query_id in ids]

    def queries(
        self, filter: str | None = None, page: int = 1, *, per_page: int = 100, sort: str = "name"
    ) -> RemoteQueryPage:
        """Registered queries, a page at a time; `filter` is a part of the name or text."""
        body = self.connection.get(
            "/queries", filter=filter, page=page, per_page=per_page, sort=sort, owner=self._owner
        )
        return RemoteQueryPage(self, body)

    def get(self, query: QueryName, *, owner: str | None = None) -> RemoteQuery:
        """A registered query by name or number."""
        owner = owner or self._owner
        return RemoteQuery(self, self.connection.get(self._path_of(query, owner), owner=owner))

    def _path_of(self, query: QueryName, owner: str | None) -> str:
        """Where a query is; one whose name no address can hold goes by its number."""
        if not isinstance(query, str) or not ("/" in query or query in (".", "..")):
            return path_of(query)
        page, found, n_pages = 0, [], 1
        while page < n_pages:
            page += 1
            part = None if "=" in query else query  # name=value would look for a parameter
            body = self.connection.get("/queries", filter=part, page=page, owner=owner)
            found += [each for each in body["queries"] if each["name"] == query]
            n_pages = body["n_pages"]
        if not found:
            raise UnknownNameError(f"there is no query {query}")
        return path_of(min(found, key=lambda each: each["owner"] != (owner or ""))["id"])

    def replace(
        self, query: QueryName, text: str, *, params: Mapping[str, Any] | None = None, **properties: Any
    ) -> RemoteQuery:
        return self.get(query).replace(text, params=params, **properties)

    def drop(self, query: QueryName, *, cascade: bool = False) -> None:
        """End a query. One that others read as a view is refused, unless `cascade` ends them as well."""
        self.connection.delete(self._path_of(query, self._owner), owner=self._owner, cascade=cascade or None)

    def explain(
        self, text: str, *, params: Mapping[str, Any] | None = None, **properties: Any
    ) -> Explanation:
        """How a query would be answered, without registering it. Raises what registering it would raise."""
        request = {"text": text, "params": jsonable(params), "properties": _properties(properties)}
        body = self.connection.post("/queries/check", request)
        if not body["ok"]:
            raise error_from(body["error"])
        return explanation_of(body["explain"])

    def try_query(
        self,
        text: str,
        *,
        params: Mapping[str, Any] | None = None,
        last: int = 10_000,
        samples: int = 5,
        timeout: float = 2.0,
        **properties: Any,
    ) -> Trial:
        """How many of the `last` rows a query would have matched, without registering it. For authors and admins."""
        request = {"text": text, "params": jsonable(params), "properties": _properties(properties)}
        return trial_of(
            self.connection.post(
                "/queries/try", request | {"last": last, "samples": samples, "timeout": timeout}
            )
        )

    # ----------------------------------------------------------------------------------------- looking

    def follow(
        self,
        queries: Sequence[QueryName] = (),
        *,
        after: str | None = None,
        timeout: float | None = None,
        on_lost: Callable[[int | None], None] | None = None,
    ) -> Generator[ReceivedResult, None, None]:
        """Results of these queries, or of all one may see, as they come, each once, across broken connections."""
        named = [word_of(query) for query in queries]
        events = self.connection.events(
            "/results/stream",
            after=after,
            on_lost=on_lost,
            until=deadline(timeout),
            query=named,
            owner=self._owner,
        )
        return (ReceivedResult.of(event) for event in events)

    def alerts(
        self,
        query: QueryName | None = None,
        *,
        owner: str | None = None,
        state: str | None = None,
        severity: str | None = None,
        silenced: bool | None = None,
        acknowledged: bool | None = None,
    ) -> list[dict[str, Any]]:
        """Alerts that are open, the oldest first: of one query or owner, in one state, of one severity, those that are silenced
        or acknowledged, or are not."""
        found: list[dict[str, Any]] = self.connection.get(
            "/alerts",
            query=word_of(query),
            state=state,
            severity=severity,
            silenced=silenced,
            acknowledged=acknowledged,
            owner=owner or self._owner,
        )
        return found

    def acknowledge(
        self,
        query: QueryName,
        key: Mapping[str, Any] | None = None,
        *,
        note: str = "",
        owner: str = "",
    ) -> list[dict[str, Any]]:
        """Say that the token's holder has taken notice of an open alert: of the one with this key, or of all of the query."""
        body = {"query": word_of(query), "key": key, "note": note}
        found: list[dict[str, Any]] = self.connection.post(
            "/alerts/acknowledge", body, owner=owner or self._owner
        )
        return found

    def silence(
        self,
        query: QueryName,
        key: Mapping[str, Any] | None = None,
        *,
        for_: Any = None,
        until: Any = None,
        severity: str | None = None,
        reason: str = "",
        owner: str | None = None,
    ) -> dict[str, Any]:
        """Send no messages of a query's alerts, or of those with this key, for so long or until a time. The name may be a
        pattern such as 'watch-*'."""
        body = {"query": word_of(query), "key": key, "severity": severity, "reason": reason}
        body["for"] = None if for_ is None else duration_text(duration_us(for_))
        body["until"] = until.isoformat() if isinstance(until, datetime.datetime) else until
        created: dict[str, Any] = self.connection.post("/silences", body, owner=owner or self._owner)
        return created

    def silences(
        self, query: QueryName | None = None, *, owner: str | None = None, over: bool | None = False
    ) -> list[dict[str, Any]]:
        """Silences that hold, the oldest first; with `over=True` those that are over, with None both, as far as they are kept."""
        found: list[dict[str, Any]] = self.connection.get(
            "/silences",
            query=word_of(query),
            over="both" if over is None else "yes" if over else "no",
            owner=owner or self._owner,
        )
        return found

    def end_silence(self, silence: dict[str, Any] | int) -> dict[str, Any]:
        """Let a silence end now: what it kept back is settled in the next round."""
        number = silence if isinstance(silence, int) else silence["id"]
        ended: dict[str, Any] = self.connection.delete(f"/silences/{number}", owner=self._owner)
        return ended

    def alert_history(
        self,
        query: QueryName,
        key: Mapping[str, Any] | None = None,
        *,
        newest: int = 100,
        owner: str = "",
    ) -> list[dict[str, Any]]:
        """What happened to the alert of a key, as far as it is kept, the oldest first."""
        found: list[dict[str, Any]] = self.connection.get(
            "/alerts/history",
            query=word_of(query),
            key=json.dumps(key or {}),
            newest=newest,
            owner=owner or self._owner,
        )
        return found

    def messages(
        self,
        after: int = 0,
        *,
        newest: int | None = None,
        query: QueryName | None = None,
        owner: str | None = None,
    ) -> list[dict[str, Any]]:
        """Messages of alerts that are still kept: after an id, the `newest` alone, of one query or owner; the oldest first."""
        found: list[dict[str, Any]] = []
        while True:
            body = self.connection.get(
                "/messages", after=after, newest=newest, query=word_of(query), owner=owner or self._owner
            )
            found += body["messages"]
            if newest is not None or body["is_end"]:
                return found
            after = body["next"]

    def follow_messages(
        self, *, after: int | None = None, timeout: float | None = None
    ) -> Iterator[dict[str, Any]]:
        """What alerts say, as they say it, each message once."""
        return self.connection.events(
            "/alerts/stream",
            after=None if after is None else str(after),
            on_lost=None,
            until=deadline(timeout),
            owner=self._owner,
        )

    def dead_letters(
        self, *, stream: str | None = None, query: QueryName | None = None, newest: int = 1000
    ) -> list[DeadLetter]:
        """Pairs that could not be decided and, for admins, rows that did not fit; newest last."""
        body = self.connection.get(
            "/dead_letters", stream=stream, query=word_of(query), newest=newest, owner=self._owner
        )
        return [DeadLetter(**letter) for letter in body["letters"]]

    def explain_index(self) -> IndexExplanation:
        """The predicate index of every stream: its structures, how many queries each serves, what it costs a row. For admins."""
        return IndexExplanation(self.connection.get("/index")["streams"])

    def explain_filters(self, stream: str | None = None, *, bound: bool = True) -> FiltersExplanation:
        """The expensive conditions of the queries of a stream, or of all: their order and why it changed, what they cost, and
        what sharing them saves. Those that none of one's own queries needs have neither text nor numbers."""
        named = [each.name for each in self.streams()] if stream is None else [stream]
        request = {"bound": "true" if bound else None, "owner": self._owner}
        found = [self.connection.get(f"/streams/{name}/filters", **request) for name in named]
        for facts in found:
            del facts["shown"]
        return FiltersExplanation(found)

    def joins(self) -> JoinsExplanation:
        """What joins keep of each stream, and in which order new rows look for partners."""
        found = self.connection.get("/joins", owner=self._owner)
        return JoinsExplanation(found["streams"], found["signatures"], found["choices"])

    def explain_aggregates(self, stream: str | None = None) -> AggregatesExplanation:
        """What aggregates keep, of a stream or of all, by class. Of classes of other owners only the sizes are given."""
        found = self.connection.get("/aggregates", stream=stream, owner=self._owner)
        return AggregatesExplanation(found["streams"], found["classes"])

    def events(self, *, newest: int = 1000) -> list[dict[str, Any]]:
        """The latest events of the engine, oldest first, each with the name of its event. For admins."""
        found: list[dict[str, Any]] = self.connection.get("/events", newest=newest)
        return found

    @property
    def version(self) -> int:
        """Grows by one with every change of streams or queries."""
        return int(self.status()["version"])

    @property
    def n_queries(self) -> int:
        """Of all owners."""
        return int(self.status()["n_queries"])

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.connection.get("/status")
        return found

    def rounds(self, newest: int = 20) -> list[dict[str, Any]]:
        """What the newest rounds took, newest first."""
        found: list[dict[str, Any]] = self.connection.get("/rounds", newest=newest)
        return found

    def sources(self) -> list[dict[str, Any]]:
        """How far the source of each stream is: position, what lies behind it, rate, failures. For admins."""
        found: list[dict[str, Any]] = self.connection.get("/sources")
        return found

    def sinks(self) -> list[dict[str, Any]]:
        """How far each sink is: cursor, what lies behind it, rate, failures. For admins."""
        found: list[dict[str, Any]] = self.connection.get("/sinks")
        return found

    def retry_source(self, stream: str) -> None:
        """Read a source that fails again at once, instead of after its pause. For admins."""
        self.connection.post(f"/sources/{quote(stream, safe='')}/retry")

    def retry_sink(self, name: str) -> None:
        """Serve a sink that fails again at once, instead of after its pause. For admins."""
        self.connection.post(f"/sinks/{quote(name, safe='')}/retry")

    def versions(self, newest: int = 20) -> list[dict[str, Any]]:
        """The newest versions of the catalog, newest first: when, and what each changed. For admins."""
        found: list[dict[str, Any]] = self.connection.get("/versions", newest=newest)
        return found

    def rollback(self, version: int, *, dry_run: bool = False) -> dict[str, Any]:
        """Make the queries of an earlier version deployed again, as a new version; `dry_run` only says what that would change.
        For admins."""
        found: dict[str, Any] = self.connection.post(f"/versions/{version}/rollback", {"dry_run": dry_run})
        return found

    def receipt(self, result: ReceivedResult | str) -> dict[str, Any]:
        """What a result is made of."""
        found: dict[str, Any] = self.connection.get(f"/results/{_id(result)}/receipt")
        return found

    def prove(self, result: ReceivedResult | str) -> dict[str, Any]:
        """Execute a result again in plain Spark SQL, on the server."""
        found: dict[str, Any] = self.connection.post(f"/results/{_id(result)}/prove")
        return found

    def close(self) -> None:
        self.connection.close()

    def __enter__(self) -> RemoteEngine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<eddyline engine at {self.connection.url}>"


class RemoteStream:
    """A stream of a server, as it was when it was asked for."""

    def __init__(self, engine: RemoteEngine, body: Mapping[str, Any]) -> None:
        self._engine = engine
        self.name = str(body["name"])
        self.columns = {column["name"]: column["type"] for column in body["columns"]}
        self.time = body["time"]
        self.time_unit = body["time_unit"]
        self.time_format = body["time_format"]
        self.lateness_us = int(body["lateness_us"])
        self.watermark = body["watermark"]
        self.partitions: list[dict[str, Any]] = list(body["partitions"])
        self.n_rows = int(body["n_rows"])
        self.n_late = int(body["n_late"])
        self.n_queries = int(body["n_queries"])

    def push(self, data: Any, *, token: str | None = None) -> Pushed:
        return self._engine.push(self.name, data, token=token)

    def __repr__(self) -> str:
        return f"<stream {self.name} ({', '.join(f'{name} {t}' for name, t in self.columns.items())})>"


def _schema_text(schema: Any) -> str:
    if isinstance(schema, str):
        return schema
    from eddyline.types import type_name  # Arrow loads only where its types are given

    if isinstance(schema, Mapping):
        return ", ".join(
            f"`{name}` {t if isinstance(t, str) else type_name(t)}" for name, t in schema.items()
        )
    return ", ".join(f"`{f.name}` {type_name(f.type)}{'' if f.nullable else ' NOT NULL'}" for f in schema)


def _rows(params: Any) -> Any:
    """A table as JSON has it: rows, or, of parameters, columns by name."""
    if params is None or isinstance(params, Mapping):
        return params
    if hasattr(params, "to_pylist"):  # an Arrow table
        return params.to_pylist()
    if hasattr(params, "to_dicts"):  # Polars
        return params.to_dicts()
    if hasattr(params, "to_dict"):  # pandas
        return params.to_dict("records")
    return [dict(row) for row in params]


def _properties(properties: Mapping[str, Any]) -> dict[str, Any] | None:
    return {word: jsonable(value) for word, value in properties.items()} or None


def _id(result: ReceivedResult | str) -> str:
    return result if isinstance(result, str) else result.cursor
