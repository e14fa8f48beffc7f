"""Linear programs: the least cost that meets some demands. The only door to SciPy, which is loaded when something is solved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from eddyline.routing.policy import FloatVector


class Demand(NamedTuple):
    """The sum of variables times factors must be at least this."""

    factors: Mapping[int, float]
    at_least: float


@dataclass(frozen=True)
class LeastCost:
    """The optimum, and values of the variables that reach it."""

    cost: float
    values: FloatVector


def least_cost(
    cost: Sequence[float] | FloatVector,
    demands: Sequence[Demand],
    *,
    lower: Sequence[float] | FloatVector | None = None,
    upper: Sequence[float] | FloatVector | None = None,
) -> LeastCost:
    """Values between `lower` (0) and `upper` (1) that meet all demands at least cost; the demands must be possible to meet.

    Which of several optima is found may differ between versions of the solver.
    """
    n = len(cost)
    low: FloatVector = np.zeros(n) if lower is None else np.asarray(lower, np.float64)
    high: FloatVector = np.ones(n) if upper is None else np.asarray(upper, np.float64)
    costs = np.asarray(cost, np.float64)
    if not demands:
        values = np.where(costs < 0, high, low)
        return LeastCost(float(costs @ values), values)
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    starts = np.cumsum([0, *(len(demand.factors) for demand in demands)])
    columns = [column for demand in demands for column in demand.factors]
    factors = [factor for demand in demands for factor in demand.factors.values()]
    # Costs in seconds may be 1e-7: scaled, so that the solver's tolerances do not swallow them.
    scale = float(np.abs(costs).max()) or 1.0
    solved = linprog(
        costs / scale,
        A_ub=csr_array((-np.asarray(factors, np.float64), columns, starts), shape=(len(demands), n)),
        b_ub=[-demand.at_least for demand in demands],
        bounds=np.column_stack([low, high]),
        method="highs",
    )
    assert solved.status == 0, f"{solved.message} ({n} variables, {len(demands)} demands)"
    return LeastCost(float(solved.fun) * scale, np.asarray(solved.x, np.float64))
