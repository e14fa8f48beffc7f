"""Adaptive strategies as decision trees: what follows what, what it costs, and which nodes are worth keeping.

Paper: Munagala, Srivastava, Widom, "Optimization of Continuous Queries with Shared Expensive Filters", PODS 2007: adaptive
strategies as trees, residual states, and Precompute.

    paper        here                  meaning
    node         Node                  a filter; its Yes child follows where it passed, its No child where it did not
    Pr[N]        probability           share of rows that come to a node
    e_j          evaluated_share[j]    share of rows filter j is evaluated on
    o[N]         overhead(group)       what it costs to choose at a node that is not stored
    O[N]         StoredNode.saves      Pr[N] o[N], saved by storing it

A group tells the node: two nodes of one tree differ in the result of a filter both have run. With independent filters the
residual state, the open classes and what each still needs, tells everything below, so trees fold into graphs.

Differs from the paper: leaves are not stored, and a tree of fewer nodes than asked for ends the search.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from eddyline.routing.policy import FilterSet, FloatVector, RowGroup, after, bits

Choice = Callable[[RowGroup], int | None]  # the filter a strategy runs next; None where it is at its end
PassRate = Callable[[RowGroup, int], float]  # the share of a group's rows that a filter lets through


def residual(filters: FilterSet, group: RowGroup) -> RowGroup:
    """What of a group bears on the rest of its way if filters are independent: equal for nodes that can be one."""
    wanted = 0
    for number in bits(group.open_classes):
        wanted |= filters.filters_of[number]
    return RowGroup(group.evaluated_filters & wanted, group.passed_filters & wanted, group.open_classes)


# --------------------------------------------------------------------------------------------- strategies


def while_needed(filters: FilterSet, chosen: Callable[[RowGroup], int]) -> Choice:
    """A policy's `next` as a strategy: it ends where no open class needs a filter."""
    return lambda group: chosen(group) if filters.needed_filters(group) else None


def in_order(filters: FilterSet, order: Sequence[int]) -> Choice:
    """The fixed strategy: one order, in which a filter that no open class needs is skipped."""

    def choice(group: RowGroup) -> int | None:
        needed = filters.needed_filters(group)
        return next((filter_ for filter_ in order if needed >> filter_ & 1), None)

    return choice


def independently(pass_rate: Sequence[float]) -> PassRate:
    """Filters that pass the same share of any rows."""
    return lambda _, filter_: pass_rate[filter_]


# --------------------------------------------------------------------------------------------- trees


@dataclass(frozen=True)
class Node:
    """A filter and what follows; None where nothing does."""

    filter: int
    yes: Node | None = None
    no: Node | None = None


def tree_of(filters: FilterSet, choice: Choice, group: RowGroup | None = None) -> Node | None:
    """The tree a strategy walks from a group on. It has up to 2^n nodes."""
    group = filters.start if group is None else group
    filter_ = choice(group)
    if filter_ is None:
        return None
    yes, no = (tree_of(filters, choice, after(filters, group, filter_, passes=p)) for p in (True, False))
    return Node(filter_, yes, no)


def evaluated_share(tree: Node | None, pass_rate: Sequence[float]) -> list[float]:
    """The share of rows each filter is evaluated on, filters being independent."""
    share = [0.0] * len(pass_rate)
    waiting = [(tree, 1.0)]
    while waiting:
        node, probability = waiting.pop()
        if node is not None:
            share[node.filter] += probability
            passing = pass_rate[node.filter]
            waiting += [(node.yes, probability * passing), (node.no, probability * (1 - passing))]
    return share


def tree_cost_s(
    tree: Node | None, pass_rate: Sequence[float], cost_s: Sequence[float] | FloatVector
) -> float:
    """Expected seconds on one row."""
    shares = evaluated_share(tree, pass_rate)
    return sum(share * float(cost) for share, cost in zip(shares, cost_s, strict=True))


def expected_cost_s(
    filters: FilterSet,
    choice: Choice,
    pass_rate: PassRate,
    cost_s: Sequence[float] | FloatVector,
    *,
    merges_residuals: bool = False,
) -> float:
    """Expected seconds on one row, without building the tree.

    With `merges_residuals` nodes of equal residual states are one: right only if the strategy and the pass rates look at nothing
    else, and then far fewer.
    """
    to_go: dict[RowGroup, float] = {}

    def cost_from(group: RowGroup) -> float:
        key = residual(filters, group) if merges_residuals else group
        if key not in to_go:
            filter_ = choice(group)
            if filter_ is None:
                to_go[key] = 0.0
            else:
                passing = pass_rate(group, filter_)
                to_go[key] = float(cost_s[filter_]) + sum(
                    share * cost_from(after(filters, group, filter_, passes=passes))
                    for share, passes in ((passing, True), (1 - passing, False))
                    if share > 0
                )
        return to_go[key]

    return cost_from(filters.start)


# --------------------------------------------------------------------------------------------- Precompute


@dataclass(frozen=True)
class StoredNode:
    """A node that is worth storing: rows that come to it need not choose."""

    path: str  # of Y and N from the root
    group: RowGroup
    filter: int
    probability: float
    saves: float


def precompute(
    filters: FilterSet,
    choice: Choice,
    pass_rate: PassRate,
    *,
    most: int | None,
    overhead: Callable[[RowGroup], float] = lambda _: 1.0,
    group: RowGroup | None = None,
) -> list[StoredNode]:
    """The `most` nodes of a strategy's tree that save the most overhead, the best first; all that rows come to if None.

    No node is there without its parent. The overhead of a node must not exceed its parent's.
    """
    stored: list[StoredNode] = []
    heap: list[tuple[float, int, str, StoredNode]] = []

    def offer(path: str, group: RowGroup, probability: float) -> None:
        filter_ = choice(group) if probability > 0 else None
        if filter_ is not None:
            node = StoredNode(path, group, filter_, probability, probability * overhead(group))
            # On a tie what is nearer to the root, then Yes before No: they compare the other way round.
            heapq.heappush(heap, (-node.saves, len(path), path.translate(_YES_FIRST), node))

    offer("", filters.start if group is None else group, 1.0)
    while heap and (most is None or len(stored) < most):
        node = heapq.heappop(heap)[-1]
        if node.saves <= 0:
            break
        stored.append(node)
        passing = pass_rate(node.group, node.filter)
        for letter, share, passes in (("Y", passing, True), ("N", 1 - passing, False)):
            child = after(filters, node.group, node.filter, passes=passes)
            offer(node.path + letter, child, node.probability * share)
    return stored


_YES_FIRST = str.maketrans("YN", "01")


def n_waiting(filters: FilterSet) -> Callable[[RowGroup], float]:
    """An overhead in proportion to the filters there are to choose from."""
    return lambda group: float(filters.needed_filters(group).bit_count())
