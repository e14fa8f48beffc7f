"""Queries, in words that JSON has: registering, changing, listing, and the questions one can ask of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from eddyline import rules
from eddyline.api.query import Query, record_of_rows, rows_of_receipt
from eddyline.catalog import QueryRecord
from eddyline.durations import duration_text
from eddyline.engine import RoundEngine
from eddyline.errors import QueryStateError
from eddyline.explain import TRIAL_ROWS, TRIAL_S, JoinWhy, explain, suspended, trial_document, why_row
from eddyline.expressions import literal_value
from eddyline.filters import Why
from eddyline.model import Properties, QueryState, is_alert, iso_time
from eddyline.receipts import record_of_receipt, recorded_values, why_group_result
from eddyline.spark import running_session
from eddyline.sql import FIELDS, stream_words, streams_of

if TYPE_CHECKING:
    from eddyline.api.engine import Engine


class QueryCommands:
    """The part of `Commands` that is about queries."""

    _engine: Engine
    _rounds: RoundEngine

    def query_add(
        self,
        *,
        text: str,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        properties: Mapping[str, Any] | None = None,
        replace: bool = False,
        to_replace: str = "Give --replace to change it, or another --name.",
    ) -> dict[str, Any]:
        """Register a query. Another text under a name that is taken needs `replace`; `to_replace` says how to ask for that."""
        with self._rounds.lock:
            before, owner = self._engine.version, str((properties or {}).get("owner", ""))
            known = None if name is None else self._rounds.catalog.names.find(name, owner)
            if known is not None and not replace:
                explained = self._engine.explain(text, params=params)  # a text that is wrong is refused first
                record = self._rounds.catalog.record(known)
                if record.text != explained.text:
                    raise QueryStateError(
                        f"query {name} already exists, with another text",
                        detail=f"It is {' '.join(record.text.split())}",
                        hint=to_replace,
                    )
            handle = self._engine.query(text, name=name, params=params, **(properties or {}))
            return self._shown(handle) | {
                "is_new": known is None,
                "is_changed": self._engine.version != before,
            }

    def query_replace(
        self,
        *,
        query: str | int,
        text: str,
        owner: str = "",
        params: Mapping[str, Any] | None = None,
        properties: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Another text for a query, and other properties if they are given; those that are not stay."""
        with self._rounds.lock:
            handle = self._query(query, owner)
            self._engine.replace(handle, text, params=params, **(properties or {}))
            return self._shown(handle)

    def check(
        self,
        *,
        text: str,
        params: Mapping[str, Any] | None = None,
        properties: Mapping[str, Any] | None = None,
        own: Any = None,
    ) -> dict[str, Any]:
        """What a text would give if it were registered; raises what registering it would raise.

        `own` are the queries of a user who may see no others.
        """
        found = self._text_explained(text, params, properties, own)
        return {"columns": found["columns"], "warnings": found["warnings"], "explain": found}

    def try_query(
        self,
        *,
        text: str,
        params: Mapping[str, Any] | None = None,
        properties: Mapping[str, Any] | None = None,
        last: int = TRIAL_ROWS,
        samples: int = 5,
        timeout: float = TRIAL_S,
    ) -> dict[str, Any]:
        """How recent rows would have fared with a text; raises what registering it would raise."""
        found = self._engine.try_query(
            text, params=params, last=last, samples=samples, timeout=timeout, **(properties or {})
        )
        return trial_document(found)

    def query_facts(self, query_id: int) -> dict[str, Any]:
        """What lists show of one query."""
        with self._rounds.lock:
            record = self._rounds.catalog.record(query_id)
            return self._shown(Query(self._engine, query_id)) | {
                "registered": iso_time(record.registered_us, timespec="seconds"),
                "stream": stream_words(record.shape),
                "streams": list(streams_of(record.shape)),
                "cost": rules.cost_class(record.shape),
                "n_dead": self._rounds.dead_letters.by_query[query_id],
                "params": parameters(record),
            }

    def query_drop(
        self, *, queries: Sequence[str | int], owner: str = "", cascade: bool = False
    ) -> dict[str, Any]:
        """End queries, all in one version or none; with `cascade` also those that read them as views."""
        with self._rounds.lock:
            ids = [self._query(query, owner).id for query in queries]
            ids = self._rounds.catalog.views.with_readers(ids) if cascade else ids
            names = [self._rounds.catalog.queries.name_of(query_id) for query_id in ids]
            self._engine.drop_ids(ids)
            return {"dropped": names, "version": self._engine.version}

    def query_pause(self, *, queries: Sequence[str | int], owner: str = "") -> dict[str, Any]:
        return self._set_paused(queries, owner, True)

    def query_resume(self, *, queries: Sequence[str | int], owner: str = "") -> dict[str, Any]:
        return self._set_paused(queries, owner, False)

    def _set_paused(self, queries: Sequence[str | int], owner: str, is_paused: bool) -> dict[str, Any]:
        with self._rounds.lock:
            handles = [self._query(query, owner) for query in queries]
            target_state = QueryState.PAUSED if is_paused else QueryState.RUNNING
            moving = [
                handle
                for handle in handles
                if self._rounds.catalog.queries.state(handle.id) is not target_state
            ]
            if moving:
                with self._rounds.catalog.change(
                    f"{'pause' if is_paused else 'resume'} {', '.join(h.name for h in moving[:10])}"
                ):
                    for handle in moving:
                        handle.pause() if is_paused else handle.resume()
            return {
                "queries": [{"name": handle.name, "state": handle.state} for handle in handles],
                "changed": [handle.name for handle in moving],
                "version": self._engine.version,
            }

    def query_list(
        self,
        *,
        pattern: str | None = None,
        owner: str | None = None,
        state: str | None = None,
        page: int = 1,
        per_page: int = 50,
    ) -> dict[str, Any]:
        """A page of queries; `pattern` is a part of name or text."""

        def fits(query: Query) -> bool:
            record = self._rounds.catalog.record(query.id)
            return (
                (pattern is None or pattern in record.name or pattern in record.text)
                and (owner is None or record.properties.owner == owner)
                and (state is None or record.state.value == state)
            )

        is_filtered = not (pattern is None and owner is None and state is None)
        with self._rounds.lock:
            found = self._engine.queries(fits if is_filtered else None, page, per_page=per_page)
            return {
                "total": found.total,
                "page": found.page,
                "n_pages": found.n_pages,
                "queries": [self._shown(query) for query in found],
            }

    def query_show(
        self, *, query: str | int, owner: str = "", latest: int = 5, own: Any = None
    ) -> dict[str, Any]:
        """All about one query, and its latest results. `own` are the queries of a user who may see no others."""
        with self._rounds.lock:
            handle = self._query(query, owner)
            record = self._rounds.catalog.record(handle.id)
            explained = explain(self._rounds, record, handle.warnings, own=own)
            facts = explained.as_dict() | self._shown(handle)
            return facts | {
                "registered": iso_time(record.registered_us, timespec="seconds"),
                "cost": rules.cost_class(record.shape),
                "params": parameters(record),
                "alerts": self._alert_facts(handle, record.properties),
                "latest": [
                    {"round": r.round_number, "change": r.change, "row": dict(r)}
                    for r in handle.latest(latest)
                ],
                "shown": str(explained),
            }

    def _alert_facts(self, query: Query, properties: Properties) -> dict[str, Any] | None:
        """What became of an alert query's alerts; None of any other."""
        if not is_alert(properties, self._rounds.catalog.alerts.sinks):
            return None
        n_open = self._rounds.alerting.log.n_open(query.id).get(query.id, {})
        return query.alert_counts._asdict() | {"n_open": n_open}

    def _shown(self, query: Query) -> dict[str, Any]:
        record = self._rounds.catalog.record(query.id)
        return {
            "id": record.id,
            "name": record.name,
            "owner": record.properties.owner,
            "state": record.state.value,
            "suspended": suspended(record),
            "generation": record.generation,
            "version": record.version_from,
            "n_results": query.n_results,
            "text": record.text,
            "properties": {
                word: duration_text(value) if field.endswith("_us") else value
                for field, word in FIELDS.items()
                if (value := getattr(record.properties, field)) not in (None, "", ())
            },
            "warnings": query.warnings,
        }

    def _query(self, name: str | int, owner: str) -> Query:
        """A query by its name, or by its number: 12 or q12. A number that is one means no name."""
        with self._rounds.lock:
            self._rounds.check_open()
            if isinstance(name, int):
                return self._engine.get(name)
            found = self._rounds.catalog.names.find(name, owner)
            number = name.removeprefix("q")
            is_number = found is None and number.isascii() and number.isdigit()
            if is_number and self._rounds.catalog.queries.state(int(number)) is not QueryState.DROPPED:
                return Query(self._engine, int(number))
            return self._engine.get(name, owner=owner)

    # ----------------------------------------------------------------------------------------- questions

    def explain(
        self,
        *,
        query: str | int | None = None,
        text: str | None = None,
        owner: str = "",
        params: Mapping[str, Any] | None = None,
        own: Any = None,
    ) -> dict[str, Any]:
        """How a registered query, or a text, is or would be answered; `own` are the queries of a user who may see no others."""
        if text is not None:
            return self._text_explained(text, params, None, own)
        assert query is not None
        with self._rounds.lock:
            handle = self._query(query, owner)
            record = self._rounds.catalog.record(handle.id)
            found = explain(self._rounds, record, handle.warnings, own=own)
        return found.as_dict() | {"shown": str(found)}

    def _text_explained(
        self, text: str, params: Mapping[str, Any] | None, properties: Mapping[str, Any] | None, own: Any
    ) -> dict[str, Any]:
        with self._rounds.lock:
            self._rounds.check_open()
            record, warnings = self._engine.registrar.trial(text, params, properties or {})
            found = explain(self._rounds, record, warnings, own=own)
        shown = _shown_text(str(found))
        return found.as_dict() | {"name": None, "state": "not registered", "shown": shown}

    def groups(self, *, query: str | int, owner: str = "", **asked: Any) -> dict[str, Any]:
        """The groups of a query as they are after the last round."""
        found = self._query(query, owner).groups(**asked)
        return found.as_dict() | {"shown": str(found)}

    def why(self, *, query: str | int, row: Mapping[str, Any], owner: str = "") -> dict[str, Any]:
        """What each condition of a query says about a row."""
        return _why_answer(self._query(query, owner).why(row))

    def why_not(self, *, query: str | int, last: int = 1000, owner: str = "") -> dict[str, Any]:
        """How the last rows fared with a query."""
        found = self._query(query, owner).why_not(last)
        return dataclasses.asdict(found) | {"shown": str(found)}

    def why_result(self, *, result: str) -> dict[str, Any]:
        """What each condition of its query, as it was then, says about the row of a result."""
        receipt = self._engine.receipt(result)
        with self._rounds.lock:
            if "group" in receipt:
                return _why_answer(why_group_result(self._rounds, receipt))
            record = record_of_receipt(self._rounds, receipt)
            branch = record_of_rows(record, receipt)
            recorded = recorded_values(receipt, record.shape, branch.shape)
            found = why_row(self._rounds, branch, rows_of_receipt(branch, receipt), recorded)
        return _why_answer(found)

    def receipt(self, *, result: str) -> dict[str, Any]:
        """What a result is made of."""
        return self._engine.receipt(result).as_dict()

    def prove(self, *, result: str, starts_spark: bool = True) -> dict[str, Any] | None:
        """Execute a result again, independently of the engine. None if no session is here and none is to be started for it."""
        if not starts_spark and running_session() is None:
            return None
        return self._engine.prove(result).as_dict()


def parameters(record: QueryRecord) -> dict[str, Any]:
    """The values of a query's named parameters."""
    return {
        slot.name: literal_value(value) if isinstance(value, pa.Scalar) else value
        for slot, value in zip(record.shape.slots, record.constants, strict=True)
        if slot.name is not None
    }


def _why_answer(found: Why) -> dict[str, Any]:
    """As JSON values, also of the other parts of a union."""
    others = [_why_answer(other) for other in found.others]
    told = {"is_join": isinstance(found, JoinWhy), "others": others, "shown": str(found)}
    return dataclasses.asdict(found) | told


def _shown_text(explained: str) -> str:
    """An explanation of what is not registered: it has no results."""
    lines = [line for line in explained.splitlines()[1:] if not line.startswith("  results ")]
    return "\n".join(["not registered", *lines])
