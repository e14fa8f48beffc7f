"""The same rules as Spark users write them: trades joined with a broadcast table of rules."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from eddyline.demo.market import Market
from eddyline.demo.rules import BAND, Bands, HandWritten

FEW_ROWS, FIRST_ROWS = 100, 10_000
WORK_SHARE = 5  # how much longer than a join of few rows a join must take to be about its rows
COLUMNS = ["sym", "venue", "price", "qty"]


@dataclass(frozen=True, slots=True)
class Joined:
    """What the join took."""

    n_trades: int
    n_alerts: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.n_trades / self.seconds


class BroadcastJoin:
    """The rules in a Spark session. None of the client rules has an equality, so every trade meets every one of them."""

    def __init__(self, session: Any, bands: Bands, by_hand: Sequence[HandWritten]) -> None:
        self._session = session
        self._n_cores = int(session.sparkContext.defaultParallelism)
        self._rules = session.createDataFrame(bands.table())
        condition = BAND.replace(":", "rules.")
        self._join = (
            f"SELECT /*+ BROADCAST(rules) */ count(*) FROM {{trades}} JOIN {{rules}} AS rules ON {condition}"
        )
        counts = ", ".join(f"count_if({rule.where})" for rule in by_hand)
        self._filters = f"SELECT {counts} FROM {{trades}}"

    def run(self, market: Market, first: int, most: int, seconds: float) -> Joined:
        """Join as many trades from `first` on as take about so many seconds, `most` at most; with fewer of them first.

        It gets longer where starting a job takes long, so that what is measured is the join.
        """
        self._over(market, first, FEW_ROWS)  # Spark compiles it
        start_s = self._over(market, first, FEW_ROWS).seconds
        target_s = max(seconds, WORK_SHARE * start_s)
        n = min(FIRST_ROWS, most)
        while True:
            joined = self._over(market, first, n)
            if n == most or joined.seconds >= target_s / 2:
                return joined
            work_s = max(joined.seconds - start_s, joined.seconds / 10)
            n = min(most, int(n * min(8.0, max(2.0, target_s / work_s))))

    def _over(self, market: Market, first: int, n: int) -> Joined:
        trades = pa.Table.from_batches([market.trades(first, n).select(COLUMNS)])
        frame = self._session.createDataFrame(trades).repartition(2 * self._n_cores).cache()
        try:
            frame.count()  # so that only the join is timed
            began = time.perf_counter()
            n_alerts = sum(
                self._counts(self._join, frame, rules=self._rules) + self._counts(self._filters, frame)
            )
            return Joined(n, n_alerts, time.perf_counter() - began)
        finally:
            frame.unpersist()

    def _counts(self, query: str, trades: Any, **frames: Any) -> list[int]:
        (row,) = self._session.sql(query, trades=trades, **frames).collect()
        return [int(count) for count in row]
