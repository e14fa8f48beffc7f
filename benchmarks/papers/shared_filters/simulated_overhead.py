"""From which filter cost on does choosing per row pay for itself?

Claim     reported: the cost of a filter from which Greedy, with and without stored decisions, is ahead of a fixed order
Baseline  a fixed order by rank, walked the same way row by row, which chooses nothing
Control   filters of 1 µs: there the fixed order should be ahead of Greedy that decides anew for each row
Paper     "as filter costs rise adaptivity pays despite its overhead"; its motivating filter finds faces, half a second an image

A model: filters of equal cost, so evaluations and choosing add up. Evaluations are counted; the seconds a row takes beside them
are measured on rows that walk one by one in Python with results at hand. How the engine walks whole batches, and what that costs,
is measured elsewhere. To see that the sum holds, one point is run with filters that spin for their cost (recipe X6).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.harness import Benchmark, cpu, main
from benchmarks.papers.shared_filters._decision_trees import Choice, while_needed
from benchmarks.papers.shared_filters._instances import Instance, gap, one_row, random_instance
from eddyline.routing.fixed_greedy import ranked_filters
from eddyline.routing.shared_greedy import SharedGreedy

COSTS_S = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
SPUN_S = 2e-4


def walkers(instance: Instance) -> dict[str, Choice]:
    """Ways to choose: an order, decisions kept, decisions made anew."""
    filters = instance.filters
    order = _best_order(instance)
    greedy = SharedGreedy(filters, **instance.known)
    orders = [(filter_, 1 << filter_, filters.members[filter_]) for filter_ in order]

    def fixed(group):
        for filter_, bit, members in orders:
            if members & group.open_classes and not group.evaluated_filters & bit:
                return filter_
        return None

    return {
        "fixed": fixed,
        "greedy stored": while_needed(filters, greedy.next),
        "greedy anew": while_needed(filters, greedy.decide),
    }


def _best_order(instance: Instance) -> tuple[int, ...]:
    """By rank, counting how many queries have the filter: the order Greedy would have without results."""
    weighed = [
        cost / max(members.bit_count(), 1)
        for cost, members in zip(instance.cost, instance.filters.members, strict=True)
    ]
    return ranked_filters(range(len(weighed)), instance.pass_rate, weighed)


def measure(bench: Benchmark, what: str, instance: Instance, rows: np.ndarray) -> dict[str, float]:
    """Filter costs from which Greedy is ahead."""
    items = rows.tolist()
    choices = walkers(instance)
    dear = [cost > 0 for cost in instance.cost]

    def walk(choice: Choice) -> Callable[[], int]:
        return lambda: sum(dear[j] for item in items for j in one_row(instance.filters, choice, item))

    timed = bench.interleaved({name: walk(choice) for name, choice in choices.items()}, repetitions=3)
    beside_s = {name: timed[name].median_s / len(items) for name in choices}
    calls = {name: (timed[name].result or 0) / len(items) for name in choices}
    for name in choices:
        rates = {f"at_{cost_s * 1e6:g}_us": 1 / (beside_s[name] + calls[name] * cost_s) for cost_s in COSTS_S}
        bench.row(workload=what, who=name, calls=calls[name], beside_us=1e6 * beside_s[name], **rates)
    saved = {name: calls["fixed"] - calls[name] for name in choices}
    return {
        name: max(0.0, beside_s[name] - beside_s["fixed"]) / saved[name] if saved[name] > 0 else float("inf")
        for name in ("greedy stored", "greedy anew")
    }


def spun(instance: Instance, rows: np.ndarray, choice: Choice) -> tuple[float, float]:
    """CPU seconds a row takes with filters that spin, and what the model says of it."""
    items = rows.tolist()
    began = cpu()
    walked = [one_row(instance.filters, choice, item) for item in items]
    beside_s = cpu() - began
    n_calls = sum(map(len, walked))
    began = cpu()
    for item in items:
        for _ in one_row(instance.filters, choice, item):
            until = cpu() + SPUN_S
            while cpu() < until:
                pass
    return (cpu() - began) / len(items), (beside_s + n_calls * SPUN_S) / len(items)


def run(bench: Benchmark) -> None:
    rng = np.random.default_rng(bench.seed)
    n_rows = bench.size(full=2_000, quick=100)
    selective = random_instance(rng, 30, 100, (3, 3))
    selective = Instance(selective.queries, (0.5 * np.array(selective.pass_rate)).tolist(), [1.0] * 30)
    structured = gap(10)
    crossings = {
        "selective": measure(
            bench, "100 queries, 30 filters, selective", selective, selective.rows(n_rows, rng)
        ),
        "gap": measure(bench, "adaptivity gap, n = 10", structured, structured.rows(n_rows, rng)),
    }
    for what, crossing in crossings.items():
        for name, cost_s in crossing.items():
            bench.claim(f"crossover_us_{what}_{name.replace(' ', '_')}", 1e6 * cost_s, "reported")
    took_s, model_s = spun(selective, selective.rows(n_rows // 10, rng), walkers(selective)["greedy stored"])
    bench.claim("spinning_filters_over_model", took_s / model_s, "reported")


if __name__ == "__main__":
    main(run, __file__, __doc__, seed=7)
