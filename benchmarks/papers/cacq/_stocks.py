"""Stocks and articles of the paper's join experiments, and the plans NiagaraCQ would make of queries over them.

    SELECT * FROM stocks s, articles a WHERE s.price > x AND s.symbol = a.symbol        one query for each x

Articles are stored, then an update of all stocks arrives. Both plans group the selections of all queries: thresholds are sorted,
and the queries a price satisfies are those up to its place. They are written with NumPy, each in its best form.

    PushDown   selection first; a copy of the tuple for every query it satisfies; a join for every query, all with one hash table
    PullUp     one join of everything; then the grouped selection, on joined tuples
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import eddyline

N_STOCKS = 2_250
Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Update:
    """Prices of all stocks; stock k has `per_stock` articles with its symbol."""

    prices: Floats
    per_stock: int

    @staticmethod
    def of(n_stocks: int, per_stock: int, rng: np.random.Generator) -> Update:
        """Prices are uniform on (0, 100]."""
        return Update(100 - rng.uniform(0, 100, n_stocks), per_stock)

    @property
    def n_stocks(self) -> int:
        return len(self.prices)

    def articles(self) -> dict[str, Numbers]:
        symbols = np.repeat(np.arange(self.n_stocks), self.per_stock)
        return {"sym": np.random.default_rng(0).permutation(symbols), "n": np.arange(len(symbols))}

    def stocks(self) -> dict[str, Numbers | Floats]:
        return {"sym": np.arange(self.n_stocks), "price": self.prices}


def thresholds(n: int, rng: np.random.Generator) -> Floats:
    """Of so many queries: uniform, and one that selects everything."""
    return np.concatenate([[0.0], rng.uniform(0, 100, n - 1)])


@dataclass(frozen=True)
class Counted:
    """What a plan did for one update: results, probes of the articles, tuples that entered the selection."""

    n_results: int
    n_probes: int
    n_selected: int


class Stored:
    """Articles under their symbols: one hash table, of which the sorted symbols are the buckets."""

    def __init__(self, symbols: Numbers) -> None:
        self._order = np.argsort(symbols, kind="stable")
        self._sorted = symbols[self._order]

    def probe(self, symbols: Numbers) -> tuple[Numbers, Numbers]:
        """Pairs: which of these symbols, which article."""
        first = np.searchsorted(self._sorted, symbols, side="left")
        n = np.searchsorted(self._sorted, symbols, side="right") - first
        probing = np.repeat(np.arange(len(symbols)), n)
        within = np.arange(len(probing)) - np.repeat(np.cumsum(n) - n, n)
        return probing, self._order[np.repeat(first, n) + within]


def push_down(update: Update, limits: Floats) -> Callable[[], Counted]:
    """Selection, a copy per query, a join per query."""
    articles = update.articles()

    def run() -> Counted:
        stored = Stored(articles["sym"])
        stocks = update.stocks()
        n_satisfied = np.searchsorted(np.sort(limits), stocks["price"], side="left")
        by_query = np.argsort(limits)
        n_results = n_probes = 0
        for place in range(len(by_query)):
            passing = np.flatnonzero(n_satisfied > place)
            copied = {name: column[passing] for name, column in stocks.items()}
            probing, found = stored.probe(copied["sym"])
            _ = copied["price"][probing], articles["n"][found]  # the query's result
            n_probes += len(passing)
            n_results += len(found)
        return Counted(n_results, n_probes, update.n_stocks)

    return run


def pull_up(update: Update, limits: Floats) -> Callable[[], Counted]:
    """One join, then the selection of joined tuples; results are pairs of a joined tuple and a query."""
    articles = update.articles()

    def run() -> Counted:
        stored = Stored(articles["sym"])
        stocks = update.stocks()
        probing, found = stored.probe(stocks["sym"])
        prices, numbers = stocks["price"][probing], articles["n"][found]
        n_satisfied = np.searchsorted(np.sort(limits), prices, side="left")
        tuples = np.repeat(np.arange(len(prices)), n_satisfied)
        places = np.arange(len(tuples)) - np.repeat(np.cumsum(n_satisfied) - n_satisfied, n_satisfied)
        queries = np.argsort(limits)[places]
        _ = prices[tuples], numbers[tuples], queries
        return Counted(len(tuples), update.n_stocks, len(prices))

    return run


# --------------------------------------------------------------------------------------------- ours


class Shared:
    """An engine with all queries. Every update begins with new articles, as many as the window holds: the old ones leave.

    Stocks only drive, so that an update is the same every time. `conditions` are one for each query, about a stock `s`.
    """

    def __init__(self, update: Update, conditions: Sequence[str] | str, params: Any = None) -> None:
        self.engine = eddyline.open()
        self._update = update
        self.engine.stream("stocks", "sym BIGINT, price DOUBLE")
        self.engine.stream("articles", "sym BIGINT, n BIGINT")
        n_articles = update.n_stocks * update.per_stock
        text = f"SELECT s.sym, s.price, a.n FROM stocks s JOIN recent(articles, {n_articles}) a ON s.sym = a.sym WHERE "
        if isinstance(conditions, str):
            self.engine.query_many(text + conditions, params=params)
        else:
            self.engine.query_many([text + condition for condition in conditions])
        self._articles, self._stocks = update.articles(), update.stocks()
        self._counted = (0, 0)

    def run(self) -> Counted:
        """One update: two rounds."""
        self.engine.push("articles", self._articles)
        matches = self.engine.push("stocks", self._stocks)
        before, self._counted = self._counted, (n_probes(self.engine), n_selected(self.engine))
        return Counted(matches.count, self._counted[0] - before[0], self._counted[1] - before[1])

    def close(self) -> None:
        self.engine.close()


def n_probes(engine: eddyline.Engine) -> int:
    """Rows with which windows were probed so far."""
    return sum(facts["n_probes"] for facts in engine.rounds.flow.snapshot()["origins"].values())


def n_selected(engine: eddyline.Engine) -> int:
    """Rows that selections of all queries were asked about: stocks before the join, and rows of the join after it."""
    local = engine.rounds.flow.filters.of_inputs()
    after = [stage for name, stage in engine.rounds.stages() if name not in ("stocks", "articles")]
    return sum(stage.counters.n_rows for stage in [*local, *after])
