"""The worked examples of filter_ordering.json, exactly."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from eddyline.joins.join_tree import join_tree
from eddyline.joins.plan import Drivers
from eddyline.joins.probe_order import ProbeOrder
from eddyline.joins.probing import ProbeOrigin
from eddyline.joins.stem import Stem
from eddyline.joins.stem_rows import StoredRows
from eddyline.model import NO_TIME, Column, JoinInput, JoinKey, Signature
from eddyline.routing import AGreedy, FilterSet, Profile, Statistics, independent, local_swaps, sweep
from eddyline.routing.a_greedy import first_violation, matrix_view, reoptimized_order
from eddyline.routing.dropped_rows import DroppedRows, column_bits
from eddyline.routing.in_order import moved_order, swapped_order
from tests.oracles import filter_ordering as oracle
from tests.oracles.greedy_order import greedy_order, pipeline_cost

pytestmark = pytest.mark.vectors

FOLDER = Path(os.environ.get("EDDYLINE_VECTORS") or Path(__file__).parent / "vectors")
FILE = FOLDER / "filter_ordering.json"
CASES: list[dict[str, Any]] = json.loads(FILE.read_text())["cases"] if FILE.exists() else []
RUN = {
    "ordering_cost": 6,
    "matrix_view": 8,
    "view_update": 3,
    "agreedy_step": 22,
    "static_greedy": 11,
    "independent_step": 6,
    "sweep_step": 8,
    "localswaps_step": 10,
    "agreedy_replay": 4,
    "star_probe": 3,
}


def cases(kind: str) -> list[Any]:
    return [
        pytest.param(case["input"], case["expected"], id=case["id"]) for case in CASES if case["kind"] == kind
    ]


def bits_of(rows: list[list[int]], n: int) -> np.ndarray:
    return np.array(rows, dtype=bool).reshape(len(rows), n)


def whole(view: list[list[int]]) -> list[list[int | None]]:
    """A view with nothing below its diagonal, as the file writes it."""
    return [[None] * at + row for at, row in enumerate(view)]


@pytest.mark.skipif("EDDYLINE_VECTORS" in os.environ, reason="other vectors than the kept ones")
def test_every_case_is_run():
    assert Counter(case["kind"] for case in CASES) == RUN


@pytest.mark.parametrize(("given", "expected"), cases("ordering_cost"))
def test_an_order_costs_what_it_should(given, expected):
    rows = bits_of(given["rows"], len(given["t"]))
    found = pipeline_cost(given["order"], rows, given["t"], np.array(given["weights"], float))
    assert found == pytest.approx(expected["cost"]["num"] / expected["cost"]["den"], rel=1e-12)
    assert oracle.cost(given["order"], given["rows"], given["t"], given["weights"]) == pytest.approx(found)


@pytest.mark.parametrize(("given", "expected"), cases("static_greedy"))
def test_greed_picks_the_order_it_should(given, expected):
    rows, weights = bits_of(given["rows"], len(given["t"])), np.array(given["weights"], float)
    order = greedy_order(rows, given["t"], given["start"], weights)
    assert list(order) == expected["order"]
    found = pipeline_cost(order, rows, given["t"], weights)
    assert found == pytest.approx(expected["cost"]["num"] / expected["cost"]["den"], rel=1e-12)
    best = expected["optimal_cost"]
    if len(given["t"]) <= 6:
        least = oracle.least_cost(given["rows"], given["t"], given["weights"])
        assert (least.numerator, least.denominator) == (best["num"], best["den"])


@pytest.mark.parametrize(("given", "expected"), cases("matrix_view"))
def test_the_matrix_view_is_what_it_should_be(given, expected):
    window, order = given["window"], given["order"]
    columns = column_bits(bits_of(window, len(order)))
    assert whole(matrix_view(columns, order, (1 << len(window)) - 1)) == expected["V"]
    assert oracle.view(order, window) == expected["V"]


@pytest.mark.parametrize(("given", "expected"), cases("view_update"))
def test_rows_come_into_the_window_and_the_oldest_leave(given, expected):
    order = given["order"]
    window = DroppedRows(len(order), given["window_size"])
    views = []
    for row in given["inserts"]:
        window.append(bits_of([row], len(order)))
        window.check()
        views.append(whole(matrix_view(window.columns, order, window.all)))
    assert views == expected["V_after_each"]


@pytest.mark.parametrize(("given", "expected"), cases("agreedy_step"))
def test_a_greedy_finds_and_mends_violations(given, expected):
    order, window, costs, slack = given["order"], given["window"], given["a"], given["alpha"]
    columns, rows = column_bits(bits_of(window, len(order))), (1 << len(window)) - 1
    assert whole(matrix_view(columns, order, rows)) == expected["V_before"]
    assert first_violation(columns, rows, order, costs, slack, 0) == expected["violation"]
    after, changes = reoptimized_order(columns, rows, order, costs, slack)
    assert list(after) == expected["order"]
    assert whole(matrix_view(columns, after, rows)) == expected["V_after"]
    assert [change.at for change in changes][:1] == [expected["violation"]] * bool(changes)
    assert oracle.violations(after, window, costs, slack) == []


@pytest.mark.parametrize(("given", "expected"), cases("independent_step"))
def test_independent_sorts_by_drops_per_second(given, expected):
    order, costs, slack = given["order"], given["a"], given["alpha"]
    drops = bits_of(given["window"], len(order)).sum(axis=0).tolist()
    assert [drops[k] for k in order] == expected["row1"]
    violated = independent.first_violation(drops, order, costs, slack)
    assert violated == expected["violation"]
    after = order if violated is None else independent.sorted_order(drops, order, costs)
    assert list(after) == expected["order"]


@pytest.mark.parametrize(("given", "expected"), cases("sweep_step"))
def test_sweep_moves_the_examined_filter(given, expected):
    order, costs, examined = given["order"], given["a"], given["j"]
    records = np.array(given["records"]).reshape(-1, 2)
    own, rival = sweep.record_counts(records[:, 0], records[:, 1].astype(bool), examined)
    assert (own, rival) == (expected["diag"], expected["col"])
    at = sweep.first_violation(own, rival, order, costs, given["alpha"])
    assert at == expected["violation"]
    assert list(order if at is None else moved_order(order, examined, at)) == expected["order"]


@pytest.mark.parametrize(("given", "expected"), cases("localswaps_step"))
def test_local_swaps_swaps_neighbours(given, expected):
    order, costs = given["order"], given["a"]
    records = np.array(given["records"]).reshape(-1, 2)
    no_swaps = np.zeros(len(records), np.int64)
    own, neighbour = local_swaps.record_counts(
        records[:, 0], records[:, 1].astype(bool), no_swaps, np.zeros(len(order), np.int64)
    )
    assert (own, neighbour) == (expected["diag"], expected["superdiag"])
    at = local_swaps.first_violation(own, neighbour, order, costs, given["alpha"])
    assert at == expected["violation"]
    assert list(order if at is None else swapped_order(order, at, at + 1)) == expected["order"]


@pytest.mark.parametrize(("given", "expected"), cases("agreedy_replay"))
def test_a_greedy_follows_a_stream(given, expected):
    n, step = len(given["order"]), given["batch"]
    statistics = Statistics.of_costs(given["a"])
    policy = AGreedy(
        FilterSet.conjunction(n),
        start=given["order"],
        statistics=statistics,
        window_rows=given["window_size"],
        slack=given["alpha"],
        min_fill=given["min_fill"],
        min_support=0,
    )
    rows, coins = bits_of(given["stream"], n), np.array(given["coins"], bool)
    changes, n_normal, n_extra, n_emitted = [], 0, 0, 0
    for first in range(0, len(rows), step):
        batch, chosen = rows[first : first + step], coins[first : first + step]
        for row, coin in zip(batch.tolist(), chosen, strict=True):
            at = oracle.walk(row, policy.order)
            n_normal += n if at is None else at + 1
            n_extra += len(policy.filters_to_sample(at)) if coin and at is not None else 0
            n_emitted += at is None
        profile = Profile(batch[chosen], np.ones_like(batch[chosen]))
        made = policy.learn(profile, statistics)
        policy.check()
        if made:
            last = first + len(batch) - 1
            changes.append({"after_tuple": last, "violation": made[0].at, "order": list(policy.order)})
    assert changes == expected["changes"]
    assert list(policy.order) == expected["final_order"]
    assert (n_normal, n_extra, n_emitted) == (
        expected["normal_evals"],
        expected["extra_evals"],
        expected["emitted"],
    )
    assert whole(policy.snapshot()["view"]) == expected["final_V"]
    assert len(policy.window) == expected["window_len"]


# --------------------------------------------------------------------------------------------- drop probing


def by_name(expression: Column, rows: pa.RecordBatch) -> pa.Array:
    return rows.column(expression.name)


class Window:
    """The rows of one input, all of which came before any driver."""

    def __init__(self, keys: list[int]) -> None:
        n = len(keys)
        self.stem = Stem(pa.schema({"x": pa.int64()}), by_name)
        self.stem.set_keys([(Column(pa.int64(), "x"),)])
        zeros, wants = np.zeros(n, np.int64), np.ones((n, 1), np.uint64)
        rows = pa.record_batch({"x": pa.array(keys, pa.int64())})
        self.stem.build(StoredRows(rows, zeros, zeros, zeros + NO_TIME, zeros, zeros, wants))

    def find(self, key, values, drivers, of):
        return self.stem.probe(key, values)


@pytest.mark.parametrize(("given", "expected"), cases("star_probe"))
def test_a_row_probes_until_nothing_is_found(given, expected):
    n = len(given["windows"])
    keys = tuple(JoinKey(0, 1 + k, Column(pa.int64(), f"k{k}"), Column(pa.int64(), "x")) for k in range(n))
    tree = join_tree(Signature("star", (JoinInput("root"),) + (JoinInput("window"),) * n, keys), 0)
    order = ProbeOrder(tree, "fixed", seed=0, start=[1 + k for k in given["order"]])
    origin = ProbeOrigin(tree, order, by_name)
    partners = {1 + k: Window(window) for k, window in enumerate(given["windows"])}
    one, sign, probes, outputs = np.ones(1, np.int64), np.ones(1, np.int8), [], []
    for values in given["tuples"]:
        row = pa.record_batch({f"k{k}": pa.array([value], pa.int64()) for k, value in enumerate(values)})
        before = origin.counters.n_probes
        drivers = Drivers(row, one, one, one, sign)
        outputs.append(sum(len(found) for found in origin.join(drivers, partners)))
        probes.append(origin.counters.n_probes - before)
    assert (probes, outputs) == (expected["probes"], expected["outputs"])
    dropped_at = [None if made else n_probed - 1 for made, n_probed in zip(outputs, probes, strict=True)]
    assert dropped_at == expected["dropped_at"]
