"""What does a chain of three views cost in a round, beside one query with all their conditions?

Claim     push_cost_of_a_view_chain_of_3_over_1    CPU time of `engine.push` with three views, each over the one before, over that
          with one query of the merged condition and the same results: reported
Baseline  one query: `SELECT … FROM trades WHERE` all three conditions
Control   `running`: the same chain, whose first two views give results of their own as well

The first two views of the chain are paused: they hand rows on, and only the last one gives results. Of a round's rows a half pass
the first condition, a half of these the second and a half of those the third. Engines in memory, medians of interleaved turns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import cycle

import numpy as np

import eddyline
from benchmarks.harness import Benchmark, main

LAST = "the last"
CHAIN = {
    "first": "SELECT sym, price, qty, sector FROM trades WHERE price < 50",
    "second": "SELECT sym, price, qty FROM first WHERE qty >= 500",
    LAST: "SELECT sym, price * qty AS value FROM second WHERE sym % 2 = 0",
}
MERGED = {
    LAST: "SELECT sym, price * qty AS value FROM trades WHERE price < 50 AND qty >= 500 AND sym % 2 = 0"
}
Columns = dict[str, np.ndarray]


def opened(queries: Mapping[str, str], *, are_others_paused: bool) -> eddyline.Engine:
    engine = eddyline.open()
    engine.stream("trades", "sym BIGINT, price DOUBLE, qty BIGINT, sector BIGINT")
    for name, text in queries.items():
        engine.query(text, name=name)
    for name in queries:
        if are_others_paused and name != LAST:
            engine.get(name).pause()
    return engine


def drawn_rounds(n: int, n_rows: int, rng: np.random.Generator) -> list[Columns]:
    return [
        {
            "sym": rng.integers(0, 10_000, n_rows),
            "price": rng.uniform(0, 100, n_rows),
            "qty": rng.integers(0, 1_000, n_rows),
            "sector": rng.integers(0, 10, n_rows),
        }
        for _ in range(n)
    ]


def turn(engine: eddyline.Engine, rounds: list[Columns]) -> Callable[[], int]:
    """All rounds once; gives how many results there were."""
    following = cycle(rounds)

    def run() -> int:
        return sum(engine.push("trades", next(following)).count for _ in rounds)

    return run


def results(engine: eddyline.Engine, rows: Columns) -> list[tuple[object, ...]]:
    engine.push("trades", rows)
    return [tuple(result.values()) for result in engine.get(LAST).results()]


def run(bench: Benchmark) -> None:
    rng = np.random.default_rng(bench.seed)
    n_rows = bench.size(full=10_000, quick=500)
    rounds = drawn_rounds(bench.size(full=40, quick=4), n_rows, rng)
    engines = {
        "one": opened(MERGED, are_others_paused=False),
        "chain": opened(CHAIN, are_others_paused=True),
        "running": opened(CHAIN, are_others_paused=False),
    }
    (check,) = drawn_rounds(1, 400, rng)
    expected = results(engines["one"], check)
    assert expected, "no row passes"
    for name, engine in engines.items():
        assert name == "one" or results(engine, check) == expected, name
    taken = bench.interleaved({name: turn(engine, rounds) for name, engine in engines.items()}, repetitions=7)
    for name, found in taken.items():
        us_per_row = 1e6 * found.median_s / (n_rows * len(rounds))
        bench.row(queries=name, results=found.result, us_per_row=us_per_row, spread=found.spread)
        engines[name].close()
    assert taken["chain"].result == taken["one"].result, "the chain gives other results than one query"
    ratios = {name: found.median_s / taken["one"].median_s for name, found in taken.items()}
    bench.claim("push_cost_of_a_view_chain_of_3_over_1", ratios["chain"], "reported")
    bench.claim("push_cost_of_a_running_view_chain_of_3_over_1", ratios["running"], "reported")


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=11)
