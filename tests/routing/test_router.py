"""The router of a stream: what it learns, what it says, and when it changes its mind."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from eddyline.routing import RoutingOptions
from eddyline.routing import router as router_module
from eddyline.routing.options import AUTO
from eddyline.routing.router import COMPETING, POLICIES, Router
from eddyline.routing.walk_records import priced_record, renumbered_record
from eddyline.statistics.change_detection import DENSE_RATE, DENSE_ROWS, STEADY_RATE
from tests.routing.walk_records import told

ABC = ["a", "b", "c"]
DECLARED = RoutingOptions(cost_mode="declared")
ALIKE = [1e-6] * 3
CLASS = [[0, 1, 2]]
C_DROPS = [[0, 0, 1]] * 8 + [[1, 0, 1], [0, 1, 1]]  # of ten rows


def batch(rows=C_DROPS, times=12, **options):
    """Sampled rows, and a batch in which filter c is the last to be asked."""
    return told(ABC, CLASS, **{"cost_s": ALIKE, "dropped": list(rows) * times, **options})


@pytest.mark.parametrize("name", [AUTO, *sorted(POLICIES)])
def test_every_policy_takes_in_batches_and_says_how_to_go_on(name):
    router = Router(name)
    for number in range(5):
        router.learn(batch(), number)
        router.check()
    routing = router.routing()
    assert routing.keys == tuple(ABC)
    assert routing.classes == (frozenset({0, 1, 2}),)
    assert sorted(routing.policy.current_order) == [0, 1, 2]
    assert routing.rate == (0.0 if name in ("fixed", "random") else router.rate)
    json.dumps(router.snapshot())


def test_there_is_nothing_to_sample_while_no_class_has_two_filters():
    router = Router("a_greedy")
    assert router.rate == 0.0  # nothing is known
    router.learn(told(["a", "b"], [[0], [1]], cost_s=[1e-6] * 2), 1)
    assert router.rate == 0.0
    router.learn(told(["a", "b"], [[0], [1], [0, 1]], cost_s=[1e-6] * 2), 2)
    assert router.rate == DENSE_RATE


def test_an_order_changes_with_a_reason():
    router = Router("a_greedy")
    router.learn(batch(times=0), 1)
    made = router.learn(batch(), 2)
    assert [each.kind for each in made] == ["reordered"]
    assert made[0].order == (2, 1, 0)
    assert {word: made[0].why[word] for word in ("at", "came", "left", "before")} == {
        "at": 0,
        "came": 2,
        "left": 0,
        "before": [0, 1, 2],
    }
    assert made[0].why["ratio_came"] == pytest.approx(1 / 1e-6)
    assert made[0].why["ratio_left"] == pytest.approx(0.1 / 1e-6)
    assert router.snapshot()["order"] == [2, 1, 0]
    assert [each["kind"] for each in router.snapshot()["history"]] == ["joined", "reordered"]


def test_auto_begins_with_the_first_order_and_hands_over_to_who_is_cheaper():
    router = Router(AUTO)
    assert router.incumbent.name == "fixed"
    switched = []
    for number in range(6):
        order = router.routing().policy.current_order or (0, 1, 2)
        for made in router.learn(batch(order=order), number):
            if made.kind == "switched":
                switched.append(made)
    assert switched
    assert switched[0].why["before"] == "fixed"
    assert switched[0].why["after_s"] < 0.97 * switched[0].why["before_s"]
    assert router.incumbent.name in COMPETING[:3]
    assert router.routing().policy.current_order[0] == 2
    candidates = router.snapshot()["candidates"]
    assert list(candidates) == list(COMPETING)
    assert candidates[router.incumbent.name] < candidates["fixed"]


def test_another_order_is_another_generation_and_the_same_one_is_not():
    router = Router("a_greedy")
    router.learn(batch(times=0), 1)
    first = router.routing().generation
    router.learn(batch(), 2)
    second = router.routing().generation
    assert second > first
    router.learn(batch(), 3)
    assert router.routing().generation == second


# --------------------------------------------------------------------------------------------- filters come and go


def test_new_filters_stand_last_and_what_was_learned_stays():
    router = Router("a_greedy")
    router.learn(batch(times=0), 1)
    router.learn(batch(), 2)
    wider = told([*ABC, "d"], [[0, 1, 2], [3, 0]], cost_s=[*ALIKE, 1e-7], n_rows=10)
    made = router.learn(wider, 3)
    assert [(each.kind, each.why) for each in made] == [("joined", {"filters": 1})]
    assert router.routing().policy.current_order == (2, 1, 0, 3)
    assert router.routing().keys == (*ABC, "d")
    assert len(router.sampled_rows()) == 120
    assert not router.sampled_rows().known_mask[:, 3].any()


def test_batches_of_workers_that_number_otherwise_are_understood():
    router, other = Router("a_greedy"), Router("a_greedy")
    for number in range(4):
        part = batch()
        router.learn(part, number)
        turned = renumbered_record(part, ["c", "a", "b"], [frozenset({0, 1, 2})])
        other.learn(part if number == 0 else turned, number)
    assert other.routing().policy.current_order == router.routing().policy.current_order
    assert np.array_equal(other.sampled_rows().dropped_mask, router.sampled_rows().dropped_mask)


def test_filters_nobody_has_are_forgotten_with_their_classes():
    router = Router("shared_greedy")
    rows = [[0, 0, 1], [1, 0, 0], [0, 1, 1]] * 20
    router.learn(told(ABC, [[0, 1], [1, 2], [2]], cost_s=[1e-6, 2e-6, 3e-6], dropped=rows), 1)
    router.keep(["c", "b"], [frozenset({0, 1}), frozenset({0})])
    router.check()
    assert router.keys == ["b", "c"]
    assert router.classes == [frozenset({0, 1}), frozenset({1})]
    assert router.routing().keys == ("b", "c")
    assert router.sampled_rows().dropped_mask.tolist() == [row[1:] for row in np.array(rows, bool).tolist()]
    assert set(router.sampled_rows().open_classes) == {0b11}
    assert router.statistics.cost_s.tolist() == pytest.approx([2e-6, 3e-6])
    router.learn(told(["b", "c"], [[0, 1], [1]], cost_s=[2e-6, 3e-6]), 2)
    made = router.learn(told(["b", "c", "a"], [[0, 1], [1], [2]], cost_s=[2e-6, 3e-6, 1e-6]), 3)
    assert [each.kind for each in made] == ["joined"]
    assert router.keys == ["b", "c", "a"]


def test_a_class_weighs_as_many_queries_as_stand_for_it_to_a_power_of_two():
    router = Router("shared_greedy")
    for number in range(3):
        router.learn(told(ABC, [[0, 1], [2, 1]], cost_s=ALIKE, n_pairs=[1000, 7000]), number)
    assert router.filters.weights == (1.0, 8.0)
    router.learn(told(ABC, [[0, 1], [2, 1]], cost_s=ALIKE, n_pairs=[1000, 6000]), 3)
    assert router.filters.weights == (1.0, 8.0)  # half a power is not worth new policies


# --------------------------------------------------------------------------------------------- changes of the data


def steady(router, n=40, **options):
    for number in range(n):
        router.learn(
            batch(order=router.routing().policy.current_order or (0, 1, 2), times=5, **options), number
        )


def test_a_share_that_moves_is_announced_and_sampled_rows_are_forgotten():
    router = Router("a_greedy")
    passed = [500, 500, 500]
    steady(router, n_rows=2000, passed=passed)
    assert router.rate < 2 * STEADY_RATE
    order = router.routing().policy.current_order
    made = router.learn(batch(order=order, n_rows=2000, passed=[1900, 500, 500], times=5), 41)
    assert [(each.kind, each.why["filter"], each.why["what"]) for each in made] == [
        ("drifted", 0, "pass rate")
    ]
    assert len(router.sampled_rows()) == 0
    assert router.rate == DENSE_ROWS / 2000
    assert router.routing().policy.current_order == order  # until new rows say otherwise


def test_a_cost_that_jumps_is_known_at_once_and_candidates_are_judged_again():
    router = Router(AUTO)
    rows = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]]  # alike but for what they cost
    cost_s = [1e-6, 1e-5, 1e-5]
    for number in range(80):
        router.learn(batch(rows, cost_s=cost_s, n_rows=4000, times=5), number)
    assert router.routing().policy.current_order[0] == 0
    kinds = []
    for number in range(80, 100):
        order = router.routing().policy.current_order
        made = router.learn(batch(rows, cost_s=[1e-4, 1e-5, 1e-5], n_rows=4000, times=0, order=order), number)
        kinds.append([each.kind for each in made])
        if "drifted" in kinds[-1]:
            break
    assert len(kinds) <= 18  # a few slow batches may be chance
    assert router.statistics.cost_s[0] == pytest.approx(1e-4, rel=0.01)  # but for the fixed part of a call
    assert router.routing().policy.current_order[-1] == 0
    assert len(router.sampled_rows()) > 100  # what filters say of rows is as it was


def test_the_price_of_sampling_is_remembered_through_batches_without_samples():
    router = Router("a_greedy")
    dear = {"cost_s": [1e-6, 1e-6, 1.0], "asked": [1000, 500, 1], "n_rows": 1000}
    router.learn(batch(times=0, **dear), 0)
    for number in range(1, 10):
        router.learn(batch(times=2, extra_s=20.0, **dear), number)  # a second for each sampled row
    assert router.rate < STEADY_RATE / 10
    for number in range(10, 20):
        router.learn(batch(times=0, **dear), number)
    assert router.rate < STEADY_RATE / 10


def test_judging_candidates_takes_a_share_of_what_filters_take(monkeypatch):
    charged = []

    def score(self, candidates, profile, statistics, overheads, *, most):
        charged.append(min(most, len(profile)))

    monkeypatch.setattr(router_module.Competition, "score", score)
    router = Router(AUTO)
    for number in range(60):
        router.learn(batch(n_rows=10_000, cost_s=[1e-8] * 3, times=5), number)  # 0.3 ms of filters
    assert charged[0] == 50  # at first whatever is there
    assert sum(charged[20:]) * router_module.DECIDING_S * 3 <= 41 * 0.01 * 3e-4 * 1.01  # then a hundredth
    charged.clear()
    for number in range(10):
        router.learn(batch(n_rows=10_000, cost_s=[1e-3] * 3, times=5), number)
    assert charged[-1] == 50


def test_overhead_is_charged_as_measured():
    router = Router(AUTO)
    for number in range(80):
        router.learn(replace(batch(times=1, n_rows=100_000), overhead_s=100_000 * 3e-6), number)
    costs = router.snapshot()["candidates"]
    assert costs["fixed"] == pytest.approx(2.7e-6 + 3e-6, rel=0.05)  # nine in ten rows run all three


def test_a_snapshot_says_what_it_promises():
    router = Router(AUTO)
    for number in range(3):
        router.learn(batch(), number)
    snapshot = router.snapshot()
    assert {
        "policy",
        "decides",
        "order",
        "filters",
        "classes",
        "candidates",
        "evidence",
        "sampled_rows",
        "rate",
        "n_rows",
        "n_asked",
        "n_extra",
        "seconds",
        "extra_s",
        "overhead_s",
        "history",
    } <= set(snapshot)
    assert snapshot["policy"] == AUTO
    assert snapshot["n_rows"] == 3000
    assert snapshot["n_asked"] == 9000
    assert [each["key"] for each in snapshot["filters"]] == ABC
    assert snapshot["filters"][2]["pass_rate"] < 0.01
    assert snapshot["filters"][0]["cost_s"] == pytest.approx(1e-6)


def timed(router: Router, seconds: list[float], number: int) -> None:
    """A batch in which the filters took so long on each row, whatever their functions declare."""
    router.learn(replace(batch(), seconds=1000 * np.array(seconds), overhead_s=seconds[0]), number)


def test_declared_costs_are_those_that_count_whatever_filters_took():
    router, other = Router("a_greedy", options=DECLARED), Router("a_greedy", options=DECLARED)
    for number in range(20):
        timed(router, [1e-9, 1e-6, 1.0], number)
        timed(other, [1.0, 1e-9, 1e-6], number)
        assert router.rate == other.rate
    assert router.statistics.cost_s.tolist() == other.statistics.cost_s.tolist() == ALIKE
    assert router.incumbent.current_order == other.incumbent.current_order == (2, 1, 0)
    assert all(each.kind != "drifted" for each in router.history)
    assert router.totals.seconds == pytest.approx(20_000 * 1.000001001)  # what they took is still told


def test_auto_chooses_by_declared_costs_alone():
    histories = []
    for took in ([1e-9, 1e-6, 1e-3], [1e-3, 1e-9, 1e-6]):
        router = Router(AUTO, options=DECLARED)
        for number in range(20):
            timed(router, took, number)
        histories.append((list(router.history), router.snapshot()["candidates"]))
    assert histories[0] == histories[1]
    assert any(each.kind == "switched" for each in histories[0][0])


def test_a_declared_call_that_another_filter_made_costs_nothing():
    record = replace(
        told(["f = 1", "f = 2"], [[0, 1]], cost_s=[1e-6, 2e-6], cores=["f", "f"], asked=[1000, 600]),
        follow_rows=np.array([0, 500]),
        extra=np.array([0, 10]),
    )
    priced = priced_record(record, 1e-7)
    assert priced.seconds.tolist() == pytest.approx([1e-3, 2e-4])
    assert priced.follow_seconds.tolist() == [0.0, 0.0]
    assert (priced.extra_s, priced.overhead_s) == pytest.approx((2e-5, 1e-4))


@pytest.mark.parametrize(
    ("policy", "classes", "samples_all"),
    [
        ("sweep", CLASS, False),
        ("local_swaps", CLASS, False),
        ("a_greedy", CLASS, True),
        ("sweep", [[0, 1, 2], [0, 1]], True),  # where a row was dropped says nothing of the other class
        ("shared_greedy", CLASS, True),
        (AUTO, CLASS, True),  # whatever decides now, all that compete learn
    ],
)
def test_sampled_rows_know_every_filter_unless_a_policy_for_one_class_asks_for_less(
    policy, classes, samples_all
):
    router = Router(policy)
    router.learn(told(ABC, classes, cost_s=ALIKE), 1)
    assert router.routing().samples_all is samples_all
