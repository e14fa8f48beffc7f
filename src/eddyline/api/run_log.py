"""What a long run says of itself: a line when it starts, and one a minute with what happened since the last.

Both go to the logger "eddyline" at level info; the shell and the server show them, a program that configures logging can.
Numbers are rounded in the words, and exact in the fields that a log for programs writes.
"""

from __future__ import annotations

import logging
import platform
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from eddyline.durations import span_text
from eddyline.errors import ClosedError
from eddyline.explain import Counters, rounded
from eddyline.runtime import SourceStatus
from eddyline.version import VERSION

if TYPE_CHECKING:
    from eddyline.api.engine import Engine

SUMMARY_S = 60.0
LAG_S = 60.0  # a stream that is less far behind the clock is left out
_logger = logging.getLogger("eddyline")


def log_start(engine: Engine, *, spark: str | None = None, url: str | None = None) -> None:
    """Say what was started: versions (`spark`: of PySpark, if rounds run there), home, streams, queries, address."""
    durable = engine.rounds.durable
    home = None if durable is None else str(durable.home.folder)
    n_streams = len(engine.streams())
    versions = {"version": VERSION, "python": platform.python_version(), "pyspark": spark}
    parts = [
        f"eddyline {versions['version']}",
        f"Python {versions['python']}",
        *([] if spark is None else [f"PySpark {spark}"]),
        "in memory" if home is None else f"home {home}",
        _many(n_streams, "stream"),
        _many(engine.n_queries, "query"),
        *([] if url is None else [f"serving at {url}"]),
    ]
    fields = versions | {"home": home, "n_streams": n_streams, "n_queries": engine.n_queries, "url": url}
    _log("Started", "started: " + ", ".join(parts), fields)


class SummaryLog:
    """Logs a line a minute while the engine runs: `with engine.summaries:`, which may be entered several times."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._guard = threading.Lock()
        self._n_users = 0
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> SummaryLog:
        with self._guard:
            self._n_users += 1
            if self._n_users == 1:
                self._over = threading.Event()
                before = self._engine.counters()
                self._thread = threading.Thread(
                    target=self._run, args=(before, self._over), name="eddyline-summary", daemon=True
                )
                self._thread.start()
        return self

    def __exit__(self, *why: object) -> None:
        with self._guard:
            self._n_users -= 1
            thread = self._thread if self._n_users == 0 else None
            if thread is not None:
                self._over.set()
        if thread is not None:
            thread.join()

    def _run(self, before: Counters, over: threading.Event) -> None:
        while not over.wait(SUMMARY_S):
            try:
                after, sources = self._engine.counters(), self._engine.sources()
            except ClosedError:
                return
            fields = summary_fields(before, after, sources)
            _log("Summary", summary_words(fields), fields)
            before = after


def summary_fields(before: Counters, after: Counters, sources: Sequence[SourceStatus]) -> dict[str, Any]:
    """What happened between two looks at an engine, and what is behind or failing now."""
    delivered = {sink.name: sink.n_delivered for sink in before.sinks}
    alert_sinks = [sink for sink in after.sinks if sink.takes == "alerts"]
    lags = {each.name: each.watermark_lag_s for each in after.streams if each.watermark_lag_s is not None}
    return {
        "seconds": round((after.at_us - before.at_us) / 1e6),
        "rows": after.n_rows - before.n_rows,
        "results": after.n_results - before.n_results,
        "alerts_fired": after.alerts.n_fired - before.alerts.n_fired,
        "alerts_sent": sum(sink.n_delivered - delivered.get(sink.name, 0) for sink in alert_sinks),
        "late_rows": after.n_late - before.n_late,
        "dead_letters": after.n_dead - before.n_dead,
        "failed_rounds": after.n_rounds_failed - before.n_rounds_failed,
        "suspended_queries": after.queries.get("suspended", 0),
        "behind": {each.stream: [each.n_behind, each.unit] for each in sources if each.n_behind},
        "lag_s": {name: round(lag_s) for name, lag_s in lags.items() if lag_s > LAG_S},
        "failing_sources": {each.stream: each.n_failures for each in sources if each.is_failing},
        "failing_sinks": {sink.name: sink.n_behind for sink in after.sinks if sink.is_failing},
    }


def summary_words(fields: dict[str, Any]) -> str:
    """The same for people: in rounded numbers, without what is zero."""
    counted = (
        ("rows", "row"),
        ("results", "result"),
        ("alerts_fired", "alert"),
        ("alerts_sent", "message of alerts"),
        ("late_rows", "late row"),
        ("dead_letters", "dead letter"),
        ("failed_rounds", "failed round"),
    )
    does = {"alerts_fired": " fired", "alerts_sent": " sent"}
    parts = [f"{_many(fields[name], noun)}{does.get(name, '')}" for name, noun in counted if fields[name]]
    parts = parts or ["no rows"]
    parts += [f"{name} {rounded(n)} {unit} behind" for name, (n, unit) in fields["behind"].items()]
    if fields["lag_s"]:
        name, lag_s = max(fields["lag_s"].items(), key=lambda each: each[1])
        parts.append(f"{name} {span_text(lag_s)} behind the clock")
    parts += [
        f"source of {name} fails, {_many(n, 'time')} so far" for name, n in fields["failing_sources"].items()
    ]
    parts += [f"sink {name} fails, {rounded(n)} behind" for name, n in fields["failing_sinks"].items()]
    if fields["suspended_queries"]:
        parts.append(f"{_many(fields['suspended_queries'], 'query')} suspended")
    span = "minute" if abs(fields["seconds"] - SUMMARY_S) < 5 else span_text(fields["seconds"])
    return f"last {span}: {', '.join(parts)}"


def _many(n: int, noun: str) -> str:
    """12,300 rows, 1 query."""
    first, _, rest = noun.partition(" of ")
    many = f"{first[:-1]}ies" if first.endswith("y") else f"{first}s"
    return f"{rounded(n)} {first if n == 1 else many}{f' of {rest}' if rest else ''}"


def _log(event: str, line: str, fields: dict[str, Any]) -> None:
    _logger.info(line, extra={"event": event, "fields": {"message": line, **fields}})
