"""Rows walk an order of filters whose answers are known beforehand, and a policy learns from the sampled ones.

Tuple at a time, as the paper measures, the order may change after every row; only a sampled row that was dropped can change it,
so all rows between two of those are walked at once. In batches, as the engine runs, the order is fixed within a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from eddyline.routing import Profile, Statistics
from eddyline.routing.in_order import InOrder
from eddyline.routing.policy import BoolMatrix, FloatVector
from eddyline.routing.sweep import IntVector
from eddyline.statistics.change_detection import BatchObservation, ChangeDetector, Drift, places_of
from eddyline.statistics.sampling import sampled_mask, uniforms


@dataclass
class Run:
    """What a policy did with a stream. Work and extra are costs, of evaluations that rows needed and of those only sampled."""

    work: FloatVector  # of each row
    extra: float
    n_emitted: int
    orders: list[tuple[int, tuple[int, ...]]]  # from which row on, and which
    drifts: list[tuple[int, Drift]] = field(default_factory=list)
    n_sampled: int = 0

    def mean_work(self, first: int = 0, until: int | None = None) -> float:
        return float(self.work[first:until].mean())

    @property
    def total_work(self) -> float:
        return float(self.work.sum())

    @property
    def mean_extra(self) -> float:
        return self.extra / len(self.work)

    @property
    def n_reorders(self) -> int:
        return len(self.orders) - 1

    def mean_of(self, cost: dict[tuple[int, ...], float], first: int, until: int) -> float:
        """The mean of a cost of orders, by how long each stood from row `first` to `until`."""
        total, ends = 0.0, [*(start for start, _ in self.orders[1:]), len(self.work)]
        for (start, order), end in zip(self.orders, ends, strict=True):
            total += cost[order] * max(0, min(end, until) - max(start, first))
        return total / (until - first)


def walked(
    dropped: BoolMatrix, order: Sequence[int], costs: Sequence[float]
) -> tuple[FloatVector, IntVector]:
    """What each row costs, and the position at which it is dropped; n where it is not."""
    n = len(order)
    in_order = dropped[:, list(order)]
    at = np.where(in_order.any(axis=1), in_order.argmax(axis=1), n)
    paid = np.cumsum([costs[k] for k in order])
    return paid[np.minimum(at, n - 1)], at


def tuple_at_a_time(
    dropped: BoolMatrix, policy: InOrder, costs: Sequence[float], *, rate: float, seed: int
) -> Run:
    """The paper's loop: the coin falls before the row is processed, and the order may change after it."""
    n_rows = len(dropped)
    statistics = Statistics.of_costs(costs)
    coins = sampled_mask(np.arange(n_rows), seed, rate)
    events = np.flatnonzero(coins & dropped.any(axis=1))
    work, extra, n_emitted = np.empty(n_rows), 0.0, 0
    orders, first = [(0, policy.order)], 0
    for event, row in zip(events.tolist(), dropped[events], strict=True):
        bits = row.tolist()
        at = next(place for place, k in enumerate(policy.order) if bits[k])
        more = policy.filters_to_sample(at)
        extra += sum(costs[k] for k in more)
        if policy.learn(_seen(row, policy.order[: at + 1], more), statistics):
            work[first : event + 1], positions = walked(dropped[first : event + 1], orders[-1][1], costs)
            n_emitted += int((positions == len(costs)).sum())
            first = event + 1
            orders.append((first, policy.order))
    work[first:], positions = walked(dropped[first:], orders[-1][1], costs)
    n_emitted += int((positions == len(costs)).sum())
    return Run(work, extra, n_emitted, orders, n_sampled=len(events))


def _seen(row: np.ndarray, run: Sequence[int], more: Sequence[int]) -> Profile:
    known = np.zeros((1, len(row)), bool)
    known[0, [*run, *more]] = True
    return Profile(row[None] & known, known)


def in_batches(
    dropped: BoolMatrix,
    policy: InOrder,
    costs: Sequence[float],
    *,
    n_batch: int,
    seed: int,
    rate: float = 0.0,
    detector: ChangeDetector | None = None,
) -> Run:
    """The engine's loop. With a detector the rate is its, and it says when to forget what was sampled."""
    n_rows, n = dropped.shape
    statistics = Statistics.of_costs(costs)
    coins = uniforms(np.arange(n_rows), seed)
    work, extra, n_emitted, n_sampled = np.empty(n_rows), 0.0, 0, 0
    orders, drifts = [(0, policy.order)], []
    if detector is not None:
        rate = detector.rate_for(n_batch)
    for first in range(0, n_rows, n_batch):
        batch = dropped[first : first + n_batch]
        order = policy.order
        work[first : first + n_batch], at = walked(batch, order, costs)
        n_emitted += int((at == n).sum())
        chosen = np.flatnonzero((coins[first : first + n_batch] < rate) & (at < n))
        known = np.zeros((len(chosen), n), bool)
        spent = np.zeros(n + 1)
        for position in range(n):
            these = at[chosen] == position
            more = policy.filters_to_sample(position)
            known[np.ix_(these, [*order[: position + 1], *more])] = True
            spent[position] = sum(costs[k] for k in more)
        extra += float(spent[at[chosen]].sum())
        n_sampled += len(chosen)
        is_forgetting = False
        if detector is not None:
            reached = len(batch) - np.concatenate([[0], np.bincount(at, minlength=n + 1).cumsum()])
            asked, passed = np.empty(n, np.int64), np.empty(n, np.int64)
            asked[list(order)], passed[list(order)] = reached[:n], reached[1 : n + 1]
            advice = detector.observe(
                BatchObservation(
                    places=places_of(order),
                    asked_rows=asked,
                    passed_rows=passed,
                    cost_s=np.where(asked >= 256, np.asarray(costs), np.nan),
                    n_rows=len(batch),
                    n_profiled=len(chosen),
                    extra_s=float(spent[at].mean()),
                    useful_s=float(work[first : first + n_batch].mean()),
                )
            )
            rate, is_forgetting = advice.rate, advice.forget
            drifts += [(first + len(batch), drift) for drift in advice.drifts]
        if is_forgetting:
            policy.forget()
        elif policy.learn(Profile(batch[chosen] & known, known), statistics):
            orders.append((first + len(batch), policy.order))
    return Run(work, extra, n_emitted, orders, drifts, n_sampled)
