"""Nothing lost, nothing twice: the alerts of the home against all that must be there, pair by pair.

The trades are made again in one piece and judged by NumPy, which knows nothing of rounds, workers or the engine's SQL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eddyline.api import Engine
from eddyline.demo.market import Market, Trades
from eddyline.demo.rules import Bands, HandWritten

Pairs = npt.NDArray[np.int64]

PIECE = 1_000_000  # trades that are looked at together
_ROW_BITS = 36  # a pair is the id of a rule and, in the lower bits, the number of a trade
FIRST_ARRIVAL = 1  # of trade 0


@dataclass(frozen=True, slots=True)
class ActiveRule:
    """A rule by hand, and the trades over which it was active."""

    query_id: int
    rule: HandWritten
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class DemoProof:
    """What a comparison of pairs found."""

    n_alerts: int
    n_expected: int
    n_lost: int
    n_twice: int
    n_wrong: int

    @property
    def holds(self) -> bool:
        return not (self.n_lost or self.n_twice or self.n_wrong)


def compared(stored: Pairs, expected: Pairs) -> DemoProof:
    """How stored alerts, in any order, differ from the expected ones, of which there is one of each."""
    distinct = np.unique(stored)
    n_common = len(np.intersect1d(distinct, expected, assume_unique=True))
    return DemoProof(
        n_alerts=len(stored),
        n_expected=len(expected),
        n_lost=len(expected) - n_common,
        n_twice=len(stored) - len(distinct),
        n_wrong=len(distinct) - n_common,
    )


def stored_pairs(engine: Engine) -> Pairs:
    """Every alert that the home keeps, also of rules that were dropped."""
    durable = engine.rounds.durable
    assert durable is not None
    with engine.rounds.lock:
        parts = [
            _pairs(part.query_ids, part.arrivals - FIRST_ARRIVAL) for _, part in durable.results()
        ]  # no round runs any more
    return np.concatenate([*parts, np.empty(0, np.int64)])


def expected_pairs(
    market: Market, n_trades: int, bands: Bands, band_ids: Sequence[int], by_hand: Iterable[ActiveRule]
) -> Pairs:
    """Every alert there must be after `n_trades` trades. Client rules were active from the first to the last."""
    by_hand = list(by_hand)
    found: list[Pairs] = [np.empty(0, np.int64)]
    for first in range(0, n_trades, PIECE):
        trades = Trades(market.trades(first, min(PIECE, n_trades - first)))
        found += (_pairs(query_id, first + bands.matches(trades, k)) for k, query_id in enumerate(band_ids))
        found += _by_hand(trades, first, by_hand)
    return np.concatenate(found)


def _by_hand(trades: Trades, first: int, rules: Iterable[ActiveRule]) -> Iterator[Pairs]:
    for rule in rules:
        rows = first + np.flatnonzero(rule.rule.holds(trades))
        yield _pairs(rule.query_id, rows[(rows >= rule.first) & (rows < rule.end)])


def n_within(pairs: Pairs, first: int, n: int) -> int:
    """How many of the pairs are about trades `first` to `first + n - 1`."""
    rows = pairs & ((1 << _ROW_BITS) - 1)
    return int(np.count_nonzero((rows >= first) & (rows < first + n)))


def _pairs(query_ids: int | npt.NDArray[np.int32], rows: npt.NDArray[np.int64]) -> Pairs:
    assert not len(rows) or 0 <= rows.min() <= rows.max() < 1 << _ROW_BITS, (rows.min(), rows.max())
    return (np.asarray(query_ids, np.int64) << _ROW_BITS) | rows
