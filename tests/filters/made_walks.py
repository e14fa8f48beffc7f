"""Rows whose answers are written down, walking through the real executor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eddyline.expressions import Context
from eddyline.filters.filter_pool import Filter, FilterPool
from eddyline.filters.shared_strategy import DecisionTree, SharedWalk
from eddyline.routing.in_order import InOrder
from eddyline.routing.learner import Learner
from eddyline.routing.policy import FilterSet, Statistics
from eddyline.routing.router import POLICIES
from eddyline.routing.walk_records import Routing, WalkRecord
from tests.oracles.filter_walks import ERROR

CODES = {False: 0, True: 1, ERROR: 2}


def pool_of(
    queries: Sequence[Sequence[int]], cost_s: Sequence[float], cores: Sequence[str] | None = None
) -> FilterPool:
    """A pool of filters that are only names; they are f0, f1, …"""
    pool = FilterPool(Context())
    for k, each in enumerate(cost_s):
        pool.add(Filter(f"f{k}", (), cores[k] if cores else f"f{k}", each))
    for query in queries:
        pool.add_class(frozenset(query))
    return pool


def policy_of(name: str, pool: FilterPool, cost_s: Sequence[float], **settings: Any) -> Learner:
    filters = FilterSet(tuple(pool.classes), len(pool.filters), (), pool.cores())
    statistics = Statistics.of_costs(cost_s)
    return POLICIES[name](filters, start=range(len(cost_s)), statistics=statistics, **settings)


def routing_of(pool: FilterPool, policy: Learner, rate: float = 0.0, generation: int = 0) -> Routing:
    return Routing(pool.keys, tuple(pool.classes), policy, generation, rate)


class Answers:
    """What filters say of rows, and what they were asked: `answers[row][filter]` is True, False or ERROR."""

    def __init__(self, answers: Sequence[Sequence[Any]], cost_s: Sequence[float] | None = None) -> None:
        self.answers = answers
        self._codes = np.array([[CODES[each] for each in row] for row in answers], np.int8)
        self._cost_s = cost_s
        self.now_s = 0.0
        self.asked: list[list[int]] = [[] for _ in answers]  # by row, in order
        self.calls: list[tuple[int, int]] = []  # filter, rows

    def ask(self, k: int, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        self.calls.append((k, len(rows)))
        for row in rows.tolist():
            self.asked[row].append(k)
        if self._cost_s is not None:
            self.now_s += len(rows) * self._cost_s[k]
        codes = self._codes[rows, k]
        wrong = np.where(codes == CODES[ERROR], k + 1, 0).astype(np.int32)
        return codes == CODES[True], wrong if wrong.any() else None

    def clock(self) -> float:
        return self.now_s


def every_pair(pool: FilterPool, n_rows: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Every class is open on every row."""
    n = len(pool.classes)
    return [(np.repeat(np.arange(n_rows), n), np.tile(np.arange(n), n_rows))]


def walk(
    pool: FilterPool,
    policy: Learner,
    answers: Answers,
    *,
    pairs: Sequence[tuple[np.ndarray, np.ndarray]] | None = None,
    sampled: np.ndarray | None = None,
    small_group: int = 0,
    tree: DecisionTree | None = None,
) -> tuple[SharedWalk, WalkRecord]:
    """Let all rows walk; level by level if the policy has an order, else by its tree."""
    n_rows = len(answers.answers)
    given = every_pair(pool, n_rows) if pairs is None else pairs
    walking = SharedWalk(pool, n_rows, given, answers.ask, clock=answers.clock)
    if tree is None and not isinstance(policy, InOrder):
        tree = DecisionTree(policy)
    return walking, walking.run(routing_of(pool, policy), tree, sampled, small_group=small_group)


def became(walking: SharedWalk, pool: FilterPool, row: int, number: int) -> str:
    """What the walk says of a pair: "match", "none" or "dead"."""
    here, classes = np.array([row]), np.array([number])
    if not walking.survive(here, classes)[0]:
        return "none"
    errors = [walking.errors(np.array([k]), here) for k in pool.classes[number]]
    return "dead" if any(each is not None and each[0] for each in errors) else "match"
