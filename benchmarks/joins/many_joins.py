"""What do ten thousand join queries cost, beside one that gives as many results?

Claim     ten_thousand_joins_over_one    CPU time per row of 10,000 queries that differ in a range of prices and in the length of
          their window, over that of one query with as many results: at most 3
Baseline  one query over the same streams, whose window is as long as those of the many are on average, and which takes every
          price
Control   `thresholds`: queries of the form price > x, each satisfied by one stock in ten thousand

A round has 1,000 stocks and 1,000 articles; every stock meets the last 50,000 to 100,000 articles, about ten of them with its
symbol. The many have ranges as wide as one ten-thousandth of all prices, so that a pair of stock and article satisfies one of
them on average. Ours is `push` and `.count` on an engine in memory, medians of interleaved turns of 20 rounds, CPU seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle

import numpy as np

import eddyline
from benchmarks.harness import Benchmark, main, timed

N_SYMBOLS = 7_500
WINDOWS = 20  # lengths
PRICES = 100.0


class Standing:
    """An engine with its queries and full windows."""

    def __init__(self, window: int, rounds: list[dict[str, dict[str, np.ndarray]]]) -> None:
        self.engine = eddyline.open()
        self.engine.stream("stocks", "sym BIGINT, price DOUBLE")
        self.engine.stream("articles", "sym BIGINT, n BIGINT")
        self._window = window
        self._rounds = rounds
        self._next = cycle(rounds)

    def register(self, where: str, windows: list[int], params: list[dict[str, np.ndarray]]) -> float:
        """A template for each window, each with parameters of its own; gives the seconds that took."""

        def all_of_them() -> None:
            for n, values in zip(windows, params, strict=True):
                text = (
                    f"SELECT s.sym, s.price, a.n FROM stocks s JOIN recent(articles, {n}) a ON s.sym = a.sym"
                )
                if values:
                    self.engine.query_many(f"{text} WHERE {where}", params=values)
                else:
                    self.engine.query(text)

        seconds, _ = timed(all_of_them)
        return seconds

    def fill(self) -> None:
        """Articles until every window is full."""
        for at in range(self._window // len(self._rounds[0]["articles"]["sym"]) + 1):
            self.engine.push("articles", self._rounds[at % len(self._rounds)]["articles"])

    def turn(self, n_rounds: int) -> Callable[[], int]:
        def run() -> int:
            return sum(self.engine.push(next(self._next)).count for _ in range(n_rounds))

        return run


def made_rounds(n: int, n_rows: int, rng: np.random.Generator) -> list[dict[str, dict[str, np.ndarray]]]:
    return [
        {
            "stocks": {"sym": rng.integers(0, N_SYMBOLS, n_rows), "price": rng.uniform(0, PRICES, n_rows)},
            "articles": {"sym": rng.integers(0, N_SYMBOLS, n_rows), "n": rng.integers(0, 1 << 40, n_rows)},
        }
        for _ in range(n)
    ]


def run(bench: Benchmark) -> None:
    rng = np.random.default_rng(bench.seed)
    n_queries = bench.size(full=10_000, quick=400)
    window = bench.size(full=100_000, quick=8_000)
    n_rows = bench.size(full=1_000, quick=200)
    rounds = made_rounds(bench.size(full=40, quick=8), n_rows, rng)
    n_turn = bench.size(full=20, quick=4)
    lengths = np.linspace(window // 2, window, WINDOWS).astype(int).tolist()
    each = n_queries // WINDOWS
    ranges = []
    thresholds = []
    for _ in lengths:
        low = rng.uniform(-PRICES / n_queries, PRICES, each)
        ranges.append({"low": low, "high": low + PRICES / n_queries})
        thresholds.append({"x": PRICES * (1 - rng.uniform(0, 2 / n_queries, each))})
    middle = int(np.mean(lengths))
    cases = {
        "one": ("", [middle], [{}]),
        "many": ("s.price BETWEEN :low AND :high", lengths, ranges),
        "thresholds": ("s.price > :x", lengths, thresholds),
    }
    standing: dict[str, Standing] = {}
    registered_s = {}
    for name, (where, windows, params) in cases.items():
        standing[name] = Standing(window, rounds)
        registered_s[name] = standing[name].register(where, windows, params)
        standing[name].fill()
    turns = {name: one.turn(n_turn) for name, one in standing.items()}
    for turn in turns.values():
        turn()
    taken = bench.interleaved(turns, repetitions=7)
    per_row = {name: found.median_s / (2 * n_rows * n_turn) for name, found in taken.items()}
    for name, found in taken.items():
        held = standing[name].engine.joins()["articles"]
        bench.row(
            queries_called=name,
            queries=standing[name].engine.n_queries,
            results=found.result,
            us_per_row=1e6 * per_row[name],
            spread=found.spread,
            registered_s=registered_s[name],
            rows_held=held["rows"],
            bytes_held=held["nbytes"],
        )
        standing[name].engine.close()
    one, many = taken["one"].result, taken["many"].result
    assert 0.8 < (many or 0) / (one or 1) < 1.25, f"{many} results against {one}"
    bench.claim("ten_thousand_joins_over_one", per_row["many"] / per_row["one"], "<= 3")
    bench.claim("ten_thousand_thresholds_over_one", per_row["thresholds"] / per_row["one"], "reported")


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=11)
