"""Which operator next: the order in which rows meet expensive filters, learned from samples.

Enters: which queries need which filters, what filters cost, and profiles, the sampled rows of a batch with every filter's answer.
Leaves: the next filter for a group of rows, and the changes of an order with the figures that caused them.

One file per algorithm. None has a clock or draws chance of its own, so a run replays exactly.
"""

from eddyline.routing.a_greedy import MIN_FILL, MIN_SUPPORT, SLACK, WINDOW_ROWS, AGreedy
from eddyline.routing.auto import seconds_on
from eddyline.routing.decisions import Decision
from eddyline.routing.dropped_rows import DroppedRows
from eddyline.routing.fixed_greedy import FixedGreedy
from eddyline.routing.fixed_order import FixedOrder
from eddyline.routing.following import following_policy
from eddyline.routing.greedy_variant import GreedyVariant
from eddyline.routing.in_order import InOrder
from eddyline.routing.independent import Independent
from eddyline.routing.learner import Learner
from eddyline.routing.local_swaps import LocalSwaps
from eddyline.routing.lower_bounds import lower_bound
from eddyline.routing.options import ADAPTIVE, AUTO, POLICY_NAMES, RoutingOptions, routing_options
from eddyline.routing.phased_policy import PhasedPolicy
from eddyline.routing.pipeline import Costs, ratio
from eddyline.routing.policy import (
    BoolMatrix,
    FilterSet,
    FloatVector,
    OrderChange,
    Policy,
    Profile,
    RowGroup,
    Statistics,
    after,
    settled_group,
)
from eddyline.routing.predicate_placement import (
    AFTER,
    BEFORE,
    InputWork,
    PlacementFigures,
    PlacementMove,
    PredicatePlacement,
)
from eddyline.routing.random_choice import RandomChoice
from eddyline.routing.router import POLICIES, UNSAMPLED, Router
from eddyline.routing.shared_greedy import SharedGreedy
from eddyline.routing.sweep import Sweep
from eddyline.routing.tickets import DECAY, DECAY_ROWS, FLOOR, Tickets
from eddyline.routing.walk_records import Routing, WalkRecord, combined_record

__all__ = [
    "ADAPTIVE",
    "AFTER",
    "AUTO",
    "BEFORE",
    "DECAY",
    "DECAY_ROWS",
    "FLOOR",
    "MIN_FILL",
    "MIN_SUPPORT",
    "POLICIES",
    "POLICY_NAMES",
    "SLACK",
    "UNSAMPLED",
    "WINDOW_ROWS",
    "AGreedy",
    "BoolMatrix",
    "Costs",
    "Decision",
    "DroppedRows",
    "FilterSet",
    "FixedGreedy",
    "FixedOrder",
    "FloatVector",
    "GreedyVariant",
    "InOrder",
    "Independent",
    "InputWork",
    "Learner",
    "LocalSwaps",
    "OrderChange",
    "PhasedPolicy",
    "PlacementFigures",
    "PlacementMove",
    "Policy",
    "PredicatePlacement",
    "Profile",
    "RandomChoice",
    "Router",
    "Routing",
    "RoutingOptions",
    "RowGroup",
    "SharedGreedy",
    "Statistics",
    "Sweep",
    "Tickets",
    "WalkRecord",
    "after",
    "combined_record",
    "following_policy",
    "lower_bound",
    "ratio",
    "routing_options",
    "seconds_on",
    "settled_group",
]
