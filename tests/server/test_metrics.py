"""What Prometheus scrapes: names, values, who may see them, and a line of the runbook for each."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

import eddyline
from eddyline.events import FiltersReordered, SinkFailed
from eddyline.server import Settings
from eddyline.server.metrics import metrics_text
from tests.server.served import FAST, House, client_of, furnished, house, in_process, on_loopback

RUNBOOK = Path(__file__).parents[2] / "docs" / "operations.md"
PUBLIC = replace(FAST, host="0.0.0.0")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[House]:
    with house(tmp_path / "home") as found:
        yield found


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def of(text: str, name: str, **labels: str) -> float:
    return samples(text)[name, tuple(sorted(labels.items()))]


def names(text: str) -> set[str]:
    """Names as one asks for them: counters with _total, histograms without a suffix."""
    found = set()
    for family in text_string_to_metric_families(text):
        found.add(f"{family.name}_total" if family.type == "counter" else family.name)
    return found


def test_numbers_of_the_engine_are_shown(home):
    with in_process(home.engine) as client:
        text = client.get("/metrics").text
    assert of(text, "eddyline_rounds_total") == 1
    assert of(text, "eddyline_rows_total") == 3
    assert of(text, "eddyline_results_total") == 4
    assert of(text, "eddyline_dead_letters_total") == 1
    assert of(text, "eddyline_queries", state="running") == 3
    assert of(text, "eddyline_stream_rows_total", stream="trades") == 3
    assert of(text, "eddyline_alerts_open", state="firing") == 1
    assert of(text, "eddyline_alerts_fired_total") == 1
    assert of(text, "eddyline_store_files", kind="outbox") == 1
    assert of(text, "eddyline_ready") == 1
    assert of(text, "eddyline_build_info", version=eddyline.__version__) == 1


def test_work_of_expensive_conditions_is_shown_by_stream(home):
    for number in range(2):
        home.engine.query(f"SELECT sym, {number} AS n FROM trades WHERE sym RLIKE '^A'", owner="anna")
    home.engine.push("trades", [("ACME", 1.0, None), ("BOLT", 2.0, None)])
    home.engine.rounds.tell(FiltersReordered(2, "Trades", "sweep", ("b", "a"), "b", "a", 0, 2.0, 1.0))
    with in_process(home.engine) as client:
        text = client.get("/metrics").text
    assert of(text, "eddyline_filter_evaluations_total", stream="trades") == 2
    assert of(text, "eddyline_filter_sampled_evaluations_total", stream="trades") == 0
    assert of(text, "eddyline_filter_seconds_total", stream="trades") > 0
    assert of(text, "eddyline_filter_overhead_seconds_total", stream="trades") > 0
    assert of(text, "eddyline_filter_reorders_total", stream="trades") == 1


def test_the_histogram_of_rounds_is_cumulative_and_ends_with_all(home):
    for _ in range(5):
        home.engine.tick()
    text = metrics_text(home.engine).decode()
    found = samples(text)
    buckets = [
        (float(dict(labels)["le"]), value)
        for (name, labels), value in found.items()
        if name == "eddyline_round_seconds_bucket"
    ]
    values = [value for _, value in sorted(buckets)]
    assert values == sorted(values)
    assert values[-1] == of(text, "eddyline_round_seconds_count") == 6
    assert of(text, "eddyline_round_seconds_sum") > 0


def test_requests_are_counted_by_route_method_and_status_and_never_by_query(home):
    with in_process(home.engine) as client:
        for query in ("cheap", "counted", "dear", "nothing"):
            client.get(f"/api/v1/queries/{query}", headers=home.headers("reader"))
        client.get("/api/v1/status")  # without a token
        client.get("/nowhere/to/be/found")
        client.request("BREW", "/health")
        text = client.get("/metrics").text
    route = "/api/v1/queries/{query}"
    counted = {
        labels: value
        for (name, labels), value in samples(text).items()
        if name == "eddyline_http_requests_total"
    }
    assert {
        (dict(labels)["method"], dict(labels)["route"], dict(labels)["status"]): n
        for labels, n in counted.items()
    } == {
        ("GET", route, "200"): 2,
        ("GET", route, "404"): 2,
        ("GET", "none", "401"): 1,
        ("GET", "none", "404"): 1,
        ("other", "/health", "405"): 1,
    }
    assert of(text, "eddyline_http_request_seconds_count", route=route) == 4
    assert "cheap" not in text
    assert "anna" not in text


def test_the_number_of_lines_does_not_grow_with_queries_or_owners(tmp_path):
    with eddyline.open(tmp_path / "home") as engine:
        furnished(engine)
        before = metrics_text(engine).count(b"\n")
        params = {"p": [float(k) for k in range(1000)]}
        engine.query_many("SELECT sym FROM trades WHERE price < :p", params=params, owner="carl")
        engine.push("trades", [("A", 5.0, None)])
        assert metrics_text(engine).count(b"\n") == before


@pytest.mark.parametrize(
    ("settings", "who", "status"),
    [
        (FAST, None, 200),  # this machine alone
        (replace(FAST, public_url="https://eddyline.example"), None, 401),  # others come through a proxy
        (replace(FAST, public_url="https://eddyline.example"), "admin", 200),
        (PUBLIC, None, 401),
        (PUBLIC, "reader", 403),
        (PUBLIC, "author", 403),
        (PUBLIC, "admin", 200),
        (replace(PUBLIC, open_metrics=True), None, 200),
    ],
)
def test_who_may_see_metrics(home, settings: Settings, who, status):
    with in_process(home.engine, settings) as client:
        headers = {} if who is None else home.headers(who)
        answer = client.get("/metrics", headers=headers)
        assert answer.status_code == status
        assert answer.headers["content-type"].startswith(
            "text/plain" if status == 200 else "application/json"
        )
        assert ("eddyline_rounds_total" in answer.text) == (status == 200)


def test_every_metric_has_a_line_in_the_runbook_and_every_line_a_metric(tmp_path):
    with eddyline.open(tmp_path / "home", audit="100 %") as engine:
        furnished(engine)
        with in_process(engine) as client:
            client.get("/api/v1/status")
            exported = names(client.get("/metrics").text)
    written = re.findall(r"^\| `([a-z_]+)` \|", RUNBOOK.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(written) == len(set(written))
    documented = {name for name in written if name.startswith(("eddyline_", "process_"))}
    if not any(name.startswith("process_") for name in exported):  # a system without /proc
        documented = {name for name in documented if not name.startswith("process_")}
    assert exported == documented


def test_metrics_of_a_closed_engine_are_not_there(tmp_path):
    with eddyline.open(tmp_path / "home") as engine, in_process(engine) as client:
        engine.close()
        assert client.get("/metrics").status_code == 503


def test_names_and_labels_are_escaped_and_can_be_parsed():
    with eddyline.open() as engine:
        engine.stream("trades", "sym STRING")
        engine.rounds.tell(SinkFailed(1, 'a "quoted"\nname\\', "why"))
        assert of(metrics_text(engine).decode(), "eddyline_events_total", event="SinkFailed") == 1


# --------------------------------------------------------------------------------------------- the access log


def test_the_access_log_has_no_token_and_no_query_string(home, caplog):
    caplog.set_level(logging.DEBUG, logger="eddyline.access")
    token = home.tokens["author"]
    with in_process(home.engine) as client:
        client.get(f"/login?token={token}")
        client.get("/api/v1/queries?filter=secret-word", headers=home.headers("author"))
        client.get("/metrics")
    logged = [record for record in caplog.records if record.name == "eddyline.access"]
    said = [(r.fields["method"], r.fields["path"], r.fields["status"]) for r in logged]
    assert said == [("GET", "/login", 401), ("GET", "/api/v1/queries", 200), ("GET", "/metrics", 200)]
    assert logged[1].fields["token"] == token.split("_")[1]
    assert [record.levelname for record in logged] == ["INFO", "INFO", "DEBUG"]
    for record in logged:
        whole = f"{record.getMessage()} {record.fields}"
        assert token not in whole
        assert token.split("_", 2)[2] not in whole
        assert "secret-word" not in whole


def test_a_stream_of_events_is_counted_when_it_begins(home):
    with on_loopback(home.engine) as serving, client_of(serving, home.tokens["reader"]) as client:
        with client.stream("GET", "/api/v1/results/stream") as answer:
            events = answer.iter_bytes()
            next(events)
            text = client.get("/metrics").text
        route = "/api/v1/results/stream"
        assert of(text, "eddyline_event_streams") == 1
        assert of(text, "eddyline_http_requests_total", method="GET", route=route, status="200") == 1
        assert of(text, "eddyline_http_request_seconds_count", route=route) == 1
