"""What holds for every strategy over shared filters, and what for each: properties S1 to S11 of the specification."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.papers.shared_filters._decision_trees import (
    evaluated_share,
    expected_cost_s,
    in_order,
    independently,
    n_waiting,
    precompute,
    residual,
    tree_cost_s,
    tree_of,
    while_needed,
)
from benchmarks.papers.shared_filters._independent_bound import independent_bound
from eddyline.routing.chunks import Chunks
from eddyline.routing.fixed_greedy import FixedGreedy
from eddyline.routing.greedy_variant import LIKELY, REACH, GreedyVariant
from eddyline.routing.phased_policy import PhasedPolicy
from eddyline.routing.policy import FilterSet, RowGroup, Statistics, after, bits, settled_group
from eddyline.routing.shared_greedy import SharedGreedy
from tests.oracles import shared_filters as oracle

NEARLY = 1 + 1e-9
RATES = [0.0, 0.05, 0.3, 0.5, 0.7, 0.95, 1.0]


class Instance:
    """Queries over filters with known rates and costs, as policies and as the oracle see them."""

    def __init__(self, queries, pass_rate, cost) -> None:
        self.queries, self.pass_rate, self.cost = queries, pass_rate, cost
        self.filters = FilterSet(tuple(frozenset(query) for query in queries), len(cost))
        cost_s = np.array(cost, np.float64)
        known = {"statistics": Statistics(cost_s, cost_s), "pass_rate": pass_rate}
        self.greedy = SharedGreedy(self.filters, **known)
        self.variant = GreedyVariant(self.filters, **known)
        self.printed = GreedyVariant(self.filters, skips=False, **known)
        self.fixed = FixedGreedy(self.filters, **known)
        self.phased = PhasedPolicy(self.filters, **known)

    @property
    def policies(self):
        return [self.greedy, self.variant, self.fixed, self.phased]

    @property
    def optimum(self) -> float:
        return oracle.optimal_cost(self.queries, self.pass_rate, self.cost)

    @property
    def mu(self) -> int:
        return max((members.bit_count() for members in self.filters.members), default=0)

    @property
    def kappa(self) -> int:
        return max(len(query) for query in self.queries)

    def cost_of(self, policy) -> float:
        choice = while_needed(self.filters, policy.next)
        return expected_cost_s(self.filters, choice, independently(self.pass_rate), self.cost)

    def __repr__(self) -> str:
        return f"Instance({self.queries}, {self.pass_rate}, {self.cost})"


@st.composite
def instances(draw, *, most_filters=5, most_queries=5, most_in_query=4, least_queries=1, rates=RATES):
    n = draw(st.integers(1, most_filters))
    query = st.lists(st.integers(0, n - 1), max_size=min(n, most_in_query), unique=True).map(sorted)
    queries = draw(st.lists(query, min_size=least_queries, max_size=most_queries))
    pass_rate = draw(st.lists(st.sampled_from(rates), min_size=n, max_size=n))
    cost = draw(st.lists(st.sampled_from([0.0, 1.0, 2.0, 5.0, 20.0]), min_size=n, max_size=n))
    return Instance(queries, pass_rate, cost)


def walked(policy, filters: FilterSet, item) -> tuple[list[int], list[bool]]:
    """What runs on one row, and which classes turn out true."""
    group, ran = filters.start, []
    while filters.needed_filters(group):
        chosen = policy.next(group)
        assert filters.needed_filters(group) >> chosen & 1, f"{policy.name} ran {chosen}, which nobody needs"
        ran.append(chosen)
        group = after(filters, group, chosen, passes=bool(item[chosen]))
        policy.check()
    return ran, [query <= {j for j in ran if item[j]} for query in filters.queries]


@settings(deadline=None, max_examples=60)
@given(instances())
def test_s1_results_are_those_of_each_query_alone_whatever_the_strategy(instance):
    for item, _ in oracle.outcomes(instance.pass_rate):
        expected = oracle.results(instance.queries, item)
        for policy in instance.policies:
            ran, satisfied = walked(policy, instance.filters, item)
            assert satisfied == expected, policy.name
            assert len(set(ran)) == len(ran)


@settings(deadline=None, max_examples=60)
@given(instances())
def test_s2_the_tree_costs_what_its_rows_cost(instance):
    for policy in instance.policies:
        tree = tree_of(instance.filters, while_needed(instance.filters, policy.next))
        runs = [
            (chance, walked(policy, instance.filters, item)[0])
            for item, chance in oracle.outcomes(instance.pass_rate)
        ]
        share = [sum(chance for chance, ran in runs if j in ran) for j in range(instance.filters.n_filters)]
        assert evaluated_share(tree, instance.pass_rate) == pytest.approx(share)
        cost = sum(chance * sum(instance.cost[j] for j in ran) for chance, ran in runs)
        assert tree_cost_s(tree, instance.pass_rate, instance.cost) == pytest.approx(cost)
        assert instance.cost_of(policy) == pytest.approx(cost)


@settings(deadline=None, max_examples=60)
@given(instances())
def test_s2_merging_equal_residual_states_changes_no_cost(instance):
    choice = while_needed(instance.filters, instance.greedy.next)
    rates = independently(instance.pass_rate)
    merged = expected_cost_s(instance.filters, choice, rates, instance.cost, merges_residuals=True)
    assert merged == pytest.approx(instance.cost_of(instance.greedy))


@settings(deadline=None, max_examples=40)
@given(instances(), st.randoms(use_true_random=False))
def test_s2_a_fixed_order_costs_what_its_outcomes_do(instance, random):
    order = random.sample(range(instance.filters.n_filters), instance.filters.n_filters)
    tree = tree_of(instance.filters, in_order(instance.filters, order))
    expected = oracle.fixed_order_cost(instance.queries, order, instance.pass_rate, instance.cost)
    assert tree_cost_s(tree, instance.pass_rate, instance.cost) == pytest.approx(expected)


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 5), st.data())
def test_s3_one_query_is_best_served_by_rank(n, data):
    rates = data.draw(st.lists(st.sampled_from(RATES), min_size=n, max_size=n))
    costs = data.draw(st.lists(st.sampled_from([0.0, 1.0, 3.0, 20.0]), min_size=n, max_size=n))
    instance = Instance([list(range(n))], rates, costs)
    best = min(
        oracle.fixed_order_cost(instance.queries, order, rates, costs) for order in permutations(range(n))
    )
    assert instance.optimum == pytest.approx(best)
    assert instance.cost_of(instance.fixed) == pytest.approx(best)
    assert instance.cost_of(instance.greedy) == pytest.approx(best)


@settings(deadline=None, max_examples=60)
@given(instances())
def test_s4_slots_stay_within_mu_times_the_optimum(instance):
    assert instance.cost_of(instance.fixed) <= max(instance.mu, 1) * instance.optimum * NEARLY


def test_s4_the_concatenated_order_does_not():
    instance = Instance([[0, 1], [1, 2]], [0.001, 0.5, 0.001], [0.001, 1.0, 0.001])
    order = tree_of(instance.filters, in_order(instance.filters, (0, 1, 2)))
    assert tree_cost_s(order, instance.pass_rate, instance.cost) == pytest.approx(1.0015, abs=1e-4)
    assert (
        instance.cost_of(instance.fixed) == pytest.approx(instance.optimum) == pytest.approx(0.0040, abs=1e-4)
    )
    assert instance.mu == 2


@pytest.mark.parametrize(("n", "fixed"), [(2, 1.25), (3, 43 / 27), (4, 1 + 3 * 0.75**4)])
def test_s5_fixed_orders_lose_to_greedy_on_the_gap_instance(n, fixed):
    instance = Instance(*oracle.gap_instance(n))
    rates = independently(instance.pass_rate)
    order = expected_cost_s(
        instance.filters,
        in_order(instance.filters, range(2 * n)),
        rates,
        instance.cost,
        merges_residuals=True,
    )
    assert (instance.mu, instance.kappa, len(instance.queries)) == (2 * n - 1, 3, n * n)
    assert order == pytest.approx(fixed)
    assert instance.cost_of(instance.greedy) == pytest.approx(1)
    assert instance.cost_of(instance.phased) <= 5 * NEARLY
    assert instance.optimum == pytest.approx(1)


@settings(deadline=None, max_examples=60)
@given(instances())
def test_s6_bounds_are_below_the_optimum_and_strategies_above(instance):
    lp, lp_plus = (
        independent_bound(instance.filters, instance.pass_rate, instance.cost, is_strengthened=strengthened)
        for strengthened in (False, True)
    )
    optimum = instance.optimum
    assert -1e-7 <= lp <= lp_plus + 1e-7 <= optimum + 2e-7
    printed = expected_cost_s(
        instance.filters, instance.printed.choice, independently(instance.pass_rate), instance.cost
    )
    skipping = instance.cost_of(instance.variant)
    assert skipping <= printed * NEARLY
    for cost in (*(instance.cost_of(policy) for policy in instance.policies), printed):
        assert optimum <= cost * NEARLY


@settings(deadline=None, max_examples=60)
@given(instances(most_in_query=2))
def test_s7_pairs_in_phases_cost_at_most_twice_the_optimum(instance):
    assert instance.cost_of(instance.phased) <= 2 * instance.optimum * NEARLY + 1e-9


@settings(deadline=None, max_examples=60)
@given(instances())
def test_s7_phases_cost_at_most_their_factor_times_the_optimum(instance):
    factor = max(sum(range(2, instance.kappa + 1)), 1)
    assert instance.cost_of(instance.phased) <= factor * instance.optimum * NEARLY + 1e-9


@settings(deadline=None, max_examples=60)
@given(instances(most_queries=6))
def test_s8_a_phase_resolves_what_it_should(instance):
    filters = instance.filters
    phase = instance.variant.phase(filters.start)
    late_cost = sum(instance.cost[j] for j in phase.late)
    assert late_cost <= instance.optimum / (1 - LIKELY) * NEARLY + 1e-9
    assert len(set(phase.chunk)) == len(phase.chunk)
    n_open, unresolved = sum(bool(query) for query in instance.queries), 0.0
    for item, chance in oracle.outcomes(instance.pass_rate):
        group = filters.start
        for filter_ in phase.chunk:
            group = after(filters, group, filter_, passes=bool(item[filter_]))
        left = {q for q in bits(group.open_classes) if instance.queries[q]}
        assert not left & set(phase.likely_true)
        unresolved += chance * len(left)
    assert unresolved <= math.exp(-REACH) * n_open * NEARLY


@settings(deadline=None, max_examples=40)
@given(instances(), st.booleans())
def test_s9_what_is_stored_saves_as_much_as_the_best_nodes_there_are(instance, is_constant):
    filters = instance.filters
    choice = while_needed(filters, instance.greedy.next)
    overhead = (lambda _: 1.0) if is_constant else n_waiting(filters)
    everything: list[float] = []

    def visit(group: RowGroup, probability: float) -> None:
        filter_ = choice(group)
        if filter_ is not None and probability > 0:
            everything.append(probability * overhead(group))
            rate = instance.pass_rate[filter_]
            visit(after(filters, group, filter_, passes=True), probability * rate)
            visit(after(filters, group, filter_, passes=False), probability * (1 - rate))

    visit(filters.start, 1.0)
    everything.sort(reverse=True)
    for most in range(len(everything) + 2):
        stored = precompute(filters, choice, instance.greedy.pass_rate, most=most, overhead=overhead)
        assert sum(node.saves for node in stored) == pytest.approx(sum(everything[:most]))
        paths = {node.path for node in stored}
        assert all(path[:-1] in paths for path in paths if path), "a node is stored without its parent"


@settings(deadline=None, max_examples=60)
@given(instances(), st.randoms(use_true_random=False))
def test_s10_what_has_run_already_never_makes_the_rest_dearer(instance, random):
    """Rows on which any filter has run for nothing are best served, from there on, at no more than the optimum."""
    filter_ = random.randrange(instance.filters.n_filters)
    below = 0.0
    for share, passes in ((instance.pass_rate[filter_], True), (1 - instance.pass_rate[filter_], False)):
        group = after(instance.filters, instance.filters.start, filter_, passes=passes)
        left = [sorted(instance.filters.queries[q] - {filter_}) for q in bits(group.open_classes)]
        below += share * oracle.optimal_cost(left, instance.pass_rate, instance.cost)
    assert below <= instance.optimum * NEARLY + 1e-9


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 6), st.data())
def test_s11_greedy_on_one_query_is_rank_order_with_its_last_filter_forced(n, data):
    rates = data.draw(st.lists(st.sampled_from(RATES), min_size=n, max_size=n))
    costs = data.draw(st.lists(st.sampled_from([0.0, 1.0, 3.0, 20.0]), min_size=n, max_size=n))
    instance = Instance([list(range(n))], rates, costs)
    ranks = [0.0 if c == 0 else c / (1 - s) if s < 1 else math.inf for c, s in zip(costs, rates, strict=True)]
    ran, satisfied = walked(instance.greedy, instance.filters, [1] * n)
    assert ran == sorted(range(n), key=lambda j: (ranks[j], j))
    assert satisfied == [True]


# --------------------------------------------------------------------------------------------- groups


def test_a_class_whose_filters_have_all_passed_is_closed():
    filters = FilterSet((frozenset({0, 1}), frozenset({1, 2}), frozenset()), 3)
    both = after(filters, after(filters, filters.start, 0, passes=True), 1, passes=True)
    assert both == RowGroup(evaluated_filters=0b011, passed_filters=0b011, open_classes=0b010)
    assert after(filters, both, 2, passes=False) == RowGroup(
        evaluated_filters=0b111, passed_filters=0b011, open_classes=0
    )
    assert settled_group(filters, filters.start) == RowGroup(
        0, 0, 0b011
    )  # a class without filters waits for none


def test_a_class_with_a_false_filter_is_closed():
    filters = FilterSet((frozenset({0, 1}), frozenset({1, 2})), 3)
    assert after(filters, filters.start, 1, passes=False) == RowGroup(
        evaluated_filters=0b010, passed_filters=0, open_classes=0
    )
    assert after(filters, filters.start, 0, passes=False) == RowGroup(
        evaluated_filters=0b001, passed_filters=0, open_classes=0b10
    )


def test_groups_with_the_same_left_to_do_have_the_same_residual_state():
    filters = FilterSet((frozenset({0, 1}), frozenset({2, 3})), 4)
    dropped = after(filters, filters.start, 0, passes=False)
    passed = after(filters, after(filters, filters.start, 0, passes=True), 1, passes=True)
    assert dropped != passed
    assert residual(filters, dropped) == residual(filters, passed) == RowGroup(0, 0, 0b10)


# --------------------------------------------------------------------------------------------- chunks


def test_the_printed_variant_evaluates_whole_chunks_and_ours_what_is_needed():
    # Either filter alone resolves the query most of the time, but to be likely true it needs both.
    instance = Instance([[0, 1]], [0.8, 0.8], [1.0, 1.0])
    assert instance.variant.phase(instance.filters.start).chunk == (0, 1)
    rates = independently(instance.pass_rate)
    assert expected_cost_s(instance.filters, instance.printed.choice, rates, instance.cost) == 2.0
    assert instance.cost_of(instance.variant) == pytest.approx(1.8)


@pytest.mark.parametrize("kind", [GreedyVariant, PhasedPolicy])
def test_a_chunk_that_was_forgotten_on_the_way_begins_anew(kind, monkeypatch):
    monkeypatch.setattr("eddyline.routing.chunks.MOST_GROUPS", 1)
    instance = Instance([[0, 1, 2, 3], [1, 2], [2, 3, 4]], [0.5, 0.6, 0.7, 0.8, 0.9], [1.0] * 5)
    policy = instance.variant if kind is GreedyVariant else instance.phased
    for item, _ in oracle.outcomes(instance.pass_rate):
        assert walked(policy, instance.filters, item)[1] == oracle.results(instance.queries, item)


def test_a_group_reached_in_the_middle_of_two_chunks_goes_on_with_the_first():
    filters = FilterSet((frozenset({0, 1, 2}), frozenset({0})), 3)
    both, one = RowGroup(0, 0, 0b11), RowGroup(0, 0, 0b01)
    chunks = Chunks(filters, {both: (0, 1, 2), one: (0, 2, 1)}.__getitem__)
    shared = after(filters, both, 0, passes=True)
    assert shared == after(filters, one, 0, passes=True)
    assert chunks.choice(both) == 0
    assert chunks.choice(shared) == 1
    assert chunks.choice(one) == 0  # other rows, whose chunk would go on with 2
    assert chunks.choice(shared) == 1
    chunks.forget()
    assert chunks.choice(one) == 0
    assert chunks.choice(shared) == 2
    chunks.check()
