"""How long does it take to register one more query over HTTP, among a hundred thousand?

Claim     register_http_at_100k_p99_ms: reported; the home is durable, so each waits for the disk
Baseline  the same server asked for its health between any two: what HTTP itself takes
Control   the same with 100 queries standing

A server process; one client, one connection, one request after the other. Every text is new, of one of twenty shapes.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa

import eddyline
from benchmarks.harness import Benchmark, main
from benchmarks.server._service import admin_token, served

N_SHAPES = 20
WARM_UP = 40


def text_of(number: int) -> str:
    columns = ", ".join(f"price AS p{k}" for k in range(number % N_SHAPES + 1))
    return f"SELECT sym, {columns} FROM trades WHERE sym = 'S{number}' AND price < {number % 97}"


def registered(n_standing: int, n_more: int, folder: Path) -> dict[str, list[float]]:
    """Seconds of each request."""
    with eddyline.open(folder / "home") as engine:
        engine.stream("trades", "sym STRING, price DOUBLE")
        table = pa.table({"sym": [f"T{k}" for k in range(n_standing)], "low": np.arange(n_standing) % 89.0})
        engine.query_many("SELECT * FROM trades WHERE sym = :sym AND price < :low", params=table)
        token = admin_token(engine)
    took: dict[str, list[float]] = {"register": [], "health": []}
    head = {"Authorization": f"Bearer {token}"}
    with served(folder / "home") as url, httpx.Client(base_url=url, headers=head, timeout=60) as client:

        def timed(what: str, ask: Callable[[], httpx.Response], expected: int) -> None:
            began = time.perf_counter()
            answer = ask()
            took[what].append(time.perf_counter() - began)
            assert answer.status_code == expected, answer.text

        for number in range(n_more + WARM_UP):
            body = {"text": text_of(number), "name": f"more-{number}"}
            timed("register", lambda body=body: client.post("/api/v1/queries", json=body), 201)
            timed("health", lambda: client.get("/health"), 200)
        assert client.get("/api/v1/status").json()["n_queries"] == n_standing + n_more + WARM_UP
    return {what: seconds[WARM_UP:] for what, seconds in took.items()}


def run(bench: Benchmark) -> None:
    n_more = bench.size(full=1_000, quick=20)
    many = bench.size(full=100_000, quick=1_000)
    p99_ms = {}
    for n in (100, many):
        with tempfile.TemporaryDirectory(prefix="eddyline-register-") as folder:
            took = registered(n, n_more, Path(folder))
        for what, seconds in took.items():
            p50, p99 = 1e3 * np.percentile(seconds, [50, 99])
            bench.row(standing=n, request=what, requests=len(seconds), p50_ms=float(p50), p99_ms=float(p99))
            p99_ms[n, what] = float(p99)
    bench.claim("register_http_at_100k_p99_ms", p99_ms[many, "register"], "reported")
    bench.claim("register_http_at_100_p99_ms", p99_ms[100, "register"], "reported")


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=7)
