"""What do a thousand windows of different sizes and slides cost, beside one?

Claim     thousand_windows_over_one     CPU time of the same rows with 1,000 queries over windows of one class, each giving
                                        a window when it closes (`emit = 'final'`), over that with one query: at most 5
Claim     slices_touched_per_row        partial results that a row goes into, with 1,000 windows: 1
Baseline  the window of ten minutes that slides by five
Control   `many results`: 100 windows that slide by one to six minutes over ten times as many keys, so that far more windows
          close. What they cost is what their results cost. Reported, over one window of the same rows.

Windows are 1 to 125 slides long, which are 5, 6, 10, 12, 15, 20, 30 or 60 minutes: each row is in 63,000 of them, and 90 close
with a minute, each with a result for each key. There are 100 keys, and 10,000 rows in a push, one push for ten seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

import eddyline
from benchmarks.harness import Benchmark, main

SLIDES = (5, 6, 10, 12, 15, 20, 30, 60)  # minutes
SHORT_SLIDES = (1, 2, 3, 4, 5, 6)
REPETITIONS = 5
SECOND = 1_000_000
BEGIN_US = 1_767_225_600 * SECOND  # 2026-01-01
Spec = tuple[int, int]  # size and slide in minutes


def specs(n: int, slides: Sequence[int]) -> list[Spec]:
    """The first of all windows of one slide, two slides, three …"""
    return [(slide * (1 + k // len(slides)), slide) for k in range(n) for slide in [slides[k % len(slides)]]]


def text(spec: Spec) -> str:
    size, slide = spec
    return (
        "SELECT k, window.start AS start, count(*) AS n, sum(x) AS total FROM readings "
        f"GROUP BY k, window(ts, '{size} minutes', '{slide} minutes')"
    )


class Contender:
    """An engine with its queries, and the time that has come."""

    def __init__(self, windows: list[Spec], columns: list[dict[str, np.ndarray]], seconds: int) -> None:
        self.engine = eddyline.open(results_per_query=1)
        self.engine.sql(
            "CREATE TABLE readings (k BIGINT, x BIGINT, ts TIMESTAMP) TBLPROPERTIES (time='ts', lateness='1 minute')"
        )
        self.engine.query_many([text(spec) for spec in windows], emit="final")
        self._columns, self._seconds = columns, seconds
        self._n_pushes = 0

    def turn(self, tables: Iterator[list[pa.Table]]) -> Callable[[], int]:
        """Results of the pushes of the next tables, which are made before."""

        def run() -> int:
            return sum(self.engine.push("readings", table).count for table in next(tables))

        return run

    def tables(self, n_turns: int, n_pushes: int) -> list[list[pa.Table]]:
        """What comes next, so many pushes in each turn."""
        return [[self._table() for _ in range(n_pushes)] for _ in range(n_turns)]

    def _table(self) -> pa.Table:
        columns = self._columns[self._n_pushes % len(self._columns)]
        n_rows = len(columns["k"])
        begin_us = BEGIN_US + self._n_pushes * self._seconds * SECOND
        times = begin_us + np.arange(n_rows) * self._seconds * SECOND // n_rows
        self._n_pushes += 1
        return pa.table(columns).append_column("ts", pa.array(times, pa.timestamp("us", "UTC")))

    def work(self) -> dict[str, int]:
        """What the engine counted so far, of which it tells users nothing."""
        (counted,) = self.engine.rounds.flow.snapshot()["aggregates"].values()
        return counted


def run(bench: Benchmark) -> None:
    rng = np.random.default_rng(bench.seed)
    n_windows = bench.size(full=1_000, quick=60)
    n_rows = bench.size(full=10_000, quick=1_000)
    n_pushes = bench.size(full=36, quick=12)
    seconds = bench.size(full=10, quick=60)

    def rows(n_keys: int) -> list[dict[str, np.ndarray]]:
        return [{"k": rng.integers(0, n_keys, n_rows), "x": rng.integers(0, 100, n_rows)} for _ in range(12)]

    few, many = rows(100), rows(1_000)
    contenders = {
        "one": Contender(specs(2, SLIDES[:1])[1:], few, seconds),
        "thousand": Contender(specs(n_windows, SLIDES), few, seconds),
        "one, many results": Contender([(5, 1)], many, seconds),
        "many results": Contender(specs(n_windows // 10, SHORT_SLIDES), many, seconds),
    }
    n_before = bench.size(full=4, quick=1)  # turns until most windows have slices to close
    turns = {
        name: contender.turn(iter(contender.tables(n_before + REPETITIONS, n_pushes)))
        for name, contender in contenders.items()
    }
    for _ in range(n_before):
        for turn in turns.values():
            turn()
    taken = bench.interleaved(turns, repetitions=REPETITIONS)
    for name, found in taken.items():
        work = contenders[name].work()
        bench.row(
            windows=name,
            queries=contenders[name].engine.n_queries,
            results=found.result,
            us_per_row=1e6 * found.median_s / (n_pushes * n_rows),
            spread=found.spread,
            slices=work["slices"],
            updates_per_row=work["updates"] / work["rows"],
            combines_per_row=work["combines"] / work["rows"],
        )
    bench.claim("thousand_windows_over_one", taken["thousand"].median_s / taken["one"].median_s, "<= 5")
    work = contenders["thousand"].work()
    bench.claim("slices_touched_per_row", work["updates"] / work["rows"], "= 1")
    results = taken["many results"]
    bench.claim("many_results_over_one", results.median_s / taken["one, many results"].median_s, "reported")
    assert results.result
    bench.claim("window_results_per_s", results.result / results.median_s, "reported")
    for contender in contenders.values():
        contender.engine.close()


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=7)
