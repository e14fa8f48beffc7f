"""The papers' filters as Python functions that count, and rows pushed to an engine that calls them.

A filter is a declared function `paper_filter_<k>_of_<engine>(id)`: it looks up whether it passes each row of the push, and counts
the rows it was given. What rows needed is what the engine counts (`explain_filters`); the rest were evaluations for sampled rows.
Costs are declared in units of `UNIT_S`, and with `cost_mode = "declared"` every run routes alike, on any machine.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import eddyline
from eddyline.routing.policy import BoolMatrix, FilterSet, FloatVector

UNIT_S = 1e-4  # what a filter of cost 1 declares on a row
FREE_S = 0.0
PUSH_ROWS = 4_000  # of which 40 are sampled at one in a hundred: fewer than 32 would wait for a later push

IntMatrix = npt.NDArray[np.int64]
_numbers = itertools.count()


@dataclass(frozen=True)
class Pushes:
    """What came of some pushes, one after the other."""

    rows: npt.NDArray[np.int64]  # of each push
    calls: IntMatrix  # [pushes, filters]: rows that each function was given
    needed: IntMatrix  # of those: because a query was open
    orders: tuple[tuple[int, ...], ...]  # that the next push followed
    seconds: FloatVector

    @property
    def n_rows(self) -> int:
        return int(self.rows.sum())

    def from_row(self, first: int, until: int | None = None) -> Pushes:
        """The pushes whose rows lie between two rows."""
        begins = np.concatenate([[0], np.cumsum(self.rows)[:-1]])
        some = (begins >= first) & (begins < (self.n_rows if until is None else until))
        orders = tuple(itertools.compress(self.orders, some.tolist()))
        return Pushes(self.rows[some], self.calls[some], self.needed[some], orders, self.seconds[some])

    def needed_cost(self, costs: Sequence[float] | None = None) -> float:
        """What rows needed, on a row; calls if no costs are given."""
        return self._by_row(self.needed, costs)

    def extra_cost(self, costs: Sequence[float] | None = None) -> float:
        """What sampling took beyond that, on a row."""
        return self._by_row(self.calls - self.needed, costs)

    @property
    def rows_per_s(self) -> float:
        return self.n_rows / float(self.seconds.sum())

    def _by_row(self, calls: IntMatrix, costs: Sequence[float] | None) -> float:
        weights = np.ones(calls.shape[1]) if costs is None else np.asarray(costs, np.float64)
        return float(calls.sum(axis=0) @ weights) / max(1, self.n_rows)


class CountedEngine:
    """An engine whose queries are conjunctions of filters that count."""

    def __init__(
        self,
        n_filters: int,
        routing: str | Mapping[str, Any],
        *,
        costs: Sequence[float] | None = None,
        spins_s: float = 0.0,
        seed: int = 0,
    ) -> None:
        """`spins_s` is what a filter of cost 1 takes on a row; without it a filter takes what looking up takes."""
        self._costs = [1.0] * n_filters if costs is None else list(costs)
        self._spins_s = spins_s
        self._calls = np.zeros(n_filters, np.int64)
        self._passes = np.zeros((0, n_filters), bool)
        number = next(_numbers)
        self._names = [f"paper_filter_{k}_of_{number}" for k in range(n_filters)]
        for k, name in enumerate(self._names):
            eddyline.udf(
                returns="boolean",
                name=name,
                takes=("bigint",),
                cost=UNIT_S * self._costs[k],
                version="1",
                scalar=False,
            )(self._filter(k))
        self.engine = eddyline.open(routing=routing, results_per_query=1, seed=seed)
        self.engine.stream("s", "id BIGINT")

    def _filter(self, k: int) -> Callable[[pa.Array], pa.Array]:
        def looked_up(id: pa.Array) -> pa.Array:
            self._calls[k] += len(id)
            if self._spins_s:
                until = time.perf_counter() + len(id) * self._spins_s * self._costs[k]
                while time.perf_counter() < until:
                    pass
            return pa.array(self._passes[id.to_numpy(zero_copy_only=False), k])

        return looked_up

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.engine.close()

    def ask(self, *queries: Collection[int]) -> Self:
        """Register queries, the filters of each in the order they are given."""
        for query in queries:
            where = " AND ".join(f"{self._names[k]}(id)" for k in query)
            self.engine.query(f"SELECT id FROM s WHERE {where}")
        return self

    def ask_all(self, filters: FilterSet) -> Self:
        return self.ask(*(sorted(query) for query in filters.queries))

    def push(self, passes: BoolMatrix, *, push_rows: int = PUSH_ROWS) -> Pushes:
        """Push rows, so many at a time; row k passes filter j where `passes[k, j]`."""
        rows, calls, needed, orders, seconds = [], [], [], [], []
        for first in range(0, len(passes), push_rows):
            self._passes = passes[first : first + push_rows]
            ids = pa.table({"id": np.arange(len(self._passes))})
            calls_before, needed_before = self._calls.copy(), self._needed()
            began = time.perf_counter()
            self.engine.push("s", ids)
            seconds.append(time.perf_counter() - began)
            rows.append(len(self._passes))
            calls.append(self._calls - calls_before)
            needed.append(self._needed() - needed_before)
            orders.append(self.order)
        return Pushes(np.array(rows), np.array(calls), np.array(needed), tuple(orders), np.array(seconds))

    @property
    def router(self) -> Any:
        return self.engine.rounds.flow.filters.of("s").router

    @property
    def filter_numbers(self) -> list[int]:
        """Our numbers of the filters that the router knows, by its own."""
        return [_number_of(key) for key in self.router.keys]

    @property
    def order(self) -> tuple[int, ...]:
        numbers = self.filter_numbers
        return tuple(numbers[k] for k in self.router.incumbent.current_order)

    def _needed(self) -> npt.NDArray[np.int64]:
        found = np.zeros(len(self._calls), np.int64)
        for key, n in self.router.totals.asked_rows.items():
            found[_number_of(key)] = n
        return found


def _number_of(key: str) -> int:
    found = re.search(r"paper_filter_(\d+)_of_", key)
    assert found is not None, key
    return int(found.group(1))


def with_share(policy: str, sampled: float | None) -> dict[str, Any]:
    """Options of `routing=` with which such a share of rows is sampled; None: as many as the engine finds right."""
    return {"policy": policy} if sampled is None else {"policy": policy, "sample": sampled}


def declared(policy: str, sampled: float | None = None) -> dict[str, Any]:
    """The same, by which a run repeats exactly."""
    return with_share(policy, sampled) | {"cost_mode": "declared"}
