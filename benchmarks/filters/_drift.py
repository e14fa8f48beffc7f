"""Streams whose expensive filters change while they run: what each filter says of each row is known beforehand.

    permutation   pairs of filters pass 20, 40, 60, 80 % of the rows, and from the middle on 80, 60, 40, 20 %
    correlation   all filters pass half of the rows, each by itself; from the middle on, groups of four mostly agree
    cost          half of the filters cost ten times the others; in the middle they change places
    season        the share that each filter passes swings between 15 and 85 %, each with its own phase, three times
    neutral       all filters pass half of the rows, each by itself, and cost the same: nothing to gain

A filter of cost 1 takes 10 microseconds on a row, as a call of a Python function does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.papers.filter_ordering._workload import Filters
from eddyline.routing.policy import BoolMatrix, FilterSet, FloatVector

UNIT_S = 1e-5
LOW, HIGH = 0.15, 0.85  # of a season
SEASONS = 3
IN_A_GROUP = 4
DEAR = 10.0
JUDGED_ROWS = 2_000  # of a segment, by which its best order is found


@dataclass(frozen=True)
class Trace:
    """Rows, and what filters cost on them; both change at the ends of segments only."""

    name: str
    filters: FilterSet
    passes: BoolMatrix  # [rows, filters]
    ends: tuple[int, ...]  # of segments
    cost_s: tuple[FloatVector, ...]  # by segment

    @property
    def segments(self) -> list[tuple[int, int, FloatVector]]:
        """First row, end and costs of each."""
        starts = (0, *self.ends[:-1])
        return list(zip(starts, self.ends, self.cost_s, strict=True))


Made = Callable[[FilterSet, int, np.random.Generator], Trace]


def conjunction() -> FilterSet:
    """One query of eight filters."""
    return FilterSet.conjunction(8)


def shared(rng: np.random.Generator) -> FilterSet:
    """Twenty queries of two to four of twelve filters."""
    queries: dict[frozenset[int], None] = {}
    while len(queries) < 20:
        size = int(rng.integers(2, 5))
        queries[frozenset(rng.choice(12, size, replace=False).tolist())] = None
    return FilterSet(tuple(queries), 12)


# --------------------------------------------------------------------------------------------- traces


def permutation(filters: FilterSet, n_rows: int, rng: np.random.Generator) -> Trace:
    n = filters.n_filters
    rates = np.linspace(0.2, 0.8, n // 2).tolist()
    before = Filters(tuple(k // 2 for k in range(n)), tuple(rates))
    return _in_two("permutation", filters, n_rows, rng, before, before.with_rates(rates[::-1]))


def correlation(filters: FilterSet, n_rows: int, rng: np.random.Generator) -> Trace:
    n = filters.n_filters
    alone = Filters(tuple(range(n)), (0.5,) * n)
    return _in_two("correlation", filters, n_rows, rng, alone, Filters.alike(n, IN_A_GROUP))


def cost(filters: FilterSet, n_rows: int, rng: np.random.Generator) -> Trace:
    n = filters.n_filters
    alike = Filters(tuple(range(n)), (0.5,) * n)
    cost_s = UNIT_S * np.where(np.arange(n) % 2, 1.0, DEAR)
    made = _in_two("cost", filters, n_rows, rng, alike, alike)
    return Trace("cost", filters, made.passes, made.ends, (cost_s, UNIT_S * (1 + DEAR) - cost_s))


def season(filters: FilterSet, n_rows: int, rng: np.random.Generator) -> Trace:
    """Rates change smoothly; costs stay. A segment is a twelfth of a season, as long as one order may serve."""
    n = filters.n_filters
    at = np.arange(n_rows)[:, None] / n_rows * SEASONS
    phase = rng.permutation(n) / n
    rates = (LOW + HIGH) / 2 + (HIGH - LOW) / 2 * np.sin(2 * np.pi * (at + phase))
    passes = rng.random((n_rows, n)) < rates
    ends = tuple(int(end) for end in np.linspace(0, n_rows, 12 * SEASONS + 1)[1:])
    return Trace("season", filters, passes, ends, (np.full(n, UNIT_S),) * len(ends))


def neutral(filters: FilterSet, n_rows: int, rng: np.random.Generator) -> Trace:
    n = filters.n_filters
    passes = ~Filters(tuple(range(n)), (0.5,) * n).drops(n_rows, rng)
    return Trace("neutral", filters, passes, (n_rows,), (np.full(n, UNIT_S),))


DRIFTING: tuple[Made, ...] = (permutation, correlation, cost, season)


def _in_two(
    name: str, filters: FilterSet, n_rows: int, rng: np.random.Generator, before: Filters, after: Filters
) -> Trace:
    half = n_rows // 2
    passes = ~np.concatenate([before.drops(half, rng), after.drops(n_rows - half, rng)])
    return Trace(name, filters, passes, (half, n_rows), (np.full(filters.n_filters, UNIT_S),) * 2)


# --------------------------------------------------------------------------------------------- in hindsight


def reached(filters: FilterSet, passes: BoolMatrix, order: Sequence[int]) -> FloatVector:
    """The share of rows each filter runs on if all rows go by one order, a filter nobody needs any more being skipped."""
    still_open = np.ones((len(passes), len(filters.queries)), bool)
    share = np.zeros(filters.n_filters)
    for k in order:
        members = np.array([k in query for query in filters.queries])
        share[k] = still_open[:, members].any(axis=1).mean() if members.any() else 0.0
        still_open[np.ix_(~passes[:, k], members)] = False
    return share


def best_order(filters: FilterSet, passes: BoolMatrix, cost_s: FloatVector) -> tuple[int, ...]:
    """Of all orders for these rows: which rows reach a filter depends on the set of those before it alone."""
    n = filters.n_filters
    columns = [_bits(passes[:, k]) for k in range(n)]
    everything = (1 << len(passes)) - 1
    least: dict[int, tuple[float, tuple[int, ...]]] = {0: (0.0, ())}
    for those in range(1 << n):
        found, order = least.pop(those)
        if those == (1 << n) - 1:
            return order
        open_on = []
        for query in filters.queries:
            rows = everything
            for k in query:
                if those >> k & 1:
                    rows &= columns[k]
            open_on.append(rows)
        for k in range(n):
            if those >> k & 1:
                continue
            rows = 0
            for query, still_open in zip(filters.queries, open_on, strict=True):
                if k in query:
                    rows |= still_open
            offered = found + float(cost_s[k]) * rows.bit_count(), (*order, k)
            there = those | 1 << k
            least[there] = min(least.get(there, offered), offered)
    raise AssertionError("the last set has every filter")


def best_order_per_segment_s(trace: Trace, rng: np.random.Generator) -> float:
    """Seconds of evaluations if every segment went by its own best order, which nobody can know before."""
    total = 0.0
    for first, end, cost_s in trace.segments:
        rows = trace.passes[first:end]
        some = rows[rng.permutation(len(rows))[:JUDGED_ROWS]]
        order = best_order(trace.filters, some, cost_s)
        total += len(rows) * float(reached(trace.filters, rows, order) @ cost_s)
    return total


def _bits(column: np.ndarray) -> int:
    return int.from_bytes(np.packbits(column, bitorder="little").tobytes(), "little")
