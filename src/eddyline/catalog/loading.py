"""Reading a version of the catalog from the disk into memory."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from eddyline.catalog.alert_queries import AlertQueries
from eddyline.catalog.queries import Registration
from eddyline.catalog.query_names import QueryNames
from eddyline.catalog.registered_queries import QueryFate, RegisteredQueries
from eddyline.catalog.stored_queries import StoredQueries, StoredQuery, StoredTemplate
from eddyline.catalog.stream_plans import StreamPlans
from eddyline.model import QueryState


@contextmanager
def _no_collector() -> Iterator[None]:
    """While a million entries are made, and none is dropped, the collector would look at them again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class QueryLoader:
    """Fills the parts of an empty catalog with the queries that the disk has for a version."""

    def __init__(
        self, queries: RegisteredQueries, names: QueryNames, plans: StreamPlans, alerts: AlertQueries
    ) -> None:
        self._queries = queries
        self._names = names
        self._plans = plans
        self._alerts = alerts

    def load(self, stored: StoredQueries, version: int) -> None:
        with _no_collector():
            for template in stored.templates_at(version):
                self._load_template(template)
            for query in stored.at(version):
                self._load_query(query)

    def _load_template(self, template: StoredTemplate) -> None:
        t, queries = template, self._queries
        registration = Registration(
            t.first_id, t.n, t.text, t.shape, t.properties, t.names, t.version, t.registered_us
        )
        queries.templates.append(registration)
        self._alerts.note(registration)
        ids = np.arange(t.first_id, t.first_id + t.n, dtype=np.int32)
        is_registered = np.ones(t.n, dtype=bool)
        is_registered[np.array(t.ended_ids, dtype=np.int64) - t.first_id] = False
        for query_id in t.ended_ids:
            queries.fates[query_id] = QueryFate(QueryState.DROPPED, 0, t.version, 0)
        if t.names is not None:
            rows = zip(t.names, ids, is_registered, strict=True)
            self._names.add_many(
                t.properties.owner, ((name, int(i)) for name, i, is_there in rows if is_there)
            )
        queries.n_queries += int(is_registered.sum())
        if t.properties.is_enabled:
            keep = pa.array(np.flatnonzero(is_registered))
            columns = t.columns if is_registered.all() else [column.take(keep) for column in t.columns]
            if is_registered.any():
                self._plans.family(t.shape).add_many(ids[is_registered], columns)
            return
        for at in np.flatnonzero(is_registered):
            queries.parked[int(ids[at])] = tuple(column[int(at)] for column in t.columns)
            queries.fates[int(ids[at])] = QueryFate(QueryState.PAUSED, 1, t.version, t.registered_us)

    def _load_query(self, query: StoredQuery) -> None:
        q, queries = query, self._queries
        registration = Registration(
            q.id, 1, q.text, q.shape, q.properties, q.name, q.version, q.registered_us
        )
        queries.singles[q.id] = registration
        self._alerts.note(registration)
        self._names.add(q.name, q.properties.owner, q.id)
        queries.fates.pop(q.id, None)
        queries.n_queries += 1
        if q.generation > 1 or q.state is not QueryState.RUNNING:
            queries.restore_fate(q.id, QueryFate(q.state, q.generation, q.version, q.registered_us, q.why))
        if q.state is QueryState.RUNNING:
            self._plans.family(q.shape).add(q.id, q.constants)
        else:
            queries.parked[q.id] = tuple(
                pa.scalar(v, s.type) for v, s in zip(q.constants, q.shape.slots, strict=True)
            )
