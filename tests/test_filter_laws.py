"""Expensive conditions give the same results and dead letters whatever orders them, and no function sees a row twice.

Judged by `oracles/logic.py`, which evaluates each query by itself on each row.
"""

from __future__ import annotations

import math
import pickle
import random
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eddyline
from eddyline.filters import filter_pool
from eddyline.routing import AUTO, POLICIES, RoutingOptions
from eddyline.routing.policy import RowGroup
from tests.oracles.filter_walks import strict_outcome, walked_alone
from tests.oracles.logic import ERROR, ERRS, PASSES, And, Leaf, Not, Or, outcome, sql_of
from tests.strategies import examples

SCHEMA = "id BIGINT, n BIGINT, x DOUBLE, t STRING"
Row = dict[str, Any]

# --------------------------------------------------------------------------------------------- functions

CALLS: Counter[tuple[Any, ...]] = Counter()  # function, row and constants


def _root(x: float | None) -> float | None:
    if x is not None and x < 0:
        raise ValueError("no root of a negative number")
    return None if x is None else math.sqrt(x)


def _is_fine(t: str | None) -> bool | None:
    if t == "bad":
        raise ValueError("bad")
    return None if t is None else t.startswith("a")


def _scaled(x: float | None, by: float) -> float | None:
    return None if x is None else x * by


@eddyline.udf(returns="double", name="law_root", scalar=True)
def root(id_, x):
    CALLS["root", id_] += 1
    return _root(x)


@eddyline.udf(returns="boolean", name="law_fine", scalar=True)
def fine(id_, t):
    CALLS["fine", id_] += 1
    return _is_fine(t)


@eddyline.udf(returns="double", name="law_scaled", scalar=True)
def scaled(id_, x, by):
    CALLS["scaled", id_, by] += 1
    return _scaled(x, by)


@eddyline.udf(returns="double", name="law_dice", scalar=True, deterministic=False)
def dice(id_, x):
    CALLS["dice", id_] += 1
    return _root(x)


def tried(function, *arguments):
    try:
        return function(*arguments)
    except ValueError:
        return ERROR


def compared(value: Any, is_true) -> Any:
    return value if value is None or value == ERROR else is_true(value)


# --------------------------------------------------------------------------------------------- conditions


def cheap(low: int) -> Leaf:
    return Leaf(f"n > {low}", lambda row: compared(row["n"], lambda n: n > low))


def root_above(low: float) -> Leaf:
    return Leaf(f"law_root(id, x) > {low}D", lambda row: compared(tried(_root, row["x"]), lambda v: v > low))


def scaled_below(by: float, high: float) -> Leaf:
    return Leaf(
        f"law_scaled(id, x, {by}D) < {high}D",
        lambda row: compared(_scaled(row["x"], by), lambda v: v < high),
    )


def is_fine() -> Leaf:
    return Leaf("law_fine(id, t)", lambda row: tried(_is_fine, row["t"]))


def in_a_case(low: int, least: float) -> Leaf:
    """The function is called on some rows only, in one branch or the other."""

    def truth(row: Row) -> Any:
        if row["n"] is not None and row["n"] > low:
            return compared(tried(_root, row["x"]), lambda v: v > least)
        return tried(_is_fine, row["t"])

    return Leaf(f"CASE WHEN n > {low} THEN law_root(id, x) > {least}D ELSE law_fine(id, t) END", truth)


def summed(low: float) -> Leaf:
    def truth(row: Row) -> Any:
        square = tried(_root, row["x"])
        if square == ERROR:
            return ERROR
        return None if square is None else square + _scaled(row["x"], 2.0) > low

    return Leaf(f"law_root(id, x) + law_scaled(id, x, 2.0D) > {low}D", truth)


def like(pattern: str) -> Leaf:
    return Leaf(
        f"t RLIKE '{pattern}'",
        lambda row: compared(row["t"], lambda t: re.search(pattern, t) is not None),
    )


def by_chance(low: float) -> Leaf:
    """Declared to be by chance; it is not, so that results can be compared."""
    return Leaf(f"law_dice(id, x) > {low}D", lambda row: compared(tried(_root, row["x"]), lambda v: v > low))


SMALL = st.sampled_from([-1, 0, 1, 2])
LEAVES = st.one_of(
    SMALL.map(cheap),
    SMALL.map(float).map(root_above),
    st.builds(scaled_below, st.sampled_from([2.0, -1.0]), SMALL.map(float)),
    st.builds(is_fine),
    st.builds(in_a_case, SMALL, SMALL.map(float)),
    SMALL.map(float).map(summed),
    st.sampled_from(["a+", "^b", "d$"]).map(like),
)
PARTS = st.one_of(
    LEAVES, LEAVES.map(Not), st.lists(LEAVES, min_size=2, max_size=2).map(lambda p: Or(tuple(p)))
)
CONDITIONS = st.lists(PARTS, min_size=1, max_size=4).map(lambda parts: And(tuple(parts)))
WITH_CHANCE = st.lists(st.one_of(PARTS, SMALL.map(float).map(by_chance)), min_size=1, max_size=3).map(
    lambda parts: And(tuple(parts))
)
VALUES = {
    "n": [None, -1, 0, 1, 2, 3],
    "x": [None, -4.0, -1.0, 0.0, 0.25, 1.0, 4.0, 9.0],
    "t": [None, "a", "ab", "b", "bad", "aad"],
}


@st.composite
def rows_of(draw, most=30):
    n = draw(st.integers(1, most))
    columns = {
        name: draw(st.lists(st.sampled_from(values), min_size=n, max_size=n))
        for name, values in VALUES.items()
    }
    return [{"id": k, **{name: values[k] for name, values in columns.items()}} for k in range(n)]


def random_rows(n: int, seed: int) -> list[Row]:
    rng = random.Random(seed)
    return [{"id": k, **{name: rng.choice(values) for name, values in VALUES.items()}} for k in range(n)]


# --------------------------------------------------------------------------------------------- running


@dataclass
class Ran:
    """What came of a run: (query, row) pairs."""

    matches: set[tuple[str, int]] = field(default_factory=set)
    dead: set[tuple[str, int]] = field(default_factory=set)


def opened(options: RoutingOptions, seed: int = 0) -> eddyline.Engine:
    engine = eddyline.open(results_per_query=1_000_000, seed=seed)
    engine.rounds.routing = options
    engine.stream("s", SCHEMA)
    return engine


def pushed(engine: eddyline.Engine, rows: list[Row]) -> None:
    """Push rows; no function may be shown a row twice."""
    CALLS.clear()
    columns = {name: [row[name] for row in rows] for name in ("id", "n", "x", "t")}
    schema = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("x", pa.float64()), ("t", pa.string())])
    engine.push("s", pa.table(columns, schema=schema))
    for _, stage in engine.rounds.stages():
        stage.check()
    seen = {call: n for call, n in CALLS.items() if n > 1 and call[0] != "dice"}
    assert not seen, f"called more than once: {seen}"


def told(engine: eddyline.Engine) -> Ran:
    ran = Ran()
    for query in engine.queries(per_page=1_000_000):
        results = [result["id"] for result in query.latest(1_000_000)]
        assert len(results) == len(set(results)), f"{query.name} was told a row twice"
        ran.matches |= {(query.name, row) for row in results}
    letters = [(letter.query, letter.row["id"]) for letter in engine.dead_letters()]
    assert len(letters) == len(set(letters)), "a pair died twice"
    ran.dead = set(letters)
    return ran


def expected_of(queries: dict[str, And], rows: list[Row], judge=outcome) -> Ran:
    found = {(name, row["id"]): judge(tree, row) for name, tree in queries.items() for row in rows}
    return Ran(
        {pair for pair, verdict in found.items() if verdict == PASSES},
        {pair for pair, verdict in found.items() if verdict == ERRS},
    )


def run(
    queries: dict[str, And], rows: list[Row], cuts: list[int], options: RoutingOptions, seed: int = 0
) -> Ran:
    engine = opened(options, seed)
    for name, tree in queries.items():
        engine.query(f"SELECT id FROM s WHERE {sql_of(tree)}", name=name)
    for first, until in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        if until > first:
            pushed(engine, rows[first:until])
    return told(engine)


OPTIONS = st.builds(
    RoutingOptions,
    st.sampled_from([AUTO, *sorted(POLICIES)]),
    st.just(False),
    st.sampled_from([None, 0.0, 0.01, 1.0]),
    st.sampled_from([0, 64]),
)

# --------------------------------------------------------------------------------------------- the laws


@given(
    st.lists(CONDITIONS, min_size=1, max_size=5),
    rows_of(),
    st.lists(st.integers(0, 30), max_size=2).map(sorted),
    OPTIONS,
    st.sampled_from([0, 7, 12345]),
)
@examples(0.6)
def test_results_and_dead_letters_are_those_of_each_query_by_itself(trees, rows, cuts, options, seed):
    queries = {f"q{number}": tree for number, tree in enumerate(trees)}
    cuts = [min(cut, len(rows)) for cut in cuts]
    assert run(queries, rows, cuts, options, seed) == expected_of(queries, rows)


QUERIES = {
    "sure": And((root_above(1.0), is_fine())),
    "either": And((Or((root_above(0.0), is_fine())), scaled_below(2.0, 3.0))),
    "case": And((in_a_case(1, 0.5), cheap(0))),
    "limits": And((root_above(0.5), root_above(2.0), Not(root_above(2.5)))),
    "sum": And((summed(1.0), like("a+"), Not(is_fine()))),
    "three": And((scaled_below(-1.0, 0.0), root_above(1.0), like("d$"))),
    "same": And((is_fine(), root_above(1.0))),
}


@pytest.mark.thorough
@pytest.mark.parametrize("policy", [AUTO, *sorted(POLICIES)])
def test_every_policy_rate_cut_and_group_size_gives_the_same(policy):
    rows = random_rows(240, seed=5)
    expected = expected_of(QUERIES, rows)
    assert expected.matches
    assert expected.dead
    for number, (rate, small_group, cuts) in enumerate(
        [(0.0, 0, []), (0.01, 64, [50, 51, 130]), (1.0, 0, [120]), (1.0, 64, [80, 160]), (None, 64, [200])]
    ):
        options = RoutingOptions(policy, profile_rate=rate, small_group=small_group)
        assert run(QUERIES, rows, cuts, options, seed=number) == expected, (rate, small_group, cuts)


@given(st.lists(CONDITIONS, min_size=1, max_size=4), rows_of())
@examples(0.25)
def test_in_strict_mode_conditions_run_as_they_stand_and_an_error_ends_a_pair(trees, rows):
    """Conditions the index decides come first, wherever they stand."""
    queries = {f"q{number}": tree for number, tree in enumerate(trees)}
    reordered = {name: And(tuple(sorted(tree.parts, key=_is_indexed))) for name, tree in queries.items()}
    options = RoutingOptions(AUTO, is_strict=True)
    assert run(queries, rows, [], options) == expected_of(reordered, rows, strict_outcome)


def _is_indexed(part: Any) -> bool:
    leaf = part.part if isinstance(part, Not) else part
    return not (isinstance(leaf, Leaf) and leaf.sql.startswith("n >"))


def test_strict_mode_asks_nothing_behind_an_error_and_the_plain_mode_does():
    tree = And((root_above(1.0), is_fine()))
    rows = [{"id": 0, "n": 1, "x": -1.0, "t": "b"}, {"id": 1, "n": 1, "x": 4.0, "t": "bad"}]
    for is_strict, dead, asked in ((True, {("q", 0), ("q", 1)}, 1), (False, {("q", 1)}, 2)):
        engine = opened(RoutingOptions("fixed", is_strict=is_strict))
        engine.query(f"SELECT id FROM s WHERE {sql_of(tree)}", name="q")
        pushed(engine, rows)
        assert told(engine).dead == dead
        assert sum(n for call, n in CALLS.items() if call[0] == "fine") == asked


def test_strict_mode_asks_no_function_behind_a_computed_condition_in_error():
    rows = [{"id": 0, "n": 0, "x": -1.0, "t": "b"}, {"id": 1, "n": 2, "x": 4.0, "t": "b"}]
    for is_strict, dead in ((True, {0}), (False, set())):
        engine = opened(RoutingOptions("fixed", is_strict=is_strict))
        engine.query("SELECT id FROM s WHERE id % n < 5 AND law_fine(id, t)", name="q")
        pushed(engine, rows)
        assert {row for _, row in told(engine).dead} == dead
        assert (("fine", 0) in CALLS) is not is_strict


@given(st.lists(WITH_CHANCE, min_size=1, max_size=3), rows_of(), OPTIONS)
@examples(0.2)
def test_functions_by_chance_are_never_filters_and_results_are_right(trees, rows, options):
    queries = {f"q{number}": tree for number, tree in enumerate(trees)}
    assert run(queries, rows, [], options) == expected_of(queries, rows)
    engine = opened(options)
    for name, tree in queries.items():
        engine.query(f"SELECT id FROM s WHERE {sql_of(tree)}", name=name)
    pushed(engine, rows)
    ((_, stage),) = engine.rounds.stages()
    assert not any("law_dice" in filter_["key"] for filter_ in stage.router.snapshot()["filters"])


def test_a_function_by_chance_is_called_for_every_occurrence_and_not_sampled():
    engine = opened(RoutingOptions("fixed", profile_rate=1.0))
    engine.query("SELECT id FROM s WHERE law_dice(id, x) > 0.5D AND law_root(id, x) > 1D", name="a")
    engine.query("SELECT id FROM s WHERE law_dice(id, x) > 0.5D AND law_fine(id, t)", name="b")
    rows = random_rows(60, seed=1)
    pushed(engine, rows)
    # each query asks on rows its filters have not refuted; the other's filters do not matter
    wanted = {row["id"]: 0 for row in rows}
    for row in rows:
        for condition in (root_above(1.0), is_fine()):
            truth = condition.truth(row)
            wanted[row["id"]] += int(truth is True or truth == ERROR)
    assert {row: n for (name, row), n in CALLS.items() if name == "dice"} == {
        k: n for k, n in wanted.items() if n
    }


@pytest.mark.parametrize("n_limits", [3, 200])
@pytest.mark.parametrize("policy", [AUTO, "shared_greedy", "a_greedy"])
def test_templates_with_few_and_many_constants_answer_alike(policy, n_limits):
    limits = [k * 4.0 / n_limits for k in range(n_limits)]
    rows = random_rows(150, seed=9)
    engine = opened(RoutingOptions(policy, profile_rate=0.5))
    engine.query_many(
        "SELECT id FROM s WHERE law_root(id, x) > :low AND law_fine(id, t)",
        params={"low": limits},
        name="low-{low}",
    )
    pushed(engine, rows[:100])
    pushed(engine, rows[100:])
    assert max(CALLS.values()) == 1
    ((_, stage),) = engine.rounds.stages()
    assert len(stage.router.keys) == (
        4 if n_limits == 3 else 1
    )  # many thresholds are no filters, the rest is
    names = [query.name for query in engine.queries(per_page=1_000)]
    trees = {name: And((root_above(float(name[4:])), is_fine())) for name in names}
    assert told(engine) == expected_of(trees, rows)


@pytest.mark.parametrize("is_strict", [True, False])
def test_a_call_in_a_branch_is_made_once_per_row_for_all_constants(is_strict):
    """More constants than filters are made for, and rows that take one branch for some of them and the other for others."""
    rows = random_rows(60, seed=8)
    engine = opened(RoutingOptions(AUTO, is_strict=is_strict))
    engine.query_many(
        "SELECT id FROM s WHERE CASE WHEN n > :low THEN law_root(id, x) > :least ELSE law_root(id, x) < :least END",
        params={"low": [k % 3 for k in range(90)], "least": [k / 30 for k in range(90)]},
        name="low-{low}-{least}",
    )
    pushed(engine, rows)
    assert {call for call in CALLS if call[0] == "root"} == {("root", row["id"]) for row in rows}

    def truth(row: Row, low: int, least: float) -> Any:
        above = row["n"] is not None and row["n"] > low
        return compared(tried(_root, row["x"]), lambda v: v > least if above else v < least)

    trees = {}
    for query in engine.queries(per_page=1_000):
        low, least = query.name.split("-")[1:]
        leaf = Leaf("", lambda row, low=int(low), least=float(least): truth(row, low, least))
        trees[query.name] = And((leaf,))
    assert told(engine) == expected_of(trees, rows)


@pytest.mark.parametrize("policy", [AUTO, "a_greedy", "shared_greedy", "sweep", "tickets"])
def test_queries_that_come_and_go_see_whole_rounds_and_disturb_nobody(policy):
    rng, engine = random.Random(2), opened(RoutingOptions(policy, profile_rate=0.3, small_group=0))
    rows = random_rows(400, seed=3)
    standing: dict[str, And] = {}
    expected = Ran()
    for number in range(8):
        some = [
            rng.choice(
                [
                    root_above(0.5 * number),
                    is_fine(),
                    scaled_below(2.0, 1.0 * number),
                    like("a+"),
                    summed(number),
                ]
            )
            for _ in range(3)
        ]
        standing[f"q{number}"] = And(tuple(some))
        engine.query(f"SELECT id FROM s WHERE {sql_of(standing[f'q{number}'])}", name=f"q{number}")
        here = rows[50 * number : 50 * number + 50]
        pushed(engine, here)
        now = expected_of(standing, here)
        expected = Ran(expected.matches | now.matches, expected.dead | now.dead)
        if number % 2:
            gone = rng.choice(sorted(standing))
            found = {(gone, result["id"]) for result in engine.get(gone).latest(1_000)}
            assert found == {pair for pair in expected.matches if pair[0] == gone}
            engine.drop(gone)
            del standing[gone]
    ran = told(engine)
    assert ran.matches == {pair for pair in expected.matches if pair[0] in standing}
    assert ran.dead == expected.dead


def test_filters_of_dropped_queries_make_room(monkeypatch):
    monkeypatch.setattr("eddyline.filters.stage.LEAST_WORN", 8)
    monkeypatch.setattr(filter_pool, "MOST_FILTERS", 12)
    engine = opened(RoutingOptions(AUTO, profile_rate=0.5))
    engine.query("SELECT id FROM s WHERE law_fine(id, t) AND law_root(id, x) > 1D", name="stays")
    rows = random_rows(60, seed=4)
    largest = 0
    for number in range(40):
        tree = And((scaled_below(2.0, number / 10), root_above(number / 20)))
        engine.query(f"SELECT id FROM s WHERE {sql_of(tree)}", name="passing")
        pushed(engine, [{**row, "id": row["id"] + 1000 * number} for row in rows])
        found = {result["id"] - 1000 * number for result in engine.get("passing").latest(1_000)}
        assert found == {row for _, row in expected_of({"": tree}, rows).matches}
        engine.drop("passing")
        ((_, stage),) = engine.rounds.stages()
        largest = max(largest, len(stage.router.keys))
        assert len(stage.router.keys) >= 2
    assert 4 < largest <= 12
    assert {result["id"] % 1000 for result in engine.get("stays").latest(1_000_000)} == {
        row for _, row in expected_of({"": And((is_fine(), root_above(1.0)))}, rows).matches
    }


# --------------------------------------------------------------------------------------------- exact counts

N_FLAGS = 6
SEEN: list[tuple[int, int]] = []  # filter, row: in the order of calls
FLAGS = [
    eddyline.udf(returns="boolean", name=f"law_flag_{k}", scalar=True, version="1")(
        lambda id_, bits, k=k: _flag(k, id_, bits)
    )
    for k in range(N_FLAGS)
]


def _flag(k: int, id_: int, bits: int) -> bool:
    SEEN.append((k, id_))
    if bits >> (N_FLAGS + k) & 1:
        raise ValueError("spoiled")
    return bool(bits >> k & 1)


SETS = [[0, 1, 2], [2, 3], [1, 4, 5], [0, 5], [3], [0, 1, 2, 3, 4, 5]]


def flag_engine(options: RoutingOptions) -> eddyline.Engine:
    engine = eddyline.open(results_per_query=1_000_000)
    engine.rounds.routing = options
    engine.stream("s", "id BIGINT, n BIGINT")
    for number, filters in enumerate(SETS):
        where = " AND ".join(f"law_flag_{k}(id, n)" for k in filters)
        engine.query(f"SELECT id FROM s WHERE {where}", name=f"q{number}")
    return engine


def flag_rows(n: int, seed: int) -> list[tuple[int, int]]:
    rng = random.Random(seed)
    rates = [0.9, 0.3, 0.6, 0.5, 0.8, 0.2]
    made = []
    for row in range(n):
        bits = sum(1 << k for k in range(N_FLAGS) if rng.random() < rates[k])
        spoiled = sum(1 << k for k in range(N_FLAGS) if rng.random() < 0.03)
        made.append((row, bits | spoiled << N_FLAGS))
    return made


def answer(bits: int, k: int) -> Any:
    return ERROR if bits >> (N_FLAGS + k) & 1 else bool(bits >> k & 1)


def flag_of(key: str) -> int:
    return int(re.search(r"law_flag_(\d)", key).group(1))


def asking(policy):
    return lambda *state: policy.next(RowGroup(*state))


@pytest.mark.parametrize("policy", [AUTO, *sorted(POLICIES)])
def test_without_sampling_functions_run_exactly_where_and_when_a_row_alone_would_run_them(policy):
    """The policy was taught by sampled rows before."""
    engine = flag_engine(RoutingOptions(policy, profile_rate=1.0, small_group=0))
    engine.push("s", flag_rows(300, seed=1))
    engine.push("s", flag_rows(300, seed=2))
    ((_, stage),) = engine.rounds.stages()
    stage.router._profile_rate = 0.0
    for seed in (3, 4):
        routing = pickle.loads(pickle.dumps(stage.router.routing()))
        flags = [flag_of(key) for key in routing.keys]
        SEEN.clear()
        rows = flag_rows(200, seed)
        engine.push("s", rows)
        for id_, bits in rows:
            said = [answer(bits, flag) for flag in flags]
            sequence, _ = walked_alone(routing.classes, said.__getitem__, asking(routing.policy))
            assert [k for k, row in SEEN if row == id_] == [flags[k] for k in sequence]


@pytest.mark.parametrize("policy", [AUTO, *sorted(POLICIES)])
def test_sampled_evaluations_are_counted_apart_and_nothing_runs_twice(policy):
    engine = flag_engine(RoutingOptions(policy, profile_rate=0.2, small_group=64))
    counted = 0
    for seed in range(3):
        SEEN.clear()
        engine.push("s", flag_rows(300, seed))
        assert len(SEEN) == len(set(SEEN))
        ((_, stage),) = engine.rounds.stages()
        totals = stage.router.totals
        assert len(SEEN) == totals.n_asked_rows + totals.n_extra - counted
        counted = totals.n_asked_rows + totals.n_extra
    if policy in ("fixed", "random"):  # learn nothing, so nothing is sampled
        assert totals.n_extra == 0
    else:
        assert totals.n_extra > 0


def test_naive_evaluation_would_have_made_several_times_the_calls():
    engine = flag_engine(RoutingOptions(AUTO))
    rows = flag_rows(1_000, seed=6)
    SEEN.clear()
    for first in range(0, 1_000, 250):
        engine.push("s", rows[first : first + 250])
    naive = 0
    for _, bits in rows:
        for filters in SETS:
            for k in filters:
                naive += 1
                if answer(bits, k) is False:
                    break
    assert len(SEEN) < 0.6 * naive
