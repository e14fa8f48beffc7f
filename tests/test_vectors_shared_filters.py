"""The worked examples of the specification of shared filters, exactly."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.papers.shared_filters._decision_trees import (
    Node,
    evaluated_share,
    expected_cost_s,
    in_order,
    independently,
    n_waiting,
    precompute,
    tree_cost_s,
    tree_of,
    while_needed,
)
from benchmarks.papers.shared_filters._independent_bound import independent_bound
from eddyline.routing.fixed_greedy import FixedGreedy
from eddyline.routing.greedy_variant import GreedyVariant, phase
from eddyline.routing.lower_bounds import lower_bound
from eddyline.routing.phased_policy import PhasedPolicy
from eddyline.routing.policy import FilterSet, Profile, Statistics, after
from eddyline.routing.shared_greedy import SharedGreedy
from tests.oracles import shared_filters as oracle

pytestmark = pytest.mark.vectors

VECTORS = json.loads(
    Path(os.environ.get("EDDYLINE_VECTORS", Path(__file__).parent / "vectors"))
    .joinpath("shared_filters.json")
    .read_text(encoding="utf-8")
)


def cases(kind: str) -> list[Any]:
    return [pytest.param(case, id=case["id"]) for case in VECTORS["cases"] if case["kind"] == kind]


def near(expected: Any) -> Any:
    return pytest.approx(expected, rel=1e-7, abs=1e-7)


def filter_set(given: dict[str, Any]) -> FilterSet:
    return FilterSet(tuple(frozenset(query) for query in given["queries"]), len(given["c"]))


def statistics(given: dict[str, Any]) -> Statistics:
    cost_s = np.array(given["c"])  # a cost of zero stays one
    return Statistics(cost_s, cost_s)


def cost_of(given: dict[str, Any], policy: Any) -> float:
    filters = filter_set(given)
    cost_s = expected_cost_s(
        filters, while_needed(filters, policy.next), independently(given["s"]), given["c"]
    )
    policy.check()
    return cost_s


def walked(policy: Any, filters: FilterSet, item: list[int]) -> tuple[list[int], list[bool]]:
    """What runs on one row, and which classes it satisfies."""
    group, ran = filters.start, []
    while filters.needed_filters(group):
        ran.append(policy.next(group))
        group = after(filters, group, ran[-1], passes=bool(item[ran[-1]]))
        policy.check()
    satisfied = [query <= {j for j in ran if item[j]} for query in filters.queries]
    return ran, satisfied


def test_every_kind_of_case_is_replayed():
    assert Counter(case["kind"] for case in VECTORS["cases"]).keys() == {
        "fixed_cost",
        "tree_cost",
        "fixed_greedy",
        "greedy_sequence",
        "bounds",
        "variant_phase",
        "precompute",
        "correlated",
        "phased_bound",
    }


@pytest.mark.parametrize("case", cases("fixed_cost"))
def test_a_fixed_order_costs_what_its_tree_does(case):
    given, expected = case["input"], case["expected"]
    filters = filter_set(given)
    tree = tree_of(filters, in_order(filters, given["order"]))
    assert evaluated_share(tree, given["s"]) == near(expected["e"])
    assert tree_cost_s(tree, given["s"], given["c"]) == near(expected["cost"])
    assert oracle.fixed_order_cost(given["queries"], given["order"], given["s"], given["c"]) == near(
        expected["cost"]
    )


@pytest.mark.parametrize("case", cases("tree_cost"))
def test_a_tree_costs_what_its_nodes_do(case):
    def node(of: Any) -> Node | None:
        return None if of is None else Node(of[0], node(of[1]), node(of[2]))

    given, expected = case["input"], case["expected"]
    assert evaluated_share(node(given["tree"]), given["s"]) == near(expected["e"])
    assert tree_cost_s(node(given["tree"]), given["s"], given["c"]) == near(expected["cost"])


@pytest.mark.parametrize("case", cases("fixed_greedy"))
def test_a_slot_looks_at_its_own_query(case):
    given, expected = case["input"], case["expected"]
    policy = FixedGreedy(filter_set(given), statistics=statistics(given), pass_rate=given["s"])
    assert policy.slots == [tuple(slot) for slot in expected["slots"]]
    assert cost_of(given, policy) == near(expected["cost"])
    assert oracle.optimal_cost(given["queries"], given["s"], given["c"]) == near(expected["opt"])
    assert max(members.bit_count() for members in policy.filters.members) == expected["mu"]


@pytest.mark.parametrize("case", cases("greedy_sequence"))
def test_greedy_runs_these_filters_in_this_order(case):
    given, expected = case["input"], case["expected"]
    filters = filter_set(given)
    policy = SharedGreedy(filters, statistics=statistics(given), pass_rate=given["s"])
    found = [walked(policy, filters, item) for item in given["items"]]
    assert [ran for ran, _ in found] == expected["sequences"]
    assert [satisfied for _, satisfied in found] == expected["results"]


@pytest.mark.parametrize("case", cases("bounds"))
def test_costs_and_bounds_of_an_instance(case):
    given, expected = case["input"], case["expected"]
    filters, known = filter_set(given), {"statistics": statistics(given), "pass_rate": given["s"]}
    whole_chunks = GreedyVariant(filters, skips=False, **known)
    found = {
        "opt": lambda: oracle.optimal_cost(given["queries"], given["s"], given["c"]),
        "greedy": lambda: cost_of(given, SharedGreedy(filters, **known)),
        "greedy_variant": lambda: expected_cost_s(
            filters, whole_chunks.choice, independently(given["s"]), given["c"]
        ),
        "greedy_variant_skip": lambda: cost_of(given, GreedyVariant(filters, **known)),
        "fixed_greedy": lambda: cost_of(given, FixedGreedy(filters, **known)),
        "best_fixed": lambda: oracle.best_fixed_cost(given["queries"], given["s"], given["c"]),
        "lp": lambda: independent_bound(filters, given["s"], given["c"], is_strengthened=False),
        "lp_plus": lambda: independent_bound(filters, given["s"], given["c"]),
        "mu": lambda: max(members.bit_count() for members in filters.members),
        "kappa": lambda: max(len(query) for query in filters.queries),
        "lam": lambda: sum(len(query) for query in filters.queries),
    }
    assert {name: found[name]() for name in expected} == near(expected)


@pytest.mark.parametrize("case", cases("variant_phase"))
def test_a_phase_picks_these_filters(case):
    given, expected = case["input"], case["expected"]
    filters = filter_set(given)
    group = filters.start
    for filter_, passes in given["known"].items():
        group = after(filters, group, int(filter_), passes=passes)
    found = phase(filters, group, given["s"], given["c"], reach=given["delta1"], likely=given["delta3"])
    assert {str(q): chance for q, chance in found.false_chance.items()} == near(expected["r"])
    assert list(found.likely_true) == expected["Qt"]
    assert list(found.late) == expected["Fl"]
    assert list(found.early) == expected["Fh"]


@pytest.mark.parametrize("case", cases("precompute"))
def test_these_nodes_are_worth_storing(case):
    given, expected = case["input"], case["expected"]
    filters = filter_set(given)
    policy = SharedGreedy(filters, statistics=statistics(given), pass_rate=given["s"])
    overhead = {"constant": lambda _: 1.0, "remaining": n_waiting(filters)}[given["overhead"]]
    choice = while_needed(filters, policy.next)
    stored, everything = (
        precompute(filters, choice, policy.pass_rate, most=most, overhead=overhead)
        for most in (given["M"], None)
    )
    assert len(everything) == expected["tree_nodes"]
    assert sorted(node.path for node in stored) == sorted(expected["stored"])
    assert {node.path: node.filter for node in stored} == expected["stored_filters"]
    left = sum(node.saves for node in everything) - sum(node.saves for node in stored)
    assert left == near(expected["residual_overhead"])


@pytest.mark.parametrize("case", cases("correlated"))
def test_correlated_filters_cost_what_their_rows_say(case):
    given, expected = case["input"], case["expected"]
    filters = filter_set(given)
    rows = np.array([bits for bits, weight in given["joint"] for _ in range(weight)], bool)
    profile = Profile(~rows, np.ones_like(rows))
    known = {"statistics": statistics(given), "pass_rate": rows.mean(axis=0), "window_rows": len(rows)}

    def cost(policy: Any) -> float:
        ran = [walked(policy, filters, row.tolist())[0] for row in rows]
        return float(np.mean([sum(given["c"][j] for j in filters_run) for filters_run in ran]))

    conditional = SharedGreedy(filters, smoothing=0.0, **known)
    conditional.learn(profile, known["statistics"])
    marginal = SharedGreedy(filters, is_conditional=False, **known)
    assert [walked(conditional, filters, bits)[0] for bits, _ in given["joint"]] == expected[
        "greedy_sequences"
    ]
    assert cost(conditional) == near(expected["greedy_conditional"])
    assert cost(marginal) == near(expected["greedy_marginal"])
    assert oracle.optimal_cost_of_rows(given["queries"], rows.tolist(), given["c"]) == near(expected["opt"])
    bound = lower_bound(filters, known["statistics"], profile, is_strengthened=False)
    assert bound == near(expected["lp_correlated"])


@pytest.mark.parametrize("case", cases("phased_bound"))
def test_phases_stay_within_their_factor(case):
    given, expected = case["input"], case["expected"]
    policy = PhasedPolicy(filter_set(given), statistics=statistics(given), pass_rate=given["s"])
    assert cost_of(given, policy) <= expected["factor"] * expected["opt"] * (1 + 1e-7)
    assert max(len(query) for query in given["queries"]) == expected["kappa"]
    assert oracle.optimal_cost(given["queries"], given["s"], given["c"]) == near(expected["opt"])
