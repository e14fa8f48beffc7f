"""A policy for other filters that knows what the one before it had learned.

Queries come and go, and with them filters. Those that stay keep their order among themselves; new ones come last, where they
cost least until something is known of them. Evidence is kept as far as it speaks of all filters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from eddyline.routing.learner import Learner
from eddyline.routing.policy import FilterSet, Statistics

Followed = TypeVar("Followed", bound=Learner)


def carried_order(
    order: tuple[int, ...], filters: FilterSet, same: Mapping[int, int], statistics: Statistics
) -> tuple[int, ...]:
    """An order of the new filters: the old ones in their old order, then new ones, the cheapest first."""
    new_of = {old: new for new, old in same.items()}
    assert len(new_of) == len(same), f"two filters cannot both have been one: {dict(same)}"
    surviving_filters = [new_of[old] for old in order if old in new_of]
    new_filters = [k for k in range(filters.n_filters) if k not in same]
    return (*surviving_filters, *sorted(new_filters, key=lambda k: float(statistics.cost_s[k])))


def following_policy(
    before: Followed, filters: FilterSet, same: Mapping[int, int], statistics: Statistics
) -> Followed:
    """The policy for new filters; `same` has the old number of each new filter that was there before."""
    start = carried_order(before.current_order, filters, same, statistics)
    policy = before.anew(filters, start=start, statistics=statistics)
    policy.inherit(before, same)
    return policy
