"""What users may choose of a routing policy: who has which option, within which bounds, and what becomes of it."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eddyline
from eddyline.api import open_pipeline
from eddyline.errors import PropertyError
from eddyline.joins.join_tree import JoinTree, join_tree
from eddyline.joins.probe_order import ProbeOrder
from eddyline.model import Column, JoinInput, JoinKey, Signature
from eddyline.pipeline import read_pipeline
from eddyline.routing import AUTO, POLICIES, POLICY_NAMES, FilterSet, Router, RoutingOptions, routing_options
from tests.on_workers import through_tasks


def refusal(routing: object) -> tuple[str, str]:
    with pytest.raises(PropertyError) as caught:
        routing_options(routing)
    error = caught.value
    return error.problem, f"{error.detail or ''} {error.hint or ''}".strip()


def test_every_policy_can_be_named():
    assert set(POLICY_NAMES) == {AUTO, *POLICIES}


@pytest.mark.parametrize(
    ("routing", "expected"),
    [
        ("sweep", RoutingOptions("sweep")),
        ({"policy": "sweep", "window": 200}, RoutingOptions("sweep", window=200)),
        (
            {"window": 500, "sample": 0.05, "slack": 0.8},
            RoutingOptions(AUTO, False, 0.05, window=500, slack=0.8),
        ),
        ({"policy": "tickets", "memory": 0.25}, RoutingOptions("tickets", memory=0.25)),
        ({"cost_mode": "declared", "sample": 1}, RoutingOptions(profile_rate=1.0, cost_mode="declared")),
        ({"policy": "fixed", "cost_mode": "measured"}, RoutingOptions("fixed")),
        ({}, RoutingOptions()),
    ],
)
def test_a_policy_is_named_alone_or_with_options(routing, expected):
    assert routing_options(routing) == expected


def test_an_option_of_another_policy_is_refused_with_those_the_policy_has():
    problem, help_ = refusal({"policy": "a_greedy", "memory": 0.5})
    assert problem == "routing policy a_greedy has no option memory"
    assert help_ == "It has window, sample, slack, cost_mode. It is an option of tickets."


def test_a_policy_that_learns_nothing_has_no_window():
    assert refusal({"policy": "fixed", "window": 100})[1].startswith("It has cost_mode.")


def test_whose_costs_count_is_one_of_two():
    assert refusal({"cost_mode": "clock"}) == (
        "cost_mode of routing is 'clock'",
        "Give one of measured, declared.",
    )
    assert refusal({"costmode": "declared"})[1].endswith("Did you mean cost_mode?")


def test_a_misspelt_option_is_refused_with_the_nearest_one():
    assert refusal({"policy": "sweep", "windw": 100}) == (
        "routing policy sweep has no option windw",
        "It has window, sample, slack, cost_mode. Did you mean window?",
    )


def test_a_misspelt_policy_is_refused_with_the_nearest_one():
    assert refusal({"policy": "swep"}) == ("there is no routing policy 'swep'", "Did you mean sweep?")


@pytest.mark.parametrize(
    ("option", "value", "bounds"),
    [
        ("window", 49, "Give a whole number from 50 to 100,000."),
        ("window", 100_001, "Give a whole number from 50 to 100,000."),
        ("window", 99.5, "Give a whole number from 50 to 100,000."),
        ("window", True, "Give a whole number from 50 to 100,000."),
        ("sample", 0, "Give a number from 0.0001 to 1."),
        ("sample", 1.5, "Give a number from 0.0001 to 1."),
        ("slack", 0.05, "Give a number from 0.1 to 1."),
        ("slack", "high", "Give a number from 0.1 to 1."),
    ],
)
def test_a_value_out_of_bounds_is_refused_with_the_bounds(option, value, bounds):
    assert refusal({"policy": "a_greedy", option: value}) == (f"{option} of routing is {value!r}", bounds)


def test_what_is_no_policy_at_all_is_refused_with_an_example():
    assert refusal(7)[0] == "routing is 7"


# --------------------------------------------------------------------------------------------- what becomes of them


def settings(options: RoutingOptions) -> dict[str, dict[str, Any]]:
    router = Router(options.policy, profile_rate=options.profile_rate, options=options)
    return {name: policy.settings() for name, policy in router._candidates.items()}


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_policy_has_its_options(policy):
    options = RoutingOptions(policy, window=70, slack=0.5, memory=0.25)
    (found,) = settings(options).values()
    expected = options.settings(policy)
    assert {name: found[name] for name in expected} == expected
    assert bool(expected) == (policy not in ("fixed", "random"))


def test_those_that_compete_have_what_each_knows():
    found = settings(RoutingOptions(AUTO, window=70, slack=0.5))
    assert (found["a_greedy"]["window_rows"], found["a_greedy"]["slack"]) == (70, 0.5)
    assert (found["sweep"]["stage_rows"], found["sweep"]["slack"]) == (70, 0.5)
    assert found["shared_greedy"]["window_rows"] == 70


def test_a_window_smaller_than_what_is_usually_judged_by_is_judged_when_it_is_full():
    (found,) = settings(RoutingOptions("a_greedy", window=50)).values()
    assert found["min_fill"] == 50


def test_options_stay_when_filters_come():
    router = Router("a_greedy", options=RoutingOptions("a_greedy", window=70, slack=0.5))
    router._filters = FilterSet((frozenset({0}),), 1)
    router.keys, router.classes, router._cores = ["f"], [frozenset({0})], ["f"]
    router._costs.widen([1e-6])
    router._rebuild({})
    assert router.incumbent.settings()["window_rows"] == 70


def star() -> JoinTree:
    keys = tuple(JoinKey(0, k, Column(pa.int8(), f"k{k}"), Column(pa.int8(), "x")) for k in (1, 2))
    return join_tree(Signature("star", tuple(JoinInput(f"s{k}") for k in range(3)), keys), 0)


def test_probes_of_joins_have_the_same_options():
    options = RoutingOptions("a_greedy", profile_rate=1.0, window=60)
    order = ProbeOrder(star(), "a_greedy", seed=1, options=options)
    assert order.sample(10) == 10
    matched = np.ones((200, 3), dtype=bool)
    matched[:, 2] = False  # the second probe drops all rows
    order.profile(matched)
    assert order.snapshot()["sampled_rows"] == 60
    assert order.current_order == (2, 1)


def test_tickets_of_probes_are_remembered_as_long_as_chosen():
    shares = {}
    for memory in (0.01, 1.0):
        order = ProbeOrder(star(), "tickets", seed=1, options=RoutingOptions("tickets", memory=memory))
        for dropping in (1, 2):  # first one probe drops rows, then the other
            for _ in range(20):
                passed = np.array([0, 100, 100])
                passed[dropping] = 0
                order.learn((1, 2), np.array([0, 100, 100]), passed, np.zeros(3))
        facts = order.snapshot()
        shares[memory] = facts["share"][facts["order"].index(1)]
    assert shares[0.01] < 0.05  # what was won long ago is gone
    assert shares[1.0] == pytest.approx(0.5, abs=0.01)


# --------------------------------------------------------------------------------------------- through the engine


@eddyline.udf(returns="boolean", takes=("bigint",))
def is_even(value: int) -> bool:
    return value % 2 == 0


@eddyline.udf(returns="boolean", takes=("bigint",))
def is_third(value: int) -> bool:
    return value % 3 == 0


CHOSEN = {"policy": "a_greedy", "window": 60, "sample": 1.0, "slack": 0.8}


def fed(engine: eddyline.Engine, first: int = 0) -> None:
    engine.push("a", {"v": list(range(first, first + 100))})


def declared(engine: eddyline.Engine) -> eddyline.Engine:
    engine.stream("a", "v BIGINT")
    engine.query("SELECT v FROM a WHERE is_even(v) AND is_third(v)", name="both")
    return engine


def test_explain_shows_what_was_chosen():
    with declared(eddyline.open(routing=CHOSEN)) as engine:
        fed(engine)
        (facts,) = engine.explain_filters("a").as_dict()["streams"]
        assert facts["options"] == {"window": 60, "sample": 1.0, "slack": 0.8}
        assert facts["sample_rate"] == 1.0
        assert "ordered by a_greedy (window 60, sample 1, slack 0.8)" in str(engine.explain_filters("a"))


def test_without_options_explain_names_the_policy_alone():
    with declared(eddyline.open(routing="a_greedy")) as engine:
        fed(engine)
        assert "ordered by a_greedy\n" in f"{engine.explain_filters('a')}\n"


def test_open_refuses_what_the_policy_does_not_have():
    with pytest.raises(PropertyError, match="routing policy fixed has no option slack"):
        eddyline.open(routing={"policy": "fixed", "slack": 0.5})


def test_a_home_that_is_opened_again_has_the_options_it_is_opened_with(tmp_path):
    for _ in range(2):
        with eddyline.open(tmp_path / "home", routing=CHOSEN) as engine:
            if not engine.queries():
                declared(engine)
            fed(engine)
            policy = engine.rounds.flow.filters.of("a").router.incumbent
            assert (policy.settings()["window_rows"], policy.settings()["slack"]) == (60, 0.8)


def test_tasks_sample_as_chosen_and_the_driver_learns_from_it(tmp_path):
    with declared(eddyline.open(tmp_path / "home", routing=CHOSEN)) as engine:
        through_tasks(engine, n_pieces=2)
        fed(engine)
        fed(engine, 100)
        router = engine.rounds.flow.filters.of("a").router
        assert router.routing().rate == 1.0
        assert router.snapshot()["evidence"]["rows"] == 60
        assert router.incumbent.settings()["slack"] == 0.8


def test_options_can_be_sent_to_workers():
    assert pickle.loads(pickle.dumps(routing_options(CHOSEN))) == routing_options(CHOSEN)


@pytest.mark.parametrize(
    "text",
    [
        '[engine]\nrouting = { policy = "a_greedy", window = 60, sample = 1.0, slack = 0.8 }\n',
        '[engine.routing]\npolicy = "a_greedy"\nwindow = 60\nsample = 1.0\nslack = 0.8\n',
    ],
)
def test_a_pipeline_file_has_the_same_options(tmp_path, text):
    stream = '[streams.a]\nschema = "v BIGINT"\n'
    pipeline = read_pipeline(text + stream, tmp_path / "eddyline.toml")
    with open_pipeline(pipeline) as engine:
        assert engine.rounds.routing == routing_options(CHOSEN)
