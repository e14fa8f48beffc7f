"""Sinks that take alerts and get none, because no query is an alert that goes to them: almost always a mistake."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from eddyline.catalog import Catalog
from eddyline.delivery import QueryFacts, SinkSelection
from eddyline.model import Properties, Shape, is_alert
from eddyline.pipeline import SinkSettings
from eddyline.sql import stream_words


class NamedQueries(NamedTuple):
    """Queries with one shape and the same properties."""

    names: Sequence[str]
    shape: Shape
    properties: Properties


def unfed_sinks(sinks: Iterable[SinkSettings], queries: Collection[NamedQueries]) -> Iterator[str]:
    """A warning for each sink that none of these queries will ever send a message to."""
    takers = [sink for sink in sinks if sink.takes == "alerts"]
    names = frozenset(sink.name for sink in takers)
    alerts = [each for each in queries if is_alert(each.properties, names)]
    for sink in takers:
        selection = SinkSelection(sink.queries, sink.streams, sink.name)
        if not any(selection.has(facts) for each in alerts for facts in _facts(each)):
            yield _warning(sink, has_alerts=bool(alerts))


def standing_queries(catalog: Catalog, ids: Iterable[int]) -> Iterator[NamedQueries]:
    """Those of the catalog."""
    for query_id in ids:
        registration = catalog.queries.registration(query_id)
        yield NamedQueries((registration.name(query_id),), registration.shape, registration.properties)


def _facts(each: NamedQueries) -> Iterator[QueryFacts]:
    joins = each.shape.streams if each.shape.join is not None or each.shape.branches else ()
    for name in each.names:
        yield QueryFacts(name, stream_words(each.shape), each.properties.deliver, joins=joins)


def _warning(sink: SinkSettings, *, has_alerts: bool) -> str:
    why = "no query is an alert" if not has_alerts else "no alert goes there"
    where = "" if sink.place is None else f" in line {sink.place.line} of {sink.place.file.name}"
    return (
        f"sink {sink.name} takes alerts, and {why}: it will send nothing. Make a query an alert: "
        f"TBLPROPERTIES (deliver = '{sink.name}', per = 'COLUMN'); or send all results: takes = \"results\"{where}"
    )
