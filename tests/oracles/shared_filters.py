"""What shared filters cost, the slow and obvious way: every order, every outcome, every strategy.

Queries are lists of filters; a pass rate and a cost per filter. Nothing here is shared with the policies.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import permutations, product

Queries = Sequence[Sequence[int]]


def results(queries: Queries, item: Sequence[int]) -> list[bool]:
    """Which queries a row satisfies."""
    return [all(item[j] for j in query) for query in queries]


def outcomes(pass_rate: Sequence[float]):
    """Every row there can be, and its chance."""
    for item in product((0, 1), repeat=len(pass_rate)):
        chance = 1.0
        for bit, rate in zip(item, pass_rate, strict=True):
            chance *= rate if bit else 1 - rate
        yield item, chance


def fixed_order_run(queries: Queries, order: Sequence[int], item: Sequence[int]) -> list[int]:
    """The filters that run on one row: each if a query that has it is neither true nor false when its turn comes."""
    ran: list[int] = []
    for j in order:
        for query in queries:
            is_false = any(not item[k] for k in query if k in ran)
            is_true = all(k in ran for k in query) and not is_false
            if j in query and not is_false and not is_true:
                ran.append(j)
                break
    return ran


def fixed_order_cost(
    queries: Queries, order: Sequence[int], pass_rate: Sequence[float], cost: Sequence[float]
) -> float:
    return sum(
        chance * sum(cost[j] for j in fixed_order_run(queries, order, item))
        for item, chance in outcomes(pass_rate)
        if chance > 0
    )


def best_fixed_cost(queries: Queries, pass_rate: Sequence[float], cost: Sequence[float]) -> float:
    orders = permutations(range(len(cost)))
    return min(fixed_order_cost(queries, order, pass_rate, cost) for order in orders)


def optimal_cost(queries: Queries, pass_rate: Sequence[float], cost: Sequence[float]) -> float:
    """What the best adaptive strategy costs, filters being independent: try each filter at each state."""

    @cache
    def to_go(left: frozenset[frozenset[int]]) -> float:
        if not left:
            return 0.0
        return min(
            cost[j]
            + pass_rate[j] * to_go(frozenset(query - {j} for query in left if query != {j}))
            + (1 - pass_rate[j]) * to_go(frozenset(query for query in left if j not in query))
            for j in frozenset().union(*left)
        )

    return to_go(frozenset(frozenset(query) for query in queries if query))


def optimal_cost_of_rows(
    queries: Queries,
    rows: Sequence[Sequence[int]],
    cost: Sequence[float],
    *,
    cores: Sequence[int] | None = None,
    follow_cost: Sequence[float] | None = None,
) -> float:
    """What the best adaptive strategy costs on rows that are equally likely, per row.

    A filter costs `follow_cost` where another of its core has run.
    """

    def price(j: int, evaluated: frozenset[int]) -> float:
        has_run = cores is not None and any(cores[k] == cores[j] for k in evaluated)
        return follow_cost[j] if has_run else cost[j]

    @cache
    def to_go(alike: tuple[int, ...], evaluated: frozenset[int]) -> float:
        one = rows[alike[0]]
        unresolved = [
            set(query) - evaluated
            for query in queries
            if all(one[j] for j in query if j in evaluated) and not set(query) <= evaluated
        ]
        best = None
        for j in set().union(*unresolved):
            below = price(j, evaluated) * len(alike)
            for bit in (0, 1):
                part = tuple(row for row in alike if bool(rows[row][j]) == bool(bit))
                if part:
                    below += to_go(part, evaluated | {j})
            best = below if best is None or below < best else best
        return best or 0.0

    return to_go(tuple(range(len(rows))), frozenset()) / len(rows)


def gap_instance(n: int) -> tuple[list[list[int]], list[float], list[float]]:
    """Queries, pass rates and costs on which fixed orders lose: filters 0..n-1 are free, n..2n-1 cost 1 and pass nothing.

    Group g has n queries, all with filter g and n + g; each other dear filter is in one of them, the last has none.
    """
    queries = []
    for g in range(n):
        others = [n + h for h in range(n) if h != g]
        queries += [[g, n + g, other] for other in others] + [[g, n + g]]
    return queries, [1 / n] * n + [0.0] * n, [0.0] * n + [1.0] * n
