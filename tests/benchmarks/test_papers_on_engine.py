"""What the papers' figures are counted by: functions that count, rows pushed to an engine, and the report of what came of it."""

from __future__ import annotations

import tomllib
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from benchmarks import papers_report
from benchmarks.__main__ import scripts
from benchmarks._line_plots import line_plot
from benchmarks.harness import ROOT, Benchmark, Claim, is_held, name_of
from benchmarks.papers._pushed import CountedEngine, declared
from benchmarks.papers.cacq import routing, sources, ticket_adaptation
from benchmarks.papers.filter_ordering import adaptivity, overhead, tables, traps, unequal_costs
from benchmarks.papers.filter_ordering.simulated_traps import VALUES, independence_trap
from benchmarks.papers.filter_ordering.traps import settled
from benchmarks.papers.shared_filters import adaptivity_gap, sharing
from benchmarks.papers.shared_filters._instances import gap

RATES = np.array([0.9, 0.5, 0.7, 0.2])


def drawn(n_rows: int) -> np.ndarray:
    return np.random.default_rng(7).random((n_rows, 4)) < RATES


def entered(passes: np.ndarray, order: tuple[int, ...]) -> list[int]:
    """How many rows enter each filter of an order: one by one, up to the first that drops the row."""
    counts = [0] * len(order)
    for row in passes.tolist():
        for k in order:
            counts[k] += 1
            if not row[k]:
                break
    return counts


# --------------------------------------------------------------------------------------------- counting


@pytest.mark.parametrize("policy", ["auto", "a_greedy", "sweep", "shared_greedy", "tickets", "random"])
def test_what_functions_count_is_what_explain_counts(policy):
    with CountedEngine(4, declared(policy), seed=3) as counted:
        made = counted.ask((0, 1, 2, 3), (1, 3), (2, 0)).push(drawn(2_400), push_rows=400)
        explained = counted.engine.explain_filters("s")
    facts = explained.as_dict()["streams"][0]
    assert str(explained).splitlines()[0].endswith(", at declared costs")
    assert made.calls.sum() == facts["n_evaluations"] + facts["n_sampled_evaluations"]
    assert made.needed.sum() == facts["n_evaluations"]
    assert (made.needed <= made.calls).all()
    assert facts["n_sampled_evaluations"] > 0 or policy == "random"


def test_a_fixed_order_makes_the_calls_of_each_row_alone():
    passes = drawn(1_000)
    with CountedEngine(4, "fixed") as counted:
        made = counted.ask((2, 0, 3, 1)).push(passes, push_rows=300)
    assert made.calls.sum(axis=0).tolist() == entered(passes, (2, 0, 3, 1))
    assert made.rows.tolist() == [300, 300, 300, 100]
    assert made.extra_cost() == 0
    assert made.needed_cost([1, 10, 1, 1]) == pytest.approx(
        made.needed_cost() + 9 * made.calls[:, 1].sum() / 1_000
    )
    assert made.from_row(300, 900).rows.tolist() == [300, 300]


@pytest.mark.parametrize("policy", ["a_greedy", "independent", "sweep", "local_swaps"])
def test_a_sampled_row_makes_the_extra_calls_of_the_paper(policy):
    """All filters behind the one that dropped the row; of Sweep and LocalSwaps one at most."""
    passes = drawn(3_000)
    with CountedEngine(4, declared(policy, 1.0)) as counted:
        made = counted.ask(range(4)).push(passes, push_rows=500)
    for push in range(1, 6):
        rows, order = passes[500 * push : 500 * push + 500], made.orders[push - 1]
        needed = entered(rows, order)
        assert made.needed[push].tolist() == needed
        extra = made.calls[push] - made.needed[push]
        n_dropped = int((~rows.all(axis=1)).sum())
        if policy in ("a_greedy", "independent"):
            assert extra.tolist() == [n_dropped + int(rows.all(axis=1).sum()) - n for n in needed]
        else:
            assert 0 < extra.sum() <= n_dropped


def test_runs_at_declared_costs_repeat_to_the_last_call():
    passes = drawn(4_000)
    runs = []
    for _ in range(2):
        with CountedEngine(4, declared("auto"), costs=(1, 3, 2, 1), seed=5) as counted:
            runs.append(counted.ask(range(4), (0, 2), (3, 1)).push(passes, push_rows=500))
    assert (runs[0].calls == runs[1].calls).all()
    assert runs[0].orders == runs[1].orders


def test_few_rows_of_dear_functions_go_by_their_answers_to_the_end():
    """Twenty rows a push: groups of one row, each worth a decision where a call takes 100 us."""
    instance = gap(6)
    passes = instance.rows(9_000, np.random.default_rng(7))
    with CountedEngine(12, declared("shared_greedy"), costs=instance.cost) as counted:
        counted.ask_all(instance.filters).push(passes[:8_000], push_rows=2_000)
        made = counted.push(passes[8_000:], push_rows=20)
    n_needed = int(passes[8_000:, :6].sum())  # a dear function for each group whose free one is true
    assert n_needed <= made.needed[:, 6:].sum() <= 1.02 * n_needed


@pytest.mark.parametrize(("policy", "calls"), [("a_greedy", 1.49), ("independent", 2.47)])
def test_a_policy_alone_learns_from_a_push_as_a_whole(policy, calls):
    """Rows come in the order of their values: by a part of a push policies would be misled."""
    pushed = settled(policy, independence_trap(4), cycles=30)
    assert pushed.from_row(29 * len(VALUES)).needed_cost() == pytest.approx(calls)


def test_a_plan_that_learns_gives_the_results_of_a_fixed_one():
    passes = drawn(2_000)
    found = []
    for policy in ("fixed", "sweep"):
        with CountedEngine(4, declared(policy, 0.5 if policy == "sweep" else None)) as counted:
            counted.ask(range(4)).push(passes, push_rows=250)
            found.append(sum(query.n_results for query in counted.engine.queries()))
    assert found == [int(passes.all(axis=1).sum())] * 2


# --------------------------------------------------------------------------------------------- the scripts

NEED_SIZE = {  # claims that quick sizes may miss
    "engine_convergence",
    "engine_convergence_by_selectivity",
    "engine_convergence_by_correlation",
    "engine_unequal_costs_points_off",
    "engine_unequal_costs_settled",
    "engine_calls_after_auto",
    "engine_routing_auto",
    "engine_routing_random",
    "engine_sources_16_over_1",
    "engine_table2_standard_errors_off",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        routing,
        ticket_adaptation,
        sources,
        tables,
        traps,
        overhead,
        unequal_costs,
        adaptivity,
        adaptivity_gap,
        sharing,
    ],
    ids=lambda script: script.__name__.partition("papers.")[2],
)
def test_what_a_script_claims_holds_in_small_where_size_does_not_matter(script):
    bench = Benchmark("papers/small", seed=7, is_quick=True)
    script.run(bench)
    missed = [claim.name for claim in bench.claims if not claim.holds and claim.name not in NEED_SIZE]
    assert bench.rows
    assert not missed


# --------------------------------------------------------------------------------------------- the report


def test_every_benchmark_of_a_paper_is_in_the_report_once():
    papers = tomllib.loads(papers_report.FIGURES.read_text(encoding="utf-8"))
    listed = [
        f"papers/{paper}/{benchmark}"
        for paper, about in papers.items()
        for figure in about["figures"]
        for benchmark in figure["benchmarks"]
    ]
    assert sorted(listed) == sorted(name_of(path) for path in scripts("papers"))


def test_the_page_is_what_the_kept_results_say():
    made, plots = papers_report.page(papers_report.RESULTS, "images/papers")
    text = papers_report.PAGE.read_text(encoding="utf-8")
    assert text.partition(papers_report.BEGINS)[1:] == (
        papers_report.BEGINS,
        made.removeprefix(papers_report.BEGINS),
    )
    kept = {path.name: path.read_text(encoding="utf-8") for path in papers_report.IMAGES.glob("*.svg")}
    assert kept == plots, "run: make papers, or python -m benchmarks.papers_report"


@pytest.mark.parametrize(
    ("bounds", "in_part", "said"),
    [
        ([("<= 1", 1)], False, "shown"),
        ([("<= 1", 1), ("reported", 9)], True, "shown in part"),
        ([("<= 1", 2), ("= 3", 3)], True, "not shown: `c0`"),
        ([("reported", 1), ("recomputed", 2)], False, "reported"),
        ([("recomputed", 2)], False, "recomputed"),
    ],
)
def test_a_verdict_is_that_of_the_claims_that_gate(bounds, in_part, said):
    claims = [
        Claim(f"c{k}", value, bound, is_held(value, bound), "") for k, (bound, value) in enumerate(bounds)
    ]
    assert papers_report.verdict(claims, in_part=in_part) == said


def test_a_plot_has_a_line_for_each_name_and_is_the_same_each_time():
    lines = {"a & b": [(1, 2.0), (3, 4.0)], "c": [(1, 0.5), (2, 0.25)]}
    svg = line_plot("Calls <a row>", "rows", "calls", lines)
    assert svg == line_plot("Calls <a row>", "rows", "calls", lines)
    root = ElementTree.fromstring(svg)
    space = "{http://www.w3.org/2000/svg}"
    texts = [each.text for each in root.iter(f"{space}text")]
    assert {"Calls <a row>", "rows", "calls", "a & b", "c"} <= set(texts)
    paths = [each for each in root.iter(f"{space}path") if each.get("fill") == "none"]
    assert [each.get("d").count("L") for each in paths] == [1, 1]
    circles = [(float(each.get("cx")), float(each.get("cy"))) for each in root.iter(f"{space}circle")]
    assert all(0 < x < 640 and 0 < y < 320 for x, y in circles)
    assert circles[0][1] > circles[1][1]  # more is higher up


def test_a_plot_of_one_point_or_of_equal_ones_is_drawn():
    assert "<circle" in line_plot("one", "x", "y", {"a": [(5, 0.0)]})
    assert "<circle" in line_plot("flat", "x", "y", {"a": [(5, 7.0), (5, 7.0)]})


def test_the_report_is_below_the_words_written_by_hand():
    text = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    assert text.count(papers_report.BEGINS) == 1
    assert "| paper | module | used | differs |" in text.partition(papers_report.BEGINS)[0]
