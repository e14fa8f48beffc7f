"""What does adapting cost where there is nothing, or little, to gain?

Claim     auto_vs_text_order_cheap      regular expressions of about 100 ns: a push takes at most 1.03 times as long by the wall
                                        with `auto` as with the order of the text; the worst of one and of twenty queries, of
                                        2,000 and of 20,000 rows a push
Claim     overhead_on_neutral_push      Python functions of about 2 us that are alike and independent: the same by processor time
Baseline  the same engine with `routing="fixed"`, and DuckDB with the conditions of one query in one WHERE, which is reported
Control   functions of 2 us of which the last one drops nearly all rows: there `auto` has to win

All through `engine.push`, engines in memory, medians of interleaved turns, equal numbers of results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle

import duckdb
import numpy as np
import pyarrow as pa

import eddyline
from benchmarks.harness import Benchmark, Timed, cpu, main, wall
from eddyline.functions.declarations import DECLARED

LETTERS = "abcdef"
BATCHES = 6
WORK = 40  # steps of a loop: about 2 us with the call
LEAST_S = 0.25  # of a turn
CONTENDERS = ("auto", "fixed")
BOUND = "<= 1.03"


def texts(rng: np.random.Generator, n_rows: int) -> pa.Table:
    """Rows of which each letter is in a half."""
    small = rng.random((n_rows, len(LETTERS))) < 0.5
    written = ["".join(c if s else c.upper() for c, s in zip(LETTERS, row, strict=True)) for row in small]
    return pa.table({"id": np.arange(n_rows), "t": [f"{each} and some more text" for each in written]})


def patterns(number: int) -> list[str]:
    """The conditions of a query, each query's in an order of its own."""
    order = np.random.default_rng(number).permutation(len(LETTERS))
    return [f"t RLIKE '{LETTERS[k]}'" for k in order[: len(LETTERS) - number % 3]]


@contextmanager
def declared_functions() -> Iterator[None]:
    before = dict(DECLARED)
    for k in range(len(LETTERS)):
        _declare(k)
    try:
        yield
    finally:
        DECLARED.clear()
        DECLARED.update(before)


def _declare(k: int) -> None:
    @eddyline.udf(returns="boolean", name=f"gain{k}", version="1")
    def gain(value: float) -> bool:
        for _ in range(WORK):
            pass
        return value < 1.0


def numbers(rng: np.random.Generator, n_rows: int, passing: Sequence[float]) -> pa.Table:
    columns = {f"c{k}": rng.random(n_rows) / rate for k, rate in enumerate(passing)}
    return pa.table({"id": np.arange(n_rows), **columns})


def turn(engine: eddyline.Engine, batches: Sequence[pa.Table]) -> Callable[[], int]:
    following = cycle(batches)
    return lambda: sum(engine.push("s", next(following)).count for _ in batches)


def measured(
    bench: Benchmark,
    schema: str,
    queries: Sequence[str],
    batches: Sequence[pa.Table],
    clock: Callable[[], float],
) -> dict[str, Timed[int]]:
    """Both orders on the same rows, and DuckDB for a single query of regular expressions."""
    engines = {policy: eddyline.open(routing=policy, results_per_query=1) for policy in CONTENDERS}
    for engine in engines.values():
        engine.stream("s", schema)
        for condition in queries:
            engine.query(f"SELECT id FROM s WHERE {condition}")
        for _ in range(5):
            turn(engine, batches)()  # until the order is known
    contenders = {policy: turn(engine, batches) for policy, engine in engines.items()}
    if len(queries) == 1 and "RLIKE" in queries[0]:
        contenders["DuckDB"] = _by_duckdb(queries[0], batches)
    found = bench.interleaved(
        contenders, repetitions=bench.size(full=15, quick=3), clock=clock, same=int, at_least_s=LEAST_S
    )
    for engine in engines.values():
        engine.close()
    return found


def _by_duckdb(condition: str, batches: Sequence[pa.Table]) -> Callable[[], int]:
    judge = duckdb.connect(config={"threads": 1})
    parts = (part.removeprefix("t RLIKE ") for part in condition.split(" AND "))
    where = " AND ".join(f"regexp_matches(t, {part})" for part in parts)

    def run() -> int:
        n = 0
        for batch in batches:
            judge.register("s", batch)
            n += len(judge.sql(f"SELECT id FROM s WHERE {where}").to_arrow_table())
        return n

    return run


def report(bench: Benchmark, what: str, n_rows: int, n_queries: int, found: dict[str, Timed[int]]) -> float:
    ratio = found["auto"].median_s / found["fixed"].median_s
    for name, each in found.items():
        us = 1e6 * each.median_s / (BATCHES * n_rows)
        bench.row(filters=what, rows=n_rows, queries=n_queries, by=name, us_per_row=us, spread=each.spread)
    return ratio


def run(bench: Benchmark) -> None:
    rng = np.random.default_rng(bench.seed)
    ratios = []
    for n_rows in (2_000, 20_000):
        for n_queries in (1, 20):
            batches = [texts(rng, n_rows) for _ in range(BATCHES)]
            queries = [" AND ".join(patterns(number)) for number in range(n_queries)]
            found = measured(bench, "id BIGINT, t STRING", queries, batches, wall)
            ratios.append(report(bench, "cheap", n_rows, n_queries, found))
    bench.claim("auto_vs_text_order_cheap", max(ratios), BOUND)
    n = len(LETTERS)
    schema = ", ".join(["id BIGINT", *(f"c{k} DOUBLE" for k in range(n))])
    condition = " AND ".join(f"gain{k}(c{k})" for k in range(n))
    with declared_functions():
        for what, passing in (("neutral", [0.5] * n), ("control", [0.95] * (n - 1) + [0.05])):
            batches = [numbers(rng, 2_000, passing) for _ in range(BATCHES)]
            ratio = report(bench, what, 2_000, 1, measured(bench, schema, [condition], batches, cpu))
            if what == "neutral":
                bench.claim("overhead_on_neutral_push", ratio, BOUND)
            else:
                bench.claim("auto_vs_text_order_where_it_matters", ratio, "reported")


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=7)
