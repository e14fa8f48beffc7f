"""How many rows a second do sums over the last minutes of a million keys take, and do a hundred frames cost a hundred times one?

Claim     over_count_sum_1m_keys_rows_per_s   rows per CPU second of count and sum over the last ten minutes, by one of a million
                                              keys, 10,000 rows a push: at least 1,000,000
Claim     over_vs_duckdb_per_batch            CPU time of DuckDB over ours for 100 velocity rules of different frames, in pushes
                                              of 10,000 rows: at least 10
Baseline  DuckDB in the best of three forms. It has the rows in a table and, for each batch, asks one query for all rules, of the
          rows of the batch beside those of their partitions. No row is old enough to be deleted
            windows  a window function for each frame, as the rules are written
            lag      where all rules have one threshold: more than 20 rows are in a frame if the 20th row before is, so one
                     window function answers all frames
            join     rows of the batch with those of their keys, counted for each frame
Control   `one rule`: the same with one rule, where DuckDB has one window to compute. Reported.

Both give the same counts, row by row: rules are read as the number of rows that satisfy each. DuckDB has one thread. A rule of
ours is a query `SELECT k, x FROM payments QUALIFY count(*) OVER (…) > limit`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import duckdb
import numpy as np
import pyarrow as pa

import eddyline
from benchmarks.harness import Benchmark, main

SECOND = 1_000_000
BEGIN_US = 1_767_225_600 * SECOND  # 2026-01-01
TABLE = "(k BIGINT, x BIGINT, ts TIMESTAMP) TBLPROPERTIES (time='ts', lateness='1 second')"


WHY_SLOWER = (
    "Of a profiled push a third is in kernels: rows are appended to rings at random places, keys are found, and four columns of "
    "prefix sums are gone over one by one. The rest is around them: rows of the class go from the batch into the order of "
    "rings, and values back into the order of arrival, array by array."
)


class Stream:
    """Batches of rows in order of time, one a second, of random keys."""

    def __init__(self, n_keys: int, n_rows: int, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._n_keys, self._n_rows, self._second = n_keys, n_rows, 0

    def every_key(self) -> pa.Table:
        return self._batch(np.arange(self._n_keys))

    def next(self) -> pa.Table:
        return self._batch(self._rng.integers(0, self._n_keys, self._n_rows))

    def _batch(self, keys: np.ndarray) -> pa.Table:
        times = BEGIN_US + self._second * SECOND + np.arange(len(keys)) * SECOND // len(keys)
        self._second += 1
        ts = pa.array(times, pa.timestamp("us", "UTC"))
        return pa.table({"k": keys, "x": self._rng.integers(0, 100, len(keys)), "ts": ts})


def frame(seconds: int) -> str:
    return f"PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL {seconds} SECONDS PRECEDING AND CURRENT ROW"


class Rules:
    """Ours: an engine with a query for each frame."""

    def __init__(self, frames: list[int], limit: int) -> None:
        self.engine = eddyline.open(results_per_query=1)
        self.engine.sql(f"CREATE TABLE payments {TABLE}")
        self.engine.query_many(
            [f"SELECT k, x FROM payments QUALIFY count(*) OVER ({frame(n)}) > {limit}" for n in frames]
        )

    def fill(self, batch: pa.Table) -> None:
        self.push(batch)

    def push(self, batch: pa.Table) -> int:
        return self.engine.push("payments", batch).count


def asked_windows(frames: list[int], limit: int) -> str:
    rules = ", ".join(f"count(*) OVER ({frame(n)}) > {limit} AS r{n}" for n in frames)
    return (
        "WITH mine AS (SELECT * FROM payments WHERE k IN (SELECT k FROM batch)), "
        f"ruled AS (SELECT ts, {rules} FROM mine) SELECT {total(f'r{n}' for n in frames)} FROM ruled WHERE ts >= ?"
    )


def asked_lag(frames: list[int], limit: int) -> str:
    holds = (f"earlier >= ts - INTERVAL {n} SECONDS" for n in frames)
    return (
        "WITH mine AS (SELECT k, ts FROM payments WHERE k IN (SELECT k FROM batch)), "
        f"ruled AS (SELECT ts, lag(ts, {limit}) OVER (PARTITION BY k ORDER BY ts) AS earlier FROM mine) "
        f"SELECT {total(holds)} FROM ruled WHERE ts >= ?"
    )


def asked_join(frames: list[int], limit: int) -> str:
    counts = ", ".join(
        f"count(*) FILTER (p.ts >= b.ts - INTERVAL {n} SECONDS) > {limit} AS r{n}" for n in frames
    )
    return (
        f"WITH ruled AS (SELECT {counts} FROM batch b JOIN payments p ON p.k = b.k AND p.ts <= b.ts "
        f"AND p.ts >= b.ts - INTERVAL {max(frames)} SECONDS WHERE b.ts >= ? GROUP BY b.k, b.ts) "
        f"SELECT {total(f'r{n}' for n in frames)} FROM ruled"
    )


def total(conditions: Iterable[str]) -> str:
    """How many rows satisfy each of these, added up."""
    return " + ".join(f"count(*) FILTER ({each})" for each in conditions)


FORMS = {"windows": asked_windows, "lag": asked_lag, "join": asked_join}


class Recomputed:
    """DuckDB, which computes the frames of a batch from the rows it has."""

    def __init__(self, form: str, frames: list[int], limit: int) -> None:
        self._judge = duckdb.connect(config={"threads": 1})
        self._judge.execute("SET TimeZone = 'UTC'")
        self._judge.execute("CREATE TABLE payments (k BIGINT, x BIGINT, ts TIMESTAMPTZ)")
        self._ask = FORMS[form](frames, limit)

    def fill(self, batch: pa.Table) -> None:
        """Take rows without asking for them."""
        self._judge.register("batch", batch)
        self._judge.execute("INSERT INTO payments SELECT * FROM batch")

    def push(self, batch: pa.Table) -> int:
        self.fill(batch)
        first = batch["ts"][0].as_py()
        ((found,),) = self._judge.execute(self._ask, [first]).fetchall()
        return int(found)


def turn(contender: Rules | Recomputed, stream: Stream, n_pushes: int) -> Callable[[], list[int]]:
    return lambda: [contender.push(stream.next()) for _ in range(n_pushes)]


def rows_per_s(bench: Benchmark) -> None:
    n_keys, n_rows = bench.size(full=1_000_000, quick=20_000), bench.size(full=10_000, quick=1_000)
    n_pushes = bench.size(full=40, quick=5)
    engine = eddyline.open(results_per_query=1)
    engine.sql(f"CREATE TABLE payments {TABLE}")
    engine.query(
        f"SELECT k, count(*) OVER ({frame(600)}) AS n, sum(x) OVER ({frame(600)}) AS total "
        "FROM payments QUALIFY n > 1000000"
    )
    stream = Stream(n_keys, n_rows, bench.seed)
    engine.push("payments", stream.every_key())
    batches = iter([stream.next() for _ in range(12 * n_pushes)])
    push = lambda: sum(engine.push("payments", next(batches)).count for _ in range(n_pushes))  # noqa: E731
    push()
    found = bench.interleaved({"ours": push}, repetitions=7)["ours"]
    engine.close()
    per_s = n_pushes * n_rows / found.median_s
    bench.row(what="count and sum", rules=1, keys=n_keys, rows_per_s=per_s, spread=found.spread)
    why = f"A row takes {1e6 / per_s:.2g} us with {n_keys:,} keys. {WHY_SLOWER}"
    bench.claim("over_count_sum_1m_keys_rows_per_s", per_s, ">= 1_000_000", why)


def beside_duckdb(bench: Benchmark, n_rules: int) -> tuple[float, str]:
    """CPU time of the best form of DuckDB over ours, and what each took."""
    n_keys, n_rows = bench.size(full=20_000, quick=2_000), bench.size(full=10_000, quick=1_000)
    frames = [60 + 5 * k for k in range(n_rules)]  # a minute, and up to ten
    contenders = {
        "ours": Rules(frames, 20),
        **{f"DuckDB, {form}": Recomputed(form, frames, 20) for form in FORMS},
    }
    streams = {name: Stream(n_keys, n_rows, bench.seed) for name in contenders}
    n_pushes = bench.size(full=2, quick=2)
    for name, contender in contenders.items():
        for _ in range(
            bench.size(full=60, quick=4)
        ):  # a minute of rows, which the shortest frame is filled with
            contender.fill(streams[name].next())
    turns = {name: turn(each, streams[name], n_pushes) for name, each in contenders.items()}
    found = bench.interleaved(turns, repetitions=3, same=list)
    for name, each in found.items():
        per_s = n_pushes * n_rows / each.median_s
        bench.row(what=name, rules=n_rules, keys=n_keys, rows_per_s=per_s, spread=each.spread)
    best = min((name for name in found if name != "ours"), key=lambda name: found[name].median_s)
    taken = ", ".join(
        f"{name} {1e6 * each.median_s / (n_pushes * n_rows):.3g} us" for name, each in found.items()
    )
    return found[best].median_s / found["ours"].median_s, f"The best form is {best}. A row takes: {taken}."


def run(bench: Benchmark) -> None:
    rows_per_s(bench)
    ratio, taken = beside_duckdb(bench, bench.size(full=100, quick=10))
    bench.claim("over_vs_duckdb_per_batch", ratio, ">= 10", taken)
    bench.claim("over_vs_duckdb_per_batch_one_rule", beside_duckdb(bench, 1)[0], "reported")


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=7)
