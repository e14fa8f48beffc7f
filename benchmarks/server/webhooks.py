"""How long from a row to the webhook that tells somebody?

Claim     event_to_webhook_p99_ms with 10,000 rules, in process and on Spark: reported (aims: 20 and 1,000); cool-down and
          durability are on
Control   every row fires one alert, but one in ten, which falls into the cool-down of a key that has just fired: those must be
          suppressed, the others told once each

In process: rows are pushed one at a time, some milliseconds apart. On Spark: each row is a file that appears in a folder, every
round is a job, and the folder is looked at every 20 ms. The receiver is a process of its own; it notes when a request was read. A
row carries when it was handed over: before `push`, or before its file got its name.
"""

from __future__ import annotations

import json
import multiprocessing
import multiprocessing.connection
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from benchmarks.harness import Benchmark, main
from eddyline.api import PipelineRunner
from eddyline.pipeline import load_pipeline

REPEATED = 10  # one row in so many has the key of the row before
SETTLE_S = 60.0

PIPELINE = """
[engine]
home = "home"
tick = "100 ms"

[limits]
job_from_bytes = 1

[streams.events]
schema = "k BIGINT, price DOUBLE, sent DOUBLE"
{source}

[[sinks]]
name = "ops"
type = "webhook"
url = "http://127.0.0.1:{port}/hook"
allow_private = true
"""
SOURCE = 'source = {{ type = "files", path = "in", format = "parquet", poll = "20 ms" }}'


# --------------------------------------------------------------------------------------------- the receiver


def receive(pipe: multiprocessing.connection.Connection) -> None:
    """Take alerts until told to say what came: (when it was sent, when it was read) of each."""
    told: list[tuple[float, float]] = []

    class Hook(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            now = time.time()
            told.extend((m["row"]["sent"], now) for m in body["messages"] if m["status"] == "firing")
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Hook) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        pipe.send(server.server_address[1])
        while (asked := pipe.recv()) != "end":
            pipe.send(len(told) if asked == "how many" else told)
        server.shutdown()


@contextmanager
def receiver() -> Iterator[tuple[int, Callable[[str], Any]]]:
    """The port of a receiver, and how to ask it."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=receive, args=(theirs,), daemon=True)
    process.start()

    def ask(what: str) -> Any:
        ours.send(what)
        return ours.recv()

    try:
        yield ours.recv(), ask
    finally:
        ours.send("end")
        process.join()


# --------------------------------------------------------------------------------------------- rows


def measured(
    runner: PipelineRunner, hand_over: Callable[[int], None], n_rows: int, pause_s: float, ask: Any
) -> Any:
    """Hand rows over one by one, and wait until all that should be told was."""
    thread = threading.Thread(
        target=lambda: runner.run(signals=False, ends_with_sources=False), name="rounds", daemon=True
    )
    thread.start()
    try:
        keys = [number - (number % REPEATED == REPEATED - 1) for number in range(n_rows)]
        for key in keys:
            hand_over(key)
            time.sleep(pause_s)
        n_expected, deadline = len(set(keys)), time.monotonic() + SETTLE_S
        while ask("how many") < n_expected and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.5)  # one more would come now
        assert ask("how many") == n_expected, (ask("how many"), n_expected)
    finally:
        runner.stop()
        thread.join()
    return ask("what")


def rules(runner: PipelineRunner, n: int) -> None:
    runner.engine.query_many(
        "SELECT k, price, sent FROM events WHERE k = :k AND price < :low",
        params=pa.table({"k": np.arange(n), "low": np.full(n, 10.0)}),
        name="watch-{k}",
        per="k",
        cooldown="1 hour",
        deliver="ops",
        severity="warning",
        message="{k} is at {price:.2f}",
    )


def in_process(folder: Path, n_rules: int, n_rows: int) -> list[tuple[float, float]]:
    with receiver() as (port, ask):
        path = _pipeline(folder, PIPELINE.format(source="", port=port))
        with PipelineRunner(load_pipeline(path)) as runner:
            rules(runner, n_rules)

            def push(key: int) -> None:
                runner.engine.push("events", [{"k": key, "price": 9.5, "sent": time.time()}])

            return measured(runner, push, n_rows, 0.01, ask)


def on_spark(folder: Path, n_rules: int, n_rows: int) -> list[tuple[float, float]]:
    from benchmarks.spark._session import session
    from eddyline.spark.workers import SparkWorkers

    inbox = folder / "in"
    inbox.mkdir(parents=True)
    with session() as spark, receiver() as (port, ask):
        path = _pipeline(folder, PIPELINE.format(source=SOURCE.format(), port=port))
        workers = SparkWorkers(spark)
        with PipelineRunner(load_pipeline(path), workers=workers) as runner:
            rules(runner, n_rules)
            n_files = iter(range(1 << 30))

            def drop(key: int) -> None:
                name = f"{next(n_files):08d}.parquet"
                rows = pa.table({"k": [key], "price": [9.5], "sent": [time.time()]})
                pyarrow.parquet.write_table(rows, folder / name)
                (folder / name).rename(inbox / name)

            return measured(runner, drop, n_rows, 0.3, ask)


def _pipeline(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "eddyline.toml"
    path.write_text(text, encoding="utf-8")
    return path


def run(bench: Benchmark) -> None:
    n_rules = bench.size(full=10_000, quick=200)
    cases = {"in process": (in_process, bench.size(full=1_000, quick=30))}
    if not bench.is_quick:
        cases["on Spark"] = on_spark, 150
    for where, (case, n_rows) in cases.items():
        with tempfile.TemporaryDirectory(prefix="eddyline-webhooks-") as folder:
            told = case(Path(folder), n_rules, n_rows)
        delays = [1e3 * (read - sent) for sent, read in told[len(told) // 10 :]]  # the first are warming up
        p50, p99 = np.percentile(delays, [50, 99])
        bench.row(
            where=where, rules=n_rules, rows=n_rows, told=len(told), p50_ms=float(p50), p99_ms=float(p99)
        )
        bench.claim(f"event_to_webhook_p99_ms_{where.replace(' ', '_').lower()}", float(p99), "reported")


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=7)
