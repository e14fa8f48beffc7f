"""A user with a topic of Kafka: caught up, killed twice, without a broker for a moment; every result is delivered once.

It needs a real broker: EDDYLINE_KAFKA_JARS (CONTRIBUTING.md, "The jars of a Kafka broker").
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import eddyline
from tests.journeys.conftest import Shell
from tests.kafka_broker import RealBroker, wait_for

FIRST_MS = 1_790_000_000_000
STEP_MS = 100
PARTITION_OF = (0, 0, 0, 0, 1, 1, 2, 3)  # a round takes alike from each, so time runs ahead in the thin ones
LARGE = "SELECT n, card FROM payments WHERE amount > 95"
TWICE = (
    "SELECT a.n AS first, b.n AS second FROM payments a JOIN payments b ON a.card = b.card"
    " AND b.ts > a.ts AND b.ts <= a.ts + 5000 WHERE a.amount > 90 AND b.amount < 45"
)
SCHEMA = "n BIGINT, card STRING, amount INT, ts BIGINT"
PIPELINE = """
[engine]
home = "home"

[streams.payments]
schema = "{schema}"
time = "ts"
time_unit = "ms"
source = {{ type = "kafka", servers = "{servers}", topic = "{payments}", format = "json" }}

[rules]
files = ["*.sql"]

[limits]
rows_per_round = 100
rows_per_second = 1500 # so that it is killed on its way

[[sinks]]
type = "kafka"
servers = "{servers}"
topic = "{alerts}"
"""


def payment(n: int) -> dict[str, Any]:
    return {"n": n, "card": f"c{n % 50}", "amount": n * 37 % 100, "ts": FIRST_MS + n * STEP_MS}


def pay(broker: RealBroker, topic: str, numbers: Iterable[int]) -> None:
    """Messages in order of time within each of the four partitions."""
    by_partition: dict[int, list[str]] = {}
    for n in numbers:
        by_partition.setdefault(PARTITION_OF[n % 8], []).append(json.dumps(payment(n)))
    for partition, messages in by_partition.items():
        broker.write(topic, messages, partition=partition)
    times = [json.loads(value)["ts"] for _, value in broker.committed(topic)]
    assert sum(later < earlier for earlier, later in pairwise(times)) == 3  # where the next partition begins


def expected(n_payments: int) -> list[tuple[str, dict[str, Any]]]:
    """What both rules find, computed row by row."""
    paid = [payment(n) for n in range(n_payments)]
    large = [("large", {"n": p["n"], "card": p["card"]}) for p in paid if p["amount"] > 95]
    twice = [
        ("twice", {"first": a["n"], "second": b["n"]})
        for a in paid
        for b in paid[a["n"] + 1 : a["n"] + 51]
        if a["card"] == b["card"] and a["amount"] > 90 and b["amount"] < 45
    ]
    return by_number([*large, *twice])


def by_number(results: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, dict[str, Any]]]:
    return sorted(results, key=lambda each: (each[0], sorted(each[1].items())))


def test_results_are_delivered_once_through_two_kills_and_a_broker_that_was_away(
    real_broker: RealBroker, shell: Shell, tmp_path: Path
) -> None:
    payments, alerts = real_broker.topic(4), real_broker.topic()
    (tmp_path / "large.sql").write_text(LARGE)
    (tmp_path / "twice.sql").write_text(TWICE)
    (tmp_path / "eddyline.toml").write_text(
        PIPELINE.format(schema=SCHEMA, servers=real_broker.servers, payments=payments, alerts=alerts)
    )
    pay(real_broker, payments, range(3_000))

    def delivered() -> list[dict[str, Any]]:
        return [json.loads(value) for _, value in real_broker.committed(alerts)]

    for n_results in (1, len(expected(3_000)) // 2):
        running = shell.start("run")
        wait_for(lambda n=n_results: len(delivered()) >= n, 120)
        assert running.end(signal.SIGKILL) == -signal.SIGKILL
    running = shell.start("run")
    wait_for(lambda: len(delivered()) >= len(expected(3_000)), 120)

    real_broker.crash()
    try:
        wait_for(lambda: any(real_broker.servers in line for line in list(running.err.queue)))  # it says so
        assert running.process.poll() is None
    finally:
        real_broker.start()
    pay(real_broker, payments, range(3_000, 4_000))
    wait_for(lambda: len(delivered()) >= len(expected(4_000)), 120)
    assert running.end(signal.SIGTERM) == 0

    found = delivered()
    ids = [(row["_query_id"], row["_generation"], row["_arrival"]) for row in found]
    assert len(set(ids)) == len(ids)
    values = [
        (row["_query"], {name: value for name, value in row.items() if name[0] != "_"}) for row in found
    ]
    assert by_number(values) == expected(4_000)
    with eddyline.open(tmp_path / "home") as engine:
        (stream,) = engine.streams()
        assert (stream.n_rows, stream.n_late) == (4_000, 0)
        assert stream.watermark_us == (FIRST_MS + 3_995 * STEP_MS) * 1_000  # of the partition that is behind
        for name in ("large", "twice"):
            for result in (engine.get(name).results()[0], engine.get(name).latest(1)[0]):
                receipt = engine.receipt(result)
                numbers = [result["n"]] if name == "large" else [result["first"], result["second"]]
                assert receipt["result"] == dict(result)
                assert sorted(row["row"]["n"] for row in receipt["rows"]) == numbers


def test_workers_of_spark_catch_up_with_the_same_topic_and_find_the_same(
    real_broker: RealBroker, spark, tmp_path: Path
) -> None:
    payments = real_broker.topic(4)
    pay(real_broker, payments, range(2_000))
    with eddyline.open(tmp_path / "home") as engine:
        stream = engine.stream("payments", SCHEMA, time="ts", time_unit="ms")
        queries = {"large": engine.query(LARGE, name="large"), "twice": engine.query(TWICE, name="twice")}
        source = {"type": "kafka", "servers": real_broker.servers, "topic": payments, "format": "json"}
        running = engine.start(
            spark, sources={"payments": source}, once=True, job_from_bytes=1, bytes_per_job=40_000
        )
        running.wait(120)
        running.stop()
        assert (stream.n_rows, stream.n_late) == (2_000, 0)
        found = [(name, dict(result)) for name, query in queries.items() for result in query.results()]
        assert by_number(found) == expected(2_000)
        assert engine.receipt(queries["large"].latest(1)[0])["rows"]
