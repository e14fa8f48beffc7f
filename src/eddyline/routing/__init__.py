"""Which operator next: the order in which rows meet expensive filters, learned from samples.

Enters: which queries need which filters, what filters cost, and profiles, the sampled rows of a batch with every filter's answer.
Leaves: the next filter for a group of rows, and the changes of an order with the figures that caused them.

One file per algorithm. None has a clock or draws chance of its own, so a run replays exactly.
"""

from eddyline.routing.a_greedy import AGreedy
from eddyline.routing.fixed import Fixed
from eddyline.routing.fixed_greedy import FixedGreedy
from eddyline.routing.following import followed
from eddyline.routing.greedy_variant import GreedyVariant
from eddyline.routing.independent import Independent
from eddyline.routing.local_swaps import LocalSwaps
from eddyline.routing.lower_bounds import lower_bound
from eddyline.routing.phased import Phased
from eddyline.routing.policy import (
    Change,
    FilterSet,
    Group,
    OrderPolicy,
    Policy,
    Profile,
    Statistics,
)
from eddyline.routing.random_choice import RandomChoice
from eddyline.routing.shared_greedy import SharedGreedy
from eddyline.routing.sweep import Sweep
from eddyline.routing.tickets import Tickets

__all__ = [
    "AGreedy",
    "Change",
    "FilterSet",
    "Fixed",
    "FixedGreedy",
    "GreedyVariant",
    "Group",
    "Independent",
    "LocalSwaps",
    "OrderPolicy",
    "Phased",
    "Policy",
    "Profile",
    "RandomChoice",
    "SharedGreedy",
    "Statistics",
    "Sweep",
    "Tickets",
    "followed",
    "lower_bound",
]
