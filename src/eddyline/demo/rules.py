"""The rules of the demo, each written twice: in SQL for the engine and for Spark, in NumPy for the proof."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.demo.market import HIGHEST_PRICE, LARGEST_QTY, LOWEST_PRICE, Mask, Trades, looks_like

BAND = "price BETWEEN :low AND :high AND qty BETWEEN :few AND :many"
TEMPLATE = f"SELECT sym, price, qty FROM trades WHERE {BAND}"
CLIENT_NAME = "client-{client}"
WIDTH, SPAN = 0.25, 200  # of a band: one trade in a hundred thousand is in it


@dataclass(frozen=True, slots=True)
class HandWritten:
    """One rule with a text of its own; `holds` says the same about trades as `where`."""

    name: str
    columns: str
    where: str
    holds: Callable[[Trades], Mask]

    @property
    def text(self) -> str:
        return f"SELECT {self.columns} FROM trades WHERE {self.where}"


@dataclass(frozen=True)
class Bands:
    """The constants of the client rules: every client waits for trades in a band of prices and sizes."""

    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]
    few: npt.NDArray[np.int32]
    many: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.low)

    def table(self) -> pa.Table:
        """As parameters of the template: a row is a rule."""
        return pa.table(
            {
                "client": np.arange(1, len(self) + 1),
                "low": self.low,
                "high": self.high,
                "few": self.few,
                "many": self.many,
            }
        )

    def matches(self, trades: Trades, k: int) -> npt.NDArray[np.int64]:
        """The trades in band `k`: those in its price range, by sorting, and of these the ones of its size."""
        begin = np.searchsorted(trades.sorted_price, self.low[k], side="left")
        end = np.searchsorted(trades.sorted_price, self.high[k], side="right")
        rows = trades.by_price[begin:end]
        qty = trades.qty[rows]
        return rows[(qty >= self.few[k]) & (qty <= self.many[k])]


def client_bands(n: int, seed: int) -> Bands:
    """Bands for `n` clients, anywhere in the market."""
    rng = np.random.default_rng(seed)
    low = np.round(rng.uniform(LOWEST_PRICE, HIGHEST_PRICE - WIDTH, n), 2)
    few = rng.integers(1, LARGEST_QTY - SPAN, n).astype(np.int32)
    return Bands(low, np.round(low + WIDTH, 2), few, (few + SPAN).astype(np.int32))


HAND_WRITTEN = (
    HandWritten("penny", "sym, price", "price < 1.02", lambda t: t.price < 1.02),
    HandWritten(
        "whale",
        "sym, price, qty, price * qty AS value",
        "price * qty > 4960000",
        lambda t: t.price * t.qty > 4_960_000,
    ),
    HandWritten(
        "dark block",
        "sym, venue, qty",
        "venue LIKE 'dark%' AND qty > 9998",
        lambda t: t.venue_is(lambda venue: venue.startswith("dark")) & (t.qty > 9998),
    ),
    HandWritten(
        "round price",
        "sym, price",
        "price % 100 = 0 AND NOT venue = 'retail'",
        lambda t: (np.fmod(t.price, 100) == 0) & ~t.venue_is(lambda venue: venue == "retail"),
    ),
    HandWritten(
        "edges",
        "sym, price, qty",
        "sym RLIKE '^[A-C].*E$' AND (price > 499.95 OR qty < 2)",
        lambda t: t.sym_is(looks_like("^[A-C].*E$")) & ((t.price > 499.95) | (t.qty < 2)),
    ),
    HandWritten(
        "cheap shop",
        "sym, price, CASE WHEN qty > 5000 THEN 'many' ELSE 'few' END AS size",
        "CASE WHEN venue = 'retail' THEN price ELSE price * 10 END < 1.1",
        lambda t: np.where(t.venue_is(lambda venue: venue == "retail"), t.price, t.price * 10) < 1.1,
    ),
)
DROPPED = "whale"
ADDED = HandWritten(
    "slump",
    "sym, price, qty",
    "sym IN ('ACME', 'CORE') AND price < 1.5 AND venue <> 'retail'",
    lambda t: (
        t.sym_is(lambda sym: sym in ("ACME", "CORE"))
        & (t.price < 1.5)
        & ~t.venue_is(lambda venue: venue == "retail")
    ),
)
