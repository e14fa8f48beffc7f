"""Orders of filters by brute force: every row walked, every order tried, every count made by looking again.

Rows are lists of drop bits, one per filter. Shares nothing with `eddyline.routing`.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import permutations
from typing import Any

Rows = Sequence[Sequence[Any]]


def walk(row: Sequence[Any], order: Sequence[int]) -> int | None:
    """The position at which a row is dropped."""
    for position, k in enumerate(order):
        if row[k]:
            return position
    return None


def cost(
    order: Sequence[int], rows: Rows, costs: Sequence[Any], weights: Sequence[Any] | None = None
) -> Fraction:
    """Mean cost of a row: each is walked, and pays every filter it meets."""
    total = weight_of_all = Fraction(0)
    for number, row in enumerate(rows):
        weight = Fraction(1 if weights is None else weights[number])
        at = walk(row, order)
        met = order if at is None else order[: at + 1]
        total += weight * sum(Fraction(costs[k]) for k in met)
        weight_of_all += weight
    return total / weight_of_all


def least_cost(rows: Rows, costs: Sequence[Any], weights: Sequence[Any] | None = None) -> Fraction:
    """Of the best of all orders."""
    return min(cost(order, rows, costs, weights) for order in permutations(range(len(costs))))


def view(order: Sequence[int], window: Rows) -> list[list[int | None]]:
    """V by its definition; nothing below the diagonal."""
    n = len(order)
    found: list[list[int | None]] = [[None] * n for _ in range(n)]
    for i in range(n):
        alive = [row for row in window if not any(row[order[before]] for before in range(i))]
        for j in range(i, n):
            found[i][j] = sum(1 for row in alive if row[order[j]])
    return found


def worth(drops: int, price: Any) -> Fraction | float:
    if drops == 0:
        return Fraction(0)
    return float("inf") if price == 0 else Fraction(drops) / Fraction(price)


def violations(order: Sequence[int], window: Rows, costs: Sequence[Any], slack: Any = 1) -> list[int]:
    """Every position whose filter is worse than a later one would be there."""
    found = []
    for i in range(len(order)):
        alive = [row for row in window if not any(row[k] for k in order[:i])]
        value = [worth(sum(1 for row in alive if row[k]), costs[k]) for k in order]
        if any(value[i] < slack * value[j] for j in range(i + 1, len(order))):
            found.append(i)
    return found


def has_invariant(order: Sequence[int], window: Rows, costs: Sequence[Any]) -> bool:
    """The Greedy Invariant."""
    return not violations(order, window, costs)


def replay(
    rows: Rows, coins: Sequence[int], order: Sequence[int], costs: Sequence[Any], n_window: int, slack: Any
) -> tuple[list[int], list[int]]:
    """A-Greedy tuple by tuple, with the order chosen anew where violated: orders that violate nothing may differ in ties.

    The position each row was dropped at (-1: never), and the filters each ran.
    """
    order, window = list(order), []
    dropped_at, n_run = [], []
    for row, coin in zip(rows, coins, strict=True):
        at = walk(row, order)
        dropped_at.append(-1 if at is None else at)
        n_run.append(len(order) if at is None or coin else at + 1)
        if coin and at is not None:
            window = [*window, row][-n_window:]
            while wrong := violations(order, window, costs, slack):
                i = wrong[0]
                alive = [old for old in window if not any(old[k] for k in order[:i])]
                values = [worth(sum(1 for old in alive if old[k]), costs[k]) for k in order[i:]]
                m = i + values.index(max(values))
                order[i], order[m] = order[m], order[i]
    return dropped_at, n_run
