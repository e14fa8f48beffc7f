"""The benchmarks of routing run, in small, claim what they should, and count what they say."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from benchmarks.filters import adaptive, real_clock_flip, shared_overhead
from benchmarks.filters._drift import (
    DRIFTING,
    UNIT_S,
    Trace,
    best_order,
    best_order_per_segment_s,
    conjunction,
    neutral,
    reached,
    shared,
)
from benchmarks.filters._routed import LEVELS_S, run
from benchmarks.harness import Benchmark
from eddyline.routing.policy import FilterSet
from eddyline.routing.router import Router
from tests.oracles import shared_filters as oracle

SEED = 7


def claims_of(script) -> dict[str, str]:
    bench = Benchmark("filters/small", seed=SEED, is_quick=True)
    script.run(bench)
    assert bench.rows
    return {claim.name: claim.bound for claim in bench.claims if claim.bound != "reported"}


@pytest.mark.thorough
def test_the_traces_claim_what_they_should():
    assert claims_of(adaptive) == {
        "overhead_on_neutral": "<= 3",
        "overhead_on_neutral_shared": "<= 3",
        "auto_vs_best_in_hindsight": "<= 1.05",
        **{
            f"auto_vs_best_in_hindsight_{name}": "<= 1.05"
            for name in ("permutation", "correlation", "cost", "season")
        },
    }


@pytest.mark.thorough
def test_the_flip_claims_what_it_should_and_counts_every_call(monkeypatch):
    monkeypatch.setattr(real_clock_flip, "HALF_ROWS", {20: 400, 2_000: 2_000})
    monkeypatch.setattr(real_clock_flip, "LEAST_HALF", 400)
    assert claims_of(real_clock_flip) == {
        "real_clock_flip_calls_per_row_20": "<= 1.15",
        "real_clock_flip_rows_to_recover": "<= 5_000",
        "real_clock_flip_calls_per_row_2000": "<= 1.15",
    }
    halves = real_clock_flip.pushed("fixed", 500, 2_000, SEED)
    assert halves.ratios == pytest.approx((1.0, 3.05), rel=0.05)  # the order of the text
    assert halves.rows_to_recover() == 2_000  # it never does


@pytest.mark.thorough
def test_the_overhead_claims_what_it_should():
    assert claims_of(shared_overhead) == {"shared_overhead_ns_per_row": "<= 100"}


@pytest.mark.parametrize("made", [*DRIFTING, neutral], ids=lambda made: made.__name__)
@pytest.mark.parametrize("setting", ["one query", "shared"])
def test_a_trace_is_the_same_for_the_same_seed_and_whole(made, setting):
    one, two = (adaptive.trace_of(made, setting, 3_600, SEED) for _ in range(2))
    assert (one.passes == two.passes).all()
    assert one.ends[-1] == len(one.passes) == 3_600
    assert len(one.ends) == len(one.cost_s)
    assert one.passes.shape[1] == one.filters.n_filters == (8 if setting == "one query" else 12)


def test_the_best_order_is_the_best_of_all():
    rng = np.random.default_rng(SEED)
    filters = FilterSet((frozenset({0, 1}), frozenset({1, 2, 3}), frozenset({3})), 4)
    passes = rng.random((300, 4)) < np.array([0.9, 0.4, 0.6, 0.2])
    cost_s = np.array([1.0, 2.0, 5.0, 3.0])
    queries = [sorted(query) for query in filters.queries]

    def cost(order):
        return sum(sum(cost_s[k] for k in oracle.fixed_order_run(queries, order, row)) for row in passes)

    order = best_order(filters, passes, cost_s)
    assert cost(order) == min(cost(each) for each in permutations(range(4)))
    assert float(reached(filters, passes, order) @ cost_s) * 300 == pytest.approx(cost(order))


def test_work_is_counted_exactly_and_alike_in_every_run():
    rng = np.random.default_rng(SEED)
    trace = neutral(shared(rng), 20_000, rng)
    spent = run(trace, Router("fixed"), seed=1, batch_rows=4_096)
    share = reached(trace.filters, trace.passes, range(12))
    assert spent.useful_s == pytest.approx(20_000 * float(share.sum()) * UNIT_S)
    assert spent.overhead_s == pytest.approx(20_000 * LEVELS_S)
    assert (spent.extra_s, spent.n_extra) == (0.0, 0)
    one, two = (run(trace, Router("auto"), seed=1, batch_rows=4_096) for _ in range(2))
    assert one == two
    assert one.n_extra > 0
    assert one.extra_s == pytest.approx(one.n_extra * UNIT_S)


def test_the_best_order_of_each_segment_is_no_dearer_than_one_for_all():
    rng = np.random.default_rng(SEED)
    trace = DRIFTING[0](conjunction(), 8_000, rng)
    whole = Trace("", trace.filters, trace.passes, (8_000,), trace.cost_s[:1])
    by_segment = best_order_per_segment_s(trace, rng)
    assert by_segment < best_order_per_segment_s(whole, rng)
    assert by_segment == pytest.approx(8_000 * 1.388 * UNIT_S, rel=0.05)
