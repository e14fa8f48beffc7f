"""Rows on their way through the filters: each runs what it would run alone, and no filter twice."""

from __future__ import annotations

import json
import pickle
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.filters import shared_strategy
from eddyline.filters.shared_strategy import DecisionNode, DecisionTree, SharedWalk
from eddyline.routing.in_order import InOrder
from eddyline.routing.policy import Profile, RowGroup, Statistics
from eddyline.routing.router import POLICIES
from eddyline.routing.walk_records import Routing
from tests.filters.made_walks import Answers, became, every_pair, policy_of, pool_of, routing_of, walk
from tests.oracles.filter_walks import ERROR, in_order, walked_alone
from tests.strategies import examples

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "shared_filters.json").read_text("utf-8"))
SEQUENCES = [case for case in VECTORS["cases"] if case["kind"] == "greedy_sequence"]


def alone(policy, queries, answers, at_first=None):
    """What each row would run if it came by itself."""

    def next_filter(ran, passed, undecided):
        return policy.next(RowGroup(ran, passed, undecided))

    return [
        walked_alone(queries, row.__getitem__, next_filter, None if at_first is None else at_first[number])
        for number, row in enumerate(answers)
    ]


# --------------------------------------------------------------------------------------------- what is run


def test_a_filter_runs_only_where_an_open_class_needs_it():
    pool = pool_of([[0, 1], [1, 2]], [1e-6] * 3)
    answers = Answers([[True, True, True], [False, True, True], [False, True, False], [True, False, True]])
    walking, walked = walk(pool, policy_of("fixed", pool, [1e-6] * 3), answers)
    assert answers.asked == [
        [0, 1, 2],  # both queries match
        [0, 1, 2],  # the first is refuted by 0, the second still needs 1 and 2
        [0, 1, 2],
        [0, 1],  # 1 refutes both
    ]
    assert walked.asked_rows.tolist() == [4, 4, 3]
    assert walked.passed_rows.tolist() == [2, 3, 2]
    assert [[became(walking, pool, row, q) for q in (0, 1)] for row in range(4)] == [
        ["match", "match"],
        ["none", "match"],
        ["none", "none"],
        ["none", "none"],
    ]


def test_an_error_lets_a_row_pass_and_false_beats_it():
    pool = pool_of([[0, 1]], [1e-6] * 2)
    answers = Answers([[ERROR, True], [ERROR, False], [False, ERROR], [ERROR, ERROR]])
    walking, walked = walk(pool, policy_of("fixed", pool, [1e-6] * 2), answers)
    assert [became(walking, pool, row, 0) for row in range(4)] == ["dead", "none", "none", "dead"]
    assert answers.asked == [[0, 1], [0, 1], [0], [0, 1]]
    assert walked.passed_rows.tolist() == [3, 2]  # an error counts as a pass


def test_rows_without_an_open_class_are_not_walked():
    pool = pool_of([[0]], [1e-6])
    answers = Answers([[True], [True], [False]])
    walking, walked = walk(
        pool, policy_of("fixed", pool, [1e-6]), answers, pairs=[(np.array([0, 2]), np.array([0, 0]))]
    )
    assert answers.asked == [[0], [], [0]]
    assert (walked.n_rows, walking.rows.tolist()) == (2, [0, 2])


def test_filters_and_classes_a_routing_does_not_know_run_last():
    pool = pool_of([[1, 0]], [1e-6] * 2)
    known = routing_of(pool, policy_of("fixed", pool, [1e-6] * 2))
    wider = pool_of([[1, 0], [0, 2], [2]], [1e-6] * 3)
    for policy in ("fixed", "shared_greedy"):
        routing = Routing(known.keys, known.classes, policy_of(policy, pool, [1e-6] * 2), 0, 0.0)
        answers = Answers([[True, False, True], [False, True, False], [True, True, True]])
        walking = SharedWalk(wider, 3, every_pair(wider, 3), answers.ask, clock=answers.clock)
        tree = None if policy == "fixed" else DecisionTree(routing.policy)
        walking.run(routing, tree, None, small_group=0)
        assert [[became(walking, wider, row, q) for q in range(3)] for row in range(3)] == [
            ["none", "match", "match"],
            ["none", "none", "none"],
            ["match", "match", "match"],
        ]
        assert all(sorted(asked) == sorted(set(asked)) for asked in answers.asked)
        assert [asked[-1] for asked in answers.asked] == [2, 2, 2]


# --------------------------------------------------------------------------------------------- as if alone


@st.composite
def walks(draw, max_filters=6, max_classes=5, max_rows=12):
    n = draw(st.integers(1, max_filters))
    some = st.lists(st.integers(0, n - 1), min_size=1, max_size=n, unique=True)
    queries = draw(st.lists(some, min_size=1, max_size=max_classes, unique_by=frozenset))
    answers = st.lists(st.sampled_from([True, False, ERROR]), min_size=n, max_size=n)
    taught = draw(st.lists(answers, max_size=max_rows))
    rows = draw(st.lists(answers, min_size=1, max_size=max_rows))
    costs = draw(st.lists(st.sampled_from([1e-6, 2e-6, 2e-5]), min_size=n, max_size=n))
    at_first = [
        draw(st.lists(st.integers(0, len(queries) - 1), min_size=1, unique=True).map(sorted)) for _ in rows
    ]
    return queries, costs, taught, rows, at_first


@pytest.mark.parametrize("name", sorted(POLICIES))
@given(case=walks())
@examples(0.3)
def test_each_row_runs_what_it_would_run_alone(name, case):
    queries, costs, taught, rows, at_first = case
    pool = pool_of(queries, costs)
    policy = policy_of(name, pool, costs)
    dropped = np.array([[each is False for each in row] for row in taught], bool).reshape(-1, len(costs))
    policy.learn(Profile(dropped, np.ones_like(dropped)), Statistics.of_costs(costs))
    policy = pickle.loads(pickle.dumps(policy))  # as a worker has it
    answers = Answers(rows)
    pairs = [(np.full(len(open_), row), np.array(open_)) for row, open_ in enumerate(at_first)]
    walking, walked = walk(pool, policy, answers, pairs=pairs)
    expected = alone(policy, pool.classes, rows, at_first)
    assert answers.asked == [sequence for sequence, _ in expected]
    for row, (_, verdicts) in enumerate(expected):
        assert {q: became(walking, pool, row, q) for q in at_first[row]} == verdicts
    counts = [sum(k in sequence for sequence, _ in expected) for k in range(len(costs))]
    assert walked.asked_rows.tolist() == counts
    assert not walked.extra.any()
    assert walked.is_tree is not isinstance(policy, InOrder)


@pytest.mark.vectors
@pytest.mark.parametrize("case", SEQUENCES, ids=lambda case: case["id"])
def test_rows_together_run_the_sequences_of_the_worked_examples(case):
    given_, expected = case["input"], case["expected"]
    queries = [query for query in given_["queries"] if query]
    pool = pool_of(queries, given_["c"])
    statistics = Statistics(np.array(given_["c"], float), np.array(given_["c"], float))
    filters = policy_of("shared_greedy", pool, given_["c"]).filters
    policy = POLICIES["shared_greedy"](
        filters, start=range(len(given_["c"])), statistics=statistics, pass_rate=given_["s"]
    )
    if len(pool.classes) < len(queries):  # two queries of one set of filters are one class, and count as two
        weights = [float(sum(frozenset(query) == each for query in queries)) for each in pool.classes]
        filters = type(filters)(filters.queries, filters.n_filters, tuple(weights), filters.cores)
        policy = type(policy)(
            filters, start=range(filters.n_filters), statistics=statistics, pass_rate=given_["s"]
        )
    answers = Answers([[bool(bit) for bit in item] for item in given_["items"]])
    walking, _ = walk(pool, policy, answers)
    assert answers.asked == expected["sequences"]
    number_of = {filters: number for number, filters in enumerate(pool.classes)}
    for row, results in enumerate(expected["results"]):
        for query, result in zip(given_["queries"], results, strict=True):
            is_match = not query or became(walking, pool, row, number_of[frozenset(query)]) == "match"
            assert is_match == bool(result)


def test_more_classes_than_a_word_has_bits_are_told_apart():
    rng = random.Random(5)
    queries = sorted({tuple(sorted(rng.sample(range(9), rng.randint(1, 4)))) for _ in range(150)})
    assert len(queries) > 64
    pool = pool_of(queries, [1e-6] * 9)
    rows = [[rng.choice([True, True, False, ERROR]) for _ in range(9)] for _ in range(40)]
    for name in ("fixed", "shared_greedy"):
        policy = policy_of(name, pool, [1e-6] * 9)
        answers = Answers(rows)
        walking, _ = walk(pool, policy, answers)
        expected = alone(policy, pool.classes, rows)
        assert answers.asked == [sequence for sequence, _ in expected]
        for row, (_, verdicts) in enumerate(expected):
            assert all(became(walking, pool, row, q) == verdict for q, verdict in verdicts.items())


# --------------------------------------------------------------------------------------------- small groups, many groups


@pytest.mark.parametrize("small_group", [0, 3, 64, 10_000])
def test_small_groups_change_what_is_run_and_never_what_comes_of_it(small_group):
    rng = random.Random(3)
    queries = [[0, 1, 2], [2, 3], [4, 5, 1], [0, 5]]
    pool = pool_of(queries, [1e-6] * 6)
    rows = [[rng.choice([True, False, ERROR]) for _ in range(6)] for _ in range(200)]
    answers = Answers(rows)
    policy = policy_of("shared_greedy", pool, [1e-6] * 6)
    walking, _ = walk(pool, policy, answers, small_group=small_group)
    for row, (_, verdicts) in enumerate(alone(policy, pool.classes, rows)):
        assert {q: became(walking, pool, row, q) for q in range(4)} == verdicts
    if small_group == 10_000:  # nothing but the fixed order
        twin = in_order(pool.classes, policy.current_order)
        expected = [walked_alone(pool.classes, row.__getitem__, twin)[0] for row in rows]
        assert answers.asked == expected
    assert all(len(asked) == len(set(asked)) for asked in answers.asked)


def test_all_groups_that_wait_for_a_filter_share_its_call():
    pool = pool_of([[0, 2], [1, 2]], [1e-6, 1e-6, 1e-4])
    rows = [[a, b, True] for a in (True, False, False, False) for b in (True, False)] * 5
    answers = Answers(rows)
    walk(pool, policy_of("shared_greedy", pool, [1e-6, 1e-6, 1e-4]), answers)
    # 10 rows pass the first filter and wait for the dear one; 30 run the second, and 15 of them join
    assert [n for k, n in answers.calls if k == 2] == [25]
    assert answers.calls == [(0, 40), (1, 30), (2, 25), (1, 10)]


def test_too_many_sets_of_open_classes_go_level_by_level(monkeypatch):
    monkeypatch.setattr(shared_strategy, "MOST_ROOTS", 3)
    pool = pool_of([[0], [1], [2]], [1e-6] * 3)
    rows = [[True, False, ERROR]] * 7
    at_first = [[q for q in range(3) if (row + 1) >> q & 1] for row in range(7)]
    pairs = [(np.full(len(open_), row), np.array(open_)) for row, open_ in enumerate(at_first)]
    answers = Answers(rows)
    walking, walked = walk(pool, policy_of("shared_greedy", pool, [1e-6] * 3), answers, pairs=pairs)
    assert not walked.is_tree
    assert [sorted(asked) for asked in answers.asked] == at_first
    for row, open_ in enumerate(at_first):
        assert [became(walking, pool, row, q) for q in open_] == [["match", "none", "dead"][q] for q in open_]


# --------------------------------------------------------------------------------------------- the tree


def tree_of(rows, most_nodes):
    rng = random.Random(1)
    queries = [sorted(rng.sample(range(8), 4)) for _ in range(12)]
    pool = pool_of(queries, [1e-6] * 8)
    policy = policy_of("shared_greedy", pool, [1e-6] * 8)
    tree = DecisionTree(policy, most_nodes=most_nodes)
    answers = [[rng.random() < 0.3 + 0.08 * k for k in range(8)] for _ in range(rows)]
    return pool, policy, tree, answers


def nodes_of(tree):
    return tree._all()


def test_a_tree_that_grew_too_large_keeps_its_most_visited_nodes_and_their_parents():
    pool, policy, tree, rows = tree_of(400, most_nodes=40)
    walk(pool, policy, Answers(rows), tree=tree)
    kept = nodes_of(tree)
    assert 0 < len(kept) <= 40
    assert tree.n_nodes == len(kept)
    for node in kept:
        for child in (node.yes, node.no):
            assert not isinstance(child, DecisionNode) or child.n_rows <= node.n_rows
    groups = {node.group for node in kept}
    fresh_pool, fresh_policy, fresh, _ = tree_of(400, most_nodes=100_000)
    walk(fresh_pool, fresh_policy, Answers(rows), tree=fresh)
    visited = sorted((node.n_rows for node in nodes_of(fresh)), reverse=True)
    most = {node.group for node in nodes_of(fresh) if node.n_rows > visited[len(kept)]}
    assert most <= groups


def test_a_trimmed_tree_sends_rows_the_same_way():
    pool, policy, tree, rows = tree_of(300, most_nodes=20)
    for _ in range(3):  # the second and third time partly by what was kept
        answers = Answers(rows)
        walk(pool, policy, answers, tree=tree)
        assert answers.asked == [sequence for sequence, _ in alone(policy, pool.classes, rows)]
    assert tree.n_nodes <= 20


def test_a_tree_below_its_size_keeps_everything():
    pool, policy, tree, rows = tree_of(50, most_nodes=10_000)
    walk(pool, policy, Answers(rows), tree=tree)
    before = tree.n_nodes
    tree.trim()
    assert tree.n_nodes == before == len(nodes_of(tree))


# --------------------------------------------------------------------------------------------- sampling


@pytest.mark.parametrize("name", ["fixed", "shared_greedy"])
def test_sampled_rows_run_every_filter_their_classes_have_and_the_rest_is_counted_apart(name):
    queries = [[0, 1], [2]]
    pool = pool_of(queries, [1e-6, 1e-5, 1e-6])
    rows = [[False, True, ERROR], [True, False, False], [False, ERROR, True]]
    answers = Answers(rows, [1e-6, 1e-5, 1e-6])
    pairs = [(np.array([0, 0, 1, 1, 2]), np.array([0, 1, 0, 1, 0]))]  # the second class is not open on row 2
    walking, walked = walk(
        pool,
        policy_of(name, pool, [1e-6, 1e-5, 1e-6]),
        answers,
        pairs=pairs,
        sampled=np.array([True, False, True]),
    )
    assert walked.asked_rows.tolist() == [3, 1, 2]
    assert walked.extra.tolist() == [0, 2, 0]
    assert walked.known_mask.tolist() == [[True, True, True], [True, True, False]]
    assert walked.dropped_mask.tolist() == [[True, False, False], [True, False, False]]
    assert walked.open_classes == (0b11, 0b01)
    assert walked.extra_s == pytest.approx(2e-5)
    assert walked.seconds.tolist() == pytest.approx([3e-6, 1e-5, 2e-6])
    assert all(len(asked) == len(set(asked)) for asked in answers.asked)
    assert [became(walking, pool, row, 0) for row in range(3)] == ["none", "none", "none"]


@given(walks(), st.randoms(use_true_random=False))
@examples(0.5)
def test_sampling_changes_nothing_but_what_is_known(case, rng):
    queries, costs, _, rows, at_first = case
    pool = pool_of(queries, costs)
    pairs = [(np.full(len(open_), row), np.array(open_)) for row, open_ in enumerate(at_first)]
    policy = policy_of("fixed", pool, costs)
    plain, without = walk(pool, policy, Answers(rows), pairs=pairs)
    sampled = np.array([rng.random() < 0.5 for _ in rows])
    answers = Answers(rows)
    walking, walked = walk(pool, policy, answers, pairs=pairs, sampled=sampled)
    assert walked.asked_rows.tolist() == without.asked_rows.tolist()
    assert sum(map(len, answers.asked)) == int(walked.asked_rows.sum() + walked.extra.sum())
    assert all(len(asked) == len(set(asked)) for asked in answers.asked)
    for row, open_ in enumerate(at_first):
        for q in open_:
            assert became(walking, pool, row, q) == became(plain, pool, row, q)
    chosen = np.flatnonzero(sampled)
    assert walked.n_sampled == len(chosen)
    for place, row in enumerate(chosen):
        wanted = {k for q in at_first[row] for k in pool.classes[q]}
        for k in range(len(costs)):
            assert walked.known_mask[place, k] == (k in wanted)
            assert walked.dropped_mask[place, k] == (k in wanted and rows[row][k] is False)


def test_no_more_rows_are_sampled_than_a_window_holds(monkeypatch):
    monkeypatch.setattr(shared_strategy, "MOST_SAMPLED", 4)
    pool = pool_of([[0, 1]], [1e-6] * 2)
    answers = Answers([[False, True]] * 10)
    _, walked = walk(pool, policy_of("fixed", pool, [1e-6] * 2), answers, sampled=np.ones(10, bool))
    assert walked.n_sampled == 4
    assert walked.extra.tolist() == [0, 4]


def test_a_filter_whose_core_ran_before_it_is_timed_apart():
    pool = pool_of([[0, 2], [1, 2]], [1e-6] * 3, cores=["score", "score", "other"])
    rows = [[True, True, True], [False, True, True]]
    answers = Answers(rows, [1e-5, 1e-7, 1e-6])
    _, walked = walk(pool, policy_of("fixed", pool, [1e-6] * 3), answers)
    assert walked.asked_rows.tolist() == [2, 2, 2]
    assert walked.follow_rows.tolist() == [0, 2, 0]
    assert walked.follow_seconds.tolist() == pytest.approx([0, 2e-7, 0])
    assert walked.seconds.tolist() == pytest.approx([2e-5, 2e-7, 2e-6])
    assert walked.cores == ("score", "score", "other")


def test_pairs_and_open_rows_of_each_class_are_told():
    pool = pool_of([[0], [1]], [1e-6] * 2)
    rows, classes = np.array([0, 0, 0, 1, 2]), np.array([0, 0, 1, 0, 1])  # two queries of class 0 on row 0
    answers = Answers([[True, True]] * 3)
    _, walked = walk(pool, policy_of("fixed", pool, [1e-6] * 2), answers, pairs=[(rows, classes)])
    assert walked.n_pairs.tolist() == [3, 2]
    assert walked.n_open.tolist() == [2.0, 2.0]
