"""Do two thousand listeners get everything, live?

Claim     2,000 clients hold a stream of server-sent events each, and at least 1,000 results a second in total reach them: none is
          lost, none comes twice
Control   ids: every result a push has counted must have come, once, to the one client whose query it answers

A server process over a home, durable as by default: 2,000 queries, one for each client. Rows are pushed over HTTP, 110 in a
request, ten requests a second; every row satisfies one query. Clients and pusher are one other process on the same machine, so
both share its cores. A row carries when it was pushed; `to_client` is from there until its event was read.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa

import eddyline
from benchmarks.harness import Benchmark, main
from benchmarks.server._service import admin_token, served

ROWS, PUSHES_A_SECOND = 110, 10
QUIET_S = 15.0  # without an event after the last push: what has not come is lost


@dataclass
class Heard:
    """What all clients together have heard."""

    ids: Counter[str] = field(default_factory=Counter)
    delays_s: list[float] = field(default_factory=list)
    n_astray: int = 0  # events of another client's query
    last_at: float = 0.0
    n_open: int = 0


class Clients:
    """Clients of one server, and whoever pushes the rows."""

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None, url
        self._address = parts.hostname, parts.port
        self._head = f"Host: {parts.netloc}\r\nAuthorization: Bearer {token}\r\n"
        self.heard = Heard()
        self._tasks: list[asyncio.Task[None]] = []

    async def connect(self, n: int) -> None:
        """Let n clients listen, each to a query of its own."""
        for first in range(0, n, 100):
            streams = await asyncio.gather(
                *(self._stream(number) for number in range(first, min(n, first + 100)))
            )
            for number, (reader, writer) in enumerate(streams, first):
                self._tasks.append(asyncio.create_task(self._listen(number, reader, writer)))

    async def _stream(self, number: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(*self._address)
        request = f"GET /api/v1/results/stream?query=watch-{number} HTTP/1.1\r\n{self._head}\r\n"
        writer.write(request.encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        assert b" 200 " in answer.split(b"\r\n", 1)[0], answer
        await reader.readuntil(b"retry: 1000\n")
        return reader, writer

    async def _listen(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heard.n_open += 1
        event_id = ""
        try:
            while line := await reader.readline():
                if line.startswith(b"id: "):
                    event_id = line[4:].strip().decode()
                elif line.startswith(b"data: "):
                    self._note(number, event_id, json.loads(line[6:]))
        finally:
            self.heard.n_open -= 1
            writer.close()

    def _note(self, number: int, event_id: str, result: dict[str, object]) -> None:
        row = result["row"]
        assert isinstance(row, dict), result
        self.heard.ids[event_id] += 1
        self.heard.n_astray += row["k"] != number
        self.heard.last_at = time.time()
        self.heard.delays_s.append(self.heard.last_at - row["sent"])

    async def push(self, n_clients: int, seconds: float, rng: np.random.Generator) -> int:
        """Push at a steady pace; how many results the server has counted."""
        reader, writer = await asyncio.open_connection(*self._address)
        n_results, began = 0, time.monotonic()
        for number in range(int(seconds * PUSHES_A_SECOND)):
            await asyncio.sleep(max(0.0, began + number / PUSHES_A_SECOND - time.monotonic()))
            keys, sent = rng.integers(0, n_clients, ROWS).tolist(), time.time()
            body = json.dumps([{"k": k, "sent": sent} for k in keys]).encode()
            head = (
                f"POST /api/v1/streams/events/rows HTTP/1.1\r\n{self._head}Content-Type: application/json\r\n"
            )
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            length = next(h for h in answer.lower().split(b"\r\n") if h.startswith(b"content-length:"))
            text = await reader.readexactly(int(length.split(b":")[1]))
            assert b" 200 " in answer.split(b"\r\n", 1)[0], text
            n_results += json.loads(text)["n_results"]
        writer.close()
        return n_results

    async def all_heard(self, n: int) -> None:
        """Wait until so many events have come, or none any more."""
        last, still_since = -1, time.monotonic()
        while self.heard.ids.total() < n and time.monotonic() - still_since < QUIET_S:
            if self.heard.ids.total() != last:
                last, still_since = self.heard.ids.total(), time.monotonic()
            await asyncio.sleep(0.05)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def listened(
    url: str, token: str, n_clients: int, seconds: float, seed: int
) -> tuple[Heard, int, int, float]:
    """What was heard, how many results there were, how many clients were still there, and the seconds from first to last."""
    clients = Clients(url, token)
    try:
        await clients.connect(n_clients)
        began = time.time()
        n_results = await clients.push(n_clients, seconds, np.random.default_rng(seed))
        await clients.all_heard(n_results)
        return clients.heard, n_results, clients.heard.n_open, clients.heard.last_at - began
    finally:
        await clients.close()


def run(bench: Benchmark) -> None:
    n_clients = bench.size(full=2_000, quick=100)
    seconds = bench.size(full=30, quick=2)
    with tempfile.TemporaryDirectory(prefix="eddyline-subscribers-") as folder:
        home = Path(folder) / "home"
        with eddyline.open(home) as engine:
            engine.stream("events", "k BIGINT, sent DOUBLE")
            keys = pa.table({"k": np.arange(n_clients)})
            engine.query_many("SELECT k, sent FROM events WHERE k = :k", params=keys, name="watch-{k}")
            token = admin_token(engine)
        with served(home) as url:
            heard, n_results, n_there, took_s = asyncio.run(
                listened(url, token, n_clients, seconds, bench.seed)
            )
    n_lost, n_twice = n_results - len(heard.ids), heard.ids.total() - len(heard.ids)
    p50, p99 = np.percentile(heard.delays_s, [50, 99])
    bench.row(
        clients=n_clients,
        pushed_s=seconds,
        results=n_results,
        heard=heard.ids.total(),
        per_s=heard.ids.total() / took_s,
        to_client_p50_ms=1e3 * float(p50),
        to_client_p99_ms=1e3 * float(p99),
    )
    bench.claim("sse_subscribers", n_there, f">= {n_clients}")
    bench.claim("sse_deliveries_per_s", heard.ids.total() / took_s, ">= 1_000")
    bench.claim("sse_results_lost", n_lost, "= 0")
    bench.claim("sse_results_twice_or_astray", n_twice + heard.n_astray, "= 0")
    bench.claim("sse_push_to_client_p99_ms", 1e3 * float(p99), "reported")


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=7)
