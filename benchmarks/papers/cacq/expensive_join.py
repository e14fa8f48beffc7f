"""How often are expensive conditions on one side of a join evaluated, when that side meets many rows of the other?

Claim     udf_calls_constant_in_articles    with 1, 10 and 100 articles per stock user functions are called 100 x 2,250 times,
          once for each query and stock
Baseline  PullUp of NiagaraCQ, written plainly: one join of everything, then every query's function on every joined tuple
Control   one article per stock: there is nothing to save
Paper     CACQ, fig. 11b: the eddy much faster than PullUp, by more the more articles a stock has. Exact: 225,000 calls for every
          number of articles, against 225,000 times the number of articles

100 queries differ in the function they ask of a quote, `score(price, k) > limit`. Calls are counted by the function itself, a row
being a call; those the engine makes to learn of its filters (samples) are among them. For counting, functions are free. Seconds
are of functions that take 10 to 500 us a call, as the paper's, with fewer stocks and queries.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import eddyline
from benchmarks.harness import Benchmark, main, wall
from benchmarks.papers.cacq._stocks import N_STOCKS, Shared, Stored, Update

PER_STOCK = (1, 10, 100)
LIMIT = 0.5


class Scores:
    """User functions, one for each k: how dear they are, and how many rows they were called on."""

    def __init__(self, cost_s: npt.NDArray[np.float64]) -> None:
        self.n_calls = 0
        self._cost_s = cost_s

    def score(self, price: npt.NDArray[np.float64], k: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """What function k[i] gives for price[i]: calls with other constants may come together."""
        self.n_calls += len(price)
        _busy(float(self._cost_s[k].sum()))
        return np.modf(price * (k + 1) * 0.618)[0]

    def declare(self) -> None:
        """As an SQL function of this process."""

        @eddyline.udf(returns="double", takes=("double", "int"), version=str(id(self)), cost=255e-6)
        def score(price: pa.Array, k: pa.Array) -> pa.Array:
            return pa.array(
                self.score(price.to_numpy(zero_copy_only=False), k.to_numpy(zero_copy_only=False))
            )

    @property
    def n_queries(self) -> int:
        return len(self._cost_s)

    def conditions(self) -> list[str]:
        return [f"score(s.price, {k}) > {LIMIT}D" for k in range(self.n_queries)]


def _busy(seconds: float) -> None:
    until = time.perf_counter() + seconds
    while seconds and time.perf_counter() < until:
        pass


def pull_up(update: Update, scores: Scores) -> Callable[[], int]:
    """One join, then all functions on all joined tuples; gives the number of results."""
    articles, stocks = update.articles(), update.stocks()

    def run() -> int:
        probing, _ = Stored(articles["sym"]).probe(stocks["sym"])
        prices = stocks["price"][probing]
        return sum(
            int((scores.score(prices, np.full(len(prices), k)) > LIMIT).sum())
            for k in range(scores.n_queries)
        )

    return run


def ours(update: Update, scores: Scores) -> tuple[Callable[[], int], Callable[[], None]]:
    """An engine with a query for each function; a turn, and what ends it."""
    scores.declare()
    shared = Shared(update, scores.conditions())
    return lambda: shared.run().n_results, shared.close


def run(bench: Benchmark) -> None:
    rng = np.random.default_rng(bench.seed)
    free = np.zeros(bench.size(full=100, quick=10))
    n_stocks = bench.size(full=N_STOCKS, quick=200)
    calls: dict[int, int] = {}
    for per_stock in PER_STOCK:
        update = Update.of(n_stocks, per_stock, rng)
        scores, theirs = Scores(free), Scores(free)
        turn, close = ours(update, scores)
        n_results = turn()
        close()
        assert pull_up(update, theirs)() == n_results
        calls[per_stock] = scores.n_calls
        exactly = len(free) * n_stocks
        for plan, n_calls, paper in (
            ("ours", scores.n_calls, exactly),
            ("pull up", theirs.n_calls, exactly * per_stock),
        ):
            bench.row(
                what="calls", articles_per_stock=per_stock, queries=len(free), stocks=n_stocks, plan=plan,
                results=n_results, calls=n_calls, paper_calls=paper,
            )  # fmt: skip
    exactly = len(free) * n_stocks
    bench.claim("udf_calls_constant_in_articles", max(calls.values()) / exactly, "= 1")
    bench.claim("udf_calls_most_over_least", max(calls.values()) / min(calls.values()), "= 1")
    in_seconds(bench, rng)


def in_seconds(bench: Benchmark, rng: np.random.Generator) -> None:
    """The same with functions that take their time."""
    cost_s = rng.uniform(10e-6, 500e-6, bench.size(full=20, quick=4))
    n_stocks = bench.size(full=100, quick=20)
    ratio = 0.0
    for per_stock in PER_STOCK:
        update = Update.of(n_stocks, per_stock, rng)
        turn, close = ours(update, Scores(cost_s))
        turn()  # kernels are loaded, and the engine knows what functions cost
        seconds = {}
        for plan, work in (("ours", turn), ("pull up", pull_up(update, Scores(cost_s)))):
            began = wall()
            work()
            seconds[plan] = wall() - began
        close()
        ratio = seconds["pull up"] / seconds["ours"]
        for plan, took in seconds.items():
            bench.row(
                what="seconds", articles_per_stock=per_stock, queries=len(cost_s), stocks=n_stocks, plan=plan,
                seconds=took, over_ours=took / seconds["ours"],
            )  # fmt: skip
    bench.claim("pull_up_over_ours_100_articles", ratio, "reported")


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=9)
