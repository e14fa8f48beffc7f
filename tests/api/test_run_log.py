"""What a long run says of itself: a line at its start, and one a minute, in words and in numbers."""

from __future__ import annotations

import logging
import platform
import threading
from dataclasses import replace

import pytest

import eddyline
from eddyline.api import run_log
from eddyline.api.run_log import log_start, summary_fields, summary_words
from eddyline.runtime import SourceStatus

TOPIC = SourceStatus(
    stream="trades",
    type="kafka",
    what="trades",
    position="",
    n_behind=12_345,
    unit="messages",
    n_rows=0,
    rows_per_s=0.0,
    is_failing=True,
    is_finished=False,
    n_failures=7,
    message="",
    failed_at_us=None,
    retry_in_s=None,
)


@pytest.fixture
def engine():
    with eddyline.open() as engine:
        engine.stream("trades", "n INT, price DOUBLE")
        engine.query("SELECT n FROM trades WHERE price < 10", name="cheap")
        yield engine


class Heard(logging.Handler):
    """Records of one event, and a way to wait for them."""

    def __init__(self, event: str) -> None:
        super().__init__()
        self._event = event
        self.records: list[logging.LogRecord] = []
        self.is_new = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "event", "") == self._event:
            self.records.append(record)
            self.is_new.set()


@pytest.fixture
def heard():
    logger = logging.getLogger("eddyline")
    handlers = {event: Heard(event) for event in ("Started", "Summary")}
    level = logger.level
    logger.setLevel(logging.INFO)
    for handler in handlers.values():
        logger.addHandler(handler)
    yield handlers
    for handler in handlers.values():
        logger.removeHandler(handler)
    logger.setLevel(level)


def test_the_start_line_has_versions_home_streams_queries_and_the_address(tmp_path, heard):
    with eddyline.open(tmp_path / "home", create=True) as engine:
        engine.stream("trades", "n INT")
        log_start(engine, spark="4.1.1", url="http://127.0.0.1:8321")
    (record,) = heard["Started"].records
    assert record.getMessage() == (
        f"started: eddyline {eddyline.__version__}, Python {platform.python_version()}, PySpark 4.1.1, "
        f"home {tmp_path / 'home'}, 1 stream, 0 queries, serving at http://127.0.0.1:8321"
    )
    fields = {name: record.fields[name] for name in ("pyspark", "home", "n_streams", "n_queries", "url")}
    assert fields == {
        "pyspark": "4.1.1",
        "home": str(tmp_path / "home"),
        "n_streams": 1,
        "n_queries": 0,
        "url": "http://127.0.0.1:8321",
    }


def test_a_summary_has_rounded_numbers_and_leaves_out_what_is_zero(engine):
    before = engine.counters()
    engine.push("trades", [{"n": k, "price": float(k)} for k in range(12_345)])
    after = replace(engine.counters(), at_us=before.at_us + 60_000_000)
    fields = summary_fields(before, after, [])
    assert (fields["rows"], fields["results"], fields["seconds"]) == (12_345, 10, 60)
    assert summary_words(fields) == "last minute: 12,300 rows, 10 results"
    assert summary_words(summary_fields(after, after, [])) == "last 0 s: no rows"


def test_a_summary_names_what_is_behind_failing_late_and_suspended(engine):
    before = engine.counters()
    sink = {"name": "ops", "type": "webhook", "takes": "alerts", "n_failures": 3, "n_lost": 0, "n_refused": 0}
    ops = run_sink(n_behind=34, n_delivered=5, is_failing=True, message="no route", **sink)
    (stream,) = before.streams
    after = replace(
        before,
        at_us=before.at_us + 300_000_000,
        n_rows=before.n_rows + 1,
        n_late=before.n_late + 2,
        n_dead=before.n_dead + 3,
        n_rounds_failed=1,
        queries={"running": 1, "suspended": 2},
        alerts=replace(before.alerts, n_fired=4),
        streams=(replace(stream, watermark_lag_s=4_000.0),),
        sinks=(ops,),
    )
    assert summary_words(summary_fields(before, after, [TOPIC])) == (
        "last 5 min: 1 row, 4 alerts fired, 5 messages of alerts sent, 2 late rows, 3 dead letters, 1 failed round, "
        "trades 12,300 messages behind, trades 1 h 6 min behind the clock, source of trades fails, 7 times so far, "
        "sink ops fails, 34 behind, 2 queries suspended"
    )


def run_sink(**values):
    from eddyline.explain.counting import SinkCounters

    return SinkCounters(**values)


def test_summaries_come_while_anybody_runs_the_engine_and_from_one_thread(engine, heard, monkeypatch):
    monkeypatch.setattr(run_log, "SUMMARY_S", 0.01)

    def n_threads() -> int:
        return sum(thread.name == "eddyline-summary" for thread in threading.enumerate())

    with engine.summaries:
        with engine.summaries:
            assert n_threads() == 1
            assert heard["Summary"].is_new.wait(60)
        heard["Summary"].is_new.clear()
        assert heard["Summary"].is_new.wait(60)  # the other one still runs
    assert n_threads() == 0
    assert "no rows" in heard["Summary"].records[0].getMessage()


def test_a_server_says_where_it_serves_and_has_summaries(engine, heard, monkeypatch):
    monkeypatch.setattr(run_log, "SUMMARY_S", 0.01)
    with engine.serve(port=0) as serving:
        assert heard["Started"].records[0].getMessage().endswith(f"serving at {serving.url}")
        assert heard["Summary"].is_new.wait(60)
