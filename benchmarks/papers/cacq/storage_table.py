"""What does the state of 100,000 queries take?

Claim     none: `storage_table` is the paper's table, recomputed: 6,839,500 bytes, and 2,500 more for every row under way
Baseline  that table, which leaves out the 150,000 predicates themselves: 100 bytes each, by its own figures
Control   20 MB for every row of 200 bytes that is copied for each query, which sharing avoids
Paper     6.83 MB: 5 sources of 3 attributes, 100,000 queries of 1.5 predicates on one source each

Ours beside it: the same queries standing in the engine, over five streams of three DOUBLE columns; every second query asks
something of two of them. `plan` is what the catalog holds of queries at work: ids and constants. `index` is what filters
built from that, everything included. A row under way has no bits per query; its matches, which here are thousands, are 4 bytes
each once they are listed. Names, texts and what else queries have are in `resident`: what the process grew by.
"""

from __future__ import annotations

import multiprocessing
import resource
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

import eddyline
from benchmarks.harness import Benchmark, main

INT_BYTES, QUEUE_BYTES, OPERATOR_BYTES, PREDICATE_BYTES = 4, 64, 100, 100
COLUMNS = ("a", "b", "c")
ROWS = 256  # of a batch by which the index is built and judged


@dataclass(frozen=True)
class Storage:
    """The paper's table."""

    n_queries: int
    n_sources: int
    n_selections: int  # operators of a source, beside its scan
    n_source_queries: int

    @property
    def source_queries(self) -> int:
        return INT_BYTES * self.n_source_queries

    @property
    def source_operators(self) -> int:
        return OPERATOR_BYTES * (self.n_selections + 1)

    @property
    def source_masks(self) -> float:
        return self.n_source_queries * self.n_selections / 8

    @property
    def row(self) -> float:
        return self.n_source_queries / 8

    @property
    def total(self) -> float:
        by_source = self.source_queries + self.source_operators + self.source_masks
        return self.n_sources * by_source + self.n_queries * QUEUE_BYTES


PAPER = Storage(100_000, 5, 3, 20_000)


def resident() -> int:
    """Bytes of this process in memory."""
    pages = Path("/proc/self/statm")
    if pages.exists():
        return int(pages.read_text().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def standing(n_queries: int, n_sources: int, seed: int) -> dict[str, float]:
    """Bytes that such queries take in an engine; half have one predicate, half two."""
    rng = np.random.default_rng(seed)
    with eddyline.open() as engine:
        engine.warm_up()
        schema = pa.schema({name: pa.float64() for name in COLUMNS})
        names = [f"s{k}" for k in range(n_sources)]
        for name in names:
            engine.stream(name, schema)
            engine.push(name, rows_of(rng, schema))
        before = resident()
        n_each = n_queries // n_sources // 2
        for name in names:
            for column, other in (("a", "b"), ("b", "c"), ("c", "a")):
                n = n_each // 3 + (column == "a") * (n_each % 3)
                constants = pa.table({"x": rng.random(n), "y": rng.random(n)})
                one = f"SELECT * FROM {name} WHERE {column} > :x"
                engine.query_many(one, params=constants.select(["x"]))
                engine.query_many(f"{one} AND {other} < :y", params=constants)
        assert engine.n_queries == n_each * 2 * n_sources, engine.n_queries
        n_pairs = sum(engine.push(name, rows_of(rng, schema)).count for name in names)
        stages = dict(engine.rounds.stages())
        plans = [engine.rounds.catalog.plan(name) for name in names]
        return {
            "plan": sum(segment.nbytes for plan in plans for segment in plan.segments),
            "index": sum(stages[name].snapshot()["nbytes"] for name in names),
            "resident": resident() - before,
            "row": 4 * n_pairs / (ROWS * n_sources),
        }


def rows_of(rng: np.random.Generator, schema: pa.Schema) -> pa.RecordBatch:
    return pa.record_batch({name: rng.random(ROWS) for name in schema.names})


def run(bench: Benchmark) -> None:
    parts = {
        "per source: queries": PAPER.source_queries,
        "per source: operators": PAPER.source_operators,
        "per source: masks": PAPER.source_masks,
        "per query: output queue": QUEUE_BYTES,
        "in all": PAPER.total,
        "predicates, not counted there": 150_000 * PREDICATE_BYTES,
        "per row under way": PAPER.row,
        "per row of 200 bytes copied for each": 200 * PAPER.n_queries,
    }
    for what, n_bytes in parts.items():
        bench.row(whose="paper", what=what, bytes=int(n_bytes))
    n_queries = bench.size(full=PAPER.n_queries, quick=10_000)
    with multiprocessing.get_context("spawn").Pool(1) as pool:  # memory of its own
        ours = pool.apply(standing, (n_queries, PAPER.n_sources, bench.seed))
    words = {
        "plan": "plan: ids and constants",
        "index": "index, predicates included",
        "resident": "resident, everything included",
        "row": "per row: its matches, listed",
    }
    for what, n_bytes in ours.items():
        each = n_bytes / n_queries if what != "row" else None
        bench.row(whose="ours", what=words[what], bytes=int(n_bytes), bytes_per_query=each)
    bench.claim("storage_table", int(PAPER.total), "recomputed")
    bench.claim("bytes_per_row_under_way", int(PAPER.row), "recomputed")
    counted = PAPER.total + 150_000 * PREDICATE_BYTES
    bench.claim(
        "index_over_table_with_predicates",
        (ours["plan"] + ours["index"]) / n_queries / (counted / PAPER.n_queries),
        "reported",
    )


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=7)
