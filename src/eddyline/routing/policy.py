"""What every routing policy can do, and the words it speaks: filters, classes, groups, profiles.

A filter is one distinct expensive clause that depends on the row alone; it drops a row where it is false or NULL. An error counts
as a pass while rows walk. A class is a distinct set of filters: all queries with the same set are one class. Filters and classes
are numbers from 0, sets of them are bits of a Python int.

Policies are pure: costs come in with `learn`, there is no clock, and those that draw lots take a seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from eddyline.statistics import LEAST_COST_S

FloatVector = npt.NDArray[np.float64]
BoolMatrix = npt.NDArray[np.bool_]


class RowGroup(NamedTuple):
    """What rows that travel together have in common."""

    evaluated_filters: int  # filters
    passed_filters: int  # of those, true (or in error)
    open_classes: int  # classes


@dataclass(frozen=True)
class FilterSet:
    """What is routed: query classes over a pool of filters."""

    queries: tuple[frozenset[int], ...]  # filters of each class
    n_filters: int
    weights: tuple[float, ...] = ()  # queries per class; () : 1 each
    cores: tuple[int, ...] = ()  # filters with the same core share their expensive part; () : all differ

    def __post_init__(self) -> None:
        assert all(0 <= k < self.n_filters for query in self.queries for k in query), self.queries
        assert len(self.weights) in (0, len(self.queries)), (self.weights, len(self.queries))
        assert len(self.cores) in (0, self.n_filters), (self.cores, self.n_filters)

    @classmethod
    def conjunction(cls, n_filters: int) -> FilterSet:
        """One query that needs all filters: the setting of the papers on filter order."""
        return cls((frozenset(range(n_filters)),), n_filters)

    @cached_property
    def filters_of(self) -> tuple[int, ...]:
        """The bitset of filters of each class."""
        return tuple(sum(1 << k for k in query) for query in self.queries)

    @cached_property
    def members(self) -> tuple[int, ...]:
        """The bitset of classes that have each filter."""
        members = [0] * self.n_filters
        for number, query in enumerate(self.queries):
            for k in query:
                members[k] |= 1 << number
        return tuple(members)

    @property
    def start(self) -> RowGroup:
        """A row on which nothing has run and every class is open."""
        return RowGroup(0, 0, (1 << len(self.queries)) - 1)

    def needed_filters(self, group: RowGroup) -> int:
        """The bitset of filters that some open class still needs."""
        evaluated, still_open = group.evaluated_filters, group.open_classes
        needed = 0
        for k, members in enumerate(self.members):
            if members & still_open and not evaluated >> k & 1:
                needed |= 1 << k
        return needed


def settled_group(filters: FilterSet, group: RowGroup) -> RowGroup:
    """The group with classes closed that wait for no filter: all theirs have passed."""
    waiting = 0
    for filter_, members in enumerate(filters.members):
        if not group.evaluated_filters >> filter_ & 1:
            waiting |= members
    return RowGroup(group.evaluated_filters, group.passed_filters, group.open_classes & waiting)


def after(filters: FilterSet, group: RowGroup, filter_: int, *, passes: bool) -> RowGroup:
    """The group that rows belong to once a filter has run on them."""
    bit = 1 << filter_
    if passes:
        return settled_group(
            filters, RowGroup(group.evaluated_filters | bit, group.passed_filters | bit, group.open_classes)
        )
    still_open = group.open_classes & ~filters.members[filter_]
    return settled_group(filters, RowGroup(group.evaluated_filters | bit, group.passed_filters, still_open))


def bits(of: int) -> Iterator[int]:
    """The members of a bitset, ascending."""
    while of:
        lowest = of & -of
        yield lowest.bit_length() - 1
        of ^= lowest


@dataclass(frozen=True)
class Profile:
    """Sampled rows of one batch, in order of arrival, all filters they could need evaluated."""

    dropped_mask: BoolMatrix  # [rows, filters]
    known_mask: BoolMatrix  # [rows, filters]; dropped is False where not known
    open_classes: tuple[
        int, ...
    ] = ()  # classes that were open on each row before any filter ran; () : all classes

    def __post_init__(self) -> None:
        assert self.dropped_mask.shape == self.known_mask.shape, (
            self.dropped_mask.shape,
            self.known_mask.shape,
        )
        assert len(self.open_classes) in (0, len(self.dropped_mask)), (
            len(self.open_classes),
            len(self.dropped_mask),
        )

    def __len__(self) -> int:
        return len(self.dropped_mask)

    def part(self, first: int, end: int) -> Profile:
        """Some of the rows."""
        return Profile(self.dropped_mask[first:end], self.known_mask[first:end], self.open_classes[first:end])


@dataclass(frozen=True)
class Statistics:
    """What is known of the filters now. Comes in with every call; policies keep no clock."""

    cost_s: FloatVector  # mean seconds on one row, >= 1e-9
    follow_cost_s: FloatVector  # the same on a row on which another filter of its core has run

    @classmethod
    def of_costs(cls, cost_s: Sequence[float] | FloatVector) -> Statistics:
        """Filters of these costs that share nothing."""
        costs = np.maximum(np.asarray(cost_s, np.float64), LEAST_COST_S)
        return cls(costs, costs)


@dataclass(frozen=True)
class OrderChange:
    """An order changed, and why: position `at`, the filter that came there and the one it displaced.

    The ratios are the drops per second of both there: the share it drops of the sampled rows that get to `at`, by the seconds it
    takes for one.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    at: int
    entering_filter: int
    displaced_filter: int
    entering_ratio: float
    displaced_ratio: float


class Policy(Protocol):
    """Decides which filter runs next."""

    @property
    def name(self) -> str: ...

    def next(self, group: RowGroup) -> int:
        """Which filter these rows run next. Only called while some open class needs one."""
        ...

    def learn(self, profile: Profile, statistics: Statistics) -> list[OrderChange]:
        """Take in the sampled rows of a batch; called between batches, after which `next` may answer differently."""
        ...

    def snapshot(self) -> dict[str, Any]:
        """The order or the first choice, and the evidence for it, ready for JSON."""
        ...

    def check(self) -> None: ...
