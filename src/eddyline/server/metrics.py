"""GET /metrics: the engine's counters, and the server's own, as Prometheus reads them.

Labels are names of streams, sinks, functions, events, routes and states, never of queries or owners: with any number of rules
a scrape has some hundred lines. `docs/operations.md` has a line for each of them that says what to do about it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fastapi import APIRouter
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

import eddyline
from eddyline.api import Engine
from eddyline.errors import AccessError
from eddyline.explain import Counters, Seconds
from eddyline.server.access import Serves
from eddyline.server.errors import Refusal, forbidden
from eddyline.server.service import Service
from eddyline.server.traffic import HttpCounters

routes = APIRouter()


@routes.get("/metrics", include_in_schema=False)
def metrics(service: Serves, request: Request) -> Response:
    """What Prometheus scrapes; for admins, unless the server is on this machine alone or its settings make it public."""
    settings = service.settings
    if not settings.open_metrics and not (settings.is_loopback and settings.public_url is None):
        _check_admin(request)
    text = metrics_text(service.engine, service, request.app.state.traffic)
    return Response(text, headers={"content-type": CONTENT_TYPE_PLAIN_0_0_4})


def _check_admin(request: Request) -> None:
    caller = request.scope.get("eddyline.caller")
    if caller is None:
        raise Refusal(
            401,
            AccessError(
                "metrics need a token of an admin",
                hint="Send Authorization: Bearer edl_…, or start the server with --open-metrics.",
            ),
            {"www-authenticate": "Bearer"},
        )
    if not caller.is_admin:
        raise forbidden("metrics need a token of an admin", f"This token has role {caller.role}.")


def metrics_text(
    engine: Engine, service: Service | None = None, traffic: HttpCounters | None = None
) -> bytes:
    """All metrics, in the text form of Prometheus; those of the server if it is given."""
    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    registry.register(_Collector(engine, service, traffic))
    return generate_latest(registry)


class _Collector(Collector):
    """Asks the engine once for all its numbers."""

    def __init__(self, engine: Engine, service: Service | None, traffic: HttpCounters | None) -> None:
        self._engine = engine
        self._service = service
        self._traffic = traffic

    def collect(self) -> Iterable[Metric]:
        found = self._engine.counters()
        yield from _of_rounds(found)
        yield from _of_queries(found)
        yield from _of_streams(found)
        yield from _of_filters(found)
        yield from _of_joins(found)
        yield from _of_aggregates(found)
        yield from _of_alerts(found)
        yield from _of_sinks(found)
        yield from _of_home(found)
        yield from _of_functions(found)
        yield from _of_audit(found)
        if self._service is not None:
            yield from _of_server(self._service)
        if self._traffic is not None:
            yield from _of_traffic(self._traffic)


def _of_rounds(found: Counters) -> Iterator[Metric]:
    build = GaugeMetricFamily("eddyline_build_info", "1; the version is a label.", labels=["version"])
    build.add_metric([eddyline.__version__], 1)
    yield build
    yield _gauge("opened_time_seconds", "When the engine was opened, since 1970.", found.opened_us / 1e6)
    yield _gauge("last_round", "The number of the last round.", found.last_round)
    yield _counter("rounds", "Rounds since the engine was opened.", found.n_rounds)
    yield _counter(
        "rounds_failed", "Rounds of sources that failed and are tried again.", found.n_rounds_failed
    )
    yield _histogram(
        "round_seconds", "What rounds took, from planning to delivery.", {(): found.round_seconds}
    )
    yield _counter("rows", "Rows of all streams.", found.n_rows)
    yield _counter("late_rows", "Rows behind the watermark of their stream.", found.n_late)
    yield _counter("results", "Results of all queries.", found.n_results)
    yield _counter(
        "results_dropped", "Results evicted from memory before they were read.", found.n_results_dropped
    )
    yield _counter("dead_letters", "Rows and pairs that could not be used.", found.n_dead)
    yield _counter("tasks", "Tasks of rounds that were shared among workers.", found.n_tasks)
    yield _counter("task_cpu_seconds", "Processor time of those tasks.", found.task_cpu_s)
    yield _counter("events", "Announcements of the engine, by name.", _by(found.events), "event")


def _of_queries(found: Counters) -> Iterator[Metric]:
    yield _gauge("catalog_version", "Grows with every change of streams or queries.", found.version)
    yield _gauge("queries", "Queries that are registered, by state.", _by(found.queries), "state")


def _of_streams(found: Counters) -> Iterator[Metric]:
    streams = found.streams
    yield _counter("stream_rows", "Rows of a stream.", {(s.name,): s.n_rows for s in streams}, "stream")
    yield _counter(
        "stream_late_rows", "Late rows of a stream.", {(s.name,): s.n_late for s in streams}, "stream"
    )
    yield _gauge(
        "stream_queries", "Queries on a stream.", {(s.name,): s.n_queries for s in streams}, "stream"
    )
    lags = {(s.name,): s.watermark_lag_s for s in streams if s.watermark_lag_s is not None}
    yield _gauge(
        "stream_watermark_lag_seconds", "How far a stream's event time is behind the clock.", lags, "stream"
    )
    behind = {(s.name, partition): lag_s for s in streams for partition, lag_s in s.partition_lag_s.items()}
    yield _gauge(
        "stream_partition_watermark_lag_seconds",
        "The same of each partition of its source, where there are several; pushed rows have no name.",
        behind,
        "stream",
        "partition",
    )
    yield _gauge(
        "index_bytes",
        "Memory of the predicate index of a stream.",
        {(s.name,): s.index_bytes for s in streams},
        "stream",
    )


def _of_filters(found: Counters) -> Iterator[Metric]:
    by_stream = {(stream.name,): stream.filters for stream in found.streams}
    for name, words, values in (
        ("filter_evaluations", "Rows on which expensive conditions ran.", "n_evaluations"),
        ("filter_sampled_evaluations", "Rows they ran on only to be known better.", "n_sampled_evaluations"),
        ("filter_seconds", "Time inside them.", "seconds"),
        ("filter_overhead_seconds", "Time to choose which of them runs next.", "overhead_s"),
        ("filter_reorders", "Changes of their order.", "n_reorders"),
    ):
        yield _counter(name, words, {of: getattr(f, values) for of, f in by_stream.items()}, "stream")


def _of_joins(found: Counters) -> Iterator[Metric]:
    streams, joins = found.streams, found.joins
    yield _gauge(
        "join_kept_rows",
        "Rows of a stream that are retained for joins.",
        {(s.name,): s.kept_rows for s in streams},
        "stream",
    )
    yield _gauge("join_kept_bytes", "Memory they take.", {(s.name,): s.kept_bytes for s in streams}, "stream")
    yield _gauge("joins", "Joins that are executed, each for all queries that have it.", joins.n_signatures)
    yield _counter("join_driving_rows", "New rows that looked for partners.", joins.n_drivers)
    yield _counter("join_probes", "Rows that probed retained rows.", joins.n_probes)
    yield _counter("join_shared_probes", "Probes that another join had made.", joins.n_shared)
    yield _counter("join_reorders", "Changes of the order of probes.", joins.n_reorders)
    yield _counter("join_partners", "Partners that were found.", joins.n_matches)
    yield _counter("join_joined_rows", "Rows derived by joins.", joins.n_combinations)


def _of_aggregates(found: Counters) -> Iterator[Metric]:
    kept = found.aggregates
    yield _gauge("aggregate_classes", "Classes of rows that are aggregated, each once.", kept.n_classes)
    yield _gauge("aggregate_groups", "Groups and partitions that are kept.", kept.n_groups)
    yield _gauge("aggregate_slices", "Slices of windows and pieces of sessions.", kept.n_slices)
    yield _gauge("aggregate_kept_rows", "Rows that are retained for aggregates.", kept.n_rows)
    yield _gauge("aggregate_bytes", "Memory of aggregates.", kept.nbytes)
    yield _counter("aggregate_refused_rows", "Rows of groups above the limit.", kept.n_refused)


def _of_alerts(found: Counters) -> Iterator[Metric]:
    alerts = found.alerts
    yield _counter("alerts_fired", "Alerts that fired.", alerts.n_fired)
    yield _counter("alerts_resolved", "Alerts that resolved.", alerts.n_resolved)
    yield _counter("alerts_suppressed", "Alerts held back by a cooldown.", alerts.n_suppressed)
    yield _counter("alerts_unformatted", "Messages whose template did not fit the row.", alerts.n_unformatted)
    yield _counter("alerts_withheld", "Messages that silences withheld.", alerts.n_withheld)
    yield _gauge("alerts_open", "Alerts that are open, by state.", _by(alerts.n_open), "state")


def _of_sinks(found: Counters) -> Iterator[Metric]:
    sinks = found.sinks
    yield _gauge(
        "sink_behind",
        "Rounds, or messages, a sink has not taken yet.",
        {(s.name,): s.n_behind for s in sinks},
        "sink",
    )
    yield _gauge(
        "sink_failing", "1 while a sink fails.", {(s.name,): int(s.is_failing) for s in sinks}, "sink"
    )
    yield _counter(
        "sink_delivered",
        "Results, or messages, a sink has taken.",
        {(s.name,): s.n_delivered for s in sinks},
        "sink",
    )
    yield _counter(
        "sink_failures", "Tries of a sink that failed.", {(s.name,): s.n_failures for s in sinks}, "sink"
    )
    yield _counter(
        "sink_lost",
        "Removed by retention before a sink took them.",
        {(s.name,): s.n_lost for s in sinks},
        "sink",
    )
    yield _counter(
        "sink_refused",
        "Refused by the receiver; dead letters now.",
        {(s.name,): s.n_refused for s in sinks},
        "sink",
    )


def _of_home(found: Counters) -> Iterator[Metric]:
    store = found.store
    if store is None:
        return
    yield _gauge(
        "store_bytes",
        "Files of the store, by kind.",
        {(k,): nbytes for k, (_, nbytes) in store.kinds.items()},
        "kind",
    )
    yield _gauge("store_files", "How many, by kind.", {(k,): n for k, (n, _) in store.kinds.items()}, "kind")
    yield _counter(
        "retention_removed",
        "Removed by retention since the home was created: results, dead letters, captured rows.",
        {(what,): n for what, n in store.removed.items()},
        "what",
    )
    yield _gauge("catalog_bytes", "Size of the catalog's file, with its log.", store.catalog_bytes)
    yield _gauge("disk_free_bytes", "Room on the disk of the home.", store.free_bytes)


def _of_functions(found: Counters) -> Iterator[Metric]:
    functions = found.functions
    for name, words, values in (
        ("function_calls", "Calls of a function.", {(n,): f.n_calls for n, f in functions.items()}),
        ("function_rows", "Rows it was called with.", {(n,): f.n_rows for n, f in functions.items()}),
        ("function_errors", "Rows on which it failed.", {(n,): f.n_failed for n, f in functions.items()}),
        ("function_seconds", "Time inside it.", {(n,): f.seconds for n, f in functions.items()}),
    ):
        yield _counter(name, words, values, "function")


def _of_audit(found: Counters) -> Iterator[Metric]:
    audit = found.audit
    if audit is None:
        return
    yield _counter("audit_rounds", "Rounds another engine evaluated again.", audit.n_rounds)
    yield _counter("audit_queries", "Queries it looked at there.", audit.n_queries)
    yield _counter("audit_pairs", "Pairs of row and query it judged.", audit.n_pairs)
    yield _counter("audit_differences", "Pairs it found otherwise.", audit.n_differences)
    yield _counter("audit_skipped", "Rounds and queries it could not judge.", audit.n_skipped)


def _of_server(service: Service) -> Iterator[Metric]:
    is_ready = service.trouble() is None and not service.is_draining
    yield _gauge("ready", "1 while /ready answers 200.", int(is_ready))
    yield _gauge("event_streams", "Streams of events that are open.", service.hub.places.n_streams)


def _of_traffic(traffic: HttpCounters) -> Iterator[Metric]:
    yield _counter(
        "http_requests",
        "Requests, by method, route and status.",
        traffic.requests(),
        "method",
        "route",
        "status",
    )
    seconds = {(route,): each for route, each in traffic.seconds().items()}
    yield _histogram("http_request_seconds", "What requests took, by route.", seconds, "route")


Values = Mapping[Any, float]  # by the values of the labels, a tuple


def _by(counts: Mapping[str, int]) -> Values:
    return {(name,): n for name, n in counts.items()}


def _values(values: float | Values) -> Iterable[tuple[tuple[str, ...], float]]:
    return values.items() if isinstance(values, Mapping) else [((), values)]


def _counter(name: str, words: str, values: float | Values, *labels: str) -> Metric:
    return _filled(CounterMetricFamily(f"eddyline_{name}", words, labels=labels), values)


def _gauge(name: str, words: str, values: float | Values, *labels: str) -> Metric:
    return _filled(GaugeMetricFamily(f"eddyline_{name}", words, labels=labels), values)


def _filled(family: Any, values: float | Values) -> Metric:
    for of, value in _values(values):
        family.add_metric(of, value)
    return family


def _histogram(name: str, words: str, values: Mapping[Any, Seconds], *labels: str) -> Metric:
    family = HistogramMetricFamily(f"eddyline_{name}", words, labels=labels)
    for of, seconds in values.items():
        n, buckets = 0, []
        for bound, count in zip((*seconds.bounds_s, float("inf")), seconds.counts, strict=True):
            n += count
            buckets.append(("+Inf" if bound == float("inf") else repr(bound), float(n)))
        family.add_metric(of, buckets, seconds.total_s)
    return family
