"""Is an expensive condition on an input of a join asked on the right side of the probe?

Claim     udf_before_or_after_probe          processor time of all pushes, over that of the better of the two fixed sides: at most
                                             1.1 at each hit rate and on the trace on which they flip
          udf_before_or_after_probe_calls    the same of rows that the function was shown
Baseline  `before`: every row is asked, then those that pass look for partners; `after`: rows look for partners, and those that
          found some are asked
Control   `cheap`: a function that takes next to nothing and drops nearly all rows, each of which has many partners: `after` makes
          combinations for nothing

Rows of a stream look for partners in another one, through `engine.push`, some hundred at a time. A share of them has one: the hit
rate. Half of them pass the condition, a function that takes a while for each row, whatever else the machine does: it counts the
processor time of its own process. On `flips` the rate changes four times; the better side is that of the whole trace, and what
the better side of each segment would take is reported. The first rows are not part of the claim: nothing is known of them, and
all are asked; `from_the_first_row` has them.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

import eddyline
from benchmarks.harness import Benchmark, cpu, main
from eddyline.model import ExecutionChoices

SIDES = ("before", "after", "by cost")
HIT_RATES = (0.05, 0.6, 1.0)
FLIPS = (1.0, 0.05, 0.6, 1.0, 0.05)
N_KEYS = 1_000
ROWS_A_PUSH = 500
FIRST_PUSHES = 2
DEAR_S = 20e-6  # of the function, on a row


@dataclass
class Function:
    """What the function took, and on how many rows."""

    row_s: float = 0.0
    n_rows: int = 0

    def take(self, prices: pa.Array) -> pa.Array:
        end = cpu() + self.row_s * len(prices)
        self.n_rows += len(prices)
        while self.row_s and cpu() < end:
            pass
        return prices


FUNCTION = Function()


@eddyline.udf(returns="double", takes=("double",))
def judged(prices: pa.Array) -> pa.Array:
    return FUNCTION.take(prices)


@dataclass
class Spent:
    """By push: processor seconds, and rows the function was shown."""

    cpu_s: list[float] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    n_results: int = 0
    n_moves: int = 0


def batches(hit_rates: Sequence[float], n_rows: int, seed: int) -> Iterator[pa.Table]:
    """So many rows at each of these rates."""
    rng = np.random.default_rng(seed)
    for hit in hit_rates:
        for _ in range(n_rows // ROWS_A_PUSH):
            keys = rng.integers(0, N_KEYS, ROWS_A_PUSH)
            has_partner = rng.random(ROWS_A_PUSH) < hit
            syms = np.where(has_partner, keys, N_KEYS + keys)
            yield pa.table({"sym": syms, "price": rng.random(ROWS_A_PUSH)})


def spent(
    side: str, rows: Sequence[pa.Table], *, row_s: float, pass_rate: float, n_partners: int, seed: int
) -> Spent:
    """What all pushes take if conditions are asked there."""
    FUNCTION.row_s, found = row_s, Spent()
    with eddyline.open(seed=seed) as engine:
        engine.rounds.choices = ExecutionChoices(placement=side)
        engine.stream("stocks", "sym BIGINT, price DOUBLE")
        engine.stream("listed", "sym BIGINT, n BIGINT")
        told = engine.query(
            "SELECT s.sym, l.n FROM recent(stocks, 100) s JOIN recent(listed, 100000) l ON s.sym = l.sym "
            "WHERE judged(s.price) < :most",
            params={"most": pass_rate},
        )
        listed = np.tile(np.arange(N_KEYS), n_partners)
        engine.push("listed", pa.table({"sym": listed, "n": listed}))
        for batch in rows:
            FUNCTION.n_rows, began = 0, cpu()
            engine.push("stocks", batch)
            found.cpu_s.append(cpu() - began)
            found.calls.append(FUNCTION.n_rows)
        found.n_results = told.n_results
        (origin,) = (o for o in engine.joins().signatures[0]["origins"] if o["conditions"] is not None)
        found.n_moves = origin["conditions"]["n_moves"]
    return found


def better(sums: dict[str, float]) -> float:
    return min(sums["before"], sums["after"])


def measured(
    bench: Benchmark,
    trace: str,
    hit_rates: Sequence[float],
    *,
    row_s: float,
    pass_rate: float,
    n_partners: int = 1,
) -> tuple[float, float]:
    """Processor time and calls of the chosen sides, over those of the better fixed one."""
    n_rows = bench.size(full=100_000 if len(hit_rates) == 1 else 40_000, quick=10_000)
    rows = list(batches(hit_rates, n_rows, bench.seed))
    repeated: dict[str, list[Spent]] = {side: [] for side in SIDES}
    for _ in range(bench.size(full=3, quick=1)):
        for side in SIDES:
            found = spent(
                side, rows, row_s=row_s, pass_rate=pass_rate, n_partners=n_partners, seed=bench.seed
            )
            repeated[side].append(found)
    assert len({each.n_results for found in repeated.values() for each in found}) == 1, (
        "sides differ in results"
    )

    def total_s(side: str, first: int, end: int | None = None) -> float:
        return statistics.median(sum(each.cpu_s[first:end]) for each in repeated[side])

    def calls(side: str, first: int) -> int:
        return sum(repeated[side][0].calls[first:])

    cpu_s = {side: total_s(side, FIRST_PUSHES) for side in SIDES}
    called = {side: calls(side, FIRST_PUSHES) for side in SIDES}
    size = n_rows // ROWS_A_PUSH
    by_segment = sum(
        better({side: total_s(side, max(first, FIRST_PUSHES), first + size) for side in SIDES})
        for first in range(0, len(rows), size)
    )
    for side in SIDES:
        bench.row(
            trace=trace,
            side=side,
            us_a_row=1e6 * total_s(side, 0) / (len(rows) * ROWS_A_PUSH),
            calls_a_row=calls(side, 0) / (len(rows) * ROWS_A_PUSH),
            over_better=cpu_s[side] / better(cpu_s),
            over_better_of_each_segment=cpu_s[side] / by_segment,
            from_the_first_row=total_s(side, 0) / better({each: total_s(each, 0) for each in SIDES}),
            moves=repeated[side][0].n_moves,
        )
    fewest = better({side: float(n) for side, n in called.items()})
    return cpu_s["by cost"] / better(cpu_s), called["by cost"] / fewest


def run(bench: Benchmark) -> None:
    traces = {f"hit rate {hit}": (hit,) for hit in HIT_RATES} | {"flips": FLIPS}
    found = {
        name: measured(bench, name, rates, row_s=DEAR_S, pass_rate=0.5) for name, rates in traces.items()
    }
    cheap, _ = measured(bench, "cheap", (1.0,), row_s=0.0, pass_rate=0.02, n_partners=20)
    bench.claim("udf_before_or_after_probe", max(ratio for ratio, _ in found.values()), "<= 1.1")
    bench.claim("udf_before_or_after_probe_calls", max(ratio for _, ratio in found.values()), "<= 1.1")
    for name, (ratio, _) in found.items():
        bench.claim(f"udf_before_or_after_probe_{name.replace(' ', '_')}", ratio, "<= 1.1")
    bench.claim("udf_before_or_after_probe_cheap", cheap, "<= 1.1")


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=7)
