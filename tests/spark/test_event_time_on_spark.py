"""Event time where workers read: partitions of a topic, and streams that fall silent while an engine runs."""

from __future__ import annotations

import json

import pytest

import eddyline
from eddyline.events import RoundMeasured
from tests.kafka_broker import Broker, wait_for

FIRST_MS = 1_790_000_000_000


def in_order(n_messages: int, step_ms: int, offset_ms: int) -> list[str]:
    return [json.dumps({"n": k, "ts": FIRST_MS + offset_ms + k * step_ms}) for k in range(n_messages)]


@pytest.mark.thorough
@pytest.mark.parametrize("bytes_per_job", [4_000, 1_000_000])
def test_catching_up_with_partitions_in_order_counts_no_late_row(
    tmp_path, spark, broker: Broker, bytes_per_job
):
    topic = broker.topic(4)
    for partition in range(4):
        broker.write(
            topic, in_order(300 // (partition + 1), 10 * (partition + 1) ** 2, partition), partition=partition
        )
    measured: list[RoundMeasured] = []
    with eddyline.open(tmp_path / "home") as engine:
        stream = engine.stream("s", "n BIGINT, ts BIGINT", time="ts", time_unit="ms")
        source = {"type": "kafka", "servers": broker.servers, "topic": topic, "format": "json"}
        running = engine.start(
            spark,
            sources={"s": source},
            once=True,
            job_from_bytes=1,
            bytes_per_job=bytes_per_job,
            on_event=lambda event: measured.append(event) if isinstance(event, RoundMeasured) else None,
        )
        running.wait(120)
        running.stop()
        assert measured, "workers read nothing"
        assert (stream.n_rows, stream.n_late) == (300 + 150 + 100 + 75, 0)
        ends = [FIRST_MS + p + (300 // (p + 1) - 1) * 10 * (p + 1) ** 2 for p in range(4)]
        assert stream.watermark_us == min(ends) * 1_000
        assert [each.name for each in stream.partitions] == ["0", "1", "2", "3"]


@pytest.mark.thorough
def test_absences_are_told_while_an_engine_runs_and_nothing_comes(tmp_path, spark):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text(f'{{"device": "boiler", "ts": {FIRST_MS}}}\n')
    now_us = [0]
    with eddyline.open(tmp_path / "home", clock=lambda: now_us[0]) as engine:
        engine.stream("readings", "device STRING, ts BIGINT", time="ts", time_unit="ms", idle="1 minute")
        gone = engine.query(
            "SELECT a.device FROM readings a LEFT ANTI JOIN readings b"
            " ON a.device = b.device AND b.ts > a.ts AND b.ts <= a.ts + 600000"
        )
        source = {"type": "files", "path": str(tmp_path / "in"), "format": "json", "poll": "50 ms"}
        with engine.start(spark, sources={"readings": source}, job_from_bytes=1, tick="50 ms"):
            wait_for(lambda: engine.streams()[0].n_rows == 1)
            now_us[0] = 600_000_000
            wait_for(lambda: engine.streams()[0].watermark_us == FIRST_MS * 1_000 + 600_000_000)
            assert gone.results() == []
            now_us[0] = 601_000_000
            assert [dict(each) for each in gone.results(timeout=60)] == [{"device": "boiler"}]
