"""A stream through the engine's own executor and router, with answers that are looked up and a clock that only filters advance.

So a run counts work, not time, and comes out the same on every machine: evaluations by what each costs, those made only for
sampled rows among them, and a stated price for choosing and bookkeeping on a row.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from benchmarks.filters._drift import Trace
from eddyline.expressions import Context
from eddyline.filters.filter_pool import Filter, FilterPool
from eddyline.filters.shared_strategy import DecisionTree, SharedWalk
from eddyline.filters.stage import coins
from eddyline.routing.in_order import InOrder
from eddyline.routing.policy import FilterSet, FloatVector
from eddyline.routing.router import Router
from eddyline.routing.walk_records import Routing

BATCH_ROWS = 8_192
LEVELS_S, TREE_S = 1e-7, 1e-6  # overhead on a row; benchmarks/filters/shared_overhead.py


def pool_of(filters: FilterSet, declared_s: FloatVector) -> FilterPool:
    """Filters that are only names."""
    pool = FilterPool(Context())
    for k, cost_s in enumerate(declared_s.tolist()):
        pool.add(Filter(f"f{k:02}", (), f"f{k:02}", cost_s))
    for query in filters.queries:
        pool.add_class(query)
    return pool


@dataclass
class Lookup:
    """Answers of filters, and the time they would have taken."""

    passes: np.ndarray
    cost_s: FloatVector = field(default_factory=lambda: np.zeros(0))
    first: int = 0  # row of the stream at which the batch begins
    now_s: float = 0.0

    def ask(self, k: int, rows: np.ndarray) -> tuple[np.ndarray, None]:
        self.now_s += len(rows) * float(self.cost_s[k])
        return self.passes[self.first + rows, k], None

    def clock(self) -> float:
        return self.now_s


@dataclass
class Spent:
    """Seconds of one run, all by declared costs."""

    useful_s: float = 0.0
    extra_s: float = 0.0  # of evaluations for sampled rows only
    overhead_s: float = 0.0
    n_asked: int = 0
    n_extra: int = 0
    n_switches: int = 0
    decides: dict[str, int] = field(default_factory=dict)  # rows each policy decided about

    @property
    def total_s(self) -> float:
        return self.useful_s + self.extra_s + self.overhead_s


def run(trace: Trace, router: Router, *, seed: int, batch_rows: int = BATCH_ROWS) -> Spent:
    """Let a stream pass. Segments may end within a batch; then costs are those of the batch's first row."""
    pool = pool_of(trace.filters, trace.cost_s[0])
    lookup = Lookup(trace.passes)
    n_classes = len(trace.filters.queries)
    spent = Spent()
    tree: tuple[object, DecisionTree] | None = None
    for number, first in enumerate(range(0, len(trace.passes), batch_rows)):
        n = min(batch_rows, len(trace.passes) - first)
        segment = int(np.searchsorted(trace.ends, first, side="right"))
        lookup.first, lookup.cost_s = first, trace.cost_s[segment]
        pairs = [(np.repeat(np.arange(n), n_classes), np.tile(np.arange(n_classes), n))]
        walk = SharedWalk(pool, n, pairs, lookup.ask, clock=lookup.clock)
        routing = router.routing()
        tree = _tree_for(routing, tree)
        chosen = coins(np.arange(first, first + n), n, routing.rate, seed)
        walked = walk.run(routing, tree[1] if tree else None, chosen)
        walked = replace(walked, overhead_s=n * (TREE_S if walked.is_tree else LEVELS_S))
        spent.useful_s += float(walked.seconds.sum())
        spent.extra_s += walked.extra_s
        spent.overhead_s += walked.overhead_s
        spent.n_asked += int(walked.asked_rows.sum())
        spent.n_extra += int(walked.extra.sum())
        spent.decides[routing.policy.name] = spent.decides.get(routing.policy.name, 0) + n
        spent.n_switches += sum(made.kind == "switched" for made in router.learn(walked, number))
    return spent


def _tree_for(
    routing: Routing, before: tuple[object, DecisionTree] | None
) -> tuple[object, DecisionTree] | None:
    """As the stage keeps it: one tree for as long as decisions stay."""
    if isinstance(routing.policy, InOrder):
        return None
    which = routing.generation, routing.policy.name
    return before if before is not None and before[0] == which else (which, DecisionTree(routing.policy))
