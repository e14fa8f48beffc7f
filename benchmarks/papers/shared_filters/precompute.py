"""What does storing the best nodes of the decision tree save of choosing?

Claim     the expected overhead never grows with the number of stored nodes, and is what the best nodes there are leave over
Baseline  no node stored: each row chooses at each node
Paper     Precompute stores the M nodes of largest Pr * o, found with at most 2M + 1 choices, optimal among all sets of M

Overhead in the model is 1 a choice, and once the number of filters to choose from; measured is the time rows take that walk one
by one and choose anew where nothing is stored (recipe X7).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.harness import Benchmark, main
from benchmarks.papers.shared_filters._decision_trees import Choice, n_waiting, precompute, while_needed
from benchmarks.papers.shared_filters._instances import Instance, one_row, random_instance
from eddyline.routing.policy import RowGroup
from eddyline.routing.shared_greedy import SharedGreedy


def stored_else(stored: dict[RowGroup, int], choice: Choice) -> Choice:
    def chosen(group: RowGroup) -> int | None:
        found = stored.get(group)
        return choice(group) if found is None else found

    return chosen


def run(bench: Benchmark) -> None:
    rng = np.random.default_rng(bench.seed)
    n_filters = bench.size(full=12, quick=7)
    instance: Instance = random_instance(rng, n_filters, 2 * n_filters, (3, 3))
    filters = instance.filters
    policy = SharedGreedy(filters, **instance.known)
    anew = while_needed(filters, policy.decide)
    items = instance.rows(bench.size(full=2_000, quick=100), rng).tolist()

    def walk(stored: dict[RowGroup, int]) -> Callable[[], int]:
        choice = stored_else(stored, anew)
        return lambda: sum(len(one_row(filters, choice, item)) for item in items)

    grown, off = 0, 0.0
    too_many, asked = 0, []

    def counting(group: RowGroup) -> int | None:
        asked.append(group)
        return anew(group)

    for what, overhead in (("constant", lambda _: 1.0), ("filters to choose from", n_waiting(filters))):
        everything = precompute(filters, anew, policy.pass_rate, most=None, overhead=overhead)
        worth = sorted((node.saves for node in everything), reverse=True)
        sizes = [0, *(4**k for k in range(20) if 4**k < len(everything)), len(everything)]
        before = float("inf")
        stored_of: dict[int, dict[RowGroup, int]] = {}
        left_of: dict[int, float] = {}
        for most in sizes:
            asked.clear()
            nodes = precompute(filters, counting, policy.pass_rate, most=most, overhead=overhead)
            too_many += len(asked) > 2 * most + 1
            left_of[most] = left = max(0.0, sum(worth) - sum(node.saves for node in nodes))
            grown += left > before + 1e-9
            off = max(off, abs(left - sum(worth[most:])))
            before = left
            stored_of[most] = {node.group: node.filter for node in nodes}
        timed = bench.interleaved(
            {str(most): walk(stored) for most, stored in stored_of.items()}, repetitions=3, same=int
        )
        for most in sizes:
            row_us = 1e6 * timed[str(most)].median_s / len(items)
            bench.row(overhead=what, stored=most, expected_overhead=left_of[most], row_us=row_us)
        bench.claim(f"row_us_all_stored_over_none, {what}", _ratio(timed, sizes), "reported")
    bench.claim("precompute_overhead_grew", grown, "recomputed")
    bench.claim("precompute_off_the_best_nodes", round(off, 9), "recomputed")
    bench.claim("precompute_more_than_2m_plus_1_choices", too_many, "recomputed")


def _ratio(timed: dict, sizes: list[int]) -> float:
    return timed[str(sizes[-1])].median_s / timed["0"].median_s


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=7)
