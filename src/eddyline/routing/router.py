"""The router of a stream: learns from walk records, and decides how the next rows are routed.

Enters: `WalkRecord`, of this process or of workers. Leaves: a `Routing` that all of them follow, and what changed
and why.

It holds the candidates (one, or those that compete), the last sampled rows, what filters cost, and how densely to sample. Filters
and classes it has not met are added as they come; candidates go on with what they had learned.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eddyline.routing.a_greedy import AGreedy
from eddyline.routing.auto import KEPT_ROWS, Competition
from eddyline.routing.decisions import Decision, why_drifted, why_reordered, why_switched
from eddyline.routing.filter_costs import FilterCosts
from eddyline.routing.fixed_greedy import FixedGreedy
from eddyline.routing.fixed_order import FixedOrder
from eddyline.routing.following import following_policy
from eddyline.routing.greedy_variant import GreedyVariant
from eddyline.routing.in_order import InOrder
from eddyline.routing.independent import Independent
from eddyline.routing.learner import Learner
from eddyline.routing.local_swaps import LocalSwaps
from eddyline.routing.options import ADAPTIVE, AUTO, RoutingOptions
from eddyline.routing.phased_policy import PhasedPolicy
from eddyline.routing.policy import (
    BoolMatrix,
    FilterSet,
    FloatVector,
    OrderChange,
    Profile,
    Statistics,
)
from eddyline.routing.random_choice import RandomChoice
from eddyline.routing.shared_greedy import SharedGreedy
from eddyline.routing.sweep import Sweep
from eddyline.routing.tickets import Tickets
from eddyline.routing.walk_records import (
    Routing,
    WalkRecord,
    moved_bits,
    renumbered_record,
)
from eddyline.statistics import (
    BatchObservation,
    ChangeDetector,
    Drift,
    ProfileWindow,
)

COMPETING = ("a_greedy", "sweep", "shared_greedy", "fixed")
POLICIES: dict[str, type[Learner]] = {
    each.name: each
    for each in (
        FixedOrder,
        RandomChoice,
        AGreedy,
        Sweep,
        Independent,
        LocalSwaps,
        Tickets,
        SharedGreedy,
        GreedyVariant,
        FixedGreedy,
        PhasedPolicy,
    )
}
UNSAMPLED = frozenset({"fixed", "random"})  # learn nothing
SLICED_S = 0.01  # for each filter: forty times what a call takes beside its rows
SAMPLING_SHARE = 0.02  # of the seconds of filters,
SPARSE_SHARE = 0.005  # and while nothing changes
DECIDING_S = 2e-5  # what it takes to decide which filter a row would run next
COST_MOVED, CHARGED_BATCHES = 2.0, 4  # times; and so many batches between two times that all are charged anew
JUDGING_SHARE = 0.01  # of the seconds of filters
PIECE_ROWS, PIECES = 50, 4  # of sampled rows: at least so many at a time, at most so many times
LATEST = 0.1
LEAST_TIMED_ROWS = 512  # of a call: a shorter one takes its time for being made
LEAST_WATCHED_S = 2e-7  # on a row: what costs less may move
HISTORY = 200


@dataclass
class RouterTotals:
    """Work since the router began."""

    n_rows: int = 0
    n_asked_rows: int = 0  # rows filters ran on
    n_extra: int = 0  # rows they ran on to be sampled
    seconds: float = 0.0
    extra_s: float = 0.0
    overhead_s: float = 0.0
    asked_rows: dict[str, int] = field(default_factory=dict)
    pairs: list[int] = field(default_factory=list)  # by class: (row, query) pairs that were open


class Router:
    """`policy` is one of `POLICIES`, or auto."""

    def __init__(
        self, policy: str = AUTO, *, profile_rate: float | None = None, options: RoutingOptions = ADAPTIVE
    ) -> None:
        """`profile_rate` fixes the share of rows that is sampled; without it, it follows what happens. `options` are those of
        the policies; with declared costs it does not matter what filters took."""
        assert policy == AUTO or policy in POLICIES, policy
        self.policy_name = policy
        self.keys: list[str] = []
        self.classes: list[frozenset[int]] = []
        self.totals = RouterTotals()
        self.history: deque[Decision] = deque(maxlen=HISTORY)
        self._profile_rate = profile_rate
        self._last_filters: tuple[tuple[str, ...], tuple[frozenset[int], ...]] = (), ()  # the last
        self._cores: list[str] = []
        self._pairs, self._open_rows = np.zeros(0), np.zeros(0)  # by class, decayed
        self._weights: tuple[float, ...] = ()
        self._filters = FilterSet((), 0)
        names = COMPETING if policy == AUTO else (policy,)
        start = Statistics.of_costs([])
        self._candidates: dict[str, Learner] = {
            name: POLICIES[name](self._filters, start=(), statistics=start, **options.settings(name))
            for name in names
        }
        self._competition = Competition("fixed" if policy == AUTO else policy)
        self._window = ProfileWindow(0)
        self._detector = ChangeDetector(0, budget=SAMPLING_SHARE, sparse_budget=SPARSE_SHARE)
        self._costs = FilterCosts(options.cost_mode)
        self._rate = self._detector.rate_for(1)
        self._extra_s = 0.0  # on a sampled row, when one was last sampled
        self._judging_s = (
            math.inf
        )  # that judging may take now; what is saved is at most the price of all rows it looks at
        self._generation = 0
        self._charged_s, self._n_batches_charged = (
            np.ones(0),
            0,
        )  # what candidates are charged by, and how long

    # ----------------------------------------------------------------------------------------- deciding

    @property
    def incumbent(self) -> Learner:
        return self._candidates[self._competition.incumbent]

    def routing(self) -> Routing:
        """How the next rows go."""
        return Routing(
            tuple(self.keys),
            tuple(self.classes),
            self.incumbent,
            self._generation,
            self.rate,
            samples_all=self.samples_all,
        )

    @property
    def samples_all(self) -> bool:
        """Whether sampled rows are to know every filter: not if all that learns from them is a policy for one class that asks for
        less."""
        return self.policy_name == AUTO or self.incumbent.samples_all or len(self.classes) > 1

    @property
    def rate(self) -> float:
        """The share of rows to sample: none while there is nothing to order."""
        if not self._has_choice:
            return 0.0
        return self._rate if self._profile_rate is None else self._profile_rate

    @property
    def _has_choice(self) -> bool:
        return self.policy_name not in UNSAMPLED and any(len(filters) > 1 for filters in self.classes)

    @property
    def is_learning(self) -> bool:
        """Whether little is known: at first, and after a change."""
        return bool(self.rate) and self._detector.is_dense

    def is_worth_slicing(self, n_rows: int) -> bool:
        """Whether so many rows take so long that learning in between pays: each slice is a call more for every filter."""
        row_s = self._costs.row_s
        return row_s is None or n_rows * row_s >= SLICED_S * len(self.keys)

    # ----------------------------------------------------------------------------------------- learning

    def can_wait(self, record: WalkRecord) -> bool:
        """Whether little is lost if a batch is learned from later, together with others: enough is known, and it says nothing
        else."""
        if (
            self.is_learning
            or self._costs.is_declared
            or (record.n_sampled and self._profile_rate is not None)
        ):
            return False
        is_met = record.keys == tuple(self.keys) and record.classes == tuple(self.classes)
        return is_met and not self._detector.has_moved(
            record.places, record.compared_rows, record.compared_passed_rows
        )

    def note(self, record: WalkRecord) -> None:
        """Count and time a batch that can wait."""
        self._count(record)
        self._costs.add(record)

    def learn(self, record: WalkRecord, round_number: int, *, is_noted: bool = False) -> list[Decision]:
        """Take in the record of a batch, or of several that were noted; returns the new decisions."""
        if not record.keys:
            return []
        decisions = self._meet(record, round_number)
        if tuple(self.keys) != record.keys or tuple(self.classes) != record.classes:
            record = renumbered_record(record, self.keys, self.classes)
        if not is_noted:
            self._count(record)
        record = self._costs.priced(record)
        if not is_noted:
            self._costs.add(record)
        self._weigh(record)
        profile = Profile(record.dropped_mask, record.known_mask, record.open_classes)
        if (not self._has_choice or self._profile_rate == 0.0) and not record.n_sampled:
            self._learn(profile, self._costs.statistics_after(record))
            self.history.extend(decisions)
            return decisions
        drifts = self._watch(record, profile)
        statistics = self._costs.statistics_after(record)
        decisions += [self._decision(round_number, "drifted", why_drifted(drift)) for drift in drifts]
        if any(drift.what == "pass rate" for drift in drifts):
            self._window.forget()
            self._restart_competition(statistics)
            self._judging_s = math.inf
            for policy in self._candidates.values():
                policy.forget()
        else:
            self._window.append(profile.dropped_mask, profile.known_mask, profile.open_classes)
            decisions += self._learn_in_pieces(profile, statistics, round_number, self._affordable(record))
            if self._have_costs_moved(statistics):
                decisions += self._judge_again(statistics, round_number)
        self.history.extend(decisions)
        return decisions

    def _learn_in_pieces(
        self, profile: Profile, statistics: Statistics, round_number: int, n_judged: int
    ) -> list[Decision]:
        """Let candidates be charged for sampled rows, the newest `n_judged` of them, and learn from all.

        Where candidates compete, of many rows a few at a time: what was learned from the first ones is judged by the rest.
        """
        decisions, n = [], len(profile)
        size = max(PIECE_ROWS, -(-n // PIECES)) if self.policy_name == AUTO else max(1, n)
        for first in range(0, max(1, n), size):
            piece = profile.part(first, first + size)
            decisions += self._judge(
                piece, statistics, round_number, first + len(piece) - max(first, n - n_judged)
            )
            changes = self._learn(piece, statistics)
            decisions += [self._decision(round_number, "reordered", why_reordered(each)) for each in changes]
        return decisions

    def _affordable(self, record: WalkRecord) -> int:
        """How many sampled rows of a batch to judge by: it takes time of its own, a small share of what filters take."""
        row_s = DECIDING_S * max(1.0, float(record.asked_rows.sum()) / max(1, record.n_rows))
        saved_s = self._judging_s + JUDGING_SHARE * float(record.seconds.sum())
        self._judging_s = min(saved_s, KEPT_ROWS * row_s)
        n = min(KEPT_ROWS, int(self._judging_s / row_s + 1e-9))
        self._judging_s -= min(n, record.n_sampled) * row_s
        return n

    def _judge(
        self, profile: Profile, statistics: Statistics, round_number: int, most: int
    ) -> list[Decision]:
        """Let those that compete be charged for sampled rows."""
        if self.policy_name != AUTO or most <= 0:
            return []
        overheads = {
            name: self._costs.overhead_s(is_tree=not isinstance(policy, InOrder))
            for name, policy in self._candidates.items()
        }
        switch = self._competition.score(self._candidates, profile, statistics, overheads, most=most)
        if switch is None:
            return []
        self._generation += 1
        return [self._decision(round_number, "switched", why_switched(switch))]

    def _have_costs_moved(self, statistics: Statistics) -> bool:
        """Whether some filter costs twice or half as much as when candidates were last charged, as the others go."""
        self._n_batches_charged += 1
        ratios = statistics.cost_s / self._charged_s
        ratios /= np.median(ratios)
        is_moved = max(float(ratios.max()), 1 / float(ratios.min())) > COST_MOVED
        return is_moved and self._n_batches_charged >= CHARGED_BATCHES

    def _judge_again(self, statistics: Statistics, round_number: int) -> list[Decision]:
        """Filters cost something else now and say the same of rows: charge the last sampled rows by what they cost now."""
        self._restart_competition(statistics)
        return self._judge(self.sampled_rows(), statistics, round_number, KEPT_ROWS)

    def _learn(self, profile: Profile, statistics: Statistics) -> list[OrderChange]:
        """Let all candidates learn; returns the changes of the policy that decides."""
        before = _generation_of(self.incumbent)
        changes = {name: policy.learn(profile, statistics) for name, policy in self._candidates.items()}
        mine = changes[self.incumbent.name]
        if mine or _generation_of(self.incumbent) != before:
            self._generation += 1
        return mine

    def _meet(self, record: WalkRecord, round_number: int) -> list[Decision]:
        """Add filters and classes that are new."""
        if (record.keys, record.classes) == self._last_filters:
            return []
        self._last_filters = record.keys, record.classes
        place_of = {key: number for number, key in enumerate(self.keys)}
        came = [number for number, key in enumerate(record.keys) if key not in place_of]
        n_before = len(self.keys)
        for number in came:
            place_of[record.keys[number]] = len(self.keys)
            self.keys.append(record.keys[number])
            self._cores.append(record.cores[number])
        mine = [place_of[key] for key in record.keys]
        known = set(self.classes)
        new_classes = [
            each
            for each in (frozenset(mine[k] for k in filters) for filters in record.classes)
            if each not in known
        ]
        self.classes += new_classes
        if not came and not new_classes:
            return []
        if came:
            self._costs.widen([record.declared_s[number] for number in came])
            self._widen_window(n_before)
        self._rebuild({k: k for k in range(n_before)})
        return [self._decision(round_number, "joined", {"filters": len(came)})]

    def _weigh(self, record: WalkRecord) -> None:
        """How many queries a class represents on a row on which it is open, to a power of two."""
        n = len(self.classes)
        if n > len(self._pairs):
            self._pairs, self._open_rows = (
                np.pad(each, (0, n - len(each))) for each in (self._pairs, self._open_rows)
            )
        self._pairs = (1 - LATEST) * self._pairs + record.n_pairs
        self._open_rows = (1 - LATEST) * self._open_rows + record.n_open
        each = np.maximum(1.0, self._pairs / np.maximum(self._open_rows, 1e-9))
        ratios = each / np.array([*self._weights, *(1.0,) * (n - len(self._weights))])
        if (np.abs(np.log2(ratios)) > 1).any():  # half of a power is not worth new policies
            self._weights = tuple((2.0 ** np.round(np.log2(each))).tolist())
            self._rebuild({k: k for k in range(len(self.keys))})

    def keep(self, keys: Sequence[str], classes: Sequence[frozenset[int]]) -> None:
        """Forget all filters and classes but these; `classes` are sets of places in `keys`."""
        self._last_filters = (), ()
        wanted_classes = {frozenset(keys[k] for k in filters) for filters in classes}
        stay = [k for k, key in enumerate(self.keys) if key in set(keys)]
        new_of = {old: new for new, old in enumerate(stay)}
        places: list[int | None] = []
        kept_classes: list[int] = []
        for number, filters in enumerate(self.classes):
            is_wanted = frozenset(self.keys[k] for k in filters) in wanted_classes
            places.append(len(kept_classes) if is_wanted else None)
            kept_classes += [number] if is_wanted else []
        self.classes = [frozenset(new_of[k] for k in self.classes[number]) for number in kept_classes]
        self._weights = tuple(self._weights[k] for k in kept_classes if k < len(self._weights))
        self._pairs, self._open_rows = (
            _values_at(each, kept_classes) for each in (self._pairs, self._open_rows)
        )
        self.totals.pairs = [self.totals.pairs[k] for k in kept_classes if k < len(self.totals.pairs)]
        self.history = deque(
            (renumbered for each in self.history if (renumbered := each.with_numbers(new_of)) is not None),
            maxlen=HISTORY,
        )
        self.keys = [self.keys[k] for k in stay]
        self._cores = [self._cores[k] for k in stay]
        self._costs.keep(stay)
        old = self._window.rows()
        still_open = [moved_bits(each, places) for each in old.open_classes]
        same = dict(enumerate(stay))
        self._begin_window(old.dropped_mask[:, stay], old.known_mask[:, stay], still_open, same)
        self._rebuild(same)

    def _widen_window(self, n_before: int) -> None:
        """Rows that were sampled say nothing of filters that came."""
        old = self._window.rows()
        by = ((0, 0), (0, len(self.keys) - n_before))
        same = {k: k for k in range(n_before)}
        self._begin_window(np.pad(old.dropped_mask, by), np.pad(old.known_mask, by), old.open_classes, same)

    def _begin_window(
        self, dropped: BoolMatrix, known: BoolMatrix, still_open: Sequence[int], same: Mapping[int, int]
    ) -> None:
        n = len(self.keys)
        self._window = ProfileWindow(n)
        self._window.append(dropped, known, still_open)
        self._detector = self._detector.followed(n, same)
        self._rate = self._detector.rate_for(1)

    def _rebuild(self, same: Mapping[int, int]) -> None:
        """Policies for the filters and classes there are now, of which `same` were there before."""
        weights = (*self._weights, *(1.0,) * (len(self.classes) - len(self._weights)))
        first: dict[str, int] = {}
        cores = tuple(first.setdefault(core, k) for k, core in enumerate(self._cores))
        self._filters = FilterSet(tuple(self.classes), len(self.keys), weights, cores)
        statistics = self._costs.statistics()
        self._candidates = {
            name: following_policy(policy, self._filters, same, statistics)
            for name, policy in self._candidates.items()
        }
        self._restart_competition(statistics)
        self._generation += 1

    def _restart_competition(self, statistics: Statistics) -> None:
        self._competition.restart()
        self._charged_s, self._n_batches_charged = statistics.cost_s, 0

    def _count(self, record: WalkRecord) -> None:
        totals = self.totals
        totals.n_rows += record.n_rows
        totals.n_asked_rows += int(record.asked_rows.sum())
        totals.n_extra += int(record.extra.sum())
        totals.seconds += float(record.seconds.sum())
        totals.extra_s += record.extra_s
        totals.overhead_s += record.overhead_s
        for key, n in zip(record.keys, record.asked_rows.tolist(), strict=True):
            totals.asked_rows[key] = totals.asked_rows.get(key, 0) + n
        totals.pairs += [0] * (len(record.n_pairs) - len(totals.pairs))
        totals.pairs = [before + n for before, n in zip(totals.pairs, record.n_pairs.tolist(), strict=True)]

    def _watch(self, record: WalkRecord, profile: Profile) -> tuple[Drift, ...]:
        first_asked = record.asked_rows - record.follow_rows
        with np.errstate(invalid="ignore", divide="ignore"):
            cost_s = (record.seconds - record.follow_seconds) / first_asked
        is_short = first_asked < LEAST_TIMED_ROWS * np.maximum(1, record.n_calls)
        cost_s[is_short | (cost_s < LEAST_WATCHED_S)] = np.nan
        if record.n_sampled:
            self._extra_s = record.extra_s / record.n_sampled
        advice = self._detector.observe(
            BatchObservation(
                places=record.places,
                asked_rows=record.compared_rows,
                passed_rows=record.compared_passed_rows,
                cost_s=cost_s,
                n_rows=record.n_rows,
                n_profiled=int(profile.dropped_mask.any(axis=1).sum()),
                extra_s=self._extra_s,
                useful_s=float(record.seconds.sum()) / max(1, record.n_rows),
                sampled_rows=profile.known_mask.sum(axis=0),
                sampled_passed_rows=(profile.known_mask & ~profile.dropped_mask).sum(axis=0),
            )
        )
        self._rate = advice.rate
        return advice.drifts

    # ----------------------------------------------------------------------------------------- telling

    def _decision(self, round_number: int, kind: str, why: dict[str, Any]) -> Decision:
        return Decision.of(self.incumbent, round_number, kind, why)

    def snapshot(self) -> dict[str, Any]:
        """Everything there is to say, ready for JSON; filters by number, their keys beside."""
        statistics = self._costs.statistics()
        rows = self._window.rows()
        return {
            "policy": self.policy_name,
            "decides": self.incumbent.name,
            "order": list(self.incumbent.current_order),
            "filters": [
                {
                    "key": key,
                    "cost_s": float(statistics.cost_s[k]),
                    "follow_cost_s": float(statistics.follow_cost_s[k]),
                    "pass_rate": float(rate),
                    "asked": self.totals.asked_rows.get(key, 0),
                    "classes": sum(k in filters for filters in self.classes),
                }
                for k, (key, rate) in enumerate(zip(self.keys, self._window.selectivities(), strict=True))
            ],
            "classes": [sorted(filters) for filters in self.classes],
            "candidates": {name: self._competition.cost_s.get(name) for name in self._candidates},
            "evidence": self.incumbent.snapshot(),
            "sampled_rows": len(rows.dropped_mask),
            "rate": self.rate,
            "n_rows": self.totals.n_rows,
            "n_asked": self.totals.n_asked_rows,
            "n_extra": self.totals.n_extra,
            "seconds": self.totals.seconds,
            "extra_s": self.totals.extra_s,
            "overhead_s": self.totals.overhead_s,
            "history": [each.document() for each in self.history],
        }

    def sampled_rows(self) -> Profile:
        """The last sampled rows."""
        rows = self._window.rows()
        return Profile(rows.dropped_mask, rows.known_mask, rows.open_classes)

    @property
    def filters(self) -> FilterSet:
        return self._filters

    @property
    def statistics(self) -> Statistics:
        return self._costs.statistics()

    def check(self) -> None:
        for policy in self._candidates.values():
            policy.check()
        self._window.check()


def _values_at(vector: FloatVector, places: Sequence[int]) -> FloatVector:
    """The values at some places; zero beyond the end."""
    return np.array([vector[k] if k < len(vector) else 0.0 for k in places])


def _generation_of(policy: Learner) -> object:
    """What changes when a policy may decide otherwise, apart from its order."""
    return getattr(policy, "generation", getattr(policy, "n_batches", None))
