"""What does a batch of rows cost that meets a window of a million?

Claim     a batch of 100 rows at least 50 times faster than the faster of DuckDB and Polars, one of 1,000 rows 5 times, one of
          10,000 rows 1.5 times; keys uniform over as many values as the window has rows
Baseline  the same batch joined with the same window: a DuckDB table, a Polars DataFrame. They keep it as it is, so what it
          takes them to bring rows in and out is not counted
Control   one million keys looked up in one go: nothing stands ready that a peer could not build in the meantime
Reported  ratios of wall-clock seconds, where both peers have all cores; ten matches a row; what the window's upkeep takes, its
          longest pause and its bytes; a segment sorted by key beside one hashed

Our time of a batch: it is built into its own stream's window, as many rows leave that, it probes the window of the other stream,
and a column of both sides is gathered for all pairs. Both windows have slid for half their length before, by batches of 1,000
rows. A turn of ours is as many batches as bring a whole window, so sealing and merging is in it; a turn of a peer is a few
batches. Claims are about CPU seconds, of all threads, the median of turns.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from benchmarks.harness import Benchmark, cpu, main, wall, warmed_up
from eddyline.joins.key_index import KeyIndex, PresentRows
from eddyline.joins.keys import Codes, stored_numbers
from eddyline.joins.stem import Stem
from eddyline.joins.stem_rows import StoredRows
from eddyline.kernels.warm import warm_up
from eddyline.model import Column
from eddyline.types import BIGINT

KEY = (Column(type=BIGINT, name="k"),)
SCHEMA = pa.schema([("k", BIGINT), ("v", BIGINT)])
BOUNDS = {100: ">= 50", 1_000: ">= 5", 10_000: ">= 1.5"}
SLIDE_ROWS = 1_000  # of the batches that bring a window into the state it is measured in
PEER_BATCHES = 20  # of a turn
US = 1e6


def rows_of(keys: npt.NDArray[np.int64]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(keys), pa.array(np.arange(len(keys)))], schema=SCHEMA)


def batches_of(rows: pa.RecordBatch, size: int) -> list[pa.RecordBatch]:
    keys, values = rows.columns
    starts = range(0, len(rows), size)
    return [
        pa.RecordBatch.from_arrays([keys.slice(at, size), values.slice(at, size)], schema=SCHEMA)
        for at in starts
    ]


def stored(rows: pa.RecordBatch, first: int) -> StoredRows:
    numbers = np.arange(first, first + len(rows))
    return StoredRows(rows, numbers, numbers, numbers, numbers, numbers, np.ones((len(rows), 1), np.uint64))


def taken(values: pa.Array, rows: npt.NDArray[np.int64]) -> pa.Array:
    """These rows of a BIGINT column without NULL, in this order; Arrow takes 20 us where this takes two."""
    found = stored_numbers(values, np.dtype(np.int64))[rows]
    return pa.Array.from_buffers(BIGINT, len(rows), [None, pa.py_buffer(found)])


def slid(rows: pa.RecordBatch, n_window: int) -> Stem:
    """A stem that these rows went through; the last ones are in it."""
    stem = Stem(SCHEMA, lambda expression, batch: batch.column("k"))
    stem.set_keys([KEY])
    first = 0
    for batch in batches_of(rows, SLIDE_ROWS):
        stem.build(stored(batch, first))
        stem.commit()
        stem.drop_oldest(max(0, stem.n_rows - n_window))
        first += len(batch)
    return stem


class Ours:
    """Two streams' windows. The batch's own takes it in, the other one is probed."""

    def __init__(
        self, window: pa.RecordBatch, own: pa.RecordBatch, batches: list[pa.RecordBatch], n: int
    ) -> None:
        self._other, self._own = slid(window, n), slid(own, n)
        firsts = itertools.count(len(own), len(batches[0]))
        self._batches = [
            (stored(batch, first), *batch.columns) for batch, first in zip(batches, firsts, strict=False)
        ]

    def turn(self) -> list[int]:
        """How many pairs each batch gave."""
        found = []
        for batch, keys, values in self._batches:
            self._own.build(batch)
            matches = self._other.probe(KEY, [keys])
            (theirs,) = self._other.rows.take(matches.rows, ["v"])
            ours = taken(values, matches.probes)
            self._own.commit()
            self._own.drop_oldest(len(batch))
            assert len(theirs) == len(ours)
            found.append(len(ours))
        return found


class Turns:
    """A contender that also notes what its turns take by the clock on the wall."""

    def __init__(self, turn: Callable[[], list[int]], n_batches: int) -> None:
        self._turn = turn
        self.n_batches = n_batches
        self.wall_s: list[float] = []

    def __call__(self) -> list[int]:
        began = wall()
        found = self._turn()
        self.wall_s.append(wall() - began)
        return found


def by_duckdb(window: pa.RecordBatch, batches: Sequence[pa.RecordBatch]) -> Callable[[], list[int]]:
    connection = duckdb.connect()
    connection.register("given", window)
    connection.execute("CREATE TABLE held AS SELECT * FROM given")

    def joined(batch: pa.RecordBatch) -> int:
        connection.register("batch", pa.Table.from_batches([batch]))
        found = connection.sql("SELECT batch.v AS ours, held.v AS theirs FROM batch JOIN held USING (k)")
        return int(found.to_arrow_table().num_rows)

    return lambda: [joined(batch) for batch in batches]


def by_polars(window: pa.RecordBatch, batches: Sequence[pa.RecordBatch]) -> Callable[[], list[int]]:
    held = pl.DataFrame(pa.Table.from_batches([window])).rename({"v": "theirs"})

    def joined(batch: pa.RecordBatch) -> int:
        found = pl.DataFrame(pa.Table.from_batches([batch])).join(held, on="k")
        return found.select("v", "theirs").height

    return lambda: [joined(batch) for batch in batches]


def run(bench: Benchmark) -> None:
    warm_up()
    n_window = bench.size(full=1_000_000, quick=50_000)
    repetitions = bench.size(full=7, quick=3)
    for n_alike in (1, 10):
        for size in (100, 1_000, 10_000):
            cpu_ratio, wall_ratio = compared(bench, n_window, n_alike, size, repetitions)
            name = "probe_b100_vs_best_peer" if size == 100 else f"probe_b{size}"
            if n_alike == 1:
                bench.claim(name, cpu_ratio, BOUNDS[size])
                bench.claim(f"{name}_by_the_wall", wall_ratio, "reported")
            else:
                bench.claim(f"{name}_ten_matches", cpu_ratio, "reported")
    upkeep(bench, n_window)
    all_at_once(bench, n_window)
    hashed_or_sorted(bench, n_window)


def compared(
    bench: Benchmark, n_window: int, n_alike: int, size: int, repetitions: int
) -> tuple[float, float]:
    """How many times as long the best peer takes for a batch, in CPU seconds and by the wall."""
    rng = np.random.default_rng(bench.seed)
    n_keys = n_window // n_alike
    window, own = (rows_of(rng.integers(0, n_keys, n_window * 3 // 2)) for _ in range(2))
    batches = batches_of(rows_of(rng.integers(0, n_keys, n_window)), size)
    ours = Ours(window, own, batches, n_window)
    held = window.slice(len(window) - n_window)
    n_compared = min(PEER_BATCHES, len(batches))
    contenders = {
        "ours": Turns(ours.turn, len(batches)),
        "DuckDB": Turns(by_duckdb(held, batches[:n_compared]), n_compared),
        "Polars": Turns(by_polars(held, batches[:n_compared]), n_compared),
    }
    for turn in contenders.values():
        warmed_up(turn, calls=1, at_most_s=1)
        turn.wall_s.clear()
    timed = bench.interleaved(contenders, repetitions=repetitions, same=lambda found: sum(found[:n_compared]))
    cpu_us, wall_us = {}, {}
    for name, turns in contenders.items():
        cpu_us[name] = US * timed[name].median_s / turns.n_batches
        wall_us[name] = US * statistics.median(turns.wall_s) / turns.n_batches
        bench.row(
            keys=n_keys,
            batch=size,
            who=name,
            us_per_batch=cpu_us[name],
            wall_us=wall_us[name],
            ns_per_row=1e3 * cpu_us[name] / size,
            spread=timed[name].spread,
            pairs_per_row=statistics.mean((timed[name].result or [0])[:n_compared]) / size,
        )
    by_cpu, by_wall = (min(took["DuckDB"], took["Polars"]) / took["ours"] for took in (cpu_us, wall_us))
    return by_cpu, by_wall


def upkeep(bench: Benchmark, n_window: int) -> None:
    """What it takes to bring rows in and out, without probes."""
    rng = np.random.default_rng(bench.seed)
    rows = rows_of(rng.integers(0, n_window, n_window))
    for size in (100, 1_000, 10_000):
        stem = slid(rows, n_window)
        took = []
        given = [stored(batch, number * size) for number, batch in enumerate(batches_of(rows, size))]
        for batch in given:
            began = cpu()
            stem.build(batch)
            stem.commit()
            stem.drop_oldest(len(batch))
            took.append(cpu() - began)
        bench.row(
            keys=n_window,
            batch=size,
            who="ours, upkeep alone",
            us_per_batch=US * statistics.mean(took),
            ns_per_row=1e3 * US * sum(took) / n_window,
            longest_ms=1e3 * max(took),
            segments=stem.snapshot()["segments"],
            bytes_per_row=stem.nbytes / n_window,
        )
        if size == 1_000:
            bench.claim("built_rows_per_s", n_window / sum(took), "reported")
            bench.claim("bytes_per_row", stem.nbytes / n_window, "reported")


def all_at_once(bench: Benchmark, n_window: int) -> None:
    """As many keys as the window has rows, in one batch."""
    rng = np.random.default_rng(bench.seed)
    window, batch = (rows_of(rng.integers(0, n_window, n_window)) for _ in range(2))
    stem = slid(window, n_window)

    def ours() -> list[int]:
        matches = stem.probe(KEY, [batch.column("k")])
        stem.rows.take(matches.rows, ["v"])
        return [len(taken(batch.column("v"), matches.probes))]

    contenders: dict[str, Callable[[], list[int]]] = {
        "ours": ours,
        "DuckDB": by_duckdb(window, [batch]),
        "Polars": by_polars(window, [batch]),
    }
    timed = bench.interleaved(contenders, repetitions=3, same=lambda found: found[0])
    for name in contenders:
        us = US * timed[name].median_s
        bench.row(
            keys=n_window,
            batch=n_window,
            who=f"{name}, all at once",
            us_per_batch=us,
            ns_per_row=1e3 * us / n_window,
            spread=timed[name].spread,
        )


def hashed_or_sorted(bench: Benchmark, n_window: int) -> None:
    """One segment of the whole window: by hash, as it is, or sorted by key and searched by a sorted batch."""
    rng = np.random.default_rng(bench.seed)
    held = rng.integers(0, n_window, n_window)
    index = KeyIndex()
    index.insert(Codes(held, None, is_exact=True), 0)
    order = np.argsort(held, kind="stable")
    ordered = held[order]
    for size in (100, 1_000, 10_000):
        asked = rng.integers(0, n_window, size)

        def by_hash(codes: Any = asked) -> int:
            return len(index.find(Codes(codes, None, is_exact=True), PresentRows(0))[0])

        def by_order(codes: Any = asked) -> int:
            arranged = np.sort(codes)
            begin = np.searchsorted(ordered, arranged, "left")
            counts = np.searchsorted(ordered, arranged, "right") - begin
            first = np.repeat(begin - (np.cumsum(counts) - counts), counts)
            return len(order[first + np.arange(len(first))])

        timed = bench.interleaved(
            {"one segment, hashed": by_hash, "one segment, sorted": by_order},
            repetitions=5,
            same=lambda found: found,
            at_least_s=0.05,
        )
        for name, figures in timed.items():
            bench.row(
                keys=n_window,
                batch=size,
                who=name,
                us_per_batch=US * figures.median_s,
                ns_per_row=1e3 * US * figures.median_s / size,
                spread=figures.spread,
            )
        if size == 1_000:
            slower = timed["one segment, sorted"].median_s / timed["one segment, hashed"].median_s
            bench.claim("sorted_over_hashed", slower, "reported")


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=7)
