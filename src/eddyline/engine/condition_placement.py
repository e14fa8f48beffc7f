"""Whether expensive conditions on inputs of joins are asked before the probe or after it: what rounds did, and what follows.

Only the driver decides (routing/predicate_placement.py has the costs); a decision stands from the plan of a round to its commit.
Tasks get the filters that follow from it with their plan. What tasks and workers did comes back with the round.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eddyline.engine.join_plans import BOTH, DerivedPlans, cheap, local
from eddyline.engine.relation_filters import RelationFilters
from eddyline.engine.round_output import RoundOutput
from eddyline.events import ConditionsMoved, Event
from eddyline.filters import FilterStage
from eddyline.joins import JoinStage
from eddyline.model import BY_COST, ExecutionChoices, Role, Signature, StreamPlan
from eddyline.operators import OperatorInput
from eddyline.routing import AFTER, InputWork, PredicatePlacement, Router
from eddyline.sql import input_names, signature_words
from eddyline.statistics import MeasuredCosts

PROBE, COMBINATION = 0, 1
UNMEASURED_S = (1e-6, 1e-6)  # of either, on a row
ASKED_ONCE = (Role.WINDOW, Role.CURRENT)  # what functions gave on rows of tables is not remembered


@dataclass(frozen=True, slots=True)
class _Totals:
    """Work for an input since it began, in all places."""

    n_probed: int = 0
    n_matched: int = 0
    n_combinations: int = 0  # of the signature
    probe_s: float = 0.0
    output_s: float = 0.0  # of making combinations and filtering them, expensive filters apart
    n_rows: int = 0  # that expensive filters were asked about before the probe
    asked_rows: Mapping[str, int] = field(default_factory=dict)  # by filter
    filter_s: float = 0.0  # that these took


@dataclass(slots=True)
class _KnownInput:
    placement: PredicatePlacement
    plan: StreamPlan | None = None  # the last one
    saves_filters: bool = False  # nothing is asked before the probe, if what is expensive is not
    totals: _Totals = _Totals()  # when it was last observed
    output_s: float = 0.0
    costs: MeasuredCosts = field(default_factory=lambda: MeasuredCosts(2, declared_s=UNMEASURED_S))
    is_warm: list[bool] = field(default_factory=lambda: [False, False])  # the first time, loops are loaded


class ConditionPlacements:
    """The inputs with expensive conditions, and by which plan each is asked."""

    def __init__(self, variants: DerivedPlans, filters: RelationFilters, joins: JoinStage) -> None:
        self._variants = variants
        self._filters = filters
        self._joins = joins
        self._inputs: dict[OperatorInput, _KnownInput] = {}
        self._filter_s: dict[str, float] = {}  # by signature: what its expensive filters took

    def asked_plan(
        self, plan: StreamPlan, place: int, choices: ExecutionChoices
    ) -> tuple[StreamPlan, FilterStage] | None:
        """By what rows of an input are wanted: all that is said of it alone, or what is cheap to ask. None: all rows are."""
        variant = local(place)
        if not self._variants.is_dear(plan, place):
            self._inputs.pop((plan.stream, place), None)
        elif self._is_after(plan, place, choices):
            variant = cheap(place)
        if self._variants.wants_all(plan, variant):
            return None
        return self._variants.of(plan, variant), self._filters.of_input(plan.stream, variant)

    def _is_after(self, plan: StreamPlan, place: int, choices: ExecutionChoices) -> bool:
        known = self._inputs.get((plan.stream, place))
        if known is None:
            known = self._inputs[plan.stream, place] = _KnownInput(_new_placement(plan, place))
        if known.plan is not plan:
            known.plan, role = plan, _signature(plan).inputs[place].role
            known.placement.is_remembered = role in ASKED_ONCE and self._variants.is_dear_by_calls(
                plan, place
            )
            known.saves_filters = self._variants.wants_all(plan, cheap(place))
        side = known.placement.side if choices.placement == BY_COST else choices.placement
        return side == AFTER

    def keep(self, signatures: Container[str]) -> None:
        """Forget the inputs of other signatures."""
        self._inputs = {who: known for who, known in self._inputs.items() if who[0] in signatures}
        self._filter_s = {name: took for name, took in self._filter_s.items() if name in signatures}

    # ----------------------------------------------------------------------------------------- learning

    def observe(self, round_number: int, output: RoundOutput, choices: ExecutionChoices) -> Iterator[Event]:
        """Take in what a round did, before it commits; the changes that follow hold from the next one on."""
        by_name = self._joins.plan.by_name
        taken_s = {name: self._taken_s(name, output) for name in {name for name, _ in self._inputs}}
        for who, known in self._inputs.items():
            if who[0] in by_name:
                known.output_s += taken_s[who[0]]
                work = self._work(who, known, output)
                if choices.placement == BY_COST and (work.n_rows or work.n_combinations):
                    costs = known.costs.cost_s
                    move = known.placement.observe(
                        work,
                        probe_s=float(costs[PROBE]),
                        combination_s=float(costs[COMBINATION]),
                        judged_by=choices.judged_by,
                    )
                    if move is not None:
                        yield _event(round_number, by_name[who[0]].signature, who[1], known.placement)

    def _taken_s(self, name: str, output: RoundOutput) -> float:
        """Seconds that the filters of a signature took in this round, expensive ones apart."""
        relations = (name.lower(), f"{name}/{BOTH}".lower())
        records = [output.records[each] for each in relations if each in output.records]
        filters = [each for each in map(self._filters.find, relations) if each is not None]
        filter_s = sum(each.router.totals.seconds + each.router.totals.extra_s for each in filters)
        before, self._filter_s[name] = self._filter_s.get(name, 0.0), filter_s
        return max(0.0, sum(each.cpu_s for each in records) - (filter_s - before))

    def _work(self, who: OperatorInput, known: _KnownInput, output: RoundOutput) -> InputWork:
        """What was done for an input since it was last observed."""
        before, now = known.totals, self._totals(who, known)
        known.totals = now
        n_probed, n_matched = now.n_probed - before.n_probed, now.n_matched - before.n_matched
        n_combinations = now.n_combinations - before.n_combinations
        for what, n, took_s in (
            (PROBE, n_probed, now.probe_s - before.probe_s),
            (COMBINATION, n_combinations, now.output_s - before.output_s),
        ):
            if known.is_warm[what]:
                known.costs.add(what, n, took_s)
            known.is_warm[what] = known.is_warm[what] or n > 0
        is_after, router = known.placement.side == AFTER, self._router(who)
        n_asked = output.asked.get(who, 0)
        if not is_after and (output.probes or f"{who[0]}/{local(who[1])}".lower() in output.walked):
            n_asked = 0  # of rows that a task has asked, which is not known to others
        elif not known.placement.is_remembered:
            n_asked = n_matched if is_after else 0
        asked_rows = {key: n - before.asked_rows.get(key, 0) for key, n in now.asked_rows.items()}
        filter_s = 0.0
        if not is_after and known.saves_filters:
            filter_s = max(0.0, output.asking_s[who] - (now.filter_s - before.filter_s))
        return InputWork(
            n_rows=n_probed if is_after else max(n_probed, now.n_rows - before.n_rows),
            n_probed=n_probed,
            n_matched=n_matched,
            n_combinations=n_combinations,
            n_asked=n_asked,
            udf_s=0.0 if is_after else asking_s(router, asked_rows),
            filter_s=filter_s,
        )

    def _totals(self, who: OperatorInput, known: _KnownInput) -> _Totals:
        name, place = who
        origins = {at: each.counters for (of, at), each in self._joins.origins.items() if of == name}
        own, asking = origins.get(place), self._router(who).totals
        return _Totals(
            n_probed=0 if own is None else own.n_drivers,
            n_matched=0 if own is None else own.n_matched_drivers,
            n_combinations=sum(each.n_combinations for each in origins.values()),
            probe_s=0.0 if own is None else own.probe_s,
            output_s=known.output_s + sum(each.output_s for each in origins.values()),
            n_rows=asking.n_rows,
            asked_rows=dict(asking.asked_rows),
            filter_s=asking.seconds + asking.extra_s,
        )

    def _router(self, who: OperatorInput) -> Router:
        return self._filters.of_input(who[0], local(who[1])).router

    # ----------------------------------------------------------------------------------------- to look at

    def facts(self, who: OperatorInput, choices: ExecutionChoices) -> dict[str, Any] | None:
        """Where an input is asked and by which figures; None if nothing expensive is said of it, or no round has met it."""
        known = self._inputs.get(who)
        if known is None:
            return None
        chosen = {} if choices.placement == BY_COST else {"side": choices.placement}
        return known.placement.snapshot() | chosen


def _signature(plan: StreamPlan) -> Signature:
    join = next(iter(plan.with_bodies.by_shape)).join
    assert join is not None, plan.stream
    return join.signature


def _new_placement(plan: StreamPlan, place: int) -> PredicatePlacement:
    """A row of the left of an outer join is asked whether it has a partner or not."""
    return PredicatePlacement(asks_every_row=bool(_signature(plan).outer) and place == 0)


def asking_s(router: Router, asked_rows: Mapping[str, int]) -> float:
    """Seconds of asking filters about so many rows, by what they cost now. Of those with one core the first pays for it."""
    statistics, cores = router.statistics, router.filters.cores or tuple(range(len(router.keys)))
    asked = np.array([asked_rows.get(key, 0) for key in router.keys], np.float64)
    total_s = float((asked * statistics.follow_cost_s).sum())
    for core in dict.fromkeys(cores):
        mine = [k for k, each in enumerate(cores) if each == core]
        first = max(mine, key=lambda k: asked[k])
        total_s += float(asked[first] * (statistics.cost_s[first] - statistics.follow_cost_s[first]))
    return total_s


def _event(
    round_number: int, signature: Signature, place: int, placement: PredicatePlacement
) -> ConditionsMoved:
    figures = placement.figures()
    return ConditionsMoved(
        round_number,
        signature_words(signature),
        input_names(signature)[place],
        placement.incumbent,
        figures.before_s,
        figures.after_s,
        figures.udf_s,
        figures.probe_s,
        figures.pass_rate,
        figures.match_rate,
    )
