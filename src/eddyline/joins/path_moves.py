"""What the cheaper relatives of A-Greedy do to an order of probes: Independent, LocalSwaps and Sweep, on paths.

Paper: Babu, Motwani, Munagala, Nishizawa, Widom, "Adaptive Ordering of Pipelined Stream Filters", SIGMOD 2004: the variants of
A-Greedy.

    policy         what is compared
    independent    what each path drops per second of all sampled rows, as if none knew of another
    local_swaps    each probe with the next one alone; one swap at a time
    sweep          one probe with those before it; the next time another one

An input is behind its parent in every order: a move that would put it before is not made.

Differs from the paper: all three judge by the sampled rows that A-Greedy has, which take all paths. So they save no probes of
sampled rows here, and evidence need not be dropped when an order changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from eddyline.joins.join_tree import JoinTree
from eddyline.routing import Costs, ratio

Order = tuple[int, ...]


def swapped_neighbours(
    tree: JoinTree,
    columns: Sequence[int],
    rows: int,
    cost_s: Costs,
    order: Order,
    *,
    slack: float,
    min_support: int,
) -> Order:
    """The order with the first pair of neighbours swapped of which the second is clearly better; `columns` are by input."""
    alive = rows
    for at, (first, second) in enumerate(pairwise(order)):
        if tree.parents[second] != first and _is_better(
            columns, alive, cost_s, second, first, slack=slack, min_support=min_support
        ):
            return (*order[:at], second, first, *order[at + 2 :])
        alive ^= alive & columns[first]
    return order


def moved_forward(
    tree: JoinTree,
    columns: Sequence[int],
    rows: int,
    cost_s: Costs,
    order: Order,
    examined_place: int,
    *,
    slack: float,
    min_support: int,
) -> Order:
    """The order with the probe at one place moved before the first that is clearly worse, unless that is its own parent."""
    examined, alive = order[examined_place], rows
    for at, other in enumerate(order[:examined_place]):
        is_behind_parent = tree.parents[examined] not in order[at:examined_place]
        if is_behind_parent and _is_better(
            columns, alive, cost_s, examined, other, slack=slack, min_support=min_support
        ):
            return (*order[:at], examined, *order[at:examined_place], *order[examined_place + 1 :])
        alive ^= alive & columns[other]
    return order


def _is_better(
    columns: Sequence[int],
    alive: int,
    cost_s: Costs,
    rival: int,
    own: int,
    *,
    slack: float,
    min_support: int,
) -> bool:
    """Whether one path drops clearly more per second than another, of the rows that come to both."""
    drops = (alive & columns[rival]).bit_count()
    own_ratio = ratio((alive & columns[own]).bit_count(), cost_s[own])
    return drops >= min_support and own_ratio < slack * ratio(drops, cost_s[rival])
