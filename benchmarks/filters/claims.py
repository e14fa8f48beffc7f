"""How much faster than what one would use instead does the index answer many queries, and what does it cost?

Claim     100,000 queries against a NumPy loop over them: 25 times as fast on dense ints, 18 on dense floats, 50 on ranges
Claim     against DuckDB 100 times as fast on 100,000 dense queries, and 10 times on 100,000 keyed ones in batches of 1,000
          rows; against Polars 10 times on 10,000 keyed ones in batches of 1,000 rows
Claim     with 100 queries the engine is no slower than the best of the three (0.77: differences below 30 % are noise)
Claim     the engine takes at most 1.5 times as long as its filter stage and the decoding of pairs alone, where those take a
          millisecond or more; elsewhere at most half a millisecond more
Claim     ten times as many ranges leave a quarter of the rows a second; a query takes at most 400 bytes of the index
Baseline  the same queries and rows through NumPy, DuckDB and Polars (benchmarks/filters/_contenders.py says in which form), one
          thread, equal numbers of pairs asserted; sets are those of benchmarks/filters/_workloads.py
Control   ten queries that every row satisfies: nothing to save, so the engine must be no slower than a NumPy loop that gives
          the same pairs by row; how it compares with the loop that leaves them by query is reported

Ours is `push`, `.count` and `.pairs()` on an engine in memory that nobody subscribed to; only the two keyed ratios are of the
filter stage and the decoding of pairs (`kernel` in the table), with `push` reported beside them. Seconds are CPU seconds of all
threads, the median of interleaved turns, each of as many calls as take 0.25 s, after as many that do not count. Batches have
8,192 rows where nothing else is said, 1,024 for 100,000 dense queries: for both sides of each ratio. A NumPy call costs about a
microsecond whatever it does, so the loop gains on larger batches; ranges are therefore reported with batches of 1,024 rows as
well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.filters._contenders import (
    Answer,
    DuckDb,
    Polars,
    Standing,
    numpy_loop,
    numpy_pairs,
)
from benchmarks.filters._workloads import (
    Workload,
    all_match,
    dense_float,
    dense_int,
    keyed,
    ranges,
)
from benchmarks.harness import Benchmark, main, warmed_up

PEERS = ("numpy", "duckdb", "polars")
TURN_S = 0.25  # what is shorter is repeated in its turn, first without being counted
KERNEL_LONG_S = 1e-3  # from here on the engine's share is a ratio, below it is time of its own
TEN_MATCHES = (
    10 * 5_000 / 1_000_000
)  # share of the rows with its key that a query passes, for ten matches a row from a million


@dataclass(frozen=True)
class Measured:
    """Seconds of every contender for one batch."""

    name: str
    n_queries: int
    n_rows: int
    seconds: Mapping[str, float]
    bytes_per_query: float | None

    def times_faster(self, ours: str, peer: str) -> float:
        return self.seconds[peer] / self.seconds[ours]

    @property
    def best_peer(self) -> str:
        return min((peer for peer in PEERS if peer in self.seconds), key=lambda peer: self.seconds[peer])

    @property
    def rows_per_s(self) -> float:
        return self.n_rows / self.seconds["engine"]


class Measurements:
    """Measures one case after another and keeps a row of each."""

    def __init__(self, bench: Benchmark) -> None:
        self._bench = bench
        self.all: list[Measured] = []

    def of(
        self,
        workload: Workload,
        peers: Sequence[str] = (),
        *,
        n_rows: int | None = None,
        n_batches: int = 1,
        repetitions: int = 5,
    ) -> Measured:
        standing = Standing(workload)
        try:
            return self.standing(standing, peers, n_rows=n_rows, n_batches=n_batches, repetitions=repetitions)
        finally:
            standing.close()

    def standing(
        self,
        standing: Standing,
        peers: Sequence[str] = (),
        *,
        n_rows: int | None = None,
        n_batches: int = 1,
        repetitions: int = 5,
    ) -> Measured:
        workload = standing.workload
        notes: dict[str, str] = {}
        n_rows = n_rows or self._bench.size(full=workload.batch_rows, quick=512)
        batches = workload.batches(n_batches, n_rows)
        standing.judge(batches[0])
        contenders: dict[str, Answer] = {
            "engine": standing.pushes(batches),
            "kernel": standing.probes(batches),
        }
        if "numpy" in peers:
            contenders["numpy"] = numpy_loop(workload.queries, batches)
        if "numpy pairs" in peers:
            contenders["numpy pairs"] = numpy_pairs(workload.queries, batches)
        for name, kind in (("duckdb", DuckDb), ("polars", Polars)):
            if name in peers:
                peer = kind(workload.queries, batches[0])
                contenders[name] = peer.joins(batches)
                notes[name] = peer.form
        n_pairs = {name: answer() for name, answer in contenders.items()}  # once unmeasured: kernels compile
        for answer in contenders.values():
            warmed_up(answer, calls=12, at_most_s=2.0)
        found = self._bench.interleaved(contenders, repetitions=repetitions, same=int, at_least_s=TURN_S)
        seconds = {name: timed.median_s / n_batches for name, timed in found.items()}
        nbytes = standing.nbytes
        measured = Measured(
            workload.name,
            len(workload.queries),
            n_rows,
            seconds,
            None if nbytes is None else nbytes / len(workload.queries),
        )
        described = {
            "set": workload.name,
            "queries": measured.n_queries,
            "batch": n_rows,
            "matches_per_row": n_pairs["engine"] / n_batches / n_rows,
        }
        for who, took in seconds.items():
            self._bench.row(
                **described,
                who=who,
                rows_per_s=n_rows / took,
                cpu_ms=1e3 * took,
                spread=found[who].spread,
                note=notes.get(who),
            )
        self._bench.row(
            **described, who="index", bytes_per_query=measured.bytes_per_query, build_s=standing.build_s
        )
        self.all.append(measured)
        return measured


def run(bench: Benchmark) -> None:
    many = bench.size(full=100_000, quick=1_000)
    some = bench.size(full=10_000, quick=500)
    a_thousand_rows = bench.size(full=1_000, quick=200)
    measurements = Measurements(bench)

    ints = measurements.of(dense_int(many, bench.seed), ("numpy", "duckdb"))
    floats = measurements.of(dense_float(many, bench.seed), ("numpy", "duckdb"))
    bench.claim("dense_int_100k_vs_numpy", ints.times_faster("engine", "numpy"), ">= 25")
    bench.claim("dense_float_100k_vs_numpy", floats.times_faster("engine", "numpy"), ">= 18")
    slower = min(measured.times_faster("engine", "duckdb") for measured in (ints, floats))
    bench.claim("dense_100k_vs_duckdb", slower, ">= 100")

    ranged = measure_ranges(measurements, bench, many, some)

    few_keyed = measurements.of(keyed(some, bench.seed), ("polars",), n_rows=a_thousand_rows, n_batches=32)
    more_keyed = measurements.of(keyed(many, bench.seed), ("duckdb",), n_rows=a_thousand_rows, n_batches=32)
    for name, measured, peer in (
        ("keyed_10k_b1000_vs_polars", few_keyed, "polars"),
        ("keyed_100k_b1000_vs_duckdb", more_keyed, "duckdb"),
    ):
        bench.claim(name, measured.times_faster("kernel", peer), ">= 10")
        bench.claim(f"{name}_push", measured.times_faster("engine", peer), "reported")
    whole_keyed = measurements.of(keyed(many, bench.seed), n_batches=8)

    at_100 = [
        measurements.of(made(100, bench.seed), PEERS, n_batches=8) for made in (dense_int, ranges, keyed)
    ]
    worst = min(measured.times_faster("engine", measured.best_peer) for measured in at_100)
    bench.claim("at_100_queries_vs_best_peer", worst, ">= 0.77")

    ten = measurements.of(all_match(10, bench.seed), ("numpy", "numpy pairs"), n_batches=8, repetitions=9)
    bench.claim("control_10_all_match_vs_plain", ten.times_faster("engine", "numpy pairs"), ">= 0.77")
    bench.claim("control_10_all_match_vs_plain_by_query", ten.times_faster("engine", "numpy"), "reported")

    million = bench.size(full=1_000_000, quick=10_000)
    ten_matches = measurements.of(keyed(million, bench.seed, share=TEN_MATCHES), n_batches=4)
    bench.claim("one_m_queries_10_matches_rows_per_s", ten_matches.rows_per_s, "reported")

    claim_overhead(bench, measurements.all)
    claim_bytes(bench, (ints, floats, ranged, whole_keyed))


def measure_ranges(measurements: Measurements, bench: Benchmark, many: int, some: int) -> Measured:
    """Many ranges against the NumPy loop, and against fewer of them; in turn, on the same rows."""
    wide, narrow = Standing(ranges(many, bench.seed)), Standing(ranges(some, bench.seed))
    measured = measurements.standing(wide, ("numpy",))
    bench.claim("ranges_100k_vs_numpy", measured.times_faster("engine", "numpy"), ">= 50")
    smaller = measurements.standing(wide, ("numpy",), n_rows=bench.size(full=1_024, quick=128), n_batches=2)
    bench.claim("ranges_100k_b1024_vs_numpy", smaller.times_faster("engine", "numpy"), "reported")
    measurements.standing(narrow, n_batches=4)
    batches = wide.workload.batches(4, measured.n_rows)
    found = bench.interleaved(
        {"many": wide.pushes(batches), "some": narrow.pushes(batches)}, repetitions=7, at_least_s=TURN_S
    )
    bench.claim("ranges_100k_over_10k_rows_per_s", found["some"].median_s / found["many"].median_s, ">= 0.25")
    wide.close()
    narrow.close()
    return measured


def claim_overhead(bench: Benchmark, cases: Sequence[Measured]) -> None:
    """What the engine adds to its kernel, at worst."""
    long_ratios: dict[str, float] = {}
    short_ms: dict[str, float] = {}
    for case in cases:
        where = f"{case.name}, {case.n_queries:,} queries, {case.n_rows:,} rows"
        engine_s, kernel_s = case.seconds["engine"], case.seconds["kernel"]
        if kernel_s >= KERNEL_LONG_S:
            long_ratios[where] = engine_s / kernel_s
        else:
            short_ms[where] = 1e3 * (engine_s - kernel_s)
    claim_worst(bench, "engine_over_kernel", long_ratios, "<= 1.5")
    claim_worst(bench, "engine_fixed_ms", short_ms, "<= 0.5")


def claim_bytes(bench: Benchmark, cases: Sequence[Measured]) -> None:
    taken = {case.name: case.bytes_per_query for case in cases if case.bytes_per_query is not None}
    assert bench.is_quick or len(taken) == len(cases), "the stage does not say how many bytes its index has"
    claim_worst(bench, "index_bytes_per_query", taken, "<= 400")


def claim_worst(bench: Benchmark, name: str, values: Mapping[str, Any], bound: str) -> None:
    """The greatest of some values; which one it was is a row."""
    if values:
        where = max(values, key=lambda case: values[case])
        bench.row(set=name, who="worst", note=where)
        bench.claim(name, values[where], bound)


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=7)
